//! What goes into the reference and what comes out.

/// A discipline and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Lowest priority number first.
    StaticPriority,
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

/// A stream's contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// T, ns; 0 if it has none.
    pub period_ns: u64,
    /// x and y.
    pub window: (u32, u32),
    /// The first packet's deadline, ns.
    pub first_deadline_ns: Option<u64>,
    /// Late packets are dropped.
    pub drop_late: bool,
    /// The static priority.
    pub priority: u32,
    /// How many packets may wait.
    pub queue: Option<u32>,
    /// A head is not eligible before its request period begins: one service a period.
    pub once_a_period: bool,
}

impl StreamSpec {
    /// A stream of period `period_ns` and window x/y, everything else at its default.
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
    /// Who goes next.
    pub discipline: Discipline,
    /// Link rate, bits/s.
    pub rate_bps: u64,
    /// Bytes on the wire beyond a packet's length.
    pub overhead: u32,
    /// The streams in file order.
    pub streams: Vec<StreamSpec>,
}

/// One packet arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, ns.
    pub time_ns: u64,
    /// The stream's number.
    pub stream: u32,
    /// Its length, bytes.
    pub bytes: u32,
}

/// A row of the departures CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Row {
    pub time_ns: u64,
    pub stream: u32,
    pub packet: u64,
    pub bytes: u32,
    pub arrival_ns: u64,
    pub deadline_ns: Option<u64>,
    pub event: &'static str,
}

/// What stood when a decision was made, misses charged and the winner not yet served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When, ns.
    pub time_ns: u64,
    /// Who won.
    pub winner: u32,
    /// x', y' and the deadline of each stream.
    pub before: Vec<(u64, u64, u64)>,
}

/// Everything that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The departures, in order.
    pub rows: Vec<Row>,
    /// Deadlines missed, by stream.
    pub missed: Vec<u64>,
    /// Violations, by stream.
    pub violations: Vec<u64>,
    /// The decisions, in order.
    pub decisions: Vec<Decision>,
    /// The end of the last transmission, ns.
    pub end_ns: u64,
}

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mutant {
    TieToHigherStream,
    TieToLaterArrival,
    ZeroWindowOrderReversed,
    EqualWindowsHighestNumerator,
    WindowsByNumeratorAlone,
    WindowsNotCompared,
    DeadlineInstantIsOnTime,
    NoRuleB,
    NoRuleA,
    RuleAWithoutEqualBranch,
    RuleAKeepsTag,
    RuleBWithoutReset,
    RuleBWithoutTag,
    RuleBWithoutGrowth,
    OneChargeHoweverLate,
    DeadlineStaysOnMiss,
    NextDeadlineFromArrivalAlone,
    NextDeadlineFromLastAlone,
    OnlyWinnerIsCharged,
    QueueCountsPacketInService,
    QueueOneTooLong,
    TransmissionRoundedDown,
    OverheadForgotten,
    FirstDeadlineIgnored,
    DecisionBeforeArrivals,
    LateNeverDropped,
    PriorityReversed,
    DropRestartsDeadline,
}

impl Mutant {
    /// Every mutant.
    pub const ALL: &'static [Self] = &[
        Self::TieToHigherStream,
        Self::TieToLaterArrival,
        Self::ZeroWindowOrderReversed,
        Self::EqualWindowsHighestNumerator,
        Self::WindowsByNumeratorAlone,
        Self::WindowsNotCompared,
        Self::DeadlineInstantIsOnTime,
        Self::NoRuleB,
        Self::NoRuleA,
        Self::RuleAWithoutEqualBranch,
        Self::RuleAKeepsTag,
        Self::RuleBWithoutReset,
        Self::RuleBWithoutTag,
        Self::RuleBWithoutGrowth,
        Self::OneChargeHoweverLate,
        Self::DeadlineStaysOnMiss,
        Self::NextDeadlineFromArrivalAlone,
        Self::NextDeadlineFromLastAlone,
        Self::OnlyWinnerIsCharged,
        Self::QueueCountsPacketInService,
        Self::QueueOneTooLong,
        Self::TransmissionRoundedDown,
        Self::OverheadForgotten,
        Self::FirstDeadlineIgnored,
        Self::DecisionBeforeArrivals,
        Self::LateNeverDropped,
        Self::PriorityReversed,
        Self::DropRestartsDeadline,
    ];
}
