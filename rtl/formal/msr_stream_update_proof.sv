/// Proves that a stream's update equals the engine's on unbounded times, inside the wrap-around
/// window.
///
/// Times have 24 bits here, which do not wrap; the module sees the low 16 bits. The assumptions are
/// the range conditions of `msr_pkg`, no stronger.
module msr_stream_update_proof (
  input msr_pkg::mode_e     mode_i,
  input logic               rtas99_i,
  input msr_pkg::contract_t contract_i,
  input msr_pkg::state_t    state_i,
  input logic [23:0]        now_i,
  input logic [23:0]        step_i,
  input logic [23:0]        deadline_i,
  input logic [23:0]        stamp_i,
  input logic               serve_i,
  input logic               packet_valid_i
);

  logic [23:0] time_at;
  assign time_at = now_i + step_i;

  msr_pkg::state_t state, got;
  msr_pkg::event_t happened;
  always_comb begin
    state = state_i;
    state.deadline = deadline_i[15:0];
  end

  msr_stream_update u_stream_update (
    .mode_i, .rtas99_i, .contract_i, .state_i(state), .now_i(now_i[15:0]),
    .time_i(time_at[15:0]), .serve_i, .packet_valid_i, .packet_stamp_i(stamp_i[15:0]),
    .state_o(got), .event_o(happened)
  );

  logic [7:0] a_x, a_y, b_x, b_y;
  logic a_tag, b_tag, a_violation, b_violation;
  msr_attribute_update u_rule_a (
    .rtas99_i, .miss_i(1'b0), .first_x_i(contract_i.x), .first_y_i(contract_i.y),
    .growth_i(contract_i.growth), .x_i(state_i.x), .y_i(state_i.y), .tag_i(state_i.tag),
    .x_o(a_x), .y_o(a_y), .tag_o(a_tag), .violation_o(a_violation)
  );
  msr_attribute_update u_rule_b (
    .rtas99_i, .miss_i(1'b1), .first_x_i(contract_i.x), .first_y_i(contract_i.y),
    .growth_i(contract_i.growth), .x_i(state_i.x), .y_i(state_i.y), .tag_i(state_i.tag),
    .x_o(b_x), .y_o(b_y), .tag_o(b_tag), .violation_o(b_violation)
  );

  logic timed, dwcs, edf, expired, drops, leaves, vacant;
  logic [23:0] period, want_deadline, from;
  assign dwcs = mode_i == msr_pkg::Dwcs;
  assign edf = mode_i == msr_pkg::Edf;
  assign timed = dwcs || edf;
  assign period = {8'b0, contract_i.period};
  assign expired = state_i.valid && !serve_i && time_at >= deadline_i &&
                   (dwcs || (edf && contract_i.drop));
  assign drops = expired && contract_i.drop;
  assign leaves = (state_i.valid && serve_i) || drops;
  assign vacant = !state_i.valid || leaves;
  assign from = stamp_i > deadline_i ? stamp_i : deadline_i;

  always_comb begin
    want_deadline = deadline_i;
    if (timed && vacant && packet_valid_i && !state_i.first) want_deadline = from + period;
    else if (expired && !drops) want_deadline = deadline_i + period;
  end

  always_comb begin
    // All times are from 2^17 to well below 2^24, so that no 24-bit value wraps.
    assume (now_i >= 24'h020000 && now_i < 24'hF00000 && stamp_i <= 24'hF80000);
    assume (deadline_i <= 24'hF80000);
    assume (step_i < 24'h004000);
    assume (period >= 1 && period < 24'h004000);
    // Deadlines are less than 2^14 ahead of now. A head's deadline is less than 2^14 behind.
    assume (deadline_i < now_i + 24'h004000);
    assume (!state_i.valid || deadline_i + 24'h004000 > now_i);
    // An idle stream's last deadline is less than 2^14 behind, or the stream is marked stale.
    assume (state_i.stale || deadline_i + 24'h004000 > now_i);
    assume (!state_i.stale || (!state_i.valid && deadline_i + 24'h004000 <= time_at));
    // A head waits less than 2^16 ticks, unless its stream is ahead of time.
    assume (stamp_i <= time_at);
    assume (stamp_i + 24'h010000 > time_at || deadline_i >= time_at);
    // An idle stream's packet arrives now, or since the last step.
    assume (state_i.valid || stamp_i >= now_i);
    // A winner was not late when it was chosen.
    assume (!(dwcs && serve_i && state_i.valid) || deadline_i > now_i);

    assert (got.valid == (!vacant || packet_valid_i));
    assert (happened.take == (vacant && packet_valid_i));
    assert (happened.served == (serve_i && state_i.valid));
    assert (happened.dropped == drops);
    assert (happened.missed ==
            (expired || (edf && serve_i && state_i.valid && now_i >= deadline_i)));
    assert (happened.violated == (dwcs && expired && b_violation));
    assert (got.deadline == want_deadline[15:0]);
    if (happened.take) begin
      assert (got.arrival == stamp_i[15:0]);
      assert (!got.first && !got.stale);
    end else begin
      assert (got.arrival == state_i.arrival && got.first == state_i.first);
    end
    if (dwcs && serve_i && state_i.valid) begin
      assert ({got.x, got.y, got.tag} == {a_x, a_y, a_tag});
    end else if (dwcs && expired) begin
      assert ({got.x, got.y, got.tag} == {b_x, b_y, b_tag});
    end else begin
      assert ({got.x, got.y, got.tag} == {state_i.x, state_i.y, state_i.tag});
    end
    // The assumptions on an idle stream hold again at the next decision.
    if (!got.valid) assert (got.stale || want_deadline + 24'h004000 > time_at);
    if (got.stale) assert (!got.valid && want_deadline + 24'h004000 <= time_at);
  end

endmodule
