/// The core as a transmit scheduler of Corundum, in place of its round-robin one.
///
/// Source: Corundum, `tx_scheduler_rr`: the same ports, so that a port's scheduler block accepts
/// either. A doorbell announces that a queue may have packets. A request has a queue and a tag; its
/// status returns the tag with the packet's length, 0 if the queue was empty. Only this status
/// reveals an empty queue. A queue therefore counts as backlogged from its doorbell until a status
/// of 0 without a doorbell since the request. Packet arrivals are unknown: each is stamped when the
/// queue is offered to the core. Time is in packet-times, a tick a decision.
///
/// AXI4-Lite, byte addresses, N = 2^QUEUE_INDEX_WIDTH, q a queue:
///
///   4 q              bit 0 enable, 1 global enable (both are needed), 2 enabled by scheduler
///                    control (read), 6 backlogged (read), 7 a request is outstanding (read)
///   4 N + 8 q        x 7:0, y 15:8, growth 23:16 (1, or see the 1999 updates), drop 24
///   4 N + 8 q + 4    period 15:0, priority 31:16; a write loads the queue's contract
///   12 N             mode 9:8, rtas99 5, lowest denominator 4, as CONTROL of the line card
///
/// A queue without a contract is not served. `drop` skips a late turn; it drops no packet.
///
/// Latency: log2 N + 1 cycles a decision and 2 to hand it over. Invariant: at most 2^OpW requests
/// are outstanding, PerQueue a queue; every tag is unique until its status.
module msr_tx_scheduler #(
  parameter int QUEUE_INDEX_WIDTH = 3,
  parameter int AXIL_ADDR_WIDTH = 16,
  parameter int LEN_WIDTH = 16,
  parameter int REQ_TAG_WIDTH = 8,
  parameter int OP_TABLE_SIZE = 16,
  /// Whether scheduler control takes part.
  parameter bit SCHED_CTRL_ENABLE = 1'b0,
  /// Outstanding requests of one queue.
  parameter int PerQueue = 4,
  localparam int N = 1 << QUEUE_INDEX_WIDTH
) (
  input  logic                         clk,
  input  logic                         rst,

  output logic [QUEUE_INDEX_WIDTH-1:0] m_axis_tx_req_queue,
  output logic [REQ_TAG_WIDTH-1:0]     m_axis_tx_req_tag,
  output logic                         m_axis_tx_req_valid,
  input  logic                         m_axis_tx_req_ready,

  input  logic [LEN_WIDTH-1:0]         s_axis_tx_req_status_len,
  input  logic [REQ_TAG_WIDTH-1:0]     s_axis_tx_req_status_tag,
  input  logic                         s_axis_tx_req_status_valid,

  input  logic [QUEUE_INDEX_WIDTH-1:0] s_axis_doorbell_queue,
  input  logic                         s_axis_doorbell_valid,

  input  logic [QUEUE_INDEX_WIDTH-1:0] s_axis_sched_ctrl_queue,
  input  logic                         s_axis_sched_ctrl_enable,
  input  logic                         s_axis_sched_ctrl_valid,
  output logic                         s_axis_sched_ctrl_ready,

  input  logic [AXIL_ADDR_WIDTH-1:0]   s_axil_awaddr,
  input  logic [2:0]                   s_axil_awprot,
  input  logic                         s_axil_awvalid,
  output logic                         s_axil_awready,
  input  logic [31:0]                  s_axil_wdata,
  input  logic [3:0]                   s_axil_wstrb,
  input  logic                         s_axil_wvalid,
  output logic                         s_axil_wready,
  output logic [1:0]                   s_axil_bresp,
  output logic                         s_axil_bvalid,
  input  logic                         s_axil_bready,
  input  logic [AXIL_ADDR_WIDTH-1:0]   s_axil_araddr,
  input  logic [2:0]                   s_axil_arprot,
  input  logic                         s_axil_arvalid,
  output logic                         s_axil_arready,
  output logic [31:0]                  s_axil_rdata,
  output logic [1:0]                   s_axil_rresp,
  output logic                         s_axil_rvalid,
  input  logic                         s_axil_rready,

  input  logic                         enable,
  output logic                         active
);

  localparam int QueueW = QUEUE_INDEX_WIDTH;
  localparam int OpW = $clog2(OP_TABLE_SIZE);
  localparam int WordW = AXIL_ADDR_WIDTH - 2;
  localparam int UnderW = $clog2(PerQueue + 1);
  localparam logic [WordW-1:0] Contracts = WordW'(N), Settings = WordW'(3 * N);

  logic rst_n;
  assign rst_n = !rst;

  // Registers.
  logic write, read, load_q, load_ready;
  logic [WordW-1:0] address, read_address, contract_at;
  logic [31:0] data, read_data, window_q [N], time_q [N];
  logic [3:0] strobe;
  logic [9:0] settings_q;
  logic [QueueW-1:0] load_queue_q, asked_queue;
  logic [N-1:0] enable_q, global_q, control_q, backlogged_q, under_any, loaded_q;
  assign contract_at = address - Contracts;
  assign asked_queue = read_address[QueueW-1:0];
  assign read_data = read_address < Contracts
      ? {24'd0, under_any[asked_queue], backlogged_q[asked_queue], 3'd0, control_q[asked_queue],
         global_q[asked_queue], enable_q[asked_queue]}
      : 32'd0;

  msr_axi_lite_target #(
    .AddressW(AXIL_ADDR_WIDTH)
  ) u_target (
    .clk_i(clk), .rst_ni(rst_n),
    .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready,
    .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid, .s_axil_wready,
    .s_axil_bresp, .s_axil_bvalid, .s_axil_bready,
    .s_axil_araddr, .s_axil_arprot, .s_axil_arvalid, .s_axil_arready,
    .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
    .hold_i(load_q), .write_o(write), .address_o(address), .data_o(data), .strobe_o(strobe),
    .read_o(read), .read_address_o(read_address), .read_data_i(read_data)
  );

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      settings_q <= '0;
      load_q <= 1'b0;
      load_queue_q <= '0;
      loaded_q <= '0;
      enable_q <= '0;
      global_q <= '0;
      control_q <= '0;
    end else begin
      if (write && address < Contracts && strobe[0]) begin
        enable_q[address[QueueW-1:0]] <= data[0];
        global_q[address[QueueW-1:0]] <= data[1];
      end
      if (write && address == Settings) settings_q <= data[9:0];
      if (load_q && load_ready) begin
        load_q <= 1'b0;
        loaded_q[load_queue_q] <= 1'b1;
      end else if (write && address >= Contracts && address < Settings && contract_at[0]) begin
        load_q <= 1'b1;
        load_queue_q <= contract_at[QueueW:1];
      end
      if (s_axis_sched_ctrl_valid) begin
        control_q[s_axis_sched_ctrl_queue] <= s_axis_sched_ctrl_enable;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (write && address >= Contracts && address < Settings) begin
      if (contract_at[0]) time_q[contract_at[QueueW:1]] <= data;
      else window_q[contract_at[QueueW:1]] <= data;
    end
  end

  assign s_axis_sched_ctrl_ready = 1'b1;

  // Outstanding requests: queue, and whether a doorbell came since.
  logic [OP_TABLE_SIZE-1:0] op_busy_q, op_rung_q;
  logic [QueueW-1:0] op_queue_q [OP_TABLE_SIZE];
  logic [UnderW-1:0] under_q [N];
  logic [OpW-1:0] free_op, ended_op;
  logic some_free, starts, ended, emptied;
  logic [QueueW-1:0] ended_queue, winner_queue;
  assign ended_op = s_axis_tx_req_status_tag[OpW-1:0];
  assign ended = s_axis_tx_req_status_valid && op_busy_q[ended_op];
  assign ended_queue = op_queue_q[ended_op];
  assign emptied = ended && s_axis_tx_req_status_len == '0 && !op_rung_q[ended_op] &&
                   !(s_axis_doorbell_valid && s_axis_doorbell_queue == ended_queue);
  assign some_free = op_busy_q != '1;
  always_comb begin
    free_op = '0;
    for (int i = OP_TABLE_SIZE - 1; i >= 0; i--) if (!op_busy_q[i]) free_op = OpW'(i);
  end

  for (genvar o = 0; o < OP_TABLE_SIZE; o++) begin : gen_op
    logic mine;
    assign mine = starts && free_op == OpW'(o);
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) begin
        op_busy_q[o] <= 1'b0;
        op_rung_q[o] <= 1'b0;
        op_queue_q[o] <= '0;
      end else begin
        op_busy_q[o] <= mine || (op_busy_q[o] && !(ended && ended_op == OpW'(o)));
        op_rung_q[o] <= !mine && (op_rung_q[o] || (s_axis_doorbell_valid &&
                                                  s_axis_doorbell_queue == op_queue_q[o]));
        if (mine) op_queue_q[o] <= winner_queue;
      end
    end
  end

  // The core: an eligible queue offers a turn.
  logic [N-1:0] eligible, offered, take, late, violation, range;
  logic [N*msr_pkg::TimeW-1:0] stamps;
  logic [N*msr_pkg::HeadW-1:0] heads;
  logic [N*msr_pkg::CountsW-1:0] counts;
  logic [N*(msr_pkg::IdW+1)-1:0] list;
  logic [N-1:0] head_valid;
  logic decide, core_ready, decided, winner_valid, in_flight_q;
  logic [msr_pkg::IdW-1:0] winner;
  logic [msr_pkg::TimeW-1:0] now;
  msr_pkg::config_t cfg;
  msr_pkg::load_t load;
  logic [31:0] contract_window, contract_time;
  assign contract_window = window_q[load_queue_q];
  assign contract_time = time_q[load_queue_q];
  assign cfg = {settings_q[9:8], settings_q[4], settings_q[5]};
  assign load = {
    contract_window[7:0], contract_window[15:8], contract_window[23:16], contract_time[15:0],
    contract_window[24], contract_time[31:16], 1'b0
  };

  for (genvar q = 0; q < N; q++) begin : gen_queue
    logic mine, goes;
    assign mine = s_axis_doorbell_valid && s_axis_doorbell_queue == QueueW'(q);
    assign goes = starts && winner_queue == QueueW'(q);
    assign eligible[q] = enable_q[q] && global_q[q] && (control_q[q] || !SCHED_CTRL_ENABLE);
    assign under_any[q] = under_q[q] != '0;
    assign head_valid[q] = heads[(q+1)*msr_pkg::HeadW-1];
    // A turn in the core is a future request.
    assign offered[q] = backlogged_q[q] && eligible[q] && loaded_q[q] && !head_valid[q] &&
                        under_q[q] < UnderW'(PerQueue) && !(in_flight_q || decided || emptied);
    assign stamps[q*msr_pkg::TimeW +: msr_pkg::TimeW] = now;
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) begin
        backlogged_q[q] <= 1'b0;
        under_q[q] <= '0;
      end else begin
        backlogged_q[q] <= mine || (backlogged_q[q] && !(emptied && ended_queue == QueueW'(q)));
        under_q[q] <= under_q[q] + UnderW'(goes) -
                      UnderW'(ended && ended_queue == QueueW'(q));
      end
    end
  end

  assign decide = enable && !in_flight_q && !decided && !load_q && offered == '0 &&
                  head_valid != '0 && some_free && !m_axis_tx_req_valid;

  msr_core #(
    .N(N), .WinnerOnly(1'b1)
  ) u_core (
    .clk_i(clk), .rst_ni(rst_n), .cfg_i(cfg),
    .load_valid_i(load_q), .load_ready_o(load_ready),
    .load_id_i(msr_pkg::IdW'(load_queue_q)), .load_i(load),
    .packet_valid_i(offered), .packet_stamp_i(stamps), .packet_take_o(take), .dropped_o(late),
    .decide_i(decide), .step_i(msr_pkg::TimeW'(1)), .ready_o(core_ready), .decided_o(decided),
    .winner_valid_o(winner_valid), .winner_o(winner), .list_o(list), .now_o(now),
    .heads_o(heads), .counts_o(counts), .violation_o(violation), .range_o(range)
  );

  // A queue that was closed meanwhile, or found empty, loses its turn.
  assign winner_queue = winner[QueueW-1:0];
  assign starts = decided && winner_valid && eligible[winner_queue] && backlogged_q[winner_queue];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      in_flight_q <= 1'b0;
      m_axis_tx_req_valid <= 1'b0;
      m_axis_tx_req_queue <= '0;
      m_axis_tx_req_tag <= '0;
    end else begin
      in_flight_q <= (decide && core_ready) || (in_flight_q && !decided);
      if (starts) begin
        m_axis_tx_req_valid <= 1'b1;
        m_axis_tx_req_queue <= winner_queue;
        m_axis_tx_req_tag <= REQ_TAG_WIDTH'(free_op);
      end else if (m_axis_tx_req_ready) begin
        m_axis_tx_req_valid <= 1'b0;
      end
    end
  end

  assign active = backlogged_q != '0;

  logic unused;
  assign unused = ^{list, counts, heads, take, late, violation, range, read, strobe, winner,
                    s_axis_tx_req_status_tag, settings_q, contract_at, read_address,
                    contract_window};

endmodule
