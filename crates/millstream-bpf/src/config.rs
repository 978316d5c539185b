//! The configuration of the C scheduler: contracts, and numbers derived from them.
//!
//! The layouts are those of `struct ms_config` and `struct ms_contract` in `src/c/scheduler.h`.
//! Divisions are done here: the C code multiplies by inverses.

use millstream::aqm::Aqm;
use millstream::aqm::codel::CodelOptions;
use millstream::catalogue::{DwcsOrder, Options};
use millstream::flow_queue::{FlowOptions, HostFairness};
use millstream::{Contract, Framing, Late, Link, Rules, ZeroWindow};
use millstream_scenario::Scenario;

#[cfg(feature = "attach")]
use std::mem::offset_of;

use crate::{MAX_FLOWS, MAX_STREAMS};

/// One byte per unit of weight: the unit of the engine's virtual time.
const UNIT: u128 = (1 << 29) * 81 * 625 * 49 * 11 * 13 * 17 * 19 * 23 * 29 * 31;

/// ns in a second × bits in a byte.
const SCALE: u128 = 8_000_000_000;

/// The disciplines, in the order of `enum ms_discipline`.
pub(crate) const DISCIPLINES: [&str; 5] = ["static-priority", "edf", "dwcs", "drr", "wf2q+"];

/// The greatest rates of the link and of rate caps, bits/s: sums of two remainders fit 64 bits.
const MAX_RATE_BPS: u64 = 1 << 47;

/// The greatest overhead, bytes: the product of a packet's length and [`SCALE`] fits 64 bits.
const MAX_OVERHEAD: u32 = 1 << 20;

const FIRST_DEADLINE: u32 = 1;
const DROP_LATE: u32 = 2;
const CAPPED: u32 = 4;

/// Flags of flows.
const CODEL: u32 = 1;
const ECN: u32 = 2;

/// The flows of a set of the hash table.
const WAYS: u32 = 8;

/// The greatest times of CoDel, ns, plus one: 16 bits of fraction more fit 64 bits.
const CODEL_TIMES: u64 = 1 << 48;

/// The reason why the qdisc cannot schedule a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The discipline.
    #[error("discipline {0}; the qdisc has dwcs, edf, static-priority, wf2q+ and drr")]
    Discipline(&'static str),
    /// An option of DWCS.
    #[error("{0}; the qdisc has order edf-first, rules standard, zero-window highest-denominator")]
    Dwcs(&'static str),
    /// More streams than the qdisc has.
    #[error("{0} streams; the qdisc has at most {MAX_STREAMS}")]
    Streams(usize),
    /// Credits of a stream.
    #[error("credits of stream {0}, which the qdisc does not support")]
    Credits(usize),
    /// A number that the qdisc's arithmetic does not hold.
    #[error("`{key}` is too great for the qdisc")]
    TooGreat {
        /// The stream's number; `None` for the link.
        stream: Option<usize>,
        /// The name of the number in the scenario file.
        key: &'static str,
    },
    /// Queue management other than CoDel.
    #[error("queue management {aqm} of stream {stream}; the qdisc has codel and none")]
    Aqm {
        /// The stream's number.
        stream: usize,
        /// The queue management.
        aqm: &'static str,
    },
    /// Fairness of hosts.
    #[error("`hosts` of stream {0}, which the qdisc does not support")]
    Hosts(usize),
    /// More flows than the qdisc has in all streams.
    #[error("{flows} flows of streams 0 to {stream}; the qdisc has at most {MAX_FLOWS} in all")]
    Flows {
        /// The number of the stream that exceeds it.
        stream: usize,
        /// The flows of the streams up to that one.
        flows: usize,
    },
    /// Framing of the link.
    #[error("framing of ATM or PTM cells; the qdisc has none, so give the overhead in bytes")]
    Framing,
    /// A negative overhead, bytes.
    #[error("overhead of {0} bytes; the qdisc has none below 0")]
    Overhead(i32),
    /// Classes.
    #[error("classes; the qdisc has one level")]
    Classes,
}

/// A 128-bit number, as C holds it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Wide {
    high: u64,
    low: u64,
}

