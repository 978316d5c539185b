/// Decision block for order keys: orders two streams by comparing numbers.
///
/// The order is that of `msr_decision_block`, rule by rule. The rules are encoded in the key, which
/// the register block has computed while the network was busy (`msr_order_key`): nothing is
/// multiplied here. Deadline and arrival wrap. Each is the most significant part of a difference,
/// whose sign then gives the order.
///
/// Latency: combinational; a subtraction of 41 bits, a gate and a multiplexer.
/// Invariant: inside the wrap-around window of `msr_pkg` this is a total order (proved in formal/).
module msr_key_block (
  input  msr_pkg::key_t a_i,
  input  msr_pkg::key_t b_i,
  /// 1: the winner is a.
  output logic          a_first_o,
  output msr_pkg::key_t winner_o,
  output msr_pkg::key_t loser_o
);

  localparam int MainW = msr_pkg::TimeW + msr_pkg::RatioW + msr_pkg::WindowW;
  localparam int LastW = msr_pkg::TimeW + msr_pkg::IdW;

  logic [MainW-1:0] main_a, main_b, main_gap, main_back;
  logic [LastW-1:0] last_a, last_b, last_gap;
  assign main_a = {a_i.deadline, a_i.ratio, a_i.tie};
  assign main_b = {b_i.deadline, b_i.ratio, b_i.tie};
  assign last_a = {a_i.arrival, a_i.id};
  assign last_b = {b_i.arrival, b_i.id};
  assign main_gap = main_a - main_b;
  assign last_gap = last_a - last_b;
  // The opposite order: neither difference is negative if they are equal.
  assign main_back = main_b - main_a;

  // The order by the second parts, if the first do not decide.
  logic both, rest;
  always_comb begin
    both = a_i.valid && b_i.valid;
    case ({a_i.valid, b_i.valid})
      2'b11: rest = last_gap[LastW-1];
      2'b00: rest = a_i.id < b_i.id;
      default: rest = a_i.valid;
    endcase
  end
  assign a_first_o = both ? main_gap[MainW-1] || (rest && !main_back[MainW-1]) : rest;
  assign winner_o = a_first_o ? a_i : b_i;
  assign loser_o = a_first_o ? b_i : a_i;

  // Only the signs of the differences are used.
  logic unused;
  assign unused = ^{main_gap[MainW-2:0], main_back[MainW-2:0], last_gap[LastW-2:0]};

endmodule
