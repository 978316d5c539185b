//! The division of a network into partitions of about equal work, by switches.

use crate::fabric::topology::{Node, Topology};

/// The partition of every node.
pub(super) struct Division {
    /// The number of partitions; none is empty.
    pub(super) count: u16,
    pub(super) switches: Vec<u16>,
    pub(super) end_points: Vec<u16>,
}

impl Division {
    pub(super) fn of(&self, node: Node) -> u16 {
        match node {
            Node::EndPoint(number) => self.end_points[number as usize],
            Node::Switch(number) => self.switches[number as usize],
        }
    }

    /// Returns the number of links between partitions.
    fn crossing(&self, topology: &Topology) -> usize {
        topology.links().iter().filter(|link| self.of(link.from) != self.of(link.to)).count()
    }
}

/// The maximum number of partitions.
const MAX_PARTITIONS: usize = 4_096;

/// Divides a network into at most `count` partitions, and at most [`MAX_PARTITIONS`].
///
/// Cuts its drawing into strips of about equal numbers of links, by columns or by rows, whichever
/// cuts fewer links. Strips by columns keep the subtrees of a tree together, strips by rows the
/// groups of a dragonfly. An end-point is with the switch that it sends to.
pub(super) fn divide(topology: &Topology, count: usize) -> Division {
    let count = count.min(MAX_PARTITIONS);
    let position = |switch: u32| topology.position(Node::Switch(switch));
    let by_columns = strips(topology, count, position);
    if by_columns.count == 1 {
        return by_columns;
    }
    let by_rows = strips(topology, count, |switch| {
        let (column, row) = position(switch);
        (row, column)
    });
    if by_rows.crossing(topology) < by_columns.crossing(topology) { by_rows } else { by_columns }
}

fn strips(topology: &Topology, count: usize, order: impl Fn(u32) -> (u32, u32)) -> Division {
    let mut links = vec![0; topology.switches() as usize];
    for link in topology.links() {
        // The sender of a link does its work; end-points are with a switch.
        if let (Node::Switch(switch), _) | (_, Node::Switch(switch)) = (link.from, link.to) {
            links[switch as usize] += 1;
        }
    }
    let total: usize = links.iter().sum();
    let mut switches: Vec<u32> = (0..topology.switches()).collect();
    switches.sort_by_key(|&switch| order(switch));
    let mut division = Division {
        count: 0,
        switches: vec![0; links.len()],
        end_points: vec![0; topology.end_points() as usize],
    };
    let (mut before, mut strip) = (0, None);
    for switch in switches {
        let next = before * count / total.max(1);
        if strip != Some(next) {
            strip = Some(next);
            division.count += 1;
        }
        division.switches[switch as usize] = division.count - 1;
        before += links[switch as usize];
    }
    for end_point in 0..topology.end_points() {
        let link = topology.links()[topology.injection_link(end_point)];
        division.end_points[end_point as usize] = division.of(link.to);
    }
    division
}
