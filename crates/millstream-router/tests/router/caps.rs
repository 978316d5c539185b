//! Capped paths send what their rate caps allow, under any load. The live machine runs on a mock
//! clock.

use etherparse::PacketBuilder;
use millstream::Link;
use millstream_router::live::{
    Classifier, Clock, Forwarder, LiveMachine, NextHop, Pool, Port, PortError, Routes, admitted,
};
use millstream_router::{PacketHandle, PathId, PortId, Router, Step};
use millstream_scenario::RouterScenario;
use std::fmt::Write;
use std::path::Path;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Length of a packet, bits.
const BITS: u64 = 100 * 8;
const RATE_BPS: u64 = 800_000;
const BURST_BYTES: u64 = 1_500;

/// A port that always has packets of all paths.
struct Flood {
    frames: Vec<Vec<u8>>,
    next: usize,
    /// The most packets per read.
    most: usize,
}

impl Port for Flood {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let count = most.min(self.most);
        for _ in 0..count {
            into.extend(pool.copy(&self.frames[self.next]));
            self.next = (self.next + 1) % self.frames.len();
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        packets.iter().for_each(|packet| pool.release(*packet));
        Ok(packets.len())
    }
}

fn frame(port: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], MAC);
    let builder = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(1, port);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[0; 58]).unwrap();
    assert_eq!(frame.len() as u64 * 8, BITS);
    frame
}

/// Returns a scenario with `paths` capped paths and an uncapped one.
fn file(paths: u16) -> String {
    let mut file = String::from(
        "[router]\n[[port]]\nname = \"p\"\nkind = \"tap\"\nrate = \"10 Gbps\"\noverhead = 0\n",
    );
    for path in 0..paths {
        write!(
            file,
            "[[path]]\nname = \"{path}\"\nmatch = {{ destination-port = {path} }}\nqueue = 16\n\
             max-rate = \"{RATE_BPS} bps\"\nburst = \"{BURST_BYTES} B\"\n"
        )
        .unwrap();
    }
    file + "[[path]]\nname = \"rest\"\n[[route]]\nprefix = \"0.0.0.0/0\"\nport = \"p\"\n\
            neighbour = \"02:00:00:00:00:02\"\n"
}

/// Offers packets of all paths in turn for a second, `most` per read; a step takes `step_ns`. Every
/// capped path must send what its cap allows.
fn caps_are_used_up(paths: u16, most: usize, step_ns: u64) {
    let scenario = RouterScenario::parse("test.toml", &file(paths), Path::new("")).unwrap();
    let mut routes = Routes::default();
    let all = "0.0.0.0/0".parse().unwrap();
    routes.add(all, NextHop { output: PortId(0), from: MAC, to: [2, 0, 0, 0, 0, 2] });
    let (clock, mock) = Clock::mock();
    let rules = scenario.paths.iter().map(|path| path.matches).collect();
    let (classifier, function) = (Classifier::new(rules), Forwarder::new(routes));
    let mut machine = LiveMachine::new(clock, Pool::new(16_384), classifier, function);
    let frames = (0..=paths).map(frame).collect();
    machine.add(Flood { frames, next: 0, most }, MAC, Link::new(10_000_000_000, 0));
    let plan = admitted(&scenario, 1_000_000_000).unwrap();
    let mut router = Router::new(&plan, machine).unwrap();
    let (mut now_ns, mut most_waiting) = (0, 0);
    while now_ns < 1_000_000_000 {
        now_ns += step_ns;
        mock.increment(step_ns);
        if let Step::Idle { .. } = router.step() {
            router.resume();
        }
        let (before, after) = router.waiting(PathId(paths.into()));
        most_waiting = most_waiting.max(before + after);
    }
    let allowed = (BURST_BYTES * 8 + RATE_BPS) / BITS;
    for path in 0..usize::from(paths) {
        let of = router.path(PathId(path));
        assert!(of.dropped_full > 0, "the load must exceed the cap: {of:?}");
        let range = allowed * 98 / 100..=allowed + 1;
        assert!(range.contains(&of.sent), "path {path} sent {} of {allowed}", of.sent);
    }
    let rest = router.path(PathId(paths.into()));
    assert!(rest.sent > 1_000, "{rest:?}");
    assert!(most_waiting <= 2 * most, "{most_waiting} packets of the uncapped path waited");
}

#[test]
fn a_path_far_above_its_cap_sends_what_the_cap_allows() {
    caps_are_used_up(1, 8, 2_000);
}

#[test]
fn many_paths_above_their_caps_send_what_the_caps_allow() {
    caps_are_used_up(100, 32, 5_000);
}
