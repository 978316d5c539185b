/// Stands in for `msr_key_order` in the network's proof: a key holds one bit for each number that
/// it precedes. The key block's proof shows that keys have a total order.
module msr_key_order (
  input  msr_pkg::key_t a_i,
  input  msr_pkg::key_t b_i,
  output logic          a_first_o
);

  logic [31:0] later;
  assign later = {a_i.deadline, a_i.arrival};
  assign a_first_o = later[b_i.id[4:0]];

endmodule
