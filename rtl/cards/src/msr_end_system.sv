/// End-system card: the scheduler for packets in a host's memory.
///
/// Source: ShareStreams, section 3 and Figure 3 (end-system realization). Arrival times, 16-bit
/// offsets, come over the bus, and the winners' numbers go back (registers/msr_end_system.md).
///
///   AXI4-Lite -> push -\
///   pull bursts ------> streaming unit -> banks of SRAM -> msr_core -> winners -> AXI4-Lite
///
/// Time is in packet-times: a tick a decision. The card decides ahead of the link while arrivals
/// wait and winners have space. An arrival with a future time is not seen. Every decision sees all
/// arrivals that were in SRAM at its start. If all waiting arrivals are in the future, empty
/// decisions advance the time: by `Stride` if all are at least that far.
///
/// Latency: log2 N + 1 cycles a decision, and at least 4 between decisions, to refill the fronts
/// from SRAM. Invariant: each packet is in WINNER once, sent or dropped, in the order of its
/// stream.
module msr_end_system #(
  /// Number of streams: a power of two, 2 ... 64.
  parameter int N = 4,
  /// Banks of SRAM: a power of two, less than N.
  parameter int Banks = 2,
  /// Arrivals of a stream in SRAM: a power of two.
  parameter int Depth = 512,
  /// Winners that wait for the host: a power of two.
  parameter int Winners = 512,
  /// Maximum arrivals in a pulled burst.
  parameter int Burst = 64,
  /// Winner-only routing in the core.
  parameter bit WinnerOnly = 1'b1
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,

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

  /// Request for a burst of arrivals: stream and count.
  output logic                       pull_valid_o,
  input  logic                       pull_ready_i,
  output logic [msr_pkg::IdW-1:0]    pull_stream_o,
  output logic [15:0]                pull_count_o,
  /// The words of the burst, two arrivals each.
  input  logic [31:0]                s_axis_tdata,
  input  logic                       s_axis_tvalid,
  output logic                       s_axis_tready,

  /// A winner is ready to be read; interrupt.
  output logic                       winner_waits_o,
  /// The card waits for the host. Until then only its scan of the streams' levels advances.
  output logic                       idle_o,
  /// Streams whose head deadline left the wrap-around window; interrupt.
  output logic [N-1:0]               range_o,
  /// Streams whose y' reached 255 by a violation; interrupt.
  output logic [N-1:0]               window_full_o,

  /// A decision starts at this time, over the arrivals in SRAM.
  output logic                       started_o,
  output logic [msr_pkg::TimeW-1:0]  now_o,
  /// An arrival is written to SRAM, for each bank.
  output logic [Banks-1:0]           written_o,
  output logic [Banks*msr_pkg::IdW-1:0] written_stream_o,
  output logic [Banks*msr_pkg::TimeW-1:0] written_time_o
);

  localparam int StreamW = $clog2(N);
  localparam int CountW = $clog2(Depth) + 1;
  localparam int WinnersW = $clog2(Winners) + 1;
  localparam int Stride = 64;
  localparam int Each = N / Banks;
  localparam int EachW = Each > 1 ? $clog2(Each) : 1;

  // Registers.
  logic write, read, load_written, load_busy_q, load_ready;
  logic push_written, push_busy_q, push_done, pull_written, winner_read;
  logic [5:0] address, read_address;
  logic [31:0] write_data, read_data;
  logic [3:0] strobe;
  logic [1:0] mode;
  logic rtas99, lowest_denominator, enable;
  logic window_first, window_drop;
  logic [7:0] window_growth, window_y, window_x;
  logic [15:0] time_deadline, time_period, push_arrival, pull_count;
  logic [5:0] load_stream, push_stream, pull_stream, select_stream;
  logic [StreamW-1:0] selected;
  msr_pkg::count_t selected_counts;
  logic [N*msr_pkg::CountsW-1:0] counts;
  logic [N-1:0] violation, range;
  logic [N*CountW-1:0] level;
  logic [msr_pkg::TimeW-1:0] now;
  logic winner_waits, winners_full;
  logic [22:0] winner_word;
  logic [WinnersW-1:0] winners;
  assign selected = select_stream[StreamW-1:0];
  assign selected_counts = counts[selected*msr_pkg::CountsW +: msr_pkg::CountsW];

  msr_axi_lite_target u_target (
    .clk_i, .rst_ni,
    .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready,
    .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid, .s_axil_wready,
    .s_axil_bresp, .s_axil_bvalid, .s_axil_bready,
    .s_axil_araddr, .s_axil_arprot, .s_axil_arvalid, .s_axil_arready,
    .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
    .hold_i(load_written || load_busy_q || push_written || push_busy_q),
    .write_o(write), .address_o(address), .data_o(write_data), .strobe_o(strobe),
    .read_o(read), .read_address_o(read_address), .read_data_i(read_data)
  );

  msr_end_system_registers u_registers (
    .clk_i, .rst_ni,
    .write_i(write), .address_i(address), .data_i(write_data), .strobe_i(strobe),
    .read_i(read), .read_address_i(read_address), .read_data_o(read_data),
    .id_magic_i(16'h5345), .id_streams_i(7'(N)),
    .control_mode_o(mode), .control_rtas99_o(rtas99),
    .control_lowest_denominator_o(lowest_denominator), .control_enable_o(enable),
    .window_first_o(window_first), .window_drop_o(window_drop), .window_growth_o(window_growth),
    .window_y_o(window_y), .window_x_o(window_x),
    .time_deadline_o(time_deadline), .time_period_o(time_period),
    .load_stream_o(load_stream), .load_written_o(load_written),
    .push_arrival_o(push_arrival), .push_stream_o(push_stream), .push_written_o(push_written),
    .pull_count_o(pull_count), .pull_stream_o(pull_stream), .pull_written_o(pull_written),
    .winner_time_i(winner_waits ? winner_word[22:7] : 16'd0), .winner_valid_i(winner_waits),
    .winner_dropped_i(winner_waits && winner_word[6]),
    .winner_stream_i(winner_waits ? winner_word[5:0] : 6'd0), .winner_read_o(winner_read),
    .level_now_i(now), .level_winners_i(16'(winners)),
    .select_stream_o(select_stream),
    .missed_count_i(selected_counts.missed), .violations_count_i(selected_counts.violations),
    .state_violation_i(violation[selected]), .state_range_i(range[selected]),
    .state_waiting_i(16'(level[selected*CountW +: CountW]))
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      load_busy_q <= 1'b0;
      push_busy_q <= 1'b0;
    end else begin
      load_busy_q <= load_written || (load_busy_q && !load_ready);
      push_busy_q <= push_written || (push_busy_q && !push_done);
    end
  end

  // Arrivals.
  logic [Banks-1:0] bank_write, bank_settled;
  logic [Banks*msr_pkg::IdW-1:0] bank_stream;
  logic [Banks*msr_pkg::TimeW-1:0] bank_time;
  logic [N-1:0] full, front_valid, take, late;
  logic [N*msr_pkg::TimeW-1:0] fronts;

  msr_streaming_unit #(
    .N(N), .Banks(Banks), .Depth(Depth), .Burst(Burst)
  ) u_streaming_unit (
    .clk_i, .rst_ni,
    .push_i(push_busy_q), .push_stream_i(push_stream), .push_time_i(push_arrival),
    .push_done_o(push_done),
    .offer_i(pull_written), .offer_stream_i(pull_stream), .offer_count_i(pull_count),
    .pull_valid_o, .pull_ready_i, .pull_stream_o, .pull_count_o,
    .word_valid_i(s_axis_tvalid), .word_ready_o(s_axis_tready), .word_i(s_axis_tdata),
    .full_i(full), .level_i(level),
    .write_o(bank_write), .write_stream_o(bank_stream), .write_time_o(bank_time)
  );

  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    logic [Each-1:0] bank_full, bank_valid, bank_take;
    logic [Each*CountW-1:0] bank_level;
    logic [Each*msr_pkg::TimeW-1:0] bank_front;
    msr_arrival_bank #(
      .Streams(Each), .Depth(Depth)
    ) u_bank (
      .clk_i, .rst_ni, .write_i(bank_write[b]),
      .write_stream_i(EachW'(bank_stream[b*msr_pkg::IdW +: msr_pkg::IdW] / msr_pkg::IdW'(Banks))),
      .write_time_i(bank_time[b*msr_pkg::TimeW +: msr_pkg::TimeW]),
      .full_o(bank_full), .level_o(bank_level), .front_valid_o(bank_valid), .front_o(bank_front),
      .take_i(bank_take), .settled_o(bank_settled[b])
    );
    for (genvar e = 0; e < Each; e++) begin : gen_stream
      localparam int I = e * Banks + b;
      assign full[I] = bank_full[e];
      assign level[I*CountW +: CountW] = bank_level[e*CountW +: CountW];
      assign front_valid[I] = bank_valid[e];
      assign fronts[I*msr_pkg::TimeW +: msr_pkg::TimeW] =
          bank_front[e*msr_pkg::TimeW +: msr_pkg::TimeW];
      assign bank_take[e] = take[I];
    end
  end

  assign written_o = bank_write;
  assign written_stream_o = bank_stream;
  assign written_time_o = bank_time;

  // Decisions.
  logic [N-1:0] offered, head_valid, far;
  logic [msr_pkg::TimeW-1:0] step;
  logic [N*msr_pkg::HeadW-1:0] heads;
  logic [N*(msr_pkg::IdW+1)-1:0] list;
  logic decide, core_ready, decided, winner_valid, in_flight_q, drops_pending;
  logic [msr_pkg::IdW-1:0] winner;
  logic [msr_pkg::TimeW-1:0] decided_now_q;
  msr_pkg::config_t cfg;
  msr_pkg::load_t load;
  logic unused;
  assign unused = ^{list, heads, select_stream, selected_counts};
  assign cfg = {mode, lowest_denominator, rtas99};
  assign load = {
    window_x, window_y, window_growth, time_period, window_drop, time_deadline, window_first
  };

  for (genvar i = 0; i < N; i++) begin : gen_offer
    logic [msr_pkg::TimeW-1:0] ahead;
    assign ahead = now - fronts[i*msr_pkg::TimeW +: msr_pkg::TimeW];
    assign offered[i] = front_valid[i] && !ahead[msr_pkg::TimeW-1];
    assign far[i] = !front_valid[i] ||
                    (ahead[msr_pkg::TimeW-1] && ahead <= -msr_pkg::TimeW'(Stride));
    assign head_valid[i] = heads[(i+1)*msr_pkg::HeadW-1];
    // y' is above the arrival in `heads`.
    assign window_full_o[i] =
        violation[i] && heads[i*msr_pkg::HeadW+msr_pkg::TimeW +: msr_pkg::WindowW] == '1;
  end
  assign step = head_valid == '0 && front_valid != '0 && far == '1 ? msr_pkg::TimeW'(Stride)
                                                                   : msr_pkg::TimeW'(1);

  // All of SRAM is seen: fronts are filled, and idle streams have taken theirs.
  assign decide = enable && !in_flight_q && !decided && bank_settled == '1 &&
                  (offered & ~head_valid) == '0 && (front_valid | head_valid) != '0 &&
                  !drops_pending && !winners_full;
  assign started_o = decide && core_ready;
  assign now_o = now;
  assign winner_waits_o = winner_waits;
  assign range_o = range;
  assign idle_o = core_ready && !decide && !in_flight_q && !decided && bank_settled == '1 &&
                  (offered & ~head_valid) == '0 && (!drops_pending || winners_full) &&
                  !load_busy_q && !push_busy_q && !pull_valid_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_flight_q <= 1'b0;
      decided_now_q <= '0;
    end else begin
      in_flight_q <= started_o || (in_flight_q && !decided);
      if (started_o) decided_now_q <= now;
    end
  end

  msr_core #(
    .N(N), .WinnerOnly(WinnerOnly)
  ) u_core (
    .clk_i, .rst_ni, .cfg_i(cfg),
    .load_valid_i(load_busy_q), .load_ready_o(load_ready), .load_id_i(load_stream), .load_i(load),
    .packet_valid_i(offered), .packet_stamp_i(fronts), .packet_take_o(take), .dropped_o(late),
    .decide_i(decide), .step_i(step), .ready_o(core_ready), .decided_o(decided),
    .winner_valid_o(winner_valid), .winner_o(winner), .list_o(list), .now_o(now),
    .heads_o(heads), .counts_o(counts), .violation_o(violation), .range_o(range)
  );

  // Winners; between decisions the drops that came with them, one stream a cycle.
  localparam int DropW = 16;
  logic [DropW-1:0] drops_q [N];
  logic [N-1:0] has_drops, tells;
  logic tell_winner, tell_drop;
  logic [msr_pkg::IdW-1:0] teller;
  assign tell_winner = decided && winner_valid;
  assign tell_drop = has_drops != '0 && !decided && !in_flight_q && !winners_full;
  assign drops_pending = has_drops != '0;
  always_comb begin
    teller = '0;
    for (int i = N - 1; i >= 0; i--) if (has_drops[i]) teller = msr_pkg::IdW'(i);
  end
  for (genvar i = 0; i < N; i++) begin : gen_drops
    assign has_drops[i] = drops_q[i] != '0;
    assign tells[i] = tell_drop && teller == msr_pkg::IdW'(i);
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) drops_q[i] <= '0;
      else drops_q[i] <= drops_q[i] + DropW'(late[i]) - DropW'(tells[i]);
    end
  end

  msr_packet_queue #(
    .Depth(Winners), .Width(23)
  ) u_winners (
    .clk_i, .rst_ni, .push_i(tell_winner || tell_drop),
    .data_i(tell_winner ? {decided_now_q, 1'b0, winner} : {now, 1'b1, teller}),
    .pop_i(winner_read && winner_waits), .valid_o(winner_waits), .full_o(winners_full),
    .front_o(winner_word), .count_o(winners)
  );

endmodule
