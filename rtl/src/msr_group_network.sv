/// Decides in one cycle: groups of streams select their first, then the groups' firsts are
/// compared, all pairs in parallel.
///
/// A binary tree (`msr_tree_network`) has log2 N comparisons in series; this network has two, at
/// the cost of 76 key blocks rather than 31 for 32 streams. Only the number of a group leaves the
/// second comparison, so no key passes a multiplexer there.
///
/// Latency: combinational. Invariant: `wins_o` has the winner's bit, or is 0 if no stream has a
/// packet or no decision is made (formal/).
module msr_group_network #(
  /// Number of streams: a power of two, 2 ... 64.
  parameter int N = 32,
  localparam int Members = N > 32 ? 8 : N < 4 ? N : 4,
  localparam int Groups = N / Members
) (
  input  logic [N*msr_pkg::KeyW-1:0] keys_i,
  /// A decision is made in this cycle.
  input  logic                       decides_i,
  /// One bit a stream: it is the winner of the decision.
  output logic [N-1:0]               wins_o
);

  localparam int W = msr_pkg::KeyW;

  logic [N-1:0] leads;
  logic [Groups*W-1:0] bests;
  logic [Groups-1:0] group_wins;

  for (genvar g = 0; g < Groups; g++) begin : gen_group
    msr_first_of #(
      .K(Members)
    ) u_members (
      .keys_i(keys_i[g*Members*W +: Members*W]), .first_o(leads[g*Members +: Members])
    );
    // The key of the group's first; the group's other streams contribute 0.
    logic [(Members+1)*W-1:0] sum;
    assign sum[0 +: W] = '0;
    for (genvar m = 0; m < Members; m++) begin : gen_member
      assign sum[(m+1)*W +: W] =
          sum[m*W +: W] | (keys_i[(g*Members+m)*W +: W] & {W{leads[g*Members+m]}});
    end
    assign bests[g*W +: W] = sum[Members*W +: W];
    assign wins_o[g*Members +: Members] =
        leads[g*Members +: Members] & {Members{group_wins[g] && decides_i}};
  end

  msr_first_of #(
    .K(Groups)
  ) u_groups (
    .keys_i(bests), .first_o(group_wins)
  );

`ifndef SYNTHESIS
  initial begin
    if (N != 1 << $clog2(N)) $fatal(1, "N is no power of two");
  end
`endif

endmodule
