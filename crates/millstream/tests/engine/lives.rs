//! Random lives of a scheduler: every structure against `scan`, call for call.
//!
//! A life is drawn from its seed: a discipline with its settings or a tree of classes, up to 5,000
//! streams, and the calls. Arrivals come in bursts; time stands still, passes by a nanosecond or by
//! hours, or pauses until every stream is late; gates close, and streams are added to a backlog.
//!
//! `MILLSTREAM_LIVES=20000` sets the number of lives, `MILLSTREAM_FIRST_LIFE` the first seed.

use crate::support::Random;
use crate::support::duel::{Choose, Group};
use millstream::aqm::{Aqm, Ecn};
use millstream::catalogue::{
    DISCIPLINES, DisciplineRow, DwcsOrder, DynScheduler, MinBwAlgorithm, Options, StructureName,
};
use millstream::flow_queue::{Flow, FlowOptions, HostFairness};
use millstream::{
    ClassId, Contract, ContractError, Departure, DwcsOptions, Framing, Late, Link, MaxRate,
    Observer, Packet, Rules, StreamId, Tree, Window, ZeroWindow,
};
use std::num::NonZeroU64;

const HOUR_NS: u64 = 3_600_000_000_000;

/// The number of visits of a stream by `scan` in one life.
const VISITS: u64 = 1_000_000;

/// The maximum number of calls of a life.
const CALLS: u64 = 2_000;

/// The maximum number of classes of a tree.
const MOST_CLASSES: u64 = 6;

/// The virtual time, bytes per unit of weight, that may pass before wf2q+ is idle. The near tags of
/// heads may be 8 GB apart; lengths and charges also move them.
const VIRTUAL_BYTES: u64 = 4_000_000_000;

/// What happened in lives.
#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    sent_late: u64,
    pauses: u64,
    /// Lives with more than 500 streams.
    crowded: u64,
}

/// Prints the seed of a life that panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("MILLSTREAM_FIRST_LIFE={} MILLSTREAM_LIVES=1 replays this life", self.0);
        }
    }
}

#[test]
fn random_lives_of_every_structure_equal_those_of_a_scan() {
    let of = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, lives) = (of("MILLSTREAM_FIRST_LIFE", 0), of("MILLSTREAM_LIVES", 200));
    let mut counts = Counts::default();
    for seed in first..first + lives {
        let _seed = Seed(seed);
        Life::new(Random(3 << 40 | seed)).run(&mut counts);
    }
    println!("{counts:?}");
    // Lives of idle schedulers, or of a few streams, would test little.
    let Counts { sent, sent_late, pauses, crowded } = counts;
    let least = [sent / 500, sent_late / 50, pauses, crowded * 8].into_iter().min();
    assert!(lives < 100 || least >= Some(lives), "{lives} lives: {counts:?}");
}

/// The distances between the deadlines of a life.
struct Deadlines {
    /// The shortest period, ns.
    unit_ns: u64,
    /// Periods are up to 10 to this power of units.
    decades: u32,
    /// The periods, if there are few.
    periods: Vec<u64>,
    /// One in this many streams has a period near the end of time; 0: none.
    far: u64,
    /// How the first deadlines are given.
    first: First,
}

#[derive(Clone, Copy)]
enum First {
    /// By arrival and period.
    None,
    /// One for all streams.
    Tied,
    Spread,
}

/// A scheduler on every structure, and its next calls.
struct Life {
    random: Random,
    group: Group,
    deadlines: Deadlines,
    link: Link,
    /// One in this many streams has a limit of each kind; 0: none.
    limited: u64,
    /// One in this many streams has flows; 0: none.
    flows: u64,
    /// The streams that are present.
    streams: u64,
    /// The streams that are added later.
    missing: u64,
    /// Whether lengths and weights are equal, so that tags are.
    equal: bool,
    now_ns: u64,
    /// The time that may pass before the scheduler is idle.
    left_ns: u64,
    most_left_ns: u64,
    last: Option<StreamId>,
    visits: u64,
}

