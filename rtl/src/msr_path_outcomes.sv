/// Both outcomes of a command for one state of a stream: the decision serves it, or does not.
///
/// Each is computed as if the deadline were past, and as if it were not. The comparison with the
/// time, which is late, only selects. Without a command the state stays.
///
/// Latency: combinational.
module msr_path_outcomes (
  input  msr_pkg::mode_e              mode_i,
  input  logic                        rtas99_i,
  input  msr_pkg::contract_t          contract_i,
  /// A command: its decision's time, and the time up to which it charges misses.
  input  logic                        commits_i,
  input  logic [msr_pkg::TimeW-1:0]   commit_now_i,
  input  logic [msr_pkg::TimeW-1:0]   commit_time_i,
  input  msr_pkg::state_t             state_i,
  /// The first packet of the queue is the head of `state_i`.
  input  logic                        took_i,
  /// The first two packets of the queue.
  input  logic [1:0]                  front_valid_i,
  input  logic [2*msr_pkg::TimeW-1:0] front_stamp_i,
  output msr_pkg::state_t             loses_o,
  output msr_pkg::event_t             loses_event_o,
  output msr_pkg::state_t             wins_o,
  output msr_pkg::event_t             wins_event_o,
  /// The deadline is past (late), and the move of the window of a loser if it is.
  output logic                        past_o,
  output msr_pkg::move_t              miss_move_o,
  /// y' of a loser if the deadline is past.
  output logic [msr_pkg::WindowW-1:0] miss_y_o
);

  localparam int StateW = 4 + 2 * msr_pkg::TimeW + 2 * msr_pkg::WindowW;
  localparam int EventW = 8;

  logic offered;
  logic [msr_pkg::TimeW-1:0] stamp;
  assign offered = commits_i && (took_i ? front_valid_i[1] : front_valid_i[0]);
  assign stamp = took_i ? front_stamp_i[msr_pkg::TimeW +: msr_pkg::TimeW] :
                          front_stamp_i[0 +: msr_pkg::TimeW];

  msr_pkg::forecast_t forecast, if_past, if_ahead;
  msr_stream_forecast u_forecast (
    .state_i, .now_i(commit_now_i), .time_i(commit_time_i), .packet_stamp_i(stamp),
    .forecast_o(forecast)
  );
  logic past;
  assign past = forecast.past && commits_i;
  assign if_past.past = 1'b1;
  assign if_past.long_past = forecast.distant;
  assign if_past.late = forecast.late;
  assign if_past.from_arrival = state_i.stale || forecast.newer;
  assign {if_past.distant, if_past.newer} = {forecast.distant, forecast.newer};
  assign if_ahead.past = 1'b0;
  assign if_ahead.long_past = 1'b0;
  assign if_ahead.late = forecast.late;
  assign if_ahead.from_arrival = state_i.stale;
  assign {if_ahead.distant, if_ahead.newer} = {forecast.distant, forecast.newer};

  msr_pkg::state_t loses_past, loses_ahead, wins_past, wins_ahead;
  msr_pkg::event_t loses_past_event, loses_ahead_event, wins_past_event, wins_ahead_event;
  msr_stream_outcome u_loses_past (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(if_past), .serve_i(1'b0),
    .packet_valid_i(offered), .packet_stamp_i(stamp), .state_o(loses_past),
    .event_o(loses_past_event)
  );
  msr_stream_outcome u_loses_ahead (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(if_ahead), .serve_i(1'b0),
    .packet_valid_i(offered), .packet_stamp_i(stamp), .state_o(loses_ahead),
    .event_o(loses_ahead_event)
  );
  msr_stream_outcome u_wins_past (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(if_past), .serve_i(1'b1),
    .packet_valid_i(offered), .packet_stamp_i(stamp), .state_o(wins_past),
    .event_o(wins_past_event)
  );
  msr_stream_outcome u_wins_ahead (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(if_ahead), .serve_i(1'b1),
    .packet_valid_i(offered), .packet_stamp_i(stamp), .state_o(wins_ahead),
    .event_o(wins_ahead_event)
  );

  msr_late_select #(
    .W(StateW + EventW)
  ) u_select_loses (
    .late_i(past), .yes_i({loses_past, loses_past_event}),
    .no_i({loses_ahead, loses_ahead_event}), .chosen_o({loses_o, loses_event_o})
  );
  // The outcomes of a service differ only in the next deadline.
  logic [msr_pkg::TimeW-1:0] deadline;
  msr_late_select #(
    .W(msr_pkg::TimeW)
  ) u_select_wins (
    .late_i(past), .yes_i(wins_past.deadline), .no_i(wins_ahead.deadline), .chosen_o(deadline)
  );
  assign wins_o.valid = wins_ahead.valid;
  assign wins_o.deadline = deadline;
  assign wins_o.x = wins_ahead.x;
  assign wins_o.y = wins_ahead.y;
  assign wins_o.arrival = wins_ahead.arrival;
  assign wins_o.tag = wins_ahead.tag;
  assign wins_o.first = wins_ahead.first;
  assign wins_o.stale = past ? wins_past.stale : wins_ahead.stale;
  assign wins_event_o = wins_ahead_event;

  assign past_o = past;
  assign miss_move_o = loses_past_event.move;
  assign miss_y_o = loses_past.y;

  logic unused;
  assign unused = ^{forecast, wins_past, wins_past_event};

endmodule
