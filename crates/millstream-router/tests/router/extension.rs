//! Extensions as WebAssembly modules: valid ones, and ones that loop, grow, trap or return wrong
//! lengths. A module affects only its own path, and every packet is accounted for.

use crate::support::Costly;
use etherparse::{ArpEthIpv4Packet, ArpOperation, PacketBuilder};
use millstream::Link;
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Control, ExtensionCounters, Extensions, Forwarder,
    LiveMachine, LiveRouter, MemoryPort, NextHop, Pool, Routes, admitted,
};
use millstream_router::{
    Deferral, InputId, Machine, OutputId, PathId, PortId, Process, Router, Step, Verdict,
};
use millstream_scenario::RouterScenario;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 16_384;
/// Packets per path.
const PACKETS: u64 = 3_000;
/// Offset of the payload after Ethernet, IPv4 and UDP headers.
const PAYLOAD: usize = 42;
/// Cost of forwarding a packet, and of a packet that exhausts the fuel, ns.
const COST_NS: u64 = 1_000;
const LOOP_NS: u64 = 20_000;

/// Returns a module whose `process` has this body; packets are at address 1024.
fn module(body: &str) -> String {
    format!(
        "(module (memory (export \"memory\") 1) (global (export \"packet\") i32 (i32.const 1024))\n\
         (global $calls (mut i32) (i32.const 0))\n\
         (func (export \"process\") (param $length i32) (result i32) {body}))"
    )
}

/// Returns a module that drops packets whose payload begins with 0 and decrements it in others.
fn good() -> String {
    let byte = 1024 + PAYLOAD;
    module(&format!(
        "(if (i32.eqz (i32.load8_u (i32.const {byte}))) (then (return (i32.const 0))))
         (i32.store8 (i32.const {byte})
            (i32.sub (i32.load8_u (i32.const {byte})) (i32.const 1)))
         (local.get $length)"
    ))
}

const LOOPS: &str = "(loop $again (br $again)) (i32.const 0)";
const GROWS: &str = "(loop $again (drop (memory.grow (i32.const 1))) (br $again)) (i32.const 0)";

/// Returns a frame to UDP port `port` whose payload begins with `byte`.
fn frame(port: u16, byte: u8) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([4; 6], ROUTER).ipv4([1; 4], [10, 2, 0, 1], 9);
    let mut bytes = Vec::new();
    builder.udp(1, port).write(&mut bytes, &[byte; 30]).unwrap();
    bytes
}

/// Packets of the extended path and of the other in turn; payloads begin with 0, 1, 2 and so on.
fn frames() -> Vec<Vec<u8>> {
    (0..=255).flat_map(|byte| [frame(1, byte), frame(2, byte)]).collect()
}

/// Returns a scenario whose first path has the module `text` as its extension, if given.
fn scenario(folder: &Path, text: Option<&str>, settings: &str) -> RouterScenario {
    let extension = text.map_or(String::new(), |text| {
        fs::write(folder.join("module.wasm"), wat::parse_str(text).unwrap()).unwrap();
        format!("extension = {{ module = \"module.wasm\"{settings} }}\n")
    });
    parse(folder, &extension)
}

fn parse(folder: &Path, extension: &str) -> RouterScenario {
    let port = |name: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"pcap\"\ninput = \"{name}.pcap\"\n\
             output = \"/dev/null\"\nmac = \"02:00:00:00:00:01\"\nrate = \"100 Gbps\"\n"
        )
    };
    let path = |name: &str, port: u16| {
        format!(
            "[[path]]\nname = \"{name}\"\nmatch = {{ destination-port = {port} }}\nqueue = 8192\n"
        )
    };
    let text = format!(
        "[router]\ngather = \"0 us\"\n{}{}{}{extension}{}[[route]]\nprefix = \"10.2.0.0/16\"\n\
         port = \"b\"\n\
         neighbour = \"02:00:00:00:00:09\"\n",
        port("a"),
        port("b"),
        path("extended", 1),
        path("other", 2)
    );
    RouterScenario::parse("router.toml", &text, folder).unwrap()
}

