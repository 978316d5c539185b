//! The guarantees of `check`, tested by `run` on random scenarios.
//!
//! `MILLSTREAM_PROMISES=100000` sets the number of draws; `make soak` uses it. The canaries assume
//! one premise without checking it; a guarantee must then be broken. No counterexample is known
//! where only `whole-slots`, `slots` or `no-pauses` fails (a million draws each of the last). The
//! theorems do not cover these cases, so `check` guarantees nothing there.

mod draw;

use draw::Draw;
use millstream::{Departure, Event, StreamId};
use millstream_scenario::{
    Answer, Explanation, Scenario, StreamExplanation, explain, explain_assuming,
};
use millstream_sim::{Listener, link};
use millstream_traffic::FrameBytes;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Counters of one stream in a run.
#[derive(Clone, Copy, Debug, Default)]
struct StreamCounters {
    arrived: u64,
    left: u64,
    dropped_full: u64,
    missed: u64,
    violations: u64,
    largest_sent_bytes: u32,
    /// Maximum time from arrival to the end of service, ns.
    worst_delay_ns: u64,
}

struct Watch<'a> {
    scenario: &'a Scenario,
    counters: Vec<StreamCounters>,
}

impl Listener for Watch<'_> {
    fn arrived(&mut self, stream: StreamId, _: u64, _: u32) {
        self.counters[stream.index()].arrived += 1;
    }

    fn departed(&mut self, departure: &Departure, _: Option<&FrameBytes>) -> io::Result<()> {
        let counters = &mut self.counters[departure.stream.index()];
        counters.left += 1;
        match departure.event {
            Event::Sent => {
                counters.largest_sent_bytes = counters.largest_sent_bytes.max(departure.bytes);
                let end_ns =
                    departure.time_ns + self.scenario.link.transmission_ns(departure.bytes);
                counters.worst_delay_ns =
                    counters.worst_delay_ns.max(end_ns - departure.arrival_ns);
            }
            Event::DroppedFull => counters.dropped_full += 1,
            Event::DroppedLate | Event::DroppedByAqm => {}
        }
        Ok(())
    }

    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.counters[stream.index()].missed += missed;
        self.counters[stream.index()].violations += violations;
    }
}

fn run(scenario: &Scenario) -> Vec<StreamCounters> {
    let counters = vec![StreamCounters::default(); scenario.streams.len()];
    let mut watch = Watch { scenario, counters };
    let mut input = millstream_scenario::open(scenario, false).unwrap();
    link::run(scenario, input.feed.as_mut(), &mut watch).unwrap();
    watch.counters
}

/// The result of one draw: its explanation, and the streams with a broken guarantee.
struct Outcome {
    text: String,
    explanation: Explanation,
    broken: Vec<String>,
    counters: Vec<StreamCounters>,
}

fn outcome(seed: u64, assumed: Option<&'static str>) -> Outcome {
    outcome_of(seed, Draw::new(seed).scenario(), assumed)
}

fn outcome_of(seed: u64, text: String, assumed: Option<&'static str>) -> Outcome {
    let scenario = match Scenario::parse("drawn", &text, Path::new("")) {
        Ok(scenario) => scenario,
        Err(error) => panic!("seed {seed}: {error:?}\n{text}"),
    };
    let explanation = explain_assuming(&scenario, 1_000_000, assumed).unwrap();
    let promises = |of: &Explanation| {
        of.streams.iter().any(|stream| stream.verdict.answer != Answer::NotKnown)
    };
    if !promises(&explanation) {
        return Outcome { text, explanation, broken: Vec::new(), counters: Vec::new() };
    }
    let counters = run(&scenario);
    let streams = explanation.streams.iter().zip(&counters);
    let broken = streams.enumerate().filter_map(|(at, (stream, counters))| {
        let class = scenario.streams[at].class;
        let scheduler = class.map_or(&scenario.scheduler, |of| &scenario.classes[of].scheduler);
        let deadlines = scheduler.discipline.guarantee.deadlines();
        let windows = deadlines.is_some_and(|guarantee| !guarantee.every_request);
        let guaranteed = stream.verdict.answer == Answer::Guaranteed;
        let theorem = stream.verdict.theorem.as_deref().unwrap_or_default();
        let by_delay = theorem.starts_with("the busy") || theorem.starts_with("service curves");
        let (lost, of) = scenario.streams[at].window;
        let requires = deadlines.is_some_and(|guarantee| guarantee.every_request || lost < of);
        let edf = theorem.starts_with("EDF d") || by_delay && requires;
        // A window without requirements is kept under any losses.
        let lossless = stream.verdict.theorem.is_some();
        let why = match stream.verdict.answer {
            Answer::Infeasible if stream.verdict.because.contains("never sent") => {
                let sent = counters.largest_sent_bytes == stream.largest_bytes;
                sent.then_some("a packet without credits was sent")
            }
            _ if !guaranteed => None,
            _ if edf && counters.missed > 0 => Some("a deadline was missed"),
            _ if windows && counters.violations > 0 => Some("a window was violated"),
            _ if lossless && counters.dropped_full > 0 => Some("a queue overflowed"),
            _ if lossless && counters.left < counters.arrived => Some("a packet never left"),
            _ => stream
                .bounds
                .worst_delay_ns
                .filter(|worst_ns| counters.worst_delay_ns > *worst_ns)
                .map(|_| "a packet was later than the bound"),
        };
        why.map(|why| {
            format!(
                "`{}`: {why}: {counters:?} {:?} {:?}",
                stream.name, stream.verdict, stream.bounds
            )
        })
    });
    let broken = broken.collect();
    Outcome { text, explanation, broken, counters }
}

