/// Types that all modules of the scheduler core share: field widths and the bundles that travel.
///
/// Source: ShareStreams, section 4 ("Control Unit and Register Base Blocks"): arrival, period and
/// deadline 16 bits, x and y 8 bits, counters 16 bits. Stream numbers have 6 bits here (5 there).
///
/// **Time** is a 16-bit count of *ticks* that wraps. A decision is made at the time `now`; when it
/// is over, time moves on by the caller's `step`, 1 unless said otherwise, so that by default a
/// tick is a packet-time and deadlines, periods and arrival stamps count packet-times. An arrival
/// is stamped with the time of the first decision that may see it.
///
/// **Wrap-around**: of two times a and b, a is before b if bit 15 of a - b is set. That is the
/// order of the unbounded times as long as they are less than 2^15 apart. So:
///   - every waiting head's deadline lies at most 2^14 ticks ahead of `now` and less than 2^14
///     behind (then any two lie less than 2^15 apart; `range_o` says when one does not);
///   - so does the last deadline of an idle stream, except that it may be arbitrarily long past;
///   - arrivals of heads that tie on all else lie less than 2^15 apart;
///   - a packet waits less than 2^16 ticks, unless its stream's deadlines are ahead of time when it
///     becomes head (so it is for every served DWCS stream);
///   - periods and steps are less than 2^14, periods at least 1.
package msr_pkg;

  parameter int TimeW = 16;
  parameter int WindowW = 8;
  parameter int IdW = 6;
  parameter int CountW = 16;
  /// Bits of x'/y' as a number (msr_order_key).
  parameter int RatioW = 17;

  /// What orders the streams.
  typedef enum logic [1:0] {
    Dwcs = 2'd0,  // deadline, window-constraint, arrival
    Edf = 2'd1,  // deadline, arrival
    Static = 2'd2,  // priority (in `deadline`, below 2^15), arrival
    Tag = 2'd3  // service tag (in `arrival`), wrapping like a time
  } mode_e;

  /// The settings of the discipline; to be held while any stream is loaded.
  typedef struct packed {
    mode_e mode;
    /// Of two zero window-constraints the lowest y' first, rather than the highest.
    logic  lowest_denominator;
    /// The 1999 attribute updates.
    logic  rtas99;
  } config_t;

  /// What a stream is compared by: travels through the network.
  typedef struct packed {
    logic               valid;
    logic [5:0]     id;
    logic [15:0]   deadline;
    logic [7:0] x;
    logic [7:0] y;
    logic [15:0]   arrival;
  } head_t;

  /// The same as an order key, for a plain comparison: a field that the mode leaves out is 0.
  typedef struct packed {
    logic               valid;
    logic [5:0]     id;
    logic [15:0]   deadline;
    /// x'/y' as `msr_order_key` counts it.
    logic [16:0]  ratio;
    /// Lowest first among equal ratios.
    logic [7:0] tie;
    logic [15:0]   arrival;
  } key_t;

  /// What an update does to x'/y'.
  typedef struct packed {
    /// x'/y' = x/y: goes before the others.
    logic restored;
    /// y' falls by 1.
    logic y_down;
    /// x' falls by 1, as does y'.
    logic x_down;
  } move_t;

  /// What a stream is promised: constant between loads.
  typedef struct packed {
    logic [7:0] x;
    logic [7:0] y;
    /// What a violation adds to y': 1, or under the 1999 rules ceil((y - x) / x), y if x = 0.
    logic [7:0] growth;
    logic [15:0]   period;
    /// Late heads are dropped rather than sent.
    logic               drop;
  } contract_t;

  /// What LOAD writes.
  typedef struct packed {
    contract_t        contract;
    /// The first packet's deadline if `first`, else the deadline that the first packet's is
    /// reckoned from; in static mode the priority.
    logic [15:0] deadline;
    logic             first;
  } load_t;

  /// What changes from decision to decision.
  typedef struct packed {
    logic               valid;
    logic [15:0]   deadline;
    logic [7:0] x;
    logic [7:0] y;
    logic [15:0]   arrival;
    /// A violation since the window was last restored.
    logic               tag;
    /// `deadline` was given for the first packet, which has not come yet.
    logic               first;
    /// Idle, and `deadline` so long past that only the next arrival counts.
    logic               stale;
  } state_t;

  /// What of an update does not depend on the decision.
  typedef struct packed {
    /// The deadline is past at the time of the decision to come,
    logic past;
    /// by 2^14 ticks or more.
    logic long_past;
    /// It was past when the decision was made.
    logic late;
    /// The packet behind has its deadline from its arrival, rather than from the last deadline.
    logic from_arrival;
  } forecast_t;

  /// What an update did, for the counters.
  typedef struct packed {
    logic take;
    logic dropped;
    logic missed;
    logic violated;
    logic served;
    move_t move;
  } event_t;

  /// x'/y' as a number, and what the next numbers come from (msr_order_key_ahead).
  typedef struct packed {
    logic [16:0] ratio;
    /// x' is 0.
    logic        zero;
    /// The tie-break y', inverted above a zero where highest goes first.
    logic [7:0]  tie;
    /// R(y' - 1), R(y' - 2).
    logic [31:0] next;
    logic [31:0] after;
    /// y' has just fallen by 1: R(y' - 2) is what the ROM says now, not `after`.
    logic        fell;
  } number_t;

  /// Per-stream counters; they wrap.
  typedef struct packed {
    logic [15:0] missed;
    logic [15:0] violations;
    logic [15:0] serviced;
  } count_t;

  // Widths of the bundles, for flat ports: yosys takes no $bits of a type. Checked in msr_core.
  parameter int HeadW = 1 + IdW + 2 * TimeW + 2 * WindowW;
  parameter int KeyW = 1 + IdW + 2 * TimeW + RatioW + WindowW;
  parameter int CountsW = 3 * CountW;

endpackage
