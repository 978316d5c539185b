//! Tests of a router's output on a simulated clock: the distance between packets, and the delay of
//! the highest priority.

use millstream::catalogue::DISCIPLINES;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The number of paths; the first has the highest priority.
const PATHS: usize = 3;
/// The time that a clock read takes, ns; a step of the router takes once or twice as long.
const STEP_NS: u64 = 500;

/// An arriving packet.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at_ns: u64,
    path: usize,
    bytes: u32,
}

/// A packet given to the link.
#[derive(Clone, Copy, Debug)]
struct Given {
    at_ns: u64,
    /// The number of the call of `transmit` that gave it.
    call: usize,
    number: usize,
}

/// A machine with packets that arrive at given times, and a link. Handles are positions in
/// `arrivals`.
struct SimulatedLink {
    now_ns: u64,
    link: PacedLink,
    arrivals: Vec<Arrival>,
    next: usize,
    calls: usize,
    given: Vec<Given>,
}

impl Machine for SimulatedLink {
    const FREE_CLOCK: bool = false;

    fn now_ns(&mut self) -> u64 {
        self.now_ns += STEP_NS;
        self.now_ns
    }

    fn receive(
        &mut self,
        _: InputId,
        most: usize,
        into: &mut Vec<(PathId, PacketHandle)>,
    ) -> usize {
        let due = self.arrivals[self.next..].iter().take_while(|of| of.at_ns <= self.now_ns);
        let due = due.take(most).count();
        let numbers = self.next..self.next + due;
        into.extend(numbers.map(|number| {
            (PathId(self.arrivals[number].path), PacketHandle::from_bits(number as u64))
        }));
        self.next += due;
        due
    }

    fn forward(&mut self, _: PathId, _: &mut PacketHandle) -> Verdict {
        Verdict::Send(OutputId(0))
    }

    fn bytes(&self, packet: PacketHandle) -> u32 {
        self.arrivals[usize::try_from(packet.to_bits()).unwrap()].bytes
    }

    fn room(&mut self, _: OutputId, now_ns: u64) -> usize {
        if self.link.has_room(now_ns) { usize::MAX } else { 0 }
    }

    fn room_at_ns(&mut self, _: OutputId, now_ns: u64) -> u64 {
        self.link.room_at_ns(now_ns)
    }

    fn transmit(&mut self, _: OutputId, packets: &[PacketHandle]) -> usize {
        for packet in packets {
            let number = usize::try_from(packet.to_bits()).unwrap();
            self.given.push(Given { at_ns: self.now_ns, call: self.calls, number });
        }
        self.calls += 1;
        let lengths = packets.iter().map(|packet| self.bytes(*packet));
        let lengths: Vec<u32> = lengths.collect();
        self.link.record_sent(self.now_ns, lengths.into_iter());
        packets.len()
    }

    fn discard(&mut self, _: PacketHandle) {}
}

paced_output!(SimulatedLink);

fn paced_plan(discipline: &str, rate_bps: u64, batch: u32) -> Plan {
    let link = Link::new(rate_bps, 0);
    let contract = |path: u32| {
        let of = Contract::new().weight(path + 1).unwrap().quantum_bytes(1_500).unwrap();
        of.priority(path).period_ns(1_000_000 * u64::from(path + 1)).unwrap()
    };
    let path = |path| PathPlan {
        drops: false,
        reservation: 1,
        input_queue: 64,
        output_queue: 64,
        outputs: vec![(OutputId(0), contract(path))],
    };
    Plan {
        stages: Stages::Three,
        batch: Batch { packets: batch, time_ns: u64::MAX, batch_wait_ns: 0 },
        inputs: vec![InputPlan { reservation: 1, throttle: None, when_full: WhenFull::Drop }],
        paths: (0_u32..).take(PATHS).map(path).collect(),
        outputs: vec![OutputPlan {
            reservation: 1,
            throttle: None,
            discipline: DisciplineRow::parse(discipline).unwrap(),
            options: Options { link, ..Options::default() },
            structure: StructureName::Scan,
            is_ingress: false,
        }],
    }
}

/// Returns all packets given to the link; the router wakes late by the times of `late_ns`, in turn.
fn given(plan: &Plan, arrivals: &[Arrival], late_ns: &[u64]) -> Vec<Given> {
    let link = PacedLink::new(Link::new(plan.outputs[0].options.link.rate_bps, 0));
    let arrivals = arrivals.to_vec();
    let wire = SimulatedLink { now_ns: 0, link, arrivals, next: 0, calls: 0, given: Vec::new() };
    let mut router = Router::new(plan, wire).unwrap();
    let mut late_ns = late_ns.iter().cycle();
    loop {
        let step = router.step();
        let machine = router.machine_mut();
        let next_ns = machine.arrivals.get(machine.next).map(|of| of.at_ns);
        let ran = matches!(step, Step::Ran(_, packets) if packets > 0);
        if ran {
            continue;
        }
        // Inputs are polled endlessly: advances to the next arrival, or to when the link has room.
        let room_ns = machine.link.room_at_ns(machine.now_ns);
        let waits = (0..PATHS).any(|path| router.waiting(PathId(path)) != (0, 0));
        let machine = router.machine_mut();
        let soon_ns = match (next_ns, waits) {
            (None, false) => return std::mem::take(&mut machine.given),
            (next_ns, true) => room_ns.min(next_ns.unwrap_or(u64::MAX)),
            (Some(next_ns), false) => next_ns,
        };
        if soon_ns > machine.now_ns + 4 * STEP_NS {
            machine.now_ns = soon_ns + late_ns.next().unwrap();
            router.resume();
        }
    }
}

