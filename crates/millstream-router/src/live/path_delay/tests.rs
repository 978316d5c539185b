//! Compares bounds with a router on a simulated CPU and link, and tests what has none.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

use super::*;
use crate::ids::{InputId, OutputId, PacketHandle, PathId};
use crate::live::admitted;
use crate::live::paced_link::PacedLink;
use crate::router::machine::{
    Accounting, Deferral, Flows, Machine, MultiCore, PacedLinks, Verdict,
};
use crate::router::{Router, Step};

/// Cycles per second.
const FREQUENCY: u64 = 2_000_000_000;
/// The cost of a packet in every process, ns.
const COST_NS: u64 = 200;
const BATCH: usize = 16;
/// The time in which the first port receives a packet on average, ns, rounded up.
const PACKET_NS: u64 = 6_667;
const LONGEST_BYTES: u32 = 1_500;
/// The output to which all packets go.
const WAN: OutputId = OutputId(1);

/// A router of two ports, with all reservations in packets.
fn scenario(edit: impl Fn(String) -> String) -> RouterScenario {
    let text = "[router]\nname = \"r\"\nbatch = 16\ngather = \"0 us\"\n\
        [[port]]\nname = \"lan\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\ncost = \"200 ns\"\n\
        input-reservation = \"150 kpps\"\noutput-reservation = \"25 kpps\"\n\
        longest-sleep = \"10 us\"\nline-burst = \"3 ms\"\n\
        [[port]]\nname = \"wan\"\nkind = \"tap\"\nrate = \"10 Mbit/s\"\ncost = \"200 ns\"\n\
        input-reservation = \"25 kpps\"\noutput-reservation = \"150 kpps\"\n\
        longest-sleep = \"10 us\"\nline-burst = \"3 ms\"\n\
        [[route]]\nprefix = \"10.0.0.0/8\"\nport = \"wan\"\n\
        neighbour = \"02:00:00:00:00:01\"\n\
        [[path]]\nname = \"voice\"\nto = \"wan\"\nmax-rate = \"1 Mbit/s\"\nburst = \"3000 B\"\n\
        queue = 512\nmatch = { protocol = \"udp\", port = \"lan\" }\n\
        reservation = \"50 kpps\"\ncost = \"200 ns\"\n\
        [[path]]\nname = \"bulk\"\nto = \"wan\"\nweight = 3\nqueue = 256\n\
        reservation = \"100 kpps\"\ncost = \"200 ns\"\n";
    RouterScenario::parse("test.toml", &edit(text.to_owned()), Path::new("")).unwrap()
}

fn delays(scenario: &RouterScenario) -> Result<Vec<Result<u64, String>>, String> {
    path_delays_ns(scenario, FREQUENCY, &[LONGEST_BYTES; 2])
}

/// An arriving packet.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at_ns: u64,
    path: usize,
    bytes: u32,
}

/// A machine in simulated time: only packets take time, by their costs. Packets arrive at the first
/// port at given times. Handles are positions in `arrivals`.
struct Simulated {
    now_ns: u64,
    /// The cost of the current run so far, ns.
    run_ns: u64,
    costs_ns: Vec<u64>,
    next_cost: usize,
    links: [PacedLink; 2],
    arrivals: Vec<Arrival>,
    next: usize,
    /// The end of transmission of each packet sent, ns.
    sent: Vec<(usize, u64)>,
    /// When the link of `WAN` has transmitted all packets, ns.
    free_ns: u64,
}

impl Simulated {
    fn work(&mut self, packets: usize) {
        for _ in 0..packets {
            self.run_ns += self.costs_ns[self.next_cost % self.costs_ns.len()];
            self.next_cost += 1;
        }
    }
}

impl Machine for Simulated {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        self.now_ns += std::mem::take(&mut self.run_ns);
        self.now_ns
    }

    fn receive(
        &mut self,
        input: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        if input != InputId(0) {
            self.work(1);
            return 0;
        }
        let arrived = self.arrivals[self.next..].iter().take_while(|of| of.at_ns <= self.now_ns);
        let count = arrived.take(most).count();
        into.extend((self.next..self.next + count).map(|number| {
            (PathId(self.arrivals[number].path), PacketHandle::from_bits(number as u64))
        }));
        self.next += count;
        self.work(count.max(1));
        count
    }

    fn forward(&mut self, _: PathId, _: &mut PacketHandle) -> Verdict {
        self.work(1);
        Verdict::Send(WAN)
    }

    fn bytes(&self, packet: PacketHandle) -> u32 {
        self.arrivals[usize::try_from(packet.to_bits()).unwrap()].bytes
    }

    fn room(&mut self, output: OutputId, now_ns: u64) -> usize {
        if self.links[output.0].has_room(now_ns) { usize::MAX } else { 0 }
    }

    fn room_at_ns(&mut self, output: OutputId, now_ns: u64) -> u64 {
        // A run that finds no room takes time, too.
        self.work(1);
        self.links[output.0].room_at_ns(now_ns)
    }

    fn transmit(&mut self, output: OutputId, packets: &[PacketHandle]) -> usize {
        self.work(packets.len());
        let sent_ns = self.now_ns + self.run_ns;
        for packet in packets {
            let bytes = self.bytes(*packet);
            let number = usize::try_from(packet.to_bits()).unwrap();
            self.free_ns = self.free_ns.max(sent_ns) + u64::from(bytes) * 800;
            self.sent.push((number, self.free_ns));
        }
        let lengths: Vec<u32> = packets.iter().map(|packet| self.bytes(*packet)).collect();
        self.links[output.0].record_sent(sent_ns, lengths.into_iter());
        packets.len()
    }

    fn discard(&mut self, _: PacketHandle) {}
}

