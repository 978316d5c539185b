/// A flip-flop that synthesis does not merge with an equal one.
///
/// A bit that selects many others is slow because of its wires. With copies, each is near what it
/// selects. Tools would merge registers of one input; the boundary of the module prevents it.
///
/// Latency: one cycle.
(* keep_hierarchy *)
module msr_flip_flop (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic d_i,
  output logic q_o
);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) q_o <= 1'b0;
    else q_o <= d_i;
  end

endmodule
