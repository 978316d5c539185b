/// Proves that a register block that selects one cycle after the command (Compute-Ahead with order
/// keys) equals one that executes it at once, for all commands, packets and times.
///
/// The assumption is what `msr_control` guarantees (proved there): commands are at least four
/// cycles apart, and the fourth cycle after a LOAD is the first with one.
module msr_register_block_proof (
  input logic               clk_i,
  input msr_pkg::config_t   cfg_i,
  input logic               load_i,
  input logic               settle_i,
  input logic               update_i,
  input logic               at_now_i,
  input msr_pkg::load_t     load_data_i,
  input logic               wins_i,
  input logic [15:0]        now_i,
  input logic [15:0]        next_now_i,
  input logic               packet_valid_i,
  input logic [15:0]        packet_stamp_i
);

  logic rst_n;
  initial rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  logic [1:0] take, dropped, overdue, violation, range;
  msr_pkg::head_t head_at_once, head_later;
  msr_pkg::key_t key_at_once, key_later;
  msr_pkg::count_t count_at_once, count_later;
  logic [94:0] at_once, later;

  msr_register_block #(
    .Id(5), .Keyed(1'b1)
  ) u_at_once (
    .clk_i, .rst_ni(rst_n), .mode_i(cfg_i.mode), .lowest_denominator_i(cfg_i.lowest_denominator),
    .rtas99_i(cfg_i.rtas99), .load_i, .settle_i, .update_i, .at_now_i, .load_data_i, .wins_i,
    .now_i, .next_now_i, .packet_valid_i, .packet_stamp_i, .packet_take_o(take[0]),
    .dropped_o(dropped[0]), .head_o(head_at_once), .key_o(key_at_once), .overdue_o(overdue[0]),
    .violation_o(violation[0]), .range_o(range[0]), .formal_o(at_once), .count_o(count_at_once)
  );

  msr_register_block #(
    .Id(5), .ComputeAhead(1'b1), .Keyed(1'b1)
  ) u_later (
    .clk_i, .rst_ni(rst_n), .mode_i(cfg_i.mode), .lowest_denominator_i(cfg_i.lowest_denominator),
    .rtas99_i(cfg_i.rtas99), .load_i, .settle_i, .update_i, .at_now_i, .load_data_i, .wins_i,
    .now_i, .next_now_i, .packet_valid_i, .packet_stamp_i, .packet_take_o(take[1]),
    .dropped_o(dropped[1]), .head_o(head_later), .key_o(key_later), .overdue_o(overdue[1]),
    .violation_o(violation[1]), .range_o(range[1]), .formal_o(later), .count_o(count_later)
  );

  // Cycles until the next command.
  logic [1:0] wait_q;
  logic take_q, dropped_q, command_q;
  msr_pkg::config_t cfg_q;
  initial {wait_q, take_q, dropped_q, command_q} = {2'd3, 3'b0};
  always_ff @(posedge clk_i) begin
    if (load_i || settle_i || update_i) wait_q <= 2'd3;
    else if (wait_q != 0) wait_q <= wait_q - 1'b1;
    {take_q, dropped_q} <= {take[0], dropped[0]};
    command_q <= rst_n && (settle_i || update_i);
    cfg_q <= cfg_i;
  end

  always @(posedge clk_i) begin
    assume (2'(load_i) + 2'(settle_i) + 2'(update_i) < 2'd2);
    assume (wait_q == 0 || !(settle_i || update_i));
    assume (cfg_i == cfg_q || !rst_n);
    if (rst_n) begin
      assert (head_at_once == head_later);
      assert (key_at_once == key_later);
      assert (count_at_once == count_later);
      assert (overdue[0] == overdue[1] && violation[0] == violation[1] && range[0] == range[1]);
      assert (take[1] == take_q && dropped[1] == dropped_q);
      // The selection is pending only in the cycle after a command.
      assert (!later[94] || command_q);
      assert (at_once[93:0] == later[93:0]);
    end
  end

endmodule
