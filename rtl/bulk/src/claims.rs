//! Claims of rtl/README.md that are counted rather than proved.

use millstream_hw::{Load, Mode, Settings};

use crate::model::{Configuration, Core, config_bits, load_bits};
use crate::models::Models;

/// Counts what the cores do.
///
/// # Errors
/// The library lacks a configuration.
///
/// # Panics
/// A core does something else than rtl/README.md says.
pub fn check(models: &Models) -> Result<(), String> {
    // The published network sorts some lists, and the sorting one all.
    for (name, sorted) in [("ba4", 16), ("sorted4", 24), ("ba8", 4_096), ("sorted8", 40_320)] {
        assert_eq!(sorted_lists(models.core(name)?), sorted, "{name}");
    }
    check_runs(models.core("ba4")?);
    Ok(())
}

/// Calls `each` with every permutation of `0..count`.
fn permutations(count: usize, each: &mut impl FnMut(&[usize])) {
    fn place(order: &mut [usize], at: usize, each: &mut impl FnMut(&[usize])) {
        if at == order.len() {
            return each(order);
        }
        for other in at..order.len() {
            order.swap(at, other);
            place(order, at + 1, each);
            order.swap(at, other);
        }
    }
    place(&mut (0..count).collect::<Vec<_>>(), 0, each);
}

/// Returns the number of priority orders for which the list is sorted. Its first and last entry
/// always are.
fn sorted_lists(configuration: Configuration) -> usize {
    let streams = configuration.streams;
    let mut core = Core::new(configuration);
    let settings = Settings { mode: Mode::Static, lowest_denominator: false, rtas99: false };
    core.inputs.config = config_bits(settings);
    // Every stream always has a packet.
    core.inputs.packet_valid = (1 << streams) - 1;
    let mut sorted = 0;
    permutations(streams, &mut |priorities| {
        core.inputs.decide = 0;
        for (i, priority) in priorities.iter().enumerate() {
            let load = Load {
                deadline: 0,
                period: 1,
                priority: 0,
                weight: 1,
                x: 0,
                y: 0,
                drop: 0,
                first: 0,
            };
            core.inputs.load = load_bits(&load, false, *priority as u16, false);
            core.inputs.load_valid = 1;
            core.inputs.load_id = i as u8;
            core.settle();
            core.clock();
        }
        core.inputs.load_valid = 0;
        core.settle();
        core.clock();
        core.inputs.decide = 1;
        for _ in 0..configuration.cycles() {
            core.settle();
            core.clock();
        }
        assert_eq!(core.settle().decided, 1);
        let ranks: Vec<_> = (0..streams).map(|i| priorities[core.list(i).1]).collect();
        assert_eq!((ranks[0], ranks[streams - 1]), (0, streams - 1), "{priorities:?}");
        sorted += usize::from(ranks.is_sorted());
        core.inputs.decide = 0;
        core.settle();
        core.clock();
    });
    sorted
}

/// Returns the winners of the first packet-times among backlogged streams x/y, T, first deadline;
/// from 1.
fn winners(
    configuration: Configuration,
    streams: &[(u8, u8, u16, u16)],
    slots: usize,
) -> Vec<usize> {
    let mut core = Core::new(configuration);
    for (i, &(x, y, period, deadline)) in streams.iter().enumerate() {
        let load = Load { deadline: 0, period, priority: 0, weight: 1, x, y, drop: 0, first: 1 };
        core.inputs.load = load_bits(&load, false, deadline, true);
        core.inputs.load_valid = 1;
        core.inputs.load_id = i as u8;
        core.settle();
        core.clock();
    }
    core.inputs.load_valid = 0;
    core.inputs.packet_valid = (1 << streams.len()) - 1;
    core.settle();
    core.clock();
    core.inputs.decide = 1;
    let mut winners = Vec::new();
    while winners.len() < slots {
        core.settle();
        core.clock();
        let out = core.settle();
        if out.decided == 1 {
            assert_eq!(out.winner_valid, 1);
            winners.push(usize::from(out.winner) + 1);
        }
    }
    winners
}

fn counts(winners: &[usize]) -> [usize; 4] {
    [1, 2, 3, 4].map(|stream| winners.iter().filter(|winner| **winner == stream).count())
}

