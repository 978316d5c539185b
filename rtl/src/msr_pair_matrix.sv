/// A registered bit for each pair of streams, "i before j": the winner of a decision is the stream
/// whose row is all ones.
///
/// While a decision is made, the pairs of the next one are compared. Each stream has two next
/// states, unserved and served, and at most one is served: three comparisons a pair. The winner
/// selects one of them, in the last gate before the registers. So a decision costs an AND of N bits
/// and a multiplexer, and a comparison has a cycle of its own.
///
/// Latency: one cycle. Invariant: every bit equals the comparison of the current states (formal/).
module msr_pair_matrix #(
  /// Number of streams.
  parameter int N = 8,
  /// Bits of a key's number.
  parameter int NumberW = msr_pkg::LogW,
  localparam int W = 1 + msr_pkg::IdW + 2 * msr_pkg::TimeW + NumberW + msr_pkg::WindowW
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  /// A decision is made in the next cycle.
  input  logic                       decides_i,
  input  logic [N*W-1:0] unserved_keys_i,
  input  logic [N*W-1:0] served_keys_i,
`ifdef FORMAL
  /// What the proof compares but no output shows.
  output logic [N*N-1:0]             formal_o,
`endif
  /// One bit a stream: it is the winner of the decision.
  output logic [N-1:0]               wins_o
);

  // Bit i * N + j: j has no packet or is after i; bit i * N + i: i has a packet, and a decision is
  // made.
  logic [N*N-1:0] before_q, before_d;
  logic [N-1:0] wins;

  for (genvar i = 0; i < N; i++) begin : gen_stream
    // `valid` is the top bit of a key.
    logic unserved_valid, served_valid;
    assign unserved_valid = unserved_keys_i[(i+1)*W-1];
    assign served_valid = served_keys_i[(i+1)*W-1];
    assign wins[i] = &before_q[i*N +: N];
    msr_late_select u_valid (
      .late_i(wins[i]), .yes_i(served_valid && decides_i), .no_i(unserved_valid && decides_i),
      .chosen_o(before_d[i*N+i])
    );
    for (genvar j = i + 1; j < N; j++) begin : gen_pair
      logic other_unserved_valid, other_served_valid;
      assign other_unserved_valid = unserved_keys_i[(j+1)*W-1];
      assign other_served_valid = served_keys_i[(j+1)*W-1];
      // None is served, i is, j is.
      logic none, first, second;
      msr_key_order #(
        .NumberW(NumberW)
      ) u_none (
        .a_i(unserved_keys_i[i*W +: W]), .b_i(unserved_keys_i[j*W +: W]), .a_first_o(none)
      );
      msr_key_order #(
        .NumberW(NumberW)
      ) u_first (
        .a_i(served_keys_i[i*W +: W]), .b_i(unserved_keys_i[j*W +: W]), .a_first_o(first)
      );
      msr_key_order #(
        .NumberW(NumberW)
      ) u_second (
        .a_i(unserved_keys_i[i*W +: W]), .b_i(served_keys_i[j*W +: W]), .a_first_o(second)
      );
      msr_pair_select u_before (
        .first_i(wins[i]), .second_i(wins[j]), .none_i(!other_unserved_valid || none),
        .with_first_i(!other_unserved_valid || first),
        .with_second_i(!other_served_valid || second), .chosen_o(before_d[i*N+j])
      );
      msr_pair_select u_after (
        .first_i(wins[i]), .second_i(wins[j]), .none_i(!unserved_valid || !none),
        .with_first_i(!served_valid || !first),
        .with_second_i(!unserved_valid || !second), .chosen_o(before_d[j*N+i])
      );
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) before_q <= '0;
    else before_q <= before_d;
  end

  assign wins_o = wins;

`ifdef FORMAL
  assign formal_o = before_q;
`endif

endmodule
