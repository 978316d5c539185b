/// Orders two order keys of streams with packets, as `msr_key_block` does; the lower-numbered
/// stream is known in advance (formal/).
///
/// Deadline and arrival wrap. Each is the most significant part of a difference, whose sign gives
/// the order.
///
/// Latency: combinational; a subtraction of 43 bits and a gate.
module msr_key_order #(
  /// Bits of a key's number: of `key_t` or, with `LogW`, of the pair core's keys.
  parameter int NumberW = msr_pkg::RatioW,
  localparam int MainW = msr_pkg::TimeW + NumberW + msr_pkg::WindowW,
  localparam int KeyW = 1 + msr_pkg::IdW + MainW + msr_pkg::TimeW
) (
  /// The key of the stream with the lower number, in the order of the fields of `key_t`.
  input  logic [KeyW-1:0] a_i,
  input  logic [KeyW-1:0] b_i,
  output logic            a_first_o
);

  logic [MainW-1:0] main_a, main_b, gap, back;
  logic [msr_pkg::TimeW-1:0] arrival_back;
  assign main_a = a_i[msr_pkg::TimeW +: MainW];
  assign main_b = b_i[msr_pkg::TimeW +: MainW];
  assign gap = main_a - main_b;
  // Neither difference is negative if the keys are equal.
  assign back = main_b - main_a;
  assign arrival_back = b_i[0 +: msr_pkg::TimeW] - a_i[0 +: msr_pkg::TimeW];
  assign a_first_o = gap[MainW-1] || (!back[MainW-1] && !arrival_back[msr_pkg::TimeW-1]);

  logic unused;
  assign unused = ^{a_i, b_i, gap[MainW-2:0], back[MainW-2:0], arrival_back[msr_pkg::TimeW-2:0]};

endmodule