impl PacedLinks for Simulated {
    fn run_room(
        &self,
        output: OutputId,
        now_ns: u64,
        given: (usize, u64),
        longest_bytes: u32,
        most: usize,
    ) -> usize {
        self.links[output.0].run_room(now_ns, given, longest_bytes, most)
    }

    fn wire_bytes(&self, output: OutputId, bytes: u32) -> u64 {
        self.links[output.0].wire_bytes(bytes)
    }

    fn idle_ns(&self, output: OutputId, now_ns: u64) -> u64 {
        self.links[output.0].idle_ns(now_ns)
    }
}

impl Accounting for Simulated {}

impl Deferral for Simulated {}

impl MultiCore for Simulated {}

impl Flows for Simulated {}

/// Returns the longest delay of the first path's packets to the end of transmission, ns.
fn longest_ns(scenario: &RouterScenario, arrivals: Vec<Arrival>, costs_ns: &[u64]) -> u64 {
    let plan = admitted(scenario, FREQUENCY).unwrap();
    let links = [0, 1].map(|port: usize| {
        let mut link = PacedLink::new(scenario.ports[port].link);
        link.set_burst(scenario.ports[port].line_burst_ns);
        link
    });
    let machine = Simulated {
        now_ns: 0,
        run_ns: 0,
        costs_ns: costs_ns.to_vec(),
        next_cost: 0,
        links,
        arrivals,
        next: 0,
        sent: Vec::new(),
        free_ns: 0,
    };
    let mut router = Router::new(&plan, machine).unwrap();
    let (total, mut idle_steps) = (router.machine().arrivals.len(), 0);
    while router.machine().next < total || router.waiting(PathId(0)) != (0, 0) {
        match router.step() {
            Step::Ran(..) => idle_steps = 0,
            Step::Idle { until_ns } => {
                idle_steps += 1;
                assert!(until_ns < u64::MAX && idle_steps < 3, "packets wait for ever");
                let machine = router.machine_mut();
                machine.now_ns = machine.now_ns.max(until_ns);
                router.resume();
            }
        }
    }
    assert_eq!(router.path(PathId(0)).dropped_full, 0);
    let machine = router.machine();
    let voice = machine.sent.iter().filter(|(number, _)| machine.arrivals[*number].path == 0);
    let delays = voice.map(|(number, end_ns)| end_ns - machine.arrivals[*number].at_ns);
    delays.max().unwrap_or(0)
}

/// Returns packets of the first path within a bucket of 1 Mbit/s and 3000 bytes, beside packets of
/// the second that fill the link; all within the input's bucket of 16 packets and 150 kpps.
fn arrivals(voice: &[(u64, u32)], bulk: &[(u64, u32)]) -> Vec<Arrival> {
    // The bucket's level in bits · 10⁶, and the time of the last packet.
    let (mut level, mut at_ns) = (24_000_000_000_u64, 1_000_000_u64);
    let mut all: Vec<Arrival> = Vec::new();
    for &(pause_ns, bytes) in voice {
        let needs = u64::from(bytes) * 8_000_000;
        let missing_ns = needs.saturating_sub(level).div_ceil(1_000);
        let elapsed_ns = pause_ns.max(missing_ns);
        at_ns += elapsed_ns;
        level = (level + elapsed_ns * 1_000).min(24_000_000_000) - needs;
        all.push(Arrival { at_ns, path: 0, bytes });
    }
    let mut at_ns = 500_000;
    for &(pause_ns, bytes) in bulk {
        at_ns += pause_ns;
        all.push(Arrival { at_ns, path: 1, bytes });
    }
    all.sort_by_key(|of| of.at_ns);
    // Packets that the input's bucket has no room for do not arrive.
    let (mut tokens, mut last_ns) = (BATCH as u64 * PACKET_NS, 0);
    let mut within = Vec::new();
    for of in all {
        tokens = (tokens + of.at_ns - last_ns).min(BATCH as u64 * PACKET_NS);
        last_ns = of.at_ns;
        // Bulk leaves half of it to the voice.
        let keeps = if of.path == 0 { 0 } else { 8 * PACKET_NS };
        if tokens >= PACKET_NS + keeps {
            tokens -= PACKET_NS;
            within.push(of);
        }
    }
    within
}

