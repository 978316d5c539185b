//! Deliberate faults: plausible mistakes of an implementation.
//!
//! A conformance trace is kept if it detects at least one, and a rule is tested only if breaking it
//! changes some trace. The kill matrix of `conformance/README.md` derives from these names and
//! descriptions.

macro_rules! mutants {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// A deliberate fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $text] $name,)*
        }

        impl Mutant {
            /// Every mutant.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns a description of the fault.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$name => $text.trim_ascii(),)*
                }
            }
        }
    };
}

mutants! {
    /// The last tie goes to the higher stream index.
    TieToHigherStream,
    /// Ties go to the head that arrived later.
    TieToLaterArrival,
    /// Heads that arrived together go in file order instead of stream order.
    TieByFileOrder,
    /// Zero window-constraints: the order by y' reversed.
    ZeroWindowOrderReversed,
    /// Equal window-constraints above 0: highest x' first.
    EqualWindowsHighestNumerator,
    /// Window-constraints compared by x' alone.
    WindowsByNumeratorAlone,
    /// Window-constraints not compared.
    WindowsNotCompared,
    /// `edf-first` and `loss-first` exchanged.
    OrdersExchanged,
    /// `loss-first`, equal window-constraints above 0: x' before the deadline.
    LossFirstNumeratorBeforeDeadline,
    /// `loss-first`, zero window-constraints: the deadline before y'.
    LossFirstDeadlineBeforeDenominator,
    /// A packet served exactly at its deadline is on time.
    DeadlineInstantIsOnTime,
    /// A miss changes no window-constraint.
    NoRuleB,
    /// A service changes no window-constraint.
    NoRuleA,
    /// Rule A without its y' = x' branch.
    RuleAWithoutEqualBranch,
    /// Rule A does not reset a tagged stream.
    RuleAKeepsTag,
    /// Rule B does not reset at 0/0.
    RuleBWithoutReset,
    /// A violation sets no tag.
    RuleBWithoutTag,
    /// A violation leaves y' as it is.
    RuleBWithoutGrowth,
    /// `rtas99`: the growth of y' rounded down.
    Rtas99GrowthRoundedDown,
    /// `rtas99`: y' of a violated stream with x = 0 grows by 1 instead of y.
    Rtas99GrowsByOneWithoutLosses,
    /// `rtas99`: a violation sets the tag of the standard rules.
    Rtas99Tags,
    /// `rtas99`: rule A has the y' = x' branch of the standard rules.
    Rtas99EqualBranch,
    /// Current window-constraints return to x/y when the queue empties.
    WindowForgottenWhenIdle,
    /// One charge for several ended request periods.
    OneChargeHoweverLate,
    /// A miss does not advance the deadline.
    DeadlineStaysOnMiss,
    /// The next deadline is arrival + T, independent of the last one.
    NextDeadlineFromArrivalAlone,
    /// The next deadline is the last + T, independent of the arrival.
    NextDeadlineFromLastAlone,
    /// Only the stream about to be served is charged its misses.
    OnlyWinnerIsCharged,
    /// The queue limit counts the packet in service.
    QueueCountsPacketInService,
    /// One packet more than the queue limit may wait.
    QueueOneTooLong,
    /// A packet dropped at a full queue takes no packet number.
    FullQueueTakesNoNumber,
    /// Transmission time rounded down.
    TransmissionRoundedDown,
    /// A transmission takes at least 1 ns.
    TransmissionNeverZero,
    /// Overhead takes no time.
    OverheadForgotten,
    /// `first-deadline` ignored.
    FirstDeadlineIgnored,
    /// `first-deadline` never earlier than arrival + T.
    FirstDeadlineOnlyLater,
    /// A decision comes before the arrivals of its instant.
    DecisionBeforeArrivals,
    /// `late = "drop"` ignored.
    LateNeverDropped,
    /// At most one late packet of a stream dropped at a decision.
    OneDropADecision,
    /// A dropped packet is charged no rule B.
    DropWithoutRuleB,
    /// After a drop deadlines start again from now.
    DropRestartsDeadline,
    /// A dropped packet's deadline does not count as the last.
    DropForgetsDeadline,
    /// A drop is reported at its deadline instead of at the decision.
    DropTimedAtDeadline,
    /// The highest priority number first.
    PriorityReversed,
    /// `lqf`: the queue length counted in packets.
    QueueLengthInPackets,
    /// `lqf`: the queue length as it was when the head came to the front.
    QueueLengthAtHead,
    /// `las`: attained service counted in packets.
    AttainedServiceInPackets,
    /// `las`: attained service is kept when the queue empties.
    AttainedServiceForever,
}