impl Life {
    fn new(mut random: Random) -> Self {
        let streams = random.log_uniform(5_000);
        let missing = random.of(&[0, 0, 0, streams / 2, streams.min(6) / 2]);
        let unit_ns = random.of(&[1, 7, 1_000, 1_000, 1 << 20, 50_000_000]);
        let decades = random.of(&[1, 3, 4, 6]);
        let kinds = random.of(&[0, 0, 1, 2, 8]);
        let first = random.of(&[First::None, First::None, First::Tied, First::Spread]);
        let far = random.of(&[0, 0, 0, 2, 30, 500]);
        let mut deadlines = Deadlines { unit_ns, decades, periods: Vec::new(), far, first };
        for _ in 0..kinds {
            deadlines.periods.push(deadlines.spread(&mut random));
        }
        let framing = random.of(&[Framing::None, Framing::None, Framing::Atm]);
        let rate_bps = random.of(&[1_000, 1_000_000, 999_999_937, 8_000_000_000, 1 << 47]);
        let link = Link::new(rate_bps, random.of(&[0, 0, 24])).framed(framing);
        let (members, weight) = members(&mut random, link, streams);
        // Below 2⁹³; the greatest time if it is more.
        let most_left_ns = weight.map_or(u64::MAX, |weight| {
            let bits = u128::from(weight) * u128::from(VIRTUAL_BYTES) * 8_000_000_000;
            u64::try_from(bits / u128::from(rate_bps)).unwrap_or(u64::MAX)
        });
        let late = [u64::MAX - (1 << 44), u64::MAX - (1 << 24), u64::MAX - 3];
        let now_ns = match random.below(8) {
            0 => random.of(&late),
            1 => random.of(&[1 << 40, (1 << 58) - 40_000, 1 << 63]),
            _ => random.of(&[0, 5]),
        };
        let mut life = Self {
            group: Group::new(members),
            deadlines,
            link,
            limited: random.of(&[0, 0, 3, 40]),
            flows: if streams < 100 { random.of(&[0, 0, 0, 2]) } else { 0 },
            streams: 0,
            missing: streams,
            equal: random.below(3) == 0,
            now_ns,
            left_ns: most_left_ns,
            most_left_ns,
            last: None,
            visits: 0,
            random,
        };
        while life.missing > missing {
            life.add_stream();
        }
        if life.random.below(8) == 0 {
            let packets = life.random.of(&[10, 1_000, 100_000]);
            life.group.call(now_ns, &"preallocate", |s, _| s.preallocate(packets));
        }
        life
    }

    fn run(mut self, counts: &mut Counts) {
        let mut calls = 0;
        counts.crowded += u64::from(self.streams > 500);
        while self.visits < VISITS && calls < CALLS {
            calls += 1;
            self.arrive();
            for _ in 0..self.random.of(&[0, 0, 1, 3]) {
                self.change();
            }
            calls += self.serve(counts);
            self.pass_time(counts);
        }
        for stream in 0..u32::try_from(self.streams).unwrap() {
            let stream = StreamId(stream);
            self.group.call(self.now_ns, &stream, |s, _| (s.counters(stream), s.waiting(stream)));
        }
    }

    fn add_stream(&mut self) {
        let contract = self.contract();
        let added = self.group.call(self.now_ns, &contract, |s, _| s.add_stream(contract.clone()));
        added.unwrap();
        self.streams += 1;
        self.missing -= 1;
    }

