//! Per-core counter snapshots and their sum.

use millstream_scenario::RouterScenario;

use crate::ids::{IdVec, ProcessId};
use crate::live::assemble::processes;
use crate::live::delay::DelaySources;
use crate::live::extension::ExtensionCounters;
use crate::live::machine::PortCounters;
use crate::live::report::{Ended, PathReport, PortReport, ProcessReport, Report};
use crate::net::nat::NatCounters;
use crate::proxy::ProxyCounters;
use crate::router::Process;
use crate::router::counters::{PathCounters, ProcessCounters};

/// A core's counters of a port. Cores other than the port's own only have `refused_source`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortSnapshot {
    pub(crate) counters: PortCounters,
    /// Received packets of no path, including unusable ones and packets for the router.
    pub(crate) unclassified: u64,
    pub(crate) unknown_vlan: u64,
    pub(crate) went_away: u64,
    pub(crate) away: bool,
    pub(crate) lost: u64,
    /// The counters of the port's NAT; `None` on other cores.
    pub(crate) nat: Option<NatCounters>,
    /// Packets for the port that this core refused for their source.
    pub(crate) refused_source: u64,
    /// The rate of a link that adapts, bits/s, and the delay beyond its line, ns; `None` on other
    /// cores.
    pub(crate) adapted: Option<(u64, Option<u64>)>,
}

/// A core's counters of a path. A packet may be received on one core and sent on another.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSnapshot {
    pub(crate) counters: PathCounters,
    /// The packets that wait before the path's function, and those that wait after it.
    pub(crate) waiting: (usize, usize),
    pub(crate) extension: Option<ExtensionCounters>,
    pub(crate) proxy: Option<ProxyCounters>,
    pub(crate) delays: DelaySources,
    /// The round-trip times of TCP handshakes.
    pub(crate) rtts: DelaySources,
}

/// The counters of a core, or the sum of several cores.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreSnapshot {
    pub(crate) ports: Vec<PortSnapshot>,
    pub(crate) paths: Vec<PathSnapshot>,
    /// The counters of all processes, in the router's order.
    pub(crate) processes: IdVec<ProcessId, ProcessCounters>,
    /// Packets that outputs have selected and ports have not taken.
    pub(crate) staged: u64,
}

impl CoreSnapshot {
    /// Adds the counters of another core of the router.
    pub(crate) fn add(&mut self, other: Self) {
        for (port, other) in self.ports.iter_mut().zip(other.ports) {
            let PortCounters { received, unusable, for_router, transmitted, originated } =
                other.counters;
            port.counters.received += received;
            port.counters.unusable += unusable;
            port.counters.for_router += for_router;
            port.counters.transmitted += transmitted;
            port.counters.originated += originated;
            port.unclassified += other.unclassified;
            port.unknown_vlan += other.unknown_vlan;
            port.went_away += other.went_away;
            port.away |= other.away;
            port.lost += other.lost;
            port.nat = port.nat.or(other.nat);
            port.refused_source += other.refused_source;
            port.adapted = port.adapted.or(other.adapted);
        }
        for (path, other) in self.paths.iter_mut().zip(other.paths) {
            path.counters.add(&other.counters);
            path.waiting.0 += other.waiting.0;
            path.waiting.1 += other.waiting.1;
            path.extension = path.extension.or(other.extension);
            path.proxy = path.proxy.or(other.proxy);
            path.delays.0.extend(other.delays.0);
            path.rtts.0.extend(other.rtts.0);
        }
        for (process, other) in self.processes.iter_mut().zip(other.processes) {
            process.runs += other.runs;
            process.packets += other.packets;
            process.busy_ns += other.busy_ns;
        }
        self.staged += other.staged;
    }
}

/// The bounds on the delay of a path, ns: at its links, and from reception to transmission.
#[derive(Clone, Copy, Default)]
pub(crate) struct PathBounds {
    pub(crate) link_ns: Option<u64>,
    pub(crate) end_to_end_ns: Option<u64>,
}

/// The data of a report that snapshots do not have.
pub(crate) struct ReportContext<'a> {
    pub(crate) scenario: &'a RouterScenario,
    /// The bounds on the delay of each path.
    pub(crate) bounds: &'a [PathBounds],
    /// The reservation of each process, cycles per second.
    pub(crate) reserved: &'a IdVec<ProcessId, u64>,
    /// The CPU's cycles per second.
    pub(crate) frequency: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) ended: Ended,
    pub(crate) reloads: u64,
    pub(crate) removed: Option<PathCounters>,
}

