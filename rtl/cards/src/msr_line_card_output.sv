/// Output side of the line card: reads winners' packets from their rings and sends them.
///
/// Two packets may be in progress, the current and the next, so that no beat is lost between them.
/// The used part of a ring starts at the first of them, or at the head.
///
/// Latency: 2 cycles from `start_i` to the first beat. Throughput: a beat a cycle.
module msr_line_card_output #(
  parameter int N = 4,
  parameter int DataW = 64,
  parameter int Beats = 256,
  localparam int StreamW = $clog2(N),
  localparam int BeatW = $clog2(Beats) + 1,
  localparam int WordW = DataW + DataW / 8 + 1
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,

  /// Starts a packet; only while `ready_o`.
  input  logic                       start_i,
  input  logic [StreamW-1:0]         stream_i,
  input  logic [BeatW-1:0]           first_i,
  input  logic [BeatW-1:0]           beats_i,
  output logic                       ready_o,

  /// Start of each stream's head, and of the used part of its ring.
  input  logic [N*BeatW-1:0]         head_i,
  output logic [N*BeatW-1:0]         tail_o,

  /// Memory read; the word is valid in the next cycle.
  output logic                       read_o,
  output logic [StreamW-1:0]         read_stream_o,
  output logic [BeatW-2:0]           read_address_o,
  input  logic [WordW-1:0]           read_word_i,

  output logic [DataW-1:0]           m_axis_tdata,
  output logic [DataW/8-1:0]         m_axis_tkeep,
  output logic                       m_axis_tlast,
  output logic [msr_pkg::IdW-1:0]    m_axis_tdest,
  output logic                       m_axis_tvalid,
  input  logic                       m_axis_tready
);

  typedef struct packed {
    logic               valid;
    logic [StreamW-1:0] stream;
    logic [BeatW-1:0]   first;
    logic [BeatW-1:0]   left;
  } job_t;

  job_t now_q, next_q, offered;
  logic [BeatW-1:0] at_q;
  assign offered = {start_i, stream_i, first_i, beats_i};
  assign ready_o = !next_q.valid;

  // Holds words that were read; limits the outstanding reads to its free space.
  logic out_valid, out_full, read_q;
  logic [StreamW-1:0] read_stream_q;
  logic [2:0] out_count;
  logic pop, last_read, finished;
  assign pop = m_axis_tvalid && m_axis_tready;
  assign read_o = now_q.valid && out_count + 3'(read_q) < 3'd4;
  assign last_read = now_q.left == BeatW'(1);
  assign finished = read_o && last_read;
  assign read_stream_o = now_q.stream;
  assign read_address_o = at_q[BeatW-2:0];

  logic [StreamW-1:0] out_stream;
  msr_packet_queue #(
    .Depth(4), .Width(WordW + StreamW)
  ) u_words (
    .clk_i, .rst_ni, .push_i(read_q), .data_i({read_stream_q, read_word_i}), .pop_i(pop),
    .valid_o(out_valid), .full_o(out_full),
    .front_o({out_stream, m_axis_tlast, m_axis_tkeep, m_axis_tdata}), .count_o(out_count)
  );
  assign m_axis_tvalid = out_valid;
  assign m_axis_tdest = msr_pkg::IdW'(out_stream);
  logic unused;
  assign unused = out_full;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      now_q <= '0;
      next_q <= '0;
      at_q <= '0;
      read_q <= 1'b0;
      read_stream_q <= '0;
    end else begin
      read_q <= read_o;
      read_stream_q <= now_q.stream;
      if (finished || !now_q.valid) begin
        now_q <= next_q.valid ? next_q : offered;
        at_q <= next_q.valid ? next_q.first : first_i;
        next_q.valid <= 1'b0;
      end else begin
        if (read_o) begin
          at_q <= at_q + 1'b1;
          now_q.left <= now_q.left - 1'b1;
        end
        if (start_i) next_q <= offered;
      end
    end
  end

  for (genvar i = 0; i < N; i++) begin : gen_tail
    logic reads, follows;
    assign reads = now_q.valid && now_q.stream == StreamW'(i);
    assign follows = next_q.valid && next_q.stream == StreamW'(i);
    assign tail_o[i*BeatW +: BeatW] =
        reads ? now_q.first : follows ? next_q.first : head_i[i*BeatW +: BeatW];
  end

`ifdef VERILATOR
  assert property (@(posedge clk_i) !(start_i && next_q.valid));
  assert property (@(posedge clk_i) !(read_q && out_full));
`endif

endmodule
