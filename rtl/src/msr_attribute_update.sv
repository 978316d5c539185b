/// Attribute adjustment: x'/y' after a service (rule A) or a missed deadline (rule B).
///
/// Source: ShareStreams, Figure 7 (critical update logic); rules as the engine's `dwcs`:
///
///   A  y' > x': y' -= 1; y' = x' > 0 (standard rules): x' -= 1, y' -= 1;
///      then, if x' = y' = 0 or tag: x'/y' = x/y, tag clear
///   B  x' > 0: x' -= 1, y' -= 1, and if y' = 0 then: x'/y' = x/y
///      x' = 0 < y: y' += growth, tag set (standard rules): a violation
///
/// The growth is 1 under the standard rules. Under the 1999 rules the growth needs a division. It
/// is constant, so LOAD supplies it. y' saturates at 255.
///
/// Latency: combinational. Invariant: x' <= y' before implies x' <= y' after (formal/).
module msr_attribute_update (
  /// 1: the update rules of 1999.
  input  logic                        rtas99_i,
  /// 1: rule B; 0: rule A.
  input  logic                        miss_i,
  /// x, y, and the increment of y' at a violation.
  input  logic [msr_pkg::WindowW-1:0] first_x_i,
  input  logic [msr_pkg::WindowW-1:0] first_y_i,
  input  logic [msr_pkg::WindowW-1:0] growth_i,
  input  logic [msr_pkg::WindowW-1:0] x_i,
  input  logic [msr_pkg::WindowW-1:0] y_i,
  input  logic                        tag_i,
  output logic [msr_pkg::WindowW-1:0] x_o,
  output logic [msr_pkg::WindowW-1:0] y_o,
  output logic                        tag_o,
  /// A miss beyond the current window-constraint.
  output logic                        violation_o,
  output msr_pkg::move_t              move_o
);

  logic allowed, y_down, x_down, restore;
  assign allowed = x_i != '0;
  assign violation_o = miss_i && !allowed && first_y_i != '0;
  assign x_down = allowed && (miss_i || (y_i == x_i && !rtas99_i));
  assign y_down = x_down || (!miss_i && y_i > x_i);

  // Select the decrement operands and test them for 0 in parallel with the decision to decrement.
  logic [msr_pkg::WindowW-1:0] x_less, y_less;
  logic [msr_pkg::WindowW:0] y_more;
  logic no_x, no_y;
  assign x_less = x_down ? x_i - 1'b1 : x_i;
  assign y_less = y_down ? y_i - 1'b1 : y_i;
  assign no_x = x_down ? x_i == msr_pkg::WindowW'(1) : !allowed;
  assign no_y = y_down ? y_i == msr_pkg::WindowW'(1) : y_i == '0;
  assign restore = miss_i ? allowed && no_y : tag_i || (no_x && no_y);
  assign y_more = {1'b0, y_i} + {1'b0, growth_i};

  always_comb begin
    x_o = x_less;
    y_o = y_less;
    if (violation_o) begin
      y_o = y_more[msr_pkg::WindowW] ? '1 : y_more[msr_pkg::WindowW-1:0];
    end else if (restore) begin
      x_o = first_x_i;
      y_o = first_y_i;
    end
  end

  assign move_o.restored = restore && !violation_o;
  assign move_o.y_down = y_down;
  assign move_o.x_down = x_down;

  assign tag_o = miss_i && (tag_i || (violation_o && !rtas99_i));

endmodule
