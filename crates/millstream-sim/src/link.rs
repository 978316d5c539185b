//! One link, simulated exactly.
//!
//! ```text
//! feed ── arrivals up to now ──> scheduler ── decision at now ──> link busy until now + L/r
//! ```
//!
//! A decision is made whenever the link is free and a packet waits; time then jumps to the end of
//! the transmission, or, if nothing waits, to the next arrival. At one instant: end of
//! transmission, arrivals, decision. A transmission takes ceil((bytes + overhead) × 8 × 10⁹ /
//! rate) ns; the link never idles while a packet waits.

use millstream::{Departure, Observer, Packet, StreamId};
use millstream_scenario::Scenario;
use millstream_traffic::{Arrival, Feed, FrameBytes, TrafficError};
use slab::Slab;
use std::io;

/// Is told everything that happens, in the order it happens.
pub trait Listener {
    /// A packet arrived, whether or not its queue had room.
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        let _ = (stream, time_ns, bytes);
    }

    /// A packet was sent (its service starts) or dropped. `frame` is its captured bytes, if the
    /// feed keeps them.
    ///
    /// # Errors
    /// An error ends the run.
    fn departed(&mut self, departure: &Departure, frame: Option<&FrameBytes>) -> io::Result<()> {
        let _ = (departure, frame);
        Ok(())
    }

    /// Deadlines were missed, `violations` of them with no loss left in the window.
    fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, time_ns, missed, violations);
    }

    /// The link transmits from `from_ns` to `to_ns`.
    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        let _ = (from_ns, to_ns);
    }

    /// Asked before each decision; `true` ends the run there, packets still waiting.
    fn stop(&mut self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// Packets still waiting; 0 unless the listener stopped the run.
    pub waiting: u64,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input is unreadable or malformed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The listener could not write.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Runs `scenario` on its link with the packets of `feed` until all have left.
///
/// # Errors
/// The first unreadable input or failing output; what happened before has been told.
pub fn run(
    scenario: &Scenario,
    feed: &mut dyn Feed,
    listener: &mut impl Listener,
) -> Result<End, RunError> {
    let mut scheduler = scenario.scheduler();
    let mut observer = Teller { listener, frames: Slab::new(), failed: None };
    let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let mut next = take(feed, until_ns)?;
    let (mut free_ns, mut end_ns) = (0, 0);
    loop {
        let now_ns = match &next {
            _ if scheduler.total_waiting() > 0 => free_ns,
            Some(arrival) => free_ns.max(arrival.time_ns),
            None => break,
        };
        while let Some(arrival) = next.take_if(|arrival| arrival.time_ns <= now_ns) {
            let (time_ns, stream, bytes) =
                (arrival.time_ns, StreamId(arrival.stream), arrival.bytes);
            observer.listener.arrived(stream, time_ns, bytes);
            let packet = Packet { bytes, tag: observer.keep(arrival.frame) };
            if let Err(full) = scheduler.enqueue(time_ns, stream, packet) {
                observer.tell(&full);
            }
            next = take(feed, until_ns)?;
        }
        if observer.listener.stop(now_ns) {
            break;
        }
        if let Some(departure) = scheduler.decide(now_ns, &mut observer) {
            free_ns = now_ns.saturating_add(scenario.link.transmission_ns(departure.bytes));
            end_ns = free_ns;
            observer.listener.busy(now_ns, free_ns);
            observer.tell(&departure);
        } else {
            // Everything that waited was late and dropped.
            free_ns = now_ns;
        }
        if let Some(error) = observer.failed {
            return Err(error.into());
        }
    }
    Ok(End { end_ns, waiting: scheduler.total_waiting() })
}

/// The next arrival before `until_ns`.
fn take(feed: &mut dyn Feed, until_ns: u64) -> Result<Option<Arrival>, TrafficError> {
    Ok(feed.next_arrival()?.filter(|arrival| arrival.time_ns < until_ns))
}

/// A tag for packets whose frame is not kept.
const NO_FRAME: u64 = u64::MAX;

/// Passes on what happens, each departure with its captured frame.
struct Teller<'a, L> {
    listener: &'a mut L,
    frames: Slab<Box<FrameBytes>>,
    failed: Option<io::Error>,
}

impl<L: Listener> Teller<'_, L> {
    fn keep(&mut self, frame: Option<Box<FrameBytes>>) -> u64 {
        frame.map_or(NO_FRAME, |frame| self.frames.insert(frame) as u64)
    }

    fn tell(&mut self, departure: &Departure) {
        let key = usize::try_from(departure.tag).unwrap_or(usize::MAX);
        let frame = self.frames.try_remove(key);
        if let Err(error) = self.listener.departed(departure, frame.as_deref()) {
            self.failed.get_or_insert(error);
        }
    }
}

impl<L: Listener> Observer for Teller<'_, L> {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        self.listener.missed(stream, now_ns, missed, violations);
    }

    fn dropped(&mut self, departure: &Departure) {
        self.tell(departure);
    }
}
