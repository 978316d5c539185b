//! Builds a pipeline.

use crossbeam_utils::CachePadded;
use millstream::catalogue::DynScheduler;
use millstream_sync::atomic::Arc;
use millstream_sync::channel::{Peer, channel};
use millstream_sync::waker::park::Parker;

use crate::collector::Collector;
use crate::counters::{Counters, ProducerStatus};
use crate::inputs::Inputs;
use crate::packet_sender::PacketSender;
use crate::producer::Producer;
use crate::scheduling::Scheduling;
use crate::transmitter::Transmitter;

/// Ring sizes in packets; all memory is allocated at the start. 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Offered packets in each producer's ring.
    pub offers: usize,
    /// Departures that the scheduler may be ahead of the transmitter. Packets in this ring are
    /// already scheduled: they delay a more urgent packet that arrives later.
    pub departures: usize,
    /// Packets in each of the collector's two rings.
    pub reclaims: usize,
    /// Packets that a stage handles before it checks its other rings, and the most it handles
    /// before it wakes its neighbours.
    pub batch: usize,
}

impl Default for Sizes {
    /// 1,024 offers, 256 departures, 1,024 reclaims, batches of 32.
    fn default() -> Self {
        Self { offers: 1024, departures: 256, reclaims: 1024, batch: 32 }
    }
}

/// The stages of one pipeline; move each to its thread.
///
/// Pipelines share nothing: a host with several ports runs one for each.
///
/// ```
/// use millstream::{Contract, Dwcs, EdfFirst, Heap, Packet, Scheduler};
/// use millstream_pipeline::{Monotonic, Pipeline, Sizes};
/// use std::thread;
///
/// let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
/// let stream = scheduler.add_stream(Contract::new().period_ns(1_000_000)?)?;
/// let pipeline = Pipeline::new(Box::new(scheduler), 1, Sizes::default());
/// let Pipeline { mut producers, scheduling, transmitter, collector, .. } = pipeline;
/// let ended = thread::scope(|threads| {
///     threads.spawn(move || {
///         for tag in 0..100 {
///             producers[0].offer(stream, Packet { bytes: 1500, tag }).expect("a slot is free");
///         }
///     });
///     threads.spawn(|| transmitter.run(|departure| assert_eq!(departure.stream, stream)));
///     threads.spawn(|| collector.run(|departure| assert!(departure.tag < 100)));
///     scheduling.run(&mut Monotonic::default())
/// });
/// assert_eq!(ended.counts.sent, 100);
/// # Ok::<(), millstream::ContractError>(())
/// ```
#[derive(Debug)]
pub struct Pipeline<E: ?Sized> {
    /// One producer for each thread that offers packets.
    pub producers: Vec<Producer>,
    /// The engine's thread.
    pub scheduling: Scheduling<E>,
    /// The thread that transmits.
    pub transmitter: Transmitter,
    /// The thread that reclaims buffers.
    pub collector: Collector,
    /// The pipeline's counters.
    pub counters: Counters,
}

impl<E: DynScheduler + ?Sized> Pipeline<E> {
    /// Builds a pipeline with `producers` producers around `scheduler`, which already has its
    /// streams.
    ///
    /// Limit the scheduler's queues too (`Contract::queue`, `Scheduler::with_packet_limit`), since
    /// no other memory grows.
    #[must_use]
    pub fn new(scheduler: Box<E>, producers: usize, sizes: Sizes) -> Self {
        let batch = sizes.batch.max(1);
        let streams = scheduler.streams();
        let [engine, transmit, collect] = [(); 3].map(|()| Parker::new());
        let mut inputs = Inputs::default();
        let mut statuses = Vec::with_capacity(producers);
        let producers = (0..producers)
            .map(|_| {
                let own = Parker::new();
                let status = Arc::new(CachePadded::new(ProducerStatus::default()));
                // A batch of 1: the producer may not offer another packet for a long time.
                let (offers, taken) = channel(
                    sizes.offers,
                    Peer::new(own.waker(), batch),
                    Peer::new(engine.waker(), 1),
                );
                inputs.add(taken, Arc::clone(&status));
                statuses.push(Arc::clone(&status));
                Producer::new(offers, own, status, streams)
            })
            .collect();
        let counters = Counters::new(statuses);
        let between = |capacity, from: &Parker, to: &Parker| {
            channel(capacity, Peer::new(from.waker(), batch), Peer::new(to.waker(), batch))
        };
        let (departures, sent) = between(sizes.departures, &engine, &transmit);
        let (drops, dropped) = between(sizes.reclaims, &engine, &collect);
        let (finished, transmitted) = between(sizes.reclaims, &transmit, &collect);
        let output = PacketSender::new(departures, drops, counters.clone());
        Self {
            producers,
            scheduling: Scheduling::new(scheduler, inputs, output, engine, batch),
            transmitter: Transmitter::new(sent, finished, transmit, batch),
            collector: Collector::new(dropped, transmitted, collect, batch),
            counters,
        }
    }
}
