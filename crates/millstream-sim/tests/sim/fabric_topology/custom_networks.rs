//! Custom networks, given by their cables.

use std::collections::BTreeMap;

use millstream_sim::fabric::topology::{Cable, Node, custom};
use proptest::prelude::*;

use super::{assert_valid, cable, distances, end_point, lengths, path};

#[test]
fn a_ring_of_four_switches_has_no_cycle_by_up_and_down() {
    let mut cables: Vec<Cable> = (0..4).map(|number| end_point(number, number, 0)).collect();
    cables.extend((0..4).map(|number| cable(number, 1, (number + 1) % 4, 2)));
    let topology = custom(4, &[3; 4], &cables).unwrap();
    assert_valid(&topology);
    // From 1 to 3 there are two routes of four links; the one through 2 goes down and up again.
    let through: Vec<Node> =
        path(&topology, 1, 3).iter().map(|&link| topology.links()[link].to).collect();
    let switch = Node::Switch;
    assert_eq!(through, [switch(1), switch(0), switch(3), Node::EndPoint(3)]);
}

#[test]
fn the_root_is_in_the_middle_and_drawn_on_top() {
    // A chain 0 - 1 - 2 - 3 - 4; the far ends have end-points.
    let mut cables = vec![end_point(0, 0, 0), end_point(1, 4, 0)];
    cables.extend((0..4).map(|number| cable(number, 1, number + 1, 2)));
    let topology = custom(2, &[3; 5], &cables).unwrap();
    assert_valid(&topology);
    assert_eq!(topology.position(Node::Switch(2)), (0, 0));
    assert_eq!(topology.position(Node::EndPoint(0)).1, 3);
    assert_eq!(path(&topology, 0, 1).len(), 6);
}

#[test]
fn parallel_cables_are_allowed_and_the_lower_port_is_used() {
    let cables = [end_point(0, 0, 3), end_point(1, 1, 3), cable(0, 2, 1, 0), cable(0, 1, 1, 2)];
    let topology = custom(2, &[4, 4], &cables).unwrap();
    assert_valid(&topology);
    assert_eq!((topology.hop(0, 1).port, topology.hop(1, 0).port), (1, 0));
}

#[test]
fn one_switch_is_a_network() {
    let topology = custom(2, &[2], &[end_point(0, 0, 1), end_point(1, 0, 0)]).unwrap();
    assert_valid(&topology);
    assert_eq!(lengths(&topology), BTreeMap::from([(2, 2)]));
}

#[test]
fn a_wheel_has_no_cycle_round_its_rim() {
    // All six switches of the rim are one step from the hub; the lower number is the upper end.
    let mut cables: Vec<Cable> = (0..7).map(|number| end_point(number, number, 0)).collect();
    cables.extend((1..7).map(|number| cable(0, u16::try_from(number).unwrap(), number, 1)));
    cables.extend((1..7).map(|number| cable(number, 2, 1 + number % 6, 3)));
    assert_valid(&custom(7, &[7; 7], &cables).unwrap());
}

#[test]
fn of_equal_routes_the_downward_one_is_chosen() {
    // Switch 0 is above 1 and 2; 1 is above 4, 5 and 6; 2 is above 3; 3 - 4 - 5 - 6 is a row. From
    // 4 to 6 the routes through 1 and 5 both have two links. Switch 3 may use 4 only if 4 uses 5.
    let cables = [
        end_point(0, 3, 2),
        end_point(1, 6, 2),
        cable(0, 0, 1, 3),
        cable(0, 1, 2, 1),
        cable(1, 0, 4, 0),
        cable(1, 1, 5, 0),
        cable(1, 2, 6, 0),
        cable(2, 0, 3, 0),
        cable(3, 1, 4, 2),
        cable(4, 1, 5, 2),
        cable(5, 1, 6, 1),
    ];
    let topology = custom(2, &[4; 7], &cables).unwrap();
    assert_valid(&topology);
    assert_eq!(path(&topology, 0, 1).len(), 5);
}

