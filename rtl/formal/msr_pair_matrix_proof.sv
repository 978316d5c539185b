/// Proves the pair matrix for all keys, states and sequences of decisions.
///
/// The proof keeps the key of every stream's current state: that of its served state if it won the
/// previous decision, else that of its unserved state. Each bit of the matrix equals the decision
/// block's order of these keys. So the winner has a packet and precedes every other stream with
/// one, and a stream that does is the winner if a decision is made.
///
/// That some stream precedes all others follows from the total order (`msr_key_block_proof`). The
/// assumption is a part of that proof's window: two times are never exactly 2^15 apart.
module msr_pair_matrix_proof #(
  parameter int N = 3
) (
  input logic                       clk_i,
  input logic                       decides_i,
  input logic [N*msr_pkg::KeyW-1:0] unserved_keys_i,
  input logic [N*msr_pkg::KeyW-1:0] served_keys_i
);

  localparam int W = msr_pkg::KeyW;

  logic rst_n, known_q, decides_q;
  initial {rst_n, known_q, decides_q} = '0;

  logic [N-1:0] wins;
  logic [N*N-1:0] before_bits;
  msr_pair_matrix #(
    .N(N), .NumberW(msr_pkg::RatioW)
  ) u_matrix (
    .clk_i, .rst_ni(rst_n), .decides_i, .unserved_keys_i, .served_keys_i, .formal_o(before_bits),
    .wins_o(wins)
  );

  // The keys of the current states.
  logic [N*W-1:0] keys_q;
  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    known_q <= rst_n;
    decides_q <= decides_i && rst_n;
    for (int i = 0; i < N; i++)
      keys_q[i*W +: W] <= wins[i] ? served_keys_i[i*W +: W] : unserved_keys_i[i*W +: W];
  end

  logic [N-1:0] valid;
  // Bit i * N + j: stream i precedes stream j, by the decision block.
  logic [N*N-1:0] precedes;
  for (genvar i = 0; i < N; i++) begin : gen_stream
    msr_pkg::key_t unserved, served, key;
    assign unserved = unserved_keys_i[i*W +: W];
    assign served = served_keys_i[i*W +: W];
    assign key = keys_q[i*W +: W];
    assign valid[i] = key.valid;
    always_comb begin
      assume (unserved.id == msr_pkg::IdW'(i) && served.id == msr_pkg::IdW'(i));
    end
    for (genvar j = 0; j < N; j++) begin : gen_other
      if (i == j) begin : gen_itself
        assign precedes[i*N+j] = 1'b1;
      end else begin : gen_block
        msr_pkg::key_t other, winner, loser;
        assign other = keys_q[j*W +: W];
        always_comb begin
          assume (key.deadline - other.deadline != 16'h8000);
          assume (key.arrival - other.arrival != 16'h8000);
        end
        msr_key_block u_block (
          .a_i(keys_q[i*W +: W]), .b_i(keys_q[j*W +: W]), .a_first_o(precedes[i*N+j]),
          .winner_o(winner), .loser_o(loser)
        );
      end
    end
    always @(posedge clk_i) begin
      if (known_q) begin
        for (int j = 0; j < N; j++) begin
          if (i == j) assert (before_bits[i*N+j] == (valid[i] && decides_q));
          else if (valid[i]) assert (before_bits[i*N+j] == (!valid[j] || precedes[i*N+j]));
        end
        assert (wins[i] == (decides_q && valid[i] &&
                            ((precedes[i*N +: N] | ~valid) == '1)));
      end
    end
  end

  always @(posedge clk_i) begin
    if (known_q) assert ((wins & (wins - 1'b1)) == '0);
  end

endmodule
