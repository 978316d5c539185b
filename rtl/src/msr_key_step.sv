/// A stream's ratio after a move of x'/y': one outcome of `msr_order_key_ahead`.
///
/// Latency: combinational.
module msr_key_step (
  input  logic                        lowest_denominator_i,
  /// The ratio without a move.
  input  msr_pkg::number_t            number_i,
  /// The ratio of x/y.
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

  logic falls;
  assign falls = move_i.y_down && !move_i.restored;

  logic zero;
  assign zero = move_i.restored ? first_i.zero :
                !move_i.y_down  ? number_i.zero :
                move_i.x_down   ? less_zero_i : same_zero_i;
  assign number_o.ratio = move_i.restored ? first_i.ratio :
                          !move_i.y_down  ? number_i.ratio :
                          move_i.x_down   ? less_x_i : same_x_i;
  assign number_o.zero = zero;
  assign number_o.tie = y_i ^ {8{zero && !lowest_denominator_i}};
  assign number_o.next = move_i.restored ? first_i.next : falls ? number_i.after : number_i.next;
  assign number_o.after = move_i.restored ? first_i.after : number_i.after;
  assign number_o.fell = falls;

  logic unused;
  assign unused = ^{number_i.tie, number_i.fell, first_i.tie, first_i.fell};

endmodule
