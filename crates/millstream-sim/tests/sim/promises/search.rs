//! Adversarial search: simulated annealing over phases and sizes for runs that come near a bound.
//!
//! Random arrivals seldom meet the worst case of a bound. The search begins with a random scenario
//! and one of its streams. Each step changes a start, a packet length or the seed, computes the
//! bound of the changed scenario, runs it, and asserts that no guarantee is broken. It accepts a
//! step that loosens the bound by d ‰ with the probability exp(−d/T), where T falls.
//!
//! `MILLSTREAM_ANNEAL=100` sets the number of scenarios of each kind; `make soak` uses it.

use super::draw::Draw;
use super::{Measured, MeasuredFabric, Outcome, Tightness, outcome_of};
use millstream::{Contract, Link};
use millstream_scenario::{Answer, Direction, Explanation, Scenario, StreamExplanation, explain};
use std::ops::Range;
use std::path::Path;

/// Steps of one search.
const STEPS: u32 = 100;

/// T of the first step and of the last, ‰.
const TEMPERATURES: (f64, f64) = (60.0, 2.0);

/// The numbers of a scenario file that a step may change, by the text before them.
const KEYS: [&str; 3] = ["start = \"", "bytes = ", "\nseed = "];

/// A kind of scenarios: its name, its draw, and how its streams are measured.
struct Kind {
    name: &'static str,
    draw: fn(&mut Draw) -> String,
    measure: fn(u64, &str) -> Vec<Option<Measured>>,
}

const KINDS: [Kind; 6] = [
    Kind { name: "links", draw: Draw::scenario, measure: measure_link },
    Kind { name: "trees", draw: Draw::tree, measure: measure_link },
    Kind { name: "series", draw: Draw::series, measure: measure_link },
    Kind { name: "caps", draw: Draw::caps, measure: measure_link },
    Kind { name: "fabrics", draw: Draw::fabric, measure: measure_fabric },
    Kind { name: "crossbars", draw: Draw::crossbars, measure: measure_fabric },
];

impl Measured {
    /// Returns the longest delay in ‰ of the bound.
    #[allow(clippy::cast_precision_loss)]
    fn per_mille(self) -> f64 {
        self.longest_ns as f64 * 1_000.0 / self.bound_ns.max(1) as f64
    }
}

/// Runs a scenario with a link or links in series; returns what its streams with bounds have.
fn measure_link(seed: u64, text: &str) -> Vec<Option<Measured>> {
    let Outcome { explanation, broken, counters, .. } = outcome_of(seed, text.to_owned(), None);
    assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{text}");
    let measured = explanation.streams.iter().enumerate().map(|(at, stream)| {
        let bound_ns = stream.bounds.worst_delay_ns;
        let bound_ns = bound_ns.filter(|_| stream.verdict.answer == Answer::Guaranteed)?;
        Some(Measured { longest_ns: counters.get(at)?.worst_delay_ns, bound_ns })
    });
    measured.collect()
}

/// Runs a fabric; returns what its streams have if it has bounds.
fn measure_fabric(seed: u64, text: &str) -> Vec<Option<Measured>> {
    let measured = MeasuredFabric::of(text).streams;
    for Measured { longest_ns, bound_ns } in measured.iter().flatten() {
        assert!(longest_ns <= bound_ns, "seed {seed}: {longest_ns} {bound_ns}\n{text}");
    }
    measured
}

/// Returns the places of the numbers that a step may change, with their keys.
fn numbers(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let of_key = |key: &'static str| {
        text.match_indices(key).map(move |(at, _)| {
            let from = at + key.len();
            let digits = text[from..].bytes().take_while(u8::is_ascii_digit).count();
            (key, from..from + digits)
        })
    };
    KEYS.into_iter().flat_map(of_key).filter(|(_, place)| !place.is_empty()).collect()
}

/// Returns the text with one number changed.
fn step(draw: &mut Draw, text: &str) -> Option<String> {
    let numbers = numbers(text);
    let value = |place: &Range<usize>| text[place.clone()].parse::<u64>().unwrap();
    let (key, place) = numbers.get(usize::try_from(draw.below(numbers.len() as u64)).unwrap())?;
    let of_key = || numbers.iter().filter(|(other, _)| other == key).map(|(_, at)| value(at));
    let most = of_key().max().unwrap_or(0);
    let present = value(place);
    let changed = match (*key, draw.below(3)) {
        ("\nseed = ", _) => draw.below(1_000_000),
        // The number of another stream, a near one, or any.
        (_, 0) => draw.one_of(&of_key().collect::<Vec<_>>()),
        (_, 1) => present.saturating_sub(draw.below(present / 8 + 2)) + draw.below(present / 8 + 2),
        ("bytes = ", _) => draw.below(most),
        _ => draw.below(most * 2 + 2),
    };
    // Packets are no longer than those of the draw, so that loads stay.
    let changed = if *key == "bytes = " { changed.clamp(40.min(most), most) } else { changed };
    let mut next = text.to_owned();
    next.replace_range(place.clone(), &changed.to_string());
    Some(next)
}

