/// A late signal selects between two ready values, in its last gate before a register or a network.
///
/// A module of its own in synthesis. Tools would infer a clock enable for a register that may keep
/// its value, and compute the enable from the late signal. The boundary keeps it one gate from the
/// end.
///
/// Latency: combinational, one LUT a bit.
(* keep_hierarchy *)
module msr_late_select #(
  parameter int W = 1
) (
  input  logic         late_i,
  input  logic [W-1:0] yes_i,
  input  logic [W-1:0] no_i,
  output logic [W-1:0] chosen_o
);

  assign chosen_o = late_i ? yes_i : no_i;

endmodule
