//! The transmission engine: what the card decided, sent on the link.
//!
//! It holds the streams' packets in their order, reads winners in bursts, and sends the first packet
//! of each winner's stream as soon as the link is free. It asks for the next burst when half of what
//! a burst holds is left to be sent. A packet that the card dropped goes when its turn comes.

use std::collections::VecDeque;
use std::io;

use millstream::{Departure, Event, StreamId};

use super::Arrival;
use super::ring::{Receiver, Sender};

/// Winners in a burst, at most.
pub const BURST: usize = 16;

/// Is told everything that happens.
pub trait Listener<T> {
    /// A packet came, whether or not its queue had room.
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        let _ = (stream, time_ns, bytes);
    }

    /// A packet was sent (its service starts) or dropped. It has no deadline: that is the card's.
    ///
    /// # Errors
    /// An error ends the run.
    fn departed(&mut self, departure: &Departure, payload: T) -> io::Result<()> {
        let _ = (departure, payload);
        Ok(())
    }

    /// The card's counters were read: so many deadlines more were missed, so many by violation.
    fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, time_ns, missed, violations);
    }

    /// The link transmits from `from_ns` to `to_ns`.
    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        let _ = (from_ns, to_ns);
    }

    /// Asked after each burst; `true` ends the run there.
    fn stop(&mut self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }
}

/// What the engine is told.
#[derive(Debug)]
pub enum Told<T> {
    /// A packet that its queue has room for.
    Arrived(Arrival<T>),
    /// One that it has not.
    Full(Arrival<T>),
    /// The first packet of `stream` leaves, as was read at `read_ns`.
    Left {
        /// Whose.
        stream: usize,
        /// It was late.
        dropped: bool,
        /// When that is known, ns.
        read_ns: u64,
    },
    /// That was all of a burst. It is answered with the time from which the next is wanted, ns.
    Burst {
        /// When it is known, ns.
        read_ns: u64,
    },
    /// The counters of a stream.
    Missed {
        /// Whose.
        stream: usize,
        /// When they were read, ns.
        time_ns: u64,
        /// So many more.
        missed: u64,
        /// So many of them by violation.
        violations: u64,
    },
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// Packets that still wait.
    pub waiting: u64,
}

/// A stream's packets that wait, and how many came.
struct Queue<T> {
    packets: VecDeque<(u64, Arrival<T>)>,
    arrived: u64,
}

/// Sends until nothing more is told, or the listener stops it.
///
/// # Errors
/// Those of the listener.
///
/// # Panics
/// If a packet leaves that did not come.
pub fn run<T>(
    streams: usize,
    mut told: Receiver<Told<T>>,
    mut wants: Sender<u64>,
    transmission_ns: &impl Fn(u32) -> u64,
    listener: &mut impl Listener<T>,
) -> io::Result<Sent> {
    let queue = |_| Queue { packets: VecDeque::new(), arrived: 0 };
    let mut queues: Vec<Queue<T>> = (0..streams).map(queue).collect();
    let (mut free_ns, mut last_ns) = (0, 0);
    // When transmissions begin that may not have.
    let mut starts: VecDeque<u64> = VecDeque::new();
    while let Ok(told) = told.receive() {
        match told {
            Told::Arrived(packet) => {
                let queue = &mut queues[packet.stream as usize];
                listener.arrived(StreamId(packet.stream), packet.time_ns, packet.bytes);
                queue.packets.push_back((queue.arrived, packet));
                queue.arrived += 1;
            }
            Told::Full(packet) => {
                let queue = &mut queues[packet.stream as usize];
                listener.arrived(StreamId(packet.stream), packet.time_ns, packet.bytes);
                let number = queue.arrived;
                queue.arrived += 1;
                let (left, payload) = departure(number, packet, None, Event::DroppedFull);
                listener.departed(&left, payload)?;
            }
            Told::Left { stream, dropped, read_ns } => {
                let (number, packet) =
                    queues[stream].packets.pop_front().expect("the timeline counts them");
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
            Told::Burst { read_ns } => {
                if listener.stop(read_ns) {
                    break;
                }
                while starts.pop_front_if(|start| *start <= read_ns).is_some() {}
                let next = starts.len().checked_sub(BURST / 2 + 1);
                if wants.send(next.map_or(read_ns, |at| starts[at])).is_err() {
                    break;
                }
            }
            Told::Missed { stream, time_ns, missed, violations } => {
                let stream = StreamId(u32::try_from(stream).expect("at most 64 streams"));
                listener.missed(stream, time_ns, missed, violations);
            }
        }
    }
    let waiting = queues.iter().map(|queue| queue.packets.len() as u64).sum();
    Ok(Sent { end_ns: free_ns, waiting })
}

/// A packet's departure at `time_ns`, or when it came.
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