fn machine(
    clock: Clock,
    scenario: &RouterScenario,
    frames: Vec<Vec<u8>>,
) -> LiveMachine<MemoryPort> {
    let mut routes = Routes::default();
    let hop = NextHop { output: PortId(1), from: ROUTER, to: [9; 6] };
    routes.add("10.2.0.0/16".parse().unwrap(), hop);
    let classifier = Classifier::new(scenario.paths.iter().map(|path| path.matches).collect());
    let mut machine =
        LiveMachine::new(clock, Pool::new(BUFFERS), classifier, Forwarder::new(routes));
    machine.add(MemoryPort::new(frames, 2 * PACKETS), ROUTER, Link::new(1_000_000_000, 0));
    machine.add(MemoryPort::default().keeping(), ROUTER, Link::new(100_000_000_000, 0));
    machine.set_extensions(Extensions::load(scenario).unwrap(), &[]);
    machine
}

struct Outcome {
    extension: ExtensionCounters,
    /// Packets of the extended path dropped by routing after the extension.
    by_routing: u64,
    /// Transmitted frames.
    extended: Vec<Vec<u8>>,
    other: Vec<Vec<u8>>,
    /// Time used by the two functions when the other path ran out of work, ns.
    used_ns: [u64; 2],
}

/// Routes [`PACKETS`] per path on a clock that the extension's work advances.
fn route(text: &str, settings: &str) -> Outcome {
    let folder = TempDir::new().unwrap();
    let scenario = scenario(folder.path(), Some(text), settings);
    let (clock, mock) = Clock::mock();
    let machine = machine(clock.clone(), &scenario, frames());
    let mut exhausted = 0;
    let cost = move |machine: &LiveMachine<MemoryPort>, path: PathId| {
        let now =
            machine.extension_counters(path).map_or(exhausted, |extension| extension.out_of_fuel);
        let looped = now > exhausted;
        exhausted = now;
        if looped { LOOP_NS } else { COST_NS }
    };
    let machine = Costly { machine, mock: Arc::clone(&mock), dispatch: 10, forward: cost };
    let mut router = Router::new(&admitted(&scenario, 2_000_000_000).unwrap(), machine).unwrap();
    let waits = |router: &Router<_>, path| router.waiting(PathId(path)) != (0, 0);
    let mut used_ns = None;
    while router.input(InputId(0)).read < 2 * PACKETS
        || (0..2).any(|path| waits(&router, path))
        || router.staged(OutputId(1)) > 0
    {
        if let Step::Idle { until_ns } = router.step() {
            mock.increment(until_ns.saturating_sub(clock.now_ns()).clamp(1, 1_000_000));
            router.resume();
        }
        let done = router.input(InputId(0)).read == 2 * PACKETS && router.waiting(PathId(1)).0 == 0;
        if done && used_ns.is_none() {
            used_ns = Some([0, 1].map(|path| router.used(Process::Forward(PathId(path))).busy_ns));
        }
    }
    let (extended, other) = (router.path(PathId(0)), router.path(PathId(1)));
    let machine = &mut router.machine_mut().machine;
    let extension = machine.extension_counters(PathId(0)).unwrap();
    // Conservation: of the path, and of its extension's verdicts.
    assert_eq!(extended.received, PACKETS);
    assert_eq!(extended.received, extended.departed());
    let failed = extension.out_of_fuel
        + extension.over_memory
        + extension.trapped
        + extension.bad_length
        + extension.while_stopped;
    assert_eq!(extension.called + extension.while_stopped, PACKETS);
    let by_routing = extended.dropped_by_function - extension.dropped - failed;
    assert_eq!(machine.counters(PortId(1)).transmitted, extended.sent + other.sent);
    assert_eq!(machine.free_buffers(), BUFFERS as usize, "a buffer leaked");
    // The other path is unaffected.
    assert_eq!((other.received, other.sent), (PACKETS, PACKETS));
    assert_eq!(machine.extension_counters(PathId(1)), None);
    let of = |frames: &[Vec<u8>], port: u8| -> Vec<Vec<u8>> {
        frames.iter().filter(|frame| frame[37] == port).cloned().collect()
    };
    let kept = machine.port_mut(PortId(1)).kept();
    let (extended, other) = (of(kept, 1), of(kept, 2));
    for (frame, byte) in other.iter().zip((0..=255u8).cycle()) {
        assert_eq!(frame[PAYLOAD], byte, "in order, unchanged");
    }
    Outcome { extension, by_routing, extended, other, used_ns: used_ns.unwrap() }
}

#[test]
fn a_module_changes_and_drops_packets() {
    let outcome = route(&good(), "");
    let zeros = PACKETS.div_ceil(256);
    let expected =
        ExtensionCounters { called: PACKETS, dropped: zeros, ..ExtensionCounters::default() };
    assert_eq!((outcome.extension, outcome.by_routing), (expected, 0));
    assert_eq!(outcome.extended.len() as u64, PACKETS - zeros);
    for (frame, byte) in outcome.extended.iter().zip((0..255u8).cycle()) {
        assert_eq!(frame[PAYLOAD], byte, "decremented");
        assert_eq!(frame[PAYLOAD + 1], byte + 1);
    }
    assert_eq!(outcome.other.len() as u64, PACKETS);
}

