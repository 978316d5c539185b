/// Proves the registers of `msr_order_key_ahead`: the entries of y' - 1 and y' - 2, in every cycle
/// from the fifth after a load, for all moves of `msr_attribute_update`. The assertions are in the
/// module.
module msr_order_key_ahead_proof (
  input logic            clk_i,
  input logic            load_i,
  input logic [7:0]      first_x_i,
  input logic [7:0]      first_y_i,
  input logic            commit_i,
  input logic            wins_i,
  input msr_pkg::move_t  wins_move_i,
  input msr_pkg::move_t  loses_move_i,
  input logic            lowest_denominator_i
);

  logic rst_n;
  initial rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  // Cycles since the load; nothing is asserted before the first load.
  logic [2:0] since;
  logic [7:0] first_x, first_y, x, y;
  initial since = '0;
  logic load, loading, moves;
  assign load = load_i && rst_n;
  assign loading = since < 3'd5;
  assign moves = commit_i && !load && !loading;
  msr_pkg::move_t move;
  assign move = wins_i ? wins_move_i : loses_move_i;

  // x' and y' after a move.
  logic [7:0] wins_y, loses_y;
  assign wins_y = wins_move_i.restored ? first_y : y - 8'(wins_move_i.y_down);
  assign loses_y = loses_move_i.restored ? first_y : y - 8'(loses_move_i.y_down);
  always_ff @(posedge clk_i) begin
    if (load) begin
      since <= 3'd1;
      {first_x, first_y} <= {first_x_i, first_y_i};
      {x, y} <= {first_x_i, first_y_i};
    end else begin
      if (since != 3'd5 && since != 0) since <= since + 1'b1;
      if (moves) x <= move.restored ? first_x : x - 8'(move.x_down);
      if (moves) y <= wins_i ? wins_y : loses_y;
    end
  end

  logic [16:0] ratio;
  logic [7:0] tie;
  msr_order_key_ahead u_key (
    .clk_i, .rst_ni(rst_n), .enable_i(1'b1), .lowest_denominator_i, .load_i(load), .x_i(x), .y_i(y),
    .commit_i(moves), .wins_i(wins_i && moves), .wins_move_i, .loses_move_i, .wins_y_i(wins_y),
    .loses_y_i(loses_y), .ratio_o(ratio), .tie_o(tie)
  );

  always @(posedge clk_i) begin
    // Constrained as in `msr_attribute_update`: x' falls only with y', and nothing falls below 0.
    if (moves) begin
      assume (!wins_move_i.x_down || (wins_move_i.y_down && x != 0));
      assume (!loses_move_i.x_down || (loses_move_i.y_down && x != 0));
      assume (!wins_move_i.y_down || y != 0);
      assume (!loses_move_i.y_down || y != 0);
    end
  end

endmodule