impl From<u128> for Wide {
    fn from(value: u128) -> Self {
        // Truncates to the halves.
        #[allow(clippy::cast_possible_truncation)]
        Self { high: (value >> 64) as u64, low: value as u64 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Duration {
    ns: u64,
    rest: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    period_ns: u64,
    first_deadline_ns: u64,
    cap_bps: u64,
    window_lost: u32,
    window_of: u32,
    priority: u32,
    queue: u32,
    quantum: u32,
    flags: u32,
    period_inverse: u64,
    window_inverse: u64,
    quantum_inverse: u64,
    cap_inverse: u64,
    burst: Duration,
    per_byte: Wide,
    flows: Flows,
}

/// `struct ms_flow_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Flows {
    first: u32,
    count: u32,
    ways: u32,
    flags: u32,
    quantum: u32,
    limit_packets: u32,
    count_inverse: u64,
    limit_bytes: u64,
    target_ns: u64,
    interval_ns: u64,
}

/// The configuration of the C scheduler.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Config {
    discipline: u32,
    streams: u32,
    rate_bps: u64,
    rate_inverse: u64,
    overhead: u32,
    pub(crate) logs: u32,
    clock_units: Wide,
    clock_fraction: u64,
    contracts: [Attributes; MAX_STREAMS],
}

/// Returns floor((2⁶⁴ − 1) / `divisor`); 0 for 0, which C never divides by.
fn inverse(divisor: u64) -> u64 {
    u64::MAX.checked_div(divisor).unwrap_or(0)
}

impl Config {
    /// Returns the configuration of a scenario.
    ///
    /// # Errors
    /// Fails if the qdisc does not support the scenario.
    pub fn of_scenario(scenario: &Scenario) -> Result<Self, Unsupported> {
        if !scenario.classes.is_empty() {
            return Err(Unsupported::Classes);
        }
        let contracts: Vec<Contract> =
            scenario.streams.iter().map(|stream| stream.contract.clone()).collect();
        let scheduler = &scenario.scheduler;
        Self::new(scheduler.discipline.name, &scheduler.options, &contracts)
    }

    /// Returns the configuration of `discipline` for streams with these contracts.
    ///
    /// # Errors
    /// Fails if the qdisc does not support an argument.
    pub fn new(
        discipline: &'static str,
        options: &Options,
        contracts: &[Contract],
    ) -> Result<Self, Unsupported> {
        let Link { rate_bps, overhead_bytes, framing } = options.link;
        let number = DISCIPLINES.iter().position(|name| *name == discipline);
        let number = number.ok_or(Unsupported::Discipline(discipline))?;
        if discipline == "dwcs" {
            check_dwcs(options)?;
        }
        if contracts.len() > MAX_STREAMS {
            return Err(Unsupported::Streams(contracts.len()));
        }
        if rate_bps > MAX_RATE_BPS {
            return Err(Unsupported::TooGreat { stream: None, key: "rate" });
        }
        if framing != Framing::None {
            return Err(Unsupported::Framing);
        }
        let Ok(overhead) = u32::try_from(overhead_bytes) else {
            return Err(Unsupported::Overhead(overhead_bytes));
        };
        if overhead > MAX_OVERHEAD {
            return Err(Unsupported::TooGreat { stream: None, key: "overhead" });
        }
        let mut attributes = [Attributes::default(); MAX_STREAMS];
        let mut next_flow = 0;
        for (stream, contract) in contracts.iter().enumerate() {
            attributes[stream] = Attributes::of(contract, stream)?;
            if let Some(flows) = contract.flow_options() {
                attributes[stream].flows = Flows::of(&flows, stream, &mut next_flow)?;
            }
        }
        let weights: u64 = contracts.iter().map(|of| u64::from(of.share_weight())).sum();
        let divisor = SCALE * u128::from(weights.max(1));
        let work = UNIT * u128::from(rate_bps);
        // Both are below the limits.
        #[allow(clippy::cast_possible_truncation)]
        let (discipline, streams) = (number as u32, contracts.len() as u32);
        Ok(Self {
            discipline,
            streams,
            rate_bps,
            rate_inverse: inverse(rate_bps),
            overhead,
            logs: 0,
            clock_units: (work / divisor).into(),
            clock_fraction: fraction(work % divisor, divisor),
            contracts: attributes,
        })
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams as usize
    }

