//! Compares the end-system card and its host with the engine, and repeated runs with each other.
//!
//! scripts/rtl-cards.sh provides Verilator and runs the tests with `--ignored`.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::io;

use millstream::{Contract, Departure, Event, Late, StreamId, Window};
use millstream_hw::end_system::{
    self, Arrival, Bus, End, EndSystemError, Listener, Options, Probe,
};
use millstream_hw::{Load, Mode, Reference, Settings};

/// SplitMix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % bound
    }
}

/// The cards' tick, ns.
const TICK_NS: u64 = 1_000;

/// A reference that receives the arrivals written to the card's SRAM and decides when the card
/// does.
struct ReferenceProbe {
    reference: Reference,
    now: u64,
    pending: Vec<(usize, u64)>,
    last: Vec<u64>,
    dropped: Vec<u64>,
    expected: Vec<(usize, Event)>,
    decisions: u64,
}

impl ReferenceProbe {
    fn new(settings: Settings, loads: &[Load]) -> Self {
        let mut reference = Reference::new(settings);
        for load in loads {
            reference.load(load).unwrap();
        }
        Self {
            reference,
            now: 0,
            pending: Vec::new(),
            last: vec![0; loads.len()],
            dropped: vec![0; loads.len()],
            expected: Vec::new(),
            decisions: 0,
        }
    }

    fn totals(&self) -> Vec<(u64, u64)> {
        let recorded = |i| self.reference.attributes(StreamId(i));
        (0..)
            .zip(&self.dropped)
            .map(|(i, _)| (recorded(i).missed, recorded(i).violations))
            .collect()
    }
}

impl Probe for ReferenceProbe {
    fn written(&mut self, stream: usize, stamp: u16) {
        let ahead = i64::from(stamp.wrapping_sub(self.now as u16) as i16);
        let stamp = self.now.checked_add_signed(ahead).unwrap();
        assert!(stamp >= self.last[stream], "stream {stream}: {stamp} after {}", self.last[stream]);
        self.last[stream] = stamp;
        self.pending.push((stream, stamp));
    }

    fn started(&mut self, now: u16) {
        self.now += u64::from(now.wrapping_sub(self.now as u16));
        self.decisions += 1;
        let due = |entry: &mut (usize, u64)| entry.1 <= self.now;
        for (stream, stamp) in self.pending.extract_if(.., due).collect::<Vec<_>>() {
            self.reference.enqueue(stamp, StreamId(stream as u32), 1);
        }
        let winner = self.reference.decide(self.now);
        for (i, dropped) in self.dropped.iter_mut().enumerate() {
            let now = self.reference.attributes(StreamId(i as u32)).dropped;
            self.expected.extend((*dropped..now).map(|_| (i, Event::DroppedLate)));
            *dropped = now;
        }
        self.expected.extend(winner.map(|stream| (stream.index(), Event::Sent)));
    }
}

/// Records all events of a run.
#[derive(Default, PartialEq, Debug)]
struct Recorder {
    departures: Vec<Departure>,
    missed: Vec<(u64, u64)>,
    arrived: usize,
}

impl Listener<()> for Recorder {
    fn arrived(&mut self, _: StreamId, _: u64, _: u32) {
        self.arrived += 1;
    }

    fn departed(&mut self, departure: &Departure, (): ()) -> io::Result<()> {
        self.departures.push(*departure);
        Ok(())
    }

    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.missed.resize(self.missed.len().max(stream.index() + 1), (0, 0));
        let sum = &mut self.missed[stream.index()];
        *sum = (sum.0 + missed, sum.1 + violations);
    }
}

fn contract(load: &Load) -> Contract {
    let contract = Contract::new()
        .period_ns(u64::from(load.period) * TICK_NS)
        .unwrap()
        .window(Window::new(load.x.into(), load.y.into()).unwrap())
        .late(if load.drop == 0 { Late::Send } else { Late::Drop })
        .priority(load.priority.into());
    if load.first == 0 { contract } else { contract.first_deadline_ns(load.deadline * TICK_NS) }
}

fn load(x: u8, y: u8, period: u16) -> Load {
    Load { deadline: 0, period, priority: 0, weight: 1, x, y, drop: 0, first: 0 }
}

fn dwcs() -> Settings {
    Settings { mode: Mode::Dwcs, lowest_denominator: false, rtas99: false }
}

fn options(settings: Settings, bus: Bus) -> Options {
    Options { settings, bus, clock_hz: 23_000_000, packet_time_ns: TICK_NS }
}

/// Runs arrivals with times in ns on a link of 1 byte/ns.
fn run(
    options: &Options,
    contracts: &[Contract],
    arrivals: &[(u64, u32, u32)],
    probe: &mut (impl Probe + Send),
) -> Result<(Recorder, End), EndSystemError<String>> {
    let mut recorded = Recorder::default();
    let arrival = |(time_ns, stream, bytes): &(u64, u32, u32)| {
        Ok(Arrival { time_ns: *time_ns, stream: *stream, bytes: *bytes, payload: () })
    };
    let arrivals = arrivals.iter().map(arrival);
    let end = end_system::run(options, contracts, arrivals, u64::from, &mut recorded, probe)?;
    Ok((recorded, end))
}

