/// Proves the network: its lanes are a permutation of the heads, lane 0 is the first of all streams
/// and the last lane the last.
///
/// With `Sorted`, all lanes are in order: bits reversed, ranks never decrease.
///
/// Keys are all zeros and ones (see the stand-in), hence every total order. Each head has its
/// number as its id; one arbitrary head is tracked to its lane.
module msr_shuffle_network_proof #(
  parameter int N = 4,
  parameter bit WinnerOnly = 1'b0,
  parameter bit Sorted = 1'b0
) (
  input logic                 clk_i,
  input logic [N-1:0]         key_i,
  input logic [$clog2(N)-1:0] follow_i
);

  localparam int W = msr_pkg::HeadW;
  localparam int Log = $clog2(N);
  localparam int Passes = Sorted ? Log * Log - Log + 1 : Log;
  localparam int PassW = Passes > 1 ? $clog2(Passes) : 1;
  localparam int Lanes = WinnerOnly ? N / 2 : N;

  logic [5:0] pass;
  logic done;
  initial pass = '0;
  always_ff @(posedge clk_i) if (!done) pass <= pass + 1'b1;
  assign done = pass == 6'(Passes);

  // The choice of the first cycle is stable.
  logic [N-1:0] key, key_q;
  logic [$clog2(N)-1:0] follow, follow_q;
  always_ff @(posedge clk_i) begin
    key_q <= key;
    follow_q <= follow;
  end
  assign key = pass == 0 ? key_i : key_q;
  assign follow = pass == 0 ? follow_i : follow_q;

  logic [N*W-1:0] heads;
  for (genvar i = 0; i < N; i++) begin : gen_head
    msr_pkg::head_t head;
    always_comb begin
      head = '0;
      head.valid = 1'b1;
      head.id = 6'(i);
      head.deadline = {15'b0, key[i]};
    end
    assign heads[i*W +: W] = head;
  end

  msr_pkg::head_t winner;
  logic [N-1:0] wins;
  logic [Lanes*W-1:0] lanes;
  msr_shuffle_network #(
    .N(N), .WinnerOnly(WinnerOnly), .Sorted(Sorted)
  ) u_network (
    .clk_i, .mode_i(msr_pkg::Dwcs), .lowest_denominator_i(1'b0), .first_i(pass == 0),
    .enable_i(!done), .pass_i(PassW'(pass)), .heads_i(heads), .winner_o(winner), .wins_o(wins),
    .lanes_o(lanes)
  );

  logic [Lanes-1:0] present, lane_key;
  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    msr_pkg::head_t lane;
    assign lane = lanes[i*W +: W];
    assign present[i] = lane.id == 6'(follow) && lane.deadline == {15'b0, key[follow]};
    assign lane_key[i] = lane.deadline[0];
  end

  // The keys in the order of the list: the lane's number, bits reversed.
  if (Sorted) begin : gen_ranked
    logic [N-1:0] ranked;
    for (genvar i = 0; i < N; i++) begin : gen_rank
      logic [Log-1:0] lane;
      for (genvar b = 0; b < Log; b++) begin : gen_bit
        assign lane[b] = (i >> (Log - 1 - b)) % 2 == 1;
      end
      assign ranked[i] = lane_key[lane];
    end
    for (genvar i = 1; i < N; i++) begin : gen_in_order
      always @(posedge clk_i) if (done) assert (ranked[i-1] <= ranked[i]);
    end
  end

  always @(posedge clk_i) begin
    if (done) begin
      assert (lane_key[0] == &key);
      if (!WinnerOnly) begin
        assert ($onehot(present));
        assert (lane_key[Lanes-1] == |key);
      end
    end
  end

endmodule
