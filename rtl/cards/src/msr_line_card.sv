/// Line card: packets of N streams in, one link out, scheduled by the core.
///
/// Source: ShareStreams, section 3 and Figure 4 (switch line-card realization). AXI4-Stream in,
/// with the stream in TDEST; AXI4-Stream out; contracts and counters by AXI4-Lite
/// (registers/msr_line_card.md).
///
///   s_axis -> input -> ring of each stream ---------------------------> output -> m_axis
///                \-> {stamp, beats} queue of each stream -> msr_core -> winner -/
///
/// Time is in packet-times: a tick a decision. A packet is stamped with the number of the first
/// decision that may see it. A decision is made whenever the output has space for another packet
/// and a packet waits. `decided_o` reports each decision, to compare schedules.
///
/// Latency: 3 cycles from a packet's last beat to the start of a decision, log2 N + 1 for it, 3 to
/// the first beat out. Throughput: a beat a cycle, if a packet has at least log2 N + 4 beats.
/// Invariants: every lost packet is counted; a stream's packets leave in their order of arrival.
module msr_line_card #(
  /// Number of streams: a power of two, 2 ... 64.
  parameter int N = 4,
  /// Bits of a beat: a multiple of 8.
  parameter int DataW = 64,
  /// Beats in a stream's ring: a power of two.
  parameter int Beats = 256,
  /// Waiting packets of a stream: a power of two.
  parameter int Depth = 16,
  /// Winner-only routing in the core.
  parameter bit WinnerOnly = 1'b1
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,

  input  logic [DataW-1:0]           s_axis_tdata,
  input  logic [DataW/8-1:0]         s_axis_tkeep,
  input  logic                       s_axis_tlast,
  input  logic [msr_pkg::IdW-1:0]    s_axis_tdest,
  input  logic                       s_axis_tvalid,
  output logic                       s_axis_tready,

  output logic [DataW-1:0]           m_axis_tdata,
  output logic [DataW/8-1:0]         m_axis_tkeep,
  output logic                       m_axis_tlast,
  output logic [msr_pkg::IdW-1:0]    m_axis_tdest,
  output logic                       m_axis_tvalid,
  input  logic                       m_axis_tready,

  input  logic [7:0]                 s_axil_awaddr,
  input  logic [2:0]                 s_axil_awprot,
  input  logic                       s_axil_awvalid,
  output logic                       s_axil_awready,
  input  logic [31:0]                s_axil_wdata,
  input  logic [3:0]                 s_axil_wstrb,
  input  logic                       s_axil_wvalid,
  output logic                       s_axil_wready,
  output logic [1:0]                 s_axil_bresp,
  output logic                       s_axil_bvalid,
  input  logic                       s_axil_bready,
  input  logic [7:0]                 s_axil_araddr,
  input  logic [2:0]                 s_axil_arprot,
  input  logic                       s_axil_arvalid,
  output logic                       s_axil_arready,
  output logic [31:0]                s_axil_rdata,
  output logic [1:0]                 s_axil_rresp,
  output logic                       s_axil_rvalid,
  input  logic                       s_axil_rready,

  /// A decision ended; its winner and its time.
  output logic                       decided_o,
  output logic                       winner_valid_o,
  output logic [msr_pkg::IdW-1:0]    winner_o,
  output logic [msr_pkg::TimeW-1:0]  decided_now_o,
  /// A packet was admitted; its stream and stamp.
  output logic                       admitted_o,
  output logic [msr_pkg::IdW-1:0]    admitted_stream_o,
  output logic [msr_pkg::TimeW-1:0]  admitted_stamp_o,
  /// Heads dropped late in this cycle.
  output logic [N-1:0]               dropped_o
);

  localparam int StreamW = $clog2(N);
  localparam int BeatW = $clog2(Beats) + 1;
  localparam int WordW = DataW + DataW / 8 + 1;
  localparam int QueueW = msr_pkg::TimeW + BeatW;
  localparam int CountW = $clog2(Depth) + 1;
  localparam int TotalW = 32;

  // Registers.
  logic load_busy_q, load_written, load_ready;
  logic write;
  logic [5:0] address, read_address;
  logic [31:0] write_data, read_data;
  logic [3:0] strobe;
  logic read;
  logic [1:0] mode;
  logic rtas99, lowest_denominator, hold, enable;
  logic [15:0] idle_cycles;
  logic window_first, window_drop;
  logic [7:0] window_growth, window_y, window_x;
  logic [15:0] time_deadline, time_period;
  logic [5:0] load_stream, select_stream;
  logic [TotalW-1:0] unknown_q;

  logic [TotalW-1:0] arrived_q [N], dropped_full_q [N], dropped_late_q [N];
  logic [CountW-1:0] waiting [N];
  logic [N*msr_pkg::CountsW-1:0] counts;
  logic [N-1:0] violation, range;
  logic [StreamW-1:0] selected;
  msr_pkg::count_t selected_counts;
  assign selected = select_stream[StreamW-1:0];
  assign selected_counts = counts[selected*msr_pkg::CountsW +: msr_pkg::CountsW];

  msr_axi_lite_target u_target (
    .clk_i, .rst_ni,
    .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready,
    .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid, .s_axil_wready,
    .s_axil_bresp, .s_axil_bvalid, .s_axil_bready,
    .s_axil_araddr, .s_axil_arprot, .s_axil_arvalid, .s_axil_arready,
    .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
    .hold_i(load_written || load_busy_q),
    .write_o(write), .address_o(address), .data_o(write_data), .strobe_o(strobe),
    .read_o(read), .read_address_o(read_address), .read_data_i(read_data)
  );

  logic [msr_pkg::TimeW-1:0] now;

  msr_line_card_registers u_registers (
    .clk_i, .rst_ni,
    .write_i(write), .address_i(address), .data_i(write_data), .strobe_i(strobe),
    .read_i(read), .read_address_i(read_address), .read_data_o(read_data),
    .id_magic_i(16'h5353), .id_streams_i(7'(N)),
    .control_mode_o(mode), .control_rtas99_o(rtas99),
    .control_lowest_denominator_o(lowest_denominator), .control_hold_o(hold),
    .control_enable_o(enable),
    .idle_cycles_o(idle_cycles),
    .window_first_o(window_first), .window_drop_o(window_drop), .window_growth_o(window_growth),
    .window_y_o(window_y), .window_x_o(window_x),
    .time_deadline_o(time_deadline), .time_period_o(time_period),
    .load_stream_o(load_stream), .load_written_o(load_written),
    .select_stream_o(select_stream),
    .now_now_i(now),
    .arrived_count_i(arrived_q[selected]), .dropped_full_count_i(dropped_full_q[selected]),
    .dropped_late_count_i(dropped_late_q[selected]), .sent_count_i(selected_counts.serviced),
    .missed_count_i(selected_counts.missed), .violations_count_i(selected_counts.violations),
    .state_violation_i(violation[selected]), .state_range_i(range[selected]),
    .state_waiting_i(16'(waiting[selected])),
    .unknown_count_i(unknown_q)
  );

  // Input.
  logic [WordW-1:0] memory [N * Beats];
  logic [WordW-1:0] read_word_q;
  logic in_write, commit, dropped_full, unknown;
  logic [StreamW-1:0] in_stream;
  logic [BeatW-2:0] in_address;
  logic [BeatW-1:0] in_beats;
  logic [N*BeatW-1:0] heads_at, tails;
  logic [N-1:0] full;

  msr_line_card_input #(
    .N(N), .Beats(Beats)
  ) u_input (
    .clk_i, .rst_ni, .hold_i(hold),
    .s_axis_tdest, .s_axis_tlast, .s_axis_tvalid, .s_axis_tready,
    .tail_i(tails), .full_i(full),
    .write_o(in_write), .stream_o(in_stream), .address_o(in_address),
    .commit_o(commit), .beats_o(in_beats), .dropped_o(dropped_full), .unknown_o(unknown)
  );

  logic out_read;
  logic [StreamW-1:0] out_stream;
  logic [BeatW-2:0] out_address;

  always_ff @(posedge clk_i) begin
    if (in_write) memory[{in_stream, in_address}] <= {s_axis_tlast, s_axis_tkeep, s_axis_tdata};
    if (out_read) read_word_q <= memory[{out_stream, out_address}];
  end

  // When to decide. A decision may start in the cycle after `decide_d`. A packet committed now is
  // at the front of its queue then; this determines the first decision that may see it.
  logic decide_d, decide_q, in_flight_q, started, decided, core_ready;
  logic winner_valid, out_ready, waits, idle_tick;
  logic [msr_pkg::IdW-1:0] winner;
  logic [msr_pkg::TimeW-1:0] next_now, stamp;
  logic [N-1:0] queue_valid, head_valid;
  logic [15:0] idle_q;
  logic loading, out_start;

  // A LOAD is followed by a cycle in which idle streams take packets.
  logic load_cycle_q;

  assign loading = load_busy_q || load_written;
  assign started = decide_q && core_ready;
  assign waits = queue_valid != '0 || head_valid != '0;
  assign idle_tick = idle_cycles != '0 && idle_q >= idle_cycles;
  assign decide_d = enable && !loading && !load_cycle_q && !in_flight_q && out_ready &&
                    (waits || idle_tick);

  // The core accepts no LOAD within a decision, whose last cycle is the update.
  localparam int Cycles = $clog2(N) + 1;
  logic [3:0] cycle_q;
  logic update;
  assign update = !load_ready && cycle_q == 4'(Cycles - 1);

  // `now` of the next cycle, and the first decision that may see a packet committed in this one.
  assign next_now = now + msr_pkg::TimeW'(update);
  assign stamp = next_now + msr_pkg::TimeW'(decide_d || (in_flight_q && !update && !decided));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      decide_q <= 1'b0;
      in_flight_q <= 1'b0;
      idle_q <= '0;
      load_busy_q <= 1'b0;
      load_cycle_q <= 1'b0;
      cycle_q <= '0;
    end else begin
      decide_q <= decide_d || (decide_q && !core_ready);
      // Until the chosen packet is handed over.
      in_flight_q <= decide_d || (in_flight_q && !decided);
      idle_q <= waits || decide_d || !enable ? '0 : idle_tick ? idle_q : idle_q + 1'b1;
      load_busy_q <= load_written || (load_busy_q && !load_ready);
      load_cycle_q <= loading;
      cycle_q <= started ? 4'd1 : load_ready ? 4'd0 : cycle_q + 4'd1;
    end
  end

  // The core.
  msr_pkg::config_t cfg;
  msr_pkg::load_t load;
  logic [N-1:0] offered, take, late, dropped;
  logic [N*msr_pkg::TimeW-1:0] stamps;
  logic [N*msr_pkg::HeadW-1:0] heads;
  logic [N*(msr_pkg::IdW+1)-1:0] list;
  logic unused;
  assign unused = ^{list, heads, select_stream};
  assign cfg = {mode, lowest_denominator, rtas99};
  assign load = {
    window_x, window_y, window_growth, time_period, window_drop, time_deadline, window_first
  };

  msr_core #(
    .N(N), .WinnerOnly(WinnerOnly)
  ) u_core (
    .clk_i, .rst_ni, .cfg_i(cfg),
    .load_valid_i(load_busy_q), .load_ready_o(load_ready), .load_id_i(load_stream), .load_i(load),
    .packet_valid_i(offered), .packet_stamp_i(stamps), .packet_take_o(take), .dropped_o(late),
    .decide_i(decide_q), .step_i(msr_pkg::TimeW'(1)), .ready_o(core_ready), .decided_o(decided),
    .winner_valid_o(winner_valid), .winner_o(winner), .list_o(list), .now_o(now),
    .heads_o(heads), .counts_o(counts), .violation_o(violation), .range_o(range)
  );

  // The streams. The outcome of a head is known with the winner, a cycle later.
  logic [N-1:0] take_q, dropped_q;
  logic [N*BeatW-1:0] heads_beats;
  for (genvar i = 0; i < N; i++) begin : gen_stream
    logic [QueueW-1:0] front;
    logic [msr_pkg::TimeW-1:0] ahead;
    logic [BeatW-1:0] taken_q, beats_q, at_q;
    logic mine, leaves;
    assign mine = in_stream == StreamW'(i);
    msr_packet_queue #(
      .Depth(Depth), .Width(QueueW)
    ) u_queue (
      .clk_i, .rst_ni, .push_i(commit && mine), .data_i({stamp, in_beats}), .pop_i(take[i]),
      .valid_o(queue_valid[i]), .full_o(full[i]), .front_o(front), .count_o(waiting[i])
    );
    // A stamp is reached at `now` in READY, and a tick later in PRIORITY_UPDATE.
    assign ahead = now + msr_pkg::TimeW'(update) - front[QueueW-1:BeatW];
    assign offered[i] = queue_valid[i] && !ahead[msr_pkg::TimeW-1];
    assign stamps[i*msr_pkg::TimeW +: msr_pkg::TimeW] = front[QueueW-1:BeatW];
    assign head_valid[i] = heads[(i+1)*msr_pkg::HeadW-1];

    // A contract for a stream whose head is in the core replaces the head.
    assign dropped[i] = late[i] || (load_busy_q && load_ready && head_valid[i] &&
                                    load_stream == msr_pkg::IdW'(i));
    assign leaves = dropped_q[i] || (out_start && winner == msr_pkg::IdW'(i));
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        taken_q <= '0;
        beats_q <= '0;
        at_q <= '0;
        arrived_q[i] <= '0;
        dropped_full_q[i] <= '0;
        dropped_late_q[i] <= '0;
      end else begin
        taken_q <= front[BeatW-1:0];
        if (leaves) at_q <= at_q + beats_q;
        if (take_q[i]) beats_q <= taken_q;
        arrived_q[i] <= arrived_q[i] + TotalW'((commit || dropped_full) && mine);
        dropped_full_q[i] <= dropped_full_q[i] + TotalW'(dropped_full && mine);
        dropped_late_q[i] <= dropped_late_q[i] + TotalW'(dropped[i]);
      end
    end
    assign heads_at[i*BeatW +: BeatW] = at_q;
    assign heads_beats[i*BeatW +: BeatW] = beats_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      take_q <= '0;
      dropped_q <= '0;
      unknown_q <= '0;
    end else begin
      take_q <= take;
      dropped_q <= dropped;
      unknown_q <= unknown_q + TotalW'(unknown);
    end
  end

  // Output.
  assign out_start = decided && winner_valid;

  msr_line_card_output #(
    .N(N), .DataW(DataW), .Beats(Beats)
  ) u_output (
    .clk_i, .rst_ni,
    .start_i(out_start), .stream_i(winner[StreamW-1:0]),
    .first_i(heads_at[winner[StreamW-1:0]*BeatW +: BeatW]),
    .beats_i(heads_beats[winner[StreamW-1:0]*BeatW +: BeatW]), .ready_o(out_ready),
    .head_i(heads_at), .tail_o(tails),
    .read_o(out_read), .read_stream_o(out_stream), .read_address_o(out_address),
    .read_word_i(read_word_q),
    .m_axis_tdata, .m_axis_tkeep, .m_axis_tlast, .m_axis_tdest, .m_axis_tvalid, .m_axis_tready
  );

  logic [msr_pkg::TimeW-1:0] decided_now_q;
  always_ff @(posedge clk_i) if (update) decided_now_q <= now;
  assign decided_o = decided;
  assign winner_valid_o = winner_valid;
  assign winner_o = winner;
  assign decided_now_o = decided_now_q;
  assign admitted_o = commit;
  assign admitted_stream_o = msr_pkg::IdW'(in_stream);
  assign admitted_stamp_o = stamp;
  assign dropped_o = dropped;

endmodule
