/// Stands in for the ROM in the proof of `msr_order_key_ahead`: entry a is a.
module msr_reciprocals (
  input  logic        clk_i,
  input  logic [8:0]  address_i,
  output logic [31:0] reciprocal_o
);

  always_ff @(posedge clk_i) reciprocal_o <= {23'b0, address_i};

endmodule
