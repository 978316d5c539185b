//! The core as an engine selector: streams, order and deadlines are in hardware.
//!
//! The core's time advances in the last cycle of a decision, by a step to the time of the next
//! decision. That time is not known yet, so the clock is stopped before this cycle. The winner can
//! already be read; the cycle runs when the next decision is requested.

use std::sync::{Arc, Mutex};

use millstream::catalogue::DynScheduler;
use millstream::selector::{Backlog, NewHead, Select};
use millstream::{
    Activation, Contract, ContractError, Departure, Head, Late, Observer, Scheduler, StreamId,
};

use super::build::{self, BuildError, Design, TIME_BITS};
use super::model::Core;
use crate::{Load, Mode, Settings};

/// Half-width of the wrap-around window of times, ns.
const WINDOW_NS: u64 = 1 << (TIME_BITS - 2);

/// Why the hardware cannot schedule these streams.
#[derive(Debug, thiserror::Error)]
pub enum RtlError {
    /// The model could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// More streams than a core supports.
    #[error("structure rtl supports at most 64 streams; there are {0}")]
    TooMany(usize),
    /// A contract that does not fit the core's fields.
    #[error("structure rtl: {0}")]
    Contract(#[from] ContractError),
}

/// The first fault of a scheduler on the core, if any; shared with the scheduler.
#[derive(Clone, Debug, Default)]
pub struct FirstFault(Arc<Mutex<Option<String>>>);

impl FirstFault {
    /// Returns the first fault.
    ///
    /// # Panics
    /// Panics if a thread panicked while reporting a fault.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        self.0.lock().expect("no thread panics while reporting").clone()
    }

    fn report(&self, what: impl FnOnce() -> String) {
        self.0.lock().expect("no thread panics while reporting").get_or_insert_with(what);
    }
}

/// Creates a scheduler on the hardware for these contracts. Later faults are reported by
/// [`FirstFault`]; the scheduler then serves no more packets.
///
/// # Errors
/// Fails if the model cannot be built, or a contract does not fit its fields.
pub fn scheduler(
    settings: Settings,
    contracts: &[Contract],
) -> Result<(Box<dyn DynScheduler + Send>, FirstFault), RtlError> {
    let selector = Selector::new(settings, contracts.len())?;
    let fault = selector.fault.clone();
    let mut scheduler = Scheduler::over(selector);
    for contract in contracts {
        scheduler.add_stream(contract.clone())?;
    }
    Ok((Box::new(scheduler), fault))
}

/// A selector on a verilated core.
#[derive(Debug)]
pub struct Selector {
    core: Core,
    settings: Settings,
    streams: usize,
    /// Arrival times of packets offered to the core and not yet taken.
    offered: Vec<Option<u64>>,
    heads: Vec<Option<Head>>,
    missed: Vec<u16>,
    violations: Vec<u16>,
    /// Streams that drop late packets, one bit each.
    late_drop: u64,
    now_ns: u64,
    /// The clock is stopped before the last cycle of a decision.
    clock_held: bool,
    fault: FirstFault,
}

impl Selector {
    /// Creates a core for at least `streams` streams.
    ///
    /// # Errors
    /// Fails if there are more than 64, or the model cannot be built.
    pub fn new(settings: Settings, streams: usize) -> Result<Self, RtlError> {
        if streams > 64 {
            return Err(RtlError::TooMany(streams));
        }
        let lanes = streams.next_power_of_two().max(2);
        let library = build::library(&Design::core(lanes))?;
        let mut core = Core::load(&library, lanes).map_err(BuildError::from)?;
        core.inputs.config = (settings.mode as u8) << 2
            | u8::from(settings.lowest_denominator) << 1
            | u8::from(settings.rtas99);
        Ok(Self {
            core,
            settings,
            streams: 0,
            offered: vec![None; lanes],
            heads: vec![None; lanes],
            missed: vec![0; lanes],
            violations: vec![0; lanes],
            late_drop: 0,
            now_ns: 0,
            clock_held: false,
            fault: FirstFault::default(),
        })
    }

    fn load(&mut self, load: &Load, period_ns: u64, deadline_ns: u64) {
        let fields = [
            (u64::from(load.x), 8),
            (u64::from(load.y), 8),
            (u64::from(load.growth(self.settings.rtas99)), 8),
            (period_ns, TIME_BITS),
            (u64::from(load.drop), 1),
            (deadline_ns, TIME_BITS),
            (u64::from(load.first), 1),
        ];
        let bits = fields
            .into_iter()
            .fold(0u128, |bits, (value, width)| bits << width | u128::from(value));
        let inputs = &mut self.core.inputs;
        for (at, word) in inputs.load.iter_mut().enumerate() {
            *word = u32::try_from(bits >> (32 * at) & u128::from(u32::MAX)).expect("32 bits");
        }
        inputs.load_id = u8::try_from(self.streams).expect("at most 64 streams");
        inputs.load_valid = 1;
        self.core.settle();
        self.core.clock();
        self.core.inputs.load_valid = 0;
    }

