/// Proves the tiled core's control unit with its pipeline. Every scan reads each tile once, in
/// order. Every decision ends once, after the exact number of cycles. An invalid scan is repeated
/// and its winner is discarded. LOAD and inspection never meet a tile in flight.
module msr_tile_control_proof #(
  parameter int Tiles = 3,
  parameter int LaneW = 2
) (
  input logic        clk_i,
  input logic        load_valid_i,
  input logic        decide_i,
  input logic [15:0] step_i,
  input logic        overdue_i
);

  localparam int Cycles = Tiles + LaneW + 2;
  // From a tile's address to the network's last block.
  localparam int Stages = 3 + LaneW;
  localparam int TileW = Tiles > 1 ? $clog2(Tiles) : 1;

  logic rst_n;
  initial rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  logic clear, ready, idle, read, first, last, serve, keep, decided, ending, overdue;
  logic [TileW-1:0] tile;
  logic [15:0] before, now;

  // Reads, and those of a last tile, by cycles ago.
  logic [Stages:1] read_q, last_q;
  initial {read_q, last_q} = '0;
  always_ff @(posedge clk_i) begin
    read_q <= {read_q[Stages-1:1], rst_n && read};
    last_q <= {last_q[Stages-1:1], rst_n && read && last};
  end
  assign ending = last_q[Stages];
  assign overdue = overdue_i && read_q[3];

  msr_tile_control #(
    .Tiles(Tiles), .Cycles(Cycles)
  ) u_control (
    .clk_i, .rst_ni(rst_n), .load_valid_i, .decide_i, .step_i, .overdue_i(overdue),
    .ending_i(ending), .clear_o(clear), .ready_o(ready), .idle_o(idle), .read_o(read),
    .first_o(first), .last_o(last), .tile_o(tile), .serve_o(serve), .keep_o(keep),
    .decided_o(decided), .before_o(before), .now_o(now)
  );

  logic start;
  assign start = ready && decide_i;

  // Cycle of the scan, from 0; whether it leaves a deadline past; pending winners; cycles of CLEAR.
  logic [4:0] cycle, clears;
  logic scanning, past, ended, spoilt;
  logic [1:0] owed;
  logic [15:0] was_now, was_step;
  logic was_start;
  initial {cycle, clears, scanning, past, spoilt, owed, was_start} = '0;
  assign ended = scanning && cycle == 5'(Cycles - 1);
  always_ff @(posedge clk_i) begin
    was_now <= now;
    was_step <= step_i;
    was_start <= rst_n && start;
    if (!rst_n) begin
      {cycle, clears, scanning, past, spoilt, owed} <= '0;
    end else begin
      if (clear) clears <= clears + 1'b1;
      if (start) begin
        scanning <= 1'b1;
        cycle <= 5'd1;
        past <= 1'b0;
      end else if (ended) begin
        scanning <= past || overdue;
        cycle <= '0;
        past <= 1'b0;
        spoilt <= past || overdue;
      end else if (scanning) begin
        cycle <= cycle + 1'b1;
        past <= past || overdue;
      end
      owed <= owed + 2'(start) - 2'(keep);
    end
  end

  always @(posedge clk_i) begin
    if (rst_n) begin
      // Reset clears each tile once, then decisions may start.
      assert (clears <= 5'(Tiles));
      assert (clear == (clears < 5'(Tiles)));
      if (clear) assert (5'(tile) == clears && !read && !ready && !idle);
      // The cycles of a scan.
      assert (cycle < 5'(Cycles));
      assert (read == (start || (scanning && cycle < 5'(Tiles))));
      if (read)
        assert (5'(tile) == cycle && first == (cycle == 0) && last == (cycle == 5'(Tiles - 1)));
      assert (ready == (!clear && !scanning && !load_valid_i));
      if (!clear) assert (tile == TileW'(scanning ? cycle : 5'd0));
      // A winner is pending until the last tile is through.
      assert (owed == 2'(scanning || (ending && !spoilt)));
      assert (idle == (!clear && !scanning && owed == 0));
      if (idle) assert (read_q[Stages-1:1] == '0 && !ending);
      if (keep) assert (ending && !spoilt && owed != 0);
      if (ending && !spoilt) assert (keep);
      // The winner is valid one cycle after the next decision may start.
      if (ending) assert (cycle == 0);
      if (!scanning) assert (cycle == 0 && !past);
      // Time advances with decisions only, and repeated scans serve no stream.
      if (was_start) assert (now == was_now + was_step && before == was_now && serve);
      else assert (now == was_now || clears == 0);
    end
  end

  // Positions of tiles, by the cycle of the scan.
  for (genvar stage = 1; stage < Stages; stage++) begin : gen_stage
    always @(posedge clk_i) begin
      if (rst_n) begin
        assert (last_q[stage] == (scanning && cycle == 5'(Tiles - 1 + stage)));
        assert (read_q[stage] == (scanning && cycle >= 5'(stage) && cycle < 5'(Tiles + stage)));
      end
    end
  end

  always @(posedge clk_i) begin
    if (rst_n) cover (decided && scanning);
  end

endmodule
