//! Trees of classes: shares compared with the fluid model, mixed disciplines, caps, late charges.

use millstream::catalogue::{DisciplineRow, Options, StructureName};
use millstream::{
    ClassId, Contract, Departure, Late, Link, MaxRate, Observer, Packet, StreamId, Tree, Window,
};
use std::collections::HashMap;
use std::num::NonZeroU64;

/// One byte per nanosecond.
const LINK: Link = Link::new(8_000_000_000, 0);

fn options() -> Options {
    Options { link: LINK, ..Options::default() }
}

fn row(name: &str) -> &'static DisciplineRow {
    DisciplineRow::parse(name).unwrap()
}

fn weighted(weight: u32) -> Contract {
    Contract::new().weight(weight).unwrap().quantum_bytes(1500 * weight).unwrap()
}

/// Ten classes of ten classes of a hundred streams. The service of every class and stream is always
/// within one packet per level of its service in the fluid model.
#[test]
#[allow(clippy::cast_precision_loss)]
fn ten_thousand_leaves_keep_their_shares() {
    const LARGEST: u32 = 1500;
    let discipline = row("wf2q+");
    let mut tree = Tree::new(discipline, StructureName::Heap, &options());
    let weight = |number: u32| 1 + number * 7 % 5;
    // By stream: its share, its upper class's share and number, its lower class's share and number.
    let mut shares = Vec::new();
    let total = |count: u32| f64::from((0..count).map(weight).sum::<u32>());
    for upper in 0..10 {
        let mut add = |parent, number| {
            let contract = weighted(weight(number));
            tree.add_class(parent, contract, discipline, StructureName::Heap, &options()).unwrap()
        };
        let class = add(ClassId::ROOT, upper);
        let lowers: Vec<_> = (0..10).map(|lower| add(class, lower)).collect();
        for (lower, class) in (0..).zip(lowers) {
            for leaf in 0..100 {
                tree.add_stream(class, weighted(weight(leaf))).unwrap();
                let upper_share = f64::from(weight(upper)) / total(10);
                let lower_share = upper_share * f64::from(weight(lower)) / total(10);
                let share = lower_share * f64::from(weight(leaf)) / total(100);
                shares.push((share, upper_share, upper, lower_share, upper * 10 + lower));
            }
        }
    }
    let length = |stream: u32, packet: u32| 64 + (stream * 31 + packet * 977) % (LARGEST - 63);
    let mut packets = vec![0; shares.len()];
    let mut now_ns = 0;
    let mut fill = |tree: &mut Tree, stream: StreamId, now_ns| {
        while tree.waiting(stream) < 2 {
            let packet = &mut packets[stream.index()];
            *packet += 1;
            tree.enqueue(now_ns, stream, Packet::new(length(stream.0, *packet))).unwrap();
        }
    };
    for stream in 0..10_000 {
        fill(&mut tree, StreamId(stream), 0);
    }
    let mut served = vec![0u64; shares.len()];
    let (mut uppers, mut lowers) = (HashMap::new(), HashMap::new());
    let mut sent_bytes = 0u64;
    for step in 0..300_000 {
        let sent = tree.decide(now_ns, &mut ()).unwrap();
        now_ns += LINK.transmission_ns(sent.bytes);
        let (_, _, upper, _, lower) = shares[sent.stream.index()];
        served[sent.stream.index()] += u64::from(sent.bytes);
        *uppers.entry(upper).or_insert(0) += u64::from(sent.bytes);
        *lowers.entry(lower).or_insert(0) += u64::from(sent.bytes);
        sent_bytes += u64::from(sent.bytes);
        fill(&mut tree, sent.stream, now_ns);
        if step % 30_000 != 29_999 {
            continue;
        }
        let fluid = |share: f64| share * sent_bytes as f64;
        let packet = f64::from(LARGEST);
        for (served, (share, upper_share, upper, lower_share, lower)) in served.iter().zip(&shares)
        {
            for (bytes, share, levels) in [
                (uppers[upper], upper_share, 1.0),
                (lowers[lower], lower_share, 2.0),
                (*served, share, 3.0),
            ] {
                let lag = bytes as f64 - fluid(*share);
                assert!(lag.abs() <= levels * packet, "{lag} bytes from the fluid at {step}");
            }
        }
    }
}

