/// The scheduler core: selects the stream to serve, for N streams.
///
/// Source: ShareStreams, sections 3 and 4, Figure 5: register base blocks, a single-stage
/// recirculating shuffle-exchange network of decision blocks, control and steering. Variants:
///
///   | WinnerOnly | ComputeAhead | paper | cycles a decision | list |
///   | 0          | 0            | BA    | log2 N + 1        | yes  |
///   | 1          | 0            | WR    | log2 N + 1        | no   |
///   | 0          | 1            | CA    | log2 N            | yes  |
///   | 1          | 1            | both  | log2 N            | no   |
///
/// `Tree` (with both) makes a decision every cycle. A tree of N - 1 decision blocks replaces the
/// recirculating row; its cycle is long, but shorter than log2 N short cycles.
///
/// `Tree` with `Keyed` compares order keys that are new in every cycle. Groups of streams select
/// their first, then the groups' firsts are compared, all pairs in parallel. A decision takes one
/// cycle of two comparisons, independent of N.
///
/// `Sorted` (without WinnerOnly) makes the list exact: k^2 - k + 1 cycles for k = log2 N.
///
/// `Keyed` (decisions of four cycles or more, or `Tree`) compares order keys. The register blocks
/// compute them while the network works on the previous decision: no pass has a multiplication, and
/// the cycle count is unchanged. With ComputeAhead, PRIORITY_UPDATE and SETTLE then take effect at
/// the start of the next cycle, and `packet_take_o` and `dropped_o` are valid with `decided_o`.
///
/// Within the widths and the window of `msr_pkg`, a decision equals one `enqueue ... decide(now)`
/// of the engine on structure `scan`. It includes packets offered up to the cycle of the last
/// PRIORITY_UPDATE (ComputeAhead, N > 2: one cycle earlier) or of a later SETTLE. Without packets a
/// decision has no winner; time still advances.
///
/// Interfaces: LOAD (`load_*`, ready/valid); the front of each stream's queue (`packet_*`);
/// `decide_i`, which may be held for back-to-back decisions; the result with `decided_o`. `list_o`
/// holds {valid, id} of all streams with `decided_o`, first stream in the low bits. Entry 0 is the
/// winner and the last entry the last stream; the order between them is approximate (see README.md)
/// unless `Sorted`.
module msr_core #(
  /// Number of streams: a power of two, 2 ... 64.
  parameter int N = 4,
  /// Winner-only routing.
  parameter bit WinnerOnly = 1'b0,
  /// Compute-Ahead register blocks.
  parameter bit ComputeAhead = 1'b0,
  /// Sort the list exactly.
  parameter bit Sorted = 1'b0,
  /// A tree of decision blocks; requires WinnerOnly and ComputeAhead.
  parameter bit Tree = 1'b0,
  /// Compare order keys.
  parameter bit Keyed = 1'b0,
  /// Winners of a decision: the first streams of the list, served at the same time. Requires the
  /// list, without ComputeAhead and WinnerOnly. `step_i` is then the packet-times of the block.
  parameter int Block = 1
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  msr_pkg::config_t                cfg_i,

  input  logic                            load_valid_i,
  output logic                            load_ready_o,
  input  logic [msr_pkg::IdW-1:0]         load_id_i,
  input  msr_pkg::load_t                  load_i,

  input  logic [N-1:0]                    packet_valid_i,
  /// Arrival of the front packet; in tag mode its service tag.
  input  logic [N*msr_pkg::TimeW-1:0]     packet_stamp_i,
  output logic [N-1:0]                    packet_take_o,
  output logic [N-1:0]                    dropped_o,

  input  logic                            decide_i,
  input  logic [msr_pkg::TimeW-1:0]       step_i,
  output logic                            ready_o,
  output logic                            decided_o,
  output logic                            winner_valid_o,
  output logic [msr_pkg::IdW-1:0]         winner_o,
  output logic [N*(msr_pkg::IdW+1)-1:0]   list_o,
  /// The time of the current decision, or of the next one.
  output logic [msr_pkg::TimeW-1:0]       now_o,

  output logic [N*msr_pkg::HeadW-1:0]     heads_o,
  output logic [N*msr_pkg::CountsW-1:0]   counts_o,
  output logic [N-1:0]                    violation_o,
  output logic [N-1:0]                    range_o
);

  // The network's data; `valid` and `id` are its top bits.
  localparam int W = Keyed ? msr_pkg::KeyW : msr_pkg::HeadW;
  localparam int Log = $clog2(N);
  localparam int Passes = Tree ? 1 : Sorted ? Log * Log - Log + 1 : Log;
  localparam int PassW = Passes > 1 ? $clog2(Passes) : 1;
  localparam int Lanes = WinnerOnly ? N / 2 : N;
  localparam int EntryW = msr_pkg::IdW + 1;
  // With one pass there is no earlier cycle to compute in.
  localparam bit BlocksAhead = ComputeAhead && Passes > 1;
  // `settle` is a late signal. Its early upper bound suffices if the last cycle of a decision uses
  // no result of the first.
  localparam bit KnownEarly = !ComputeAhead || Passes > 2;

  logic settle, first, pass, update;
  logic [PassW-1:0] count;
  logic [N-1:0] overdue;
  logic [msr_pkg::TimeW-1:0] now, next_now;
  logic [N*msr_pkg::HeadW-1:0] heads;
  logic [N*W-1:0] entries;
  logic [Lanes*W-1:0] lanes;
  logic [W-1:0] block_winner, winner;
  logic [N-1:0] block_wins, wins;
  // Only the winner's number leaves the core; without a list, the lanes are not outputs either.
  logic unused;
  assign unused = ^{winner, block_winner, block_wins, lanes};

  msr_control #(
    .Passes(Passes), .Ahead(ComputeAhead), .Keyed(Keyed)
  ) u_control (
    .clk_i, .rst_ni, .load_valid_i, .load_ready_o, .decide_i, .step_i,
    .overdue_i(|overdue), .ready_o, .settle_o(settle), .first_o(first), .pass_o(pass),
    .update_o(update), .count_o(count), .decided_o, .now_o(now), .next_now_o(next_now)
  );

  if (Tree && Keyed) begin : gen_groups
    msr_group_network #(
      .N(N)
    ) u_network (
      .keys_i(entries), .decides_i(update), .wins_o(block_wins)
    );
    logic [N-1:0] of_bit[msr_pkg::IdW];
    logic [msr_pkg::IdW-1:0] id;
    for (genvar b = 0; b < msr_pkg::IdW; b++) begin : gen_id
      for (genvar i = 0; i < N; i++) begin : gen_stream
        assign of_bit[b][i] = block_wins[i] && ((i >> b) % 2 == 1);
      end
      assign id[b] = |of_bit[b];
    end
    assign block_winner = {|block_wins, id, {W - EntryW{1'b0}}};
    assign lanes = '0;
    logic unused_pass;
    assign unused_pass = ^{pass, count};
  end else if (Tree) begin : gen_tree
    msr_tree_network #(
      .N(N)
    ) u_network (
      .mode_i(cfg_i.mode), .lowest_denominator_i(cfg_i.lowest_denominator), .heads_i(entries),
      .winner_o(block_winner), .wins_o(block_wins)
    );
    assign lanes = '0;
    logic unused_pass;
    assign unused_pass = ^{pass, count};
  end else begin : gen_row
    msr_shuffle_network #(
      .N(N), .WinnerOnly(WinnerOnly), .Sorted(Sorted), .Keyed(Keyed)
    ) u_network (
      .clk_i, .mode_i(cfg_i.mode), .lowest_denominator_i(cfg_i.lowest_denominator),
      .first_i(first), .enable_i(pass || first), .pass_i(count), .heads_i(entries),
      .winner_o(block_winner), .wins_o(block_wins), .lanes_o(lanes)
    );
  end

  if (ComputeAhead) begin : gen_winner_now
    assign winner = block_winner;
    assign wins = block_wins;
  end else if (Block > 1) begin : gen_winners_kept
    assign winner = lanes[0 +: W];
    for (genvar i = 0; i < N; i++) begin : gen_wins
      logic [Block-1:0] places;
      for (genvar k = 0; k < Block; k++) begin : gen_place
        assign places[k] = list_o[k*EntryW +: EntryW] == {1'b1, msr_pkg::IdW'(i)};
      end
      assign wins[i] = |places;
    end
  end else begin : gen_winner_kept
    assign winner = lanes[0 +: W];
    for (genvar i = 0; i < N; i++) begin : gen_wins
      assign wins[i] = winner[W-1 -: EntryW] == {1'b1, msr_pkg::IdW'(i)};
    end
  end

  for (genvar i = 0; i < N; i++) begin : gen_stream
    msr_pkg::head_t head;
    msr_pkg::key_t key;
    msr_pkg::count_t counts;
    msr_register_block #(
      .Id(i), .ComputeAhead(BlocksAhead || Tree), .Registered(BlocksAhead), .Keyed(Keyed)
    ) u_register_block (
      .clk_i, .rst_ni, .mode_i(cfg_i.mode),
      .lowest_denominator_i(cfg_i.lowest_denominator), .rtas99_i(cfg_i.rtas99),
      .load_i(load_valid_i && load_ready_o && load_id_i == msr_pkg::IdW'(i)),
      .settle_i(settle), .update_i(update), .at_now_i(KnownEarly ? first : settle),
      .load_data_i(load_i),
      .wins_i(wins[i]),
      .now_i(now), .next_now_i(next_now),
      .packet_valid_i(packet_valid_i[i]),
      .packet_stamp_i(packet_stamp_i[i*msr_pkg::TimeW +: msr_pkg::TimeW]),
      .packet_take_o(packet_take_o[i]), .dropped_o(dropped_o[i]), .head_o(head), .key_o(key),
      .overdue_o(overdue[i]), .violation_o(violation_o[i]), .range_o(range_o[i]),
      .count_o(counts)
    );
    assign heads[i*msr_pkg::HeadW +: msr_pkg::HeadW] = head;
    if (Keyed) begin : gen_keyed
      assign entries[i*W +: W] = key;
    end else begin : gen_plain
      assign entries[i*W +: W] = head;
      logic unused_key;
      assign unused_key = ^key;
    end
    assign counts_o[i*msr_pkg::CountsW +: msr_pkg::CountsW] = counts;
  end

  logic winner_valid_q;
  logic [msr_pkg::IdW-1:0] winner_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      winner_valid_q <= 1'b0;
      winner_q <= '0;
    end else if (update) begin
      {winner_valid_q, winner_q} <= winner[W-1 -: EntryW];
    end
  end

  // The first pass is the most significant: the index in the list is the lane's, bits reversed.
  for (genvar i = 0; i < N; i++) begin : gen_list
    if (WinnerOnly) begin : gen_none
      assign list_o[i*EntryW +: EntryW] = '0;
    end else begin : gen_entry
      function automatic int unsigned reversed(int unsigned place);
        reversed = 0;
        for (int unsigned bit_at = 0; bit_at < Log; bit_at++) begin
          if (((place >> bit_at) & 1) == 1) reversed = reversed | (1 << (Log - 1 - bit_at));
        end
      endfunction
      assign list_o[i*EntryW +: EntryW] = lanes[(reversed(i)+1)*W-1 -: EntryW];
    end
  end

  assign winner_valid_o = winner_valid_q;
  assign winner_o = winner_q;
  assign now_o = now;
  assign heads_o = heads;

`ifndef SYNTHESIS
  initial begin
    if (N < 2 || N > 64 || N != 1 << Log) $fatal(1, "N is no power of two from 2 to 64");
    if (Tree && (!WinnerOnly || !ComputeAhead)) $fatal(1, "a tree is winner only and ahead");
    if (WinnerOnly && Sorted) $fatal(1, "without losers there is no list to sort");
    if (Keyed && !Tree && Passes + 32'(!ComputeAhead) < 4) $fatal(1, "order keys take four cycles");
    if ($bits(msr_pkg::key_t) != msr_pkg::KeyW) $fatal(1, "KeyW is not the width of key_t");
    if ($bits(msr_pkg::head_t) != msr_pkg::HeadW) $fatal(1, "HeadW is not the width of head_t");
    if (Block < 1 || Block > N) $fatal(1, "Block is not from 1 to N");
    if (Block > 1 && (WinnerOnly || ComputeAhead))
      $fatal(1, "several winners need the list in time");
  end
`endif

endmodule
