//! The service contract of a stream: the attributes that disciplines schedule by.
//!
//! One type serves all disciplines, so that a scenario can run its streams under any of them. A
//! discipline reads the attributes it needs when a stream is added, reports a missing one as an
//! error and ignores the others.
//!
//! Constructors reject values that cannot be scheduled: a [`Window`] with x > y, a period of 0.

use alloc::boxed::Box;
use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

use crate::flow_queue::FlowOptions;

/// A window-constraint x/y: at most `x` of any `y` consecutive packets may be late or lost.
///
/// 0/0 means no window: the stream is never charged for a miss. Source: ShareStreams section 2;
/// HILQ section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Window {
    lost: u32,
    of: u32,
}

impl Window {
    /// Returns the window `lost`/`of`.
    ///
    /// # Errors
    /// [`ContractError::Window`] if `lost` > `of`.
    pub fn new(lost: u32, of: u32) -> Result<Self, ContractError> {
        if lost > of { Err(ContractError::Window { lost, of }) } else { Ok(Self { lost, of }) }
    }

    /// Returns x: the maximum number of late or lost packets in the window.
    #[must_use]
    pub fn lost(self) -> u32 {
        self.lost
    }

    /// Returns y: the number of consecutive packets in the window.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }
}

/// The treatment of a packet whose deadline passes while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Late {
    /// Sends the packet late.
    #[default]
    Send,
    /// Drops the packet at the first decision at or after its deadline.
    Drop,
}

/// The service contract of one stream.
///
/// ```
/// use millstream::{Contract, Late, Window};
/// let video = Contract::new()
///     .period_ns(40_000_000)?
///     .window(Window::new(1, 4)?)
///     .late(Late::Drop);
/// # let _ = video;
/// # Ok::<(), millstream::ContractError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    pub(crate) period_ns: Option<NonZeroU64>,
    pub(crate) window: Window,
    pub(crate) first_deadline_ns: Option<u64>,
    pub(crate) late: Late,
    pub(crate) priority: u32,
    pub(crate) queue: Option<u32>,
    pub(crate) weight: u32,
    pub(crate) quantum_bytes: Option<NonZeroU32>,
    pub(crate) max_rate: Option<MaxRate>,
    pub(crate) credits: Option<u64>,
    pub(crate) fmc: bool,
    // Boxed: few streams have flows, and a scenario may have a million contracts.
    pub(crate) flows: Option<Box<FlowOptions>>,
}

/// A token bucket: a long-term rate of `rate_bps` and bursts of `burst_bytes`.
///
/// A packet larger than the burst conforms after the bucket was full for the time that the excess
/// bytes take at the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxRate {
    /// ρ, bits/s; at least 1.
    pub rate_bps: NonZeroU64,
    /// b, bytes on the wire.
    pub burst_bytes: u64,
}

/// The attributes of a contract that DWCS, EDF and static priority order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The request period T, ns.
    pub period_ns: Option<u64>,
    /// The window-constraint x/y.
    pub window: Window,
    /// The deadline of the first packet, ns.
    pub first_deadline_ns: Option<u64>,
    /// The treatment of late packets.
    pub late: Late,
    /// The static priority.
    pub priority: u32,
}

impl Default for Contract {
    fn default() -> Self {
        Self::new()
    }
}

