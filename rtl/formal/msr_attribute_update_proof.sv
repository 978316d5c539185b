/// Proves that attribute adjustment equals the rules, written as in the engine.
///
/// The proof covers all contracts x <= y and all values x' <= y', which is an invariant.
module msr_attribute_update_proof (
  input logic       rtas99_i,
  input logic       miss_i,
  input logic [7:0] first_x_i,
  input logic [7:0] first_y_i,
  input logic [7:0] growth_i,
  input logic [7:0] x_i,
  input logic [7:0] y_i,
  input logic       tag_i
);

  logic [7:0] x, y;
  logic tag, violation;
  msr_attribute_update u_attribute_update (
    .rtas99_i, .miss_i, .first_x_i, .first_y_i, .growth_i, .x_i, .y_i, .tag_i,
    .x_o(x), .y_o(y), .tag_o(tag), .violation_o(violation)
  );

  // Wide enough that nothing wraps.
  logic [9:0] want_x, want_y;
  logic want_tag, want_violation;
  always_comb begin
    want_x = {2'b0, x_i};
    want_y = {2'b0, y_i};
    want_tag = tag_i;
    want_violation = 1'b0;
    if (!miss_i) begin
      if (y_i > x_i) begin
        want_y = want_y - 1;
      end else if (!rtas99_i && y_i == x_i && x_i > 0) begin
        want_x = want_x - 1;
        want_y = want_y - 1;
      end
      if ((want_x == 0 && want_y == 0) || tag_i) begin
        want_x = {2'b0, first_x_i};
        want_y = {2'b0, first_y_i};
      end
      want_tag = 1'b0;
    end else if (x_i > 0) begin
      want_x = want_x - 1;
      want_y = want_y - 1;
      if (want_x == 0 && want_y == 0) begin
        want_x = {2'b0, first_x_i};
        want_y = {2'b0, first_y_i};
      end
    end else if (first_y_i > 0) begin
      want_y = want_y + {2'b0, growth_i};
      if (want_y > 255) want_y = 255;
      if (!rtas99_i) want_tag = 1'b1;
      want_violation = 1'b1;
    end
  end

  always_comb begin
    assume (first_x_i <= first_y_i);
    assume (x_i <= y_i);
    assert (x <= y);
    assert ({2'b0, x} == want_x);
    assert ({2'b0, y} == want_y);
    assert (tag == want_tag);
    assert (violation == want_violation);
  end

endmodule
