//! Trees with full bandwidth up to the root: k-ary n-trees and data-centre fat trees.
//!
//! A packet goes up to the lowest switch that reaches its destination downwards, then down on the
//! only path. The destination's digits select each step up (d-mod-k). Hence all packets to one
//! destination come down one tree, and every link carries an equal share of uniform traffic.
//!
//! Source: Gomez, Gilabert, Gomez, Lopez and Duato, *Deterministic versus adaptive routing in
//! fat-trees* (IPDPS workshops 2007).

use super::builder::{Builder, Size, check_range};
use super::table::Table;
use super::{Node, Topology, TopologyError};

/// Builds a k-ary n-tree (a folded perfect shuffle) with d-mod-k routing.
///
/// It has `arity`^`levels` end-points, and `arity`^(`levels` − 1) switches at each level. A switch
/// has `arity` ports down, numbered first, and `arity` ports up, which are free at the top level.
/// Switches are numbered upwards from the level of the end-points. A path has two links for each
/// level that it climbs. An arity of 4 and 3 levels give 64 end-points and 48 switches of 8 ports.
///
/// Source: Petrini and Vanneschi, *k-ary n-trees: high performance networks for massively parallel
/// architectures* (IPPS 1997).
///
/// # Errors
/// Fails if `arity` is outside 2 to 128, `levels` is outside 1 to 14, or the network is too large.
pub fn folded_shuffle(arity: u32, levels: u32) -> Result<Topology, TopologyError> {
    check_range("arity", arity, 2..=128, "2 to 128")?;
    check_range("levels", levels, 1..=14, "1 to 14")?;
    let across = u64::from(arity).saturating_pow(levels - 1);
    let size = Size {
        end_points: across.saturating_mul(u64::from(arity)),
        switches: across.saturating_mul(u64::from(levels)),
        ports: 2 * u64::from(arity),
    };
    let (end_points, switches) = size.check(|| format!("arity {arity} and levels {levels}"))?;
    let across = switches / levels;
    // Weight of each digit of a number to base `arity`, the lowest digit first.
    let weights: Vec<u32> = (0..levels).map(|digit| arity.pow(digit)).collect();
    let digit = |number: u32, digit: u32| number / weights[digit as usize] % arity;

    let mut builder = Builder::uniform(end_points, switches, 2 * arity);
    for end_point in 0..end_points {
        builder.attach(end_point, end_point / arity, end_point % arity);
    }
    // Between level l and l + 1, switches that differ only in digit l share their upper neighbours.
    for level in 0..levels - 1 {
        for place in 0..across {
            let own = digit(place, level);
            for up in 0..arity {
                let above = place - own * weights[level as usize] + up * weights[level as usize];
                builder.cable(
                    Node::Switch(level * across + place),
                    arity + up,
                    Node::Switch((level + 1) * across + above),
                    own,
                );
            }
        }
    }

    let table = Table::by_digits(arity, levels);
    Ok(builder.finish(table, |node| match node {
        Node::EndPoint(number) => (2 * number, levels),
        Node::Switch(number) => {
            (2 * arity * (number % across) + arity - 1, levels - 1 - number / across)
        }
    }))
}

/// Builds the three-level data-centre fat tree of `ports`-port switches, with d-mod-k routing.
///
/// It has `ports` pods, each of `ports`/2 edge switches and `ports`/2 aggregation switches, under
/// (`ports`/2)² core switches. It has `ports`³/4 end-points. Edge switches are numbered first, then
/// aggregation switches, then core switches. Ports down are numbered before ports up; a core
/// switch's port number is the pod number. A path has 2 links under one edge switch, 4 within a
/// pod, and 6 otherwise.
///
/// Source: Al-Fares, Loukissas and Vahdat, *A scalable, commodity data center network architecture*
/// (SIGCOMM 2008), sections 2.2 and 3.
///
/// # Errors
/// Fails if `ports` is odd or outside 2 to 40.
pub fn fat_tree(ports: u32) -> Result<Topology, TopologyError> {
    let allowed = "an even number from 2 to 40";
    check_range("ports", ports, 2..=40, allowed)?;
    if ports % 2 == 1 {
        return Err(TopologyError::Parameter {
            parameter: "ports",
            value: u64::from(ports),
            allowed,
        });
    }
    let half = ports / 2;
    let edges = ports * half;
    let cores = half * half;
    let size = Size {
        end_points: u64::from(edges * half),
        switches: u64::from(2 * edges + cores),
        ports: u64::from(ports),
    };
    let (end_points, switches) = size.check(|| format!("ports {ports}"))?;

    let mut builder = Builder::uniform(end_points, switches, ports);
    for end_point in 0..end_points {
        builder.attach(end_point, end_point / half, end_point % half);
    }
    for pod in 0..ports {
        for member in 0..half {
            let edge = pod * half + member;
            for up in 0..half {
                let aggregation = edges + pod * half + up;
                builder.cable(Node::Switch(edge), half + up, Node::Switch(aggregation), member);
                let core = 2 * edges + member * half + up;
                let aggregation = edges + edge;
                builder.cable(Node::Switch(aggregation), half + up, Node::Switch(core), pod);
            }
        }
    }

    let table = Table::by_rule(switches, end_points, |switch, destination| {
        let (edge, pod) = (destination / half, destination / cores);
        let port = if switch < edges {
            if switch == edge { destination % half } else { half + destination % half }
        } else if switch < 2 * edges {
            let own_pod = (switch - edges) / half;
            if own_pod == pod { edge % half } else { half + edge % half }
        } else {
            pod
        };
        (port, 0)
    });
    Ok(builder.finish(table, |node| match node {
        Node::EndPoint(number) => (2 * number, 3),
        Node::Switch(number) if number < edges => (2 * half * number + half - 1, 2),
        Node::Switch(number) if number < 2 * edges => (2 * half * (number - edges) + half - 1, 1),
        // There are half as many core switches as edge switches, so they are twice as far apart.
        Node::Switch(number) => (2 * ports * (number - 2 * edges) + ports - 1, 0),
    }))
}
