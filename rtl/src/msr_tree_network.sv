/// A binary tree of N - 1 decision blocks: a tournament in one cycle.
///
/// ShareStreams serialises the tree to save area (section 6 calls a tree wasteful, since one level
/// works at a time). In one long cycle all levels work. A decision every clock needs neither
/// registers between passes nor multiplexers before them.
///
/// Latency: combinational, log2 N decision blocks in series. Invariant: `wins_o` has the winner's
/// bit, or is 0 if it has no packet.
module msr_tree_network #(
  /// Number of streams: a power of two, 2 ... 64.
  parameter int N = 4,
  localparam int Log = $clog2(N)
) (
  input  msr_pkg::mode_e              mode_i,
  input  logic                        lowest_denominator_i,
  input  logic [N*msr_pkg::HeadW-1:0] heads_i,
  output msr_pkg::head_t              winner_o,
  /// One bit a stream: it is the winner and has a packet.
  output logic [N-1:0]                wins_o
);

  localparam int W = msr_pkg::HeadW;

  // Nodes as in a heap: node 1 is the root, the children of node k are 2k and 2k + 1, and stream i
  // is node N + i. `leads[k]` selects the winner among the streams below k.
  logic [2*N*W-1:0] node;
  logic [2*N*N-1:0] leads;

  assign node[W-1:0] = '0;
  assign leads[N-1:0] = '0;

  for (genvar i = 0; i < N; i++) begin : gen_leaf
    assign node[(N+i)*W +: W] = heads_i[i*W +: W];
    // `valid` is the top bit of a head.
    assign leads[(N+i)*N +: N] = heads_i[(i+1)*W-1] ? N'(1) << i : '0;
  end

  for (genvar k = 1; k < N; k++) begin : gen_node
    msr_pkg::head_t first, second;
    logic left_first;
    msr_decision_block u_decision_block (
      .mode_i, .lowest_denominator_i,
      .a_i(node[2*k*W +: W]), .b_i(node[(2*k+1)*W +: W]),
      .a_first_o(left_first), .winner_o(first), .loser_o(second)
    );
    assign node[k*W +: W] = first;
    assign leads[k*N +: N] = left_first ? leads[2*k*N +: N] : leads[(2*k+1)*N +: N];
    logic unused_loser;
    assign unused_loser = ^second;
  end

  assign winner_o = node[W +: W];
  assign wins_o = leads[N +: N];

  logic unused_node;
  assign unused_node = ^{node[W-1:0], leads[N-1:0]};

`ifndef SYNTHESIS
  initial begin
    if (N != 1 << Log) $fatal(1, "N is no power of two");
  end
`endif
`ifdef FORMAL
  for (genvar i = 0; i < N; i++) begin : gen_wins_is_winner
    always_comb assert (wins_o[i] == (winner_o.valid && winner_o.id == msr_pkg::IdW'(i)));
  end
`endif

endmodule
