/// Register base block: the attributes of one stream and their updates.
///
/// Source: ShareStreams, section 4 ("Control Unit and Register Base Blocks") and Figure 7. Four
/// commands, one a cycle:
///
///   LOAD             writes the contract and the first deadline; the stream is idle
///   SETTLE           charges a past deadline; an idle stream takes an offered packet
///   PRIORITY_UPDATE  as SETTLE, for the time of the next decision; the winner's head leaves
///   none (SCHEDULE)  the attributes are stable while the network compares them
///
/// The stream's packets wait outside, in a queue that shows its front. `packet_valid_i` may rise at
/// any time and stays until `packet_take_o`. The taken packet becomes the head.
///
/// With `ComputeAhead` both outcomes, winner and loser, are computed and registered in every cycle.
/// PRIORITY_UPDATE only selects, and can share its cycle with the last SCHEDULE pass. `step` and
/// the offered packet are those of the previous cycle. Without `Registered` they are those of the
/// same cycle, as are all inputs of the selection.
///
/// With `Keyed` the block also outputs the order key (`msr_order_key`). The part of an update that
/// does not depend on the decision is registered one cycle before, with `step` and the offered
/// packet of that cycle. The attributes must not change in consecutive cycles.
///
/// With `ComputeAhead` and `Keyed`, the command writes a loser's outcome into the attributes and
/// the winner's into registers beside them. Whether the stream wins is registered too and selects
/// one cycle later, at the start of the next decision's first pass: no path leads from the last
/// pass to all attributes. Take and drop are reported in that cycle.
///
/// With `ComputeAhead` and `Keyed` but without `Registered`, the order key is new in every cycle
/// (`msr_order_key_ahead`). No input is of the previous cycle; only the counters lag their outputs
/// by a cycle.
///
/// Latency: a command's effect is visible in the next cycle.
/// Invariants: x' <= y'; after an update with no deadline past, `overdue_o` is low.
module msr_register_block #(
  /// This stream's number.
  parameter int Id = 0,
  /// Compute-Ahead: select precomputed outcomes.
  parameter bit ComputeAhead = 1'b0,
  /// ... registered in the previous cycle.
  parameter bit Registered = 1'b1,
  /// Maintain the order key.
  parameter bit Keyed = 1'b0
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  msr_pkg::mode_e             mode_i,
  input  logic                       lowest_denominator_i,
  input  logic                       rtas99_i,
  input  logic                       load_i,
  input  logic                       settle_i,
  input  logic                       update_i,
  /// 1: use `now_i` (settling); 0: use `next_now_i` (updating).
  input  logic                       at_now_i,
  input  msr_pkg::load_t             load_data_i,
  /// This stream is the winner, in the cycle of PRIORITY_UPDATE.
  input  logic                       wins_i,
  input  logic [msr_pkg::TimeW-1:0]  now_i,
  /// `now_i` of the next decision.
  input  logic [msr_pkg::TimeW-1:0]  next_now_i,
  input  logic                       packet_valid_i,
  input  logic [msr_pkg::TimeW-1:0]  packet_stamp_i,
  output logic                       packet_take_o,
  /// The head is dropped in this cycle.
  output logic                       dropped_o,
  output msr_pkg::head_t             head_o,
  /// With `Keyed`: the attributes as an order key.
  output msr_pkg::key_t              key_o,
  /// A past deadline is not charged: a decision must wait.
  output logic                       overdue_o,
  /// The last PRIORITY_UPDATE, or a later SETTLE, charged a violation.
  output logic                       violation_o,
  /// Sticky: the head's deadline was more than 2^14 ticks from `now`.
  output logic                       range_o,