/// Generates a random connected network.
///
/// It has a random tree of switches, additional cables, and end-points at random switches.
fn connected() -> impl Strategy<Value = (u32, Vec<u16>, Vec<Cable>)> {
    (1_usize..24).prop_flat_map(|switches| {
        let parents = prop::collection::vec(any::<prop::sample::Index>(), switches - 1);
        let one = any::<prop::sample::Index>();
        let more = prop::collection::vec((one, any::<prop::sample::Index>()), 0..30);
        let homes = prop::collection::vec(0..switches, 1..20);
        let names = Just((0..switches).collect::<Vec<_>>()).prop_shuffle();
        (parents, more, homes, names).prop_map(move |(parents, more, homes, names)| {
            let mut joined: Vec<(usize, usize)> = parents
                .iter()
                .enumerate()
                .map(|(child, parent)| (names[child + 1], names[parent.index(child + 1)]))
                .collect();
            joined.extend(
                more.iter()
                    .map(|(one, other)| (one.index(switches), other.index(switches)))
                    .filter(|(one, other)| one != other),
            );
            let mut ports = vec![0_u16; switches];
            let mut plug = |switch: usize| {
                ports[switch] += 1;
                (Node::Switch(u32::try_from(switch).unwrap()), ports[switch] - 1)
            };
            let mut cables = Vec::new();
            for (one, other) in joined {
                let ((one, one_port), (other, other_port)) = (plug(one), plug(other));
                cables.push((one, one_port, other, other_port));
            }
            let count = u32::try_from(homes.len()).unwrap();
            for (number, home) in (0..count).zip(homes) {
                let (switch, port) = plug(home);
                cables.push((switch, port, Node::EndPoint(number), 0));
            }
            // A switch needs a port, with or without a cable.
            (count, ports.into_iter().map(|ports| ports.max(1)).collect(), cables)
        })
    })
}

proptest! {
    #[test]
    fn any_connected_network_has_routes_without_deadlock(
        (end_points, ports, cables) in connected()
    ) {
        let topology = custom(end_points, &ports, &cables).unwrap();
        prop_assert_eq!(topology.layers(), 1);
        assert_valid(&topology);
        // The root is the lowest switch of minimum eccentricity.
        let depth = |root: u32| {
            let switches = |(node, distance)| matches!(node, Node::Switch(_)).then_some(distance);
            distances(&topology, Node::Switch(root)).into_iter().filter_map(switches).max()
        };
        let root = (0..topology.switches()).min_by_key(|&root| depth(root)).unwrap();
        prop_assert_eq!(topology.position(Node::Switch(root)), (0, 0));
        // A switch's level is its row. A route has at least the shortest length, and at most the
        // length of the route through the root.
        let level = |node| match node {
            Node::Switch(_) => topology.position(node),
            Node::EndPoint(_) => unreachable!(),
        };
        for source in 0..end_points {
            let distances = distances(&topology, Node::EndPoint(source));
            for destination in (0..end_points).filter(|&other| other != source) {
                let path = path(&topology, source, destination);
                let first = topology.links()[path[0]].to;
                let last = topology.links()[path[path.len() - 1]].from;
                let by_root = (level(first).1 + level(last).1) as usize + 2;
                prop_assert!(path.len() <= by_root);
                prop_assert!(path.len() >= distances[&Node::EndPoint(destination)]);
                // After a step to a deeper level, a path never returns to a higher one.
                let inner = path[..path.len() - 1].iter();
                let levels: Vec<u32> =
                    inner.map(|&link| level(topology.links()[link].to).1).collect();
                let turn = levels.windows(2).position(|step| step[0] < step[1]);
                if let Some(turn) = turn {
                    prop_assert!(levels[turn..].is_sorted());
                }
            }
        }
    }
}
