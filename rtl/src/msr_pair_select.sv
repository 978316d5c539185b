/// Selects the comparison of a pair that the winner makes true: the last gates before its register.
///
/// A module of its own in synthesis, as `msr_late_select`.
///
/// Latency: combinational, two LUTs.
(* keep_hierarchy *)
module msr_pair_select (
  /// The first stream of the pair, or the second, is the winner.
  input  logic first_i,
  input  logic second_i,
  input  logic none_i,
  input  logic with_first_i,
  input  logic with_second_i,
  output logic chosen_o
);

  assign chosen_o = first_i ? with_first_i : second_i ? with_second_i : none_i;

endmodule
