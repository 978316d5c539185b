/// Proves the control unit's cycle counts and that it has no dead state, for all inputs.
module msr_control_proof #(
  parameter int Passes = 2,
  parameter bit Ahead = 1'b0,
  parameter bit Keyed = 1'b0
) (
  input logic        clk_i,
  input logic        load_valid_i,
  input logic        decide_i,
  input logic [15:0] step_i,
  input logic        overdue_i
);

  localparam int CountW = Passes > 1 ? $clog2(Passes) : 1;
  logic [CountW-1:0] count;
  logic load_ready, ready, settle, first, pass, update, decided;
  logic [15:0] now, next_now;
  logic rst_n;
  initial rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  msr_control #(
    .Passes(Passes), .Ahead(Ahead), .Keyed(Keyed)
  ) u_control (
    .clk_i, .rst_ni(rst_n), .load_valid_i, .load_ready_o(load_ready), .decide_i, .step_i,
    .overdue_i, .ready_o(ready), .settle_o(settle), .first_o(first), .pass_o(pass),
    .update_o(update), .count_o(count), .decided_o(decided), .now_o(now), .next_now_o(next_now)
  );

  // Cycles and passes of the current decision.
  logic [5:0] cycles, passes;
  initial {cycles, passes} = '0;
  always_ff @(posedge clk_i) begin
    if (!rst_n || (update || (load_ready && !pass))) begin
      cycles <= '0;
      passes <= '0;
    end else begin
      cycles <= cycles + 1'b1;
      passes <= passes + 6'(pass);
    end
  end

  localparam logic [5:0] Cycles = 6'(Passes) + 6'(!Ahead);

  // With one pass there is no wait after a change.
  localparam int LoadWait = Passes > 1 ? 3 : 4;

  // Order keys: no decision starts for some cycles after a load, and no SETTLE for one more nor for
  // three after a change. SETTLE is known a cycle ahead.
  logic [2:0] since_load;
  logic [1:0] since_change;
  logic loading, settling;
  initial {since_load, since_change, settling} = '0;
  assign loading = Keyed && since_load != 0;
  always_ff @(posedge clk_i) begin
    if (!rst_n) {since_load, since_change, settling} <= '0;
    else begin
      since_load <= load_valid_i && load_ready ? 3'(LoadWait) : since_load - 3'(since_load != 0);
      since_change <= update || settle ? 2'd3 : since_change - 2'(since_change != 0);
      settling <= load_ready && !pass && !load_valid_i && !settling && since_load == 0 &&
                  (Passes == 1 || since_change <= 1);
    end
  end

  logic was_update;
  logic [15:0] was_now, was_next, was_step;
  initial {was_update, was_now, was_next, was_step} = '0;
  always_ff @(posedge clk_i) begin
    was_update <= rst_n && update;
    was_now <= now;
    was_next <= next_now;
    was_step <= step_i;
  end

  always @(posedge clk_i) begin
    if (rst_n) begin
      // Every decision ends, after the exact number of cycles and passes.
      assert (cycles < Cycles);
      assert (passes + 6'(pass) <= 6'(Passes));
      assert (load_ready == (cycles == 0));
      assert (passes == (cycles > 6'(Passes) ? 6'(Passes) : cycles));
      assert (update == (cycles + 1'b1 == Cycles && (pass || cycles != 0)));
      if (update) assert (passes + 6'(pass) == 6'(Passes));
      // A decision starts if and only if it is requested and nothing blocks it.
      if (load_ready) assert (pass == (decide_i && !load_valid_i && !overdue_i && !loading &&
                                      !(Keyed && settling)));
      if (load_ready) assert (settle == (!load_valid_i && !pass && (!Keyed || settling)));
      if (pass) assert (first == (cycles == 0));
      if (pass) assert (6'(count) == cycles);
      assert (decided == was_update);
      // Time advances with decisions only.
      if (!was_update) assert (now == was_now || cycles == 0);
    end
  end

  always @(posedge clk_i) begin
    if (rst_n) cover (decided && pass);
  end

endmodule