#[test]
fn no_guarantee_is_broken_and_enough_is_guaranteed() {
    let draws = std::env::var("MILLSTREAM_PROMISES").map_or(2_000, |text| text.parse().unwrap());
    let mut answers: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    let mut guaranteed = 0;
    // The number of guaranteed streams by theorem.
    let mut theorems = BTreeMap::<String, u64>::new();
    for seed in 0..draws {
        let Outcome { text, explanation, broken, .. } = outcome(seed, None);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{text}");
        let of = answers.entry(explanation.discipline).or_default();
        of[match explanation.feasible {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        }] += 1;
        guaranteed += u64::from(explanation.feasible == Some(true));
        // An answer is unknown exactly if a premise fails, and every answer has a reason.
        for stream in &explanation.streams {
            let failing = stream.verdict.premises.iter().filter(|premise| !premise.holds).count();
            assert_eq!(
                failing > 0,
                stream.verdict.answer == Answer::NotKnown,
                "{stream:?}\n{text}"
            );
            assert!(!stream.verdict.because.is_empty(), "{stream:?}\n{text}");
            if stream.verdict.answer == Answer::Guaranteed {
                *theorems.entry(stream.verdict.theorem.clone().unwrap_or_default()).or_default() +=
                    1;
            }
        }
    }
    println!("{draws} scenarios: [guaranteed, infeasible, not known] {answers:?} {theorems:#?}");
    assert!(guaranteed * 10 >= draws, "only {guaranteed} of {draws} are guaranteed: {answers:?}");
    for discipline in ["edf", "dwcs", "vds", "pd2", "wfq", "drr", "fifo", "static-priority"] {
        assert!(answers[discipline][0] > 0, "{discipline}: {answers:?}");
    }
}

/// Streams of classes keep the bounds of their service curves on overloaded links.
#[test]
fn guarantees_hold_in_trees_beside_floods() {
    let draws = std::env::var("MILLSTREAM_PROMISES").map_or(1_000, |text| text.parse().unwrap());
    let (mut guaranteed, mut streams, mut tightest) = (0u64, 0u64, 0);
    for seed in 0..draws {
        let Outcome { text, explanation, broken, counters } =
            outcome_of(seed, Draw::new(seed).tree(), None);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{text}");
        streams += explanation.streams.len() as u64;
        for (stream, counters) in explanation.streams.iter().zip(counters) {
            let theorem = stream.verdict.theorem.as_deref().unwrap_or_default();
            let bound_ns = stream.bounds.worst_delay_ns.unwrap_or(u64::MAX);
            if stream.verdict.answer == Answer::Guaranteed && theorem.starts_with("service curves")
            {
                guaranteed += 1;
                tightest = tightest.max(counters.worst_delay_ns * 100 / bound_ns.max(1));
            }
        }
    }
    println!("{guaranteed} of {streams} streams are guaranteed, the tightest to {tightest} %");
    assert!(guaranteed * 10 >= streams, "only {guaranteed} of {streams} streams are guaranteed");
}

/// Streams with contracts keep their bounds beside best-effort streams of TCP connections, which
/// are queued by flow under queue management.
#[test]
fn guarantees_hold_beside_sources_that_react() {
    let draws = std::env::var("MILLSTREAM_PROMISES").map_or(400, |text| text.parse().unwrap());
    let mut guaranteed = BTreeMap::<&str, u64>::new();
    let mut in_trees = 0;
    for seed in 0..draws {
        let text = Draw::new(seed).network();
        let Outcome { text, explanation, broken, .. } = outcome_of(seed, text, None);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{text}");
        let of = guaranteed.entry(explanation.discipline).or_default();
        for stream in &explanation.streams {
            let is_guaranteed = stream.verdict.answer == Answer::Guaranteed;
            *of += u64::from(is_guaranteed);
            in_trees += u64::from(is_guaranteed && text.contains("[[class]]"));
            let reacts = stream.name.starts_with("bulk") || stream.name == "ping";
            assert!(!(reacts && is_guaranteed), "{stream:?}\n{text}");
        }
    }
    for discipline in ["wf2q+", "sfq", "drr", "static-priority"] {
        assert!(guaranteed[discipline] > 5, "{guaranteed:?}");
    }
    assert!(in_trees > 20, "{in_trees}");
}

