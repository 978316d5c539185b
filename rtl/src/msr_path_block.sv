/// The registers of one stream of the pair core, a decision ahead.
///
/// A stream evolves without regard to the other streams, unless it is served. So the block keeps
/// two states beside the current one: the next state if the current decision does not serve the
/// stream, and the next state if it does. Meanwhile it computes the next command's outcomes from
/// both. The winner only selects, in the last gate before the registers:
///
///     next unserved state = outcome of losing,  of the state that the decision makes true
///     next served state   = outcome of winning, of the same state
///
/// A command passes two stages. In `commits_i` its outcomes are computed; a cycle later `update_i`
/// or `settle_i` makes one of them true.
///
/// Latency: `head_o` and the counters show a command's effect two cycles after `commits_i`.
/// Invariant: without a command in flight the unserved state equals the current one.
module msr_path_block #(
  /// This stream's number.
  parameter int Id = 0
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  msr_pkg::mode_e               mode_i,
  input  logic                         lowest_denominator_i,
  input  logic                         rtas99_i,
  input  logic                         load_i,
  input  msr_pkg::load_t               load_data_i,
  /// The outcomes of a command are computed: its decision's time, and the time up to which it
  /// charges misses.
  input  logic                         commits_i,
  input  logic [msr_pkg::TimeW-1:0]    commit_now_i,
  input  logic [msr_pkg::TimeW-1:0]    commit_time_i,
  /// The command of the previous cycle takes effect.
  input  logic                         update_i,
  input  logic                         settle_i,
  /// This stream is the winner (late); only with `update_i`.
  input  logic                         wins_i,
  /// The time of the current state.
  input  logic [msr_pkg::TimeW-1:0]    now_i,
  input  logic                         packet_valid_i,
  input  logic [msr_pkg::TimeW-1:0]    packet_stamp_i,
  output logic                         packet_take_o,
  /// The head was dropped in the previous cycle.
  output logic                         dropped_o,
  output msr_pkg::head_t               head_o,
  /// The order keys of both next states: fields as of `key_t`, with the number of `msr_path_key`.
  output logic [msr_pkg::PathKeyW-1:0] unserved_key_o,
  output logic [msr_pkg::PathKeyW-1:0] served_key_o,
  /// A past deadline is not charged.
  output logic                         overdue_o,
  /// An idle stream has a packet to take.
  output logic                         waiting_o,
  /// The first packet, with a given deadline, has not arrived: it may be past on arrival.
  output logic                         expected_o,
  output logic                         violation_o,
  /// Sticky: the head's deadline was more than 2^14 ticks from `now`.
  output logic                         range_o,
  output msr_pkg::count_t              count_o
);

  localparam int Top = msr_pkg::TimeW - 1;
  localparam int Places = 3;
  localparam int StateW = 4 + 2 * msr_pkg::TimeW + 2 * msr_pkg::WindowW;
  localparam int EventW = 8;

  logic is_dwcs, is_edf;
  assign is_dwcs = mode_i == msr_pkg::Dwcs;
  assign is_edf = mode_i == msr_pkg::Edf;

  msr_pkg::contract_t contract_q;
  logic loaded_q;
  msr_pkg::state_t state_q, state_d, unserved_q, unserved_d, served_q, served_d;
  msr_pkg::event_t unserved_event_q, unserved_event_d, served_event_q, served_event_d;

  msr_pkg::state_t loaded;
  always_comb begin
    loaded = '0;
    // Fields that the mode does not compare are constant 0.
    if (mode_i != msr_pkg::Tag) loaded.deadline = load_data_i.deadline;
    if (is_dwcs) loaded.x = load_data_i.contract.x;
    if (is_dwcs) loaded.y = load_data_i.contract.y;
    loaded.first = load_data_i.first;
  end

  // Packets behind the head of the current state, and behind that of each next state.
  logic [Places-1:0] front_valid;
  logic [Places*msr_pkg::TimeW-1:0] front_stamp;
  msr_packet_fronts #(
    .Places(Places)
  ) u_fronts (
    // A stream that was never loaded takes no packets.
    .clk_i, .rst_ni, .clear_i(load_i), .packet_valid_i(packet_valid_i && loaded_q),
    .packet_stamp_i, .packet_take_o, .wins_i, .served_takes_i(served_event_q.take),
    .unserved_takes_i(unserved_event_q.take), .valid_o(front_valid), .stamp_o(front_stamp)
  );

  // Outcomes of the next command, of both next states.
  msr_pkg::state_t unserved_loses, unserved_wins, served_loses, served_wins;
  msr_pkg::event_t unserved_loses_event, unserved_wins_event;
  msr_pkg::event_t served_loses_event, served_wins_event;
  logic unserved_past, served_past;
  msr_pkg::move_t unserved_miss_move, served_miss_move;
  logic [msr_pkg::WindowW-1:0] unserved_miss_y, served_miss_y;
  msr_path_outcomes u_unserved (
    .mode_i, .rtas99_i, .contract_i(contract_q), .commits_i, .commit_now_i, .commit_time_i,
    .state_i(unserved_q), .took_i(unserved_event_q.take), .front_valid_i(front_valid[1:0]),
    .front_stamp_i(front_stamp[2*msr_pkg::TimeW-1:0]), .loses_o(unserved_loses),
    .loses_event_o(unserved_loses_event), .wins_o(unserved_wins),
    .wins_event_o(unserved_wins_event), .past_o(unserved_past),
    .miss_move_o(unserved_miss_move), .miss_y_o(unserved_miss_y)
  );
  msr_path_outcomes u_served (
    .mode_i, .rtas99_i, .contract_i(contract_q), .commits_i, .commit_now_i, .commit_time_i,
    .state_i(served_q), .took_i(served_event_q.take), .front_valid_i(front_valid[1:0]),
    .front_stamp_i(front_stamp[2*msr_pkg::TimeW-1:0]), .loses_o(served_loses),
    .loses_event_o(served_loses_event), .wins_o(served_wins), .wins_event_o(served_wins_event),
    .past_o(served_past), .miss_move_o(served_miss_move), .miss_y_o(served_miss_y)
  );

  msr_pkg::state_t otherwise;
  assign otherwise = load_i ? loaded : unserved_loses;
  msr_late_select #(
    .W(StateW + EventW)
  ) u_select_unserved (
    .late_i(wins_i), .yes_i({served_loses, served_loses_event}),
    .no_i({otherwise, unserved_loses_event}), .chosen_o({unserved_d, unserved_event_d})
  );
  msr_late_select #(
    .W(StateW + EventW)
  ) u_select_served (
    .late_i(wins_i), .yes_i({served_wins, served_wins_event}),
    .no_i({unserved_wins, unserved_wins_event}), .chosen_o({served_d, served_event_d})
  );
  msr_pkg::event_t happened, happened_q;
  msr_late_select #(
    .W(StateW + EventW)
  ) u_select_state (
    .late_i(wins_i), .yes_i({served_q, served_event_q}),
    .no_i({load_i ? loaded : unserved_q, unserved_event_q}), .chosen_o({state_d, happened})
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {state_q, unserved_q, served_q} <= '0;
      {unserved_event_q, served_event_q} <= '0;
    end else begin
      {state_q, unserved_q, served_q} <= {state_d, unserved_d, served_d};
      {unserved_event_q, served_event_q} <= {unserved_event_d, served_event_d};
    end
  end

  logic [msr_pkg::LogW-1:0] unserved_number, served_number;
  logic [msr_pkg::WindowW-1:0] unserved_tie, served_tie;
  msr_path_key u_key (
    .clk_i, .rst_ni, .lowest_denominator_i, .load_i, .wins_i, .x_i(state_q.x),
    .move_i(happened_q.move), .unserved_x_i(unserved_q.x), .unserved_y_i(unserved_q.y),
    .unserved_move_i(unserved_event_q.move), .served_x_i(served_q.x), .served_y_i(served_q.y),
    .served_move_i(served_event_q.move), .unserved_past_i(unserved_past),
    .served_past_i(served_past), .unserved_miss_move_i(unserved_miss_move),
    .unserved_wins_move_i(unserved_wins_event.move), .served_miss_move_i(served_miss_move),
    .served_wins_move_i(served_wins_event.move), .unserved_miss_y_i(unserved_miss_y),
    .unserved_wins_y_i(unserved_wins.y), .served_miss_y_i(served_miss_y),
    .served_wins_y_i(served_wins.y),
    .unserved_number_o(unserved_number), .unserved_tie_o(unserved_tie),
    .served_number_o(served_number), .served_tie_o(served_tie)
  );
  assign unserved_key_o = {unserved_q.valid, msr_pkg::IdW'(Id), unserved_q.deadline,
                           unserved_number, unserved_tie, unserved_q.arrival};
  assign served_key_o = {served_q.valid, msr_pkg::IdW'(Id), served_q.deadline,
                         served_number, served_tie, served_q.arrival};

  // The counters lag their outputs by a cycle.
  msr_pkg::count_t count_q, count_d;
  logic counts_q, settled_q, violation_q, violation_d, range_q;
  always_comb begin
    count_d = count_q;
    violation_d = violation_q;
    if (counts_q) begin
      if (happened_q.missed) count_d.missed = count_q.missed + 1'b1;
      if (happened_q.violated) count_d.violations = count_q.violations + 1'b1;
      if (happened_q.served) count_d.serviced = count_q.serviced + 1'b1;
      violation_d = happened_q.violated || (settled_q && violation_q);
    end
  end

  logic [msr_pkg::TimeW-1:0] late;
  assign late = now_i - state_q.deadline;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      contract_q <= '0;
      count_q <= '0;
      {loaded_q, violation_q, range_q, counts_q, settled_q} <= '0;
      happened_q <= '0;
    end else begin
      {counts_q, settled_q} <= {update_i || settle_i, settle_i};
      happened_q <= happened;
      if (load_i) begin
        contract_q <= load_data_i.contract;
        count_q <= '0;
        loaded_q <= 1'b1;
        violation_q <= 1'b0;
        range_q <= 1'b0;
      end else begin
        count_q <= count_d;
        violation_q <= violation_d;
        range_q <= range_q ||
                   (state_q.valid && (is_dwcs || is_edf) && late[Top] != late[Top-1]);
      end
    end
  end

  logic charged;
  assign charged = is_dwcs || (is_edf && contract_q.drop);
  assign dropped_o = counts_q && happened_q.dropped;
  assign head_o = {state_q.valid, msr_pkg::IdW'(Id), state_q.deadline, state_q.x, state_q.y,
                   state_q.arrival};
  assign overdue_o = state_q.valid && !late[Top] && charged;
  assign waiting_o = !state_q.valid && front_valid[0];
  assign expected_o = state_q.first && charged;
  assign violation_o = violation_d;
  assign range_o = range_q;
  assign count_o = count_d;

  logic unused;
  assign unused = ^{happened_q, front_valid, front_stamp, state_q};

`ifdef VERILATOR
  initial begin
    if ($bits(msr_pkg::state_t) != StateW) $fatal(1, "StateW is not the width of state_t");
    if ($bits(msr_pkg::event_t) != EventW) $fatal(1, "EventW is not the width of event_t");
  end
  assert property (@(posedge clk_i) !is_dwcs || state_q.x <= state_q.y);
  assert property (@(posedge clk_i) !(load_i && (commits_i || update_i || settle_i)));
  // Without an effect in this cycle nothing separates the next state from the current one.
  assert property (@(posedge clk_i) update_i || settle_i || unserved_q == state_q);
  // A decision finds no past deadline that is not charged.
  assert property (@(posedge clk_i) !(update_i && overdue_o));
`endif

endmodule
