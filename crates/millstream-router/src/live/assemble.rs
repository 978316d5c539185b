//! Builds, runs and reloads the router of a validated file.

use millstream_scenario::{NextHop, PathAction, PortKind, RouterPath, RouterPort, RouterScenario};
use millstream_sync::clock::tsc::Clock;
use std::sync::Arc;
use std::{fs, io};

use crate::error::PortError;
use crate::ids::{CoreId, IdVec, InputId, OutputId, PathId, PortId, ProcessId};
use crate::io::capture::CapturePort;
use crate::io::ingress::IngressPort;
use crate::io::interface::{InterfacePort, xdp_conflict};
use crate::io::port::Port;
use crate::io::tap::TapPort;
use crate::io::tun::{self, TunPort};
use crate::io::vlan::open_ports;
use crate::live::admission::admit;
use crate::live::control::{Control, LoadedScenario};
use crate::live::core::{Core, Parts, occupancy, part_of_core};
use crate::live::cores::{Worker, pin, processors};
use crate::live::extension::Extensions;
use crate::live::inter_core::{InterCoreLinks, RemotePort, RemotePortState, SharedOccupancy};
use crate::live::netlink;
use crate::live::path_delay::path_delays_ns;
use crate::live::report::{Ended, Report};
use crate::live::snapshot::{PathBounds, ReportContext, report};
use crate::net::classifier::Classifier;
use crate::net::fib::{self, Routes};
use crate::net::filter::Filters;
use crate::net::forwarder::Forwarder;
use crate::router::Process;
use crate::router::counters::PathCounters;

/// The longest time that queues drain at the end, ns.
const DRAIN_NS: u64 = 1_000_000_000;
/// The interval at which draining checks whether the other cores are empty, ns.
const DRAINED_NS: u64 = 200_000;
/// The most changes of the kernel's tables that a running router applies at once.
const CHANGES: usize = 1_024;

/// A router on real ports.
pub struct LiveRouter {
    scenario: RouterScenario,
    /// The first core: it runs in the caller's thread.
    core: Core,
    /// The other cores, each in its own thread.
    others: Vec<Worker>,
    /// The CPU of the first core. Its thread is pinned there only if the router has several cores.
    processor: usize,
    /// Whether the other cores are forwarding.
    is_forwarding: bool,
    /// The reservation of each process, cycles per second.
    reserved: IdVec<ProcessId, u64>,
    /// The CPU's cycles per second.
    frequency: u64,
    clock: Clock,
    macs: Vec<[u8; 6]>,
    began_ns: u64,
    reloads: u64,
    /// The summed counters of paths that reloads removed.
    removed: Option<PathCounters>,
    bounds: DelayBounds,
}

/// The bounds on the paths' delays for ports with these longest frames, bytes.
#[derive(Default)]
struct DelayBounds {
    longest_bytes: Vec<u32>,
    of_paths: Vec<PathBounds>,
}

impl DelayBounds {
    /// Computes the bounds on a CPU of `frequency` cycles per second.
    fn new(scenario: &RouterScenario, frequency: u64, longest_bytes: Vec<u32>) -> Self {
        let end_to_end = path_delays_ns(scenario, frequency, &longest_bytes).unwrap_or_default();
        let mut end_to_end = end_to_end.into_iter().map(Result::ok);
        let of_links = scenario.link_delays_ns(&longest_bytes).into_iter();
        let of_paths = of_links.map(|link| PathBounds {
            link_ns: link.ok(),
            end_to_end_ns: end_to_end.next().flatten(),
        });
        Self { of_paths: of_paths.collect(), longest_bytes }
    }
}

