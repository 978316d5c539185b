/// A bank of the end-system card's SRAM: rings of arrival times of some streams, and their fronts.
///
/// Source: ShareStreams, section 3 (dual-ported, banked SRAM between host and scheduler). The
/// streaming unit writes one port; the other refills the streams' fronts, one a cycle, lowest
/// stream first.
///
/// Latency: a written arrival is at an empty front 3 cycles later, without contention. A taken
/// front is refilled after 2.
module msr_arrival_bank #(
  /// Streams in this bank.
  parameter int Streams = 2,
  /// Arrivals of a stream: a power of two.
  parameter int Depth = 512,
  localparam int StreamW = Streams > 1 ? $clog2(Streams) : 1,
  localparam int CountW = $clog2(Depth) + 1
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  /// Not while the stream's ring is full.
  input  logic                             write_i,
  input  logic [StreamW-1:0]               write_stream_i,
  input  logic [msr_pkg::TimeW-1:0]        write_time_i,
  output logic [Streams-1:0]               full_o,
  output logic [Streams*CountW-1:0]        level_o,

  output logic [Streams-1:0]               front_valid_o,
  output logic [Streams*msr_pkg::TimeW-1:0] front_o,
  input  logic [Streams-1:0]               take_i,
  /// No arrival of this bank is in transit to an empty front.
  output logic                             settled_o
);

  logic [msr_pkg::TimeW-1:0] memory [Streams * Depth];
  logic [msr_pkg::TimeW-1:0] word_q;
  logic [CountW-1:0] written_q [Streams], read_q [Streams];
  logic [Streams-1:0] waits, wants, reads, reading_q, valid_q;
  logic [StreamW-1:0] reader;

  for (genvar i = 0; i < Streams; i++) begin : gen_stream
    logic [CountW-1:0] level;
    logic [msr_pkg::TimeW-1:0] front_q;
    assign level = written_q[i] - read_q[i];
    assign waits[i] = level != '0;
    assign full_o[i] = level[CountW-1];
    assign level_o[i*CountW +: CountW] = level;
    assign wants[i] = waits[i] && !valid_q[i] && !reading_q[i];
    if (i == 0) begin : gen_first
      assign reads[i] = wants[i];
    end else begin : gen_next
      assign reads[i] = wants[i] && wants[i-1:0] == '0;
    end
    assign front_valid_o[i] = valid_q[i];
    assign front_o[i*msr_pkg::TimeW +: msr_pkg::TimeW] = front_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        valid_q[i] <= 1'b0;
        reading_q[i] <= 1'b0;
        front_q <= '0;
        written_q[i] <= '0;
        read_q[i] <= '0;
      end else begin
        reading_q[i] <= reads[i];
        if (reading_q[i]) front_q <= word_q;
        valid_q[i] <= reading_q[i] || (valid_q[i] && !take_i[i]);
        if (write_i && write_stream_i == StreamW'(i)) written_q[i] <= written_q[i] + 1'b1;
        if (reads[i]) read_q[i] <= read_q[i] + 1'b1;
      end
    end
  end

  always_comb begin
    reader = '0;
    for (int i = 0; i < Streams; i++) if (reads[i]) reader = StreamW'(i);
  end

  localparam int PlaceW = $clog2(Streams * Depth);
  logic [PlaceW-1:0] write_place, read_place;
  assign write_place = PlaceW'(write_stream_i) * PlaceW'(Depth) +
                       PlaceW'(written_q[write_stream_i][CountW-2:0]);
  assign read_place = PlaceW'(reader) * PlaceW'(Depth) + PlaceW'(read_q[reader][CountW-2:0]);

  always_ff @(posedge clk_i) begin
    if (write_i) memory[write_place] <= write_time_i;
    if (reads != '0) word_q <= memory[read_place];
  end

  assign settled_o = (waits & ~valid_q) == '0 && reading_q == '0;

endmodule