/// Each of these premises is necessary: without its check, a guarantee is broken.
#[test]
fn a_promise_is_broken_where_a_premise_is_not_checked() {
    for premise in [
        "no-gates",
        "first-deadlines",
        "queues",
        "equal-lengths",
        "phases",
        "utilisation",
        "demand",
        "order-and-rules",
    ] {
        let broken = (0..60_000).find(|seed| !outcome(*seed, Some(premise)).broken.is_empty());
        assert!(broken.is_some(), "no guarantee is broken without checking {premise}");
    }
}

/// A cap holds packets of `s2` while the link idles, so the clock of SFQ stops and `s0` stays ahead
/// of it by a packet: it waits for longer than 85,041 ns, its bound without caps.
#[test]
fn sfq_promises_nothing_beside_a_capped_stream() {
    let text = r#"
        [scenario]
        duration = "3895520 ns"
        [link]
        rate = "100 Mbit/s"
        [scheduler]
        discipline = "sfq"
        [[stream]]
        name = "s0"
        weight = 2
        source = { kind = "cbr", bytes = 502, interval = "191499 ns" }
        [[stream]]
        name = "s1"
        weight = 4
        source = { kind = "cbr", bytes = 502, interval = "99043 ns" }
        [[stream]]
        name = "s2"
        weight = 2
        queue = 1
        max-rate = "33333333 bit/s"
        source = { kind = "cbr", bytes = 59, interval = "4720 ns" }
    "#;
    let scenario = Scenario::parse("known", text, Path::new("")).unwrap();
    let explanation = explain(&scenario, 1_000_000).unwrap();
    assert_eq!(explanation.streams[0].verdict.answer, Answer::NotKnown, "{explanation:#?}");
    let assumed = explain_assuming(&scenario, 1_000_000, Some("no-gates")).unwrap();
    assert_eq!(assumed.streams[0].bounds.worst_delay_ns, Some(85_041));
    assert_eq!(run(&scenario)[0].worst_delay_ns, 87_283);
}

/// Counterexamples that few draws find: without one premise of a window theorem, windows are
/// violated.
#[test]
fn known_counterexamples_are_not_promised_and_name_their_premise() {
    let unit = "[link]\nrate = \"1 Gbps\"\n[scheduler]\ndiscipline = \"dwcs\"\n";
    let backlog = "source = { kind = \"backlog\", bytes = 125, packets = 600 }";
    let streams = |streams: &[(u64, &str)]| {
        let stream = |(at, (period_us, window)): (usize, &(u64, &str))| {
            format!(
                "[[stream]]\nname = \"s{at}\"\nperiod = \"{period_us} us\"\nwindow = \
                 \"{window}\"\n{backlog}\n"
            )
        };
        streams.iter().enumerate().map(stream).collect::<String>()
    };
    let several = format!("{unit}{}", streams(&[(1, "5/6"), (1, "5/6"), (1, "5/15")]));
    let periods = format!("{unit}{}", streams(&[(4, "0/3"), (2, "0/4"), (1, "3/4")]));
    // Equal periods; two sources start 3.138 and 4.409 ms later.
    let offsets = r#"
        [scenario]
        duration = "304.8 ms"
        [link]
        rate = "8 Mbps"
        overhead = 24
        [scheduler]
        discipline = "dwcs"
        [[stream]]
        name = "two-of-three"
        period = "3048 us"
        window = "2/3"
        late = "drop"
        source = { kind = "cbr", bytes = 1500, interval = "3048 us", start = "3138133 ns" }
        [[stream]]
        name = "any"
        period = "3048 us"
        window = "2/2"
        late = "drop"
        source = { kind = "backlog", bytes = 1500, packets = 300 }
        [[stream]]
        name = "all"
        period = "3048 us"
        window = "0/12"
        late = "drop"
        source = { kind = "cbr", bytes = 1500, interval = "3048 us", start = "4408693 ns" }
    "#;
    for (text, premise, violations) in
        [(several, "windows", 1), (periods, "equal-periods", 300), (offsets.into(), "demand", 97)]
    {
        let scenario = Scenario::parse("known", &text, Path::new("")).unwrap();
        let explanation = explain(&scenario, 1_000_000).unwrap();
        assert_eq!(explanation.feasible, None, "{explanation:#?}");
        let failing = |stream: &StreamExplanation| {
            stream.verdict.premises.iter().any(|of| of.premise == premise && !of.holds)
        };
        assert!(explanation.streams.iter().any(failing), "{premise}: {explanation:#?}");
        let counters = run(&scenario);
        let total: u64 = counters.iter().map(|counters| counters.violations).sum();
        assert_eq!(total, violations, "{premise}");
    }
}
