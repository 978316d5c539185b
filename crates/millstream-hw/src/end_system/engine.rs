//! The transmission engine: sends the packets that the card has decided.
//!
//! It keeps each stream's packets in order, reads winners in bursts, and sends the head of each
//! winner's stream as soon as the link is free. It requests the next burst when half a burst is
//! left to send. A packet that the card dropped is removed in its turn.

use std::collections::VecDeque;
use std::io;

use millstream::{Departure, Event, StreamId};
use millstream_sync::blocking::{Receiver, Sender};

use super::Arrival;

/// Maximum winners in a burst.
pub const BURST: usize = 16;

/// Observes the events of a run.
pub trait Listener<T> {
    /// Called when a packet arrives, even if its queue is full.
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        let _ = (stream, time_ns, bytes);
    }

    /// Called when a packet's service starts or the packet is dropped. The departure has no
    /// deadline, since only the card knows it.
    ///
    /// # Errors
    /// An error ends the run.
    fn departed(&mut self, departure: &Departure, payload: T) -> io::Result<()> {
        let _ = (departure, payload);
        Ok(())
    }

    /// Called when the card's counters show additional misses and violations of a stream.
    fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, time_ns, missed, violations);
    }

    /// Called when the link transmits from `from_ns` to `to_ns`.
    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        let _ = (from_ns, to_ns);
    }

    /// Called after each burst; `true` ends the run.
    fn stop(&mut self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }
}

/// An event of the timeline.
#[derive(Debug)]
pub enum TimelineEvent<T> {
    /// A packet was queued.
    Arrived(Arrival<T>),
    /// A packet was dropped because its queue is full.
    DroppedFull(Arrival<T>),
    /// The head of `stream` leaves, as read at `read_ns`.
    Departed {
        /// The stream.
        stream: usize,
        /// Whether it was dropped late.
        dropped: bool,
        /// Time of the read, ns.
        read_ns: u64,
    },
    /// End of a burst. The engine replies with the time of its next read, ns.
    Burst {
        /// Time of the read, ns.
        read_ns: u64,
    },
    /// The counters of a stream.
    Missed {
        /// The stream.
        stream: usize,
        /// Time of the read, ns.
        time_ns: u64,
        /// Additional misses.
        missed: u64,
        /// Additional violations.
        violations: u64,
    },
}

/// The result of the engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineEnd {
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// Packets still waiting.
    pub waiting: u64,
}

/// A stream's queue and its count of arrivals.
struct Queue<T> {
    packets: VecDeque<(u64, Arrival<T>)>,
    arrived: u64,
}

/// Sends packets until the timeline ends or the listener stops the run.
///
/// # Errors
/// Returns errors of the listener.
///
/// # Panics
/// Panics if a packet leaves that did not arrive.
pub fn run<T>(
    streams: usize,
    mut events: Receiver<TimelineEvent<T>>,
    mut requests: Sender<u64>,
    transmission_ns: &impl Fn(u32) -> u64,
    listener: &mut impl Listener<T>,
) -> io::Result<EngineEnd> {
    let queue = |_| Queue { packets: VecDeque::new(), arrived: 0 };
    let mut queues: Vec<Queue<T>> = (0..streams).map(queue).collect();
    let (mut free_ns, mut last_ns) = (0, 0);
    // Starts of transmissions that may not have started.
    let mut starts: VecDeque<u64> = VecDeque::new();
    while let Ok(event) = events.receive() {
        match event {
            TimelineEvent::Arrived(packet) => {
                let queue = &mut queues[packet.stream as usize];
                listener.arrived(StreamId(packet.stream), packet.time_ns, packet.bytes);
                queue.packets.push_back((queue.arrived, packet));
                queue.arrived += 1;
            }
            TimelineEvent::DroppedFull(packet) => {
                let queue = &mut queues[packet.stream as usize];
                listener.arrived(StreamId(packet.stream), packet.time_ns, packet.bytes);
                let number = queue.arrived;
                queue.arrived += 1;
                let (left, payload) = departure(number, packet, None, Event::DroppedFull);
                listener.departed(&left, payload)?;
            }
            TimelineEvent::Departed { stream, dropped, read_ns } => {
                let (number, packet) =
                    queues[stream].packets.pop_front().expect("only queued packets leave");
                let event = if dropped { Event::DroppedLate } else { Event::Sent };
                let time_ns = read_ns.max(if dropped { last_ns } else { free_ns });
                last_ns = time_ns;
                if !dropped {
                    free_ns = time_ns.saturating_add(transmission_ns(packet.bytes));
                    starts.push_back(time_ns);
                    listener.busy(time_ns, free_ns);
                }
                let (left, payload) = departure(number, packet, Some(time_ns), event);
                listener.departed(&left, payload)?;
            }
            TimelineEvent::Burst { read_ns } => {
                if listener.stop(read_ns) {
                    break;
                }
                while starts.pop_front_if(|start| *start <= read_ns).is_some() {}
                let next = starts.len().checked_sub(BURST / 2 + 1);
                if requests.send(next.map_or(read_ns, |at| starts[at])).is_err() {
                    break;
                }
            }
            TimelineEvent::Missed { stream, time_ns, missed, violations } => {
                let stream = StreamId(u32::try_from(stream).expect("at most 64 streams"));
                listener.missed(stream, time_ns, missed, violations);
            }
        }
    }
    let waiting = queues.iter().map(|queue| queue.packets.len() as u64).sum();
    Ok(EngineEnd { end_ns: free_ns, waiting })
}

/// Returns the departure of a packet at `time_ns`, or at its arrival if `None`.
fn departure<T>(
    number: u64,
    packet: Arrival<T>,
    time_ns: Option<u64>,
    event: Event,
) -> (Departure, T) {
    let departure = Departure {
        time_ns: time_ns.unwrap_or(packet.time_ns),
        stream: StreamId(packet.stream),
        packet: number,
        bytes: packet.bytes,
        arrival_ns: packet.time_ns,
        deadline_ns: None,
        event,
        tag: 0,
    };
    (departure, packet.payload)
}
