/// Computes a stream's window-constraint as a number in every cycle, for a core that decides every
/// cycle.
///
/// The ratio is that of `msr_order_key`, x' * R(y') / 2^15, which takes four cycles there since the
/// ROM is read when the decision is known. Here R(y' - 1) and R(y' - 2) are kept in registers, and
/// R(y' - 3) is read ahead: y' falls by at most 1, or is restored to y. The ROM's data arrives one
/// cycle later, when a move of the window may already need it. R(y - 1) and R(y - 2) are kept after
/// LOAD. A violation raises y' but has x' = 0 until x/y is restored: the ratio is 0 for any R.
///
/// The tie-break y' is also ready for comparison: inverted for zero window-constraints if the
/// highest is first.
///
/// Latency: `ratio_o` and `tie_o` match x' and y' in every cycle from the fifth after `load_i`. x'
/// and y' must not change in the four cycles between.
module msr_order_key_ahead (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  /// The mode has window-constraints; otherwise the number is 0.
  input  logic                        enable_i,
  /// Among zero window-constraints the lowest y' is first.
  input  logic                        lowest_denominator_i,
  /// x' = x and y' = y are being written.
  input  logic                        load_i,
  input  logic [msr_pkg::WindowW-1:0] x_i,
  input  logic [msr_pkg::WindowW-1:0] y_i,
  /// x' and y' change in this cycle: by `wins_move_i` (late) if the stream wins, else
  /// `loses_move_i`.
  input  logic                        commit_i,
  input  logic                        wins_i,
  input  msr_pkg::move_t              wins_move_i,
  input  msr_pkg::move_t              loses_move_i,
  /// y' of the next cycle, for either outcome.
  input  logic [msr_pkg::WindowW-1:0] wins_y_i,
  input  logic [msr_pkg::WindowW-1:0] loses_y_i,
  output logic [msr_pkg::RatioW-1:0]  ratio_o,
  output logic [msr_pkg::WindowW-1:0] tie_o
);

  localparam int Shift = 15;
  localparam int ReciprocalW = 32;
  localparam int ProductW = ReciprocalW + 1;
  localparam int AddressW = 9;
  localparam int NumberW = msr_pkg::RatioW + msr_pkg::WindowW + 2 * ReciprocalW + 2;

  // Cycles since the load; the first three request R(y), R(y - 1) and R(y - 2).
  logic [4:1] loading_q;
  logic [AddressW-1:0] address;
  always_comb begin
    if (loading_q[1]) address = {1'b0, y_i} + 1'b1;
    else if (loading_q[2]) address = {1'b0, y_i};
    else if (loading_q[3]) address = {1'b0, y_i} - 1'b1;
    else address = {1'b0, y_i} - AddressW'(2);
  end
  logic [ReciprocalW-1:0] read_q;
  msr_reciprocals u_reciprocals (
    .clk_i, .address_i(address), .reciprocal_o(read_q)
  );

  msr_pkg::number_t number_q, number_d, first_q, number, wins, loses, otherwise;
  assign number.ratio = number_q.ratio;
  assign number.zero = number_q.zero;
  assign number.tie = number_q.tie;
  assign number.next = number_q.next;
  assign number.after = number_q.fell ? read_q : number_q.after;
  assign number.fell = 1'b0;

  logic [ProductW-1:0] product, less;
  assign product = ProductW'(x_i) * ProductW'(number.next);
  assign less = product - ProductW'(number.next);
  logic [msr_pkg::RatioW-1:0] same_x, less_x;
  logic same_zero, less_zero;
  assign same_x = product[Shift +: msr_pkg::RatioW];
  assign less_x = less[Shift +: msr_pkg::RatioW];
  assign same_zero = x_i == '0;
  assign less_zero = x_i == msr_pkg::WindowW'(1);

  msr_key_step u_wins (
    .lowest_denominator_i, .number_i(number), .first_i(first_q), .move_i(wins_move_i),
    .same_x_i(same_x), .less_x_i(less_x), .same_zero_i(same_zero), .less_zero_i(less_zero),
    .y_i(wins_y_i), .number_o(wins)
  );
  msr_key_step u_loses (
    .lowest_denominator_i, .number_i(number), .first_i(first_q), .move_i(loses_move_i),
    .same_x_i(same_x), .less_x_i(less_x), .same_zero_i(same_zero), .less_zero_i(less_zero),
    .y_i(loses_y_i), .number_o(loses)
  );

  always_comb begin
    otherwise = commit_i ? loses : number;
    if (loading_q[2] || loading_q[3]) otherwise.next = read_q;
    if (loading_q[3]) otherwise.ratio = enable_i ? same_x : '0;
    if (loading_q[3]) otherwise.zero = !enable_i || same_zero;
    if (loading_q[4]) otherwise.after = read_q;
    if (loading_q[4]) otherwise.tie = y_i ^ {8{number.zero && !lowest_denominator_i}};
  end

  msr_late_select #(
    .W(NumberW)
  ) u_select (
    .late_i(wins_i), .yes_i(wins), .no_i(otherwise), .chosen_o(number_d)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) loading_q <= '0;
    else loading_q <= {loading_q[3:1], load_i};
  end

  always_ff @(posedge clk_i) begin
    number_q <= number_d;
    if (loading_q[3]) begin
      first_q <= '0;
      first_q.ratio <= same_x;
      first_q.zero <= same_zero;
      first_q.next <= read_q;
    end
    if (loading_q[4]) first_q.after <= read_q;
  end

  assign ratio_o = number_q.ratio;
  assign tie_o = number_q.tie;

  logic unused;
  assign unused = ^{first_q.tie, less[ProductW-1:Shift+msr_pkg::RatioW], less[Shift-1:0]};

`ifdef VERILATOR
  initial if ($bits(msr_pkg::number_t) != NumberW)
    $fatal(1, "NumberW is not the width of number_t");
`endif
`ifdef FORMAL
  // The proof uses a stand-in ROM: entry a is a.
  logic [2:0] since;
  logic [msr_pkg::WindowW-1:0] first_x, first_y;
  logic restored;
  initial since = '0;
  always_ff @(posedge clk_i) begin
    if (load_i) since <= 3'd1;
    else if (since != 3'd5 && since != 0) since <= since + 1'b1;
    if (since == 3'd1) {first_x, first_y} <= {x_i, y_i};
    restored <= commit_i && !load_i && (wins_i ? wins_move_i.restored : loses_move_i.restored);
  end
  always @(posedge clk_i) begin
    // A load during a load restarts; pending results of the first are overwritten.
    case (since)
      3'd0: ;
      3'd1: assert (loading_q[1]);
      3'd2: assert (loading_q[2:1] == 2'b10);
      3'd3: assert (loading_q[3:1] == 3'b100);
      3'd4: assert (loading_q == 4'b1000);
      default: assert (since == 3'd5 && loading_q == '0);
    endcase
    if (since > 3'd1 && since < 3'd5) assert ({first_x, first_y} == {x_i, y_i});
    // Checks the restored values against the caller's.
    if (since == 3'd5 && restored) assume ({first_x, first_y} == {x_i, y_i});
    if (since == 3'd5) begin
      if (commit_i && wins_move_i.restored) assume (wins_y_i == first_y);
      if (commit_i && loses_move_i.restored) assume (loses_y_i == first_y);
      assert (!first_q.fell && first_q.zero == (first_x == 0));
      assert (number.next == {24'b0, y_i});
      assert (number.after == {23'b0, {1'b0, y_i} - 9'd1});
      assert (first_q.next == {24'b0, first_y});
      assert (first_q.after == {23'b0, {1'b0, first_y} - 9'd1});
      assert (number.zero == (x_i == 0));
    end
  end
`endif

endmodule
