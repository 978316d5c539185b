//! From a router's file to a router that runs.

use millstream_scenario::{NextHop, PathAction, PortKind, RouterPath, RouterPort, RouterScenario};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use crate::counters::PathCounters;
use crate::live::admission::{admit, plan, reading};
use crate::live::capture::CapturePort;
use crate::live::classifier::Classifier;
use crate::live::clock::Clock;
use crate::live::control::{Changed, Control};
use crate::live::extension::Extensions;
use crate::live::filter::Filters;
use crate::live::function::Forwarder;
use crate::live::interface::{InterfacePort, against_xdp};
use crate::live::kernel;
use crate::live::machine::LiveMachine;
use crate::live::pool::Pool;
use crate::live::port::{Port, PortError};
use crate::live::quiet::Quiet;
use crate::live::report::{Ended, PathReport, PortReport, ProcessReport, Report};
use crate::live::routes::{Hop, Routes};
use crate::live::tap::TapPort;
use crate::live::vlan::open_ports;
use crate::machine::Machine;
use crate::router::{Process, Router, Step};

/// How long queues may drain at the end, ns.
const DRAIN_NS: u64 = 1_000_000_000;
/// Shorter idle times are waited for with the processor.
const SPIN_NS: u64 = 20_000;
/// Changes of the kernel's tables that are taken at once.
const CHANGES: usize = 1_024;
/// After so many steps it is asked whether to stop.
const STEPS: u32 = 64;

/// A router on real ports.
pub struct LiveRouter {
    scenario: RouterScenario,
    router: Router<LiveMachine<Box<dyn Port>>>,
    /// Of each process, cycles a second.
    reserved: Vec<u64>,
    /// Of the processor, cycles a second.
    frequency: u64,
    macs: Vec<[u8; 6]>,
    began_ns: u64,
    reloads: u64,
    /// What paths counted that have been taken out of the file.
    removed: Option<PathCounters>,
}

impl LiveRouter {
    /// Opens the ports of `scenario` and makes the router.
    ///
    /// # Errors
    /// If a port cannot be opened, an extension cannot be loaded, a filter is wrong, or more is reserved than the
    /// processor has.
    pub fn open(scenario: &RouterScenario) -> Result<Self, PortError> {
        let clock = Clock::default();
        // What cannot be is said before a port is opened.
        admit(scenario, clock.cycles_per_second())?;
        Extensions::load(scenario)?;
        Filters::load(scenario)?;
        let devices = open_ports(scenario, |port| open(scenario, port, &clock))?;
        let macs = scenario.ports.iter().map(hardware_address).collect::<Result<Vec<_>, _>>()?;
        Self::assemble(scenario, devices.into_iter().zip(macs).collect(), clock)
    }

    /// The router of `scenario` on these ports, opened, with their hardware addresses.
    pub(super) fn assemble(
        scenario: &RouterScenario,
        ports: Vec<(Box<dyn Port>, [u8; 6])>,
        clock: Clock,
    ) -> Result<Self, PortError> {
        let frequency = clock.cycles_per_second();
        let reserved = admit(scenario, frequency)?;
        let extensions = Extensions::load(scenario)?;
        let macs: Vec<_> = ports.iter().map(|port| port.1).collect();
        let (classifier, function) = rules(scenario, &macs, Filters::load(scenario)?);
        let pool = Pool::new(scenario.buffers);
        let mut machine = LiveMachine::new(clock, pool, classifier, function);
        for ((port, mac), of) in ports.into_iter().zip(&scenario.ports) {
            machine.add(port, mac, of.rate_bps, of.overhead_bytes);
        }
        for (at, port) in scenario.ports.iter().enumerate() {
            machine.set_address(at, port.addresses.iter().copied());
            machine.translate(at, port.nat.map(|nat| (nat.flows, nat.host_flows)));
        }
        machine.extend(extensions, &[]);
        machine.proxy(scenario, &[]);
        let mut router = Router::new(&plan(scenario, &reserved), machine)
            .map_err(|error| PortError::new(&scenario.ports[0].name, error.to_string()))?;
        router.read_by(reading(scenario));
        let scenario = scenario.clone();
        let (began_ns, reloads, removed) = (0, 0, None);
        Ok(Self { scenario, router, reserved, frequency, macs, began_ns, reloads, removed })
    }

    /// Runs on by a changed file. Paths keep their packets and counters by name; what ports are made
    /// of, and `buffers`, must not change.
    ///
    /// # Errors
    /// If something differs that must not, an extension cannot be loaded, a filter is wrong, or more is reserved
    /// than the processor has. Nothing has changed then.
    pub fn reload(&mut self, scenario: &RouterScenario) -> Result<(), PortError> {
        self.take_over(Changed::load(scenario.clone())?)
    }

