/// Stands in for the numbers of windows in the proof of the register blocks: 0.
module msr_order_key #(
  parameter bit Deferred = 1'b0
) (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  input  logic                        enable_i,
  input  logic                        load_i,
  input  logic [msr_pkg::WindowW-1:0] x_i,
  input  logic [msr_pkg::WindowW-1:0] y_i,
  input  logic                        commit_i,
  input  logic                        wins_i,
  input  msr_pkg::move_t              wins_move_i,
  input  msr_pkg::move_t              loses_move_i,
  output logic [msr_pkg::RatioW-1:0]  ratio_o,
  output logic                        zero_o,
  output logic [msr_pkg::RatioW-1:0]  ratio_wins_o,
  output logic                        zero_wins_o
);

  assign {ratio_o, zero_o, ratio_wins_o, zero_wins_o} = '0;

endmodule
