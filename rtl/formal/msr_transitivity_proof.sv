/// Proves that the decision block is transitive and thus, being antisymmetric, a total order, with
/// the id as last tie-break.
///
/// Products order fractions as their value does, and the value distinguishes fractions of one
/// numerator. This is assumed for each pair, since the solver would have to reason about
/// multiplication; `fractions_are_ordered_by_a_key` in rtl/bulk shows it for all 32,640 fractions.
module msr_transitivity_proof (
  input msr_pkg::mode_e mode_i,
  input logic           lowest_denominator_i,
  input msr_pkg::head_t a_i,
  input msr_pkg::head_t b_i,
  input msr_pkg::head_t c_i,
  input logic [16:0]    a_key_i,
  input logic [16:0]    b_key_i,
  input logic [16:0]    c_key_i,
  input logic [15:0]    deadline_base_i,
  input logic [15:0]    arrival_base_i
);

  msr_pkg::head_t ab_winner, ab_loser, bc_winner, bc_loser, ac_winner, ac_loser;
  msr_decision_block u_ab (
    .mode_i, .lowest_denominator_i, .a_i(a_i), .b_i(b_i), .winner_o(ab_winner), .loser_o(ab_loser)
  );
  msr_decision_block u_bc (
    .mode_i, .lowest_denominator_i, .a_i(b_i), .b_i(c_i), .winner_o(bc_winner), .loser_o(bc_loser)
  );
  msr_decision_block u_ac (
    .mode_i, .lowest_denominator_i, .a_i(a_i), .b_i(c_i), .winner_o(ac_winner), .loser_o(ac_loser)
  );

  function automatic logic in_window(input msr_pkg::head_t head);
    logic [15:0] deadline, arrival;
    deadline = head.deadline - deadline_base_i;
    arrival = head.arrival - arrival_base_i;
    in_window = !deadline[15] && !arrival[15];
  endfunction

  function automatic logic has_keys(
      input msr_pkg::head_t p, input msr_pkg::head_t q,
      input logic [16:0] p_key, input logic [16:0] q_key);
    logic [15:0] p_cross, q_cross;
    p_cross = p.x * q.y;
    q_cross = q.x * p.y;
    has_keys = p.x == 0 || q.x == 0 ||
               ((p_cross < q_cross) == (p_key < q_key) &&
                   (p_cross == q_cross) == (p_key == q_key) &&
                (p.x != q.x || (p_cross == q_cross) == (p.y == q.y)));
  endfunction

  always_comb begin
    assume (in_window(a_i) && in_window(b_i) && in_window(c_i));
    assume (a_i.id != b_i.id && b_i.id != c_i.id && a_i.id != c_i.id);
    assume (has_keys(a_i, b_i, a_key_i, b_key_i));
    assume (has_keys(b_i, c_i, b_key_i, c_key_i));
    assume (has_keys(a_i, c_i, a_key_i, c_key_i));
    if (ab_winner.id == a_i.id && bc_winner.id == b_i.id) assert (ac_winner.id == a_i.id);
  end

endmodule