    fn take_over(
        &mut self,
        Changed { scenario, extensions, filters }: Changed,
    ) -> Result<(), PortError> {
        let old = &self.scenario;
        let fixed = |of: &RouterScenario| -> Vec<_> {
            let fixed = |port: &RouterPort| {
                let (kind, vlan) = (port.kind.clone(), (port.vlan, port.pcp));
                (port.name.clone(), kind, vlan, port.mac)
            };
            of.ports.iter().map(fixed).collect()
        };
        let first = scenario.ports.first().map_or("", |port| &port.name);
        let settings = |of: &RouterScenario| (of.buffers, of.kernel_routes);
        if fixed(old) != fixed(&scenario) || settings(old) != settings(&scenario) {
            let message =
                "ports, `buffers` and `kernel-routes` cannot change while the router runs";
            return Err(PortError::new(first, message).help("restart it"));
        }
        let reserved = admit(&scenario, self.frequency)?;
        let kept = |path: &RouterPath| old.paths.iter().position(|old| old.name == path.name);
        let kept: Vec<_> = scenario.paths.iter().map(kept).collect();
        let plan = plan(&scenario, &reserved);
        self.router.resume();
        let gone = self.router.reload(&plan, &kept);
        let gone = gone.map_err(|error| PortError::new(first, error.to_string()))?;
        self.router.read_by(reading(&scenario));
        if gone.received > 0 {
            self.removed.get_or_insert_default().add(&gone);
        }
        let (classifier, function) = rules(&scenario, &self.macs, filters);
        let machine = self.router.machine_mut();
        machine.reconfigure(classifier, function);
        machine.extend(extensions, &kept);
        machine.proxy(&scenario, &kept);
        for (at, port) in scenario.ports.iter().enumerate() {
            machine.set_rate(at, port.rate_bps, port.overhead_bytes);
            machine.set_address(at, port.addresses.iter().copied());
            machine.translate(at, port.nat.map(|nat| (nat.flows, nat.host_flows)));
        }
        self.scenario = scenario;
        self.reserved = reserved;
        self.reloads += 1;
        Ok(())
    }

    /// From now on the kernel's routes and neighbours count, too, as they change while the router runs
    /// under `control`.
    ///
    /// # Errors
    /// If the kernel does not tell them.
    pub fn follow_kernel(&self, control: &Arc<Control>) -> io::Result<()> {
        let ports = self.scenario.ports.iter().enumerate();
        let interfaces = ports.filter_map(|(at, port)| match &port.kind {
            // To the kernel a VLAN is an interface of its own.
            PortKind::Interface(name, _) if port.vlan.is_none() => Some((name.clone(), at)),
            // The kernel stands on the other side of a TAP device.
            PortKind::Interface(..) | PortKind::Tap(_) | PortKind::Pcap(..) => None,
        });
        kernel::follow(interfaces.collect(), control)
    }

    /// Does what was asked for.
    #[cold]
    fn attend(&mut self, control: &Control) {
        let most = if self.began_ns == 0 { usize::MAX } else { CHANGES };
        self.router.machine_mut().kernel_changed(&control.take_changes(most));
        if let Some(changed) = control.take_reload() {
            match self.take_over(*changed) {
                Ok(()) => log::info!(paths = self.scenario.paths.len(); "the file was read again"),
                Err(error) => log::error!("the file was not taken over: {error}"),
            }
        }
        control.answer(|| self.report(Ended::Running));
    }

