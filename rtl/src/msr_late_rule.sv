/// The last gate of a decision: combines the late rule with the early rules.
///
/// A module of its own in synthesis. Tools that do not time a multiplier would treat its comparison
/// as early and place the other rules behind it. The boundary keeps it one gate from the end.
///
/// Latency: combinational, one LUT.
(* keep_hierarchy *)
module msr_late_rule (
  /// An early rule decides for a.
  input  logic early_i,
  /// No early rule applies.
  input  logic enable_i,
  /// The late rule, inverted: the carry output of its comparison.
  input  logic late_ni,
  output logic first_o
);

  assign first_o = early_i || (enable_i && !late_ni);

endmodule
