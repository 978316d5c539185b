//! What keeps fabrics with crossbars from bounds: loads, or buffers.
//!
//! A packet that has credits waits while its output is busy, or its input with other outputs. It
//! can wait without end if these loads add to the whole time. Where credits run out, it also waits
//! while an output behind the next input is busy, or one behind that: a buffer that is full of
//! packets for one output holds up those for all others.

use super::draw::Draw;
use millstream::Link;
use millstream_scenario::{Pace, Scenario, Source};
use millstream_sim::fabric::{Simulation, delay_bounds, prepare};
use std::collections::BTreeMap;
use std::path::Path;

/// The whole time; loads are in parts of it.
const WHOLE: u64 = 1_000_000;

/// The loads of a fabric.
#[derive(Default)]
struct Loads {
    /// Transmissions on each link.
    links: BTreeMap<usize, u64>,
    /// Transfers from the input behind a link to another link.
    transfers: BTreeMap<(usize, usize), u64>,
}

impl Loads {
    fn of(scenario: &Scenario, simulation: &Simulation) -> Self {
        let topology = simulation.topology();
        let fabric = scenario.fabric.as_ref().unwrap();
        let crossbar = Link::new(fabric.crossbar.unwrap().rate_bps, 0);
        let mut loads = Self::default();
        for (class, stream) in scenario.streams.iter().enumerate() {
            let Source::Cbr { bytes, pace: Pace::RateBps(rate_bps), .. } = stream.source else {
                panic!("the draws have rates");
            };
            let interval_ns = (u64::from(bytes) * 8_000_000_000).div_ceil(rate_bps);
            let load = |ns: u64| (ns * WHOLE).div_ceil(interval_ns);
            let link_ns = scenario.link.wire().transmission_ns(bytes);
            let arrives_ns = if fabric.cut_through { link_ns } else { 0 };
            let transfer_ns = crossbar.transmission_ns(bytes).max(arrives_ns);
            for (source, traffic) in (0..).zip(simulation.sources()) {
                for destination in traffic.destinations(u8::try_from(class).unwrap()) {
                    let path: Vec<_> = topology.path(source, *destination).collect();
                    for link in &path {
                        *loads.links.entry(*link).or_default() += load(link_ns);
                    }
                    for pair in path.windows(2) {
                        *loads.transfers.entry((pair[0], pair[1])).or_default() +=
                            load(transfer_ns);
                    }
                }
            }
        }
        loads
    }

    fn transfers(&self, counts: impl Fn(usize, usize) -> bool) -> u64 {
        self.transfers.iter().filter(|(of, _)| counts(of.0, of.1)).map(|(_, load)| load).sum()
    }

    /// Returns the links that packets of a link go to.
    fn next(&self, link: usize) -> impl Iterator<Item = usize> {
        self.transfers.keys().filter(move |of| of.0 == link).map(|of| of.1)
    }

    /// Returns the greatest load that can hold a packet up which always has credits. With one queue
    /// for all outputs, it is that of all these.
    fn at_a_switch(&self, one_queue: bool) -> u64 {
        let of_pair = |&(from, onto): &(usize, usize)| {
            let elsewhere = self.transfers(|input, output| input == from && output != onto);
            let all: u64 = self.next(from).map(|of| self.transfers(|_, onto| onto == of)).sum();
            (elsewhere + self.links[&onto]).max(if one_queue { all } else { 0 })
        };
        self.transfers.keys().map(of_pair).max().unwrap_or(0)
    }

    /// Returns the load of other inputs at the outputs behind a link, and behind these, without the
    /// links in `passed`.
    fn behind(&self, link: usize, passed: &[usize]) -> u64 {
        let passed = [passed, &[link]].concat();
        let of_output = |onto: usize| {
            self.transfers(|from, output| output == onto && from != link)
                + self.behind(onto, &passed)
        };
        self.next(link).filter(|onto| !passed.contains(onto)).map(of_output).sum()
    }

    /// Returns the greatest load that can hold a packet up if credits run out everywhere.
    fn without_credits(&self) -> u64 {
        let of_pair = |&(from, onto): &(usize, usize)| {
            let elsewhere = self.transfers(|input, output| input == from && output != onto);
            elsewhere + self.links[&onto] + self.behind(onto, &[])
        };
        let of_link = |(link, load): (&usize, &u64)| load + self.behind(*link, &[]);
        let at_links = self.links.iter().map(of_link);
        self.transfers.keys().map(of_pair).chain(at_links).max().unwrap_or(0)
    }
}

/// Returns whether a fabric has bounds, and its loads.
fn bounds(text: &str) -> (bool, u64, u64) {
    let scenario = Scenario::parse("drawn", text, Path::new("")).unwrap();
    let simulation = prepare(&scenario).unwrap().simulation;
    let loads = Loads::of(&scenario, &simulation);
    let one_queue = scenario.fabric.as_ref().unwrap().crossbar.unwrap().fifo;
    let at_a_switch = loads.at_a_switch(one_queue);
    let without_credits = loads.without_credits().max(at_a_switch);
    (delay_bounds(&scenario, &simulation).is_ok(), at_a_switch, without_credits)
}

/// Returns the text with buffers of 64 MB.
fn with_large_buffers(text: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((key @ ("input-buffer " | "output-buffer "), _)) => format!("{key}= \"64 MB\"\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The fabrics of a range of loads: all, with bounds, and with bounds if their buffers are large.
type Counts = [u64; 3];

/// Where loads leave a fifth of the time, nearly all fabrics have bounds, if their buffers are
/// large enough.
#[test]
fn fabrics_without_bounds_have_high_loads_or_small_buffers() {
    let draws = std::env::var("MILLSTREAM_PROMISES").map_or(100, |text| text.parse().unwrap());
    let mut at_a_switch = BTreeMap::<u64, Counts>::new();
    let mut without_credits = BTreeMap::<u64, Counts>::new();
    for seed in 0..draws {
        let text = Draw::new(seed).crossbars();
        let (bounded, switch_load, tree_load) = bounds(&text);
        let large = bounded || switch_load < WHOLE && bounds(&with_large_buffers(&text)).0;
        for (counts, load) in [(&mut at_a_switch, switch_load), (&mut without_credits, tree_load)] {
            let of = counts.entry((load * 5 / WHOLE).min(5)).or_default();
            *of = [of[0] + 1, of[1] + u64::from(bounded), of[2] + u64::from(large)];
        }
    }
    println!("of {draws}, [fabrics, with bounds, with large buffers] by fifths of the load at");
    println!("a switch: {at_a_switch:?}; without credits: {without_credits:?}");
    let below = |counts: &BTreeMap<u64, Counts>, end: u64, at: usize| -> u64 {
        counts.range(..end).map(|(_, of)| of[at]).sum()
    };
    let [all, _, large] = [0, 1, 2].map(|at| below(&at_a_switch, 4, at));
    assert!(large * 10 >= all * 9, "{large} of {all}");
    let [all, own, large] = [0, 1, 2].map(|at| below(&without_credits, 5, at));
    assert!(large * 10 >= all * 9 && own * 2 >= all, "{own}, {large} of {all}");
}
