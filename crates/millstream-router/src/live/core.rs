//! One core of a router: its ports, processes and scheduler.

use millstream_scenario::{PathAction, PortKind, RouterPort, RouterScenario};
use millstream_sync::clock::tsc::Clock;
use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::PortError;
use crate::ids::{CoreId, IdVec, OutputId, PathId, PortId, ProcessId};
use crate::io::port::Port;
use crate::live::admission::{plan, read_mode};
use crate::live::assemble::{processes, rules};
use crate::live::autorate::Limits;
use crate::live::delay::DelaySources;
use crate::live::extension::Extensions;
use crate::live::idle_detector::IdleDetector;
use crate::live::inter_core::{InterCoreLinks, SharedOccupancy};
use crate::live::machine::{AdaptiveLink, Arrived, LiveMachine};
use crate::live::netlink::Change;
use crate::live::sleep_calibrator::SleepCalibrator;
use crate::live::snapshot::{CoreSnapshot, PathSnapshot, PortSnapshot};
use crate::net::filter::Filters;
use crate::net::pool::{BUFFER_BYTES, Pool};
use crate::router::counters::PathCounters;
use crate::router::machine::{Deferral, Machine, QueueId};
use crate::router::{Router, Step};

/// Steps between checks for a stop.
const STEPS: u32 = 64;
/// Steps between exchanges with other cores.
const EXCHANGE_STEPS: u32 = 16;
/// How long after the last packet a core with links to other cores spins instead of sleeping, ns.
const SPIN_NS: u64 = 20_000;
/// The longest sleep of a core with links to other cores, ns.
const MAX_MULTI_CORE_SLEEP_NS: u64 = 50_000;
/// Buffers for packets from other cores that no queue holds: packets that wait for neighbour
/// resolution, or at ports.
const UNQUEUED_BUFFERS: usize = 1_024;

/// A core's part of a file, loaded.
pub(super) struct Parts {
    pub(super) scenario: RouterScenario,
    /// The reservation of each process, cycles per second.
    pub(super) reserved: IdVec<ProcessId, u64>,
    /// The hardware address of each port.
    pub(super) macs: Vec<[u8; 6]>,
    pub(super) extensions: Extensions,
    pub(super) filters: Filters,
}

/// The result of a round of at most [`STEPS`] steps.
pub(super) struct Round {
    pub(super) now_ns: u64,
    /// The time before which no process becomes eligible without an arrival, ns; `None` if a
    /// process may be eligible now.
    pub(super) idle_until_ns: Option<u64>,
}

/// A core of the router: its ports, processes and scheduler.
pub(super) struct Core {
    number: CoreId,
    paths: usize,
    router: Router<LiveMachine<Box<dyn Port>>>,
    idle_detector: IdleDetector,
    sleep_calibrator: SleepCalibrator,
    arrived: Vec<Arrived>,
}

/// Returns `scenario` without the extensions and proxies of paths on other cores than `core`.
pub(super) fn part_of_core(scenario: &RouterScenario, core: CoreId) -> RouterScenario {
    let mut part = scenario.clone();
    for path in part.paths.iter_mut().filter(|path| path.core != core.0) {
        (path.extension, path.proxy) = (None, None);
    }
    part
}

/// Returns an empty occupancy table with the owners of the paths and ports of `scenario`.
pub(super) fn occupancy(scenario: &RouterScenario) -> Arc<SharedOccupancy> {
    let paths = scenario.paths.iter().map(|path| CoreId(path.core));
    let ports = scenario.ports.iter().map(|port| CoreId(port.core));
    Arc::new(SharedOccupancy::new(paths, ports))
}

/// Returns the number of buffers that packets from other cores may need at `core`.
fn remote_buffers(scenario: &RouterScenario, core: CoreId) -> usize {
    let batches = scenario.batch as usize * scenario.cores;
    let of_path = |path: &millstream_scenario::RouterPath| {
        if path.action == PathAction::Drop {
            return 0;
        }
        let queue = path.queue as usize + batches;
        let here = scenario.ports.iter().filter(|port| port.core == core.0).count();
        // A packet waits for the path's function first, then at any port.
        if path.core == core.0 { queue * (1 + scenario.ports.len()) } else { queue * here }
    };
    UNQUEUED_BUFFERS + batches + scenario.paths.iter().map(of_path).sum::<usize>()
}

