/// Single-stage recirculating shuffle-exchange network: one row of decision blocks, used log2 N
/// times a decision as published.
///
/// Source: ShareStreams, section 4 and Figure 5. In the first pass block j compares streams 2j and
/// 2j + 1. The outputs are un-shuffled, winners to the lower half of the lanes and losers to the
/// upper, and recirculate: winners meet winners, losers meet losers.
///
///          pass 0         pass 1              lane of a stream after all passes: its result in
///     0 --[block]-- w ---+--[block]-- 0 WW    pass p (1 if it lost) is bit p. So lane 0 is the
///     1 --[  0  ]-- l -+-|--[  0  ]-- 2 WL    first of all streams and lane N - 1 the last; the
///     2 --[block]-- w -|-+--[block]-- 1 LW    rest is a butterfly's output, which is the sorted
///     3 --[  1  ]-- l -+----[  1  ]-- 3 LL    list only for some inputs (see README.md).
///
/// With `WinnerOnly` losers are not routed: lanes 0 ... N/2 - 1 carry winners. After the first pass
/// only half of the blocks work, then a quarter, and so on.
///
/// With `Sorted` the same row performs a bitonic sort (Stone 1971: the shuffle visits all distances
/// of a bitonic merge). With k = log2 N, phase p = 0 ... k - 1 merges runs of 2^p into runs of 2^(p
/// + 1) in its passes b = k - 1 - p ... k - 1, every second run in descending order. In the earlier
/// passes of a phase lanes only move. Phase 0 starts with its single working pass, since any
/// initial placement will do: k^2 - k + 1 passes, 3, 7, 13, 21, 31 for N = 4 ... 64.
///
/// Latency: one pass a cycle while `enable_i`; lanes are registered. Invariants (formal/): without
/// `WinnerOnly` the lanes are a permutation of the heads; lane 0 is first, lane N - 1 last. With
/// `Sorted` the lane of rank r is r with its bits reversed.
module msr_shuffle_network #(
  /// Number of streams: a power of two, 2 ... 64.
  parameter int N = 4,
  /// Winner-only routing.
  parameter bit WinnerOnly = 1'b0,
  /// Sort: full number of passes, with directions.
  parameter bit Sorted = 1'b0,
  /// Heads are order keys (`key_t`) rather than `head_t`.
  parameter bit Keyed = 1'b0,
  localparam int W = Keyed ? msr_pkg::KeyW : msr_pkg::HeadW,
  localparam int Lanes = WinnerOnly ? N / 2 : N,
  localparam int Log = $clog2(N),
  localparam int Passes = Sorted ? Log * Log - Log + 1 : Log,
  localparam int PassW = Passes > 1 ? $clog2(Passes) : 1
) (
  input  logic                             clk_i,
  input  msr_pkg::mode_e                   mode_i,
  input  logic                             lowest_denominator_i,
  /// The first pass: compare the heads, not the lanes.
  input  logic                             first_i,
  input  logic                             enable_i,
  /// Number of the pass, from 0.
  input  logic [PassW-1:0]                 pass_i,
  input  logic [N*W-1:0]                   heads_i,
  /// The winner of block 0 in this pass.
  output logic [W-1:0]                     winner_o,
  /// One bit a stream: the stream is this winner and has a packet, computed without its id. With
  /// `Keyed` the bits are not valid in the first pass.
  output logic [N-1:0]                     wins_o,
  output logic [Lanes*W-1:0]               lanes_o
);

  localparam int Blocks = N / 2;

  logic [Lanes*W-1:0] lanes_q, lanes_d;

  for (genvar j = 0; j < Blocks; j++) begin : gen_block
    logic [W-1:0] a, b, winner, loser;
    logic a_first;
    if (2 * j + 1 < Lanes) begin : gen_recirculates
      assign a = first_i ? heads_i[2*j*W +: W] : lanes_q[2*j*W +: W];
      assign b = first_i ? heads_i[(2*j+1)*W +: W] : lanes_q[(2*j+1)*W +: W];
    end else begin : gen_first_pass
      assign a = heads_i[2*j*W +: W];
      assign b = heads_i[(2*j+1)*W +: W];
    end
    if (Keyed) begin : gen_key
      msr_key_block u_key_block (
        .a_i(a), .b_i(b), .a_first_o(a_first), .winner_o(winner), .loser_o(loser)
      );
    end else begin : gen_head
      msr_decision_block u_decision_block (
        .mode_i, .lowest_denominator_i, .a_i(a), .b_i(b),
        .a_first_o(a_first), .winner_o(winner), .loser_o(loser)
      );
    end
    if (j == 0) begin : gen_wins
      // With keys the last pass is never the first, so the winner is in the lanes. A separate
      // comparison does not wait for `first_i`.
      logic [W-1:0] first, second;
      logic first_wins;
      if (Keyed) begin : gen_lanes
        assign first = lanes_q[0 +: W];
        assign second = lanes_q[W +: W];
        msr_pkg::key_t unused_winner, unused_loser;
        msr_key_block u_last (
          .a_i(first), .b_i(second), .a_first_o(first_wins), .winner_o(unused_winner),
          .loser_o(unused_loser)
        );
        logic unused;
        assign unused = ^{a_first, unused_winner, unused_loser};
      end else begin : gen_any
        assign {first, second, first_wins} = {a, b, a_first};
      end
      for (genvar i = 0; i < N; i++) begin : gen_stream
        logic first_is, second_is;
        // `valid` and `id` are the top bits of both.
        assign first_is = first[W-1 -: msr_pkg::IdW+1] == {1'b1, msr_pkg::IdW'(i)};
        assign second_is = second[W-1 -: msr_pkg::IdW+1] == {1'b1, msr_pkg::IdW'(i)};
        assign wins_o[i] = first_wins ? first_is : second_is;
      end
      logic unused_rest;
      assign unused_rest = ^{first[W-msr_pkg::IdW-2:0], second[W-msr_pkg::IdW-2:0]};
    end else begin : gen_no_wins
      logic unused_a_first;
      assign unused_a_first = a_first;
    end
    if (Sorted) begin : gen_sorted
      logic [Passes-1:0] works, downwards;
      for (genvar t = 0; t < Passes; t++) begin : gen_pass
        localparam int Phase = (t + Log - 1) / Log;
        localparam int Bit = (t + Log - 1) % Log;
        assign works[t] = Bit >= Log - 1 - Phase;
        // The last phase has one direction; before it, a bit of the run's number selects the
        // direction.
        assign downwards[t] = Phase < Log - 1 && ((2 * j) >> (2 * Log - 2 - Phase - Bit)) % 2 == 1;
      end
      assign lanes_d[j*W +: W] = !works[pass_i] ? a : downwards[pass_i] ? loser : winner;
      assign lanes_d[(Blocks+j)*W +: W] = !works[pass_i] ? b : downwards[pass_i] ? winner : loser;
    end else if (!WinnerOnly) begin : gen_both
      assign lanes_d[j*W +: W] = winner;
      assign lanes_d[(Blocks+j)*W +: W] = loser;
    end else begin : gen_winner
      assign lanes_d[j*W +: W] = winner;
      logic unused_loser;
      assign unused_loser = ^loser;
    end
  end

  always_ff @(posedge clk_i) begin
    if (enable_i) lanes_q <= lanes_d;
  end

  if (!Sorted) begin : gen_all_alike
    logic unused_pass;
    assign unused_pass = ^pass_i;
  end

  if (Keyed) begin : gen_no_mode
    logic unused_mode;
    assign unused_mode = ^{mode_i, lowest_denominator_i};
  end

  assign winner_o = lanes_d[0 +: W];
  assign lanes_o = lanes_q;

`ifdef FORMAL
  for (genvar i = 0; i < N; i++) begin : gen_wins_is_winner
    always_comb begin
      if (!Sorted && !Keyed)
        assert (wins_o[i] == (winner_o[W-1 -: msr_pkg::IdW+1] == {1'b1, msr_pkg::IdW'(i)}));
    end
  end
`endif

endmodule
