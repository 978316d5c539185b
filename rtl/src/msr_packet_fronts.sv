/// The first packets of a stream's queue, in registers: the head's successors.
///
/// A packet is accepted from outside whenever the last place is empty. Two commands in flight can
/// take two packets. With a third place a stream that takes one in every cycle never waits.
///
/// Latency: a packet is visible in the cycle after `packet_take_o`.
module msr_packet_fronts #(
  /// Number of places.
  parameter int Places = 3
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  /// Discards all packets, and takes none.
  input  logic                             clear_i,
  input  logic                             packet_valid_i,
  input  logic [msr_pkg::TimeW-1:0]        packet_stamp_i,
  output logic                             packet_take_o,
  /// The stream is served by the current decision (late), and whether the first packet leaves then
  /// and otherwise.
  input  logic                             wins_i,
  input  logic                             served_takes_i,
  input  logic                             unserved_takes_i,
  output logic [Places-1:0]                valid_o,
  output logic [Places*msr_pkg::TimeW-1:0] stamp_o
);

  localparam int W = msr_pkg::TimeW + 1;

  // Places and what enters behind the last; the lowest bit is `valid`.
  logic [Places*W-1:0] places_q, places_d, served, unserved;
  logic [W-1:0] entering;
  assign packet_take_o = packet_valid_i && !clear_i && !places_q[(Places-1)*W];
  assign entering = {packet_stamp_i, packet_take_o};

  for (genvar k = 0; k < Places; k++) begin : gen_place
    logic [W-1:0] here, behind, stays, moves;
    logic follows;
    assign here = places_q[k*W +: W];
    assign follows = k == 0 || places_q[(k == 0 ? 0 : k - 1)*W];
    assign behind = k == Places - 1 ? '0 : places_q[(k == Places - 1 ? k : k + 1)*W +: W];
    // The entering packet follows the last valid place.
    assign stays = here[0] ? here : follows ? entering : '0;
    assign moves = behind[0] ? behind : here[0] ? entering : '0;
    assign served[k*W +: W] = clear_i ? '0 : served_takes_i ? moves : stays;
    assign unserved[k*W +: W] = clear_i ? '0 : unserved_takes_i ? moves : stays;
    assign valid_o[k] = here[0];
    assign stamp_o[k*msr_pkg::TimeW +: msr_pkg::TimeW] = here[W-1:1];
  end

  msr_late_select #(
    .W(Places * W)
  ) u_select (
    .late_i(wins_i), .yes_i(served), .no_i(unserved), .chosen_o(places_d)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) places_q <= '0;
    else places_q <= places_d;
  end

`ifdef VERILATOR
  for (genvar k = 1; k < Places; k++) begin : gen_in_order
    assert property (@(posedge clk_i) !valid_o[k] || valid_o[k-1]);
  end
  assert property (@(posedge clk_i) !(wins_i ? served_takes_i : unserved_takes_i) || valid_o[0]);
`endif

endmodule
