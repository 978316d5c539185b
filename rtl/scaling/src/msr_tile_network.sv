/// Selects the first of many streams that pass tile by tile. A pipelined tree of decision blocks
/// selects a tile's winner; a last block compares it with the best of the earlier tiles.
///
/// Source: ShareStreams, section 2: winners of rounds are played against each other. In the paper a
/// last round does so; here every tile's winner meets the best so far on arrival.
///
///     lanes --[level 0]--|--[level 1]--| ... |--[level log2 Width - 1]--|--[best so far]--| winner
///
/// A tile enters in every cycle. The recirculating row takes log2 Width cycles a tile with Width /
/// 2 blocks. This network has twice as many blocks and scans nearly log2 Width times as fast.
///
/// Streams are numbered {tile, lane} and tiles come in order: among tied streams the one of the
/// earlier tile has the lower number. The best so far therefore plays as number 0, the tile's
/// winner as 1.
///
/// Latency: a tile is in the last block log2 Width cycles after it enters.
/// Invariant (formal/): the winner is the first of all streams that entered since `first_i`.
module msr_tile_network #(
  /// Lanes: a power of two, 2 ... 64.
  parameter int Width = 16,
  /// Bits of a tile's number.
  parameter int TileW = 6,
  localparam int LaneW = $clog2(Width)
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  msr_pkg::mode_e                  mode_i,
  input  logic                            lowest_denominator_i,
  /// A tile enters; the first or the last of its scan.
  input  logic                            valid_i,
  input  logic                            first_i,
  input  logic                            last_i,
  input  logic [TileW-1:0]                tile_i,
  /// Its heads; the id of each is its lane.
  input  logic [Width*msr_pkg::HeadW-1:0] heads_i,
  /// The last block has a tile, or the last tile.
  output logic                            passing_o,
  output logic                            ending_o,
  /// The first stream of the tiles up to that one, and its number: {tile, lane}.
  output msr_pkg::head_t                  winner_o,
  output logic [TileW+LaneW-1:0]          number_o
);

  localparam int W = msr_pkg::HeadW;

  // Nodes as in a heap: node 1 is the root, the children of node k are 2k and 2k + 1, and lane i is
  // node Width + i. Every level is a pipeline stage.
  logic [2*Width*W-1:0] node;
  assign node[W-1:0] = '0;
  assign node[2*Width*W-1 -: Width*W] = heads_i;

  for (genvar k = 1; k < Width; k++) begin : gen_node
    msr_pkg::head_t first, second;
    logic left_first;
    logic [W-1:0] first_q;
    msr_decision_block u_decision_block (
      .mode_i, .lowest_denominator_i,
      .a_i(node[2*k*W +: W]), .b_i(node[(2*k+1)*W +: W]),
      .a_first_o(left_first), .winner_o(first), .loser_o(second)
    );
    always_ff @(posedge clk_i) first_q <= first;
    assign node[k*W +: W] = first_q;
    logic unused;
    assign unused = ^{second, left_first};
  end

  // Flags that accompany a tile through the levels.
  logic [LaneW-1:0] valid_q, first_q, last_q;
  logic [LaneW*TileW-1:0] tile_q;
  if (LaneW > 1) begin : gen_levels
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) valid_q <= '0;
      else valid_q <= {valid_q[LaneW-2:0], valid_i};
    end
    always_ff @(posedge clk_i) begin
      first_q <= {first_q[LaneW-2:0], first_i};
      last_q <= {last_q[LaneW-2:0], last_i};
      tile_q <= {tile_q[(LaneW-1)*TileW-1:0], tile_i};
    end
  end else begin : gen_level
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) valid_q <= '0;
      else valid_q <= valid_i;
    end
    always_ff @(posedge clk_i) begin
      first_q <= first_i;
      last_q <= last_i;
      tile_q <= tile_i;
    end
  end

  msr_pkg::head_t best_q, root, leader, entrant, first, second;
  logic [TileW+LaneW-1:0] number_q, number;
  logic best_first, stays;
  assign root = node[W +: W];
  always_comb begin
    leader = best_q;
    leader.id = '0;
    entrant = root;
    entrant.id = msr_pkg::IdW'(1);
  end
  msr_decision_block u_best (
    .mode_i, .lowest_denominator_i, .a_i(leader), .b_i(entrant),
    .a_first_o(best_first), .winner_o(first), .loser_o(second)
  );
  assign stays = best_first && !first_q[LaneW-1];
  assign number = {tile_q[LaneW*TileW-1 -: TileW], root.id[LaneW-1:0]};
  always_ff @(posedge clk_i) begin
    if (valid_q[LaneW-1]) begin
      best_q <= winner_o;
      number_q <= number_o;
    end
  end

  assign passing_o = valid_q[LaneW-1];
  assign ending_o = valid_q[LaneW-1] && last_q[LaneW-1];
  assign winner_o = stays ? best_q : root;
  assign number_o = stays ? number_q : number;

  logic unused;
  assign unused = ^{first, second, node[W-1:0], root.id};

`ifndef SYNTHESIS
  initial begin
    if (Width < 2 || Width > 64 || Width != 1 << LaneW) begin
      $fatal(1, "Width is no power of two from 2 to 64");
    end
  end
`endif

endmodule
