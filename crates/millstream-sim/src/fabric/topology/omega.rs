//! The omega network: a perfect-shuffle network that packets cross in one direction.

use super::builder::{Builder, Size, check_range};
use super::table::Table;
use super::{Node, Topology, TopologyError};

/// Builds a one-way perfect-shuffle (omega) network, with routing by the destination's digits.
///
/// It has `radix`^`stages` end-points, and `radix`^(`stages` − 1) switches with `radix` ports at
/// each stage. The input and the output of a port lead to different nodes. Switches are numbered
/// stage by stage from the sources. The links before every stage are shuffled: position d₁d₂…dₙ
/// leads to position d₂…dₙd₁. Every path has `stages` + 1 links. A radix of 8 and 2 stages give 64
/// end-points and 16 switches of 8 ports.
///
/// Source: Lawrie, *Access and alignment of data in an array processor* (IEEE Transactions on
/// Computers, 1975).
///
/// # Errors
/// Fails if `radix` is outside 2 to 256, `stages` is outside 1 to 14, or the network is too large.
pub fn shuffle(radix: u32, stages: u32) -> Result<Topology, TopologyError> {
    check_range("radix", radix, 2..=256, "2 to 256")?;
    check_range("stages", stages, 1..=14, "1 to 14")?;
    let across = u64::from(radix).saturating_pow(stages - 1);
    let size = Size {
        end_points: across.saturating_mul(u64::from(radix)),
        switches: across.saturating_mul(u64::from(stages)),
        ports: u64::from(radix),
    };
    let (end_points, switches) = size.check(|| format!("radix {radix} and stages {stages}"))?;
    let across = switches / stages;
    let shuffled = |place: u32| place % across * radix + place / across;

    let mut builder = Builder::uniform(end_points, switches, radix);
    for end_point in 0..end_points {
        let place = shuffled(end_point);
        let first = Node::Switch(place / radix);
        builder.link(Node::EndPoint(end_point), 0, first, place % radix);
    }
    for stage in 0..stages - 1 {
        for place in 0..end_points {
            let from = Node::Switch(stage * across + place / radix);
            let next = shuffled(place);
            let to = Node::Switch((stage + 1) * across + next / radix);
            builder.link(from, place % radix, to, next % radix);
        }
    }
    for end_point in 0..end_points {
        let last = Node::Switch((stages - 1) * across + end_point / radix);
        builder.link(last, end_point % radix, Node::EndPoint(end_point), 0);
    }

    // Each shuffle moves the highest digit to the end, where the switch replaces it.
    let weights: Vec<u32> = (0..stages).rev().map(|digit| radix.pow(digit)).collect();
    let table = Table::by_rule(switches, end_points, |switch, destination| {
        (destination / weights[(switch / across) as usize] % radix, 0)
    });
    Ok(builder.finish(table, |node| match node {
        Node::EndPoint(number) => (0, 2 * number),
        Node::Switch(number) => (1 + number / across, 2 * radix * (number % across) + radix - 1),
    }))
}