impl LiveRouter {
    /// Opens the ports of `scenario` and builds the router.
    ///
    /// # Errors
    /// Fails if a port cannot be opened, an extension cannot be loaded, or a filter is invalid.
    /// Also if reservations exceed a core's cycles, or the machine has too few cores.
    pub fn open(scenario: &RouterScenario) -> Result<Self, PortError> {
        let clock = Clock::default();
        // Reports configuration errors before it opens a port.
        admit(scenario, clock.cycles_per_second())?;
        Extensions::load(scenario)?;
        Filters::load(scenario)?;
        // The links between many cores take gigabytes.
        let processors = processors_for(scenario)?;
        let occupancy = occupancy(scenario);
        let mut ends = InterCoreLinks::all(&occupancy, scenario.cores)
            .map_err(|error| PortError::new(&scenario.ports[0].name, error.to_string()))?;
        let own_end = ends.remove(0);
        let others = ends.iter().zip(processors.iter().skip(1));
        let others = others.map(|(end, processor)| {
            let worker = Worker::start(end.core, Arc::clone(&end.waker), *processor)?;
            let (scenario, clock, ports) =
                (scenario.clone(), clock.clone(), Arc::clone(&end.ports));
            let core = end.core;
            let opened = worker.state(move |state| {
                state.ports = open_devices(&scenario, core, &clock, &ports)?;
                Ok(())
            });
            opened?.map(|()| worker)
        });
        let others = others.collect::<Result<Vec<_>, PortError>>()?;
        let devices = open_devices(scenario, CoreId(0), &clock, &own_end.ports)?;
        let macs = scenario.ports.iter().map(hardware_address).collect::<Result<Vec<_>, _>>()?;
        for (worker, end) in others.iter().zip(ends) {
            let (parts, clock) = (Parts::load(scenario, &macs, &clock, end.core)?, clock.clone());
            let made = worker.state(move |state| {
                let ports = std::mem::take(&mut state.ports);
                state.core = Some(Core::new(end.core, parts, ports, clock, Some(end))?);
                Ok(())
            });
            made??;
        }
        let links = (scenario.cores > 1).then_some(own_end);
        let router = Self::with(scenario, devices, macs, clock, links, others)?;
        Ok(Self { processor: processors[0], ..router })
    }

    /// Builds the router of `scenario` on one core from open ports and their hardware addresses.
    pub(super) fn assemble(
        scenario: &RouterScenario,
        ports: Vec<(Box<dyn Port>, [u8; 6])>,
        clock: Clock,
    ) -> Result<Self, PortError> {
        let (ports, macs) = ports.into_iter().unzip();
        Self::with(scenario, ports, macs, clock, None, Vec::new())
    }

    fn with(
        scenario: &RouterScenario,
        ports: Vec<Box<dyn Port>>,
        macs: Vec<[u8; 6]>,
        clock: Clock,
        links: Option<InterCoreLinks>,
        others: Vec<Worker>,
    ) -> Result<Self, PortError> {
        let parts = Parts::load(scenario, &macs, &clock, CoreId(0))?;
        let reserved = parts.reserved.clone();
        let core = Core::new(CoreId(0), parts, ports, clock.clone(), links)?;
        let (scenario, frequency) = (scenario.clone(), clock.cycles_per_second());
        let (is_forwarding, began_ns, reloads, removed) = (false, 0, 0, None);
        Ok(Self {
            scenario,
            core,
            others,
            processor: 0,
            is_forwarding,
            reserved,
            frequency,
            clock,
            macs,
            began_ns,
            reloads,
            removed,
            bounds: DelayBounds::default(),
        })
    }

    /// Reloads the configuration. Paths keep their packets and counters by name. Devices of ports,
    /// `cores`, `buffers`, and the cores of ports and kept paths must not change.
    ///
    /// # Errors
    /// Fails if an immutable key differs, an extension cannot be loaded, a filter is invalid, or
    /// reservations exceed a core's cycles. The router is unchanged then.
    pub fn reload(&mut self, scenario: &RouterScenario) -> Result<(), PortError> {
        self.apply_reload(LoadedScenario::load(scenario.clone())?)
    }