    fn contract(&mut self) -> Contract {
        let random = &mut self.random;
        let of = random.of(&[0, 1, 2, 3, 8, 255, 100_000]);
        let lost = u32::try_from(random.below(u64::from(of) + 1)).unwrap();
        let period_ns = self.deadlines.period_ns(random);
        let weight = if self.equal { 1 } else { random.log_uniform(10_000) };
        let quantum_bytes = random.of(&[1, 64, 300, 1_514, 100_000]);
        let mut contract = Contract::new()
            .period_ns(period_ns)
            .and_then(|contract| contract.weight(u32::try_from(weight).unwrap()))
            .and_then(|contract| contract.quantum_bytes(quantum_bytes))
            .and_then(|contract| Ok(contract.window(Window::new(lost, of)?)))
            .unwrap()
            .priority(random.of(&[0, 1, 2, 7]));
        contract = match self.deadlines.first {
            First::None => contract,
            First::Tied => contract.first_deadline_ns(self.deadlines.unit_ns << 4),
            First::Spread => {
                let after_ns = self.deadlines.spread(random);
                contract.first_deadline_ns(self.now_ns.saturating_add(after_ns))
            }
        };
        if self.flows > 0 && random.below(self.flows) == 0 {
            return contract.flows(flows(random));
        }
        if random.below(3) == 0 {
            contract = contract.late(Late::Drop);
        }
        if self.limited == 0 {
            return contract;
        }
        if random.below(self.limited) == 0 {
            contract = contract.queue(u32::try_from(random.below(6)).unwrap());
        }
        if random.below(self.limited) == 0 {
            contract = contract.credits(random.below(60));
        }
        if random.below(self.limited) == 0 {
            let rate_bps = 1 + random.log_uniform(2 * self.link.rate_bps);
            let rate_bps = NonZeroU64::new(rate_bps).unwrap();
            contract = contract.max_rate(MaxRate { rate_bps, burst_bytes: random.below(4_000) });
        }
        if random.below(self.limited) == 0 { contract.fmc() } else { contract }
    }

    fn stream(&mut self) -> StreamId {
        StreamId(u32::try_from(self.random.below(self.streams)).unwrap())
    }

    fn packet(&mut self) -> Packet {
        let bytes = match self.equal {
            true => 500,
            false => self.random.of(&[0, 64, 500, 1_500, 1_500, 9_000, 65_535]),
        };
        Packet { bytes, tag: self.random.below(1 << 20) }
    }

    /// Lets a burst arrive: of all streams, of some, or of one.
    fn arrive(&mut self) {
        let now_ns = self.now_ns;
        let mut arrivals = Vec::new();
        match self.random.below(8) {
            0..3 => {
                for stream in 0..u32::try_from(self.streams).unwrap() {
                    arrivals.push((StreamId(stream), self.packet()));
                }
            }
            3 => {
                let stream = self.stream();
                for _ in 0..self.random.log_uniform(60) {
                    arrivals.push((stream, self.packet()));
                }
            }
            4 => {}
            _ => {
                for _ in 0..self.random.log_uniform(self.streams) {
                    arrivals.push((self.stream(), self.packet()));
                }
            }
        }
        if self.flows == 0 && self.random.below(2) == 0 {
            self.group.call(now_ns, &"a batch of arrivals", |s, _| {
                let mut full = Vec::new();
                s.enqueue_batch(now_ns, &arrivals, &mut |at, departure| full.push((at, departure)));
                full
            });
            return;
        }
        for (stream, packet) in arrivals {
            let ecn = self.random.of(&[Ecn::NotCapable, Ecn::Capable, Ecn::Scalable]);
            let hash = u32::try_from(self.random.below(40)).unwrap();
            let flow = Flow { hash, host: hash % 3, ecn };
            let _ = self.group.call(now_ns, &(stream, packet, flow), |s, seen| {
                s.enqueue_flow(now_ns, stream, packet, flow, seen)
            });
        }
    }

    /// Changes gates, credits, the cost of the last service, or the streams.
    fn change(&mut self) {
        let now_ns = self.now_ns;
        match self.random.below(6) {
            // Closes the gates of some streams, or opens them.
            0 | 1 => {
                let count = self.random.log_uniform(self.streams);
                let open = self.random.below(2) == 0;
                for _ in 0..count {
                    self.set_gate(open);
                }
            }
            2 => {
                for stream in 0..u32::try_from(self.streams).unwrap() {
                    let stream = StreamId(stream);
                    self.group.call(now_ns, &"open", |s, _| s.set_eligible(now_ns, stream, true));
                }
            }
            3 => {
                let credits = self.random.below(100);
                for _ in 0..self.random.log_uniform(self.streams) {
                    let stream = self.stream();
                    let call = (stream, credits);
                    self.group.call(now_ns, &call, |s, _| s.add_credits(now_ns, stream, credits));
                }
            }
            4 => {
                let Some(stream) = self.last else { return };
                let extra = i64::try_from(self.random.below(3_000)).unwrap() - 60;
                self.group.call(now_ns, &(stream, extra), |s, _| s.charge(now_ns, stream, extra));
            }
            _ => {
                for _ in 0..self.random.log_uniform(self.missing.max(1)).min(self.missing) {
                    self.add_stream();
                }
            }
        }
    }

