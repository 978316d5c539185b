/// AXI4-Lite target: translates to plain reads and writes of 32-bit words.
///
/// One write and one read may be outstanding. Every address responds OKAY; unmapped words read as 0
/// and ignore writes.
///
/// Latency: a write occurs in the cycle in which address and data are both valid; responses follow
/// in the next cycle. Throughput: a write and a read every two cycles.
module msr_axi_lite_target #(
  /// Width of byte addresses.
  parameter int AddressW = 8
) (
  input  logic                clk_i,
  input  logic                rst_ni,

  input  logic [AddressW-1:0] s_axil_awaddr,
  input  logic [2:0]          s_axil_awprot,
  input  logic                s_axil_awvalid,
  output logic                s_axil_awready,
  input  logic [31:0]         s_axil_wdata,
  input  logic [3:0]          s_axil_wstrb,
  input  logic                s_axil_wvalid,
  output logic                s_axil_wready,
  output logic [1:0]          s_axil_bresp,
  output logic                s_axil_bvalid,
  input  logic                s_axil_bready,
  input  logic [AddressW-1:0] s_axil_araddr,
  input  logic [2:0]          s_axil_arprot,
  input  logic                s_axil_arvalid,
  output logic                s_axil_arready,
  output logic [31:0]         s_axil_rdata,
  output logic [1:0]          s_axil_rresp,
  output logic                s_axil_rvalid,
  input  logic                s_axil_rready,

  /// Back-pressure for writes.
  input  logic                hold_i,
  output logic                write_o,
  output logic [AddressW-3:0] address_o,
  output logic [31:0]         data_o,
  output logic [3:0]          strobe_o,
  /// A read occurs in this cycle.
  output logic                read_o,
  output logic [AddressW-3:0] read_address_o,
  input  logic [31:0]         read_data_i
);

  logic b_valid_q, r_valid_q;
  logic [31:0] r_data_q;

  // Not in reset: responses would be lost.
  assign write_o = rst_ni && s_axil_awvalid && s_axil_wvalid && !b_valid_q && !hold_i;
  assign s_axil_awready = write_o;
  assign s_axil_wready = write_o;
  assign address_o = s_axil_awaddr[AddressW-1:2];
  assign data_o = s_axil_wdata;
  assign strobe_o = s_axil_wstrb;
  assign s_axil_bresp = 2'b00;
  assign s_axil_bvalid = b_valid_q;

  assign read_o = rst_ni && s_axil_arvalid && !r_valid_q;
  assign s_axil_arready = read_o;
  assign read_address_o = s_axil_araddr[AddressW-1:2];
  assign s_axil_rdata = r_data_q;
  assign s_axil_rresp = 2'b00;
  assign s_axil_rvalid = r_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      b_valid_q <= 1'b0;
      r_valid_q <= 1'b0;
      r_data_q <= '0;
    end else begin
      if (write_o) b_valid_q <= 1'b1;
      else if (s_axil_bready) b_valid_q <= 1'b0;
      if (read_o) begin
        r_valid_q <= 1'b1;
        r_data_q <= read_data_i;
      end else if (s_axil_rready) begin
        r_valid_q <= 1'b0;
      end
    end
  end

  logic unused;
  assign unused = ^{s_axil_awprot, s_axil_arprot, s_axil_awaddr[1:0], s_axil_araddr[1:0]};

endmodule
