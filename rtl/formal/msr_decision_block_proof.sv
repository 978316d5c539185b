/// Proves that the decision block equals Table 1 inside the wrap-around window, and is
/// antisymmetric.
///
/// `goes_first` states Table 1 rule by rule, on times unrolled to 17 bits. The times of both
/// streams lie anywhere in a window of 2^15 ticks from `base`.
module msr_decision_block_proof (
  input msr_pkg::mode_e mode_i,
  input logic           lowest_denominator_i,
  input msr_pkg::head_t a_i,
  input msr_pkg::head_t b_i,
  input logic [15:0]    deadline_base_i,
  input logic [15:0]    arrival_base_i
);

  msr_pkg::head_t ab_winner, ab_loser, ba_winner, ba_loser;
  msr_decision_block u_ab (
    .mode_i, .lowest_denominator_i, .a_i, .b_i, .winner_o(ab_winner), .loser_o(ab_loser)
  );
  msr_decision_block u_ba (
    .mode_i, .lowest_denominator_i, .a_i(b_i), .b_i(a_i), .winner_o(ba_winner), .loser_o(ba_loser)
  );

  function automatic logic [16:0] unrolled(input logic [15:0] time_in, input logic [15:0] base);
    logic [15:0] after;
    after = time_in - base;
    unrolled = {1'b0, after} + 17'd65536;
  endfunction

  function automatic logic goes_first(
      input msr_pkg::head_t p, input msr_pkg::head_t q,
      input logic [16:0] p_deadline, input logic [16:0] q_deadline,
      input logic [16:0] p_arrival, input logic [16:0] q_arrival);
    logic [15:0] p_cross, q_cross;
    p_cross = p.x * q.y;
    q_cross = q.x * p.y;
    if (p.valid != q.valid) goes_first = p.valid;
    else if (!p.valid) goes_first = p.id < q.id;
    else if (mode_i != msr_pkg::Tag && p_deadline != q_deadline)
      goes_first = p_deadline < q_deadline;
    else if (mode_i == msr_pkg::Dwcs && p.x == 0 && q.x != 0) goes_first = 1'b1;
    else if (mode_i == msr_pkg::Dwcs && p.x != 0 && q.x == 0) goes_first = 1'b0;
    else if (mode_i == msr_pkg::Dwcs && p.x == 0 && p.y != q.y)
      goes_first = lowest_denominator_i ? p.y < q.y : p.y > q.y;
    else if (mode_i == msr_pkg::Dwcs && p.x != 0 && p_cross != q_cross)
      goes_first = p_cross < q_cross;
    else if (mode_i == msr_pkg::Dwcs && p.x != q.x) goes_first = p.x < q.x;
    else if (p_arrival != q_arrival) goes_first = p_arrival < q_arrival;
    else goes_first = p.id < q.id;
  endfunction

  logic [16:0] a_deadline, b_deadline, a_arrival, b_arrival;
  assign a_deadline = unrolled(a_i.deadline, deadline_base_i);
  assign b_deadline = unrolled(b_i.deadline, deadline_base_i);
  assign a_arrival = unrolled(a_i.arrival, arrival_base_i);
  assign b_arrival = unrolled(b_i.arrival, arrival_base_i);

  logic [15:0] a_after, b_after, a_since, b_since;
  assign a_after = a_i.deadline - deadline_base_i;
  assign b_after = b_i.deadline - deadline_base_i;
  assign a_since = a_i.arrival - arrival_base_i;
  assign b_since = b_i.arrival - arrival_base_i;

  always_comb begin
    assume (!a_after[15] && !b_after[15] && !a_since[15] && !b_since[15]);
    assume (a_i.id != b_i.id);
    // It equals Table 1.
    assert ((ab_winner.id == a_i.id) ==
            goes_first(a_i, b_i, a_deadline, b_deadline, a_arrival, b_arrival));
    // Winner and loser are the two streams, independent of the input side.
    assert ({ab_winner, ab_loser} == {a_i, b_i} || {ab_winner, ab_loser} == {b_i, a_i});
    assert ({ab_winner, ab_loser} == {ba_winner, ba_loser});
  end

endmodule
