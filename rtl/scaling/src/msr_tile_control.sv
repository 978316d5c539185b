/// Sequences the scans of a tiled core, and counts time.
///
///     decide_i  ____/--------------------------------------------
///               READY  1  2 ... Cycles-1  READY  1  2 ... Cycles-1
///     tile_o    0      1  2 ... (drain)   0      1  2 ...
///
/// A scan may start in READY; LOAD has priority. A scan reads all tiles in order, then waits until
/// the next may start. If it leaves a deadline past, it is invalid: it is repeated and its winner
/// is discarded. After reset, CLEAR writes every tile once.
///
/// Latency: see the drawing; `ending_i` is the cycle after a scan's last, followed by the winner.
/// Until then neither LOAD nor inspection is granted.
/// Invariants (formal/): CLEAR takes `Tiles` cycles; every scan reads each tile once, in order, in
/// `Cycles` cycles; every decision keeps one winner, from the valid scan; time advances once a
/// decision.
module msr_tile_control #(
  parameter int Tiles = 16,
  /// Cycles of a scan: at least Tiles + 4, to check the deadlines of the last tile.
  parameter int Cycles = 22,
  localparam int TileW = Tiles > 1 ? $clog2(Tiles) : 1
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      load_valid_i,
  input  logic                      decide_i,
  input  logic [msr_pkg::TimeW-1:0] step_i,
  /// A written-back context has a past deadline that is not charged.
  input  logic                      overdue_i,
  /// The last tile of a scan is in the network's last block.
  input  logic                      ending_i,
  /// Write zeros to `tile_o`.
  output logic                      clear_o,
  /// Ready: a scan may start in this cycle.
  output logic                      ready_o,
  /// No scan runs and no winner is pending.
  output logic                      idle_o,
  /// Read `tile_o`, the first or the last of its scan.
  output logic                      read_o,
  output logic                      first_o,
  output logic                      last_o,
  output logic [TileW-1:0]          tile_o,
  /// The scan serves the last winner: it is not a repetition.
  output logic                      serve_o,
  /// The winner counts and is valid in the next cycle.
  output logic                      keep_o,
  /// The winner is valid in this cycle.
  output logic                      decided_o,
  /// The times of the previous decision and of the current one.
  output logic [msr_pkg::TimeW-1:0] before_o,
  output logic [msr_pkg::TimeW-1:0] now_o
);

  localparam int CountW = $clog2(Cycles);
  localparam logic [CountW-1:0] LastTile = CountW'(Tiles - 1);
  localparam logic [CountW-1:0] LastCycle = CountW'(Cycles - 1);

  typedef enum logic [1:0] {Clear, Ready, Scan} phase_e;

  phase_e phase_q;
  logic [CountW-1:0] count_q;
  logic [msr_pkg::TimeW-1:0] before_q, now_q;
  logic serve_q, overdue_q, spoilt_q, owed_q, decided_q, start, tiles_left;

  assign clear_o = phase_q == Clear;
  assign ready_o = phase_q == Ready && !load_valid_i;
  assign idle_o = phase_q == Ready && !owed_q;
  assign start = ready_o && decide_i;
  assign tiles_left = count_q <= LastTile;
  assign read_o = start || (phase_q == Scan && tiles_left);
  assign first_o = count_q == '0;
  assign last_o = count_q == LastTile;
  assign tile_o = count_q[TileW-1:0];
  assign keep_o = ending_i && !spoilt_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q <= Clear;
      count_q <= '0;
      before_q <= '0;
      now_q <= '0;
      serve_q <= 1'b0;
      overdue_q <= 1'b0;
      spoilt_q <= 1'b0;
      owed_q <= 1'b0;
      decided_q <= 1'b0;
    end else begin
      decided_q <= keep_o;
      overdue_q <= (overdue_q && !first_o) || overdue_i;
      // The winner that arrives during a scan is that of the previous scan.
      if (start) owed_q <= 1'b1;
      else if (keep_o && phase_q == Ready) owed_q <= 1'b0;
      case (phase_q)
        Clear: begin
          phase_q <= last_o ? Ready : Clear;
          count_q <= last_o ? '0 : count_q + 1'b1;
        end
        Ready: begin
          if (start) begin
            phase_q <= Scan;
            count_q <= CountW'(1);
            before_q <= now_q;
            now_q <= now_q + step_i;
            serve_q <= 1'b1;
          end
        end
        default: begin
          count_q <= count_q + 1'b1;
          if (count_q == LastCycle) begin
            phase_q <= overdue_q ? Scan : Ready;
            count_q <= '0;
            serve_q <= 1'b0;
            spoilt_q <= overdue_q;
          end
        end
      endcase
    end
  end

  assign serve_o = serve_q;
  assign decided_o = decided_q;
  assign before_o = before_q;
  assign now_o = now_q;

`ifdef FORMAL
  always @(posedge clk_i) begin
    if (rst_ni) begin
      assert (phase_q == Clear || phase_q == Ready || phase_q == Scan);
      assert (count_q <= LastCycle);
      assert (phase_q != Clear || count_q <= LastTile);
      assert (phase_q != Ready || count_q == '0);
      assert (phase_q != Scan || owed_q);
    end
  end
`endif

endmodule
