/// Proves the tiled core's network: the winner is one of the streams that entered since a scan
/// began, and none precedes it.
///
/// One arbitrary stream is tracked: it enters in some tile and lane of a scan of any length.
/// Whenever it is among the tiles that came through, it is the winner or the winner precedes it; if
/// the winner has its number, it is the winner. By induction over tiles the winner is the first
/// stream that entered, for any number of tiles. Static mode with priorities of two bits; a
/// separate proof shows that the decision block is a total order in all modes.
module msr_tile_network_proof #(
  parameter int Width = 4,
  localparam int LaneW = $clog2(Width),
  localparam int TileW = 3
) (
  input logic                clk_i,
  input logic                rst_ni,
  input logic                valid_i,
  input logic                first_i,
  input logic [Width*3-1:0]  heads_i,
  input logic [TileW-1:0]    follow_tile_i,
  input logic [LaneW-1:0]    follow_lane_i,
  input logic [2:0]          follow_i
);

  localparam int W = msr_pkg::HeadW;

  // Chosen once.
  logic [TileW-1:0] follow_tile;
  logic [LaneW-1:0] follow_lane;
  logic [2:0] follow;
  logic was_reset;
  initial was_reset = 1'b0;
  always_ff @(posedge clk_i) begin
    follow_tile <= follow_tile_i;
    follow_lane <= follow_lane_i;
    follow <= follow_i;
    was_reset <= 1'b1;
    if (was_reset) begin
      assume (follow_tile_i == follow_tile && follow_lane_i == follow_lane && follow_i == follow);
    end
    assume (rst_ni == was_reset);
  end

  // Tiles enter consecutively from 0. A scan uses each tile number at most once.
  logic [TileW-1:0] next_q, tile;
  logic more_q;
  assign tile = first_i ? '0 : next_q;
  always_ff @(posedge clk_i) begin
    next_q <= tile + 1'b1;
    more_q <= rst_ni && valid_i && tile != '1;
    assume (!valid_i || first_i || more_q);
  end

  // {valid, priority} of each lane.
  logic [Width*W-1:0] heads;
  for (genvar i = 0; i < Width; i++) begin : gen_head
    msr_pkg::head_t head;
    always_comb begin
      head = '0;
      head.valid = heads_i[3*i+2];
      head.id = 6'(i);
      head.deadline = {14'b0, heads_i[3*i +: 2]};
    end
    assign heads[i*W +: W] = head;
  end
  always_comb begin
    if (valid_i && tile == follow_tile_i) assume (heads_i[3*follow_lane_i +: 3] == follow_i);
  end

  logic passing, ending;
  msr_pkg::head_t head;
  logic [TileW+LaneW-1:0] winner;
  msr_tile_network #(
    .Width(Width), .TileW(TileW)
  ) u_network (
    .clk_i, .rst_ni, .mode_i(msr_pkg::Static), .lowest_denominator_i(1'b0), .valid_i,
    .first_i, .last_i(1'b0), .tile_i(tile), .heads_i(heads), .passing_o(passing),
    .ending_o(ending), .winner_o(head), .number_o(winner)
  );
  logic winner_valid;
  logic [1:0] winner_priority;
  assign winner_valid = head.valid;
  assign winner_priority = head.deadline[1:0];

  // The contents of the last block, by the same delays.
  logic [LaneW*TileW-1:0] tiles_q;
  always_ff @(posedge clk_i) tiles_q <= {tiles_q[(LaneW-1)*TileW-1:0], tile};
  logic [TileW-1:0] at;
  assign at = tiles_q[LaneW*TileW-1 -: TileW];

  logic followed, is_it, goes_before;
  assign followed = follow_tile <= at;
  assign is_it = winner == {follow_tile, follow_lane};
  assign goes_before =
      {!winner_valid, winner_valid ? winner_priority : 2'b0, winner} <=
      {!follow[2], follow[2] ? follow[1:0] : 2'b0, follow_tile, follow_lane};

  always @(posedge clk_i) begin
    if (rst_ni && was_reset && passing) begin
      assert (winner[TileW+LaneW-1 -: TileW] <= at);
      assert (head.deadline[15:2] == '0 && {head.x, head.y, head.arrival} == '0);
      if (followed) begin
        assert (goes_before);
        if (is_it) assert ({winner_valid, winner_priority} == follow);
      end
    end
  end

endmodule
