/// One stream's next state: forecast and outcome combined.
///
/// Latency: combinational.
module msr_stream_update (
  input  msr_pkg::mode_e            mode_i,
  input  logic                      rtas99_i,
  input  msr_pkg::contract_t        contract_i,
  input  msr_pkg::state_t           state_i,
  /// The time of the decision that chose the stream.
  input  logic [msr_pkg::TimeW-1:0] now_i,
  /// The time up to which misses are charged: that of the next decision.
  input  logic [msr_pkg::TimeW-1:0] time_i,
  /// The head was chosen.
  input  logic                      serve_i,
  /// The packet behind the head, if any.
  input  logic                      packet_valid_i,
  input  logic [msr_pkg::TimeW-1:0] packet_stamp_i,
  output msr_pkg::state_t           state_o,
  output msr_pkg::event_t           event_o
);

  msr_pkg::forecast_t forecast;

  msr_stream_forecast u_forecast (
    .state_i, .now_i, .time_i, .packet_stamp_i, .forecast_o(forecast)
  );

  msr_stream_outcome u_outcome (
    .mode_i, .rtas99_i, .contract_i, .state_i, .forecast_i(forecast), .serve_i, .packet_valid_i,
    .packet_stamp_i, .state_o, .event_o
  );

endmodule
