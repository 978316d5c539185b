/// The number of a window after a move, and the tie-break: one outcome of `msr_path_key`.
///
/// The tie-break is y', inverted for zero window-constraints if the highest is first.
///
/// Latency: combinational.
module msr_path_step (
  input  logic                        lowest_denominator_i,
  /// The number without a move, and x'.
  input  logic [msr_pkg::LogW-1:0]    number_i,
  input  logic [msr_pkg::WindowW-1:0] x_i,
  /// x'/y' changes: the number is `first_i`.
  input  logic                        falls_i,
  input  logic [msr_pkg::LogW-1:0]    first_i,
  /// x' decreases by 1.
  input  logic                        x_falls_i,
  /// x'/y' = x/y; overrides the others. Its number, and whether x is 0.
  input  logic                        restored_i,
  input  logic [msr_pkg::LogW-1:0]    restored_number_i,
  input  logic                        restored_no_x_i,
  /// y' after the move.
  input  logic [msr_pkg::WindowW-1:0] y_i,
  output logic [msr_pkg::LogW-1:0]    number_o,
  output logic [msr_pkg::WindowW-1:0] tie_o
);

  logic no_x;
  assign number_o = restored_i ? restored_number_i : falls_i ? first_i : number_i;
  assign no_x = restored_i ? restored_no_x_i : x_i == {7'b0, x_falls_i};
  assign tie_o = y_i ^ {8{no_x && !lowest_denominator_i}};

endmodule
