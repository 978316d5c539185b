/// Proves the decision block for order keys: it follows each rule and is a total order. Also proves
/// that `msr_key_order` equals it.
module msr_key_block_proof (
  input msr_pkg::key_t a_i,
  input msr_pkg::key_t b_i,
  input msr_pkg::key_t c_i,
  input logic [15:0]   deadline_base_i,
  input logic [15:0]   arrival_base_i
);

  logic ab, ba, bc, ac;
  msr_pkg::key_t winner, loser;
  msr_key_block u_ab (.a_i, .b_i, .a_first_o(ab), .winner_o(winner), .loser_o(loser));
  msr_key_block u_ba (.a_i(b_i), .b_i(a_i), .a_first_o(ba));
  msr_key_block u_bc (.a_i(b_i), .b_i(c_i), .a_first_o(bc));
  msr_key_block u_ac (.a_i, .b_i(c_i), .a_first_o(ac));

  logic in_order;
  msr_key_order u_order (.a_i, .b_i, .a_first_o(in_order));

  function automatic logic in_window(input msr_pkg::key_t key);
    logic [15:0] deadline, arrival;
    deadline = key.deadline - deadline_base_i;
    arrival = key.arrival - arrival_base_i;
    in_window = !deadline[15] && !arrival[15];
  endfunction

  // Times relative to a base do not wrap.
  logic [15:0] deadline_a, deadline_b, arrival_a, arrival_b;
  assign deadline_a = a_i.deadline - deadline_base_i;
  assign deadline_b = b_i.deadline - deadline_base_i;
  assign arrival_a = a_i.arrival - arrival_base_i;
  assign arrival_b = b_i.arrival - arrival_base_i;

  logic want;
  always_comb begin
    if (a_i.valid != b_i.valid) want = a_i.valid;
    else if (!a_i.valid) want = a_i.id < b_i.id;
    else if (deadline_a != deadline_b) want = deadline_a < deadline_b;
    else if (a_i.ratio != b_i.ratio) want = a_i.ratio < b_i.ratio;
    else if (a_i.tie != b_i.tie) want = a_i.tie < b_i.tie;
    else if (arrival_a != arrival_b) want = arrival_a < arrival_b;
    else want = a_i.id < b_i.id;
  end

  always_comb begin
    assume (in_window(a_i) && in_window(b_i) && in_window(c_i));
    assume (a_i.id != b_i.id && b_i.id != c_i.id && a_i.id != c_i.id);
    assert (ab == want);
    assert (winner == (ab ? a_i : b_i) && loser == (ab ? b_i : a_i));
    assert (ab != ba);
    if (ab && bc) assert (ac);
    if (a_i.valid && b_i.valid && a_i.id < b_i.id) assert (in_order == ab);
  end

endmodule
