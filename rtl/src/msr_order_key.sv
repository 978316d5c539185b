/// A stream's window-constraint as a number: the part of its order key that changes with x' and y'.
///
/// The ratio x'/y' is x' * R(y') / 2^15 truncated, with R(y) = 2^31 / y rounded up. It is equal for
/// equal fractions and ordered like all others (checked for all 32,895 in bulk/). The reciprocals
/// are in a ROM. An update lowers y' by 1, restores x/y, or leaves x'/y' (after a violation x' =
/// 0). Both outcomes are therefore computed ahead, with one multiplication:
///
///   two cycles after an update   R(y' - 1) is read from the ROM and registered
///   the third                    x' * R(y' - 1) is registered
///   from the fourth on           both outcomes are valid: x'/(y' - 1) and (x' - 1)/(y' - 1)
///   `commit_i`                   selects one of them, x/y, or the old number
///
/// With `Deferred` the selection follows one cycle after `commit_i`: `ratio_o` is then that of a
/// loser, `ratio_wins_o` that of the winner, and `wins_i` selects. `y_i` is the selected one, read
/// one cycle before its register.
///
/// After a load the same parts compute x/y in four cycles; no packet may be taken before the
/// fourth.
///
/// Latency: see above. Invariant: from the fifth cycle after a load, `ratio_o` and `zero_o` match
/// `x_i` and `y_i` (checked at every step by the bulk comparison).
module msr_order_key #(
  /// `wins_i` follows one cycle after `commit_i`.
  parameter bit Deferred = 1'b0
) (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  /// The mode has window-constraints; otherwise the number is 0.
  input  logic                        enable_i,
  /// x' = x and y' = y are being written.
  input  logic                        load_i,
  input  logic [msr_pkg::WindowW-1:0] x_i,
  input  logic [msr_pkg::WindowW-1:0] y_i,
  /// x' and y' change in this cycle, by `wins_move_i` or `loses_move_i`.
  input  logic                        commit_i,
  input  logic                        wins_i,
  input  msr_pkg::move_t              wins_move_i,
  input  msr_pkg::move_t              loses_move_i,
  output logic [msr_pkg::RatioW-1:0]  ratio_o,
  /// x' is 0.
  output logic                        zero_o,
  /// With `Deferred`: these replace the other two in a cycle of `wins_i`.
  output logic [msr_pkg::RatioW-1:0]  ratio_wins_o,
  output logic                        zero_wins_o
);

  localparam int Shift = 15;
  localparam int ReciprocalW = 32;
  localparam int ProductW = ReciprocalW + 1;

  // Cycles since the load.
  logic [4:1] loading_q;
  logic [8:0] address;
  assign address = {1'b0, y_i} + 9'(loading_q[1]);

  logic [ReciprocalW-1:0] read_q, reciprocal_q;
  msr_reciprocals u_reciprocals (
    .clk_i, .address_i(address), .reciprocal_o(read_q)
  );
  always_ff @(posedge clk_i) reciprocal_q <= read_q;

  logic [ProductW-1:0] product_q, less;
  logic [msr_pkg::RatioW-1:0] ratio_q, first_ratio_q;
  logic zero_q, first_zero_q;
  assign less = product_q - ProductW'(reciprocal_q);

  logic [msr_pkg::RatioW-1:0] same_x, less_x, lower_wins, lower_loses, ratio_wins, ratio_loses;
  logic zero_wins, zero_loses;
  assign same_x = product_q[Shift +: msr_pkg::RatioW];
  assign less_x = less[Shift +: msr_pkg::RatioW];
  logic unused;
  assign unused = ^{less[ProductW-1:Shift+msr_pkg::RatioW], less[Shift-1:0]};
  assign lower_wins = wins_move_i.x_down ? less_x : same_x;
  assign lower_loses = loses_move_i.x_down ? less_x : same_x;

  logic [msr_pkg::RatioW-1:0] ratio;
  logic zero, changes;

  // Every ratio above 0 is at least 1/255, more than 2^8 of 2^16.
  always_comb begin
    {ratio_wins, zero_wins} = {ratio_q, zero_q};
    if (wins_move_i.restored) begin
      {ratio_wins, zero_wins} = {first_ratio_q, first_zero_q};
    end else if (wins_move_i.y_down) begin
      {ratio_wins, zero_wins} = {lower_wins, lower_wins[msr_pkg::RatioW-1:8] == '0};
    end
    {ratio_loses, zero_loses} = {ratio_q, zero_q};
    if (loses_move_i.restored) begin
      {ratio_loses, zero_loses} = {first_ratio_q, first_zero_q};
    end else if (loses_move_i.y_down) begin
      {ratio_loses, zero_loses} = {lower_loses, lower_loses[msr_pkg::RatioW-1:8] == '0};
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) loading_q <= '0;
    else loading_q <= {loading_q[3:1], load_i};
  end

  always_ff @(posedge clk_i) begin
    product_q <= ProductW'(x_i) * ProductW'(reciprocal_q);
    if (loading_q[4]) begin
      ratio_q <= enable_i ? same_x : '0;
      zero_q <= !enable_i || same_x[msr_pkg::RatioW-1:8] == '0;
      first_ratio_q <= same_x;
      first_zero_q <= same_x[msr_pkg::RatioW-1:8] == '0;
    end else if (changes) begin
      ratio_q <= ratio;
      zero_q <= zero;
    end
  end

  if (Deferred) begin : gen_deferred
    logic [msr_pkg::RatioW-1:0] ratio_wins_q;
    logic zero_wins_q;
    always_ff @(posedge clk_i) {ratio_wins_q, zero_wins_q} <= {ratio_wins, zero_wins};
    assign changes = commit_i || wins_i;
    assign {ratio, zero} = commit_i ? {ratio_loses, zero_loses} : {ratio_wins_q, zero_wins_q};
    assign {ratio_wins_o, zero_wins_o} = {ratio_wins_q, zero_wins_q};
  end else begin : gen_at_once
    assign changes = commit_i;
    assign {ratio, zero} = wins_i ? {ratio_wins, zero_wins} : {ratio_loses, zero_loses};
    assign {ratio_wins_o, zero_wins_o} = '0;
  end

  assign {ratio_o, zero_o} = {ratio_q, zero_q};

endmodule