    fn apply_reload(
        &mut self,
        LoadedScenario { scenario, loaded }: LoadedScenario,
    ) -> Result<(), PortError> {
        let old = &self.scenario;
        let fixed = |of: &RouterScenario| -> Vec<_> {
            let fixed = |port: &RouterPort| {
                let (kind, vlan) = (port.kind.clone(), (port.vlan, port.pcp));
                (port.name.clone(), kind, vlan, port.mac, port.core)
            };
            of.ports.iter().map(fixed).collect()
        };
        let first = scenario.ports.first().map_or("", |port| &port.name);
        let settings = |of: &RouterScenario| (of.buffers, of.kernel_routes, of.cores);
        if fixed(old) != fixed(&scenario) || settings(old) != settings(&scenario) {
            let message =
                "ports, `cores`, `buffers` and `kernel-routes` cannot change while the router runs";
            return Err(PortError::new(first, message).help("restart the router"));
        }
        let kept = |path: &RouterPath| {
            let old = old.paths.iter().position(|old| old.name == path.name);
            old.map(PathId)
        };
        let kept: Vec<_> = scenario.paths.iter().map(kept).collect();
        let mut pairs = scenario.paths.iter().zip(&kept);
        let moved =
            pairs.find(|(path, kept)| kept.is_some_and(|kept| old.paths[kept.0].core != path.core));
        if let Some((path, _)) = moved {
            let message = "it cannot move to another core while the router runs";
            return Err(PortError::of_path(&path.name, message).help("restart the router"));
        }
        let reserved = admit(&scenario, self.frequency)?;
        let mut parts = loaded.into_iter().enumerate().map(|(core, (extensions, filters))| Parts {
            scenario: part_of_core(&scenario, CoreId(core)),
            reserved: reserved.clone(),
            macs: self.macs.clone(),
            extensions,
            filters,
        });
        let Some(own) = parts.next() else { return Ok(()) };
        let parts: Vec<Parts> = parts.collect();
        let occupancy = (!self.others.is_empty()).then(|| occupancy(&scenario));
        let is_forwarding = self.hold()?;
        let gone = self.apply_reload_to_cores(own, parts, &kept, occupancy.as_ref());
        if is_forwarding {
            self.go()?;
        }
        let gone = gone?;
        if gone.received > 0 {
            self.removed.get_or_insert_default().add(&gone);
        }
        self.scenario = scenario;
        self.bounds = DelayBounds::default();
        self.reserved = reserved;
        self.reloads += 1;
        Ok(())
    }

    /// Applies a reload to every core; returns the counters of removed paths. The first core goes
    /// first: if it refuses the plan, no core has changed.
    fn apply_reload_to_cores(
        &mut self,
        own: Parts,
        parts: Vec<Parts>,
        kept: &[Option<PathId>],
        occupancy: Option<&Arc<SharedOccupancy>>,
    ) -> Result<PathCounters, PortError> {
        let mut gone = self.core.apply_reload(own, kept, occupancy)?;
        for (worker, parts) in self.others.iter().zip(parts) {
            let (kept, occupancy) = (kept.to_vec(), occupancy.cloned());
            let taken =
                worker.core(move |core| core.apply_reload(parts, &kept, occupancy.as_ref()))?;
            gone.add(&taken?);
        }
        Ok(gone)
    }

    /// Follows the kernel's routes and neighbours from now on, while the router runs under
    /// `control`.
    ///
    /// # Errors
    /// Fails if the kernel's tables cannot be read or followed.
    pub fn follow_kernel(&self, control: &Arc<Control>) -> io::Result<()> {
        let ports = self.scenario.ports.iter().enumerate();
        let interfaces = ports.filter_map(|(at, port)| match &port.kind {
            // The kernel has a separate interface for each VLAN.
            PortKind::Interface(name, _) if port.vlan.is_none() => Some((name.clone(), PortId(at))),
            // The kernel is the peer of a TAP or TUN device.
            PortKind::Interface(..)
            | PortKind::Tap(_)
            | PortKind::Tun(_)
            | PortKind::Pcap(..)
            | PortKind::Ingress(_) => None,
        });
        netlink::follow(interfaces.collect(), control)
    }

    /// Serves the pending requests of `control`: kernel changes, a reload, a report.
    #[cold]
    fn serve_requests(&mut self, control: &Control) -> Result<(), PortError> {
        let most = if self.began_ns == 0 { usize::MAX } else { CHANGES };
        let changes = control.take_changes(most);
        if !changes.is_empty() {
            for worker in &self.others {
                let changes = changes.clone();
                worker.core(move |core| core.kernel_changed(&changes))?;
            }
            self.core.kernel_changed(&changes);
        }
        if let Some(changed) = control.take_reload() {
            match self.apply_reload(*changed) {
                Ok(()) => {
                    log::info!(paths = self.scenario.paths.len(); "the configuration was reloaded");
                }
                Err(error) => log::error!("the reload was rejected: {error}"),
            }
        }
        if let Some(consistent) = control.report_requested() {
            let report = self.report(Ended::Running, consistent)?;
            control.answer(report, consistent);
        }
        Ok(())
    }

