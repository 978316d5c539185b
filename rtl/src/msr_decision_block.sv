/// Decision block: orders two streams in a single cycle.
///
/// Source: ShareStreams, section 4 and Figure 8, rules of Table 1. All comparisons are made in
/// parallel (the value bus); one-hot predicates select the comparison that applies (the predicate
/// bus).
///
/// Order: a stream with a packet; earliest deadline; lowest x'/y' (x' = 0 is 0 for any y'); both
/// zero: highest y'; equal and nonzero: lowest x'; earlier arrival; lower id. Fractions are
/// compared as x'a * y'b against x'b * y'a. EDF and static mode skip the window-constraint; tag
/// mode also skips the deadline. Streams without a packet are ordered by id alone: the order must
/// not depend on the registers of an idle stream.
///
/// Latency: combinational; the longest path is two 8 x 8 multipliers, a comparator and a gate.
/// Invariant: inside the wrap-around window of `msr_pkg` this is a total order (proved in formal/).
module msr_decision_block (
  /// The discipline.
  input  msr_pkg::mode_e mode_i,
  /// Among zero window-constraints the lowest y' is first.
  input  logic           lowest_denominator_i,
  input  msr_pkg::head_t a_i,
  input  msr_pkg::head_t b_i,
  /// 1: the winner is a.
  output logic           a_first_o,
  output msr_pkg::head_t winner_o,
  output msr_pkg::head_t loser_o
);

  logic has_deadline, has_window;
  assign has_deadline = mode_i == msr_pkg::Dwcs || mode_i == msr_pkg::Edf ||
                        mode_i == msr_pkg::Static;
  assign has_window = mode_i == msr_pkg::Dwcs;

  // Value bus. Products are the most significant part; the numerator below them continues the same
  // comparison. Equality of windows is computed without the products.
  logic [msr_pkg::TimeW-1:0] deadline_gap, arrival_gap;
  logic [2*msr_pkg::WindowW-1:0] cross_a, cross_b;
  logic zero_a, zero_b, not_lower;
  assign deadline_gap = a_i.deadline - b_i.deadline;
  assign arrival_gap = a_i.arrival - b_i.arrival;
  assign cross_a = a_i.x * b_i.y;
  assign cross_b = b_i.x * a_i.y;
  assign not_lower = {cross_a, a_i.x} >= {cross_b, b_i.x};
  assign zero_a = a_i.x == '0;
  assign zero_b = b_i.x == '0;

  // Predicate bus: the first rule that distinguishes the streams.
  logic both, tied, windows, alike;
  logic by_valid, by_deadline, by_zero, by_fraction, by_denominator, by_arrival, by_id;
  assign both = a_i.valid && b_i.valid;
  assign by_valid = a_i.valid != b_i.valid;
  assign by_deadline = both && has_deadline && a_i.deadline != b_i.deadline;
  assign tied = both && !by_deadline;
  assign windows = tied && has_window && {a_i.x, a_i.y} != {b_i.x, b_i.y};
  assign by_zero = windows && zero_a != zero_b;
  assign by_denominator = windows && zero_a && zero_b;
  assign by_fraction = windows && !zero_a && !zero_b;
  assign alike = tied && !windows;
  assign by_arrival = alike && a_i.arrival != b_i.arrival;
  assign by_id = !by_valid && (!both || (alike && !by_arrival));

  logic early_first, a_first;
  assign early_first =
      (by_valid       && a_i.valid) ||
      (by_deadline    && deadline_gap[msr_pkg::TimeW-1]) ||
      (by_zero        && zero_a) ||
      (by_denominator && ((a_i.y > b_i.y) != lowest_denominator_i)) ||
      (by_arrival     && arrival_gap[msr_pkg::TimeW-1]) ||
      (by_id          && a_i.id < b_i.id);
  msr_late_rule u_late_rule (
    .early_i(early_first), .enable_i(by_fraction), .late_ni(not_lower), .first_o(a_first)
  );

  assign a_first_o = a_first;
  assign winner_o = a_first ? a_i : b_i;
  assign loser_o = a_first ? b_i : a_i;

`ifdef FORMAL
  always_comb begin
    assert ($onehot({by_valid, by_deadline, by_zero, by_fraction, by_denominator, by_arrival,
                     by_id}));
  end
`endif

endmodule
