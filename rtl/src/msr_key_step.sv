/// A stream's number after a move of x'/y': one outcome of `msr_order_key_ahead`.
///
/// Latency: combinational.
module msr_key_step (
  input  logic                        lowest_denominator_i,
  /// As it is if nothing moves.
  input  msr_pkg::number_t            number_i,
  /// That of x/y.
  input  msr_pkg::number_t            first_i,
  input  msr_pkg::move_t              move_i,
  /// x'/(y' - 1) and (x' - 1)/(y' - 1), and whether x' and x' - 1 are 0.
  input  logic [msr_pkg::RatioW-1:0]  same_x_i,
  input  logic [msr_pkg::RatioW-1:0]  less_x_i,
  input  logic                        same_zero_i,
  input  logic                        less_zero_i,
  /// y' after the move.
  input  logic [msr_pkg::WindowW-1:0] y_i,
  output msr_pkg::number_t            number_o
);

  always_comb begin
    number_o = number_i;
    if (move_i.restored) begin
      number_o = first_i;
    end else if (move_i.y_down) begin
      number_o.ratio = move_i.x_down ? less_x_i : same_x_i;
      number_o.zero = move_i.x_down ? less_zero_i : same_zero_i;
      number_o.next = number_i.after;
      number_o.fell = 1'b1;
    end
    number_o.tie = y_i ^ {8{number_o.zero && !lowest_denominator_i}};
  end

endmodule
