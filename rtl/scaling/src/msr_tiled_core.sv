/// The scheduler for more streams than register blocks. Contexts are in block RAM, and one tile at
/// a time passes a row of update units and a network.
///
/// Source: ShareStreams, section 2 and Figure 2: tiled register blocks, context save and restore
/// from SRAM, pipelined with the ordering. A **scan** reads every tile once, and is one decision.
/// On its way to the network each context gets the PRIORITY_UPDATE of the previous decision (the
/// winner is served, the misses of the others are charged up to the new time), and is written back.
///
///     stage   0        1       2        3            4 ... 3 + log2 Width   then
///             address  memory  update   write back,  tree, a level a        the best of the
///                                       counters     stage                  tiles so far
///
/// Tiles follow each other in consecutive cycles, so that reading, updating and writing overlap.
/// The next scan starts such that its first tile finds the winner known in stage 1. A decision
/// takes Streams / Width + log2 Width + 2 cycles. Its winner comes with `decided_o`, one cycle
/// after the first in which the next may start.
///
/// If a step is longer than a period (or several packets of a stream are late at once), one charge
/// a stream is not enough. The scan is repeated, without a service, until no deadline is past; each
/// repetition adds the cycles of a scan.
///
/// A decision equals one `enqueue ... decide(now)` of the engine on structure `scan`, as for
/// `msr_core`, if the offers at the start of the scan are stable. An offer during the scan is seen
/// if its tile has not been read.
///
/// Interfaces: LOAD (`load_*`, ready/valid). The queues' fronts as from a memory of tiles: in the
/// cycle after `front_read_o`, those of tile `front_tile_o`; taken packets are reported three
/// cycles later. `step_i` goes with `decide_i`: time advances by it, then the decision is made.
/// Between decisions `inspect_i` reads the contexts of a tile, valid two cycles later with
/// `inspected_o`. They are those before the service of the last winner.
module msr_tiled_core #(
  /// Number of streams: a multiple of Width.
  parameter int Streams = 256,
  /// Lanes of the network: a power of two, 4 ... 64.
  parameter int Width = 16,
  localparam int Tiles = Streams / Width,
  localparam int LaneW = $clog2(Width),
  localparam int TileW = Tiles > 1 ? $clog2(Tiles) : 1,
  localparam int StreamW = TileW + LaneW
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  msr_pkg::config_t                cfg_i,

  input  logic                            load_valid_i,
  output logic                            load_ready_o,
  input  logic [StreamW-1:0]              load_id_i,
  input  msr_pkg::load_t                  load_i,

  output logic                            front_read_o,
  output logic [TileW-1:0]                front_tile_o,
  input  logic [Width-1:0]                packet_valid_i,
  /// Arrival of the front packet; in tag mode its service tag.
  input  logic [Width*msr_pkg::TimeW-1:0] packet_stamp_i,
  /// Fronts of this tile that are taken, heads that are dropped.
  output logic [TileW-1:0]                take_tile_o,
  output logic [Width-1:0]                packet_take_o,
  output logic [Width-1:0]                dropped_o,

  input  logic                            decide_i,
  input  logic [msr_pkg::TimeW-1:0]       step_i,
  output logic                            ready_o,
  output logic                            decided_o,
  output logic                            winner_valid_o,
  output logic [StreamW-1:0]              winner_o,
  /// The time of the current decision, or of the last.
  output logic [msr_pkg::TimeW-1:0]       now_o,

  input  logic                            inspect_i,
  input  logic [TileW-1:0]                inspect_tile_i,
  /// Ready for an inspection.
  output logic                            inspect_ready_o,
  output logic                            inspected_o,
  output logic [Width*msr_pkg::HeadW-1:0] heads_o,
  output logic [Width*msr_pkg::CountsW-1:0] counts_o,
  output logic [Width-1:0]                violation_o,
  output logic [Width-1:0]                range_o
);

  localparam int W = msr_pkg::HeadW;
  localparam int Top = msr_pkg::TimeW - 1;
  localparam int ContractW = 3 * msr_pkg::WindowW + msr_pkg::TimeW + 1;
  localparam int StateW = 2 * msr_pkg::TimeW + 2 * msr_pkg::WindowW + 4;
  localparam int PromiseW = 1 + ContractW;
  localparam int ContextW = 2 + StateW + msr_pkg::CountsW;

  logic clear, idle, scan, first, last, serving, keep, ending, overdue, load, inspect;
  logic [TileW-1:0] scan_tile;
  logic [msr_pkg::TimeW-1:0] last_now, now;

  msr_tile_control #(
    .Tiles(Tiles), .Cycles(Tiles + LaneW + 2)
  ) u_control (
    .clk_i, .rst_ni, .load_valid_i, .decide_i, .step_i, .overdue_i(overdue), .ending_i(ending),
    .clear_o(clear), .ready_o, .idle_o(idle), .read_o(scan), .first_o(first), .last_o(last),
    .tile_o(scan_tile), .serve_o(serving), .keep_o(keep), .decided_o, .before_o(last_now),
    .now_o(now)
  );

  assign load_ready_o = idle;
  assign load = load_valid_i && idle;
  assign inspect_ready_o = idle && !load_valid_i && !decide_i;
  assign inspect = inspect_i && inspect_ready_o;

  logic [TileW-1:0] load_tile, read_tile;
  logic [LaneW-1:0] load_lane;
  assign {load_tile, load_lane} = load_id_i;
  assign read_tile = inspect ? inspect_tile_i : scan_tile;
  assign front_read_o = scan;
  assign front_tile_o = scan_tile;

  // Flags that accompany a tile through the stages: bit 0 is stage 1.
  logic [2:0] valid_q;
  logic [1:0] inspected_q;
  logic [2:0] first_q, last_q;
  logic [TileW-1:0] tile_1_q, tile_2_q, tile_3_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      inspected_q <= '0;
    end else begin
      valid_q <= {valid_q[1:0], scan};
      inspected_q <= {inspected_q[0], inspect};
    end
  end
  always_ff @(posedge clk_i) begin
    first_q <= {first_q[1:0], first};
    last_q <= {last_q[1:0], last};
    tile_1_q <= read_tile;
    tile_2_q <= tile_1_q;
    tile_3_q <= tile_2_q;
  end
  assign inspected_o = inspected_q[1];

  // The winner that is not served yet. It is known in the cycle in which the next scan's first tile
  // is in stage 1. A LOAD of its stream clears it.
  logic served_valid_q;
  logic [StreamW-1:0] served_q;
  msr_pkg::head_t winner;
  logic [StreamW-1:0] number;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      served_valid_q <= 1'b0;
      served_q <= '0;
    end else if (keep) begin
      served_valid_q <= winner.valid;
      served_q <= number;
    end else if (load && load_id_i == served_q) begin
      served_valid_q <= 1'b0;
    end
  end

  // Zeros, or a stream that waits for its first packet.
  msr_pkg::state_t fresh;
  logic [PromiseW-1:0] promise_written;
  always_comb begin
    fresh = '0;
    if (!clear) begin
      fresh.deadline = load_i.deadline;
      fresh.x = load_i.contract.x;
      fresh.y = load_i.contract.y;
      fresh.first = load_i.first;
    end
  end
  assign promise_written = clear ? '0 : {1'b1, load_i.contract};

  logic write_back;
  logic [TileW-1:0] write_tile;
  assign write_back = valid_q[2];
  assign write_tile = clear ? scan_tile : load ? load_tile : tile_3_q;

  logic is_dwcs, is_edf;
  assign is_dwcs = cfg_i.mode == msr_pkg::Dwcs;
  assign is_edf = cfg_i.mode == msr_pkg::Edf;

  logic [Width*W-1:0] heads;
  logic [Width-1:0] overdue_lane;
  assign overdue = write_back && |overdue_lane;

  for (genvar i = 0; i < Width; i++) begin : gen_lane
    logic load_this, fresh_this;
    assign load_this = load && load_lane == LaneW'(i);
    assign fresh_this = clear || load_this;

    // Stages 0 and 1: memory.
    logic [PromiseW-1:0] promise_read;
    logic [ContextW-1:0] context_read, context_written;
    msr_context_memory #(
      .Words(Tiles), .Bits(PromiseW)
    ) u_promises (
      .clk_i, .read_i(scan || inspect), .read_address_i(read_tile), .read_data_o(promise_read),
      .write_i(fresh_this), .write_address_i(write_tile), .write_data_i(promise_written)
    );
    msr_context_memory #(
      .Words(Tiles), .Bits(ContextW)
    ) u_contexts (
      .clk_i, .read_i(scan || inspect), .read_address_i(read_tile), .read_data_o(context_read),
      .write_i(fresh_this || write_back), .write_address_i(write_tile),
      .write_data_i(context_written)
    );

    // Stage 2: update.
    logic loaded_q, violation_q, range_q, offered_q, serve_q;
    logic [msr_pkg::TimeW-1:0] stamp_q;
    msr_pkg::contract_t contract_q;
    msr_pkg::state_t state_q, state;
    msr_pkg::count_t count_q;
    msr_pkg::event_t happened;
    always_ff @(posedge clk_i) begin
      {loaded_q, contract_q} <= promise_read;
      {violation_q, range_q, state_q, count_q} <= context_read;
      serve_q <= serving && served_valid_q && served_q == {tile_1_q, LaneW'(i)};
      offered_q <= packet_valid_i[i];
      stamp_q <= packet_stamp_i[i*msr_pkg::TimeW +: msr_pkg::TimeW];
    end
    msr_stream_update u_update (
      .mode_i(cfg_i.mode), .rtas99_i(cfg_i.rtas99), .contract_i(contract_q), .state_i(state_q),
      .now_i(last_now), .time_i(now), .serve_i(serve_q),
      // A stream that was never loaded takes no packets.
      .packet_valid_i(offered_q && loaded_q), .packet_stamp_i(stamp_q),
      .state_o(state), .event_o(happened)
    );

    // Stage 3: counters, write back, and into the network.
    logic drop_3_q, violation_3_q, range_3_q, timed;
    msr_pkg::state_t state_3_q;
    msr_pkg::count_t count_3_q, count;
    msr_pkg::event_t happened_3_q;
    // Used by order keys only.
    logic unused_move;
    assign unused_move = ^happened_3_q.move;
    logic [msr_pkg::TimeW-1:0] late;
    always_ff @(posedge clk_i) begin
      state_3_q <= state;
      happened_3_q <= happened;
      count_3_q <= count_q;
      drop_3_q <= contract_q.drop;
      violation_3_q <= happened.violated || (violation_q && !serving);
      range_3_q <= range_q;
    end
    assign late = now - state_3_q.deadline;
    assign timed = state_3_q.valid && (is_dwcs || is_edf);
    assign overdue_lane[i] = state_3_q.valid && !late[Top] && (is_dwcs || (is_edf && drop_3_q));
    always_comb begin
      count = count_3_q;
      if (happened_3_q.missed) count.missed = count_3_q.missed + 1'b1;
      if (happened_3_q.violated) count.violations = count_3_q.violations + 1'b1;
      if (happened_3_q.served) count.serviced = count_3_q.serviced + 1'b1;
    end
    assign context_written = fresh_this ? {2'b00, fresh, msr_pkg::CountsW'(0)} :
        {violation_3_q, range_3_q || (timed && late[Top] != late[Top-1]), state_3_q, count};
    assign packet_take_o[i] = write_back && happened_3_q.take;
    assign dropped_o[i] = write_back && happened_3_q.dropped;

    msr_pkg::head_t entering, inspected;
    always_comb begin
      entering.valid = state_3_q.valid;
      entering.id = msr_pkg::IdW'(i);
      entering.deadline = state_3_q.deadline;
      entering.x = state_3_q.x;
      entering.y = state_3_q.y;
      entering.arrival = state_3_q.arrival;
      inspected.valid = state_q.valid;
      inspected.id = msr_pkg::IdW'(i);
      inspected.deadline = state_q.deadline;
      inspected.x = state_q.x;
      inspected.y = state_q.y;
      inspected.arrival = state_q.arrival;
    end
    assign heads[i*W +: W] = entering;
    assign heads_o[i*W +: W] = inspected;
    assign counts_o[i*msr_pkg::CountsW +: msr_pkg::CountsW] = count_q;
    assign violation_o[i] = violation_q;
    assign range_o[i] = range_q;

`ifdef VERILATOR
    assert property (@(posedge clk_i) !(write_back && is_dwcs) || state_3_q.x <= state_3_q.y);
`endif
  end

  logic passing, unused;
  assign unused = ^{passing, winner};
  msr_tile_network #(
    .Width(Width), .TileW(TileW)
  ) u_network (
    .clk_i, .rst_ni, .mode_i(cfg_i.mode), .lowest_denominator_i(cfg_i.lowest_denominator),
    .valid_i(write_back), .first_i(first_q[2]), .last_i(last_q[2]), .tile_i(tile_3_q),
    .heads_i(heads), .passing_o(passing), .ending_o(ending), .winner_o(winner),
    .number_o(number)
  );

  assign winner_valid_o = served_valid_q;
  assign winner_o = served_q;
  assign take_tile_o = tile_3_q;
  assign now_o = now;

`ifndef SYNTHESIS
  initial begin
    if (Width < 4) $fatal(1, "Width is less than 4");
    if (Streams != Tiles * Width) $fatal(1, "Streams is no multiple of Width");
    if ($bits(msr_pkg::key_t) != msr_pkg::KeyW) $fatal(1, "KeyW is not the width of key_t");
    if ($bits(load_i.contract) != ContractW) $fatal(1, "ContractW is not the width of contract_t");
    if ($bits(fresh) != StateW) $fatal(1, "StateW is not the width of state_t");
  end
`endif

endmodule