/// Searches from the scenario of `seed`; returns what one stream has there and at the best step,
/// `None` if no stream has a bound.
fn search(kind: &Kind, seed: u64) -> Option<[Measured; 2]> {
    let mut draw = Draw::new(seed);
    let mut text = (kind.draw)(&mut draw);
    let streams = (kind.measure)(seed, &text);
    let bounded: Vec<_> = (0..streams.len()).filter(|at| streams[*at].is_some()).collect();
    let target = *bounded.get(usize::try_from(draw.below(bounded.len() as u64)).unwrap())?;
    let first = streams[target]?;
    let (mut present, mut best) = (first, first);
    for number in 0..STEPS {
        let Some(changed) = step(&mut draw, &text) else { break };
        // Some sources have a least length.
        if Scenario::parse("drawn", &changed, Path::new("")).is_err() {
            continue;
        }
        // The change may take the bound away.
        let measured = (kind.measure)(seed, &changed);
        let Some(Some(measured)) = measured.get(target).copied() else { continue };
        let part = f64::from(number) / f64::from(STEPS);
        let temperature = TEMPERATURES.0 * (TEMPERATURES.1 / TEMPERATURES.0).powf(part);
        let accepted = ((measured.per_mille() - present.per_mille()) / temperature).exp();
        if accepted * 1_000_000.0 > f64::from(u32::try_from(draw.below(1_000_000)).unwrap()) {
            (text, present) = (changed, measured);
        }
        if present.per_mille() > best.per_mille() {
            best = present;
        }
    }
    Some([first, best])
}

/// The search breaks no guarantee, and comes nearer to the bounds than random arrivals do.
#[test]
fn annealing_comes_near_the_bounds_and_breaks_none() {
    let scenarios = std::env::var("MILLSTREAM_ANNEAL").map_or(2, |text| text.parse().unwrap());
    for kind in KINDS {
        let (mut random, mut annealed) = (Tightness::default(), Tightness::default());
        let found = (0..).take(scenarios * 4).filter_map(|seed| search(&kind, seed));
        for [first, best] in found.take(scenarios) {
            random.add(first.longest_ns, Some(first.bound_ns));
            annealed.add(best.longest_ns, Some(best.bound_ns));
        }
        println!("{}: {random}; annealed, {annealed}", kind.name);
        assert!(annealed.mean() > random.mean(), "{}", kind.name);
    }
}

/// Returns the offered rate of a stream of equal packets on the wire of a link, bits/s.
fn wire_bps(link: Link, of: &StreamExplanation) -> u64 {
    of.offered_bps * link.wire_bytes(of.largest_bytes) / u64::from(of.largest_bytes.max(1))
}

/// Returns whether the offered load of a link is more than 95 % of its rate.
fn is_nearly_full(scenario: &Scenario, explanation: &Explanation) -> bool {
    let full = |link: Link, direction: Direction| {
        let streams = scenario.streams.iter().zip(&explanation.streams);
        let passing = streams.filter(|(stream, _)| stream.direction == direction);
        let offered: u64 = passing.map(|(_, of)| wire_bps(link, of)).sum();
        offered * 100 > link.rate_bps * 95
    };
    let mut hops = scenario.network.iter().flat_map(|network| &network.hops);
    full(scenario.link.wire(), Direction::Forward)
        || hops.any(|hop| full(hop.link.wire(), hop.direction))
}

/// Returns whether a stream offers at least 95 % of a rate cap of its own or of a class above it:
/// then it has no bound, or hardly one.
fn exceeds_a_cap(scenario: &Scenario, explanation: &Explanation, at: usize) -> bool {
    let offered = |at: usize| wire_bps(scenario.link.wire(), &explanation.streams[at]);
    let exceeds = |contract: &Contract, offered_bps: u64| {
        contract.rate_cap().is_some_and(|cap| offered_bps * 100 > cap.rate_bps.get() * 95)
    };
    let of_class = |class: usize| -> u64 {
        let is_below = |at: &usize| scenario.classes_above(*at).any(|of| of == class);
        let below = (0..scenario.streams.len()).filter(is_below);
        below.map(offered).sum()
    };
    exceeds(&scenario.streams[at].contract, offered(at))
        || scenario
            .classes_above(at)
            .any(|of| exceeds(&scenario.classes[of].contract, of_class(of)))
}

/// Nine of ten random streams with known sources have bounds on their delay, on links that are not
/// overloaded and under caps that are not exceeded.
#[test]
fn most_streams_with_a_known_load_below_1_have_bounds() {
    const WHAT: &str = "[streams, with a bound, guaranteed, above a cap, with a bound]";
    let draws = std::env::var("MILLSTREAM_PROMISES").map_or(300, |text| text.parse().unwrap());
    let mut all = [0u64; 5];
    for kind in KINDS.iter().filter(|kind| !["fabrics", "crossbars"].contains(&kind.name)) {
        // Streams, with a bound, and with a guaranteed contract; streams that exceed a cap, and
        // those of them with a bound.
        let mut counts = [0u64; 5];
        for seed in 0..draws {
            let text = (kind.draw)(&mut Draw::new(seed));
            let scenario = Scenario::parse("drawn", &text, Path::new("")).unwrap();
            let explanation = explain(&scenario, 1_000_000).unwrap();
            let reacts = scenario.streams.iter().any(|of| of.source.reacts());
            if reacts || is_nearly_full(&scenario, &explanation) {
                continue;
            }
            for (at, of) in explanation.streams.iter().enumerate() {
                let is_bounded = u64::from(of.bounds.worst_delay_ns.is_some());
                if exceeds_a_cap(&scenario, &explanation, at) {
                    counts[3] += 1;
                    counts[4] += is_bounded;
                    continue;
                }
                counts[0] += 1;
                counts[1] += is_bounded;
                counts[2] += u64::from(of.verdict.answer == Answer::Guaranteed);
            }
        }
        println!("{}: {WHAT} {counts:?}", kind.name);
        assert!(counts[0] > draws / 4, "{} {counts:?}", kind.name);
        all.iter_mut().zip(counts).for_each(|(all, of)| *all += of);
    }
    println!("all: {WHAT} {all:?}");
    assert!(all[1] * 10 >= all[0] * 9, "{all:?}");
}
