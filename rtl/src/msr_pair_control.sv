/// Control unit of the pair core: sequences LOAD, SETTLE and decisions, and counts time.
///
/// A command passes two stages: its outcomes are computed, then it takes effect. For decisions back
/// to back:
///
///     decide_i    __/-----------------\______
///     outcomes          d0   d1   d2
///     effect                 d0   d1   d2
///     decided_o                   ____/--------------\__
///
/// SETTLE lets idle streams take packets and charges past deadlines between decisions. It is made
/// while a stream needs it and no decision starts. No decision starts until its effect is known.
///
/// A decision must not find an uncharged past deadline. It cannot after steps of at most 1 and
/// packets stamped with the time of the first decision that may see them: then decisions follow in
/// consecutive cycles. After a longer step, and while a stream expects a first packet with a given
/// deadline, the next decision waits for the state.
///
/// Latency: a decision's winner is known three cycles after `decide_i`.
module msr_pair_control (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      load_valid_i,
  output logic                      load_ready_o,
  input  logic                      decide_i,
  input  logic [msr_pkg::TimeW-1:0] step_i,
  /// Of the current state: a past deadline is not charged, an idle stream has a packet, a first
  /// packet with a given deadline is expected.
  input  logic                      overdue_i,
  input  logic                      waiting_i,
  input  logic                      expected_i,
  output logic                      ready_o,
  /// A command's outcomes are computed: its time, and the time up to which it charges misses.
  output logic                      commits_o,
  /// ... of a decision.
  output logic                      commit_decides_o,
  output logic [msr_pkg::TimeW-1:0] commit_now_o,
  output logic [msr_pkg::TimeW-1:0] commit_time_o,
  /// The command of the previous cycle takes effect.
  output logic                      update_o,
  output logic                      settle_o,
  /// A decision took effect in the previous cycle.
  output logic                      decided_o,
  /// The time of the current state.
  output logic [msr_pkg::TimeW-1:0] now_o
);

  // Cycles from a command to the registered `overdue_i`, and from a LOAD to the pairs. No SETTLE
  // takes effect while the order key is computed.
  localparam logic [2:0] CommandWait = 3'd3;
  localparam logic [2:0] LoadWait = 3'd7;

  // The time of the next command.
  logic [msr_pkg::TimeW-1:0] time_q, next, commit_now_q, commit_time_q, effect_time_q, now_q;
  logic [2:0] wait_q;
  logic overdue_q, waiting_q, expected_q;
  logic commit_decides_q, commit_settles_q, update_q, settle_q, decided_q;

  logic loads, starts, settles;
  assign load_ready_o = !(commit_decides_q || commit_settles_q || update_q || settle_q);
  assign loads = load_valid_i && load_ready_o;
  assign ready_o = wait_q == '0 && !overdue_q && !load_valid_i;
  assign starts = ready_o && decide_i;
  // Superfluous ones change nothing.
  assign settles = (overdue_q || waiting_q) && !starts && !load_valid_i && wait_q < CommandWait;
  assign next = time_q + step_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {time_q, commit_now_q, commit_time_q, effect_time_q, now_q} <= '0;
      wait_q <= '0;
      {overdue_q, waiting_q, expected_q} <= '0;
      {commit_decides_q, commit_settles_q, update_q, settle_q, decided_q} <= '0;
    end else begin
      {overdue_q, waiting_q, expected_q} <= {overdue_i, waiting_i, expected_i};
      commit_decides_q <= starts;
      commit_settles_q <= settles;
      commit_now_q <= time_q;
      commit_time_q <= starts ? next : time_q;
      if (starts) time_q <= next;
      {update_q, settle_q} <= {commit_decides_q, commit_settles_q};
      effect_time_q <= commit_time_q;
      decided_q <= update_q;
      if (update_q) now_q <= effect_time_q;
      if (loads) wait_q <= LoadWait;
      else if (settles || (starts && (expected_q || step_i > msr_pkg::TimeW'(1))))
        wait_q <= CommandWait;
      else if (wait_q != '0) wait_q <= wait_q - 1'b1;
    end
  end

  assign commit_decides_o = commit_decides_q;
  assign commits_o = commit_decides_q || commit_settles_q;
  assign commit_now_o = commit_now_q;
  assign commit_time_o = commit_time_q;
  assign update_o = update_q;
  assign settle_o = settle_q;
  assign decided_o = decided_q;
  assign now_o = now_q;

endmodule
