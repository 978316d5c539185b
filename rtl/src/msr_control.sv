/// Control and steering unit: sequences LOAD, SCHEDULE and PRIORITY_UPDATE, and counts time.
///
/// Source: ShareStreams, section 4 and Figure 6. For N = 4:
///
///     decide_i    ______/-------------------------------------
///                 READY  pass 0  pass 1  UPDATE  pass 0  pass 1     3 cycles, log2 N + 1
///     ahead       READY  pass 0  pass 1  pass 0  pass 1  pass 0     2 cycles, log2 N
///
/// A decision may start in READY. LOAD has priority, then SETTLE if a past deadline is not charged,
/// then pass 0 if `decide_i`. Otherwise SETTLE lets idle streams take packets between decisions.
/// PRIORITY_UPDATE charges misses up to the time of the next decision: a decision never waits for
/// SETTLE if periods are at least a step.
///
/// `step_i` is sampled in PRIORITY_UPDATE; with `Ahead` one cycle earlier, in the last pass but
/// one. For N = 2 there is no such pass, and it is sampled in PRIORITY_UPDATE.
///
/// With `Keyed` the order keys need time. After a LOAD no decision starts for three cycles and no
/// SETTLE for four. SETTLE is decided a cycle ahead and occurs at most every fourth cycle. `step_i`
/// is sampled in the last pass.
///
/// With one pass (`Passes` = 1) the keys are new in every cycle except after a LOAD: no decision
/// starts for four cycles and no SETTLE for five. SETTLE occurs at most every second cycle.
///
/// A sorting network needs more passes: replace log2 N above by `Passes`.
///
/// Latency: see the drawing; `decided_o` is set in the cycle after PRIORITY_UPDATE.
/// Invariant: READY is reached from any state within `Passes` cycles (formal/).
module msr_control #(
  /// Passes of a decision.
  parameter int Passes = 2,
  /// PRIORITY_UPDATE shares the cycle of the last pass.
  parameter bit Ahead = 1'b0,
  /// Wait for order keys.
  parameter bit Keyed = 1'b0,
  localparam int CountW = Passes > 1 ? $clog2(Passes) : 1
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      load_valid_i,
  output logic                      load_ready_o,
  input  logic                      decide_i,
  input  logic [msr_pkg::TimeW-1:0] step_i,
  /// A past deadline is not charged yet.
  input  logic                      overdue_i,
  /// Ready: a decision may start in this cycle.
  output logic                      ready_o,
  output logic                      settle_o,
  output logic                      first_o,
  output logic                      pass_o,
  output logic                      update_o,
  /// Number of the pass, from 0.
  output logic [CountW-1:0]         count_o,
  /// A decision ended in the previous cycle.
  output logic                      decided_o,
  output logic [msr_pkg::TimeW-1:0] now_o,
  output logic [msr_pkg::TimeW-1:0] next_now_o
);

  // Cycles after a LOAD without a decision, without SETTLE, and after a change.
  localparam int LoadWait = Passes > 1 ? 3 : 4;
  localparam int ChangeWait = Passes > 1 ? 2 : 0;
  localparam logic [CountW-1:0] Last = CountW'(Passes - 1);

  typedef enum logic [1:0] {Ready, Pass, Update} phase_e;

  phase_e phase_q, phase_d;
  logic [CountW-1:0] count_q, count_d;
  logic [msr_pkg::TimeW-1:0] now_q, next_now;
  logic decided_q, start, last;

  logic idle, loading, settling;
  assign load_ready_o = phase_q == Ready;
  assign idle = phase_q == Ready && !load_valid_i && !loading;
  assign ready_o = idle && !overdue_i && !settling;
  assign start = ready_o && decide_i;
  assign settle_o = Keyed ? settling && !load_valid_i : idle && !start;
  assign first_o = phase_q == Ready;
  assign pass_o = start || phase_q == Pass;
  // With several passes the first is not the last; `start` is a late signal.
  assign last = (Passes > 1 ? phase_q == Pass : start) && count_q == Last;
  assign update_o = Ahead ? last : phase_q == Update;

  always_comb begin
    phase_d = phase_q;
    count_d = count_q;
    if (pass_o) begin
      if (!last) phase_d = Pass;
      else if (Ahead) phase_d = Ready;
      else phase_d = Update;
      count_d = last ? '0 : count_q + 1'b1;
    end else begin
      phase_d = Ready;
      count_d = '0;
    end
  end

  assign next_now = now_q + step_i;
  assign next_now_o = next_now;

  if (Keyed) begin : gen_wait
    logic [LoadWait-1:0] loaded_q;
    logic settling_q, changing;
    if (ChangeWait > 0) begin : gen_change
      logic [ChangeWait-1:0] changed_q;
      always_ff @(posedge clk_i or negedge rst_ni) begin
        if (!rst_ni) changed_q <= '0;
        else changed_q <= {changed_q[ChangeWait-2:0], update_o || settle_o};
      end
      assign changing = changed_q != '0;
    end else begin : gen_no_change
      assign changing = 1'b0;
    end
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        loaded_q <= '0;
        settling_q <= 1'b0;
      end else begin
        loaded_q <= {loaded_q[LoadWait-2:0], load_valid_i && load_ready_o};
        // Registered a cycle ahead: it fans out to all streams.
        settling_q <= phase_q == Ready && !start && !load_valid_i && loaded_q == '0 && !changing &&
                      !settling_q;
      end
    end
    assign loading = loaded_q != '0;
    assign settling = settling_q;
  end else begin : gen_no_wait
    assign loading = 1'b0;
    assign settling = 1'b0;
  end

  logic [msr_pkg::TimeW-1:0] commit_now;
  if ((Ahead || Keyed) && Passes > 1) begin : gen_step_before
    logic [msr_pkg::TimeW-1:0] next_now_q;
    always_ff @(posedge clk_i) next_now_q <= next_now;
    assign commit_now = next_now_q;
  end else begin : gen_step_now
    assign commit_now = next_now;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q <= Ready;
      count_q <= '0;
      now_q <= '0;
      decided_q <= 1'b0;
    end else begin
      phase_q <= phase_d;
      count_q <= count_d;
      if (update_o) now_q <= commit_now;
      decided_q <= update_o;
    end
  end

  assign count_o = count_q;
  assign now_o = now_q;
  assign decided_o = decided_q;

`ifdef FORMAL
  always @(posedge clk_i) begin
    if (rst_ni) begin
      assert (phase_q == Ready || phase_q == Pass || (phase_q == Update && !Ahead));
      assert (phase_q == Pass ? count_q != '0 && count_q <= Last : count_q == '0);
      assert (!(settle_o && (pass_o || update_o)));
      assert (!(pass_o && update_o) || Ahead);
    end
  end
`endif

endmodule
