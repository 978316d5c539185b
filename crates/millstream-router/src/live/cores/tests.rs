//! Cores that run in random order in one thread: no packet is lost, duplicated or reordered.

use millstream_scenario::RouterScenario;
use millstream_sync::clock::tsc::Clock;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::error::PortError;
use crate::ids::{CoreId, IdVec, PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::live::assemble::LiveRouter;
use crate::live::control::Control;
use crate::live::core::{Core, Parts, occupancy, part_of_core};
use crate::live::inter_core::{InterCoreLinks, RemotePort, RemotePortState};
use crate::live::report::{Ended, Report};
use crate::live::snapshot::{CoreSnapshot, PathBounds, ReportContext, report};
use crate::net::pool::Pool;

const CORES: usize = 4;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The frames sent by a port, in order: input port, path, number.
type Sent = Arc<Mutex<Vec<(u8, u16, u32)>>>;

/// A port that receives numbered packets of each path in turn, and records the frames it sends.
struct Numbered {
    port: u8,
    paths: u16,
    next: u32,
    last: u32,
    sent: Sent,
    /// The mock clock: receiving and transmitting each take 300 ns.
    mock: Arc<quanta::Mock>,
}

fn frame(port: u8, path: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&MAC);
    frame[12..14].copy_from_slice(&[8, 0]);
    // Seven packets to port b, then seven to port c.
    let to = u8::try_from(2 + number / 7 % 2).unwrap();
    let ip = &mut frame[14..34];
    ip.copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, to, 0, 1]);
    let words = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[36..38].copy_from_slice(&path.to_be_bytes());
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame[46] = port;
    frame
}

impl Port for Numbered {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        self.mock.increment(300u64);
        let before = into.len();
        while into.len() - before < most && self.next < self.last {
            let path = u16::try_from(self.next % u32::from(self.paths)).unwrap();
            let Some(packet) = pool.copy(&frame(self.port, path, self.next)) else { break };
            into.push(packet);
            self.next += 1;
        }
        Ok(into.len() - before)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        self.mock.increment(300u64);
        for packet in packets {
            let frame = pool.frame(*packet);
            assert_eq!(frame[22], 63, "the TTL is decremented once");
            let path = u16::from_be_bytes([frame[36], frame[37]]);
            let number = u32::from_be_bytes(*frame[42..].first_chunk().unwrap());
            self.sent.lock().unwrap().push((frame[46], path, number));
            pool.release(*packet);
        }
        Ok(packets.len())
    }

    fn ended(&self) -> bool {
        self.next == self.last
    }
}

/// The cores of the ports a, b and c and of the paths, and the queue and batch sizes.
#[derive(Clone, Debug)]
struct Placement {
    ports: [usize; 3],
    paths: Vec<usize>,
    queue: u32,
    batch: u32,
    /// Whether the paths have flows.
    flows: bool,
}

fn scenario(of: &Placement, kind: &str) -> RouterScenario {
    let mut text = format!(
        "[router]\ncores = {CORES}\nbatch = {}\nbuffers = 64\ngather = \"2 us\"\n",
        of.batch
    );
    for (name, core) in ["a", "b", "c"].into_iter().zip(of.ports) {
        text += &format!(
            "[[port]]\nname = \"{name}\"\nrate = \"400 Mbit/s\"\ncore = {core}\n{}\n",
            kind.replace("NAME", name)
        );
    }
    for (path, core) in of.paths.iter().enumerate() {
        text += &format!(
            "[[path]]\nname = \"p{path}\"\ncore = {core}\nqueue = {}\nweight = {}\n\
             match = {{ destination-port = {path} }}\n{}",
            of.queue,
            path + 1,
            if of.flows { "flows = { by = \"destination\" }\n" } else { "" }
        );
    }
    for (prefix, port) in [(2, "b"), (3, "c")] {
        text += &format!(
            "[[route]]\nprefix = \"10.{prefix}.0.0/16\"\nport = \"{port}\"\n\
             neighbour = \"02:00:00:00:09:01\"\n"
        );
    }
    // Every core has a path.
    for core in 0..CORES {
        text += &format!(
            "[[path]]\nname = \"idle{core}\"\ncore = {core}\nmatch = {{ protocol = \"99\" }}\n"
        );
    }
    RouterScenario::parse("test.toml", &text, Path::new("")).unwrap()
}

struct Cores {
    scenario: RouterScenario,
    cores: Vec<Core>,
    mock: Arc<quanta::Mock>,
    sent: [Sent; 3],
}

const LOSSLESS: &str = "kind = \"pcap\"\ninput = \"NAME\"\nmac = \"02:00:00:00:00:01\"";
const LOSSY: &str = "kind = \"tap\"\nmac = \"02:00:00:00:00:01\"";

