/// Proves the network of groups. If it decides and a stream has a packet, there is one winner and
/// no stream precedes it. Otherwise there is no winner. One arbitrary stream is compared with the
/// winner.
///
/// For every total order: the relation is free except for cycles.
module msr_group_network_proof #(
  parameter int N = 2,
  /// All streams in one group: the comparison of the groups' firsts.
  parameter bit Alone = 1'b0
) (
  input logic                 decides_i,
  input logic [N-1:0]         valid_i,
  /// Bit i * N + j, for i < j: i is before j.
  input logic [N*N-1:0]       before_i,
  input logic [$clog2(N)-1:0] winner_i,
  input logic [$clog2(N)-1:0] other_i
);

  localparam int W = msr_pkg::KeyW;

  logic [N*W-1:0] keys;
  logic [N*32-1:0] later;
  logic [N*N-1:0] cycles;
  for (genvar i = 0; i < N; i++) begin : gen_key
    for (genvar j = 0; j < 32; j++) begin : gen_other
      if (j >= N || j == i) begin : gen_none
        assign later[i*32+j] = 1'b0;
      end else if (j > i) begin : gen_above
        assign later[i*32+j] = before_i[i*N+j];
      end else begin : gen_below
        assign later[i*32+j] = !before_i[j*N+i];
      end
    end
    msr_pkg::key_t key;
    always_comb begin
      key = '0;
      key.valid = valid_i[i];
      key.id = 6'(i);
      {key.deadline, key.arrival} = later[i*32 +: 32];
    end
    assign keys[i*W +: W] = key;
    for (genvar j = 0; j < N; j++) begin : gen_pair
      // No cycle among any three streams.
      logic [N-1:0] cycle;
      for (genvar k = 0; k < N; k++) begin : gen_triple
        if (i < j && j < k) begin : gen_rising
          assign cycle[k] = before_i[i*N+j] == before_i[j*N+k] &&
              before_i[i*N+k] != before_i[i*N+j];
        end else begin : gen_seen
          assign cycle[k] = 1'b0;
        end
      end
      assign cycles[i*N+j] = |cycle;
    end
  end
  always_comb assume (cycles == '0);

  logic [N-1:0] wins;
  if (Alone) begin : gen_alone
    logic [N-1:0] first;
    msr_first_of #(
      .K(N)
    ) u_first_of (
      .keys_i(keys), .first_o(first)
    );
    assign wins = first & {N{decides_i}};
  end else begin : gen_network
    msr_group_network #(
      .N(N)
    ) u_network (
      .keys_i(keys), .decides_i, .wins_o(wins)
    );
  end

  always_comb begin
    assert (|wins == (decides_i && |valid_i));
    if (wins[winner_i]) begin
      assert (valid_i[winner_i]);
      if (other_i != winner_i) begin
        assert (!wins[other_i]);
        assert (!valid_i[other_i] || later[{winner_i, 5'(other_i)}]);
      end
    end
  end

endmodule