#[test]
fn a_module_changes_lengths_within_a_buffer() {
    let longer = module("(i32.add (local.get $length) (i32.const 100))");
    let outcome = route(&longer, "");
    let before = frame(1, 0).len();
    assert_eq!(outcome.extended.len() as u64, PACKETS);
    assert!(outcome.extended.iter().all(|frame| frame.len() == before + 100));
    // A frame shorter than its packet is malformed: the router drops it.
    let shorter = module("(i32.const 20)");
    let outcome = route(&shorter, "");
    assert_eq!((outcome.extension.bad_length, outcome.by_routing), (0, PACKETS));
    for length in ["-1", "2049", "0x7fffffff", "0x80000000"] {
        let outcome = route(&module(&format!("(i32.const {length})")), ", faults = 5");
        assert_eq!(outcome.extension.bad_length, 5, "{length}");
        assert!(outcome.extension.stopped);
    }
    let most = route(&module(&format!("(i32.const {BUFFER_BYTES})")), "");
    assert!(most.extended.iter().all(|frame| frame.len() == BUFFER_BYTES));
}

#[test]
fn a_module_that_fails_is_stopped_and_harms_its_own_path_only() {
    let out_of_bounds = "(i32.store (i32.const -4) (i32.const 1)) (local.get $length)";
    let recursion = module("(call 0 (local.get $length))");
    type Count = fn(&ExtensionCounters) -> u64;
    let cases: [(String, Count); 5] = [
        (module(LOOPS), |of| of.out_of_fuel),
        (module(GROWS), |of| of.over_memory),
        (module("(unreachable)"), |of| of.trapped),
        (module(out_of_bounds), |of| of.trapped),
        (recursion, |of| of.trapped + of.out_of_fuel),
    ];
    for (text, count) in cases {
        // The growing module exceeds the limit of four pages before its fuel is exhausted.
        let outcome = route(&text, ", faults = 7, memory = \"256 KiB\"");
        let stopped = outcome.extension;
        assert!(stopped.stopped, "{text}");
        assert_eq!((stopped.called, count(&stopped)), (7, 7), "{text}");
        assert_eq!(stopped.while_stopped, PACKETS - 7);
        assert!(outcome.extended.is_empty());
    }
}

#[test]
fn nonconsecutive_faults_do_not_stop_a_module() {
    let byte = 1024 + PAYLOAD;
    let odd =
        format!("(if (i32.and (i32.load8_u (i32.const {byte})) (i32.const 1)) (then unreachable))");
    let outcome = route(&module(&format!("{odd} (local.get $length)")), ", faults = 2");
    assert_eq!(outcome.extension.trapped, PACKETS / 2);
    assert!(!outcome.extension.stopped);
    assert_eq!(outcome.extended.len() as u64, PACKETS / 2);
}

#[test]
fn the_time_of_a_module_is_charged_to_its_own_path() {
    // The module is never stopped; each of its packets costs as much as twenty of the other path.
    let outcome = route(&module(LOOPS), ", faults = 1000000");
    assert_eq!(outcome.extension.out_of_fuel, PACKETS);
    let [extended, other] = outcome.used_ns;
    assert!(
        extended.abs_diff(other) * 100 <= 2 * other,
        "both were backlogged with equal reservations, but used {extended} and {other} ns"
    );
}