impl Cores {
    fn new(of: &Placement, kind: &str, packets: u32) -> Self {
        let scenario = scenario(of, kind);
        let (clock, mock) = Clock::mock();
        let sent: [Sent; 3] = Default::default();
        let ends = InterCoreLinks::all(&occupancy(&scenario), scenario.cores).unwrap();
        let cores = ends.into_iter().map(|end| {
            let states: Arc<[RemotePortState]> = Arc::clone(&end.ports);
            let port = |at: usize| -> Box<dyn Port> {
                if CoreId(scenario.ports[at].core) != end.core {
                    return Box::new(RemotePort(Arc::clone(&states), PortId(at)));
                }
                let last = if at == 2 { 0 } else { packets };
                let paths = u16::try_from(of.paths.len()).unwrap();
                let (port, sent) = (u8::try_from(at).unwrap(), Arc::clone(&sent[at]));
                Box::new(Numbered { port, paths, next: 0, last, sent, mock: Arc::clone(&mock) })
            };
            let parts = Parts::load(&scenario, &[MAC; 3], &clock, end.core).unwrap();
            let ports = (0..3).map(port).collect();
            Core::new(end.core, parts, ports, clock.clone(), Some(end)).unwrap()
        });
        let cores = cores.collect();
        Self { scenario, cores, mock, sent }
    }

    fn round(&mut self, core: usize) {
        let core = core % self.cores.len();
        self.mock.increment(1_000u64);
        self.cores[core].begin();
        self.cores[core].round().unwrap();
    }

    /// Exchanges packets until none is in flight between cores.
    fn drain_links(&mut self) {
        while !(0..2).fold(true, |settled, _| {
            self.cores.iter_mut().fold(settled, |settled, core| core.drain_links() & settled)
        }) {}
    }

    fn report(&mut self) -> Report {
        self.drain_links();
        let scenario = &self.scenario;
        let mut all = self.cores.iter_mut().map(|core| core.snapshot(scenario));
        let mut snapshot: CoreSnapshot = all.next().unwrap();
        all.for_each(|other| snapshot.add(other));
        let processes = snapshot.processes.len();
        let context = ReportContext {
            scenario,
            bounds: &vec![PathBounds::default(); scenario.paths.len()],
            reserved: &IdVec::repeat(0, processes),
            frequency: 1,
            elapsed_ns: 1,
            ended: Ended::Told,
            reloads: 0,
            removed: None,
        };
        report(&context, snapshot)
    }

    fn is_over(&self) -> bool {
        self.cores.iter().all(|core| core.ended() && core.is_empty())
    }
}

/// Returns the number of sent packets without a sojourn time, or of times without a packet.
fn unmeasured(report: &Report) -> u64 {
    report.paths.iter().map(|path| path.sent.abs_diff(path.delay_sources.counts().count())).sum()
}

fn placements() -> impl Strategy<Value = Placement> {
    let paths = proptest::collection::vec(0..CORES, 1..5);
    ([0..CORES, 0..CORES, 0..CORES], paths, 1..20u32, 1..9u32).prop_map(
        |(ports, paths, queue, batch)| Placement { ports, paths, queue, batch, flows: false },
    )
}

