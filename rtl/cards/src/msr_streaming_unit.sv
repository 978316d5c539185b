/// Streaming unit: brings arrival times from the host into SRAM, by push and by pull.
///
/// Source: ShareStreams, section 3. Push: the host writes one urgent arrival to a register. Pull:
/// the host announces a number of arrivals. When a stream's level is at most `Low` the unit
/// requests a burst, round-robin over streams. The host answers with words of two arrivals, the
/// earlier in the low half. A push has priority over a pulled word for the same bank. A stream's
/// arrivals stay in order if all are pushed or all pulled.
///
/// Latency: a push is written in the next cycle in which its bank has space. Throughput: an arrival
/// a cycle.
module msr_streaming_unit #(
  parameter int N = 4,
  parameter int Banks = 2,
  parameter int Depth = 512,
  /// Maximum arrivals in a burst.
  parameter int Burst = 64,
  localparam int CountW = $clog2(Depth) + 1
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,

  /// Held until `push_done_o`.
  input  logic                      push_i,
  input  logic [msr_pkg::IdW-1:0]   push_stream_i,
  input  logic [msr_pkg::TimeW-1:0] push_time_i,
  output logic                      push_done_o,

  /// Number of additional arrivals at the host.
  input  logic                      offer_i,
  input  logic [msr_pkg::IdW-1:0]   offer_stream_i,
  input  logic [15:0]               offer_count_i,

  /// Request for a burst.
  output logic                      pull_valid_o,
  input  logic                      pull_ready_i,
  output logic [msr_pkg::IdW-1:0]   pull_stream_o,
  output logic [15:0]               pull_count_o,
  /// The words of the burst.
  input  logic                      word_valid_i,
  output logic                      word_ready_o,
  input  logic [31:0]               word_i,

  input  logic [N-1:0]              full_i,
  input  logic [N*CountW-1:0]       level_i,
  /// Stream i is in bank i mod Banks.
  output logic [Banks-1:0]          write_o,
  output logic [Banks*msr_pkg::IdW-1:0] write_stream_o,
  output logic [Banks*msr_pkg::TimeW-1:0] write_time_o
);

  localparam int StreamW = $clog2(N);
  localparam int BankW = Banks > 1 ? $clog2(Banks) : 1;
  localparam int Low = Depth / 2;

  logic [15:0] offered_q [N];
  logic [StreamW-1:0] turn_q, stream_q;
  logic [15:0] left_q, wanted, room;
  logic asks_q, high_q;
  logic [CountW-1:0] level;

  // Bursts, round-robin over streams.
  assign level = level_i[turn_q*CountW +: CountW];
  assign room = 16'(Depth) - 16'(level);
  always_comb begin
    wanted = offered_q[turn_q];
    if (wanted > room) wanted = room;
    if (wanted > 16'(Burst)) wanted = 16'(Burst);
  end
  logic begins, granted, arrives;
  assign begins = !asks_q && left_q == '0 && level <= CountW'(Low) && wanted != '0;
  assign pull_valid_o = asks_q;
  assign pull_stream_o = msr_pkg::IdW'(stream_q);
  assign pull_count_o = left_q;
  assign granted = asks_q && pull_ready_i;

  // One arrival of a word a cycle; the word is accepted with its last.
  logic pull, last, blocked;
  logic [BankW-1:0] push_bank, pull_bank;
  assign push_bank = BankW'(push_stream_i % msr_pkg::IdW'(Banks));
  assign pull_bank = BankW'(pull_stream_o % msr_pkg::IdW'(Banks));
  assign push_done_o = push_i && !full_i[push_stream_i[StreamW-1:0]];
  assign blocked = push_done_o && push_bank == pull_bank;
  assign pull = word_valid_i && !asks_q && left_q != '0 && !blocked && !full_i[stream_q];
  assign last = left_q == 16'd1;
  assign arrives = pull;
  assign word_ready_o = pull && (high_q || last);

  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    logic pushed, pulled;
    assign pushed = push_done_o && push_bank == BankW'(b);
    assign pulled = arrives && pull_bank == BankW'(b);
    assign write_o[b] = pushed || pulled;
    assign write_stream_o[b*msr_pkg::IdW +: msr_pkg::IdW] = pushed ? push_stream_i : pull_stream_o;
    assign write_time_o[b*msr_pkg::TimeW +: msr_pkg::TimeW] =
        pushed ? push_time_i : high_q ? word_i[31:16] : word_i[15:0];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int i = 0; i < N; i++) offered_q[i] <= '0;
      turn_q <= '0;
      stream_q <= '0;
      left_q <= '0;
      asks_q <= 1'b0;
      high_q <= 1'b0;
    end else begin
      for (int i = 0; i < N; i++) begin
        offered_q[i] <= offered_q[i] +
            (offer_i && offer_stream_i == msr_pkg::IdW'(i) ? offer_count_i : 16'd0) -
            (begins && turn_q == StreamW'(i) ? wanted : 16'd0);
      end
      if (begins) begin
        stream_q <= turn_q;
        left_q <= wanted;
        asks_q <= 1'b1;
        high_q <= 1'b0;
      end else if (granted) begin
        asks_q <= 1'b0;
      end else if (arrives) begin
        left_q <= left_q - 1'b1;
        high_q <= !high_q && !last;
      end
      if (!asks_q && left_q == '0) turn_q <= turn_q + 1'b1;
    end
  end

endmodule