    /// Starts the threads that ports may need later. To be called when privileges have been given up.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn prepare(&mut self) -> Result<(), PortError> {
        for port in 0..self.scenario.ports.len() {
            self.router.machine_mut().port_mut(port).prepare()?;
        }
        Ok(())
    }

    /// Forwards until `control` says so, `for_ns` have passed, or every port has ended; then lets the
    /// queues drain, for a second at most.
    ///
    /// # Errors
    /// If a port fails.
    pub fn run(&mut self, for_ns: Option<u64>, control: &Control) -> Result<Report, PortError> {
        // What the kernel knows already is there before the first packet.
        self.attend(control);
        self.router.machine_mut().rested();
        self.router.resume();
        self.began_ns = self.router.machine_mut().now_ns();
        let end_ns = for_ns.map_or(u64::MAX, |for_ns| self.began_ns.saturating_add(for_ns));
        let mut drain_until_ns = u64::MAX;
        let mut quiet = Quiet::default();
        quiet.ended(self.began_ns);
        let ended = loop {
            if control.attention() {
                self.attend(control);
            }
            let router = &mut self.router;
            let (mut idle, mut moved) = (false, false);
            let mut next_ns = 0;
            for _ in 0..STEPS {
                match router.step() {
                    Step::Ran(_, packets) => moved |= packets > 0,
                    Step::Idle { until_ns } => {
                        (idle, next_ns) = (true, until_ns);
                        break;
                    }
                }
            }
            if let Some(error) = router.machine_mut().failure() {
                return Err(error);
            }
            let now_ns = router.machine_mut().now_ns();
            let over = if control.stopped() {
                Some(Ended::Told)
            } else if now_ns >= end_ns {
                Some(Ended::Time)
            } else {
                router.machine().ended().then_some(Ended::Input)
            };
            if let Some(ended) = over {
                router.machine_mut().close();
                drain_until_ns = drain_until_ns.min(now_ns + DRAIN_NS);
                if now_ns >= drain_until_ns || is_empty(router) {
                    break ended;
                }
            }
            if moved {
                quiet.ended(now_ns);
            }
            if idle {
                let may_sleep_ns = if quiet.is_long(now_ns) && is_empty(router) {
                    let due_ns =
                        (0..self.scenario.paths.len()).map(|path| router.machine().due_ns(path));
                    due_ns.min().unwrap_or(u64::MAX).min(end_ns).saturating_sub(now_ns)
                } else {
                    0
                };
                if quiet.wait(router.machine_mut(), now_ns, may_sleep_ns)
                    || wait(next_ns.min(end_ns).saturating_sub(now_ns))
                {
                    router.machine_mut().rested();
                }
                router.resume();
            }
        };
        for port in 0..self.scenario.ports.len() {
            self.router.machine_mut().port_mut(port).flush()?;
        }
        Ok(self.report(ended))
    }

    /// How it stands.
    fn report(&mut self, ended: Ended) -> Report {
        let router = &mut self.router;
        let elapsed_ns = router.machine_mut().now_ns() - self.began_ns;
        let mut ports = Vec::new();
        for (at, port) in self.scenario.ports.iter().enumerate() {
            let counters = router.machine().counters(at);
            let strays = router.machine_mut().port_mut(at).strays();
            // Those that the port dropped itself are among what did not fit, for the machine.
            let unfit = counters.unfit.saturating_sub(strays);
            ports.push(PortReport {
                name: port.name.clone(),
                received: counters.received,
                unclassified: router.input(at).unclassified - counters.unfit - counters.for_router,
                unfit,
                strays,
                for_router: counters.for_router,
                transmitted: counters.transmitted,
                originated: counters.originated,
                went_away: router.machine_mut().port_mut(at).went_away(),
                away: router.machine_mut().port_mut(at).is_away(),
                lost_by_device: router.machine_mut().port_mut(at).lost(),
                nat: router.machine().translation(at),
            });
        }
        let path =
            |name: &str, counters: PathCounters, (before, after): (usize, usize)| PathReport {
                name: name.to_owned(),
                received: counters.received,
                dropped_by_action: counters.dropped_by_action,
                dropped_full: counters.dropped_full,
                dropped_by_function: counters.dropped_by_function,
                dropped_elsewhere: counters.dropped_elsewhere,
                dropped_late: counters.dropped_late,
                dropped_by_reload: counters.dropped_by_reload,
                sent: counters.sent,
                sent_bytes: counters.sent_bytes,
                queued: (before + after) as u64,
                at_links: after as u64,
                made: counters.made,
                consumed: counters.consumed,
                extension: None,
                proxy: None,
            };
        let paths = self.scenario.paths.iter().enumerate().map(|(at, of)| PathReport {
            extension: router.machine().extension(at),
            proxy: router.machine().proxied_by(at),
            ..path(&of.name, router.path(at), router.waiting(at))
        });
        let removed = self.removed.map(|counters| path("(removed)", counters, (0, 0)));
        let paths: Vec<_> = paths.chain(removed).collect();
        let names = processes(&self.scenario);
        let frequency = u128::from(self.frequency);
        let processes = names.into_iter().map(|(name, process, number)| {
            let used = router.used(process);
            let cycles = u128::from(used.busy_ns) * frequency / u128::from(elapsed_ns.max(1));
            ProcessReport {
                name,
                reserved_cycles: self.reserved[number],
                used_cycles: u64::try_from(cycles).unwrap_or(u64::MAX),
                busy_ns: used.busy_ns,
                runs: used.runs,
                packets: used.packets,
            }
        });
        let processes = processes.collect();
        let staged = (0..ports.len()).map(|output| router.staged(output) as u64).sum();
        let unaccounted = Report::account(&ports, &paths, staged);
        let (router, reloads) = (self.scenario.name.clone(), self.reloads);
        Report { router, elapsed_ns, ended, ports, paths, reloads, processes, unaccounted }
    }
}