    /// Opens or closes the gate of a stream.
    fn set_gate(&mut self, open: bool) {
        let (now_ns, stream) = (self.now_ns, self.stream());
        self.group.call(now_ns, &(stream, open), |s, _| s.set_eligible(now_ns, stream, open));
    }

    /// Makes decisions, single or in batches; time passes after each. Returns their number.
    fn serve(&mut self, counts: &mut Counts) -> u64 {
        let most = self.random.of(&[1, 1, 1, 5, 64]);
        let most_gap_ns = self.random.of(&[0, 1, 100, self.deadlines.unit_ns, 1_000_000]);
        let rounds = self.random.log_uniform(2 * self.streams + 8).min(400);
        // One in this many decisions follows a change of a gate; 0: none.
        let gates = self.random.of(&[0, 0, 2, 16]);
        for _ in 0..rounds {
            if gates > 0 && self.random.below(gates) == 0 {
                let open = self.random.below(3) > 0;
                self.set_gate(open);
            }
            let now_ns = self.now_ns;
            let sent: Vec<Departure> = if most == 1 {
                let sent = self.group.call(now_ns, &"decide", |s, seen| s.decide(now_ns, seen));
                sent.into_iter().collect()
            } else {
                self.group.call(now_ns, &("decide", most), |s, seen| {
                    let mut sent = Vec::new();
                    s.decide_batch(now_ns, most, seen, &mut sent);
                    sent
                })
            };
            self.visits += self.streams * (1 + sent.len() as u64);
            let is_late = |of: &&Departure| of.deadline_ns.is_some_and(|at_ns| at_ns <= now_ns);
            counts.sent += sent.len() as u64;
            counts.sent_late += sent.iter().filter(is_late).count() as u64;
            self.last = sent.last().map(|departure| departure.stream).or(self.last);
            let gap_ns = self.random.below(most_gap_ns + 1);
            self.pass(gap_ns);
            if sent.is_empty() {
                break;
            }
        }
        if self.group.call(self.now_ns, &"waiting", |s, _| s.total_waiting()) == 0 {
            self.group.call(self.now_ns, &"idle", |s, seen| s.decide(self.now_ns, seen));
            self.left_ns = self.most_left_ns;
        }
        rounds
    }

    fn pass(&mut self, gap_ns: u64) {
        let gap_ns = gap_ns.min(self.left_ns);
        self.left_ns -= gap_ns;
        self.now_ns = self.now_ns.saturating_add(gap_ns);
    }

    fn pass_time(&mut self, counts: &mut Counts) {
        let Deadlines { unit_ns, decades, .. } = self.deadlines;
        let longest_ns = unit_ns.saturating_mul(10_u64.pow(decades));
        let gap_ns = match self.random.below(16) {
            0..5 => 0,
            5 => 1,
            6..9 => self.random.log_uniform(unit_ns * 1_000),
            // The next gate opens, or just does not yet.
            9 | 10 => {
                let opens_ns = self.group.call(self.now_ns, &"next", |s, _| s.next_eligible_ns());
                let early_ns = self.random.below(2);
                let gap_ns = opens_ns.map_or(0, |opens_ns| opens_ns.saturating_sub(self.now_ns));
                gap_ns.saturating_sub(early_ns)
            }
            // Then all streams are late, but for those with periods near the end of time.
            11..14 => {
                counts.pauses += 1;
                longest_ns.saturating_mul(self.random.of(&[1, 2, 100]))
            }
            14 => self.random.log_uniform(100 * HOUR_NS),
            _ if self.random.below(20) == 0 => {
                let end_ns = u64::MAX - self.random.of(&[0, 1, 1_000, 1 << 40]);
                end_ns.saturating_sub(self.now_ns)
            }
            _ => self.random.log_uniform(longest_ns),
        };
        self.pass(gap_ns);
    }
}

