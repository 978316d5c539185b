/// Orders two order keys of streams with packets, as `msr_key_block` does; the lower-numbered
/// stream is known in advance (formal/).
///
/// Deadline and arrival wrap. Each is the most significant part of a difference, whose sign gives
/// the order.
///
/// Latency: combinational; a subtraction of 41 bits and a gate.
module msr_key_order (
  /// The stream with the lower number.
  input  msr_pkg::key_t a_i,
  input  msr_pkg::key_t b_i,
  output logic          a_first_o
);

  localparam int MainW = msr_pkg::TimeW + msr_pkg::RatioW + msr_pkg::WindowW;

  logic [MainW-1:0] main_a, main_b, gap, back;
  logic [msr_pkg::TimeW-1:0] arrival_back;
  assign main_a = {a_i.deadline, a_i.ratio, a_i.tie};
  assign main_b = {b_i.deadline, b_i.ratio, b_i.tie};
  assign gap = main_a - main_b;
  // Neither difference is negative if the keys are equal.
  assign back = main_b - main_a;
  assign arrival_back = b_i.arrival - a_i.arrival;
  assign a_first_o = gap[MainW-1] || (!back[MainW-1] && !arrival_back[msr_pkg::TimeW-1]);

  logic unused;
  assign unused = ^{a_i, b_i, gap[MainW-2:0], back[MainW-2:0], arrival_back[msr_pkg::TimeW-2:0]};

endmodule
