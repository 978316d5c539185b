/// A ROM of reciprocals: entry a is R(a - 1), where R(y) = 2^31 / y rounded up (0 for y < 1).
///
/// Latency: one cycle.
module msr_reciprocals (
  input  logic        clk_i,
  input  logic [8:0]  address_i,
  output logic [31:0] reciprocal_o
);

  localparam int Depth = 512;

  logic [31:0] reciprocals[Depth];
  initial begin
    for (int unsigned a = 0; a < Depth; a++) begin
      reciprocals[a] = a < 2 ? '0 : 1 + 32'h7fff_ffff / (a - 1);
    end
  end

  always_ff @(posedge clk_i) reciprocal_o <= reciprocals[address_i];

endmodule