/// WF²Q+ over DWCS and DRR: the classes share by weight, and each follows its own discipline.
#[test]
fn a_class_keeps_its_own_discipline() {
    let mut tree = Tree::new(row("wf2q+"), StructureName::Scan, &options());
    let mut class = |weight, name| {
        let row = row(name);
        let structure = row.auto_structure(&options(), 2);
        tree.add_class(ClassId::ROOT, weighted(weight), row, structure, &options()).unwrap()
    };
    let (media, bulk) = (class(3, "dwcs"), class(1, "drr"));
    let windowed = |lost, of| {
        let window = Window::new(lost, of).unwrap();
        Contract::new().period_ns(4_000).unwrap().window(window).late(Late::Drop).queue(4)
    };
    let tight = tree.add_stream(media, windowed(1, 8)).unwrap();
    let loose = tree.add_stream(media, windowed(7, 8)).unwrap();
    let twice = tree.add_stream(bulk, weighted(2)).unwrap();
    let once = tree.add_stream(bulk, weighted(1)).unwrap();

    #[derive(Default)]
    struct Counts {
        dropped: [u64; 2],
        violations: u64,
    }
    impl Observer for Counts {
        fn missed(&mut self, stream: StreamId, _: u64, _: u64, violations: u64) {
            assert!(stream.0 < 2, "only the media streams have deadlines");
            self.violations += violations;
        }
        fn dropped(&mut self, departure: &Departure) {
            self.dropped[departure.stream.index()] += 1;
        }
    }
    let mut counts = Counts::default();
    let mut served = [0u64; 4];
    let mut now_ns = 0;
    for step in 0..40_000u64 {
        // A media packet of each stream every four transmissions: together they need half of the
        // link, and the class's share is three quarters.
        if step % 4 == 0 {
            for stream in [tight, loose] {
                let _ = tree.enqueue(now_ns, stream, Packet::new(1000));
            }
        }
        for stream in [twice, once] {
            while tree.waiting(stream) < 4 {
                tree.enqueue(now_ns, stream, Packet::new(1000)).unwrap();
            }
        }
        let sent = tree.decide(now_ns, &mut counts).unwrap();
        served[sent.stream.index()] += 1;
        now_ns += LINK.transmission_ns(sent.bytes);
    }
    assert_eq!((counts.dropped, counts.violations), ([0, 0], 0));
    assert_eq!(served[..2], [10_000, 10_000]);
    let ratio = served[2].abs_diff(2 * served[3]);
    assert!(ratio <= 4, "{served:?}");
}

#[test]
fn a_class_s_rate_cap_holds_all_its_streams() {
    let mut tree = Tree::new(row("scfq"), StructureName::Scan, &options());
    // The cap is a tenth of the link's rate.
    let rate_bps = NonZeroU64::new(800_000_000).unwrap();
    let capped = weighted(9).max_rate(MaxRate { rate_bps, burst_bytes: 2_000 });
    let class =
        tree.add_class(ClassId::ROOT, capped, row("wrr"), StructureName::Ring, &options()).unwrap();
    let streams = [0, 1].map(|_| tree.add_stream(class, weighted(1)).unwrap());
    let free = tree.add_stream(ClassId::ROOT, weighted(1)).unwrap();
    let mut served = [0u64; 3];
    let mut now_ns = 0;
    while now_ns < 1_000_000 {
        for stream in streams.into_iter().chain([free]) {
            while tree.waiting(stream) < 2 {
                tree.enqueue(now_ns, stream, Packet::new(500)).unwrap();
            }
        }
        let sent = tree.decide(now_ns, &mut ()).unwrap();
        served[sent.stream.index()] += u64::from(sent.bytes);
        now_ns += LINK.transmission_ns(sent.bytes);
    }
    let capped = served[0] + served[1];
    assert!((101_000..=102_500).contains(&capped), "{served:?}");
    assert!(served[0].abs_diff(served[1]) <= 500);
    assert!(served[2] >= 896_000, "the link stays busy: {served:?}");
    // Without other streams the cap leaves the link idle.
    while tree.waiting(free) > 0 {
        let sent = tree.decide(now_ns, &mut ()).unwrap();
        now_ns += LINK.transmission_ns(sent.bytes);
    }
    let mut idle = 0;
    for _ in 0..4 {
        for stream in streams {
            tree.enqueue(now_ns, stream, Packet::new(500)).unwrap();
        }
        if tree.decide(now_ns, &mut ()).is_none() {
            let next_ns = tree.next_eligible_ns().unwrap();
            assert!(next_ns > now_ns);
            idle += 1;
            now_ns = next_ns;
            assert!(tree.decide(now_ns, &mut ()).is_some());
        }
        now_ns += 500;
    }
    assert!(idle >= 3);
}