/// The device of a port.
fn open(
    scenario: &RouterScenario,
    port: &RouterPort,
    clock: &Clock,
) -> Result<Box<dyn Port>, PortError> {
    let name = port.name.as_str();
    Ok(match &port.kind {
        PortKind::Interface(interface, io) => {
            let against = objection(scenario, port, interface);
            Box::new(InterfacePort::open(name, interface, *io, against.as_deref())?)
        }
        PortKind::Tap(device) => Box::new(TapPort::open(name, device)?),
        PortKind::Pcap(input, output) => {
            let (input, output) = (input.as_deref(), output.as_deref());
            Box::new(CapturePort::open(name, input, output, clock.clone())?)
        }
    })
}

fn hardware_address(port: &RouterPort) -> Result<[u8; 6], PortError> {
    match (port.mac, &port.kind) {
        (Some(mac), _) => Ok(mac.into_array()),
        (None, PortKind::Interface(device, _) | PortKind::Tap(device)) => {
            interface_mac(&port.name, device)
        }
        (None, PortKind::Pcap(..)) => Err(PortError::new(&port.name, "it has no hardware address")),
    }
}

/// How packets are classified and forwarded, by ports of these hardware addresses.
fn rules(scenario: &RouterScenario, macs: &[[u8; 6]], filters: Filters) -> (Classifier, Forwarder) {
    let mut routes = Routes::default();
    for (at, port) in scenario.ports.iter().enumerate() {
        for net in &port.addresses {
            routes.add_resolved(*net, at, macs[at], None);
        }
    }
    for route in &scenario.routes {
        let (output, from) = (route.port, macs[route.port]);
        match route.next {
            NextHop::Neighbour(mac) => {
                routes.add(route.prefix, Hop { output, from, to: mac.into_array() });
            }
            NextHop::Gateway(via) => routes.add_resolved(route.prefix, output, from, Some(via)),
            NextHop::Connected => routes.add_resolved(route.prefix, output, from, None),
        }
    }
    let rules = scenario.paths.iter().map(|path| path.matches).collect();
    (Classifier::new(rules).with_filters(filters), Forwarder::new(routes))
}

/// The processes that may run, in the router's order: their names, and their numbers among all.
pub(super) fn processes(scenario: &RouterScenario) -> Vec<(String, Process, usize)> {
    let ports = || scenario.ports.iter().enumerate();
    let inputs = ports().map(|(at, port)| (format!("input {}", port.name), Process::Input(at)));
    let paths = scenario.paths.iter().enumerate();
    let paths = paths.map(|(at, path)| (format!("path {}", path.name), Process::Forward(at)));
    let outputs = ports().map(|(at, port)| (format!("output {}", port.name), Process::Output(at)));
    let all = inputs.chain(paths).chain(outputs).enumerate();
    let runs = |process: &Process| !matches!(process, Process::Forward(at) if scenario.paths[*at].action == PathAction::Drop);
    all.filter(|(_, (_, process))| runs(process))
        .map(|(number, (name, process))| (name, process, number))
        .collect()
}

fn is_empty(router: &Router<LiveMachine<Box<dyn Port>>>) -> bool {
    let (_, paths, outputs) = router.sizes();
    (0..paths).all(|path| router.waiting(path) == (0, 0))
        && (0..outputs).all(|output| router.staged(output) == 0)
}

/// Nothing to do for so long; returns whether the thread slept.
fn wait(for_ns: u64) -> bool {
    let sleeps = for_ns > SPIN_NS;
    if sleeps {
        thread::sleep(Duration::from_nanos(for_ns - SPIN_NS / 2));
    } else {
        std::hint::spin_loop();
    }
    sleeps
}

/// Why AF_XDP is not for an interface of this router, unless the file insists.
fn objection(scenario: &RouterScenario, port: &RouterPort, interface: &str) -> Option<String> {
    if scenario.kernel_routes {
        return Some(
            "by `kernel-routes` the kernel answers there, and needs its packets".to_owned(),
        );
    }
    let here = |other: &&RouterPort| other.kind == port.kind;
    if scenario.ports.iter().filter(here).any(|other| other.vlan.is_some()) {
        return Some("a port is a VLAN there, and devices may keep tags to themselves".to_owned());
    }
    let own = interface_mac(&port.name, interface).ok();
    if port.mac.is_some_and(|mac| own != Some(mac.into_array())) {
        return Some("the port's `mac` is another than the interface's".to_owned());
    }
    against_xdp(interface)
}

/// The hardware address of an interface.
fn interface_mac(port: &str, interface: &str) -> Result<[u8; 6], PortError> {
    let path = format!("/sys/class/net/{interface}/address");
    let unknown = |message: String| {
        PortError::new(port, message).help("give the port a `mac`, as `ip link` shows it")
    };
    let text = fs::read_to_string(&path).map_err(|error| unknown(format!("{path}: {error}")))?;
    let parsed: Result<macaddr::MacAddr6, _> = text.trim().parse();
    parsed.map(macaddr::MacAddr6::into_array).map_err(|_| {
        unknown(format!("interface `{interface}` has no Ethernet address: `{}`", text.trim()))
    })
}
