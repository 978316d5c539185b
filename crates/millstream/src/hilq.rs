//! The Hierarchically Indexed Linear Queue of the HILQ paper: DWCS on a network processor.
//!
//! A calendar holds packets, not streams, and a packet keeps its position from its arrival:
//!
//! ```text
//! segment  the millisecond of the packet's deadline, of the next 100
//! slot     x'/y' rounded to 0.02, then x': 50 × 20 in a segment
//! queue    packets of one slot, first in, first out
//! ```
//!
//! Two-level bitmaps find the first packet of a segment with two reads, so the cost of arrivals and
//! decisions is independent of the number of streams. Three stages, the paper's three kinds of
//! threads, work on the same records in turn: `receive` inserts an arrival into its slot, `collect`
//! drops the packets of segments that have passed, `schedule` removes the next packet.
//!
//! The order approximates that of [`Dwcs`](crate::Dwcs):
//!
//! - deadlines within a millisecond are equal, and a packet can be sent until its millisecond ends;
//! - x'/y' is rounded and clamped to the table's x' < 20 and y' < 30; if x' = 0, y' is ignored;
//! - a packet keeps its slot when its stream's x'/y' change after its arrival;
//! - an arrival with a deadline beyond the calendar is rejected: its slot belongs to an earlier
//!   deadline;
//! - late packets are always dropped; [`Sizes::collect_delay_ns`] delays this and the updates of
//!   x'/y' that follow.
//!
//! Source: *Efficient Implementation of Packet Scheduling Algorithm on High-Speed Programmable
//! Network Processors*, LNCS 2496, 2002, pages 184 to 197, section 5.

mod calendar;
mod collect;
mod elements;
mod free_list;
mod index;
mod lookup;
mod memory;
mod packets;
mod receive;
mod records;
mod schedule;
mod sizes;
mod streams;

pub use memory::{Accesses, Memory};
pub use receive::Rejected;
pub use sizes::Sizes;

use core::num::NonZeroU64;

use self::collect::Collector;
use self::receive::Receiver;
use self::records::Records;
use self::schedule::schedule;
use crate::catalogue::DynScheduler;
use crate::contract::{Contract, ContractError, Late};
use crate::discipline::DwcsOptions;
use crate::packet::{Departure, Packet, StreamId};
use crate::selector::Observer;

/// The HILQ scheduler, which approximates DWCS. `M` counts its memory accesses.
///
/// ```
/// use millstream::catalogue::DynScheduler;
/// use millstream::{Contract, DwcsOptions, Hilq, Late, Packet, Sizes, Window};
///
/// let mut scheduler = Hilq::new(DwcsOptions::default(), Sizes::PAPER);
/// let contract = || Contract::new().late(Late::Drop).period_ns(20_000_000);
/// let loose = scheduler.add_stream(contract()?.window(Window::new(3, 4)?))?;
/// let tight = scheduler.add_stream(contract()?.window(Window::new(1, 4)?))?;
/// for stream in [loose, tight] {
///     scheduler.enqueue(0, stream, Packet::new(512)).expect("within 100 ms");
/// }
/// assert_eq!(scheduler.decide(0, &mut ()).expect("backlogged").stream, tight);
/// # Ok::<(), millstream::ContractError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hilq<M = ()> {
    sizes: Sizes,
    receiver: Receiver,
    collector: Collector,
    records: Records<M>,
}

impl Hilq {
    /// Returns a scheduler without streams. `zero_window` of `options` has no effect.
    ///
    /// # Panics
    /// Panics if a size is 0, there are more than 1,024 slots in a segment, or fewer than two
    /// segments, or the collector's delay leaves no segment for packets.
    #[must_use]
    pub fn new(options: DwcsOptions, sizes: Sizes) -> Self {
        Self::with_memory(options, sizes, ())
    }

    /// Returns the attributes of a contract that a scheduler of `sizes` does not support, each as a
    /// [`ContractError::Unfit`].
    pub fn unfit(contract: &Contract, sizes: &Sizes) -> impl Iterator<Item = ContractError> {
        let unfit = |wrong: bool, attribute, need| {
            wrong.then_some(ContractError::Unfit { attribute, by: "hilq", need })
        };
        let period = contract.period_ns.map(NonZeroU64::get);
        let (least_ns, most_ns) = (sizes.least_period_ns(), sizes.most_period_ns());
        let (short, long) =
            (period.is_some_and(|ns| ns < least_ns), period.is_some_and(|ns| ns > most_ns));
        let no_gates = "to be unset: it has no gates";
        [
            unfit(contract.late == Late::Send, "late", "to be \"drop\": it drops late packets"),
            unfit(short, "period", "to be at least one segment of its calendar"),
            unfit(long, "period", "to be at most the length of its calendar less one segment"),
            unfit(contract.max_rate.is_some(), "max-rate", no_gates),
            unfit(contract.credits.is_some(), "credits", no_gates),
        ]
        .into_iter()
        .flatten()
    }
}

impl<M: Memory> Hilq<M> {
    /// Returns a scheduler without streams whose memory accesses `memory` counts.
    ///
    /// # Panics
    /// Panics if [`new`](Hilq::new) does.
    #[must_use]
    pub fn with_memory(options: DwcsOptions, sizes: Sizes, memory: M) -> Self {
        sizes.check();
        Self {
            sizes,
            receiver: Receiver::new(&sizes),
            collector: Collector::new(),
            records: Records::new(options, &sizes, memory),
        }
    }

    /// Returns the rejected arrivals, by reason.
    #[must_use]
    pub fn rejected(&self) -> Rejected {
        self.receiver.rejected()
    }

    /// Returns the counter of memory accesses.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.records.memory
    }

    /// Returns the basic and extended element queues in use.
    #[must_use]
    pub fn queues_in_use(&self) -> (usize, usize) {
        self.records.calendar.queues_in_use()
    }
}

impl<M: Memory> DynScheduler for Hilq<M> {
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        let number = u32::try_from(self.streams())
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or(ContractError::TooManyStreams)?;
        ContractError::refuse_flows(&contract, "hilq")?;
        if let Some(unfit) = Hilq::unfit(&contract, &self.sizes).next() {
            return Err(unfit);
        }
        self.records.streams.add(&contract)?;
        Ok(StreamId(number))
    }

    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure> {
        self.collector.collect(&mut self.records, now_ns);
        self.receiver.receive(&mut self.records, now_ns, stream, packet)
    }

    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure> {
        self.collector.collect(&mut self.records, now_ns);
        self.collector.report(&mut self.records, now_ns, observer);
        schedule(&mut self.records, now_ns)
    }

    /// # Panics
    /// Panics if `eligible` is false: HILQ has no gates.
    fn set_eligible(&mut self, _: u64, stream: StreamId, eligible: bool) {
        assert!(eligible, "hilq has no gates; it cannot make stream {stream} ineligible");
    }

    /// No effect: streams have no flow control.
    fn add_credits(&mut self, _: u64, _: StreamId, _: u64) {}

    fn next_eligible_ns(&self) -> Option<u64> {
        None
    }

    fn charge(&mut self, _: u64, _: StreamId, _: i64) -> bool {
        false
    }

    fn streams(&self) -> usize {
        self.records.streams.len()
    }

    fn waiting(&self, stream: StreamId) -> u32 {
        self.records.streams.waiting(stream)
    }

    fn total_waiting(&self) -> u64 {
        self.records.packets.len()
    }
}
