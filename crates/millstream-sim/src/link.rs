//! An exact simulation of one link.
//!
//! ```text
//! feed ── arrivals up to now ──> scheduler ── decision at now ──> link busy until now + L/r
//! ```
//!
//! The scheduler decides whenever the link is idle and has a backlog. Time then advances to the end
//! of the transmission or, with an empty backlog, to the next arrival. Events of one instant are
//! processed in this order: end of transmission, credit returns, arrivals, decision. A transmission
//! takes ceil((bytes + overhead) × 8 × 10⁹ / rate) ns. The link never idles while an eligible
//! packet waits.
//!
//! If rate caps or missing credits hold back the whole backlog, time advances to the next event: an
//! arrival, a credit return, or an eligible time under a cap. A packet's credits return a fixed
//! time after its transmission, so credits return in transmission order.

use std::collections::VecDeque;

use millstream::catalogue::DynScheduler;
use millstream::{CREDIT_BYTES, Departure, Observer, Packet, StreamId};
use millstream_scenario::Scenario;
use millstream_traffic::{Arrival, Feed, FrameBytes, TrafficError};
use slab::Slab;
use std::io;

use crate::network::{self, NetworkReport};

/// An observer of a run; its methods are called in the order of events.
pub trait Listener {
    /// Called when a packet arrives, even if its queue is full and the packet is dropped.
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        let _ = (stream, time_ns, bytes);
    }

    /// Called when a packet's service starts or the packet is dropped. `frame` holds its captured
    /// bytes if the feed keeps them.
    ///
    /// # Errors
    /// An error ends the run.
    fn departed(&mut self, departure: &Departure, frame: Option<&FrameBytes>) -> io::Result<()> {
        let _ = (departure, frame);
        Ok(())
    }

    /// Called when `missed` deadlines were missed; `violations` of them exceed the window's losses.
    fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, time_ns, missed, violations);
    }

    /// Called when the link transmits from `from_ns` to `to_ns`.
    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        let _ = (from_ns, to_ns);
    }

    /// Called in a network when a source has measured a round trip.
    fn round_trip(&mut self, stream: StreamId, now_ns: u64, rtt_ns: u64) {
        let _ = (stream, now_ns, rtt_ns);
    }

    /// Called in a network when a receiver has got `bytes` of new data, without headers, on
    /// connection `member` of a stream. A client's connections, and those of transfers that do not
    /// wait for others, count as one.
    fn delivered(&mut self, stream: StreamId, member: u32, now_ns: u64, bytes: u64) {
        let _ = (stream, member, now_ns, bytes);
    }

    /// Called at the end of the run of a network.
    fn network(&mut self, report: NetworkReport) {
        let _ = report;
    }

    /// Called before each decision; `true` ends the run at this point, even with a backlog.
    fn stop(&mut self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }
}

/// The result of a completed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// Packets still waiting. It is 0 unless the listener stopped the run, or the packets need
    /// credits that never return.
    pub waiting: u64,
}

/// The reason a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input is unreadable or malformed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The scenario selects the hardware backend, which only the command line runs.
    #[error("structure rtl is supported only on the command line: `millstream run FILE`")]
    Hardware,
    /// The listener failed to write.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Runs `scenario` on its link until all packets of `feed` have departed; a scenario with a network
/// by [`network::run`].
///
/// # Errors
/// Returns the first unreadable input or failed output; the listener has received all earlier
/// events. Rejects a scenario with structure `rtl`: pass its scheduler to [`run_on`] instead.
pub fn run(
    scenario: &Scenario,
    feed: &mut dyn Feed,
    listener: &mut dyn Listener,
) -> Result<End, RunError> {
    if scenario.hardware {
        return Err(RunError::Hardware);
    }
    if let Some(network) = &scenario.network {
        return network::run(scenario, network, feed, listener);
    }
    run_on(scenario, scenario.scheduler().as_mut(), feed, listener)
}

