//! Arbitrary networks, given by their cables, with up\*/down\* routing.
//!
//! Every cable between switches has an upper end: the switch nearer to the root or, at equal
//! distance, the switch with the lower number. A packet goes up any number of links, then down any
//! number, and never up again, so no cycle of waiting packets closes.
//!
//! Source: Schroeder and others, *Autonet: a high-speed, self-configuring local area network using
//! point-to-point links* (IEEE Journal on Selected Areas in Communications, 1991).

use std::collections::VecDeque;

use super::builder::{Builder, MAX_END_POINTS, MAX_PORTS, MAX_SWITCHES, Size, check_range};
use super::table::Table;
use super::{Node, Topology, TopologyError};

/// A two-way cable: node and port of one end, node and port of the other end.
pub type Cable = (Node, u16, Node, u16);

/// Builds a network of `end_points`, `switches` and two-way `cables`.
///
/// `switches` holds the number of ports of each switch. The root is the switch with the smallest
/// distance to its farthest switch, the lowest such number.
///
/// Routes depend on the destination only, so a switch forwards packets from above and from its own
/// end-points alike. Switches choose in order of distance from the destination. Each takes the
/// shortest legal route given the choices of the switches nearer to the destination. Among equally
/// short routes, one that starts down precedes one that starts up; then the lower port wins. No
/// route is longer than the route through the root.
///
/// # Errors
/// - Too many or no nodes or ports.
/// - A cable to an unknown node, or to a port that does not exist or is taken.
/// - A cable that joins two end-points, or a switch to itself.
/// - An end-point without a cable, or a switch that no cables reach.
pub fn custom(
    end_points: u32,
    switches: &[u16],
    cables: &[Cable],
) -> Result<Topology, TopologyError> {
    let count = u32::try_from(switches.len()).unwrap_or(u32::MAX);
    check_range("end_points", end_points, 1..=MAX_END_POINTS, "1 to 16384")?;
    check_range("the number of switches", count, 1..=MAX_SWITCHES, "1 to 65536")?;
    for &ports in switches {
        let max = u32::from(MAX_PORTS);
        check_range("a number of ports in switches", u32::from(ports), 1..=max, "1 to 256")?;
    }
    let size = Size { end_points: u64::from(end_points), switches: u64::from(count), ports: 0 };
    size.check(|| format!("end_points {end_points} and {count} switches"))?;

    let mut builder = Builder::new(end_points, switches.to_vec());
    // Switch and port of each end-point's cable.
    let mut homes = vec![None; end_points as usize];
    let mut neighbours = vec![Vec::new(); switches.len()];
    for (cable, &(one, one_port, other, other_port)) in cables.iter().enumerate() {
        for (node, port) in [(one, one_port), (other, other_port)] {
            let ports = match node {
                Node::EndPoint(number) => (number < end_points).then_some(1),
                Node::Switch(number) => switches.get(number as usize).copied(),
            };
            let Some(ports) = ports else {
                return Err(TopologyError::UnknownNode {
                    cable,
                    node,
                    end_points,
                    switches: count,
                });
            };
            if port >= ports {
                return Err(TopologyError::UnknownPort { cable, node, port, ports });
            }
            if !builder.is_free(node, port) {
                return Err(TopologyError::PortTaken { cable, node, port });
            }
        }
        let (one_port, other_port) = (u32::from(one_port), u32::from(other_port));
        match (one, other) {
            (Node::EndPoint(end_point), Node::Switch(switch)) => {
                homes[end_point as usize] = Some((switch, other_port));
            }
            (Node::Switch(switch), Node::EndPoint(end_point)) => {
                homes[end_point as usize] = Some((switch, one_port));
            }
            (Node::Switch(from), Node::Switch(to)) if from != to => {
                neighbours[from as usize].push(Neighbour { switch: to, port: other_port });
                neighbours[to as usize].push(Neighbour { switch: from, port: one_port });
            }
            _ => return Err(TopologyError::InvalidEnds { cable, from: one, to: other }),
        }
        builder.cable(one, one_port, other, other_port);
    }
    let homes = (0..end_points)
        .zip(homes)
        .map(|(end_point, home)| home.ok_or(TopologyError::NoCable { end_point }))
        .collect::<Result<Vec<_>, _>>()?;
    let levels = levels_from_best_root(&neighbours)?;

    let mut table = Table::new(count, end_points);
    let mut by_home: Vec<u32> = (0..end_points).collect();
    by_home.sort_by_key(|&end_point| homes[end_point as usize]);
    let home = |end_point: u32| homes[end_point as usize];
    for group in by_home.chunk_by(|&one, &other| home(one).0 == home(other).0) {
        let routes = routes_to(home(group[0]).0, &neighbours, &levels);
        for &end_point in group {
            for (switch, route) in (0..count).zip(&routes) {
                table.set(switch, end_point, route.port, 0);
            }
            let (switch, port) = home(end_point);
            table.set(switch, end_point, port, 0);
        }
    }
    let positions = Positions::new(&levels, &homes);
    Ok(builder.finish(table, |node| positions.position(node)))
}

