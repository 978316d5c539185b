/// Types that all modules of the scheduler core share: field widths and bundles.
///
/// Source: ShareStreams, section 4 ("Control Unit and Register Base Blocks"): arrival, period and
/// deadline 16 bits, x and y 8 bits, counters 16 bits. Stream numbers have 6 bits here (5 there).
///
/// **Time** is a 16-bit count of *ticks* that wraps. A decision is made at the time `now`; then
/// time advances by the caller's `step`, 1 by default. A tick is then a packet-time, and deadlines,
/// periods and arrival stamps count packet-times. An arrival is stamped with the time of the first
/// decision that may see it.
///
/// **Wrap-around**: a is before b if bit 15 of a - b is set. This equals the order of the unbounded
/// times while they are less than 2^15 apart. Therefore:
///   - every waiting head's deadline is at most 2^14 ticks ahead of `now` and less than 2^14
///     behind (any two are then less than 2^15 apart; `range_o` reports an exception);
///   - the last deadline of an idle stream is in the same range, or arbitrarily long past;
///   - arrivals of heads that tie on all other rules are less than 2^15 apart;
///   - a packet waits less than 2^16 ticks, unless its stream's deadlines are ahead of time when it
///     becomes head (always true of a served DWCS stream);
///   - periods and steps are less than 2^14, periods at least 1.
package msr_pkg;

  parameter int TimeW = 16;
  parameter int WindowW = 8;
  parameter int IdW = 6;
  parameter int CountW = 16;
  // No core uses all of these: the keys of `msr_pair_core` have a logarithm as their number.
  /* verilator lint_off UNUSEDPARAM */
  /// Bits of the ratio x'/y' (msr_order_key).
  parameter int RatioW = 17;
  /// Bits of the logarithm of x'/y' (msr_path_key).
  parameter int LogW = 19;
  /* verilator lint_on UNUSEDPARAM */

  /// The discipline.
  typedef enum logic [1:0] {
    Dwcs = 2'd0,  // deadline, window-constraint, arrival
    Edf = 2'd1,  // deadline, arrival
    Static = 2'd2,  // priority (in `deadline`, below 2^15), arrival
    Tag = 2'd3  // service tag (in `arrival`), wrapping like a time
  } mode_e;

  /// Settings of the discipline; constant while any stream is loaded.
  typedef struct packed {
    mode_e mode;
    /// Among zero window-constraints the lowest y' is first, rather than the highest.
    logic  lowest_denominator;
    /// The update rules of 1999.
    logic  rtas99;
  } config_t;

  /// The compared attributes of a stream: the network's data.
  typedef struct packed {
    logic               valid;
    logic [5:0]     id;
    logic [15:0]   deadline;
    logic [7:0] x;
    logic [7:0] y;
    logic [15:0]   arrival;
  } head_t;

  /// The order key, for plain comparisons: fields that the mode ignores are 0.
  typedef struct packed {
    logic               valid;
    logic [5:0]     id;
    logic [15:0]   deadline;
    /// The ratio x'/y' of `msr_order_key`.
    logic [16:0]  ratio;
    /// Lowest first among equal ratios.
    logic [7:0] tie;
    logic [15:0]   arrival;
  } key_t;

  /// The change of x'/y' by an update.
  typedef struct packed {
    /// x'/y' = x/y; overrides the others.
    logic restored;
    /// y' decreases by 1.
    logic y_down;
    /// x' and y' decrease by 1.
    logic x_down;
  } move_t;

  /// A stream's contract: constant between loads.
  typedef struct packed {
    logic [7:0] x;
    logic [7:0] y;
    /// Increment of y' at a violation: 1; under the 1999 rules ceil((y - x) / x), y if x = 0.
    logic [7:0] growth;
    logic [15:0]   period;
    /// 1: late heads are dropped; 0: sent.
    logic               drop;
  } contract_t;

  /// The data of LOAD.
  typedef struct packed {
    contract_t        contract;
    /// The first packet's deadline if `first`, else the base from which it is computed; in static
    /// mode the priority.
    logic [15:0] deadline;
    logic             first;
  } load_t;

  /// The attributes that change from decision to decision.
  typedef struct packed {
    logic               valid;
    logic [15:0]   deadline;
    logic [7:0] x;
    logic [7:0] y;
    logic [15:0]   arrival;
    /// A violation since the window was last restored.
    logic               tag;
    /// `deadline` is that of the first packet, which has not arrived.
    logic               first;
    /// The stream is idle, and `deadline` is so long past that only the next arrival counts.
    logic               stale;
  } state_t;

  /// The part of an update that does not depend on the decision.
  typedef struct packed {
    /// The deadline is past at the time of the next decision,
    logic past;
    /// by 2^14 ticks or more.
    logic long_past;
    /// The deadline was past at the current decision.
    logic late;
    /// The next packet's deadline is relative to its arrival, not to the last deadline.
    logic from_arrival;
    /// If the deadline is past: by 2^14 ticks or more; the next packet arrived after it.
    logic distant;
    logic newer;
  } forecast_t;

  /// The events of an update, for the counters.
  typedef struct packed {
    logic take;
    logic dropped;
    logic missed;
    logic violated;
    logic served;
    move_t move;
  } event_t;

  /// The ratio x'/y' and the operands of the next ratios (msr_order_key_ahead).
  typedef struct packed {
    logic [16:0] ratio;
    /// x' is 0.
    logic        zero;
    /// The tie-break y', inverted for zero window-constraints if the highest is first.
    logic [7:0]  tie;
    /// R(y' - 1), R(y' - 2).
    logic [31:0] next;
    logic [31:0] after;
    /// y' has just decreased: R(y' - 2) is the ROM's output, not `after`.
    logic        fell;
  } number_t;

  /// Per-stream counters; they wrap.
  typedef struct packed {
    logic [15:0] missed;
    logic [15:0] violations;
    logic [15:0] serviced;
  } count_t;

  // Widths of the bundles for flat ports, since yosys has no $bits of a type. msr_core checks them.
  parameter int HeadW = 1 + IdW + 2 * TimeW + 2 * WindowW;
  /* verilator lint_off UNUSEDPARAM */
  parameter int KeyW = 1 + IdW + 2 * TimeW + RatioW + WindowW;
  parameter int PathKeyW = 1 + IdW + 2 * TimeW + LogW + WindowW;
  /* verilator lint_on UNUSEDPARAM */
  parameter int CountsW = 3 * CountW;

endpackage
