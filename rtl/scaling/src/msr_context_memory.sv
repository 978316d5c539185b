/// Contexts of the streams of one lane, one word a tile: a block RAM with one read and one write
/// port.
///
/// Latency: a word is valid in the cycle after its address. Reading a word that is written in the
/// same cycle is undefined; the control unit never does.
module msr_context_memory #(
  parameter int Words = 64,
  parameter int Bits = 36,
  localparam int AddressW = Words > 1 ? $clog2(Words) : 1
) (
  input  logic                clk_i,
  input  logic                read_i,
  input  logic [AddressW-1:0] read_address_i,
  output logic [Bits-1:0]     read_data_o,
  input  logic                write_i,
  input  logic [AddressW-1:0] write_address_i,
  input  logic [Bits-1:0]     write_data_i
);

  (* ram_style = "block" *) logic [Bits-1:0] words[Words];

  always_ff @(posedge clk_i) begin
    if (write_i) words[write_address_i] <= write_data_i;
  end

  always_ff @(posedge clk_i) begin
    if (read_i) begin
      read_data_o <= words[read_address_i];
      // Avoids the bypass logic that tools add for a defined value.
      if (write_i && write_address_i == read_address_i) read_data_o <= 'x;
    end
  end

`ifdef VERILATOR
  assert property (@(posedge clk_i) !(read_i && write_i && read_address_i == write_address_i));
`endif

endmodule