impl Deadlines {
    /// Draws a time from one unit to the longest period.
    fn spread(&self, random: &mut Random) -> u64 {
        let scale = 10_u64.pow(u32::try_from(random.below(u64::from(self.decades))).unwrap());
        let steps = if random.below(4) == 0 { 1 + random.below(9) } else { 1 };
        self.unit_ns * scale * steps + random.below(self.unit_ns * scale)
    }

    fn period_ns(&self, random: &mut Random) -> u64 {
        if self.far > 0 && random.below(self.far) == 0 {
            let last = [u64::MAX, u64::MAX - 1, u64::MAX - (1 << 40), 1 << 63, 1 << 62, 1 << 58];
            return random.of(&last);
        }
        if self.periods.is_empty() { self.spread(random) } else { random.of(&self.periods) }
    }
}

impl Random {
    /// Draws a number from 1 to `most`, each power of two as likely as the next.
    fn log_uniform(&mut self, most: u64) -> u64 {
        let power = 1 << self.below(u64::from(most.max(1).ilog2()) + 1);
        (power + self.below(power)).min(most.max(1))
    }
}

fn flows(random: &mut Random) -> FlowOptions {
    let aqm = random.of(&[
        Aqm::None,
        Aqm::Codel(Default::default()),
        Aqm::Pie(Default::default()),
        Aqm::Red(Default::default()),
        Aqm::Cobalt(Default::default()),
        Aqm::DualPi2(Default::default()),
    ]);
    FlowOptions {
        buckets: random.of(&[1, 8, 64]),
        quantum_bytes: random.of(&[1, 300, 1_514]),
        limit_bytes: random.of(&[1_000, 100_000, 1 << 30]),
        limit_packets: random.of(&[1, 20, 10_000]),
        hosts: random.of(&[HostFairness::None, HostFairness::ByHost]),
        aqm,
        seed: random.below(1 << 20),
    }
}

/// A row with its settings.
struct Drawn {
    row: &'static DisciplineRow,
    options: Options,
}

impl Drawn {
    fn new(random: &mut Random, link: Link, streams: u64) -> Self {
        let name = match random.below(8) {
            0..3 => "dwcs",
            3..6 => random.of(&["wf2q+", "wf2q+", "scfq", "sfq", "minbw"]),
            _ => {
                let names: Vec<_> = DISCIPLINES.iter().map(|row| row.name).collect();
                random.of(&names)
            }
        };
        let rules = random.of(&[Rules::Standard, Rules::Standard, Rules::Rtas99]);
        let zero_windows = [ZeroWindow::HighestDenominator, ZeroWindow::LowestDenominator];
        let dwcs = DwcsOptions { rules, zero_window: random.of(&zero_windows) };
        let orders = [DwcsOrder::EdfFirst, DwcsOrder::EdfFirst, DwcsOrder::LossFirst];
        // The children of a class are streams and other classes.
        let children = u32::try_from(streams + MOST_CLASSES).unwrap();
        let options = Options {
            dwcs,
            order: random.of(&orders),
            link,
            // Every child has an entry, some have two.
            table: (0..children).chain((0..children).step_by(3)).map(StreamId).collect(),
            algorithm: random.of(&MinBwAlgorithm::ALL),
            virtual_origin: random.of(&[0, u128::MAX - (1 << 90)]),
        };
        Self { row: DisciplineRow::parse(name).unwrap(), options }
    }

    /// Returns a structure of each group member: `scan` first.
    fn structures(&self) -> Vec<StructureName> {
        let mut structures = self.row.structures(&self.options);
        structures.retain(|structure| *structure != StructureName::Scan);
        structures.insert(0, StructureName::Scan);
        structures
    }
}

type Members = Vec<(String, Box<dyn DynScheduler + Send>)>;