#[test]
fn a_packet_held_for_its_neighbour_passes_the_module_once() {
    let folder = TempDir::new().unwrap();
    let scenario = scenario(folder.path(), Some(&good()), "");
    let net = "10.2.0.7/16".parse().unwrap();
    let mut routes = Routes::default();
    routes.add_resolved(net, PortId(1), ROUTER, None);
    let classifier = Classifier::new(scenario.paths.iter().map(|path| path.matches).collect());
    let (clock, _hand) = Clock::mock();
    let mut machine = LiveMachine::new(clock, Pool::new(64), classifier, Forwarder::new(routes));
    let arp = ArpEthIpv4Packet {
        operation: ArpOperation::REPLY,
        sender_mac: [2, 0, 0, 0, 0, 9],
        sender_ipv4: [10, 2, 0, 1],
        target_mac: ROUTER,
        target_ipv4: [10, 2, 0, 7],
    };
    let mut answer = Vec::new();
    PacketBuilder::ethernet2(arp.sender_mac, ROUTER).arp(arp.into()).write(&mut answer).unwrap();
    machine.add(MemoryPort::new(vec![frame(1, 200)], 1), ROUTER, Link::new(1_000_000_000, 0));
    machine.add(MemoryPort::new(vec![answer], 1).keeping(), ROUTER, Link::new(1_000_000_000, 0));
    machine.set_address(PortId(1), Some(net));
    machine.set_extensions(Extensions::load(&scenario).unwrap(), &[]);
    let mut read = Vec::new();
    assert_eq!(machine.receive(InputId(0), 8, &mut read), 1);
    let (path, mut packet) = read.pop().unwrap();
    assert_eq!(machine.forward(path, &mut packet), Verdict::Hold);
    assert_eq!(machine.receive(InputId(1), 8, &mut read), 1);
    machine.give_back(false, &mut read);
    let (path, mut packet) = read.pop().unwrap();
    assert_eq!(machine.forward(path, &mut packet), Verdict::Send(OutputId(1)));
    assert_eq!(machine.transmit(OutputId(1), &[packet]), 1);
    assert_eq!(machine.port_mut(PortId(1)).kept().last().unwrap()[PAYLOAD], 199);
    assert_eq!(machine.extension_counters(PathId(0)).unwrap().called, 1);
}

#[test]
fn modules_are_loaded_replaced_and_removed_while_packets_arrive() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    // Drops only the second packet after it is loaded.
    let second = module(
        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (select (i32.const 0) (local.get $length) (i32.eq (global.get $calls) (i32.const 2)))",
    );
    let plain = scenario(folder, None, "");
    let (clock, _hand) = Clock::mock();
    let mut machine = machine(clock, &plain, vec![frame(1, 9)]);
    let load = |text: &str, settings: &str| {
        Extensions::load(&scenario(folder, Some(text), settings)).unwrap()
    };
    let drops = |machine: &mut LiveMachine<MemoryPort>| {
        let mut read = Vec::new();
        machine.receive(InputId(0), 1, &mut read);
        let (path, mut packet) = read.pop().unwrap();
        let verdict = machine.forward(path, &mut packet);
        machine.discard(packet);
        verdict == Verdict::Drop
    };
    let kept = [Some(PathId(0)), Some(PathId(1))];
    assert!(!drops(&mut machine));
    assert_eq!(machine.extension_counters(PathId(0)), None);
    machine.set_extensions(load(&second, ""), &kept);
    assert!(!drops(&mut machine));
    // An unchanged module keeps its state.
    machine.set_extensions(load(&second, ""), &kept);
    assert!(drops(&mut machine));
    // Another limit restarts the module; its counters continue.
    machine.set_extensions(load(&second, ", fuel = 1000"), &kept);
    assert!(!drops(&mut machine));
    assert!(drops(&mut machine));
    let counters = machine.extension_counters(PathId(0)).unwrap();
    assert_eq!((counters.called, counters.dropped), (4, 2));
    // A stopped module restarts at a reload even if nothing changed.
    machine.set_extensions(load(&module("(unreachable)"), ", faults = 1"), &kept);
    assert!(drops(&mut machine) && drops(&mut machine));
    assert!(machine.extension_counters(PathId(0)).unwrap().stopped);
    machine.set_extensions(load(&module("(unreachable)"), ", faults = 1"), &kept);
    assert!(!machine.extension_counters(PathId(0)).unwrap().stopped);
    assert!(drops(&mut machine));
    let counters = machine.extension_counters(PathId(0)).unwrap();
    assert_eq!((counters.called, counters.trapped, counters.while_stopped), (6, 2, 1));
    machine.set_extensions(Extensions::load(&plain).unwrap(), &kept);
    assert!(!drops(&mut machine));
    assert_eq!(machine.extension_counters(PathId(0)), None);
    assert_eq!(machine.free_buffers(), BUFFERS as usize);
}

