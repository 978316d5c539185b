//! What a stream is promised: the attributes disciplines schedule by.
//!
//! One type serves every discipline, because the point of Millstream is to run the same streams
//! under different ones. A discipline reads the attributes it needs when a stream is added and
//! says which one is missing; what it does not need it ignores.
//!
//! Values that could never be scheduled cannot be built: a [`Window`] with x > y, a period of 0.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

/// A window-constraint x/y: at most `x` of any `y` consecutive packets may be late or lost.
///
/// 0/0 is the stream without a window: it is never charged for a miss. Source: ShareStreams
/// section 2; HILQ section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Window {
    lost: u32,
    of: u32,
}

impl Window {
    /// The window `lost`/`of`.
    ///
    /// # Errors
    /// [`ContractError::Window`] if `lost` > `of`.
    pub fn new(lost: u32, of: u32) -> Result<Self, ContractError> {
        if lost > of { Err(ContractError::Window { lost, of }) } else { Ok(Self { lost, of }) }
    }

    /// x: how many may be late or lost.
    #[must_use]
    pub fn lost(self) -> u32 {
        self.lost
    }

    /// y: of how many consecutive packets.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }
}

/// What becomes of a packet whose deadline passes while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Late {
    /// It stays and is sent late.
    #[default]
    Send,
    /// It is dropped at the first decision at or after its deadline.
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
}

/// A token bucket: at most `rate_bps` in the long run, `burst_bytes` at once.
///
/// A packet larger than the burst conforms once the bucket has been full for as long as the rest
/// of it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxRate {
    /// ρ, bits/s; at least 1.
    pub rate_bps: NonZeroU64,
    /// b, bytes on the wire.
    pub burst_bytes: u64,
}

/// A contract's attributes that DWCS, EDF and static priority order by, for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The request period T, ns.
    pub period_ns: Option<u64>,
    /// The window-constraint x/y.
    pub window: Window,
    /// The deadline of the first packet, ns.
    pub first_deadline_ns: Option<u64>,
    /// What becomes of late packets.
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
    /// No period, window 0/0, late packets sent, priority 0, unbounded queue, weight 1, no rate cap,
    /// no flow control.
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
        }
    }

    /// The request period T, ns: the interval between deadlines of successive packets.
    ///
    /// # Errors
    /// [`ContractError::PeriodZero`] if `period_ns` is 0.
    pub fn period_ns(mut self, period_ns: u64) -> Result<Self, ContractError> {
        self.period_ns = Some(NonZeroU64::new(period_ns).ok_or(ContractError::PeriodZero)?);
        Ok(self)
    }

    /// The window-constraint x/y.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// The deadline of the stream's first packet, ns. Without it: arrival + period.
    #[must_use]
    pub fn first_deadline_ns(mut self, deadline_ns: u64) -> Self {
        self.first_deadline_ns = Some(deadline_ns);
        self
    }

    /// What becomes of late packets.
    #[must_use]
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// The static priority; 0 is served first.
    #[must_use]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// How many packets may wait (the one in service not counted). Without it: unbounded.
    #[must_use]
    pub fn queue(mut self, packets: u32) -> Self {
        self.queue = Some(packets);
        self
    }

    /// How many packets may wait; `None`: any number.
    #[must_use]
    pub fn queue_limit(&self) -> Option<u32> {
        self.queue
    }

    /// The share under fair queueing, φ, and the packets of a turn under WRR.
    ///
    /// # Errors
    /// [`ContractError::WeightZero`] if `weight` is 0.
    pub fn weight(mut self, weight: u32) -> Result<Self, ContractError> {
        self.weight = NonZeroU32::new(weight).ok_or(ContractError::WeightZero)?.get();
        Ok(self)
    }

    /// The bytes that a turn adds under DRR, Q. Turns without a packet sent are cheap but not free:
    /// best is at least the largest packet.
    ///
    /// # Errors
    /// [`ContractError::QuantumZero`] if `bytes` is 0.
    pub fn quantum_bytes(mut self, bytes: u32) -> Result<Self, ContractError> {
        self.quantum_bytes = Some(NonZeroU32::new(bytes).ok_or(ContractError::QuantumZero)?);
        Ok(self)
    }

    /// A rate cap: heads that do not conform wait, whatever else waits.
    #[must_use]
    pub fn max_rate(mut self, max_rate: MaxRate) -> Self {
        self.max_rate = Some(max_rate);
        self
    }

    /// Credit-based flow control: the stream starts with so many credits of
    /// [`CREDIT_BYTES`](crate::CREDIT_BYTES), spends them with its packets, and is not chosen while
    /// it has too few for its head. More come by
    /// [`add_credits`](crate::Scheduler::add_credits).
    #[must_use]
    pub fn credits(mut self, credits: u64) -> Self {
        self.credits = Some(credits);
        self
    }

    /// Whether a rate cap or lack of credits can hold the stream back.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.max_rate.is_some() || self.credits.is_some()
    }

    /// The rate cap, if there is one.
    #[must_use]
    pub fn rate_cap(&self) -> Option<MaxRate> {
        self.max_rate
    }

    /// The credits that the stream starts with, in units of [`CREDIT_BYTES`](crate::CREDIT_BYTES);
    /// `None` without flow control.
    #[must_use]
    pub fn initial_credits(&self) -> Option<u64> {
        self.credits
    }

    /// The stream is the fabric management channel: under `minbw` it goes before all others.
    #[must_use]
    pub fn fmc(mut self) -> Self {
        self.fmc = true;
        self
    }

    /// Whether the stream is the fabric management channel.
    #[must_use]
    pub fn is_fmc(&self) -> bool {
        self.fmc
    }

    /// What a structure outside the engine must know of the stream.
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

    /// The request period, for a discipline that cannot do without.
    pub(crate) fn require_period(&self) -> Result<u64, ContractError> {
        self.period_ns.map(NonZeroU64::get).ok_or(ContractError::Missing { attribute: "period" })
    }
}

/// Why a contract cannot be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractError {
    /// The discipline needs an attribute that the contract does not give.
    Missing {
        /// The attribute's name in the scenario file.
        attribute: &'static str,
    },
    /// A request period of 0.
    PeriodZero,
    /// More losses allowed than the window has packets.
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
    /// A scheduler that cannot honour an attribute as it is given.
    Unfit {
        /// The attribute's name in the scenario file.
        attribute: &'static str,
        /// The scheduler's name.
        by: &'static str,
        /// What it needs instead.
        need: &'static str,
    },
    /// More streams than a 32-bit number can name.
    TooManyStreams,
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { attribute } => {
                write!(f, "the discipline needs `{attribute}`, which the stream does not give")
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