    /// Returns whether the discipline has deadlines.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        matches!(DISCIPLINES[self.discipline as usize], "edf" | "dwcs")
    }

    /// Returns whether an attached qdisc can change to `new` without losing a packet: the
    /// disciplines are equal, no stream is removed, and the flows stay.
    #[must_use]
    pub fn may_become(&self, new: &Self) -> bool {
        let flows = |of: &Self| of.contracts.map(|of| of.flows.count);
        let mut flows = flows(self).into_iter().zip(flows(new)).take(self.streams());
        self.discipline == new.discipline
            && self.streams <= new.streams
            && flows.all(|(old, new)| old == new)
    }

    /// Returns the number of flows of a stream; 0 if it has one queue.
    #[must_use]
    pub fn flows(&self, stream: usize) -> usize {
        self.contracts[stream].flows.count as usize
    }

    /// Returns the offset of the number of flows of a stream.
    #[cfg(feature = "attach")]
    pub(crate) const fn flows_at(stream: usize) -> usize {
        offset_of!(Self, contracts)
            + stream * size_of::<Attributes>()
            + offset_of!(Attributes, flows)
            + offset_of!(Flows, count)
    }

    /// Returns the configuration as the map of the qdisc holds it.
    #[must_use]
    #[allow(unsafe_code)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the type is `repr(C)` of integers and has no padding, which a test checks.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

fn check_dwcs(options: &Options) -> Result<(), Unsupported> {
    if options.order != DwcsOrder::EdfFirst {
        return Err(Unsupported::Dwcs("order loss-first"));
    }
    if options.dwcs.rules != Rules::Standard {
        return Err(Unsupported::Dwcs("rules rtas99"));
    }
    if options.dwcs.zero_window != ZeroWindow::HighestDenominator {
        return Err(Unsupported::Dwcs("zero-window lowest-denominator"));
    }
    Ok(())
}

/// Returns `rest` / `divisor`, which is below 1, in 2⁻⁶⁴ units.
fn fraction(mut rest: u128, divisor: u128) -> u64 {
    let mut fraction = 0;
    for _ in 0..4 {
        rest <<= 16;
        // Below 2¹⁶, as the rest was below the divisor.
        #[allow(clippy::cast_possible_truncation)]
        let digits = (rest / divisor) as u64;
        fraction = fraction << 16 | digits;
        rest %= divisor;
    }
    fraction
}

impl Attributes {
    fn of(contract: &Contract, stream: usize) -> Result<Self, Unsupported> {
        let too_great = |key| Unsupported::TooGreat { stream: Some(stream), key };
        if contract.initial_credits().is_some() {
            return Err(Unsupported::Credits(stream));
        }
        let terms = contract.terms();
        let (window_lost, window_of) = (terms.window.lost(), terms.window.of());
        let period_ns = terms.period_ns.unwrap_or(0);
        let quantum = contract.turn_quantum_bytes().map_or(0, core::num::NonZeroU32::get);
        let mut flags = 0;
        flags |= if terms.first_deadline_ns.is_some() { FIRST_DEADLINE } else { 0 };
        flags |= if terms.late == Late::Drop { DROP_LATE } else { 0 };
        let mut attributes = Self {
            period_ns,
            first_deadline_ns: terms.first_deadline_ns.unwrap_or(0),
            window_lost,
            window_of,
            priority: terms.priority,
            queue: contract.queue_limit().unwrap_or(u32::MAX),
            quantum,
            flags,
            period_inverse: inverse(period_ns),
            window_inverse: inverse(window_lost.into()),
            quantum_inverse: inverse(quantum.into()),
            per_byte: (UNIT / u128::from(contract.share_weight().max(1))).into(),
            ..Self::default()
        };
        if let Some(cap) = contract.rate_cap() {
            let rate_bps = cap.rate_bps.get();
            if rate_bps > MAX_RATE_BPS {
                return Err(too_great("max-rate"));
            }
            let scaled = u128::from(cap.burst_bytes) * SCALE;
            let ns = scaled / u128::from(rate_bps);
            let rest = scaled % u128::from(rate_bps);
            let burst = u64::try_from(ns).ok().zip(u64::try_from(rest).ok());
            let (ns, rest) = burst.ok_or(too_great("burst"))?;
            attributes.flags |= CAPPED;
            attributes.cap_bps = rate_bps;
            attributes.cap_inverse = inverse(rate_bps);
            attributes.burst = Duration { ns, rest };
        }
        Ok(attributes)
    }
}

impl Flows {
    /// Returns the flows of a stream from number `next` on, and increases it.
    fn of(options: &FlowOptions, stream: usize, next: &mut u32) -> Result<Self, Unsupported> {
        let too_great = |key| Unsupported::TooGreat { stream: Some(stream), key };
        let unsupported = |aqm| Err(Unsupported::Aqm { stream, aqm });
        let (codel, flags) = match options.aqm {
            Aqm::None => (CodelOptions::default(), 0),
            Aqm::Codel(codel) => (codel, CODEL | if codel.ecn { ECN } else { 0 }),
            Aqm::Pie(_) => return unsupported("pie"),
            Aqm::Red(_) => return unsupported("red"),
            Aqm::Cobalt(_) => return unsupported("cobalt"),
            Aqm::DualPi2(_) => return unsupported("dualpi2"),
        };
        if options.hosts != HostFairness::None {
            return Err(Unsupported::Hosts(stream));
        }
        if codel.target_ns.max(codel.interval_ns) >= CODEL_TIMES {
            return Err(too_great("aqm"));
        }
        // As the engine's table: a multiple of a set, or a part of one.
        let buckets = options.buckets.max(1);
        let count = if buckets > WAYS { buckets.next_multiple_of(WAYS) } else { buckets };
        let first = *next;
        *next = first.saturating_add(count.next_multiple_of(WAYS));
        if *next as usize > MAX_FLOWS {
            return Err(Unsupported::Flows { stream, flows: *next as usize });
        }
        Ok(Self {
            first,
            count,
            ways: (1 << count.min(WAYS)) - 1,
            flags,
            quantum: options.quantum_bytes,
            limit_packets: options.limit_packets,
            count_inverse: inverse(count.into()),
            limit_bytes: options.limit_bytes,
            target_ns: codel.target_ns,
            interval_ns: codel.interval_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_no_padding() {
        assert_eq!(size_of::<Flows>(), 6 * 4 + 4 * 8);
        assert_eq!(size_of::<Attributes>(), 3 * 8 + 6 * 4 + 4 * 8 + 16 + 16 + 56);
        assert_eq!(size_of::<Config>(), 2 * 4 + 2 * 8 + 2 * 4 + 16 + 8 + MAX_STREAMS * 168);
    }

    #[test]
    fn what_the_qdisc_lacks_is_an_error() {
        let options = Options::default();
        let error = |contract| Config::new("drr", &options, &[contract]).unwrap_err().to_string();
        let contract = Contract::new().credits(3);
        assert_eq!(error(contract), "credits of stream 0, which the qdisc does not support");
        let error = Config::new("wfq", &options, &[]).unwrap_err();
        assert_eq!(error, Unsupported::Discipline("wfq"));
        let error =
            |link| Config::new("drr", &Options { link, ..Options::default() }, &[]).unwrap_err();
        assert_eq!(error(Link::new(1, 24).framed(Framing::Atm)), Unsupported::Framing);
        assert_eq!(error(Link::new(1, -6)), Unsupported::Overhead(-6));
    }
}
