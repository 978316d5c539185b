/// What of a stream's next state does not depend on the decision: where its deadline lies.
///
/// Latency: combinational.
module msr_stream_forecast (
  input  msr_pkg::state_t           state_i,
  /// When the decision was made that chose the stream.
  input  logic [msr_pkg::TimeW-1:0] now_i,
  /// The time up to which misses are charged: that of the decision to come.
  input  logic [msr_pkg::TimeW-1:0] time_i,
  /// The packet behind the head, if there is one.
  input  logic [msr_pkg::TimeW-1:0] packet_stamp_i,
  output msr_pkg::forecast_t        forecast_o
);

  localparam int Top = msr_pkg::TimeW - 1;

  // Ages rather than times are compared: an old packet's stamp may have wrapped against a deadline
  // that is ahead of time, never against one that is past.
  logic [msr_pkg::TimeW-1:0] ahead, late, age;
  logic past;
  assign ahead = time_i - state_i.deadline;
  assign late = now_i - state_i.deadline;
  assign age = time_i - packet_stamp_i;
  assign past = !ahead[Top];
  assign forecast_o.past = past;
  assign forecast_o.long_past = past && ahead[Top-1];
  assign forecast_o.late = !late[Top];
  assign forecast_o.from_arrival = state_i.stale || (past && age < ahead);

  logic unused;
  assign unused = ^{state_i, late[Top-1:0]};

endmodule
