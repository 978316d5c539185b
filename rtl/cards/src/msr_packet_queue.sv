/// A queue of one stream's waiting packets (metadata) that shows its front.
///
/// Latency: a pushed entry is at the front of an empty queue in the next cycle. Throughput: a push
/// and a pop a cycle.
module msr_packet_queue #(
  /// Packets: a power of two.
  parameter int Depth = 16,
  parameter int Width = 16,
  localparam int CountW = $clog2(Depth) + 1
) (
  input  logic              clk_i,
  input  logic              rst_ni,
  /// Not while full.
  input  logic              push_i,
  input  logic [Width-1:0]  data_i,
  /// Not while empty.
  input  logic              pop_i,
  output logic              valid_o,
  output logic              full_o,
  output logic [Width-1:0]  front_o,
  output logic [CountW-1:0] count_o
);

  logic [Width-1:0] memory [Depth];
  logic [CountW-1:0] write_q, read_q;

  always_ff @(posedge clk_i) begin
    if (push_i) memory[write_q[CountW-2:0]] <= data_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q <= '0;
    end else begin
      write_q <= write_q + CountW'(push_i);
      read_q <= read_q + CountW'(pop_i);
    end
  end

  assign count_o = write_q - read_q;
  assign valid_o = count_o != '0;
  assign full_o = count_o[CountW-1];
  assign front_o = memory[read_q[CountW-2:0]];

`ifdef VERILATOR
  assert property (@(posedge clk_i) !(push_i && full_o));
  assert property (@(posedge clk_i) !(pop_i && !valid_o));
`endif

endmodule