/// Checks the runs of the ShareStreams papers.
fn check_runs(configuration: Configuration) {
    let winners = |streams: &[_], slots| winners(configuration, streams, slots);
    let classic = winners(&[(1, 2, 1, 1), (3, 4, 1, 1), (6, 8, 1, 1)], 16);
    assert_eq!(classic, [1, 2, 1, 3].repeat(4));

    let shares = winners(&[(7, 8, 1, 1), (14, 16, 1, 1), (6, 8, 1, 1), (4, 8, 1, 1)], 64_000);
    assert_eq!(shares[..16], [4, 4, 3, 4, 1, 3, 4, 2, 4, 4, 3, 4, 1, 2, 3, 4]);
    assert_eq!(counts(&shares), [8_000, 8_000, 16_000, 32_000]);

    let edf = winners(&[(0, 0, 4, 4), (0, 0, 4, 3), (0, 0, 4, 2), (0, 0, 4, 1)], 63_996);
    assert_eq!(edf[..4], [4, 3, 2, 1]);
    assert_eq!(counts(&edf), [15_999; 4]);

    let mix = winners(&[(2, 3, 1, 1), (5, 6, 1, 1), (0, 255, 4, 2), (0, 255, 4, 1)], 57_339);
    assert_eq!(mix[..12], [4, 3, 1, 1, 4, 3, 2, 1, 4, 3, 1, 2]);
    assert_eq!(counts(&mix), [19_113, 9_556, 14_335, 14_335]);

    let overload = winners(&[(0, 2, 1, 1), (0, 3, 1, 1), (1, 2, 1, 1)], 24);
    let known = [2, 1, 2, 1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 1];
    assert_eq!(overload, known);
}

#[cfg(test)]
mod tests {
    /// The number of `msr_order_key`; above 0 it is at least 2^8, which msr_order_key assumes.
    #[test]
    fn fractions_are_ordered_by_a_key() {
        let fractions: Vec<(u64, u64)> =
            (1..256).flat_map(|y| (1..=y).map(move |x| (x, y))).collect();
        assert_eq!(fractions.len(), 32_640);
        let mut keyed: Vec<_> =
            fractions.iter().map(|&(x, y)| (x, y, (x * (1_u64 << 31).div_ceil(y)) >> 15)).collect();
        let order = |a: &(u64, u64, u64), b: &(u64, u64, u64)| (a.0 * b.1).cmp(&(b.0 * a.1));
        keyed.sort_by(order);
        for pair in keyed.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            assert_eq!(order(&a, &b), a.2.cmp(&b.2), "{}/{} and {}/{}", a.0, a.1, b.0, b.1);
        }
        for (x, y, key) in keyed {
            assert!((1 << 8..1 << 17).contains(&key), "{x}/{y}");
        }
    }

    /// The ROM of `msr_logarithms`, from its source.
    fn logarithms() -> Vec<i64> {
        let source = include_str!("../../src/msr_logarithms.sv");
        let numbers = source.split("19'd").skip(1);
        numbers
            .map(|text| text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap())
            .collect()
    }

    /// Returns the additive logarithm of n: the sum of those of its prime factors, rounded.
    fn scaled(n: usize, scale: f64) -> i64 {
        match (2..=n).find(|factor| n.is_multiple_of(*factor)) {
            None => 0,
            Some(factor) => {
                ((factor as f64).log2() * scale).round() as i64 + scaled(n / factor, scale)
            }
        }
    }

    #[test]
    fn fractions_are_ordered_by_differences_of_logarithms() {
        let log = logarithms();
        assert_eq!(log.len(), 256);
        for (n, &logarithm) in log.iter().enumerate().skip(1) {
            assert_eq!(logarithm, scaled(n, 65_536.0), "{n}");
        }
        let mut fractions: Vec<(usize, usize)> =
            (1..256).flat_map(|y| (1..=y).map(move |x| (x, y))).collect();
        fractions.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
        let number = |(x, y): (usize, usize)| (1 << 19) - 1 - (log[y] - log[x]);
        for pair in fractions.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let order = (a.0 * b.1).cmp(&(b.0 * a.1));
            assert_eq!(order, number(a).cmp(&number(b)), "{a:?} {b:?}");
        }
        let coarse = |(x, y): (usize, usize)| scaled(x, 32_768.0) - scaled(y, 32_768.0);
        assert!(fractions.windows(2).any(|pair| {
            let (a, b) = (pair[0], pair[1]);
            (a.0 * b.1).cmp(&(b.0 * a.1)) != coarse(a).cmp(&coarse(b))
        }));
        // 0 is the number of windows with x' = 0.
        assert!(number(fractions[0]) > 0 && number((1, 1)) == (1 << 19) - 1);
    }
}