impl Core {
    /// Creates core `number` of the router of `parts` on these ports.
    pub(super) fn new(
        number: CoreId,
        parts: Parts,
        ports: Vec<Box<dyn Port>>,
        clock: Clock,
        links: Option<InterCoreLinks>,
    ) -> Result<Self, PortError> {
        let Parts { scenario, reserved, macs, extensions, filters } = parts;
        let (classifier, function) = rules(&scenario, &macs, filters);
        let pool = Pool::new(scenario.buffers);
        let mut machine = LiveMachine::new(clock, pool, classifier, function);
        for ((port, mac), of) in ports.into_iter().zip(macs).zip(&scenario.ports) {
            machine.add(port, mac, of.fastest_link());
        }
        let remote = links.as_ref().map(|links| links.occupancy.remote(number));
        if let Some(links) = links {
            machine.connect_cores(links, remote_buffers(&scenario, number));
        }
        machine.set_extensions(extensions, &[]);
        machine.set_proxies(&scenario, &[]);
        machine.set_paths(&scenario, &[]);
        machine.set_ingress(ingress_links(&scenario));
        machine.set_adaptive_links(&adaptive_links(&scenario, number));
        set_ports(&mut machine, &scenario);
        let mut router = Router::new(&plan(&scenario, &reserved), machine)
            .map_err(|error| PortError::new(&scenario.ports[0].name, error.to_string()))?;
        router.set_read_mode(read_mode(&scenario));
        if let Some(remote) = remote {
            router.set_remote_parts(&remote);
        }
        let (paths, idle_detector, sleep_calibrator) =
            (scenario.paths.len(), IdleDetector::default(), SleepCalibrator::default());
        Ok(Self { number, paths, router, idle_detector, sleep_calibrator, arrived: Vec::new() })
    }

    /// Reloads the configuration; path `n` was path `kept[n]`. Returns the counters of removed
    /// paths.
    pub(super) fn apply_reload(
        &mut self,
        parts: Parts,
        kept: &[Option<PathId>],
        occupancy: Option<&Arc<SharedOccupancy>>,
    ) -> Result<PathCounters, PortError> {
        let Parts { scenario, reserved, macs, extensions, filters } = parts;
        self.router.resume();
        let gone = self.router.reload(&plan(&scenario, &reserved), kept);
        let gone =
            gone.map_err(|error| PortError::new(&scenario.ports[0].name, error.to_string()))?;
        self.router.set_read_mode(read_mode(&scenario));
        let (classifier, function) = rules(&scenario, &macs, filters);
        let machine = self.router.machine_mut();
        machine.reconfigure(classifier, function);
        machine.set_extensions(extensions, kept);
        machine.set_proxies(&scenario, kept);
        machine.set_paths(&scenario, kept);
        for (at, port) in scenario.ports.iter().enumerate() {
            machine.set_link(PortId(at), port.fastest_link());
        }
        machine.set_adaptive_links(&adaptive_links(&scenario, self.number));
        set_ports(machine, &scenario);
        self.paths = scenario.paths.len();
        if let Some(occupancy) = occupancy {
            self.move_occupancy(&scenario, occupancy);
        }
        Ok(gone)
    }

    /// Moves the occupancy of queues fed by other cores to a reloaded file's table.
    fn move_occupancy(&mut self, scenario: &RouterScenario, occupancy: &Arc<SharedOccupancy>) {
        let remote = occupancy.remote(self.number);
        let buffers = remote_buffers(scenario, self.number);
        self.router.machine_mut().set_occupancy(occupancy, buffers);
        self.router.set_remote_parts(&remote);
        for path in remote.paths.ids() {
            if !remote.paths[path] {
                let queued = self.router.queued(path);
                let from_remote = queued.filter(|packet| Pool::from_remote(*packet));
                occupancy.set(QueueId::Path(path), from_remote.count());
                continue;
            }
            for output in remote.outputs.ids().filter(|output| !remote.outputs[*output]) {
                let waiting = self.router.waiting_at(path, output);
                occupancy.set(QueueId::Output { path, output }, waiting);
            }
        }
    }

    /// Applies changes of the kernel's tables.
    pub(super) fn kernel_changed(&mut self, changes: &[Change]) {
        self.router.machine_mut().kernel_changed(changes);
    }

    /// Starts the threads that ports may need later.
    pub(super) fn prepare(&mut self) -> Result<(), PortError> {
        self.each_port(Port::prepare)
    }

    /// Flushes every port: transmitted packets reach their device or file.
    pub(super) fn flush(&mut self) -> Result<(), PortError> {
        self.each_port(Port::flush)
    }

    fn each_port(
        &mut self,
        mut what: impl FnMut(&mut Box<dyn Port>) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        let (ports, ..) = self.router.sizes();
        (0..ports).try_for_each(|port| what(self.router.machine_mut().port_mut(PortId(port))))
    }

