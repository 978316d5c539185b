/// Single-stage recirculating shuffle-exchange network: one row of decision blocks, used log2 N
/// times for a decision.
///
/// Source: ShareStreams, section 4 and Figure 5. In the first pass block j compares streams 2j and
/// 2j + 1; what comes out is un-shuffled, winners to the lower half of the lanes, losers to the
/// upper, and goes round again, winners against winners, losers against losers:
///
///          pass 0         pass 1              lane of a stream after all passes: its result in
///     0 --[block]-- w ---+--[block]-- 0 WW    pass p (1 if it lost) is bit p. So lane 0 is the
///     1 --[  0  ]-- l -+-|--[  0  ]-- 2 WL    first of all streams and lane N - 1 the last; the
///     2 --[block]-- w -|-+--[block]-- 1 LW    rest is a butterfly's output, which is the sorted
///     3 --[  1  ]-- l -+----[  1  ]-- 3 LL    list only for some inputs (see README.md).
///
/// With `WinnerOnly` losers are not routed: lanes 0 ... N/2 - 1 carry winners, and after the first
/// pass only half of the blocks work, then a quarter, and so on.
///
/// Latency: one pass a cycle while `enable_i`; lanes are registered. Invariants (formal/): without
/// `WinnerOnly` the lanes are a permutation of the heads; lane 0 is first, lane N - 1 last.
module msr_shuffle_network #(
  /// Streams: a power of two, 2 ... 64.
  parameter int N = 4,
  /// Winner-only routing.
  parameter bit WinnerOnly = 1'b0,
  localparam int Lanes = WinnerOnly ? N / 2 : N
) (
  input  logic                             clk_i,
  input  msr_pkg::mode_e                   mode_i,
  input  logic                             lowest_denominator_i,
  /// The first pass: compare the heads, not the lanes.
  input  logic                             first_i,
  input  logic                             enable_i,
  input  logic [N*msr_pkg::HeadW-1:0]      heads_i,
  /// The winner of block 0 in this pass.
  output msr_pkg::head_t                   winner_o,
  output logic [Lanes*msr_pkg::HeadW-1:0]  lanes_o
);

  localparam int W = msr_pkg::HeadW;
  localparam int Blocks = N / 2;

  logic [Lanes*W-1:0] lanes_q, lanes_d;

  for (genvar j = 0; j < Blocks; j++) begin : gen_block
    msr_pkg::head_t a, b, winner, loser;
    if (2 * j + 1 < Lanes) begin : gen_recirculates
      assign a = first_i ? heads_i[2*j*W +: W] : lanes_q[2*j*W +: W];
      assign b = first_i ? heads_i[(2*j+1)*W +: W] : lanes_q[(2*j+1)*W +: W];
    end else begin : gen_first_pass
      assign a = heads_i[2*j*W +: W];
      assign b = heads_i[(2*j+1)*W +: W];
    end
    msr_decision_block u_decision_block (
      .mode_i, .lowest_denominator_i, .a_i(a), .b_i(b), .winner_o(winner), .loser_o(loser)
    );
    assign lanes_d[j*W +: W] = winner;
    if (!WinnerOnly) begin : gen_loser
      assign lanes_d[(Blocks+j)*W +: W] = loser;
    end else begin : gen_no_loser
      logic unused_loser;
      assign unused_loser = ^loser;
    end
  end

  always_ff @(posedge clk_i) begin
    if (enable_i) lanes_q <= lanes_d;
  end

  assign winner_o = lanes_d[0 +: W];
  assign lanes_o = lanes_q;

endmodule
