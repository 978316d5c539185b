/// Registers of msr_end_system: written by registers/registers.py from registers/msr_end_system.rdl.
///
/// Latency: a write is seen in the next cycle; reading is combinational.
module msr_end_system_registers (
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
  /// What this is. 0x5345: an end-system card.
  input  logic [15:0] id_magic_i,
  /// What this is. Streams, N.
  input  logic [6:0]  id_streams_i,
  /// The card as a whole. 0 DWCS, 1 EDF, 2 static priority.
  output logic [1:0]  control_mode_o,
  /// The card as a whole. The 1999 attribute updates.
  output logic        control_rtas99_o,
  /// The card as a whole. Of two zero window-constraints the lowest y' first.
  output logic        control_lowest_denominator_o,
  /// The card as a whole. Decisions are made while arrivals wait and winners have room.
  output logic        control_enable_o,
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
  /// Push an arrival. When the packet arrived, packet-times.
  output logic [15:0] push_arrival_o,
  /// Push an arrival. The stream.
  output logic [5:0]  push_stream_o,
  /// Push an arrival: written in the cycle before.
  output logic        push_written_o,
  /// Offer arrivals to be pulled. So many more than were offered before; at most 65535 may be outstanding.
  output logic [15:0] pull_count_o,
  /// Offer arrivals to be pulled. The stream.
  output logic [5:0]  pull_stream_o,
  /// Offer arrivals to be pulled: written in the cycle before.
  output logic        pull_written_o,
  /// The next packet that leaves its queue. When that was decided, packet-times.
  input  logic [15:0] winner_time_i,
  /// The next packet that leaves its queue. There is one.
  input  logic        winner_valid_i,
  /// The next packet that leaves its queue. It is dropped because it was late, rather than sent.
  input  logic        winner_dropped_i,
  /// The next packet that leaves its queue. Whose first packet.
  input  logic [5:0]  winner_stream_i,
  /// The next packet that leaves its queue. Read in this cycle.
  output logic        winner_read_o,
  /// How much is there. The decision that is being made, or the next one, packet-times; wraps.
  input  logic [15:0] level_now_i,
  /// How much is there. Packets to be read at WINNER.
  input  logic [15:0] level_winners_i,
  /// Whose counters are read. The stream.
  output logic [5:0]  select_stream_o,
  /// Deadlines missed. Count, wraps.
  input  logic [15:0] missed_count_i,
  /// Misses that the window did not allow. Count, wraps.
  input  logic [15:0] violations_count_i,
  /// The stream's state. Its last charge was a violation.
  input  logic        state_violation_i,
  /// The stream's state. Its head's deadline left the wrap-around window.
  input  logic        state_range_i,
  /// The stream's state. Arrivals in SRAM.
  input  logic [15:0] state_waiting_i
);

  always_comb begin
    case (read_address_i)
      6'h0: read_data_o = {id_magic_i, 9'b0, id_streams_i};
      6'h1: read_data_o = {22'b0, control_mode_o, 2'b0, control_rtas99_o, control_lowest_denominator_o, 3'b0, control_enable_o};
      6'h2: read_data_o = {6'b0, window_first_o, window_drop_o, window_growth_o, window_y_o, window_x_o};
      6'h3: read_data_o = {time_deadline_o, time_period_o};
      6'h4: read_data_o = {26'b0, load_stream_o};
      6'h5: read_data_o = {push_arrival_o, 10'b0, push_stream_o};
      6'h6: read_data_o = {pull_count_o, 10'b0, pull_stream_o};
      6'h7: read_data_o = {winner_time_i, 8'b0, winner_valid_i, winner_dropped_i, winner_stream_i};
      6'h8: read_data_o = {level_now_i, level_winners_i};
      6'h9: read_data_o = {26'b0, select_stream_o};
      6'ha: read_data_o = {16'b0, missed_count_i};
      6'hb: read_data_o = {16'b0, violations_count_i};
      6'hc: read_data_o = {14'b0, state_violation_i, state_range_i, state_waiting_i};
      default: read_data_o = '0;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      control_mode_o <= 2'd0;
      control_rtas99_o <= 1'd0;
      control_lowest_denominator_o <= 1'd0;
      control_enable_o <= 1'd0;
      window_first_o <= 1'd0;
      window_drop_o <= 1'd0;
      window_growth_o <= 8'd1;
      window_y_o <= 8'd0;
      window_x_o <= 8'd0;
      time_deadline_o <= 16'd0;
      time_period_o <= 16'd1;
      load_stream_o <= 6'd0;
      push_arrival_o <= 16'd0;
      push_stream_o <= 6'd0;
      pull_count_o <= 16'd0;
      pull_stream_o <= 6'd0;
      select_stream_o <= 6'd0;
      load_written_o <= 1'b0;
      push_written_o <= 1'b0;
      pull_written_o <= 1'b0;
    end else begin
      if (write_i && address_i == 6'h1 && strobe_i[1]) control_mode_o[1:0] <= data_i[9:8];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_rtas99_o <= data_i[5];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_lowest_denominator_o <= data_i[4];
      if (write_i && address_i == 6'h1 && strobe_i[0]) control_enable_o <= data_i[0];
      if (write_i && address_i == 6'h2 && strobe_i[3]) window_first_o <= data_i[25];
      if (write_i && address_i == 6'h2 && strobe_i[3]) window_drop_o <= data_i[24];
      if (write_i && address_i == 6'h2 && strobe_i[2]) window_growth_o[7:0] <= data_i[23:16];
      if (write_i && address_i == 6'h2 && strobe_i[1]) window_y_o[7:0] <= data_i[15:8];
      if (write_i && address_i == 6'h2 && strobe_i[0]) window_x_o[7:0] <= data_i[7:0];
      if (write_i && address_i == 6'h3 && strobe_i[2]) time_deadline_o[7:0] <= data_i[23:16];
      if (write_i && address_i == 6'h3 && strobe_i[3]) time_deadline_o[15:8] <= data_i[31:24];
      if (write_i && address_i == 6'h3 && strobe_i[0]) time_period_o[7:0] <= data_i[7:0];
      if (write_i && address_i == 6'h3 && strobe_i[1]) time_period_o[15:8] <= data_i[15:8];
      if (write_i && address_i == 6'h4 && strobe_i[0]) load_stream_o[5:0] <= data_i[5:0];
      if (write_i && address_i == 6'h5 && strobe_i[2]) push_arrival_o[7:0] <= data_i[23:16];
      if (write_i && address_i == 6'h5 && strobe_i[3]) push_arrival_o[15:8] <= data_i[31:24];
      if (write_i && address_i == 6'h5 && strobe_i[0]) push_stream_o[5:0] <= data_i[5:0];
      if (write_i && address_i == 6'h6 && strobe_i[2]) pull_count_o[7:0] <= data_i[23:16];
      if (write_i && address_i == 6'h6 && strobe_i[3]) pull_count_o[15:8] <= data_i[31:24];
      if (write_i && address_i == 6'h6 && strobe_i[0]) pull_stream_o[5:0] <= data_i[5:0];
      if (write_i && address_i == 6'h9 && strobe_i[0]) select_stream_o[5:0] <= data_i[5:0];
      load_written_o <= write_i && address_i == 6'h4;
      push_written_o <= write_i && address_i == 6'h5;
      pull_written_o <= write_i && address_i == 6'h6;
    end
  end

  assign winner_read_o = read_i && read_address_i == 6'h7;

  logic unused;
  assign unused = ^{data_i, strobe_i, read_i};

endmodule
