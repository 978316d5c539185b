//! The scheduler of a link: the common disciplines are compiled in, and any other of the catalogue
//! costs a virtual call per operation.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::flow_queue::Flow;
use millstream::selector::Selector;
use millstream::{
    Contract, ContractError, Departure, Discipline, Fifo, Heap, Observer, Packet, Scheduler,
    StreamId, Wf2qPlus, WinnerTree,
};

type On<D, S> = Scheduler<Selector<D, S>>;
type Rank<D> = <D as Discipline>::Rank;

/// The most decisions of [`Link::Any`] in one virtual call.
const BATCH: usize = 64;

/// A link's scheduler.
pub(super) enum Link {
    Fair(Box<On<Wf2qPlus, WinnerTree<Rank<Wf2qPlus>>>>),
    FifoHeap(Box<On<Fifo, Heap<Rank<Fifo>>>>),
    /// With scratch: the departures of a batch.
    Any(Box<dyn DynScheduler + Send>, Vec<Departure>),
}

macro_rules! each {
    ($self:expr, $link:ident => $what:expr) => {
        match $self {
            Link::Fair($link) => $what,
            Link::FifoHeap($link) => $what,
            Link::Any($link, _) => $what,
        }
    };
}

impl Link {
    /// Builds `discipline` on `structure`; the result behaves like the catalogue's.
    pub(super) fn new(
        discipline: &DisciplineRow,
        options: &Options,
        structure: StructureName,
    ) -> Self {
        let fair = || Wf2qPlus::new(options.link, options.virtual_origin);
        match (discipline.name, structure) {
            ("wf2q+", StructureName::WinnerTree) => Self::Fair(Box::new(
                Scheduler::new(fair(), WinnerTree::default()).on_link(options.link),
            )),
            ("fifo", StructureName::Heap) => Self::FifoHeap(Box::new(
                Scheduler::new(Fifo, Heap::default()).on_link(options.link),
            )),
            _ => Self::Any(discipline.build(options, structure), Vec::with_capacity(BATCH)),
        }
    }

    pub(super) fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        each!(self, link => link.add_stream(contract))
    }

    /// Appends packets to the queue of `stream`.
    #[inline]
    pub(super) fn enqueue_all(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packets: impl Iterator<Item = Packet>,
    ) {
        each!(self, link => for packet in packets {
            let queued = link.enqueue(now_ns, stream, packet);
            debug_assert!(queued.is_ok(), "only the router limits the queue");
        });
    }

    /// Appends packets to the flows of `stream`; `observer` gets those that the flows drop.
    #[inline]
    pub(super) fn enqueue_flows(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packets: impl Iterator<Item = (Packet, Flow)>,
        observer: &mut impl Observer,
    ) {
        each!(self, link => for (packet, flow) in packets {
            let queued = link.enqueue_flow(now_ns, stream, packet, flow, observer);
            debug_assert!(queued.is_ok(), "only the router limits queues without flows");
        });
    }

    /// Makes up to `most` decisions at `now_ns`.
    #[inline]
    pub(super) fn decide_all(
        &mut self,
        now_ns: u64,
        most: usize,
        observer: &mut impl Observer,
        mut sent: impl FnMut(Departure),
    ) {
        match self {
            Self::Fair(link) => _ = link.decide_batch(now_ns, most, observer, sent),
            Self::FifoHeap(link) => _ = link.decide_batch(now_ns, most, observer, sent),
            Self::Any(link, batch) => {
                let mut left = most;
                while left > 0 {
                    let wanted = left.min(BATCH);
                    link.decide_batch(now_ns, wanted, observer, batch);
                    let made = batch.len();
                    batch.drain(..).for_each(&mut sent);
                    if made < wanted {
                        break;
                    }
                    left -= made;
                }
            }
        }
    }

    pub(super) fn next_eligible_ns(&self) -> Option<u64> {
        each!(self, link => link.next_eligible_ns())
    }

    #[inline]
    pub(super) fn waiting(&self, stream: StreamId) -> u32 {
        each!(self, link => link.waiting(stream))
    }

    #[inline]
    pub(super) fn total_waiting(&self) -> u64 {
        each!(self, link => link.total_waiting())
    }
}
