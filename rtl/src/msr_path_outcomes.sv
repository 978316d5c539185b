/// Both outcomes of a command for one state of a stream: the decision serves it, or does not.
///
/// Without a command the state stays.
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
  output msr_pkg::event_t             wins_event_o
);

  logic offered;
  logic [msr_pkg::TimeW-1:0] stamp;
  assign offered = commits_i && (took_i ? front_valid_i[1] : front_valid_i[0]);
  assign stamp = took_i ? front_stamp_i[msr_pkg::TimeW +: msr_pkg::TimeW] :
                          front_stamp_i[0 +: msr_pkg::TimeW];

  msr_pkg::forecast_t forecast, applied;
  msr_stream_forecast u_forecast (
    .state_i, .now_i(commit_now_i), .time_i(commit_time_i), .packet_stamp_i(stamp),
    .forecast_o(forecast)
  );
  always_comb begin
    applied = forecast;
    applied.past = forecast.past && commits_i;
    applied.long_past = forecast.long_past && commits_i;
  end

  msr_stream_outcome u_loses (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(applied), .serve_i(1'b0),
    .packet_valid_i(offered), .packet_stamp_i(stamp), .state_o(loses_o), .event_o(loses_event_o)
  );
  msr_stream_outcome u_wins (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(applied), .serve_i(1'b1),
    .packet_valid_i(offered), .packet_stamp_i(stamp), .state_o(wins_o), .event_o(wins_event_o)
  );

endmodule
