/// The first of K streams with a packet, each compared with each at once.
///
/// The order is that of `msr_key_block`, numbers rising from key to key. Between every two one comparison
/// is made; what follows it is two gates: whether the other has no packet or comes later, and that of
/// all others.
///
/// Latency: combinational. Invariant: if any stream has a packet, `first_o` is one-hot and nobody goes
/// before the stream it names; if none has, it is 0 (formal/).
module msr_first_of #(
  parameter int K = 4
) (
  input  logic [K*msr_pkg::KeyW-1:0] keys_i,
  output logic [K-1:0]               first_o
);

  localparam int W = msr_pkg::KeyW;

  // Bit i * K + j: j has no packet or comes after i.
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

  // Alone, a stream is compared with nobody.
  logic unused;
  assign unused = ^keys_i;

endmodule