/// CPU time: the cost of a run is known at its end. Two processes of equal weight share the time
/// equally although one takes three times its estimate.
#[test]
fn what_a_service_cost_more_than_estimated_is_charged_afterwards() {
    for name in ["wf2q+", "drr"] {
        let discipline = row(name);
        let structure = discipline.auto_structure(&options(), 2);
        let mut tree = Tree::new(row("wf2q+"), StructureName::Scan, &options());
        let cpu =
            tree.add_class(ClassId::ROOT, weighted(1), discipline, structure, &options()).unwrap();
        let honest = tree.add_stream(cpu, weighted(1)).unwrap();
        let greedy = tree.add_stream(cpu, weighted(1)).unwrap();
        let mut used = [0u64; 2];
        let mut now_ns = 0;
        for _ in 0..4_000 {
            for stream in [honest, greedy] {
                while tree.waiting(stream) < 2 {
                    tree.enqueue(now_ns, stream, Packet::new(1000)).unwrap();
                }
            }
            let run = tree.decide(now_ns, &mut ()).unwrap();
            let cost = if run.stream == greedy { 3000 } else { 1000 };
            now_ns += cost;
            used[run.stream.index()] += cost;
            let extra = i64::try_from(cost).unwrap() - i64::from(run.bytes);
            assert!(tree.charge(now_ns, run.stream, extra), "{name}");
        }
        assert!(used[0].abs_diff(used[1]) <= 6_000, "{name}: {used:?}");
    }
}

/// Longest queue first over classes: a class's queue is the backlog of its subtree after arrivals,
/// services and late drops.
#[test]
fn a_class_is_ranked_by_the_backlog_of_its_subtree() {
    let mut tree = Tree::new(row("lqf"), StructureName::Heap, &options());
    let mut class = |name| {
        let structure = row(name).auto_structure(&options(), 2);
        tree.add_class(ClassId::ROOT, Contract::new(), row(name), structure, &options()).unwrap()
    };
    let (late, other) = (class("edf"), class("fifo"));
    let dropped = Contract::new().period_ns(100).unwrap().late(Late::Drop);
    let patient = Contract::new().period_ns(1_000_000).unwrap();
    let dropped = tree.add_stream(late, dropped).unwrap();
    let patient = tree.add_stream(late, patient).unwrap();
    let other = tree.add_stream(other, Contract::new()).unwrap();
    for (stream, bytes) in [(other, 700), (dropped, 500), (patient, 300), (other, 50)] {
        tree.enqueue(0, stream, Packet::new(bytes)).unwrap();
    }
    // 800 bytes against 750.
    assert_eq!(tree.decide(0, &mut ()).unwrap().stream, dropped);
    // 300 against 750, then 300 against 50.
    assert_eq!(tree.decide(500, &mut ()).unwrap().stream, other);
    tree.enqueue(1_100, dropped, Packet::new(900)).unwrap();
    tree.enqueue(1_100, other, Packet::new(400)).unwrap();
    // The 900 bytes are dropped late: 300 against 450.
    assert_eq!(tree.decide(1_200, &mut ()).unwrap().stream, other);
    assert_eq!(tree.decide(1_300, &mut ()).unwrap().stream, other);
    assert_eq!(tree.decide(1_700, &mut ()).unwrap().stream, patient);
    assert_eq!(tree.total_waiting(), 0);
}

#[test]
fn at_one_instant_credits_precede_gates_that_time_opens() {
    let mut tree = Tree::new(row("wrr"), StructureName::Ring, &options());
    let rate_bps = NonZeroU64::new(8_000_000).unwrap();
    let capped = Contract::new().max_rate(MaxRate { rate_bps, burst_bytes: 0 });
    let capped = tree.add_stream(ClassId::ROOT, capped).unwrap();
    let credited = tree.add_stream(ClassId::ROOT, Contract::new().credits(0)).unwrap();
    for stream in [capped, credited] {
        tree.enqueue(0, stream, Packet::new(1)).unwrap();
    }
    assert_eq!(tree.next_eligible_ns(), Some(1_000));
    tree.add_credits(1_000, credited, 1);
    assert_eq!(tree.decide(1_000, &mut ()).unwrap().stream, credited);
    assert_eq!(tree.decide(1_001, &mut ()).unwrap().stream, capped);
}