    /// Pauses the other cores and drains the links between them; returns whether they were running.
    fn hold(&mut self) -> Result<bool, PortError> {
        let is_forwarding = std::mem::take(&mut self.is_forwarding);
        for worker in &self.others {
            worker.hold()?;
        }
        // Two passes: a core may hand over packets to a core that has settled in this pass already.
        let mut settled = self.others.is_empty();
        while !settled {
            settled = true;
            for _ in 0..2 {
                settled &= self.core.drain_links();
                for worker in &self.others {
                    settled &= worker.core(Core::drain_links)?;
                }
            }
        }
        Ok(is_forwarding)
    }

    /// Starts forwarding on the other cores.
    fn go(&mut self) -> Result<(), PortError> {
        self.is_forwarding = true;
        self.others.iter().try_for_each(Worker::go)
    }

    /// Starts the threads that ports need later. Call it after dropping privileges.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub fn prepare(&mut self) -> Result<(), PortError> {
        for worker in &self.others {
            worker.core(Core::prepare)??;
        }
        self.core.prepare()
    }

    /// Runs `what` in every thread that opened ports, this one first: privileges are per thread.
    /// Returns each thread's result.
    ///
    /// # Errors
    /// Fails if a thread has ended.
    pub fn each_thread<R: Send + 'static>(
        &self,
        what: impl Fn() -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, PortError> {
        let mut outcomes = vec![what()];
        for worker in &self.others {
            let what = what.clone();
            outcomes.push(worker.state(move |_| what())?);
        }
        Ok(outcomes)
    }

    /// Forwards until `control` stops it, `for_ns` have passed, or every port has ended. Then
    /// drains the queues for up to a second.
    ///
    /// # Errors
    /// Fails if a port fails.
    pub fn run(&mut self, for_ns: Option<u64>, control: &Control) -> Result<Report, PortError> {
        // Applies the kernel's current tables before the first packet.
        self.serve_requests(control)?;
        if !self.others.is_empty() {
            pin(CoreId(0), self.processor)?;
        }
        self.began_ns = self.core.begin();
        self.go()?;
        let end_ns = for_ns.map_or(u64::MAX, |for_ns| self.began_ns.saturating_add(for_ns));
        let ended = self.forward(end_ns, control)?;
        self.hold()?;
        self.core.flush()?;
        for worker in &self.others {
            worker.core(Core::flush)??;
        }
        let mut report = self.report(ended, true)?;
        report.measure_delays();
        Ok(report)
    }

    fn forward(&mut self, end_ns: u64, control: &Control) -> Result<Ended, PortError> {
        let mut drain_until_ns = u64::MAX;
        let mut next_check_ns = 0;
        loop {
            if control.request_pending() {
                self.serve_requests(control)?;
            }
            let round = self.core.round()?;
            let now_ns = round.now_ns;
            if let Some(error) = self.others.iter().find_map(Worker::failure) {
                return Err(error);
            }
            let over = if control.stopped() {
                Some(Ended::Told)
            } else if now_ns >= end_ns {
                Some(Ended::Time)
            } else {
                self.core.ended().then_some(Ended::Input)
            };
            if let Some(ended) = over {
                if drain_until_ns == u64::MAX {
                    drain_until_ns = now_ns + DRAIN_NS;
                    self.core.close();
                    for worker in &self.others {
                        worker.core(Core::close)?;
                    }
                }
                if now_ns >= drain_until_ns {
                    return Ok(ended);
                }
                if self.core.is_empty() && now_ns >= next_check_ns {
                    next_check_ns = now_ns + DRAINED_NS;
                    if self.are_empty()? {
                        return Ok(ended);
                    }
                }
            }
            if let Some(until_ns) = round.idle_until_ns {
                self.core.rest(now_ns, until_ns, end_ns);
            }
        }
    }

    /// Returns whether no packet is queued on a core or in flight between cores.
    fn are_empty(&mut self) -> Result<bool, PortError> {
        if self.others.is_empty() {
            return Ok(self.core.is_empty());
        }
        self.hold()?;
        let mut empty = self.core.is_empty();
        for worker in &self.others {
            empty &= worker.core(|core| core.is_empty())?;
        }
        self.go()?;
        Ok(empty)
    }

    /// Returns the report so far. Pauses the other cores if its counters must be `consistent`.
    fn report(&mut self, ended: Ended, consistent: bool) -> Result<Report, PortError> {
        let is_forwarding = consistent && self.hold()?;
        let mut snapshot = self.core.snapshot(&self.scenario);
        for worker in &self.others {
            let scenario = self.scenario.clone();
            snapshot.add(worker.core(move |core| core.snapshot(&scenario))?);
        }
        // The MTU of a device may change while the router runs.
        let longest_bytes = self.core.longest_bytes();
        if self.bounds.longest_bytes != longest_bytes {
            self.bounds = DelayBounds::new(&self.scenario, self.frequency, longest_bytes);
        }
        let context = ReportContext {
            scenario: &self.scenario,
            bounds: &self.bounds.of_paths,
            reserved: &self.reserved,
            frequency: self.frequency,
            elapsed_ns: self.clock.now_ns() - self.began_ns,
            ended,
            reloads: self.reloads,
            removed: self.removed,
        };
        let report = report(&context, snapshot);
        if is_forwarding {
            self.go()?;
        }
        Ok(report)
    }
}