/// Returns the link time of a packet, ns.
fn takes_ns(bytes: u32, rate_bps: u64) -> u64 {
    u64::from(bytes) * 8_000_000_000 / rate_bps
}

/// Asserts that the distance of two packets is at least 9/10 of the link time of the first packet
/// and those between. Packets of one run are exempt; a run takes the link at most the burst.
fn assert_apart(given: &[Given], arrivals: &[Arrival], rate_bps: u64) -> Result<(), TestCaseError> {
    let takes = |of: &Given| takes_ns(arrivals[of.number].bytes, rate_bps);
    let (mut run_ns, mut before_ns) = (0, 0);
    // The link time of each packet's run before the packet.
    let mut in_run = Vec::new();
    for (at, packet) in given.iter().enumerate() {
        let begins = at == 0 || packet.at_ns >= run_ns + before_ns * 9 / 10;
        if begins && (at == 0 || given[at - 1].call != packet.call) {
            (run_ns, before_ns) = (packet.at_ns, 0);
        }
        in_run.push(before_ns);
        before_ns += takes(packet);
        prop_assert!(in_run[at] == 0 || before_ns <= BURST_NS, "{packet:?} exceeds the burst");
    }
    for first in 0..given.len() {
        let mut takes_ns = 0;
        for last in first + 1..given.len().min(first + 64) {
            takes_ns += takes(&given[last - 1]);
            let apart_ns = given[last].at_ns - given[first].at_ns;
            let least_ns = takes_ns.saturating_sub(in_run[last]) * 9 / 10;
            let (one, other) = (given[first], given[last]);
            prop_assert!(apart_ns >= least_ns, "{apart_ns} ns from {one:?} to {other:?}");
        }
    }
    Ok(())
}

fn any_arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let bytes = prop_oneof![Just(60_u32), Just(200), Just(1_500), 60..1_500_u32];
    let pause_ns = prop_oneof![
        4 => Just(0_u64),
        3 => 0..20_000_u64,
        2 => 0..700_000_u64,
        1 => 0..9_000_000_u64,
    ];
    vec((pause_ns, 0..PATHS, bytes), 1..300).prop_map(|all| {
        let mut at_ns = 1_000_000;
        let packets = all.into_iter().map(|(pause_ns, path, bytes)| {
            at_ns += pause_ns;
            Arrival { at_ns, path, bytes }
        });
        packets.collect()
    })
}

fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1_000_000_u64),
        Just(10_000_000),
        Just(20_000_000),
        Just(100_000_000),
        1_000_000..2_000_000_000_u64
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Checks arbitrary arrivals, every discipline, and late wake-ups of the router.
    #[test]
    fn packets_keep_the_distance_of_the_link_rate(
        arrivals in any_arrivals(),
        rate_bps in any_rate(),
        batch in prop_oneof![Just(1_u32), Just(32), 1..64_u32],
        late_ns in vec(
            prop_oneof![4 => Just(0_u64), 2 => 0..60_000_u64, 1 => 0..3_000_000_u64],
            1..9,
        ),
    ) {
        let fit = |row: &&DisciplineRow| row.fits_port();
        for row in DISCIPLINES.iter().filter(fit) {
            let given = given(&paced_plan(row.name, rate_bps, batch), &arrivals, &late_ns);
            assert_apart(&given, &arrivals, rate_bps)?;
        }
    }

    /// Under overload, the highest priority waits at most for the packet in transmission and one
    /// more, or for a run of the link's burst. The router's own processing time is added.
    #[test]
    fn voice_waits_for_the_packet_in_transmission_and_one_more(
        rate_bps in any_rate(),
        voice in vec(0..2_000_000_u64, 1..30),
        bytes in 60..1_500_u32,
    ) {
        let longest_ns = takes_ns(1_500, rate_bps);
        let voice_bytes = 200;
        // The load is twice the link's rate, on two paths.
        let flood_ns = 40_000_000;
        let mut arrivals: Vec<Arrival> = Vec::new();
        let mut at_ns = 1_000_000;
        while at_ns < flood_ns && arrivals.len() < 4_000 {
            let path = 1 + arrivals.len() % 2;
            let bytes = if path == 1 { 1_500 } else { bytes };
            arrivals.push(Arrival { at_ns, path, bytes });
            at_ns += takes_ns(bytes, rate_bps) / 2 + 1;
        }
        let mut voice_ns = 1_500_000;
        for pause_ns in voice {
            // Far enough apart that the last voice packet and a packet before it have left.
            voice_ns += pause_ns + 3 * longest_ns + 2 * BURST_NS;
            arrivals.push(Arrival { at_ns: voice_ns, path: 0, bytes: voice_bytes });
        }
        arrivals.sort_by_key(|of| of.at_ns);
        let given = given(&paced_plan("static-priority", rate_bps, 32), &arrivals, &[0]);
        let in_transmission_ns = longest_ns.max(BURST_NS);
        // The router may take some dozen steps for packets that arrived with it.
        let most_ns = in_transmission_ns + longest_ns + 64 * STEP_NS;
        let of_voice = given.iter().filter(|of| arrivals[of.number].path == 0);
        for of in of_voice {
            let waited_ns = of.at_ns - arrivals[of.number].at_ns;
            prop_assert!(waited_ns <= most_ns, "waited {waited_ns} of {most_ns} ns");
        }
    }
}
