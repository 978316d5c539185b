/// Input side of the line card: writes packets beat by beat into their stream's ring.
///
/// A packet counts when its last beat is written: `commit_o`. A packet without space (its ring or
/// its stream's queue is full) is discarded to its end: `dropped_o`. With `hold_i` the packet waits
/// instead, unless it is longer than the ring and would wait for ever.
///
/// Latency: a beat is written in the cycle in which it is accepted. Throughput: a beat a cycle.
module msr_line_card_input #(
  parameter int N = 4,
  /// Beats in a stream's ring: a power of two.
  parameter int Beats = 256,
  localparam int StreamW = $clog2(N),
  localparam int BeatW = $clog2(Beats) + 1
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  logic                       hold_i,

  input  logic [msr_pkg::IdW-1:0]    s_axis_tdest,
  input  logic                       s_axis_tlast,
  input  logic                       s_axis_tvalid,
  output logic                       s_axis_tready,

  /// Start of the used part of each stream's ring.
  input  logic [N*BeatW-1:0]         tail_i,
  /// The stream's queue is full.
  input  logic [N-1:0]               full_i,

  /// A beat is written.
  output logic                       write_o,
  output logic [StreamW-1:0]         stream_o,
  output logic [BeatW-2:0]           address_o,
  /// The packet of the written beat is complete; its length in beats.
  output logic                       commit_o,
  output logic [BeatW-1:0]           beats_o,
  /// The packet that ends in this cycle was discarded.
  output logic                       dropped_o,
  /// The stream does not exist.
  output logic                       unknown_o
);

  // A packet's length has as many bits as a pointer, so that full and empty differ.
  logic [BeatW-1:0] written_q [N];
  logic [BeatW-1:0] beats_q;
  logic [StreamW-1:0] stream_q;
  logic within_q, swallow_q, unknown_q;

  logic [StreamW-1:0] stream;
  logic unknown, swallow, room, endless;
  logic [BeatW-1:0] at, used;
  assign stream = within_q ? stream_q : s_axis_tdest[StreamW-1:0];
  if (N < 64) begin : gen_unknown
    assign unknown = within_q ? unknown_q : s_axis_tdest >= msr_pkg::IdW'(N);
  end else begin : gen_all_known
    assign unknown = 1'b0;
    logic unused_unknown;
    assign unused_unknown = unknown_q;
  end
  assign at = written_q[stream] + beats_q;
  assign used = at - tail_i[stream*BeatW +: BeatW];
  assign room = !used[BeatW-1] && !full_i[stream];
  assign endless = beats_q[BeatW-1];
  assign swallow = swallow_q || unknown || (!room && (!hold_i || endless));

  logic beat;
  assign s_axis_tready = rst_ni && (swallow || room);
  assign beat = s_axis_tvalid && s_axis_tready;
  assign write_o = beat && !swallow;
  assign stream_o = stream;
  assign address_o = at[BeatW-2:0];
  assign commit_o = write_o && s_axis_tlast;
  assign beats_o = beats_q + 1'b1;
  assign dropped_o = beat && s_axis_tlast && swallow && !unknown;
  assign unknown_o = beat && s_axis_tlast && unknown;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int i = 0; i < N; i++) written_q[i] <= '0;
      beats_q <= '0;
      stream_q <= '0;
      within_q <= 1'b0;
      swallow_q <= 1'b0;
      unknown_q <= 1'b0;
    end else if (beat) begin
      within_q <= !s_axis_tlast;
      stream_q <= stream;
      swallow_q <= swallow && !s_axis_tlast;
      unknown_q <= unknown && !s_axis_tlast;
      beats_q <= s_axis_tlast || swallow ? '0 : beats_o;
      if (commit_o) written_q[stream] <= at + 1'b1;
    end
  end

endmodule