    /// Runs a cycle that may take and drop packets. Returns whether it took or dropped any.
    fn cycle(&mut self, now_ns: u64, backlog: &mut impl Backlog<()>, drops: &mut Drops) -> bool {
        let mut reported = 0;
        loop {
            let inputs = &mut self.core.inputs;
            inputs.packet_valid = 0;
            for (at, stamp) in self.offered.iter().enumerate() {
                if let Some(stamp) = stamp {
                    inputs.packet_valid |= 1 << at;
                    inputs.stamp[at] = low(*stamp);
                }
            }
            let out = self.core.settle();
            let new = out.dropped & !reported;
            if new != 0 {
                // The packet behind a dropped one is offered in the same cycle.
                let stream = new.trailing_zeros();
                reported |= 1 << stream;
                let deadline_ns = self.deadline(stream as usize);
                let next = backlog.drop_head(StreamId(stream), now_ns, Some(deadline_ns), drops);
                self.set_head(stream as usize, next);
                continue;
            }
            self.core.clock();
            for (at, offered) in self.offered.iter_mut().enumerate() {
                if out.take >> at & 1 == 1 {
                    *offered = None;
                }
            }
            if out.range != 0 {
                let stream = out.range.trailing_zeros();
                self.fault.report(|| {
                    format!(
                        "structure rtl: a deadline of stream {stream} (from 0) is more than \
                         {WINDOW_NS} ns from now, where the core's times wrap"
                    )
                });
            }
            return out.take != 0 || out.dropped != 0;
        }
    }

    /// Advances the core to the start of the decision at `now_ns`, with misses charged.
    fn advance_to(&mut self, now_ns: u64, backlog: &mut impl Backlog<()>, drops: &mut Drops) {
        if !self.clock_held {
            if now_ns == self.now_ns {
                return;
            }
            // The clock is not held at the start, or after a decision that dropped every packet.
            self.run_passes();
        }
        self.core.inputs.step = now_ns - self.now_ns;
        if self.core.inputs.step >= WINDOW_NS {
            let step = self.core.inputs.step;
            self.fault.report(|| {
                format!("structure rtl: {step} ns between two decisions; times wrap at {WINDOW_NS}")
            });
        }
        self.cycle(now_ns, backlog, drops);
        self.clock_held = false;
        self.now_ns = now_ns;
    }

    /// Runs the passes of a decision; the clock stops before the final cycle.
    fn run_passes(&mut self) {
        self.core.inputs.packet_valid = 0;
        self.core.inputs.decide = 1;
        for _ in 0..self.core.streams().ilog2() {
            self.core.settle();
            self.core.clock();
            self.core.inputs.decide = 0;
        }
        self.clock_held = true;
    }

    fn deadline(&self, stream: usize) -> u64 {
        // The low bits give the distance from now, in either direction.
        let ahead = low(self.core.stream(stream).deadline.wrapping_sub(low(self.now_ns)));
        if ahead >> (TIME_BITS - 1) == 0 {
            self.now_ns + ahead
        } else {
            self.now_ns.saturating_sub((1 << TIME_BITS) - ahead)
        }
    }

    fn set_head(&mut self, stream: usize, next: Option<NewHead<()>>) {
        self.heads[stream] = next.map(|next| next.head);
        self.offered[stream] = next.map(|next| next.head.arrival_ns);
    }

    /// Reports the misses since the last report.
    fn report_misses(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        for at in 0..self.streams {
            let seen = self.core.stream(at);
            let missed = seen.missed.wrapping_sub(self.missed[at]);
            let violations = seen.violations.wrapping_sub(self.violations[at]);
            (self.missed[at], self.violations[at]) = (seen.missed, seen.violations);
            // EDF counts a late packet on service, which `served` reports.
            let counts_on_service = self.settings.mode == Mode::Edf && !self.drops_late(at);
            if missed > 0 && !counts_on_service {
                let stream = StreamId(u32::try_from(at).expect("at most 64 streams"));
                observer.missed(stream, now_ns, missed.into(), violations.into());
            }
            if violations > 0 && seen.y == u8::MAX {
                self.fault.report(|| {
                    format!(
                        "structure rtl: y' of stream {at} (from 0) reached 255 by violations, \
                         where the core's 8 bits end and the schedule may differ"
                    )
                });
            }
        }
    }