#[test]
fn a_live_router_loads_a_changed_module_and_refuses_an_invalid_one() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let path = folder.join("a.pcap");
    let dead = pcap::Capture::dead(pcap::Linktype::ETHERNET).unwrap();
    let mut capture = dead.savefile(&path).unwrap();
    for frame in frames() {
        let length = u32::try_from(frame.len()).unwrap();
        let ts = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let header = pcap::PacketHeader { ts, caplen: length, len: length };
        capture.write(&pcap::Packet::new(&header, &frame));
    }
    drop(capture);
    fs::copy(&path, folder.join("b.pcap")).unwrap();
    let traps = scenario(folder, Some(&module("(unreachable)")), ", faults = 3");
    let mut router = LiveRouter::open(&traps).unwrap();
    fs::write(folder.join("module.wasm"), "no module").unwrap();
    assert_eq!(router.reload(&traps).unwrap_err().name, "extended");
    router.reload(&scenario(folder, Some(&good()), "")).unwrap();
    let report = router.run(None, &Control::default()).unwrap();
    assert_eq!(report.unaccounted, 0);
    let extended = &report.paths[0];
    let extension = extended.extension.unwrap();
    // Each capture has every payload once.
    assert_eq!((extension.called, extension.dropped, extension.trapped), (512, 2, 0));
    assert_eq!((extended.sent, extended.dropped_by_function), (510, 2));
}

#[test]
fn an_invalid_module_is_refused_with_its_file_and_the_reason() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let refused = |extension: &str| {
        let scenario = parse(folder, &format!("extension = {extension}\n"));
        let error = Extensions::load(&scenario).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("path `extended`: `extension`, `module` = \""), "{text}");
        assert!(text.contains(".wasm"), "{text}");
        text + " " + &error.help.unwrap()
    };
    let of = |text: &str, settings: &str| {
        fs::write(folder.join("m.wasm"), wat::parse_str(text).unwrap()).unwrap();
        refused(&format!("{{ module = \"m.wasm\"{settings} }}"))
    };
    assert!(refused("{ module = \"none.wasm\" }").contains("cannot be read: No such file"));
    fs::write(folder.join("m.wasm"), [0; 64]).unwrap();
    assert!(refused("{ module = \"m.wasm\" }").contains("not a usable module"));
    fs::write(folder.join("m.wasm"), vec![0; (4 << 20) + 1]).unwrap();
    assert!(refused("{ module = \"m.wasm\" }").contains("larger than"));
    let whole = good();
    let without = |name: &str| whole.replace(&format!("(export \"{name}\")"), "");
    assert!(of(&without("memory"), "").contains("a memory `memory`"));
    assert!(of(&without("packet"), "").contains("a global `packet`"));
    assert!(of(&without("process"), "").contains("a function `process`"));
    let params = whole.replace("(param $length i32)", "(param $length i32) (param i32)");
    assert!(of(&params, "").contains("a function `process`"));
    for address in ["-1", "65000", "0x80000000"] {
        let text = whole.replacen("(i32.const 1024)", &format!("(i32.const {address})"), 1);
        assert!(of(&text, "").contains("leaves no room for a packet"), "{address}");
    }
    let imports = whole.replacen("(memory", "(import \"env\" \"f\" (func)) (memory", 1);
    assert!(of(&imports, "").contains("imports nothing"));
    let large =
        whole.replacen("(memory (export \"memory\") 1)", "(memory (export \"memory\") 3)", 1);
    assert!(of(&large, ", memory = \"128 KiB\"").contains("within `memory`"));
    let endless =
        whole.replacen("(module", &format!("(module (func $s {}) (start $s)", "(loop (br 0))"), 1);
    assert!(of(&endless, "").contains("fuel"));
}

#[test]
fn the_example_module_equals_its_source_and_marks_packets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router");
    let source = wat::parse_file(folder.join("mark.wat")).unwrap();
    // `MILLSTREAM_BLESS=1` rewrites the module.
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        fs::write(folder.join("mark.wasm"), &source).unwrap();
    }
    assert!(fs::read(folder.join("mark.wasm")).unwrap() == source, "assemble mark.wat again");
    let text = fs::read_to_string(folder.join("extension.toml")).unwrap();
    let mut scenario = RouterScenario::parse("extension.toml", &text, &folder).unwrap();
    // Matches all packets of the test.
    scenario.paths[0].matches = millstream_scenario::Match::default();
    let (clock, _hand) = Clock::mock();
    let mut machine = machine(clock, &scenario, vec![frame(5004, 1), frame(5005, 1)]);
    let mut read = Vec::new();
    assert_eq!(machine.receive(InputId(0), 2, &mut read), 2);
    for (path, mut packet) in read {
        assert_eq!(machine.forward(path, &mut packet), Verdict::Send(OutputId(1)));
        assert_eq!(machine.transmit(OutputId(1), &[packet]), 1);
    }
    let marks =
        machine.port_mut(PortId(1)).kept().iter().map(|frame| frame[15]).collect::<Vec<_>>();
    assert_eq!(marks, [46 << 2, 0]);
}
