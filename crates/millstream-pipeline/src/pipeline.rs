//! A pipeline, put together.

use crossbeam_utils::CachePadded;
use millstream::catalogue::DynScheduler;

use crate::parker::Sleeper;
use crate::channel::{End, channel};
use crate::collector::Collector;
use crate::counters::{Aside, Counters};
use crate::inputs::Inputs;
use crate::packet_sender::Outlet;
use crate::producer::Producer;
use crate::scheduling::Scheduling;
use crate::sync::Arc;
use crate::transmitter::Transmitter;

/// How many packets the rings hold; all memory is allocated at the start. 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Offered packets in each producer's ring.
    pub offers: usize,
    /// Departures that the scheduler may be ahead of the transmitter. What is in this ring has
    /// been decided, so it delays whatever is more urgent and comes later.
    pub departures: usize,
    /// Packets on their way to the collector, in each of its two rings.
    pub reclaims: usize,
    /// Packets that a stage handles before it looks elsewhere, and at most before it tells others.
    pub batch: usize,
}

impl Default for Sizes {
    /// 1,024 offers, 256 departures, 1,024 reclaims, batches of 32.
    fn default() -> Self {
        Self { offers: 1024, departures: 256, reclaims: 1024, batch: 32 }
    }
}

/// The stages of one pipeline, to be taken apart and moved to their threads.
///
/// Pipelines share nothing, so a machine with several ports runs one for each.
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
///             producers[0].offer(stream, Packet { bytes: 1500, tag }).expect("there is room");
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
    /// The first stage, one a thread that brings packets.
    pub producers: Vec<Producer>,
    /// The second stage, the engine's thread.
    pub scheduling: Scheduling<E>,
    /// The third stage.
    pub transmitter: Transmitter,
    /// The last stage.
    pub collector: Collector,
    /// What the pipeline has done so far.
    pub counters: Counters,
}

impl<E: DynScheduler + ?Sized> Pipeline<E> {
    /// A pipeline around `scheduler`, which has its streams, with so many producers.
    ///
    /// Bound the scheduler's queues too (`Contract::queue`, `Scheduler::with_packet_limit`):
    /// they are the only memory that grows.
    #[must_use]
    pub fn new(scheduler: Box<E>, producers: usize, sizes: Sizes) -> Self {
        let batch = sizes.batch.max(1);
        let streams = scheduler.streams();
        let [engine, transmit, collect] = [(); 3].map(|()| Sleeper::new());
        let mut inputs = Inputs::default();
        let mut asides = Vec::with_capacity(producers);
        let producers = (0..producers)
            .map(|_| {
                let own = Sleeper::new();
                let aside = Arc::new(CachePadded::new(Aside::default()));
                // A producer tells of every packet: it may not offer another for long.
                let (offers, taken) =
                    channel(sizes.offers, End::new(own.bell(), batch), End::new(engine.bell(), 1));
                inputs.add(taken, Arc::clone(&aside));
                asides.push(Arc::clone(&aside));
                Producer::new(offers, own, aside, streams)
            })
            .collect();
        let counters = Counters::new(asides);
        let between = |capacity, from: &Sleeper, to: &Sleeper| {
            channel(capacity, End::new(from.bell(), batch), End::new(to.bell(), batch))
        };
        let (departures, sent) = between(sizes.departures, &engine, &transmit);
        let (drops, dropped) = between(sizes.reclaims, &engine, &collect);
        let (finished, transmitted) = between(sizes.reclaims, &transmit, &collect);
        let outlet = Outlet::new(departures, drops, counters.clone());
        Self {
            producers,
            scheduling: Scheduling::new(scheduler, inputs, outlet, engine, batch),
            transmitter: Transmitter::new(sent, finished, transmit, batch),
            collector: Collector::new(dropped, transmitted, collect, batch),
            counters,
        }
    }
}
