/// Registers of msr_line_card: written by registers/registers.py from registers/msr_line_card.rdl.
///
/// Latency: a write is seen in the next cycle; reading is combinational.
module msr_line_card_registers (
  input  logic        clk_i,
  input  logic        rst_ni,
  /// A write, and its word's address.
  input  logic        write_i,
  input  logic [5:0] address_i,
  input  logic [31:0] data_i,
  input  logic [3:0]  strobe_i,
  /// A read, and what is read there.
  input  logic        read_i,
  input  logic [5:0] read_address_i,
  output logic [31:0] read_data_o,
  /// What this is. 0x5353: a ShareStreams core.
  input  logic [15:0] id_magic_i,
  /// What this is. Streams, N.
  input  logic [6:0]  id_streams_i,
  /// The card as a whole. 0 DWCS, 1 EDF, 2 static priority.
  output logic [1:0]  control_mode_o,
  /// The card as a whole. The 1999 attribute updates.
  output logic        control_rtas99_o,
  /// The card as a whole. Of two zero window-constraints the lowest y' first.
  output logic        control_lowest_denominator_o,
  /// The card as a whole. A packet for which there is no room waits at the input, and all behind it; else it is dropped and counted.
  output logic        control_hold_o,
  /// The card as a whole. Decisions are made and packets leave.
  output logic        control_enable_o,
  /// Time of an idle card. Clock cycles after which time moves on by a tick though nothing waits; 0: it stands still.
  output logic [15:0] idle_cycles_o,
  /// Contract: the window-constraint. TIME.deadline is the first packet's, rather than what its deadline is reckoned from.
  output logic        window_first_o,
  /// Contract: the window-constraint. Late packets are dropped.
  output logic        window_drop_o,
  /// Contract: the window-constraint. What a violation adds to y': 1; under the 1999 updates ceil((y - x) / x), y if x = 0.
  output logic [7:0]  window_growth_o,
  /// Contract: the window-constraint. y: at least x.
  output logic [7:0]  window_y_o,
  /// Contract: the window-constraint. x: so many late or lost packets are allowed of any y.
  output logic [7:0]  window_x_o,
  /// Contract: times. Deadline, packet-times; in static mode the priority.
  output logic [15:0] time_deadline_o,
  /// Contract: times. Request period, packet-times, 1 to 16383.
  output logic [15:0] time_period_o,
  /// Load a contract. The stream.
  output logic [5:0]  load_stream_o,
  /// Load a contract: written in the cycle before.
  output logic        load_written_o,
  /// Whose counters are read. The stream.
  output logic [5:0]  select_stream_o,
  /// Time. The decision that is being made, or the next one, packet-times; wraps.
  input  logic [15:0] now_now_i,
  /// Packets arrived whole, dropped ones included. Count, wraps.
  input  logic [31:0] arrived_count_i,
  /// Packets dropped for lack of room. Count, wraps.
  input  logic [31:0] dropped_full_count_i,
  /// Packets dropped because they were late, or by LOAD. Count, wraps.
  input  logic [31:0] dropped_late_count_i,
  /// Packets sent. Count, wraps.
  input  logic [15:0] sent_count_i,
  /// Deadlines missed. Count, wraps.
  input  logic [15:0] missed_count_i,
  /// Misses that the window did not allow. Count, wraps.
  input  logic [15:0] violations_count_i,
  /// The stream's state. Its last charge was a violation.
  input  logic        state_violation_i,
  /// The stream's state. Its head's deadline left the wrap-around window.
  input  logic        state_range_i,
  /// The stream's state. Packets that the core has not taken yet.
  input  logic [15:0] state_waiting_i,
  /// Packets for streams that do not exist, dropped. Count, wraps.
  input  logic [31:0] unknown_count_i
);

  always_comb begin
    case (read_address_i)
      6'h0: read_data_o = {id_magic_i, 9'b0, id_streams_i};
      6'h1: read_data_o = {22'b0, control_mode_o, 2'b0, control_rtas99_o, control_lowest_denominator_o, 2'b0, control_hold_o, control_enable_o};
      6'h2: read_data_o = {16'b0, idle_cycles_o};
      6'h3: read_data_o = {6'b0, window_first_o, window_drop_o, window_growth_o, window_y_o, window_x_o};
      6'h4: read_data_o = {time_deadline_o, time_period_o};
      6'h5: read_data_o = {26'b0, load_stream_o};
      6'h6: read_data_o = {26'b0, select_stream_o};
      6'h7: read_data_o = {16'b0, now_now_i};
      6'h8: read_data_o = {arrived_count_i};
      6'h9: read_data_o = {dropped_full_count_i};
      6'ha: read_data_o = {dropped_late_count_i};
      6'hb: read_data_o = {16'b0, sent_count_i};
      6'hc: read_data_o = {16'b0, missed_count_i};
      6'hd: read_data_o = {16'b0, violations_count_i};
      6'he: read_data_o = {14'b0, state_violation_i, state_range_i, state_waiting_i};
      6'hf: read_data_o = {unknown_count_i};
      default: read_data_o = '0;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      control_mode_o <= 2'd0;
      control_rtas99_o <= 1'd0;
      control_lowest_denominator_o <= 1'd0;
      control_hold_o <= 1'd0;
      control_enable_o <= 1'd0;
      idle_cycles_o <= 16'd0;
      window_first_o <= 1'd0;
      window_drop_o <= 1'd0;
      window_growth_o <= 8'd1;
      window_y_o <= 8'd0;
      window_x_o <= 8'd0;
      time_deadline_o <= 16'd0;
      time_period_o <= 16'd1;
      load_stream_o <= 6'd0;
      select_stream_o <= 6'd0;
      load_written_o <= 1'b0;
    end else begin
      if (write_i && address_i == 6'h1 && strobe_i[1]) control_mode_o[1:0] <= data_i[9:8];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_rtas99_o <= data_i[5];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_lowest_denominator_o <= data_i[4];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_hold_o <= data_i[1];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_enable_o <= data_i[0];
      if (write_i && address_i == 6'h2 && strobe_i[0]) idle_cycles_o[7:0] <= data_i[7:0];
      if (write_i && address_i == 6'h2 && strobe_i[1]) idle_cycles_o[15:8] <= data_i[15:8];
      if (write_i && address_i == 6'h3 && strobe_i[3]) window_first_o <= data_i[25];
      if (write_i && address_i == 6'h3 && strobe_i[3]) window_drop_o <= data_i[24];
      if (write_i && address_i == 6'h3 && strobe_i[2]) window_growth_o[7:0] <= data_i[23:16];
      if (write_i && address_i == 6'h3 && strobe_i[1]) window_y_o[7:0] <= data_i[15:8];
      if (write_i && address_i == 6'h3 && strobe_i[0]) window_x_o[7:0] <= data_i[7:0];
      if (write_i && address_i == 6'h4 && strobe_i[2]) time_deadline_o[7:0] <= data_i[23:16];
      if (write_i && address_i == 6'h4 && strobe_i[3]) time_deadline_o[15:8] <= data_i[31:24];
      if (write_i && address_i == 6'h4 && strobe_i[0]) time_period_o[7:0] <= data_i[7:0];
      if (write_i && address_i == 6'h4 && strobe_i[1]) time_period_o[15:8] <= data_i[15:8];
      if (write_i && address_i == 6'h5 && strobe_i[0]) load_stream_o[5:0] <= data_i[5:0];
      if (write_i && address_i == 6'h6 && strobe_i[0]) select_stream_o[5:0] <= data_i[5:0];
      load_written_o <= write_i && address_i == 6'h5;
    end
  end


  logic unused;
  assign unused = ^{data_i, strobe_i, read_i};

endmodule
