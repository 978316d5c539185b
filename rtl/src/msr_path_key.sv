/// The windows of a stream's two next states as numbers: the part of their order keys that changes
/// with x' and y'.
///
/// The ratio x' * R(y') / 2^15 is that of the other cores. No multiplication is in the path of a
/// move: y' falls by at most 1, and x' only with it, so the next ratio is x' * R(y' - 1) or (x' -
/// 1) * R(y' - 1). Both are ready in registers:
///
///   cycle of a move that lowers y'   the product x' * R(y' - 2) of the old x' and y' is registered
///   the next cycle                   R(y' - 1) is subtracted from it once or twice, as x' fell
///   later                            both ratios are kept
///
/// For this R(y' - 1), R(y' - 2) and R(y' - 3) are kept, and R(y' - 4) is read ahead. A violation
/// raises y' but has x' = 0 until x/y is restored: the ratio is 0 for any R.
///
/// Each state has two outcomes of the next command; the decision selects the two that follow from
/// the true state. Products and the ROM's data of both states are selected a cycle later.
///
/// Latency: the outputs match x' and y' in every cycle from the sixth after `load_i`. x' and y' of
/// both states must be constant until the seventh.
module msr_path_key (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  /// The mode has window-constraints; otherwise the number is 0.
  input  logic                        enable_i,
  /// Among zero window-constraints the lowest y' is first.
  input  logic                        lowest_denominator_i,
  /// x' = x and y' = y are being written.
  input  logic                        load_i,
  /// The stream is served by the current decision (late).
  input  logic                        wins_i,
  /// x' and y' of both states.
  input  logic [msr_pkg::WindowW-1:0] unserved_x_i,
  input  logic [msr_pkg::WindowW-1:0] unserved_y_i,
  input  logic [msr_pkg::WindowW-1:0] served_x_i,
  input  logic [msr_pkg::WindowW-1:0] served_y_i,
  /// Their moves by the next command, and y' after each.
  input  msr_pkg::move_t              unserved_loses_move_i,
  input  msr_pkg::move_t              unserved_wins_move_i,
  input  msr_pkg::move_t              served_loses_move_i,
  input  msr_pkg::move_t              served_wins_move_i,
  input  logic [msr_pkg::WindowW-1:0] unserved_loses_y_i,
  input  logic [msr_pkg::WindowW-1:0] unserved_wins_y_i,
  input  logic [msr_pkg::WindowW-1:0] served_loses_y_i,
  input  logic [msr_pkg::WindowW-1:0] served_wins_y_i,
  output logic [msr_pkg::RatioW-1:0]  unserved_ratio_o,
  output logic [msr_pkg::WindowW-1:0] unserved_tie_o,
  output logic [msr_pkg::RatioW-1:0]  served_ratio_o,
  output logic [msr_pkg::WindowW-1:0] served_tie_o
);

  localparam int Shift = 15;
  localparam int ReciprocalW = 32;
  localparam int ProductW = ReciprocalW + 1;
  localparam int AddressW = 9;
  // The ratio, whether x' is 0, the tie-break; the ratios x'/(y' - 1) and (x' - 1)/(y' - 1);
  // R(y' - 1), R(y' - 2) and R(y' - 3); whether y' and x' have just decreased.
  localparam int NumberW = 3 * msr_pkg::RatioW + msr_pkg::WindowW + 3 * ReciprocalW + 3;

  // Cycles since the load; the first four request R(y), R(y - 1), R(y - 2) and R(y - 3).
  logic [6:1] loading_q;
  logic [AddressW-1:0] address;
  always_comb begin
    if (loading_q[1]) address = {1'b0, unserved_y_i} + 1'b1;
    else if (loading_q[2]) address = {1'b0, unserved_y_i};
    else if (loading_q[3]) address = {1'b0, unserved_y_i} - 1'b1;
    else if (loading_q[4]) address = {1'b0, unserved_y_i} - AddressW'(2);
    else address = {1'b0, unserved_y_i} - AddressW'(3);
  end
  logic [ReciprocalW-1:0] unserved_read, served_read, read;
  msr_reciprocals u_unserved_reciprocals (
    .clk_i, .address_i(address), .reciprocal_o(unserved_read)
  );
  msr_reciprocals u_served_reciprocals (
    .clk_i, .address_i({1'b0, served_y_i} - AddressW'(3)), .reciprocal_o(served_read)
  );

  // Of both states: the unserved one is number 0.
  logic [2*NumberW-1:0] numbers_q;
  logic [NumberW-1:0] first_q;
  logic [2*ProductW-1:0] products_q;
  logic [ProductW-1:0] product;
  logic won_q;
  assign read = won_q ? served_read : unserved_read;
  assign product = won_q ? products_q[ProductW +: ProductW] : products_q[0 +: ProductW];

  logic [2*NumberW-1:0] loses, wins;
  for (genvar k = 0; k < 2; k++) begin : gen_state
    // The kept number; `next`, `after` and `third` are the reciprocals.
    logic [msr_pkg::RatioW-1:0] ratio, kept_same, kept_less, same_x, less_x;
    logic [msr_pkg::WindowW-1:0] tie, x;
    logic [ReciprocalW-1:0] next, after, kept_third, third;
    logic zero, fell, x_fell;
    assign {ratio, zero, tie, kept_same, kept_less, next, after, kept_third, fell, x_fell} =
        numbers_q[k*NumberW +: NumberW];
    assign x = k == 0 ? unserved_x_i : served_x_i;

    logic [ProductW-1:0] once, twice;
    assign once = product - ProductW'(next);
    assign twice = product - {next, 1'b0};
    assign third = fell ? read : kept_third;
    assign same_x = !fell ? kept_same : x_fell ? once[Shift +: msr_pkg::RatioW] :
                                                 product[Shift +: msr_pkg::RatioW];
    assign less_x = !fell ? kept_less : x_fell ? twice[Shift +: msr_pkg::RatioW] :
                                                 once[Shift +: msr_pkg::RatioW];

    msr_pkg::number_t number, first_number;
    logic [msr_pkg::RatioW-1:0] first_ratio, first_same, first_less;
    logic [msr_pkg::WindowW-1:0] first_tie;
    logic [ReciprocalW-1:0] first_next, first_after, first_third;
    logic first_zero, first_fell, first_x_fell;
    assign {first_ratio, first_zero, first_tie, first_same, first_less, first_next, first_after,
            first_third, first_fell, first_x_fell} = first_q;
    assign number = {ratio, zero, tie, after, third, 1'b0};
    assign first_number = {first_ratio, first_zero, first_tie, first_after, first_third, 1'b0};

    for (genvar o = 0; o < 2; o++) begin : gen_outcome
      msr_pkg::move_t move;
      logic [msr_pkg::WindowW-1:0] y;
      assign move = o == 0 ? (k == 0 ? unserved_loses_move_i : served_loses_move_i) :
                             (k == 0 ? unserved_wins_move_i : served_wins_move_i);
      assign y = o == 0 ? (k == 0 ? unserved_loses_y_i : served_loses_y_i) :
                          (k == 0 ? unserved_wins_y_i : served_wins_y_i);
      // The step of the other cores; its `next` and `after` are R(y' - 2) and R(y' - 3) here.
      msr_pkg::number_t stepped;
      msr_key_step u_step (
        .lowest_denominator_i, .number_i(number), .first_i(first_number), .move_i(move),
        .same_x_i(same_x), .less_x_i(less_x), .same_zero_i(x == '0),
        .less_zero_i(x == msr_pkg::WindowW'(1)), .y_i(y), .number_o(stepped)
      );
      logic [NumberW-1:0] outcome;
      // After a fall of y' the product replaces the kept ratios.
      assign outcome = {
        stepped.ratio, stepped.zero, stepped.tie, move.restored ? first_same : same_x,
        move.restored ? first_less : less_x,
        move.restored ? first_next : stepped.fell ? after : next, stepped.next, stepped.after,
        stepped.fell, move.x_down
      };
      if (o == 0) begin : gen_loses
        assign loses[k*NumberW +: NumberW] = outcome;
      end else begin : gen_wins
        assign wins[k*NumberW +: NumberW] = outcome;
      end
    end

    always_ff @(posedge clk_i) begin
      products_q[k*ProductW +: ProductW] <= ProductW'(x) * ProductW'(after);
    end

    logic unused;
    assign unused = ^{first_fell, first_x_fell, first_tie, once, twice, product};
  end

  // No command moves x'/y' during a load.
  logic [NumberW-1:0] otherwise;
  always_comb begin
    logic [msr_pkg::RatioW-1:0] ratio, same_x, less_x;
    logic [msr_pkg::WindowW-1:0] tie;
    logic [ReciprocalW-1:0] next, after, third;
    logic zero, fell, x_fell;
    {ratio, zero, tie, same_x, less_x, next, after, third, fell, x_fell} = loses[0 +: NumberW];
    if (loading_q[4]) begin
      ratio = enable_i ? product[Shift +: msr_pkg::RatioW] : '0;
      zero = !enable_i || unserved_x_i == '0;
      next = after;
      // In the next cycle the product is x * R(y - 1).
      fell = 1'b1;
      x_fell = 1'b0;
    end
    if (loading_q[2] || loading_q[3] || loading_q[4]) after = read;
    if (loading_q[5]) tie = unserved_y_i ^ {8{zero && !lowest_denominator_i}};
    otherwise = {ratio, zero, tie, same_x, less_x, next, after, third, fell, x_fell};
  end

  logic [2*NumberW-1:0] numbers_d;
  msr_late_select #(
    .W(2 * NumberW)
  ) u_select (
    .late_i(wins_i), .yes_i({wins[NumberW +: NumberW], loses[NumberW +: NumberW]}),
    .no_i({wins[0 +: NumberW], otherwise}), .chosen_o(numbers_d)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) loading_q <= '0;
    else loading_q <= {loading_q[5:1], load_i};
  end

  always_ff @(posedge clk_i) begin
    numbers_q <= numbers_d;
    won_q <= wins_i;
    if (loading_q[6]) first_q <= numbers_q[0 +: NumberW];
  end

  assign {unserved_ratio_o, unserved_tie_o} =
      {numbers_q[NumberW-1 -: msr_pkg::RatioW],
       numbers_q[NumberW-msr_pkg::RatioW-2 -: msr_pkg::WindowW]};
  assign {served_ratio_o, served_tie_o} =
      {numbers_q[2*NumberW-1 -: msr_pkg::RatioW],
       numbers_q[2*NumberW-msr_pkg::RatioW-2 -: msr_pkg::WindowW]};

endmodule