impl Parts {
    /// Loads the part of `scenario` that `core` needs: reservations, extensions and filters.
    pub(super) fn load(
        scenario: &RouterScenario,
        macs: &[[u8; 6]],
        clock: &Clock,
        core: CoreId,
    ) -> Result<Self, PortError> {
        let scenario = part_of_core(scenario, core);
        Ok(Self {
            reserved: admit(&scenario, clock.cycles_per_second())?,
            macs: macs.to_vec(),
            extensions: Extensions::load(&scenario)?,
            filters: Filters::load(&scenario)?,
            scenario,
        })
    }
}

/// Returns at least one CPU for each core of `scenario`. A single core is not pinned: its CPU is 0.
fn processors_for(scenario: &RouterScenario) -> Result<Vec<usize>, PortError> {
    let processors = if scenario.cores > 1 { processors() } else { vec![0] };
    if processors.len() < scenario.cores {
        let (cores, found) = (scenario.cores, processors.len());
        let message = format!("{cores} cores need as many CPUs; the router may use {found}");
        let help = "configure fewer `cores`, or allow more CPUs: `taskset -pc $$` lists them";
        return Err(PortError::new(&scenario.ports[0].name, message).help(help));
    }
    Ok(processors)
}

/// Opens the devices of the ports of `core`; ports of other cores get a [`RemotePort`].
fn open_devices(
    scenario: &RouterScenario,
    core: CoreId,
    clock: &Clock,
    states: &Arc<[RemotePortState]>,
) -> Result<Vec<Box<dyn Port>>, PortError> {
    open_ports(scenario, |port| {
        if port.core == core.0 {
            return open(scenario, port, clock);
        }
        let at = scenario.ports.iter().position(|other| other.name == port.name);
        Ok(Box::new(RemotePort(Arc::clone(states), PortId(at.unwrap_or(0)))))
    })
}

/// Opens the device of a port.
fn open(
    scenario: &RouterScenario,
    port: &RouterPort,
    clock: &Clock,
) -> Result<Box<dyn Port>, PortError> {
    let name = port.name.as_str();
    Ok(match &port.kind {
        PortKind::Interface(interface, io) => {
            let conflict = reason_against_xdp(scenario, port, interface);
            Box::new(InterfacePort::open(name, interface, *io, conflict.as_deref())?)
        }
        PortKind::Tap(device) => Box::new(TapPort::open(name, device)?),
        PortKind::Tun(device) => Box::new(TunPort::open(name, device, hardware_address(port)?)?),
        PortKind::Pcap(input, output) => {
            let (input, output) = (input.as_deref(), output.as_deref());
            let capture = CapturePort::open(name, input, output, clock.clone())?;
            Box::new(capture.with_padding(port.pads_truncated))
        }
        PortKind::Ingress(_) => Box::new(IngressPort),
    })
}