#[test]
fn the_bound_of_a_path_is_the_sum_of_its_stages() {
    let scenario = scenario(|text| text);
    let all = delays(&scenario).unwrap();
    // Each run takes at most 3.2 µs; shares are of 500 kpps in all.
    let runs_ns = 3_200;
    let others_ns = 2 * (5 * (runs_ns + 1) + 1);
    let start_ns = |ahead_ns: u64, kpps: u64| {
        ((ahead_ns + 2 * runs_ns) * 500).div_ceil(kpps) + runs_ns + others_ns
    };
    // An input sleeps for 10 µs, and reads a packet in the second cycle.
    let woken_ns = runs_ns + start_ns(0, 150) + runs_ns;
    let input_ns = 2 * (10_000 + woken_ns);
    // 3000 bytes and those of the input's delay, in packets of 20 bytes.
    let ahead = (3_000 + input_ns.div_ceil(8_000)).div_ceil(20) - 1;
    let forwarded_ns = input_ns + start_ns(ahead * COST_NS, 50) + runs_ns;
    let jitter_ns = forwarded_ns + woken_ns;
    // 3000 bytes at 1 Mbit/s, a packet of 1.2 ms, 3 ms until a run begins, and 3 ms ahead less 20
    // bytes.
    let link_ns = 24_000_000 + 1_200_000 + 3_000_000 + 3_000_000 - 16_000 + 2;
    assert_eq!(scenario.link_delays_ns(&[LONGEST_BYTES; 2])[0], Ok(link_ns));
    assert_eq!(all[0], Ok(jitter_ns + link_ns));
    assert_eq!(all[1], Err("it has no `max-rate`: any burst may arrive".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::test_cases(60)))]

    /// Checks arrivals within the premises, and any costs up to the stated one.
    #[test]
    fn no_packet_takes_longer_than_its_bound(
        voice in vec(
            (
                prop_oneof![Just(0_u64), 0..2_000_000_u64],
                prop_oneof![Just(20_u32), 20..LONGEST_BYTES],
            ),
            1..60,
        ),
        bulk in vec(
            (
                prop_oneof![3 => Just(0_u64), 3 => 0..5_000_u64, 1 => 0..1_500_000_u64],
                prop_oneof![3 => Just(LONGEST_BYTES), 1 => 20..LONGEST_BYTES],
            ),
            0..400,
        ),
        costs_ns in vec(prop_oneof![2 => Just(COST_NS), 1 => 0..COST_NS], 1..40),
    ) {
        let scenario = scenario(|text| text);
        let bound_ns = delays(&scenario).unwrap()[0].clone().unwrap();
        // Of no cost at all, an idle router would poll for ever.
        let costs_ns: Vec<u64> = costs_ns.iter().map(|cost_ns| (*cost_ns).max(1)).collect();
        let longest_ns = longest_ns(&scenario, arrivals(&voice, &bulk), &costs_ns);
        prop_assert!(longest_ns <= bound_ns, "{longest_ns} of {bound_ns} ns");
    }
}

#[test]
fn a_router_without_a_bound_names_the_reason() {
    let why = |from: &str, to: &str| {
        delays(&scenario(|text| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        }))
    };
    let all = |from: &str, to: &str| why(from, to).unwrap_err();
    assert_eq!(
        all("gather = \"0 us\"\n", ""),
        "paths wait for full batches; `gather = \"0 us\"` ends that"
    );
    assert_eq!(
        all("reservation = \"100 kpps\"\ncost = \"200 ns\"\n", "reservation = \"1 Mcps\"\n"),
        "`bulk` has no `reservation` in packets, with the `cost` of a packet"
    );
    let first = |from: &str, to: &str| why(from, to).unwrap()[0].clone().unwrap_err();
    assert_eq!(
        first("\"50 kpps\"", "\"6 kpps\""),
        "`max-rate` of `voice` is up to 6250 packets/s, its `reservation` 6000"
    );
    assert_eq!(
        first("longest-sleep = \"10 us\"", "longest-sleep = \"1 ms\""),
        "160 packets may arrive at `lan` between two reads of at most 16: `longest-sleep` or the \
         batches of other processes are too long"
    );
    assert_eq!(first("queue = 512", "queue = 64"), "`queue` is 64, and 349 packets may wait");
}

#[test]
fn a_link_that_may_wait_for_its_process_names_the_remedy() {
    let why = |line_burst: &str| {
        let scenario = scenario(|text| text.replace("line-burst = \"3 ms\"", line_burst));
        delays(&scenario).unwrap()[0].clone()
    };
    let refused = why("line-burst = \"1 ms\"").unwrap_err();
    let (before, after) = refused.split_once("a `line-burst` of ").unwrap();
    assert_eq!(before, "the link of `wan` may wait for its output process; ");
    let micros = after.strip_suffix(" us prevents it").unwrap();
    assert!(why(&format!("line-burst = \"{micros} us\"")).is_ok(), "{refused}");
    let slow = delays(&scenario(|text| text.replace("10 Mbit/s", "100 Mbit/s"))).unwrap();
    let refused = slow[0].clone().unwrap_err();
    assert!(refused.starts_with("the link of `wan` may wait for its output process; a `batch` of"));
}