/// Draws a discipline or a tree, on every structure; and the least sum of weights by which its
/// virtual time passes, if near tags limit that.
fn members(random: &mut Random, link: Link, streams: u64) -> (Members, Option<u64>) {
    let drawn = Drawn::new(random, link, streams);
    let Drawn { row, options } = &drawn;
    if random.below(8) > 0 {
        let build = |structure: StructureName| {
            (format!("{} on {}", row.name, structure.name()), row.build(options, structure))
        };
        let limit = (row.name == "wf2q+").then_some(streams - streams / 2);
        return (drawn.structures().into_iter().map(build).collect(), limit);
    }
    let drawn: Vec<_> = (0..2 + random.below(MOST_CLASSES - 1))
        .map(|_| Drawn::new(random, link, streams))
        .collect();
    let parents: Vec<_> = (0..drawn.len()).map(|class| random.below(class.max(1) as u64)).collect();
    let contracts: Vec<_> = drawn.iter().map(|_| class_contract(random)).collect();
    let most = drawn.iter().map(|drawn| drawn.structures().len()).max().unwrap();
    let trees = (0..most).map(|member| {
        let structure = |drawn: &Drawn| {
            let structures = drawn.structures();
            structures[if member == 0 { 0 } else { 1 + (member - 1) % (structures.len() - 1) }]
        };
        let root = &drawn[0];
        let mut tree = Tree::new(root.row, structure(root), &root.options);
        let mut classes = vec![ClassId::ROOT];
        let mut name = format!("{} on {}", root.row.name, structure(root).name());
        for (class, Drawn { row, options }) in drawn.iter().enumerate().skip(1) {
            let parent = classes[usize::try_from(parents[class]).unwrap()];
            let structure = structure(&drawn[class]);
            let contract = contracts[class].clone();
            classes.push(tree.add_class(parent, contract, row, structure, options).unwrap());
            name += &format!(", {} on {}", row.name, structure.name());
        }
        let tree: Box<dyn DynScheduler + Send> = Box::new(Spread { tree, classes });
        (name, tree)
    });
    let limit = drawn.iter().any(|drawn| drawn.row.name == "wf2q+").then_some(1);
    (trees.collect(), limit)
}

fn class_contract(random: &mut Random) -> Contract {
    let contract = Contract::new()
        .period_ns(random.log_uniform(1_000_000))
        .and_then(|contract| contract.weight(random.of(&[1, 1, 2, 7])))
        .and_then(|contract| contract.quantum_bytes(random.of(&[300, 1_514])))
        .unwrap()
        .priority(random.of(&[0, 1, 2]));
    if random.below(4) > 0 {
        return contract;
    }
    let rate_bps = NonZeroU64::new(1_000 * random.log_uniform(10_000_000)).unwrap();
    contract.max_rate(MaxRate { rate_bps, burst_bytes: random.below(4_000) })
}

/// A tree that spreads its streams over its classes.
struct Spread {
    tree: Tree,
    classes: Vec<ClassId>,
}

impl DynScheduler for Spread {
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        let class = self.classes[self.tree.streams() % self.classes.len()];
        self.tree.add_stream(class, contract)
    }

    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure> {
        self.tree.enqueue(now_ns, stream, packet)
    }

    fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut dyn Observer,
    ) -> Result<u64, Departure> {
        self.tree.enqueue_flow(now_ns, stream, packet, flow, observer)
    }

    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure> {
        self.tree.decide(now_ns, observer)
    }

    fn set_eligible(&mut self, now_ns: u64, stream: StreamId, eligible: bool) {
        self.tree.set_eligible(now_ns, stream, eligible);
    }

    fn add_credits(&mut self, now_ns: u64, stream: StreamId, credits: u64) {
        self.tree.add_credits(now_ns, stream, credits);
    }

    fn next_eligible_ns(&self) -> Option<u64> {
        self.tree.next_eligible_ns()
    }

    fn charge(&mut self, now_ns: u64, stream: StreamId, extra_bytes: i64) -> bool {
        self.tree.charge(now_ns, stream, extra_bytes)
    }

    fn streams(&self) -> usize {
        self.tree.streams()
    }

    fn waiting(&self, stream: StreamId) -> u32 {
        self.tree.waiting(stream)
    }

    fn total_waiting(&self) -> u64 {
        self.tree.total_waiting()
    }
}