/// Runs `scenario` like [`run`], on a scheduler that already has the scenario's streams.
///
/// # Errors
/// See [`run`]; structure `rtl` is accepted.
pub fn run_on(
    scenario: &Scenario,
    scheduler: &mut (dyn DynScheduler + Send),
    feed: &mut dyn Feed,
    listener: &mut dyn Listener,
) -> Result<End, RunError> {
    let mut observer = EventSink { listener, frames: Slab::new(), failed: None };
    let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let mut next = None;
    next_before(feed, until_ns, &mut next)?;
    let mut returns = CreditReturns::default();
    let (mut free_ns, mut end_ns) = (0, 0);
    // Many packets are as long as the one before.
    let (mut last_bytes, mut last_ns) = (0, scenario.link.transmission_ns(0));
    loop {
        let now_ns = match &next {
            _ if scheduler.total_waiting() > 0 => free_ns,
            Some(arrival) => {
                if arrival.time_ns > free_ns {
                    // The link is idle with an empty backlog: this call ends the busy period.
                    scheduler.decide(free_ns, &mut observer);
                }
                free_ns.max(arrival.time_ns)
            }
            None => break,
        };
        loop {
            let arrival_ns = next.as_ref().map_or(u64::MAX, |arrival| arrival.time_ns);
            returns.deliver_until(arrival_ns.min(now_ns), scheduler);
            let Some(arrival) = next.as_mut().filter(|arrival| arrival.time_ns <= now_ns) else {
                break;
            };
            let (time_ns, stream, bytes) =
                (arrival.time_ns, StreamId(arrival.stream), arrival.bytes);
            observer.listener.arrived(stream, time_ns, bytes);
            let packet = Packet { bytes, tag: observer.keep(arrival.frame.take()) };
            if let Err(full) = scheduler.enqueue(time_ns, stream, packet) {
                observer.report_departure(&full);
            }
            next_before(feed, until_ns, &mut next)?;
        }
        if observer.listener.stop(now_ns) {
            break;
        }
        // By reference: a copy right after the write stalls the processor.
        if let Some(departure) = &scheduler.decide(now_ns, &mut observer) {
            if departure.bytes != last_bytes {
                last_bytes = departure.bytes;
                last_ns = scenario.link.transmission_ns(last_bytes);
            }
            free_ns = now_ns.saturating_add(last_ns);
            end_ns = free_ns;
            if let Some(credits) = scenario.link.credits {
                returns.schedule(free_ns.saturating_add(credits.return_delay_ns), departure);
            }
            observer.listener.busy(now_ns, free_ns);
            observer.report_departure(departure);
        } else if scheduler.total_waiting() > 0 {
            // No packet is eligible: wait for the next event, or end if there is none.
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
            // The whole backlog was late and has been dropped.
            free_ns = now_ns;
        }
        if let Some(error) = observer.failed {
            return Err(error.into());
        }
    }
    Ok(End { end_ns, waiting: scheduler.total_waiting() })
}

/// Credits in flight back to the sender, in order of arrival time.
#[derive(Default)]
struct CreditReturns(VecDeque<(u64, StreamId, u64)>);

impl CreditReturns {
    /// Schedules the return of a packet's credits at `time_ns`; times must not decrease.
    fn schedule(&mut self, time_ns: u64, departure: &Departure) {
        let credits = u64::from(departure.bytes.div_ceil(CREDIT_BYTES));
        self.0.push_back((time_ns, departure.stream, credits));
    }

    fn next_ns(&self) -> Option<u64> {
        self.0.front().map(|credits| credits.0)
    }

    /// Gives the scheduler all credits that return by `time_ns`.
    #[inline]
    fn deliver_until(&mut self, time_ns: u64, scheduler: &mut (dyn DynScheduler + Send)) {
        while let Some((back_ns, stream, credits)) = self.0.pop_front_if(|c| c.0 <= time_ns) {
            scheduler.add_credits(back_ns, stream, credits);
        }
    }
}

/// Replaces `next` by the next arrival before `until_ns`, or by `None`.
#[inline]
pub(crate) fn next_before(
    feed: &mut dyn Feed,
    until_ns: u64,
    next: &mut Option<Arrival>,
) -> Result<(), TrafficError> {
    feed.next_into(next)?;
    if next.as_ref().is_some_and(|arrival| arrival.time_ns >= until_ns) {
        *next = None;
    }
    Ok(())
}

/// The tag of a packet without a captured frame.
const NO_FRAME: u64 = u64::MAX;

/// Forwards scheduler events to the listener, each departure with its captured frame.
struct EventSink<'a> {
    listener: &'a mut dyn Listener,
    frames: Slab<Box<FrameBytes>>,
    failed: Option<io::Error>,
}

impl EventSink<'_> {
    fn keep(&mut self, frame: Option<Box<FrameBytes>>) -> u64 {
        frame.map_or(NO_FRAME, |frame| self.frames.insert(frame) as u64)
    }

    fn report_departure(&mut self, departure: &Departure) {
        let key = usize::try_from(departure.tag).unwrap_or(usize::MAX);
        let frame = self.frames.try_remove(key);
        if let Err(error) = self.listener.departed(departure, frame.as_deref()) {
            self.failed.get_or_insert(error);
        }
    }
}

impl Observer for EventSink<'_> {
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        self.listener.missed(stream, now_ns, missed, violations);
    }

    fn dropped(&mut self, departure: &Departure) {
        self.report_departure(departure);
    }
}