    fn drops_late(&self, stream: usize) -> bool {
        self.late_drop >> stream & 1 == 1
    }
}

/// The drops of one decision, reported in the order of streams.
#[derive(Debug, Default)]
struct Drops(Vec<Departure>);

impl Observer for Drops {
    fn dropped(&mut self, departure: &Departure) {
        self.0.push(*departure);
    }
}

impl Select for Selector {
    type Stamp = ();

    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let unsupported =
            |attribute, need| ContractError::Unfit { attribute, by: "the core", need };
        if self.streams == self.core.streams() {
            return Err(ContractError::TooManyStreams);
        }
        let terms = contract.terms();
        let byte =
            |value| u8::try_from(value).map_err(|_| unsupported("window", "to be at most 255"));
        let deadlines = matches!(self.settings.mode, Mode::Dwcs | Mode::Edf);
        let period_ns = match terms.period_ns {
            Some(period_ns) if period_ns < WINDOW_NS => period_ns,
            Some(_) => return Err(unsupported("period", "to be below 19 hours")),
            None if deadlines => return Err(ContractError::Missing { attribute: "period" }),
            None => 1,
        };
        if terms.first_deadline_ns.is_some_and(|deadline| deadline >= WINDOW_NS) {
            return Err(unsupported("first-deadline", "to be below 19 hours"));
        }
        if contract.is_limited() {
            return Err(unsupported("max-rate", "and the link's `credits` to be unset"));
        }
        let first = deadlines && terms.first_deadline_ns.is_some();
        let load = Load {
            deadline: 0,
            period: 0,
            priority: 0,
            weight: 1,
            x: byte(terms.window.lost())?,
            y: byte(terms.window.of())?,
            drop: u8::from(terms.late == Late::Drop),
            first: u8::from(first),
        };
        let deadline_ns = match terms.first_deadline_ns {
            Some(deadline_ns) if first => deadline_ns,
            _ if self.settings.mode == Mode::Static => u64::from(terms.priority),
            _ => 0,
        };
        self.load(&load, period_ns, deadline_ns);
        let stream = StreamId(u32::try_from(self.streams).expect("at most 64 streams"));
        self.late_drop |= u64::from(load.drop) << self.streams;
        self.streams += 1;
        Ok(stream)
    }

    fn streams(&self) -> usize {
        self.streams
    }

    fn has_deadlines(&self) -> bool {
        matches!(self.settings.mode, Mode::Dwcs | Mode::Edf)
    }

    fn advance(&mut self, _: u64) {}

    fn idle(&mut self) {}

    fn any_active(&self) -> bool {
        self.heads.iter().any(Option::is_some)
    }

    fn active(&self, stream: StreamId) -> bool {
        self.heads[stream.index()].is_some()
    }

    fn head(&self, stream: StreamId) -> Option<Head> {
        self.heads[stream.index()]
    }

    fn arrived(&mut self, _: StreamId, _: u32, _: bool) {}

    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<()>) {
        self.set_head(stream.index(), Some(new));
    }

    fn open(&mut self, _: StreamId, _: Activation) {}

    /// # Panics
    /// Always panics: the core has no gates.
    fn close(&mut self, stream: StreamId) {
        panic!("structure rtl cannot gate stream {}", stream.0);
    }

    /// Must be followed by [`select`](Select::select) at the same instant.
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let mut drops = Drops::default();
        self.advance_to(now_ns, backlog, &mut drops);
        // The last cycle takes nothing and has no deadline in the past.
        while self.cycle(now_ns, backlog, &mut drops) || self.core.settle().ready == 0 {}
        drops.0.sort_by_key(|departure| departure.stream);
        drops.0.iter().for_each(|departure| observer.dropped(departure));
        self.report_misses(now_ns, observer);
    }

    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        self.charge_misses(now_ns, backlog, observer);
        if self.fault.first().is_some() {
            return None;
        }
        self.run_passes();
        let out = self.core.settle();
        (out.first_valid != 0).then(|| StreamId(u32::from(out.first)))
    }

    fn deadline_ns(&self, stream: StreamId) -> Option<u64> {
        self.has_deadlines().then(|| self.deadline(stream.index()))
    }

    fn resize(&mut self, _: StreamId, _: u32) {}

    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool {
        self.settings.mode == Mode::Edf && now_ns >= self.deadline(stream.index())
    }

    fn head_departed(&mut self, stream: StreamId, next: Option<NewHead<()>>) {
        self.set_head(stream.index(), next);
    }

    fn charge_extra(&mut self, _: StreamId, _: i64) -> bool {
        false
    }
}

/// Returns a time as the core stores it.
fn low(time_ns: u64) -> u64 {
    time_ns & ((1 << TIME_BITS) - 1)
}