/// Runs overloaded cores in the order of `turns`. Every packet must be accounted for, and no path
/// may have more packets than `queues` of its queues and eight batches.
fn overload(of: &Placement, turns: &[usize], queues: u64) -> Result<(), TestCaseError> {
    let mut cores = Cores::new(of, LOSSY, 1_000);
    for rounds in 0..1_000 {
        cores.round(turns[rounds % turns.len()]);
        cores.round(rounds);
        if rounds % 101 == 0 {
            let report = cores.report();
            prop_assert_eq!(report.unaccounted, 0, "{:?}", report);
        }
    }
    let report = cores.report();
    prop_assert_eq!(report.unaccounted, 0, "{:?}", report);
    prop_assert_eq!(unmeasured(&report), 0);
    for (path, report) in report.paths.iter().enumerate().take(of.paths.len()) {
        prop_assert_eq!(report.dropped_by_function + report.dropped_wrong_output, 0);
        let bound = u64::from(of.queue) * queues + u64::from(of.batch) * 8 + 8;
        let queued = report.queued;
        prop_assert!(queued <= bound, "path {path}: {queued} queued, at most {bound} expected");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_sent_once_and_in_order(
        of in placements(),
        turns in proptest::collection::vec(0..CORES, 16..64),
    ) {
        const PACKETS: u32 = 600;
        let mut cores = Cores::new(&of, LOSSLESS, PACKETS);
        let mut rounds = 0;
        while !cores.is_over() {
            // Every core gets turns, at random frequencies.
            cores.round(turns[rounds % turns.len()]);
            cores.round(rounds);
            rounds += 1;
            prop_assert!(rounds < 40_000, "the router does not drain: {:?}", cores.report());
            if rounds % 97 == 0 {
                let report = cores.report();
                prop_assert_eq!(report.unaccounted, 0, "{:?}", report);
            }
        }
        let report = cores.report();
        prop_assert_eq!(report.unaccounted, 0);
        let mut seen = 0;
        for (sent, to) in cores.sent.iter().zip([2, 0, 1]) {
            let sent = sent.lock().unwrap();
            seen += sent.len();
            let mut last = BTreeMap::new();
            for (port, path, number) in &*sent {
                prop_assert_eq!(number / 7 % 2, to);
                let before = last.insert((port, path), number);
                prop_assert!(before < Some(number), "reordered or duplicated");
            }
        }
        prop_assert_eq!(seen, 2 * PACKETS as usize, "{:?}", report);
        prop_assert_eq!(unmeasured(&report), 0);
    }

    /// On overload the inputs drop packets before they cost CPU time; queues stay bounded.
    #[test]
    fn no_finished_packet_is_dropped_and_queues_are_bounded(
        of in placements(),
        turns in proptest::collection::vec(0..CORES, 16..64),
    ) {
        // Packets in the input queue, at outputs, and in flight to them.
        overload(&of, &turns, 4)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A flow that is too long loses packets at the output's core; the others wait in bounded
    /// queues, and as many may be in flight.
    #[test]
    fn flows_on_other_cores_are_bounded_and_account_for_every_packet(
        of in placements(),
        turns in proptest::collection::vec(0..CORES, 16..64),
    ) {
        let of = Placement { flows: true, ..of };
        // The input queue; at each of two outputs a queue, a head and twice a queue in flight.
        overload(&of, &turns, 7)?;
    }
}

/// A reload with packets in flight between cores loses only packets of removed paths.
#[test]
fn a_reload_across_cores_loses_only_packets_of_removed_paths() {
    let of =
        Placement { ports: [0, 1, 2], paths: vec![3, 2, 1], queue: 16, batch: 4, flows: false };
    let mut cores = Cores::new(&of, LOSSLESS, 4_000);
    let clock = Clock::default();
    for turn in 0..40 {
        for round in 0..50 {
            cores.round(round * 7 % 5);
        }
        cores.drain_links();
        // Every other reload removes the third path.
        let mut changed = scenario(&of, LOSSLESS);
        let old = cores.scenario.paths.len();
        if turn % 2 == 0 {
            changed.paths.remove(2);
        }
        let names =
            |name: &str| cores.scenario.paths.iter().position(|path| path.name == name).map(PathId);
        let kept: Vec<_> = changed.paths.iter().map(|path| names(&path.name)).collect();
        let occupancy = occupancy(&changed);
        let before = cores.report();
        let mut gone = 0;
        for number in 0..cores.cores.len() {
            let part = part_of_core(&changed, CoreId(number));
            let parts = Parts::load(&part, &[MAC; 3], &clock, CoreId(number)).unwrap();
            let of = cores.cores[number].apply_reload(parts, &kept, Some(&occupancy)).unwrap();
            gone += of.dropped_by_reload;
        }
        cores.scenario = changed;
        let after = cores.report();
        assert_eq!(unmeasured(&after), 0);
        let queued = |report: &Report| report.paths.iter().map(|path| path.queued).sum::<u64>();
        let dropped =
            |report: &Report| report.paths.iter().map(|path| path.dropped_by_reload).sum::<u64>();
        assert_eq!(
            queued(&before) - queued(&after),
            gone + dropped(&after) - dropped(&before),
            "{old}"
        );
    }
    assert!(cores.sent.iter().map(|sent| sent.lock().unwrap().len()).sum::<usize>() > 1_000);
}

/// Opening fails with more cores than CPUs. A reload fails if it moves a port or path to another
/// core, or changes the number of cores.
#[test]
fn too_many_cores_and_moves_between_cores_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let parse = |cores: usize, port: usize, path: usize| {
        let text = format!(
            "[router]\ncores = {cores}\n\
             [[port]]\nname = \"a\"\nkind = \"pcap\"\noutput = \"a.pcap\"\nrate = \"1 Gbit/s\"\n\
             mac = \"02:00:00:00:00:01\"\ncore = {port}\n\
             [[path]]\nname = \"moves\"\ncore = {path}\n\
             {}[[route]]\nprefix = \"0.0.0.0/0\"\nport = \"a\"\n\
             neighbour = \"02:00:00:00:09:01\"\n",
            (0..cores)
                .map(|core| format!("[[path]]\nname = \"{core}\"\ncore = {core}\n"))
                .collect::<String>()
        );
        RouterScenario::parse("test.toml", &text, folder.path()).unwrap()
    };
    let refused = |error: PortError| (error.of, error.name.clone(), error.to_string(), error.help);
    let error = LiveRouter::open(&parse(64, 0, 0)).err().unwrap();
    let (_, _, text, help) = refused(error);
    assert!(text.contains("64 cores need ") && help.unwrap().contains("taskset"), "{text}");
    let mut router = LiveRouter::open(&parse(2, 0, 1)).unwrap();
    router.reload(&parse(2, 0, 1)).unwrap();
    let (of, name, text, _) = refused(router.reload(&parse(2, 0, 0)).unwrap_err());
    assert_eq!((of, name.as_str()), ("path", "moves"));
    assert!(text.contains("another core"), "{text}");
    for other in [parse(2, 1, 1), parse(1, 0, 0)] {
        let (.., text, _) = refused(router.reload(&other).unwrap_err());
        assert!(text.contains("cannot change while the router runs"), "{text}");
    }
    // The router still runs after the refused reloads.
    let report = router.run(Some(1_000_000), &Control::default()).unwrap();
    assert_eq!((report.unaccounted, report.reloads), (0, 1));
}
