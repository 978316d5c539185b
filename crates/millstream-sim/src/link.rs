//! One link, simulated exactly.
//!
//! ```text
//! feed ── arrivals up to now ──> scheduler ── decision at now ──> link busy until now + L/r
//! ```
//!
//! A decision is made whenever the link is free and a packet waits; time then jumps to the end of
//! the transmission, or, if nothing waits, to the next arrival. At one instant: end of
//! transmission, credit returns, arrivals, decision. A transmission takes ceil((bytes + overhead) ×
//! 8 × 10⁹ / rate) ns; the link never idles while a packet waits that may be sent.
//!
//! Where all that waits is held back by a rate cap or for lack of credits, time jumps to whatever
//! comes first: an arrival, credits, the cap's leave. Credits of a packet come back a fixed time
//! after its transmission, so they come back in the order in which packets were sent.

use std::collections::VecDeque;

use millstream::catalogue::DynScheduler;
use millstream::{CREDIT_BYTES, Departure, Observer, Packet, StreamId};
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
    /// Packets still waiting; 0 unless the listener stopped the run, or they lack credits that
    /// never come.
    pub waiting: u64,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input is unreadable or malformed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The scenario asks for the hardware.
    #[error("structure rtl is run by the command: `millstream run FILE`")]
    Hardware,
    /// The listener could not write.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Runs `scenario` on its link with the packets of `feed` until all have left.
///
/// # Errors
/// The first unreadable input or failing output; what happened before has been told. A scenario
/// with structure `rtl`, whose scheduler is to be brought to [`run_on`].
pub fn run(
    scenario: &Scenario,
    feed: &mut dyn Feed,
    listener: &mut impl Listener,
) -> Result<End, RunError> {
    if scenario.hardware {
        return Err(RunError::Hardware);
    }
    run_on(scenario, scenario.scheduler().as_mut(), feed, listener)
}

/// The same with a scheduler of the caller's, which has the scenario's streams.
///
/// # Errors
/// As there.
pub fn run_on(
    scenario: &Scenario,
    scheduler: &mut (dyn DynScheduler + Send),
    feed: &mut dyn Feed,
    listener: &mut impl Listener,
) -> Result<End, RunError> {
    let mut observer = EventSink { listener, frames: Slab::new(), failed: None };
    let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let mut next = take(feed, until_ns)?;
    let mut returns = Returns::default();
    let (mut free_ns, mut end_ns) = (0, 0);
    loop {
        let now_ns = match &next {
            _ if scheduler.total_waiting() > 0 => free_ns,
            Some(arrival) => {
                if arrival.time_ns > free_ns {
                    // The link is free and nothing waits: a busy period is over.
                    scheduler.decide(free_ns, &mut observer);
                }
                free_ns.max(arrival.time_ns)
            }
            None => break,
        };
        loop {
            let arrival_ns = next.as_ref().map_or(u64::MAX, |arrival| arrival.time_ns);
            returns.until(arrival_ns.min(now_ns), scheduler);
            let Some(arrival) = next.take_if(|arrival| arrival.time_ns <= now_ns) else { break };
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
            if let Some(credits) = scenario.link.credits {
                returns.expect(free_ns.saturating_add(credits.return_delay_ns), &departure);
            }
            observer.listener.busy(now_ns, free_ns);
            observer.tell(&departure);
        } else if scheduler.total_waiting() > 0 {
            // All that waits is held back, until something happens or for ever.
            let events = [
                next.as_ref().map(|arrival| arrival.time_ns),
                returns.next_ns(),
                scheduler.next_eligible_ns(),
            ];
            match events.into_iter().flatten().min() {
                Some(event_ns) => free_ns = event_ns.max(now_ns),
                None => break,
            }
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

/// Credits on their way back, by the time they arrive.
#[derive(Default)]
struct Returns(VecDeque<(u64, StreamId, u64)>);

impl Returns {
    /// The packet's credits come back at `time_ns`, no earlier than any before.
    fn expect(&mut self, time_ns: u64, departure: &Departure) {
        let credits = u64::from(departure.bytes.div_ceil(CREDIT_BYTES));
        self.0.push_back((time_ns, departure.stream, credits));
    }

    fn next_ns(&self) -> Option<u64> {
        self.0.front().map(|credits| credits.0)
    }

    /// Hands over what is back by `time_ns`.
    #[inline]
    fn until(&mut self, time_ns: u64, scheduler: &mut (dyn DynScheduler + Send)) {
        while let Some((back_ns, stream, credits)) = self.0.pop_front_if(|c| c.0 <= time_ns) {
            scheduler.add_credits(back_ns, stream, credits);
        }
    }
}

/// The next arrival before `until_ns`.
fn take(feed: &mut dyn Feed, until_ns: u64) -> Result<Option<Arrival>, TrafficError> {
    Ok(feed.next_arrival()?.filter(|arrival| arrival.time_ns < until_ns))
}

/// A tag for packets whose frame is not kept.
const NO_FRAME: u64 = u64::MAX;

/// Passes on what happens, each departure with its captured frame.
struct EventSink<'a, L> {
    listener: &'a mut L,
    frames: Slab<Box<FrameBytes>>,
    failed: Option<io::Error>,
}

impl<L: Listener> EventSink<'_, L> {
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

impl<L: Listener> Observer for EventSink<'_, L> {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        self.listener.missed(stream, now_ns, missed, violations);
    }

    fn dropped(&mut self, departure: &Departure) {
        self.tell(departure);
    }
}
