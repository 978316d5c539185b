/// Selects the first of K streams with a packet by comparing all pairs in parallel.
///
/// The order is that of `msr_key_block`; stream numbers increase with the key's index. Each pair
/// needs one comparison and two gates: an OR (the other stream has no packet or is later), and the
/// AND over all other streams.
///
/// Latency: combinational. Invariant: if a stream has a packet, `first_o` is one-hot and no stream
/// precedes the selected one; otherwise it is 0 (formal/).
module msr_first_of #(
  parameter int K = 4
) (
  input  logic [K*msr_pkg::KeyW-1:0] keys_i,
  output logic [K-1:0]               first_o
);

  localparam int W = msr_pkg::KeyW;

  // Bit i * K + j: j has no packet or is after i.
  logic [K*K-1:0] leads;

  for (genvar i = 0; i < K; i++) begin : gen_stream
    // `valid` is the top bit of a key.
    logic valid;
    assign valid = keys_i[(i+1)*W-1];
    assign leads[i*K+i] = valid;
    for (genvar j = i + 1; j < K; j++) begin : gen_pair
      logic earlier;
      msr_key_order u_key_order (
        .a_i(keys_i[i*W +: W]), .b_i(keys_i[j*W +: W]), .a_first_o(earlier)
      );
      assign leads[i*K+j] = !keys_i[(j+1)*W-1] || earlier;
      assign leads[j*K+i] = !valid || !earlier;
    end
    assign first_o[i] = &leads[i*K +: K];
  end

  // With K = 1 there are no comparisons.
  logic unused;
  assign unused = ^keys_i;

endmodule