fn hardware_address(port: &RouterPort) -> Result<[u8; 6], PortError> {
    match (port.mac, &port.kind) {
        (Some(mac), _) => Ok(mac.into_array()),
        (None, PortKind::Interface(device, _) | PortKind::Tap(device)) => {
            interface_mac(&port.name, device)
        }
        (None, PortKind::Tun(_)) => Ok(tun::DEFAULT_MAC),
        (None, PortKind::Pcap(..)) => Err(PortError::new(&port.name, "it has no hardware address")),
        (None, PortKind::Ingress(_)) => Ok([0; 6]),
    }
}

/// Returns the classifier and the forwarder of `scenario` for ports with these hardware addresses.
pub(super) fn rules(
    scenario: &RouterScenario,
    macs: &[[u8; 6]],
    filters: Filters,
) -> (Classifier, Forwarder) {
    let mut routes = Routes::default();
    for (at, port) in scenario.ports.iter().enumerate() {
        for net in &port.addresses {
            routes.add_resolved(*net, PortId(at), macs[at], None);
        }
    }
    for route in &scenario.routes {
        let (output, from) = (PortId(route.port), macs[route.port]);
        match route.next {
            NextHop::Neighbour(mac) => {
                routes.add(route.prefix, fib::NextHop { output, from, to: mac.into_array() });
            }
            NextHop::Gateway(via) => routes.add_resolved(route.prefix, output, from, Some(via)),
            NextHop::Connected => routes.add_resolved(route.prefix, output, from, None),
        }
    }
    let rules = scenario.paths.iter().map(|path| path.matches).collect();
    (Classifier::new(rules).with_filters(filters), Forwarder::new(routes))
}

/// Returns the processes that can run, in the router's order: the name, the process, and its id.
pub(super) fn processes(scenario: &RouterScenario) -> Vec<(String, Process, ProcessId)> {
    let ports = || scenario.ports.iter().enumerate();
    let inputs =
        ports().map(|(at, port)| (format!("input {}", port.name), Process::Input(InputId(at))));
    let paths = scenario.paths.iter().enumerate();
    let paths =
        paths.map(|(at, path)| (format!("path {}", path.name), Process::Forward(PathId(at))));
    let outputs =
        ports().map(|(at, port)| (format!("output {}", port.name), Process::Output(OutputId(at))));
    let all = inputs.chain(paths).chain(outputs).enumerate();
    let runs = |process: &Process| match process {
        Process::Forward(at) => scenario.paths[at.0].action != PathAction::Drop,
        _ => true,
    };
    all.filter(|(_, (_, process))| runs(process))
        .map(|(number, (name, process))| (name, process, ProcessId(number)))
        .collect()
}

/// Returns why AF_XDP is unsuitable for an interface of this router, if it is. The configuration
/// can still require AF_XDP.
fn reason_against_xdp(
    scenario: &RouterScenario,
    port: &RouterPort,
    interface: &str,
) -> Option<String> {
    if scenario.kernel_routes {
        return Some(
            "with `kernel-routes` the kernel needs the packets of the interface".to_owned(),
        );
    }
    let here = |other: &&RouterPort| other.kind == port.kind;
    if scenario.ports.iter().filter(here).any(|other| other.vlan.is_some()) {
        return Some(
            "a port has a VLAN of the interface, and the device may strip VLAN tags".to_owned(),
        );
    }
    let own = interface_mac(&port.name, interface).ok();
    if port.mac.is_some_and(|mac| own != Some(mac.into_array())) {
        return Some("the port's `mac` differs from the interface's".to_owned());
    }
    xdp_conflict(interface)
}

/// Reads the hardware address of an interface from sysfs.
fn interface_mac(port: &str, interface: &str) -> Result<[u8; 6], PortError> {
    let path = format!("/sys/class/net/{interface}/address");
    let unknown = |message: String| {
        PortError::new(port, message).help("set the port's `mac`; `ip link` shows it")
    };
    let text = fs::read_to_string(&path).map_err(|error| unknown(format!("{path}: {error}")))?;
    let parsed: Result<macaddr::MacAddr6, _> = text.trim().parse();
    parsed.map(macaddr::MacAddr6::into_array).map_err(|_| {
        unknown(format!("interface `{interface}` has no Ethernet address: `{}`", text.trim()))
    })
}