impl Contract {
    /// Returns a contract without a period, with window 0/0, late packets sent, priority 0, an
    /// unbounded queue, weight 1, no rate cap and no flow control.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            period_ns: None,
            window: Window { lost: 0, of: 0 },
            first_deadline_ns: None,
            late: Late::Send,
            priority: 0,
            queue: None,
            weight: 1,
            quantum_bytes: None,
            max_rate: None,
            credits: None,
            fmc: false,
            flows: None,
        }
    }

    /// Sets the request period T, ns: the interval between deadlines of successive packets.
    ///
    /// # Errors
    /// [`ContractError::PeriodZero`] if `period_ns` is 0.
    pub fn period_ns(mut self, period_ns: u64) -> Result<Self, ContractError> {
        self.period_ns = Some(NonZeroU64::new(period_ns).ok_or(ContractError::PeriodZero)?);
        Ok(self)
    }

    /// Sets the window-constraint x/y.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Sets the deadline of the stream's first packet, ns; its arrival + period if not set.
    #[must_use]
    pub fn first_deadline_ns(mut self, deadline_ns: u64) -> Self {
        self.first_deadline_ns = Some(deadline_ns);
        self
    }

    /// Sets the treatment of late packets.
    #[must_use]
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// Sets the static priority; 0 is served first.
    #[must_use]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the maximum number of waiting packets, without the one in service; unbounded if not
    /// set.
    #[must_use]
    pub fn queue(mut self, packets: u32) -> Self {
        self.queue = Some(packets);
        self
    }

    /// Returns the maximum number of waiting packets; `None` if unbounded.
    #[must_use]
    pub fn queue_limit(&self) -> Option<u32> {
        self.queue
    }

    /// Sets the share under fair queueing, φ, which is the number of packets per turn under WRR.
    ///
    /// # Errors
    /// [`ContractError::WeightZero`] if `weight` is 0.
    pub fn weight(mut self, weight: u32) -> Result<Self, ContractError> {
        self.weight = NonZeroU32::new(weight).ok_or(ContractError::WeightZero)?.get();
        Ok(self)
    }

    /// Sets the bytes that a turn adds under DRR, Q. At least the largest packet is best: a turn
    /// without a service costs time.
    ///
    /// # Errors
    /// [`ContractError::QuantumZero`] if `bytes` is 0.
    pub fn quantum_bytes(mut self, bytes: u32) -> Result<Self, ContractError> {
        self.quantum_bytes = Some(NonZeroU32::new(bytes).ok_or(ContractError::QuantumZero)?);
        Ok(self)
    }

    /// Sets a rate cap: heads that do not conform wait, even if the link is idle.
    #[must_use]
    pub fn max_rate(mut self, max_rate: MaxRate) -> Self {
        self.max_rate = Some(max_rate);
        self
    }

    /// Enables credit-based flow control. The stream starts with `credits` credits of
    /// [`CREDIT_BYTES`](crate::CREDIT_BYTES) and spends them on its packets. It is not served while
    /// it has too few for its head. [`add_credits`](crate::Scheduler::add_credits) returns credits.
    #[must_use]
    pub fn credits(mut self, credits: u64) -> Self {
        self.credits = Some(credits);
        self
    }

    /// Returns whether a rate cap or a lack of credits can make the stream ineligible.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.max_rate.is_some() || self.credits.is_some()
    }

    /// Returns the rate cap, if there is one.
    #[must_use]
    pub fn rate_cap(&self) -> Option<MaxRate> {
        self.max_rate
    }

    /// Returns the credits that the stream starts with, in units of
    /// [`CREDIT_BYTES`](crate::CREDIT_BYTES); `None` without flow control.
    #[must_use]
    pub fn initial_credits(&self) -> Option<u64> {
        self.credits
    }

    /// Queues the stream's packets by flow; see
    /// [`enqueue_flow`](crate::Scheduler::enqueue_flow). The limits of `flows` replace the queue's.
    #[must_use]
    pub fn flows(mut self, flows: FlowOptions) -> Self {
        self.flows = Some(Box::new(flows));
        self
    }

    /// Returns the stream's flows, if its packets are queued by flow.
    #[must_use]
    pub fn flow_options(&self) -> Option<FlowOptions> {
        self.flows.as_deref().copied()
    }

    /// Makes the stream a fabric management channel: `minbw` serves it before the other streams.
    #[must_use]
    pub fn fmc(mut self) -> Self {
        self.fmc = true;
        self
    }

    /// Returns whether the stream is a fabric management channel.
    #[must_use]
    pub fn is_fmc(&self) -> bool {
        self.fmc
    }

    /// Returns the share under fair queueing, φ; 1 if not set.
    #[must_use]
    pub fn share_weight(&self) -> u32 {
        self.weight
    }

    /// Returns the bytes that a turn adds under DRR, Q, if set.
    #[must_use]
    pub fn turn_quantum_bytes(&self) -> Option<NonZeroU32> {
        self.quantum_bytes
    }

    /// Returns the attributes that a structure outside the engine needs.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms {
            period_ns: self.period_ns.map(NonZeroU64::get),
            window: self.window,
            first_deadline_ns: self.first_deadline_ns,
            late: self.late,
            priority: self.priority,
        }
    }

    /// Returns the request period for a discipline that requires it.
    pub(crate) fn require_period(&self) -> Result<u64, ContractError> {
        self.period_ns.map(NonZeroU64::get).ok_or(ContractError::Missing { attribute: "period" })
    }
}

/// The reason why a contract cannot be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractError {
    /// The discipline requires an attribute that the contract does not set.
    Missing {
        /// The attribute's name in the scenario file.
        attribute: &'static str,
    },
    /// A request period of 0.
    PeriodZero,
    /// The window allows more losses than it has packets.
    Window {
        /// x.
        lost: u32,
        /// y.
        of: u32,
    },
    /// A weight of 0.
    WeightZero,
    /// A quantum of 0.
    QuantumZero,
    /// The scheduler does not support the value of an attribute.
    Unfit {
        /// The attribute's name in the scenario file.
        attribute: &'static str,
        /// The scheduler's name.
        by: &'static str,
        /// The supported values, as the end of the sentence "scheduler needs attribute …".
        need: &'static str,
    },
    /// More streams than a 32-bit stream number can identify.
    TooManyStreams,
}

impl ContractError {
    /// Fails if `contract` has flows and drops late packets: it already limits their delay.
    pub(crate) fn check_flows(contract: &Contract) -> Result<(), Self> {
        let (attribute, by, need) = ("late", "a stream with flows", "\"send\"");
        let unfit = Self::Unfit { attribute, by, need };
        if contract.flows.is_some() && contract.late == Late::Drop { Err(unfit) } else { Ok(()) }
    }

    /// Fails if `contract` has flows, which the scheduler called `by` does not support.
    pub(crate) fn refuse_flows(contract: &Contract, by: &'static str) -> Result<(), Self> {
        let unfit = Self::Unfit { attribute: "flows", by, need: "to be absent" };
        if contract.flows.is_some() { Err(unfit) } else { Ok(()) }
    }
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { attribute } => {
                write!(f, "the discipline requires `{attribute}`, which the stream does not set")
            }
            Self::PeriodZero => f.write_str("a request period of 0; it must be at least 1 ns"),
            Self::Window { lost, of } => {
                write!(
                    f,
                    "window {lost}/{of} allows more losses than it has packets; x must be at most y"
                )
            }
            Self::WeightZero => f.write_str("a weight of 0; it must be at least 1"),
            Self::QuantumZero => f.write_str("a quantum of 0; it must be at least 1 byte"),
            Self::Unfit { attribute, by, need } => write!(f, "{by} needs `{attribute}` {need}"),
            Self::TooManyStreams => f.write_str("more than 4,294,967,294 streams"),
        }
    }
}

impl core::error::Error for ContractError {}