/// Random arrivals of `packets` packets; `load` is in 1/256 of the link.
fn traffic(
    random: &mut SplitMix64,
    streams: u64,
    packets: usize,
    load: u64,
) -> Vec<(u64, u32, u32)> {
    let mut time_ns = 0;
    let mut arrivals = Vec::new();
    while arrivals.len() < packets {
        let bytes = 64 + random.below(937);
        let batch = if random.below(20) == 0 { 1 + random.below(60) } else { 1 };
        let stream = u32::try_from(random.below(streams)).unwrap();
        for _ in 0..batch {
            arrivals.push((time_ns, stream, u32::try_from(bytes).unwrap()));
        }
        time_ns += random.below(2 * batch * bytes * 256 / load + 1);
    }
    arrivals
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn decides_as_the_engine_on_arrivals_in_sram() {
    let mut random = SplitMix64(1);
    let mut decided = 0;
    for case in 0..48 {
        let mode = [Mode::Dwcs, Mode::Dwcs, Mode::Edf, Mode::Static][case % 4];
        // Cards of 4 and of 8 streams.
        let streams = [3, 4, 7][case / 4 % 3];
        let (lowest_denominator, rtas99) = (
            mode == Mode::Dwcs && random.below(3) == 0,
            mode == Mode::Dwcs && random.below(3) == 0,
        );
        let settings = Settings { mode, lowest_denominator, rtas99 };
        let loads: Vec<Load> = (0..streams)
            .map(|_| {
                let y = random.below(9);
                let x = random.below(y + 1);
                let first = random.below(2);
                Load {
                    deadline: random.below(40),
                    // Streams served ahead of their periods would leave the card's time window.
                    period: u16::try_from(1 + random.below(3)).unwrap(),
                    priority: u16::try_from(random.below(4)).unwrap(),
                    drop: u8::from(random.below(3) == 0),
                    first: u8::from(first == 1 && mode != Mode::Static),
                    ..load(u8::try_from(x).unwrap(), u8::try_from(y).unwrap(), 1)
                }
            })
            .collect();
        let heavy = [40, 200, 300, 600][random.below(4) as usize];
        let arrivals = traffic(&mut random, streams, 1_200, heavy);
        let contracts: Vec<_> = loads.iter().map(contract).collect();
        let bus = Bus::ALL[case % 3];
        let mut reference = ReferenceProbe::new(settings, &loads);
        let ran = run(&options(settings, bus), &contracts, &arrivals, &mut reference);
        let (recorded, end) = match ran {
            Ok(ran) => ran,
            Err(error) if error.to_string().contains("reached 255") => continue,
            Err(error) => panic!("case {case}: {error}"),
        };
        let left: Vec<_> =
            recorded.departures.iter().map(|left| (left.stream.index(), left.event)).collect();
        let sent = |all: &[(usize, Event)]| {
            all.iter().filter(|left| left.1 == Event::Sent).map(|left| left.0).collect::<Vec<_>>()
        };
        let differs = sent(&left).iter().zip(sent(&reference.expected)).position(|(a, b)| *a != b);
        assert_eq!(differs, None, "case {case}, {settings:?}, {loads:?}");
        for stream in 0..loads.len() {
            let of = |all: &[(usize, Event)]| {
                all.iter().filter(|left| left.0 == stream).copied().collect::<Vec<_>>()
            };
            assert_eq!(of(&left), of(&reference.expected), "case {case}, stream {stream}");
        }
        assert_eq!(left.len(), arrivals.len(), "case {case}");
        assert_eq!((recorded.arrived, end.waiting), (arrivals.len(), 0), "case {case}");
        assert_eq!(end.cost.decisions, reference.decisions);
        if mode != Mode::Static {
            let mut missed = recorded.missed.clone();
            missed.resize(loads.len(), (0, 0));
            assert_eq!(missed, reference.totals(), "case {case}");
        }
        for pair in recorded.departures.windows(2) {
            assert!(pair[0].time_ns <= pair[1].time_ns, "case {case}");
        }
        assert!(recorded.departures.iter().all(|left| left.arrival_ns <= left.time_ns));
        decided += reference.decisions;
    }
    assert!(decided > 50_000, "only {decided} decisions");
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn runs_are_reproducible_to_the_nanosecond() {
    let mut random = SplitMix64(7);
    let arrivals = traffic(&mut random, 4, 4_000, 220);
    let contracts = [(1, 2), (3, 4), (0, 3), (6, 8)].map(|(x, y)| contract(&load(x, y, 2)));
    let options = options(dwcs(), Bus::PCI_33);
    let (first, _) = run(&options, &contracts, &arrivals, &mut ()).unwrap();
    for _ in 0..3 {
        assert!(run(&options, &contracts, &arrivals, &mut ()).unwrap().0 == first);
    }
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn window_shares_hold_and_the_bus_costs_add_up() {
    let contracts = [(7, 8), (14, 16), (6, 8), (4, 8)].map(|(x, y)| contract(&load(x, y, 1)));
    let arrivals: Vec<_> = (0..40_000).map(|k| (0, k % 4, 64)).collect();
    let mut rates = Vec::new();
    for bus in [Bus::NONE, Bus::PCIE_GEN3_X4, Bus::PCI_33] {
        let options = Options { clock_hz: 250_000_000, ..options(dwcs(), bus) };
        let (recorded, end) = run(&options, &contracts, &arrivals, &mut ()).unwrap();
        let counts = [0, 1, 2, 3].map(|stream| {
            let settled = recorded.departures[2_000..18_000].iter();
            settled.filter(|left| left.stream.0 == stream).count()
        });
        // The first decisions precede the arrivals of some streams.
        for (count, share) in counts.into_iter().zip([2_000, 2_000, 4_000, 8_000_usize]) {
            assert!(count.abs_diff(share) <= 8, "{counts:?}");
        }
        let cost = &end.cost;
        assert_eq!(cost.packets, 40_000);
        assert_eq!(cost.pulls.bytes + 2 * (cost.writes.count - offers(cost)), 80_000);
        assert!(cost.busy_ns() <= cost.span_ns, "transfers overlap on the bus");
        rates.push(cost.packets as f64 * 1e9 / cost.span_ns as f64);
    }
    // The card alone decides every few cycles; PCI reads slow it down.
    assert!(rates[0] > 250e6 / 32.0 && rates[0] >= rates[1] && rates[1] > rates[2], "{rates:?}");
}

/// Returns the number of writes that offered pulls, at least one for the streams of each burst.
fn offers(cost: &end_system::Cost) -> u64 {
    let pulled = cost.pulls.bytes / 2;
    let pushed = cost.packets - pulled;
    cost.writes.count - pushed
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn queue_limits_hold_and_idle_gaps_lose_no_packet() {
    let limited = contract(&load(0, 0, 1)).queue(10);
    let mut arrivals: Vec<_> = (0..50).map(|_| (0, 0, 500)).collect();
    // An hour later.
    arrivals.push((3_600_000_000_000, 0, 500));
    let (recorded, end) =
        run(&options(dwcs(), Bus::PCI_33), &[limited], &arrivals, &mut ()).unwrap();
    let full = recorded.departures.iter().filter(|left| left.event == Event::DroppedFull).count();
    assert_eq!((recorded.departures.len(), full, end.waiting), (51, 40, 0));
    let last = recorded.departures.last().unwrap();
    let waited_ns = last.time_ns - last.arrival_ns;
    assert!(waited_ns < 10_000, "{waited_ns} ns on an idle card");
    assert_eq!(end.end_ns, last.time_ns + 500);
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn times_beyond_the_window_end_the_run() {
    // The only stream on the link: each service moves the deadline 99 packet-times ahead.
    let ahead = [contract(&load(0, 0, 100))];
    let arrivals: Vec<_> = (0..1_000).map(|_| (0, 0, 500)).collect();
    let failed = run(&options(dwcs(), Bus::NONE), &ahead, &arrivals, &mut ());
    let failed = failed.map(|_| ()).unwrap_err();
    assert!(failed.to_string().contains("more than 2^14 packet-times from now"), "{failed}");

    // Starved for longer than the stamps can represent.
    let settings = Settings { mode: Mode::Static, ..dwcs() };
    let urgent = contract(&load(0, 0, 1));
    let starved = contract(&load(0, 0, 1)).priority(1);
    let mut arrivals: Vec<_> = (0..50_000).map(|_| (0, 0, 64)).collect();
    arrivals.extend((0..6).map(|_| (3_000, 1, 64)));
    let contracts = [urgent, starved];
    let failed = run(&options(settings, Bus::NONE), &contracts, &arrivals, &mut ());
    let failed = failed.map(|_| ()).unwrap_err();
    assert!(failed.to_string().contains("waited for 2^15 packet-times"), "{failed}");
}

#[test]
fn unreadable_arrivals_and_unfit_contracts_are_errors() {
    let unfit = contract(&load(0, 0, 1)).period_ns(1_500).unwrap();
    let nothing: [(u64, u32, u32); 0] = [];
    match run(&options(dwcs(), Bus::NONE), &[unfit], &nothing, &mut ()) {
        // Without Verilator its absence is reported first.
        Err(error) => assert!(
            error.to_string().contains("multiple of the packet-time")
                || error.to_string().contains("Verilator"),
            "{error}"
        ),
        Ok(_) => panic!("1500 ns is not a multiple of the packet-time"),
    }
}