    /// Begins or resumes forwarding; returns the time, ns.
    pub(super) fn begin(&mut self) -> u64 {
        // The default timer slack of 50 µs is as long as a whole sleep. Failure only adds latency.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        self.router.machine_mut().reset_steal_sample();
        self.router.resume();
        let now_ns = self.router.machine_mut().now_ns();
        self.idle_detector.ended(now_ns);
        now_ns
    }

    /// Stops receiving.
    pub(super) fn close(&mut self) {
        self.router.machine_mut().close();
    }

    /// Returns whether no port will receive packets any more.
    pub(super) fn ended(&self) -> bool {
        self.router.machine().ended()
    }

    /// Returns whether no packet is queued on this core or in flight from it.
    pub(super) fn is_empty(&self) -> bool {
        let (_, paths, outputs) = self.router.sizes();
        (0..paths).all(|path| self.router.waiting(PathId(path)) == (0, 0))
            && (0..outputs).all(|output| self.router.staged(OutputId(output)) == 0)
            && self.router.machine().remote_cores().links_are_empty()
    }

    /// Exchanges packets with other cores; returns whether any arrived.
    fn exchange(&mut self) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.router.machine_mut().exchange(&mut arrived);
        let any = !arrived.is_empty();
        for of in arrived.drain(..) {
            self.router.arrived(of.queue, of.packet, of.refused);
        }
        self.arrived = arrived;
        self.router.refresh_remote_queues();
        any
    }

    /// Exchanges packets with other cores while no core forwards. Returns whether no packet arrived
    /// and none is in flight.
    pub(super) fn drain_links(&mut self) -> bool {
        self.router.machine_mut().grow_remote_buffers();
        !self.exchange() && self.router.machine().remote_cores().links_are_empty()
    }

    /// Runs at most [`STEPS`] steps; stops at the first idle one.
    pub(super) fn round(&mut self) -> Result<Round, PortError> {
        let multi_core = self.router.machine().remote_cores().is_multi_core();
        let (mut idle_until_ns, mut moved) = (None, false);
        for step in 0..STEPS {
            if multi_core && step % EXCHANGE_STEPS == 0 {
                moved |= self.exchange();
            }
            match self.router.step() {
                Step::Ran(_, packets) => moved |= packets > 0,
                Step::Idle { until_ns } => {
                    idle_until_ns = Some(until_ns);
                    break;
                }
            }
        }
        let machine = self.router.machine_mut();
        if multi_core {
            machine.publish_ports();
        }
        if let Some(error) = machine.failure() {
            return Err(error);
        }
        let now_ns = machine.now_ns();
        machine.adapt_rates(now_ns);
        if moved {
            self.idle_detector.ended(now_ns);
        }
        Ok(Round { now_ns, idle_until_ns })
    }

    /// Waits from `now_ns` until `until_ns` or `end_ns`, or until a packet arrives. Call it if no
    /// process is eligible.
    pub(super) fn rest(&mut self, now_ns: u64, until_ns: u64, end_ns: u64) {
        if self.router.machine().remote_cores().is_multi_core() && self.exchange() {
            return self.router.resume();
        }
        let may_sleep_ns = if self.idle_detector.is_long(now_ns) && self.is_empty() {
            let due_ns = (0..self.paths).map(|path| self.router.machine().due_ns(PathId(path)));
            due_ns.min().unwrap_or(u64::MAX).min(end_ns).saturating_sub(now_ns)
        } else {
            0
        };
        if self.idle_detector.wait(self.router.machine_mut(), now_ns, may_sleep_ns)
            || self.wait(now_ns, until_ns.min(end_ns).saturating_sub(now_ns))
        {
            self.router.machine_mut().reset_steal_sample();
        }
        self.router.resume();
    }

    /// Sleeps or spins for at most `for_ns`; returns whether the thread slept.
    fn wait(&mut self, now_ns: u64, for_ns: u64) -> bool {
        let machine = self.router.machine();
        let (for_ns, soon) = match machine.remote_cores().waker() {
            // Packets from other cores arrive in bursts: it spins for a while after each.
            Some(_) => {
                (for_ns.min(MAX_MULTI_CORE_SLEEP_NS), self.idle_detector.for_ns(now_ns) <= SPIN_NS)
            }
            None => (for_ns, false),
        };
        // An idle core prefers a late wake-up to spinning.
        let idle = self.idle_detector.is_long(now_ns);
        let asked_ns = if soon { None } else { self.sleep_calibrator.length_ns(for_ns, idle) };
        let Some(asked_ns) = asked_ns else {
            std::hint::spin_loop();
            return false;
        };
        let began_ns = machine.clock_ns();
        let (slept, in_time) = match machine.remote_cores().waker() {
            None => {
                thread::sleep(Duration::from_nanos(asked_ns));
                (true, true)
            }
            Some(waker) => {
                let sleeps = machine.remote_cores().begin_sleep();
                let woken = sleeps && waker.wait(asked_ns);
                machine.remote_cores().end_sleep();
                (sleeps, sleeps && !woken)
            }
        };
        if in_time {
            let took_ns = self.router.machine().clock_ns() - began_ns;
            self.sleep_calibrator.record_sleep(asked_ns, took_ns);
        }
        slept
    }

    /// Returns whether commands for this core are pending; clears the flag.
    pub(super) fn command_pending(&self) -> bool {
        self.router.machine().remote_cores().waker().is_some_and(|waker| waker.command_pending())
    }

    /// Returns the longest frame of each port, bytes: at most a buffer.
    pub(super) fn longest_bytes(&mut self) -> Vec<u32> {
        let (ports, ..) = self.router.sizes();
        let machine = self.router.machine_mut();
        let buffer = u32::try_from(BUFFER_BYTES).unwrap_or(u32::MAX);
        (0..ports).map(|port| machine.port_mut(PortId(port)).longest_bytes().min(buffer)).collect()
    }

    /// Returns the counters of this core.
    pub(super) fn snapshot(&mut self, scenario: &RouterScenario) -> CoreSnapshot {
        let router = &mut self.router;
        let mut ports = Vec::new();
        for (at, of) in scenario.ports.iter().enumerate() {
            let at = PortId(at);
            let counters = router.machine().counters(at);
            let nat = if CoreId(of.core) == self.number {
                router.machine().nat_counters(at)
            } else {
                None
            };
            let refused_source = router.machine().dropped_source(at);
            let port = router.machine_mut().port_mut(at);
            let (unknown_vlan, went_away, away) =
                (port.unknown_vlan(), port.times_down(), port.is_down());
            let lost = port.lost();
            let unclassified = router.input(at.into()).unclassified;
            ports.push(PortSnapshot {
                counters,
                unclassified,
                unknown_vlan,
                went_away,
                away,
                lost,
                nat,
                refused_source,
                adapted: router.machine().adapted_rate(at),
            });
        }
        let paths = (0..self.paths).map(PathId).map(|at| PathSnapshot {
            counters: router.path(at),
            waiting: router.waiting(at),
            extension: router.machine().extension_counters(at),
            proxy: router.machine().proxy_counters(at),
            delays: DelaySources(router.machine().delays(at).cloned().into_iter().collect()),
            rtts: DelaySources(router.machine().rtts(at).cloned().into_iter().collect()),
        });
        let paths = paths.collect();
        let (inputs, all_paths, outputs) = router.sizes();
        let mut used = IdVec::repeat(Default::default(), inputs + all_paths + outputs);
        for (_, process, number) in processes(scenario) {
            used[number] = router.used(process);
        }
        let staged = (0..outputs).map(|output| router.staged(OutputId(output)) as u64).sum();
        CoreSnapshot { ports, paths, processes: used, staged }
    }
}

