/// One stream's next state: its head is served, misses its deadline, or neither, and the next head.
///
/// Source: ShareStreams, section 4 (PRIORITY_UPDATE) and Figure 7. The events of one call:
///
///   served    `serve_i`: rule A; the head leaves
///   missed    not served and the deadline is past: rule B; a stream that drops loses
///             its head, else the deadline advances by a period
///   next head the stream has no head and a packet is offered: its deadline is
///             max(last deadline, arrival) + period, or the given deadline of the first packet
///
/// One miss is charged a call. The control unit repeats the call while a deadline is past, so that
/// every elapsed period is charged once, as in the engine.
///
/// In EDF mode rules A and B do not apply. The deadline of a late packet that will be sent is kept;
/// its miss is counted on service. Static and tag mode have no deadlines.
///
/// Latency: combinational.
module msr_stream_outcome (
  input  msr_pkg::mode_e            mode_i,
  input  logic                      rtas99_i,
  input  msr_pkg::contract_t        contract_i,
  input  msr_pkg::state_t           state_i,
  input  msr_pkg::forecast_t        forecast_i,
  /// The head was chosen.
  input  logic                      serve_i,
  /// The packet behind the head, if any.
  input  logic                      packet_valid_i,
  input  logic [msr_pkg::TimeW-1:0] packet_stamp_i,
  output msr_pkg::state_t           state_o,
  output msr_pkg::event_t           event_o
);

  logic is_dwcs, is_edf;
  assign is_dwcs = mode_i == msr_pkg::Dwcs;
  assign is_edf = mode_i == msr_pkg::Edf;

  logic serve, miss, leave;
  assign serve = serve_i && state_i.valid;
  assign miss = state_i.valid && !serve_i && forecast_i.past &&
      (is_dwcs || (is_edf && contract_i.drop));
  assign leave = serve || (miss && contract_i.drop);

  logic [msr_pkg::WindowW-1:0] x, y;
  logic tag, violation;
  msr_pkg::move_t move;
  msr_attribute_update u_attribute_update (
    .rtas99_i,
    .miss_i     (miss),
    .first_x_i  (contract_i.x),
    .first_y_i  (contract_i.y),
    .growth_i   (contract_i.growth),
    .x_i        (state_i.x),
    .y_i        (state_i.y),
    .tag_i      (state_i.tag),
    .x_o        (x),
    .y_o        (y),
    .tag_o      (tag),
    .violation_o(violation),
    .move_o     (move)
  );

  logic vacant, take;
  assign vacant = !state_i.valid || leave;
  assign take = vacant && packet_valid_i;

  // The stream's following deadline and the next packet's deadline, computed before the selections.
  logic [msr_pkg::TimeW-1:0] moved_on, anew, next_packets;
  assign moved_on = state_i.deadline + contract_i.period;
  assign anew = packet_stamp_i + contract_i.period;
  assign next_packets = forecast_i.from_arrival ? anew : moved_on;

  always_comb begin
    state_o = state_i;
    state_o.valid = !vacant || packet_valid_i;
    if (is_dwcs && (serve || miss)) begin
      state_o.x = x;
      state_o.y = y;
      state_o.tag = tag;
    end
    if (take) begin
      state_o.arrival = packet_stamp_i;
      state_o.first = 1'b0;
    end
    if ((is_dwcs || is_edf) && take && !state_i.first) state_o.deadline = next_packets;
    if ((is_dwcs || is_edf) && miss && !leave) state_o.deadline = moved_on;
    // A deadline long past stops advancing: otherwise bit 15 of the difference would put it in the
    // future.
    state_o.stale = vacant && !take && (state_i.stale || forecast_i.long_past);
  end

  assign event_o.take = take;
  assign event_o.dropped = miss && contract_i.drop;
  assign event_o.missed = miss || (serve && is_edf && forecast_i.late);
  assign event_o.violated = is_dwcs && violation;
  assign event_o.served = serve;
  assign event_o.move = is_dwcs && (serve || miss) ? move : '0;

  logic unused;
  assign unused = ^forecast_i;

endmodule
