/// The scheduler core that starts an exact decision in every clock cycle, with a short cycle.
///
/// Every stream is a decision ahead (`msr_path_block`), and the order of every pair of streams is
/// registered (`msr_pair_matrix`). The winner of a decision only selects what is ready: no path
/// leads from a comparison through the update of a stream to the next comparison.
///
/// Decisions and states equal those of the other cores. The interface differs from theirs:
///   - the result of a decision follows `decide_i` by three cycles, and decisions may start in
///     consecutive cycles. `decided_o` reports them in order; heads, counters and flags then show
///     the state after that decision
///   - `step_i` goes with `decide_i`. The core accepts packets ahead, up to three a stream
///   - a packet that is offered in the cycle of `decide_i` counts for the next decision; it must be
///     stamped with that decision's time, or the step must be more than 1
///   - decisions start in consecutive cycles after steps of 0 and 1, while no stream expects a
///     first packet with a given deadline; otherwise in every fourth cycle, or later if several
///     periods have ended (`msr_pair_control`)
///   - there is no list.
///
/// Latency: three cycles; throughput: one decision a cycle.
module msr_pair_core #(
  /// Number of streams, 2 ... 64.
  parameter int N = 8
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
  /// With `decided_o`, or after SETTLE: the head was dropped.
  output logic [N-1:0]                    dropped_o,

  input  logic                            decide_i,
  input  logic [msr_pkg::TimeW-1:0]       step_i,
  output logic                            ready_o,
  output logic                            decided_o,
  output logic                            winner_valid_o,
  output logic [msr_pkg::IdW-1:0]         winner_o,
  /// The time of the state that the outputs below show.
  output logic [msr_pkg::TimeW-1:0]       now_o,

  output logic [N*msr_pkg::HeadW-1:0]     heads_o,
  output logic [N*msr_pkg::CountsW-1:0]   counts_o,
  output logic [N-1:0]                    violation_o,
  output logic [N-1:0]                    range_o
);

  localparam int W = msr_pkg::PathKeyW;

  logic commits, commit_decides, update, settle, load_ready;
  logic [msr_pkg::TimeW-1:0] commit_now, commit_time, now;
  logic [N-1:0] overdue, waiting, expected, wins;
  logic [N*W-1:0] unserved_keys, served_keys;

  msr_pair_control u_control (
    .clk_i, .rst_ni, .load_valid_i, .load_ready_o(load_ready), .decide_i, .step_i,
    .overdue_i(|overdue), .waiting_i(|waiting), .expected_i(|expected), .ready_o,
    .commits_o(commits), .commit_decides_o(commit_decides), .commit_now_o(commit_now),
    .commit_time_o(commit_time), .update_o(update), .settle_o(settle), .decided_o, .now_o(now)
  );

  msr_pair_matrix #(
    .N(N)
  ) u_matrix (
    .clk_i, .rst_ni, .decides_i(commit_decides), .unserved_keys_i(unserved_keys),
    .served_keys_i(served_keys), .wins_o(wins)
  );

  for (genvar i = 0; i < N; i++) begin : gen_stream
    msr_path_block #(
      .Id(i)
    ) u_block (
      .clk_i, .rst_ni, .mode_i(cfg_i.mode), .lowest_denominator_i(cfg_i.lowest_denominator),
      .rtas99_i(cfg_i.rtas99),
      .load_i(load_valid_i && load_ready && load_id_i == msr_pkg::IdW'(i)),
      .load_data_i(load_i), .commits_i(commits), .commit_now_i(commit_now),
      .commit_time_i(commit_time), .update_i(update), .settle_i(settle), .wins_i(wins[i]),
      .now_i(now), .packet_valid_i(packet_valid_i[i]),
      .packet_stamp_i(packet_stamp_i[i*msr_pkg::TimeW +: msr_pkg::TimeW]),
      .packet_take_o(packet_take_o[i]), .dropped_o(dropped_o[i]),
      .head_o(heads_o[i*msr_pkg::HeadW +: msr_pkg::HeadW]),
      .unserved_key_o(unserved_keys[i*W +: W]), .served_key_o(served_keys[i*W +: W]),
      .overdue_o(overdue[i]), .waiting_o(waiting[i]), .expected_o(expected[i]),
      .violation_o(violation_o[i]), .range_o(range_o[i]),
      .count_o(counts_o[i*msr_pkg::CountsW +: msr_pkg::CountsW])
    );
  end

  logic [N-1:0] of_bit[msr_pkg::IdW];
  logic [msr_pkg::IdW-1:0] id;
  for (genvar b = 0; b < msr_pkg::IdW; b++) begin : gen_id
    for (genvar i = 0; i < N; i++) begin : gen_stream
      assign of_bit[b][i] = wins[i] && ((i >> b) % 2 == 1);
    end
    assign id[b] = |of_bit[b];
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {winner_valid_o, winner_o} <= '0;
    else if (update) {winner_valid_o, winner_o} <= {|wins, id};
  end

  assign load_ready_o = load_ready;
  assign now_o = now;

`ifndef SYNTHESIS
  initial begin
    if (N < 2 || N > 64) $fatal(1, "N is not from 2 to 64");
  end
`endif

endmodule
