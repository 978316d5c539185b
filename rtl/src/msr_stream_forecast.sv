/// The part of a stream's next state that does not depend on the decision: the position of its
/// deadline.
///
/// Latency: combinational.
module msr_stream_forecast (
  input  msr_pkg::state_t           state_i,
  /// The time of the decision that chose the stream.
  input  logic [msr_pkg::TimeW-1:0] now_i,
  /// The time up to which misses are charged: that of the next decision.
  input  logic [msr_pkg::TimeW-1:0] time_i,
  /// The packet behind the head, if any.
  input  logic [msr_pkg::TimeW-1:0] packet_stamp_i,
  output msr_pkg::forecast_t        forecast_o
);

  localparam int Top = msr_pkg::TimeW - 1;

  // Whether the packet arrived after a past deadline: its age is less than the deadline's. An old
  // packet's stamp may have wrapped, but then its age is 2^15 or more. All differences are computed
  // in parallel.
  logic [msr_pkg::TimeW-1:0] ahead, late, age, margin;
  logic past;
  assign ahead = time_i - state_i.deadline;
  assign late = now_i - state_i.deadline;
  assign age = time_i - packet_stamp_i;
  assign margin = state_i.deadline - packet_stamp_i;
  assign past = !ahead[Top];
  assign forecast_o.past = past;
  assign forecast_o.late = !late[Top];
  assign forecast_o.distant = ahead[Top-1];
  assign forecast_o.newer = !age[Top] && margin[Top];
  assign forecast_o.long_past = past && forecast_o.distant;
  assign forecast_o.from_arrival = state_i.stale || (past && forecast_o.newer);

  logic unused;
  assign unused = ^{state_i, late[Top-1:0], age[Top-1:0], margin[Top-1:0]};

endmodule
