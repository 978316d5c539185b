/// The last gate of a decision: the rule whose answer comes late joins those that are early.
///
/// Kept apart in synthesis. Tools that do not time a multiplier would take its comparison for early
/// and put the other rules behind it; so it stays one gate from the end.
///
/// Latency: combinational, one LUT.
(* keep_hierarchy *)
module msr_late_rule (
  /// An early rule says yes.
  input  logic early_i,
  /// No early rule applies.
  input  logic enable_i,
  /// What the late rule says, inverted: as a carry chain tells it.
  input  logic late_ni,
  output logic first_o
);

  assign first_o = early_i || (enable_i && !late_ni);

endmodule