/// The far end of a cable between switches.
#[derive(Clone)]
struct Neighbour {
    switch: u32,
    /// Port of the far end.
    port: u32,
}

/// Returns the distance of each switch from `root`; `None` if a switch is not connected to it.
fn levels_from(root: u32, neighbours: &[Vec<Neighbour>]) -> Vec<Option<u32>> {
    let mut levels = vec![None; neighbours.len()];
    levels[root as usize] = Some(0);
    let mut open = VecDeque::from([(root, 0)]);
    while let Some((switch, level)) = open.pop_front() {
        for neighbour in &neighbours[switch as usize] {
            let found = &mut levels[neighbour.switch as usize];
            if found.is_none() {
                *found = Some(level + 1);
                open.push_back((neighbour.switch, level + 1));
            }
        }
    }
    levels
}

/// Returns the distance of each switch from the root of least depth, the lowest such switch.
fn levels_from_best_root(neighbours: &[Vec<Neighbour>]) -> Result<Vec<u32>, TopologyError> {
    let switches = 0..u32::try_from(neighbours.len()).expect("65,536 switches at most");
    // Lower bound on each switch's depth as a root, from the searches so far; searched switches
    // are removed. The lowest bound is searched next until no bound is below the best depth.
    let mut bounds: Vec<(u32, u32)> = switches.clone().map(|switch| (0, switch)).collect();
    let (mut best, mut best_levels) = ((u32::MAX, 0), Vec::new());
    while let Some(&candidate) = bounds.iter().min()
        && candidate < best
    {
        let root = candidate.1;
        let levels = switches
            .clone()
            .zip(levels_from(root, neighbours))
            .map(|(switch, level)| level.ok_or(TopologyError::NotConnected { switch }))
            .collect::<Result<Vec<_>, _>>()?;
        let depth = levels.iter().copied().max().unwrap_or(0);
        // A switch at `level` is that far from this root. Its distance to this root's farthest
        // switch is at least `depth - level`.
        bounds.retain_mut(|(bound, switch)| {
            let level = levels[*switch as usize];
            *bound = (*bound).max(level).max(depth - level);
            *switch != root
        });
        if (depth, root) < best {
            (best, best_levels) = ((depth, root), levels);
        }
    }
    Ok(best_levels)
}

/// A switch's route to a destination; the smallest is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    /// Number of links to the destination's switch.
    links: u32,
    /// Whether the first link goes up. After a link that goes down, all links go down.
    up: bool,
    /// Output port of the switch.
    port: u32,
}

/// Returns each switch's route to the switch `home`.
///
/// Searches backwards from `home`, nearest switches first. Every switch finds a route. The root's
/// shortest path only goes down, also from the switches on it; all other switches can go up to it.
fn routes_to(home: u32, neighbours: &[Vec<Neighbour>], levels: &[u32]) -> Vec<Route> {
    const NONE: Route = Route { links: u32::MAX, up: true, port: u32::MAX };
    let height = |switch: u32| (levels[switch as usize], switch);
    let mut routes = vec![NONE; neighbours.len()];
    routes[home as usize] = Route { links: 0, up: false, port: 0 };
    let mut open = VecDeque::from([home]);
    while let Some(next) = open.pop_front() {
        let onward = routes[next as usize];
        for neighbour in &neighbours[next as usize] {
            let up = height(next) < height(neighbour.switch);
            if onward.up && !up {
                continue;
            }
            let route = Route { links: onward.links + 1, up, port: neighbour.port };
            let found = &mut routes[neighbour.switch as usize];
            if *found == NONE {
                open.push_back(neighbour.switch);
            }
            *found = route.min(*found);
        }
    }
    routes
}

/// Drawing positions: switches by level, root at the top; end-points at the bottom, by switch.
struct Positions {
    switches: Vec<(u32, u32)>,
    end_points: Vec<(u32, u32)>,
}

impl Positions {
    fn new(levels: &[u32], homes: &[(u32, u32)]) -> Positions {
        let depth = levels.iter().copied().max().unwrap_or(0);
        let mut used = vec![0; depth as usize + 1];
        let switches: Vec<(u32, u32)> = levels
            .iter()
            .map(|&level| {
                let column = &mut used[level as usize];
                *column += 1;
                (*column - 1, level)
            })
            .collect();
        let mut order: Vec<usize> = (0..homes.len()).collect();
        order.sort_by_key(|&end_point| {
            let (switch, port) = homes[end_point];
            let (column, row) = switches[switch as usize];
            (column, row, port)
        });
        let mut end_points = vec![(0, depth + 1); homes.len()];
        for (column, end_point) in (0..).zip(order) {
            end_points[end_point].0 = column;
        }
        Positions { switches, end_points }
    }

    fn position(&self, node: Node) -> (u32, u32) {
        match node {
            Node::EndPoint(number) => self.end_points[number as usize],
            Node::Switch(number) => self.switches[number as usize],
        }
    }
}
