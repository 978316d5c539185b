/// Stands in for the decision block in the network's proof: orders by bit 0 of `deadline`.
///
/// The 0-1 principle (Knuth, The Art of Computer Programming, 5.3.4): if a property of a comparator
/// network's outputs holds for all inputs of zeros and ones, it holds for every total order. A
/// separate proof shows that the decision block is a comparator of a total order.
module msr_decision_block (
  input  msr_pkg::mode_e mode_i,
  input  logic           lowest_denominator_i,
  input  msr_pkg::head_t a_i,
  input  msr_pkg::head_t b_i,
  output logic           a_first_o,
  output msr_pkg::head_t winner_o,
  output msr_pkg::head_t loser_o
);

  logic swap;
  assign swap = a_i.deadline[0] && !b_i.deadline[0];
  assign a_first_o = !swap;
  assign winner_o = swap ? b_i : a_i;
  assign loser_o = swap ? a_i : b_i;

endmodule
