//! The inputs and outputs of the reference.

use crate::overhead::Overhead;

/// A discipline and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Lowest priority number first.
    StaticPriority,
    /// Longest queue first.
    Lqf,
    /// Least attained service first.
    Las,
    /// Earliest deadline first.
    Edf,
    /// Dynamic window-constrained scheduling.
    Dwcs {
        /// The order of 1999 instead of earliest deadline first.
        loss_first: bool,
        /// The rules of 1999 instead of the standard ones.
        rtas99: bool,
        /// Lowest instead of highest y' first among zero window-constraints.
        lowest_denominator: bool,
    },
}

impl Discipline {
    /// Every discipline without settings, by its name in scenario files.
    pub const PLAIN: &'static [(&'static str, Self)] = &[
        ("fifo", Self::Fifo),
        ("static-priority", Self::StaticPriority),
        ("lqf", Self::Lqf),
        ("las", Self::Las),
        ("edf", Self::Edf),
    ];

    /// Returns its name in scenario files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::PLAIN.iter().find(|known| known.1 == self).map_or("dwcs", |known| known.0)
    }
}

/// A stream's contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// T, ns; 0 without a period, which DWCS does not allow.
    pub period_ns: u64,
    /// x and y, x not above y.
    pub window: (u32, u32),
    /// The first packet's deadline, ns.
    pub first_deadline_ns: Option<u64>,
    /// Whether late packets are dropped.
    pub drop_late: bool,
    /// The static priority.
    pub priority: u32,
    /// Maximum number of waiting packets.
    pub queue: Option<u32>,
    /// Whether a head is not eligible before its request period begins: one service per period.
    pub once_a_period: bool,
}

impl StreamSpec {
    /// Returns a stream with this period and window x/y, and defaults for all else.
    #[must_use]
    pub fn new(period_ns: u64, window: (u32, u32)) -> Self {
        Self {
            period_ns,
            window,
            first_deadline_ns: None,
            drop_late: false,
            priority: 0,
            queue: None,
            once_a_period: false,
        }
    }
}

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The discipline.
    pub discipline: Discipline,
    /// Link rate, bits/s.
    pub rate_bps: u64,
    /// Bytes on the wire beyond a packet's length.
    pub overhead: Overhead,
    /// The streams in file order.
    pub streams: Vec<StreamSpec>,
}

/// The arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time, ns.
    pub time_ns: u64,
    /// The stream's number.
    pub stream: u32,
    /// Its length, bytes.
    pub bytes: u32,
}

/// A row of the departures CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Start of the service or time of the drop, ns.
    pub time_ns: u64,
    /// The stream's number.
    pub stream: u32,
    /// Its number among the stream's arrivals, from 0.
    pub packet: u64,
    /// Its length, bytes.
    pub bytes: u32,
    /// Arrival time, ns.
    pub arrival_ns: u64,
    /// The deadline at its departure; `None` at a full queue and in disciplines without deadlines.
    pub deadline_ns: Option<u64>,
    /// `sent`, `dropped-late` or `dropped-full`.
    pub event: &'static str,
}

/// The state at a decision, after misses are charged and before the winner is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Time of the decision, ns.
    pub time_ns: u64,
    /// The stream that is served.
    pub winner: u32,
    /// x', y' and the deadline of each stream; the deadline is valid if a packet waits.
    pub before: Vec<(u64, u64, u64)>,
    /// Deadlines missed so far, by stream.
    pub missed: Vec<u64>,
    /// Violations so far, by stream.
    pub violations: Vec<u64>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The departures, in order.
    pub rows: Vec<Row>,
    /// Deadlines missed, by stream. EDF with `late = "send"` counts a packet served at or after its
    /// deadline once; DWCS counts every request period that ended while a head waited.
    pub missed: Vec<u64>,
    /// Misses of a stream with x' = 0 and y > 0, by stream.
    pub violations: Vec<u64>,
    /// The decisions, in order.
    pub decisions: Vec<Decision>,
    /// The end of the last transmission, ns.
    pub end_ns: u64,
}
