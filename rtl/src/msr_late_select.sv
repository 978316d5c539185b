/// The last gate before a register: what is known late chooses between two that stand ready.
///
/// Kept apart in synthesis. Tools would take a register that may keep its value for one with an enable,
/// and compute the enable from what is late; so it stays one gate from the end.
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
