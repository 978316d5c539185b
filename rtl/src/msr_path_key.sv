/// The windows of a stream's two next states as numbers: the part of their order keys that changes
/// with x' and y'.
///
/// The number is 2^19 - 1 - (log(y') - log(x')), by `msr_logarithms`, and 0 if x' = 0: the lowest
/// x'/y' is first. A move lowers x' and y' by at most 1, so few numbers can follow. They are sums
/// of a logarithm of x' and one of y', and are ready before the move is known:
///
///   number of (x' - a, y' - b)   b = 1: kept of the current state
///                                b = 2: kept of the previous state, whose move is known
///                                b = 3: of the previous state, read and added in its cycle
///
/// A move of a service lowers y' only, or both if x' = y', which keeps x'/y'. A miss lowers both,
/// or is a violation, which raises y' and has x' = 0. After a restored window the numbers are those
/// kept of x/y.
///
/// Each state has two outcomes of the next command; the decision selects the two that follow from
/// the true state. The logarithms of both states are selected a cycle later.
///
/// Latency: the outputs match x' and y' in every cycle from the seventh after `load_i`. Until then
/// x' and y' must be constant.
module msr_path_key (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  /// Among zero window-constraints the lowest y' is first.
  input  logic                        lowest_denominator_i,
  /// x' = x and y' = y are being written.
  input  logic                        load_i,
  /// The stream is served by the current decision (late).
  input  logic                        wins_i,
  /// x' of the current state, and the move that led to it.
  input  logic [msr_pkg::WindowW-1:0] x_i,
  input  msr_pkg::move_t              move_i,
  /// x' and y' of both states, and the moves from the current state to them.
  input  logic [msr_pkg::WindowW-1:0] unserved_x_i,
  input  logic [msr_pkg::WindowW-1:0] unserved_y_i,
  input  msr_pkg::move_t              unserved_move_i,
  input  logic [msr_pkg::WindowW-1:0] served_x_i,
  input  logic [msr_pkg::WindowW-1:0] served_y_i,
  input  msr_pkg::move_t              served_move_i,
  /// Their moves by the next command, and y' after each: of a loser if its deadline is past (late).
  input  logic                        unserved_past_i,
  input  logic                        served_past_i,
  input  msr_pkg::move_t              unserved_miss_move_i,
  input  msr_pkg::move_t              unserved_wins_move_i,
  input  msr_pkg::move_t              served_miss_move_i,
  input  msr_pkg::move_t              served_wins_move_i,
  input  logic [msr_pkg::WindowW-1:0] unserved_miss_y_i,
  input  logic [msr_pkg::WindowW-1:0] unserved_wins_y_i,
  input  logic [msr_pkg::WindowW-1:0] served_miss_y_i,
  input  logic [msr_pkg::WindowW-1:0] served_wins_y_i,
  output logic [msr_pkg::LogW-1:0]    unserved_number_o,
  output logic [msr_pkg::WindowW-1:0] unserved_tie_o,
  output logic [msr_pkg::LogW-1:0]    served_number_o,
  output logic [msr_pkg::WindowW-1:0] served_tie_o
);

  localparam int W = msr_pkg::LogW;
  localparam int TieW = msr_pkg::WindowW;

  // Cycles since the load. The first three request log(y), log(y - 1) and log(y - 2), whose sums
  // are registered two cycles later; the sixth takes them over.
  logic [6:1] loading_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) loading_q <= '0;
    else loading_q <= {loading_q[5:1], load_i};
  end

  // Entries are 3 places late.
  logic [8:0] unserved_address;
  always_comb begin
    unserved_address = {1'b0, unserved_y_i};
    if (loading_q[1]) unserved_address = {1'b0, unserved_y_i} + 9'd3;
    else if (loading_q[2]) unserved_address = {1'b0, unserved_y_i} + 9'd2;
    else if (loading_q[3]) unserved_address = {1'b0, unserved_y_i} + 9'd1;
  end
  logic [W-1:0] unserved_log_y, served_log_y, log_y;
  msr_logarithms #(
    .Offset(3)
  ) u_unserved_y (
    .clk_i, .address_i(unserved_address), .logarithm_o(unserved_log_y)
  );
  msr_logarithms #(
    .Offset(3)
  ) u_served_y (
    .clk_i, .address_i({1'b0, served_y_i}), .logarithm_o(served_log_y)
  );
  logic won_q;
  always_ff @(posedge clk_i) won_q <= wins_i;
  assign log_y = won_q ? served_log_y : unserved_log_y;

  // Numbers of (x' - a, y' - 3) of the previous state; during a load of y, y - 1 and y - 2.
  logic [4*W-1:0] third_q;
  for (genvar a = 0; a < 4; a++) begin : gen_third
    logic [W-1:0] unserved_log_x, served_log_x, log_x;
    msr_logarithms #(
      .Offset(a)
    ) u_unserved_x (
      .clk_i, .address_i({1'b0, unserved_x_i}), .logarithm_o(unserved_log_x)
    );
    msr_logarithms #(
      .Offset(a)
    ) u_served_x (
      .clk_i, .address_i({1'b0, served_x_i}), .logarithm_o(served_log_x)
    );
    assign log_x = won_q ? served_log_x : unserved_log_x;
    always_ff @(posedge clk_i) begin
      if (x_i == TieW'(a)) third_q[a*W +: W] <= '0;
      else third_q[a*W +: W] <= log_x + ~log_y;
    end
  end

  // The numbers of (x, y), (x - a, y - 1) and (x - a, y - 2).
  logic [W-1:0] restored_q;
  logic [2*W-1:0] restored_first_q;
  logic [3*W-1:0] restored_second_q;
  logic no_x_q;
  always_ff @(posedge clk_i) begin
    if (loading_q[3]) restored_q <= third_q[0 +: W];
    if (loading_q[3]) no_x_q <= x_i == '0;
    if (loading_q[4]) restored_first_q <= third_q[0 +: 2*W];
    if (loading_q[5]) restored_second_q <= third_q[0 +: 3*W];
  end
  logic takes_over;
  assign takes_over = loading_q[6];

  // Numbers of (x' - a, y' - 2) of the current state.
  logic [3*W-1:0] second, second_q;
  always_comb begin
    if (move_i.restored || takes_over) second = restored_second_q;
    else if (move_i.x_down) second = third_q[W +: 3*W];
    else if (move_i.y_down) second = third_q[0 +: 3*W];
    else second = second_q;
  end
  always_ff @(posedge clk_i) second_q <= second;

  // Numbers of (x' - a, y' - 1) of the current state, and of both next states.
  logic [2*W-1:0] first_q, first_d, unserved_first, served_first;
  always_comb begin
    if (unserved_move_i.restored || takes_over) unserved_first = restored_first_q;
    else if (unserved_move_i.x_down) unserved_first = second[W +: 2*W];
    else unserved_first = first_q;
  end
  always_comb begin
    if (served_move_i.restored || takes_over) served_first = restored_first_q;
    else if (served_move_i.y_down && !served_move_i.x_down) served_first = second[0 +: 2*W];
    else served_first = first_q;
  end
  msr_late_select #(
    .W(2 * W)
  ) u_select_first (
    .late_i(wins_i), .yes_i(served_first), .no_i(unserved_first), .chosen_o(first_d)
  );

  // The number and the tie-break of an outcome.
  localparam int OutcomeW = W + TieW;
  logic [OutcomeW-1:0] unserved_q, served_q, unserved_d, served_d, unserved_stays;
  logic [OutcomeW-1:0] unserved_misses, unserved_wins, served_misses, served_wins;
  logic [OutcomeW-1:0] unserved_loses, served_loses;
  msr_path_step u_unserved_misses (
    .lowest_denominator_i, .number_i(unserved_q[TieW +: W]), .x_i(unserved_x_i),
    .first_i(unserved_first[W +: W]), .falls_i(unserved_miss_move_i.x_down),
    .x_falls_i(unserved_miss_move_i.x_down), .restored_i(unserved_miss_move_i.restored),
    .restored_number_i(restored_q), .restored_no_x_i(no_x_q), .y_i(unserved_miss_y_i),
    .number_o(unserved_misses[TieW +: W]), .tie_o(unserved_misses[0 +: TieW])
  );
  msr_path_step u_unserved_wins (
    .lowest_denominator_i, .number_i(unserved_q[TieW +: W]), .x_i(unserved_x_i),
    .first_i(unserved_first[0 +: W]),
    .falls_i(unserved_wins_move_i.y_down && !unserved_wins_move_i.x_down),
    .x_falls_i(unserved_wins_move_i.x_down),
    .restored_i(unserved_wins_move_i.restored || takes_over), .restored_number_i(restored_q),
    .restored_no_x_i(no_x_q), .y_i(unserved_wins_y_i),
    .number_o(unserved_wins[TieW +: W]), .tie_o(unserved_wins[0 +: TieW])
  );
  msr_path_step u_served_misses (
    .lowest_denominator_i, .number_i(served_q[TieW +: W]), .x_i(served_x_i),
    .first_i(served_first[W +: W]), .falls_i(served_miss_move_i.x_down),
    .x_falls_i(served_miss_move_i.x_down), .restored_i(served_miss_move_i.restored),
    .restored_number_i(restored_q), .restored_no_x_i(no_x_q), .y_i(served_miss_y_i),
    .number_o(served_misses[TieW +: W]), .tie_o(served_misses[0 +: TieW])
  );
  msr_path_step u_served_wins (
    .lowest_denominator_i, .number_i(served_q[TieW +: W]), .x_i(served_x_i),
    .first_i(served_first[0 +: W]),
    .falls_i(served_wins_move_i.y_down && !served_wins_move_i.x_down),
    .x_falls_i(served_wins_move_i.x_down), .restored_i(served_wins_move_i.restored),
    .restored_number_i(restored_q), .restored_no_x_i(no_x_q), .y_i(served_wins_y_i),
    .number_o(served_wins[TieW +: W]), .tie_o(served_wins[0 +: TieW])
  );
  logic [TieW-1:0] restored_tie;
  assign restored_tie = unserved_y_i ^ {8{no_x_q && !lowest_denominator_i}};
  assign unserved_stays = takes_over ? {restored_q, restored_tie} : unserved_q;
  msr_late_select #(
    .W(OutcomeW)
  ) u_select_unserved_loses (
    .late_i(unserved_past_i), .yes_i(unserved_misses), .no_i(unserved_stays),
    .chosen_o(unserved_loses)
  );
  msr_late_select #(
    .W(OutcomeW)
  ) u_select_served_loses (
    .late_i(served_past_i), .yes_i(served_misses), .no_i(served_q), .chosen_o(served_loses)
  );
  msr_late_select #(
    .W(2 * OutcomeW)
  ) u_select (
    .late_i(wins_i), .yes_i({served_loses, served_wins}), .no_i({unserved_loses, unserved_wins}),
    .chosen_o({unserved_d, served_d})
  );

  always_ff @(posedge clk_i) begin
    first_q <= first_d;
    {unserved_q, served_q} <= {unserved_d, served_d};
  end

  assign {unserved_number_o, unserved_tie_o} = unserved_q;
  assign {served_number_o, served_tie_o} = served_q;

  logic unused;
  assign unused = ^{unserved_move_i, unserved_miss_move_i, served_miss_move_i};

endmodule
