//! Runs on simulated hardware: the scheduler with `structure = "rtl"`, the card and its host with
//! `realisation = "end-system"`.

use std::ops::{Deref, DerefMut};

use miette::miette;
use millstream::catalogue::DynScheduler;
use millstream::{Departure, StreamId};
use millstream_hw::end_system::scenario::Frame;
use millstream_hw::end_system::{self, Cost, EndSystemError, Transfers};
use millstream_hw::rtl::{self, FirstFault};
use millstream_report::{EndSystemSummary, TransferSummary, human};
use millstream_scenario::{EndSystem, Scenario};
use millstream_sim::{End, Listener, RunError};
use millstream_traffic::Feed;
use std::io;

use crate::failure::Failure;

/// A scheduler and its first fault.
pub(crate) struct Backend {
    scheduler: Box<dyn DynScheduler + Send>,
    fault: FirstFault,
}

impl Backend {
    /// Returns the first fault, if any.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.fault.first().map_or(Ok(()), |what| Err(Failure::Run(miette!("{what}"))))
    }
}

impl Deref for Backend {
    type Target = Box<dyn DynScheduler + Send>;

    fn deref(&self) -> &Self::Target {
        &self.scheduler
    }
}

impl DerefMut for Backend {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.scheduler
    }
}

/// Builds the scheduler of a scenario for the hardware core, with its streams.
pub(crate) fn scheduler(scenario: &Scenario) -> Result<Backend, Failure> {
    let (settings, contracts) = end_system::scenario::settings(scenario);
    let (scheduler, fault) =
        rtl::scheduler(settings, &contracts).map_err(|error| Failure::Run(miette!("{error}")))?;
    Ok(Backend { scheduler, fault })
}

/// Forwards events of the host.
struct Host<'a, L>(&'a mut L);

impl<L: Listener> end_system::Listener<Frame> for Host<'_, L> {
    fn arrived(&mut self, stream: StreamId, time_ns: u64, bytes: u32) {
        self.0.arrived(stream, time_ns, bytes);
    }

    fn departed(&mut self, departure: &Departure, frame: Frame) -> io::Result<()> {
        self.0.departed(departure, frame.as_deref())
    }

    fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        self.0.missed(stream, time_ns, missed, violations);
    }

    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        self.0.busy(from_ns, to_ns);
    }

    fn stop(&mut self, now_ns: u64) -> bool {
        self.0.stop(now_ns)
    }
}

/// Runs the scenario on its end-system card.
pub(crate) fn run(
    scenario: &Scenario,
    card: &EndSystem,
    feed: &mut dyn Feed,
    listener: &mut impl Listener,
) -> Result<(End, Cost), BackendError> {
    let end = end_system::scenario::run(scenario, card, feed, &mut Host(listener));
    let end = end.map_err(|error| match error {
        EndSystemError::Arrival(error) => BackendError::Run(error.into()),
        EndSystemError::Output(error) => BackendError::Run(error.into()),
        error => BackendError::Card(error.to_string()),
    })?;
    Ok((End { end_ns: end.end_ns, waiting: end.waiting }, end.cost))
}

/// The reason why a run failed.
pub(crate) enum BackendError {
    /// An input or an output.
    Run(RunError),
    /// A fault of the card.
    Card(String),
}

/// Returns the costs of the card and its bus, for the summary.
pub(crate) fn summary(cost: &Cost) -> EndSystemSummary {
    let transfers = |Transfers { count, bytes, busy_ns }: Transfers| TransferSummary {
        transfers: count,
        bytes,
        busy_ns,
    };
    EndSystemSummary {
        bus: cost.bus.name,
        clock_hz: cost.clock_hz,
        packets: cost.packets,
        decisions: cost.decisions,
        decision_cycles: cost.decision_cycles,
        span_ns: cost.span_ns,
        packets_per_second: cost.rate(),
        bus_packets_per_second: cost.bus_limit(),
        card_packets_per_second: cost.card_limit(),
        bus_busy_ns: cost.busy_ns(),
        arrivals_pulled: transfers(cost.pulls),
        arrivals_written: transfers(cost.writes),
        winners_read: transfers(cost.winners),
        counters_read: transfers(cost.counters),
    }
}

/// Formats the costs as a sentence.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn note(cost: &Cost) -> String {
    let per_packet = |ns: u64| format!("{:.1}", ns as f64 / cost.packets.max(1) as f64);
    let share = 100.0 * cost.busy_ns() as f64 / cost.span_ns.max(1) as f64;
    let rate = |rate: Option<u64>| {
        rate.map_or("unlimited".into(), |rate| format!("{:.2} M packets/s", rate as f64 / 1e6))
    };
    format!(
        "end-system card at {} MHz on {}: bus busy {share:.1} % of {}, {} ns a packet (arrivals \
         pulled {}, pushed or offered {}, winners {}, counters {}); departure rate {}; capacity \
         of the bus {}, of the card {}",
        cost.clock_hz as f64 / 1e6,
        cost.bus.title,
        human::time(cost.span_ns),
        per_packet(cost.busy_ns()),
        per_packet(cost.pulls.busy_ns),
        per_packet(cost.writes.busy_ns),
        per_packet(cost.winners.busy_ns),
        per_packet(cost.counters.busy_ns),
        rate(cost.rate()),
        rate(cost.bus_limit()),
        rate(cost.card_limit()),
    )
}