/// Builds a report from the sum of all cores' snapshots.
pub(crate) fn report(of: &ReportContext, snapshot: CoreSnapshot) -> Report {
    let scenario = of.scenario;
    let ports = scenario.ports.iter().zip(snapshot.ports).map(|(port, snapshot)| {
        let counters = snapshot.counters;
        // The machine counts packets that the port itself dropped as unusable, too.
        let unsupported = counters.unusable.saturating_sub(snapshot.unknown_vlan);
        PortReport {
            name: port.name.clone(),
            // An ingress link receives what it passes on.
            received: if port.is_ingress() { counters.transmitted } else { counters.received },
            unclassified: snapshot.unclassified - counters.unusable - counters.for_router,
            unsupported,
            unknown_vlan: snapshot.unknown_vlan,
            for_router: counters.for_router,
            transmitted: counters.transmitted,
            originated: counters.originated,
            went_away: snapshot.went_away,
            away: snapshot.away,
            lost_by_device: snapshot.lost,
            rate_bps: snapshot.adapted.map_or(port.link.rate_bps, |(rate_bps, _)| rate_bps),
            line_delay_ns: snapshot.adapted.and_then(|(_, delay_ns)| delay_ns),
            nat: snapshot
                .nat
                .map(|nat| NatCounters { refused_source: snapshot.refused_source, ..nat }),
        }
    });
    let ports: Vec<_> = ports.collect();
    let paths = scenario.paths.iter().zip(of.bounds).zip(snapshot.paths);
    let paths = paths.map(|((path, bounds), snapshot)| PathReport {
        link_delay_bound_ns: bounds.link_ns,
        delay_bound_ns: bounds.end_to_end_ns,
        ..path_report(&path.name, snapshot)
    });
    let removed = of.removed.map(|counters| {
        path_report("(removed)", PathSnapshot { counters, ..PathSnapshot::default() })
    });
    let paths: Vec<_> = paths.chain(removed).collect();
    let processes = processes(scenario).into_iter().map(|(name, process, number)| {
        let used = snapshot.processes[number];
        let cycles = u128::from(used.busy_ns) * u128::from(of.frequency);
        let cycles = cycles / u128::from(of.elapsed_ns.max(1));
        let core = match process {
            Process::Input(input) => scenario.ports[input.0].core,
            Process::Output(output) => scenario.ports[output.0].core,
            Process::Forward(path) => scenario.paths[path.0].core,
        };
        ProcessReport {
            name,
            core,
            reserved_cycles: of.reserved[number],
            used_cycles: u64::try_from(cycles).unwrap_or(u64::MAX),
            busy_ns: used.busy_ns,
            runs: used.runs,
            packets: used.packets,
        }
    });
    let processes = processes.collect();
    let unaccounted = Report::count_unaccounted(&ports, &paths, snapshot.staged);
    let router = scenario.name.clone();
    let (elapsed_ns, ended, reloads) = (of.elapsed_ns, of.ended, of.reloads);
    Report { router, elapsed_ns, ended, ports, paths, reloads, processes, unaccounted }
}

fn path_report(name: &str, of: PathSnapshot) -> PathReport {
    let (counters, (before, after)) = (of.counters, of.waiting);
    PathReport {
        name: name.to_owned(),
        received: counters.received,
        dropped_by_action: counters.dropped_by_action,
        dropped_full: counters.dropped_full,
        dropped_by_function: counters.dropped_by_function,
        dropped_wrong_output: counters.dropped_wrong_output,
        dropped_late: counters.dropped_late,
        dropped_by_aqm: counters.dropped_by_aqm,
        dropped_from_longest: counters.dropped_from_longest,
        marked: counters.marked,
        dropped_by_reload: counters.dropped_by_reload,
        sent: counters.sent,
        sent_bytes: counters.sent_bytes,
        queued: (before + after) as u64,
        at_links: after as u64,
        made: counters.made,
        consumed: counters.consumed,
        extension: of.extension,
        proxy: of.proxy,
        delay: None,
        recent_delay: None,
        link_delay_bound_ns: None,
        delay_bound_ns: None,
        delay_sources: of.delays,
        tcp_rtt: None,
        rtt_sources: of.rtts,
    }
}