/// Returns the ingress link of each port; empty if no port has one.
fn ingress_links(scenario: &RouterScenario) -> IdVec<PortId, Option<OutputId>> {
    if !scenario.ports.iter().any(RouterPort::is_ingress) {
        return IdVec::new();
    }
    let link_of = |port| {
        let is_of = |other: &RouterPort| other.kind == PortKind::Ingress(port);
        scenario.ports.iter().position(is_of).map(OutputId)
    };
    (0..scenario.ports.len()).map(link_of).collect()
}

/// Returns the adaptive links of core `number`.
fn adaptive_links(scenario: &RouterScenario, number: CoreId) -> Vec<AdaptiveLink> {
    let of_core = |(_, port): &(usize, &RouterPort)| port.core == number.0;
    let ports = scenario.ports.iter().enumerate().filter(of_core);
    let adaptive = ports.filter_map(|(at, port)| {
        let limits = port.autorate.as_ref()?;
        let line = if let PortKind::Ingress(of) = port.kind { of } else { at };
        Some(AdaptiveLink {
            port: PortId(at),
            line: PortId(line),
            limits: Limits {
                min_bps: limits.min_bps,
                base_bps: port.link.rate_bps,
                max_bps: limits.max_bps,
                delay_ns: limits.delay_ns,
            },
        })
    });
    adaptive.collect()
}

/// Sets the configured addresses, bursts and address translation of every port.
fn set_ports(machine: &mut LiveMachine<Box<dyn Port>>, scenario: &RouterScenario) {
    for (at, port) in scenario.ports.iter().enumerate() {
        let at = PortId(at);
        machine.set_address(at, port.addresses.iter().copied());
        machine.set_line_burst(at, port.line_burst_ns);
        machine.set_nat(at, port.nat.as_ref());
    }
}