`ifdef FORMAL
  /// What the proof compares but no output shows.
  output logic [94:0]                formal_o,
`endif
  output msr_pkg::count_t            count_o
);

  localparam int Top = msr_pkg::TimeW - 1;

  localparam bit Deferred = ComputeAhead && Keyed && Registered;
  localparam bit OneCycle = ComputeAhead && Keyed && !Registered;

  msr_pkg::contract_t contract_q;
  // `state` holds the attributes of this cycle. With `Deferred`, `state_wins` replaces `state_q` in
  // a cycle of `serves`.
  msr_pkg::state_t state, state_q, state_d, state_wins;
  msr_pkg::count_t count_q, count_d;
  msr_pkg::event_t happened;
  msr_pkg::move_t wins_move, loses_move;
  logic loaded_q, violation_q, violation_d, range_q;

  logic is_dwcs, is_edf;
  assign is_dwcs = mode_i == msr_pkg::Dwcs;
  assign is_edf = mode_i == msr_pkg::Edf;

  logic [msr_pkg::RatioW-1:0] ratio;
  logic [msr_pkg::WindowW-1:0] tie;

  // A stream that was never loaded takes no packets.
  logic offered;
  assign offered = packet_valid_i && loaded_q;

  msr_pkg::state_t loaded;
  always_comb begin
    loaded = '0;
    // Fields that the mode does not compare are constant 0.
    if (mode_i != msr_pkg::Tag) loaded.deadline = load_data_i.deadline;
    if (is_dwcs) loaded.x = load_data_i.contract.x;
    if (is_dwcs) loaded.y = load_data_i.contract.y;
    loaded.first = load_data_i.first;
  end

  // The command that takes effect in this cycle, and whether it removes the head. `serves_key` is
  // equal to `serves`.
  logic commands, settles, changes, serves, serves_key;
  assign commands = settle_i || update_i;
  if (Deferred) begin : gen_registered_command
    logic settles_q, changes_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) {settles_q, changes_q} <= '0;
      // In a cycle of LOAD nothing changes.
      else {settles_q, changes_q} <= {settle_i, commands && !load_i};
    end
    assign {settles, changes} = {settles_q, changes_q};
    // Two copies: one selects the attributes, the other the key, on the longest path.
    msr_flip_flop u_serves (
      .clk_i, .rst_ni, .d_i(update_i && wins_i), .q_o(serves)
    );
    msr_flip_flop u_serves_key (
      .clk_i, .rst_ni, .d_i(update_i && wins_i), .q_o(serves_key)
    );
  end else begin : gen_command
    // With one-cycle decisions the network reports decisions only.
    assign {settles, changes, serves} = {settle_i, commands, wins_i && (OneCycle || update_i)};
    assign serves_key = serves;
  end

  if (!Deferred) begin : gen_no_wins
    assign state_wins = '0;
  end

  msr_pkg::forecast_t forecast_q;
  logic offered_q;
  if (Keyed && !OneCycle) begin : gen_forecast
    msr_pkg::forecast_t forecast;
    msr_stream_forecast u_forecast (
      .state_i(state_q), .now_i, .time_i(at_now_i ? now_i : next_now_i), .packet_stamp_i,
      .forecast_o(forecast)
    );
    always_ff @(posedge clk_i) begin
      forecast_q <= forecast;
      offered_q <= offered;
    end
  end else begin : gen_no_forecast
    assign {forecast_q, offered_q} = '0;
    logic unused_forecast;
    assign unused_forecast = ^{forecast_q, offered_q};
  end

  if (Deferred) begin : gen_deferred
    msr_pkg::state_t wins, loses, wins_q;
    msr_pkg::event_t wins_event, loses_event, wins_event_q, loses_event_q;
    msr_stream_outcome u_wins (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .forecast_i(forecast_q),
      .serve_i(1'b1), .packet_valid_i(offered_q), .packet_stamp_i, .state_o(wins),
      .event_o(wins_event)
    );
    msr_stream_outcome u_loses (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .forecast_i(forecast_q),
      .serve_i(1'b0), .packet_valid_i(offered_q), .packet_stamp_i, .state_o(loses),
      .event_o(loses_event)
    );
    always_ff @(posedge clk_i) begin
      wins_q <= wins;
      wins_event_q <= wins_event;
      loses_event_q <= loses_event;
    end
    // Commands are never in consecutive cycles.
    assign state = serves ? wins_q : state_q;
    assign state_d = commands ? loses : state;
    assign happened = serves ? wins_event_q : loses_event_q;
    assign state_wins = wins_q;
    assign wins_move = wins_event.move;
    assign loses_move = loses_event.move;
  end else if (OneCycle) begin : gen_one_cycle
    msr_pkg::forecast_t forecast;
    msr_stream_forecast u_forecast (
      .state_i(state_q), .now_i, .time_i(at_now_i ? now_i : next_now_i), .packet_stamp_i,
      .forecast_o(forecast)
    );
    msr_pkg::state_t wins, loses;
    msr_pkg::event_t wins_event, loses_event;
    msr_stream_outcome u_wins (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .forecast_i(forecast),
      .serve_i(1'b1), .packet_valid_i(offered), .packet_stamp_i, .state_o(wins),
      .event_o(wins_event)
    );
    msr_stream_outcome u_loses (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .forecast_i(forecast),
      .serve_i(1'b0), .packet_valid_i(offered), .packet_stamp_i, .state_o(loses),
      .event_o(loses_event)
    );
    localparam int StateW = 4 + 2 * msr_pkg::TimeW + 2 * msr_pkg::WindowW;
`ifdef VERILATOR
    initial if ($bits(msr_pkg::state_t) != StateW) $fatal(1, "StateW is not the width of state_t");
`endif
    // The winner is the latest signal, so both successors are computed before it, including LOAD
    // and idle.
    msr_pkg::state_t otherwise;
    assign otherwise = load_i ? loaded : changes ? loses : state_q;
    msr_late_select #(
      .W(StateW)
    ) u_select (
      .late_i(serves), .yes_i(wins), .no_i(otherwise), .chosen_o(state_d)
    );
    assign happened = serves ? wins_event : loses_event;
    assign state = state_q;
    msr_order_key_ahead u_order_key (
      .clk_i, .rst_ni, .enable_i(is_dwcs), .lowest_denominator_i, .load_i, .x_i(state_q.x),
      .y_i(state_q.y), .commit_i(changes), .wins_i(serves), .wins_move_i(wins_event.move),
      .loses_move_i(loses_event.move), .wins_y_i(wins.y), .loses_y_i(loses.y), .ratio_o(ratio),
      .tie_o(tie)
    );
    assign {wins_move, loses_move} = '0;
  end else if (ComputeAhead) begin : gen_ahead
    msr_pkg::state_t wins, loses, wins_q, loses_q;
    msr_pkg::event_t wins_event, loses_event, wins_event_q, loses_event_q;

    msr_stream_update u_wins (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .now_i, .time_i(next_now_i),
      .serve_i(1'b1), .packet_valid_i(offered), .packet_stamp_i, .state_o(wins),
      .event_o(wins_event)
    );

    msr_stream_update u_loses (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .now_i,
      .time_i(at_now_i ? now_i : next_now_i),
      .serve_i(1'b0), .packet_valid_i(offered), .packet_stamp_i, .state_o(loses),
      .event_o(loses_event)
    );

    if (Registered) begin : gen_registered
      always_ff @(posedge clk_i) begin
        wins_q <= wins;
        loses_q <= loses;
        wins_event_q <= wins_event;
        loses_event_q <= loses_event;
      end
    end else begin : gen_same_cycle
      assign {wins_q, wins_event_q} = {wins, wins_event};
      assign {loses_q, loses_event_q} = {loses, loses_event};
    end

    assign state_d = settle_i ? loses : wins_i ? wins_q : loses_q;
    assign happened = settle_i ? loses_event : wins_i ? wins_event_q : loses_event_q;
    assign state = state_q;
    assign {wins_move, loses_move} = '0;
  end else if (Keyed) begin : gen_keyed
    msr_stream_outcome u_outcome (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .forecast_i(forecast_q),
      .serve_i(serves), .packet_valid_i(offered_q), .packet_stamp_i,
      .state_o(state_d), .event_o(happened)
    );
    assign state = state_q;
    assign wins_move = happened.move;
    assign loses_move = happened.move;
  end else begin : gen_base
    msr_stream_update u_update (
      .mode_i, .rtas99_i, .contract_i(contract_q), .state_i(state_q), .now_i,
      .time_i(at_now_i ? now_i : next_now_i),
      .serve_i(serves), .packet_valid_i(offered), .packet_stamp_i,
      .state_o(state_d), .event_o(happened)
    );
    assign state = state_q;
    assign {wins_move, loses_move} = '0;
  end

  // The events counted in this cycle.
  msr_pkg::event_t counted;
  logic counts, counts_on;
  if (OneCycle) begin : gen_count_later
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) {counted, counts, counts_on} <= '0;
      else {counted, counts, counts_on} <= {happened, changes, settles};
    end
  end else begin : gen_count_now
    assign {counted, counts, counts_on} = {happened, changes, settles};
  end

  logic unused;
  assign unused = ^{state, state_wins, serves, serves_key, happened.move, counted, wins_move,
                    loses_move, ratio, tie};

  always_comb begin
    count_d = count_q;
    violation_d = violation_q;
    if (counts) begin
      if (counted.missed) count_d.missed = count_q.missed + 1'b1;
      if (counted.violated) count_d.violations = count_q.violations + 1'b1;
      if (counted.served) count_d.serviced = count_q.serviced + 1'b1;
      violation_d = counted.violated || (counts_on && violation_q);
    end
  end

  logic [msr_pkg::TimeW-1:0] late;
  assign late = now_i - state.deadline;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      contract_q <= '0;
      count_q <= '0;
      loaded_q <= 1'b0;
      violation_q <= 1'b0;
      range_q <= 1'b0;
    end else if (load_i) begin
      contract_q <= load_data_i.contract;
      count_q <= '0;
      loaded_q <= 1'b1;
      violation_q <= 1'b0;
      range_q <= 1'b0;
    end else begin
      count_q <= count_d;
      violation_q <= violation_d;
      range_q <= range_q || (state.valid && (is_dwcs || is_edf) && late[Top] != late[Top-1]);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= '0;
    else if (OneCycle) state_q <= state_d;
    else if (load_i) state_q <= loaded;
    else if (commands || (Deferred && serves)) state_q <= state_d;
  end

  if (OneCycle) begin : gen_key_ahead
    assign key_o.valid = state_q.valid;
    assign key_o.id = msr_pkg::IdW'(Id);
    assign key_o.deadline = state_q.deadline;
    assign key_o.ratio = ratio;
    assign key_o.tie = tie;
    assign key_o.arrival = state_q.arrival;
  end else if (Keyed) begin : gen_key
    localparam int SelectedW = msr_pkg::KeyW - msr_pkg::IdW;
    logic [msr_pkg::RatioW-1:0] ratio_wins;
    logic [msr_pkg::WindowW-1:0] tie_wins;
    logic zero, zero_wins;
    logic [SelectedW-1:0] stays, wins, selected;
    msr_order_key #(
      .Deferred(Deferred)
    ) u_order_key (
      .clk_i, .rst_ni, .enable_i(is_dwcs), .load_i, .x_i(state_q.x), .y_i(state.y),
      .commit_i(commands),
      .wins_i(serves), .wins_move_i(wins_move), .loses_move_i(loses_move),
      .ratio_o(ratio), .zero_o(zero), .ratio_wins_o(ratio_wins), .zero_wins_o(zero_wins)
    );
    // For equal fractions the lowest x' has the lowest y'; for zeros the lowest y' is the rule
    // itself.
    assign tie = state_q.y ^ {8{zero && !lowest_denominator_i}};
    assign tie_wins = state_wins.y ^ {8{zero_wins && !lowest_denominator_i}};
    assign stays = {state_q.valid, state_q.deadline, ratio, tie, state_q.arrival};
    assign wins = {state_wins.valid, state_wins.deadline, ratio_wins, tie_wins, state_wins.arrival};
    if (Deferred) begin : gen_select
      msr_late_select #(
        .W(SelectedW)
      ) u_select (
        .late_i(serves_key), .yes_i(wins), .no_i(stays), .chosen_o(selected)
      );
    end else begin : gen_stays
      assign selected = stays;
      logic unused_wins;
      assign unused_wins = ^wins;
    end
    assign {key_o.valid, key_o.deadline, key_o.ratio, key_o.tie, key_o.arrival} = selected;
    assign key_o.id = msr_pkg::IdW'(Id);
  end else begin : gen_no_key
    assign key_o = '0;
    assign {ratio, tie} = '0;
    logic unused_key;
    assign unused_key = lowest_denominator_i;
  end

  assign packet_take_o = changes && happened.take;
  assign dropped_o = changes && happened.dropped;
  assign head_o.valid = state.valid;
  assign head_o.id = msr_pkg::IdW'(Id);
  assign head_o.deadline = state.deadline;
  assign head_o.x = state.x;
  assign head_o.y = state.y;
  assign head_o.arrival = state.arrival;
  assign overdue_o = state.valid && !late[Top] && (is_dwcs || (is_edf && contract_q.drop));
  assign violation_o = Deferred || OneCycle ? violation_d : violation_q;
  assign range_o = range_q;
  assign count_o = Deferred || OneCycle ? count_d : count_q;

`ifdef FORMAL
  assign formal_o = {serves, loaded_q, contract_q, state};
  always_comb assert (serves == serves_key);
`endif
`ifdef VERILATOR
  assert property (@(posedge clk_i) !is_dwcs || state.x <= state.y);
  assert property (@(posedge clk_i) !(settle_i && update_i));
  assert property (@(posedge clk_i) Deferred || !(load_i && changes));
`endif

endmodule
