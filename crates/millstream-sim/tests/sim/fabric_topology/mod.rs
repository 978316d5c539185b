//! Networks and routes: the guarantees of every generator, checked over all pairs of end-points.

mod custom_networks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_sim::fabric::topology::{
    Cable, Node, Topology, TopologyError, custom, dragonfly, fat_tree, folded_shuffle, mesh,
    shuffle, torus,
};

fn pairs(topology: &Topology) -> impl Iterator<Item = (u32, u32)> {
    let count = topology.end_points();
    (0..count).flat_map(move |source| (0..count).map(move |destination| (source, destination)))
}

/// Returns the path, cut off at a length that only a loop can exceed.
fn path(topology: &Topology, source: u32, destination: u32) -> Vec<usize> {
    let most = topology.switches() as usize + 2;
    topology.path(source, destination).take(most).collect()
}

fn nodes(topology: &Topology) -> impl Iterator<Item = Node> {
    (0..topology.end_points()).map(Node::EndPoint).chain((0..topology.switches()).map(Node::Switch))
}

/// Asserts that links match the accessors, and that no port has two links in or two out.
fn assert_well_wired(topology: &Topology) {
    let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    for (index, link) in topology.links().iter().enumerate() {
        assert!(outputs.insert((link.from, link.from_port)), "{link:?}");
        assert!(inputs.insert((link.to, link.to_port)), "{link:?}");
        for (node, port) in [(link.from, link.from_port), (link.to, link.to_port)] {
            match node {
                Node::EndPoint(number) => assert!(number < topology.end_points() && port == 0),
                Node::Switch(number) => assert!(port < topology.ports(number), "{link:?}"),
            }
        }
        let found = match link.from {
            Node::EndPoint(number) => Some(topology.injection_link(number)),
            Node::Switch(number) => topology.output_link(number, link.from_port),
        };
        assert_eq!(found, Some(index));
    }
    for end_point in (0..topology.end_points()).map(Node::EndPoint) {
        assert!(inputs.contains(&(end_point, 0)) && outputs.contains(&(end_point, 0)));
    }
    let used: usize = (0..topology.switches())
        .map(|switch| {
            (0..topology.ports(switch))
                .filter(|&port| topology.output_link(switch, port).is_some())
                .count()
        })
        .sum();
    assert_eq!(used + topology.end_points() as usize, topology.links().len());
}

/// Asserts that each path is a chain of links from source to destination by the switches' hops.
fn assert_all_arrive(topology: &Topology) {
    let mut layers = 1;
    for (source, destination) in pairs(topology) {
        let path = path(topology, source, destination);
        let links = topology.links();
        assert_eq!(links[path[0]].from, Node::EndPoint(source));
        assert_eq!(links[path[path.len() - 1]].to, Node::EndPoint(destination));
        for step in path.windows(2) {
            assert_eq!(links[step[0]].to, links[step[1]].from);
            let Node::Switch(switch) = links[step[1]].from else { panic!("through an end-point") };
            let hop = topology.hop(switch, destination);
            assert_eq!(hop.port, links[step[1]].from_port);
            let last = links[step[1]].to == Node::EndPoint(destination);
            assert!(!last || hop.layer == 0);
            layers = layers.max(hop.layer + 1);
        }
    }
    assert_eq!(layers, topology.layers());
}

fn assert_distinct_positions(topology: &Topology) {
    let mut places = BTreeMap::new();
    for node in nodes(topology) {
        if let Some(other) = places.insert(topology.position(node), node) {
            panic!("{node} and {other} share {:?}", topology.position(node));
        }
    }
}

fn assert_valid(topology: &Topology) {
    assert_well_wired(topology);
    assert_all_arrive(topology);
    assert_distinct_positions(topology);
    assert_eq!(topology.dependency_cycle(), None);
}

/// Returns the number of pairs of distinct end-points, by path length in links.
fn lengths(topology: &Topology) -> BTreeMap<usize, u32> {
    let mut lengths = BTreeMap::new();
    for (source, destination) in
        pairs(topology).filter(|(source, destination)| source != destination)
    {
        *lengths.entry(path(topology, source, destination).len()).or_default() += 1;
    }
    lengths
}

/// Returns the number of packets per link if every end-point sends one to every other.
fn loads(topology: &Topology) -> Vec<u32> {
    let mut loads = vec![0; topology.links().len()];
    for (source, destination) in
        pairs(topology).filter(|(source, destination)| source != destination)
    {
        for link in path(topology, source, destination) {
            loads[link] += 1;
        }
    }
    loads
}

/// Returns the distance of each node from `source` in links, independent of the routes.
fn distances(topology: &Topology, source: Node) -> BTreeMap<Node, usize> {
    let mut next = BTreeMap::<Node, Vec<Node>>::new();
    for link in topology.links() {
        next.entry(link.from).or_default().push(link.to);
    }
    let mut found = BTreeMap::new();
    let mut open = VecDeque::from([(source, 0)]);
    while let Some((node, distance)) = open.pop_front() {
        if found.contains_key(&node) {
            continue;
        }
        found.insert(node, distance);
        // No route leads through an end-point.
        if distance == 0 || matches!(node, Node::Switch(_)) {
            open.extend(next[&node].iter().map(|&to| (to, distance + 1)));
        }
    }
    found
}

fn assert_all_shortest(topology: &Topology) {
    for source in 0..topology.end_points() {
        let distances = distances(topology, Node::EndPoint(source));
        for destination in (0..topology.end_points()).filter(|&other| other != source) {
            let links = path(topology, source, destination).len();
            assert_eq!(links, distances[&Node::EndPoint(destination)], "{source} to {destination}");
        }
    }
}

#[test]
fn the_default_folded_shuffle_has_the_numbers_of_theory() {
    let topology = folded_shuffle(4, 3).unwrap();
    assert_valid(&topology);
    assert_eq!((topology.end_points(), topology.switches(), topology.layers()), (64, 48, 1));
    assert!((0..48).all(|switch| topology.ports(switch) == 8));
    assert_eq!(lengths(&topology), BTreeMap::from([(2, 64 * 3), (4, 64 * 12), (6, 64 * 48)]));
    let total: usize = pairs(&topology)
        .filter(|(source, destination)| source != destination)
        .map(|(source, destination)| path(&topology, source, destination).len())
        .sum();
    // The mean over the other end-points is exactly 342/63.
    assert_eq!(total, 64 * 342);
}

#[test]
fn folded_shuffles_of_all_shapes_are_sound_and_shortest() {
    for (arity, levels) in [(2, 1), (5, 1), (2, 2), (2, 5), (3, 3), (6, 2), (8, 2)] {
        let topology = folded_shuffle(arity, levels).unwrap();
        assert_valid(&topology);
        assert_all_shortest(&topology);
        let across = arity.pow(levels - 1);
        assert_eq!(topology.end_points(), across * arity);
        assert_eq!(topology.switches(), across * levels);
    }
}

#[test]
fn a_folded_shuffle_spreads_uniform_traffic_evenly() {
    for (arity, levels) in [(4_u32, 3_u32), (2, 4), (3, 2)] {
        let topology = folded_shuffle(arity, levels).unwrap();
        let across = topology.switches() / levels;
        // The packets on a link above l levels enter or leave a subtree of k^l end-points.
        let level = |node| match node {
            Node::EndPoint(_) => 0,
            Node::Switch(number) => 1 + number / across,
        };
        for (link, load) in topology.links().iter().zip(loads(&topology)) {
            let below = level(link.from).min(level(link.to));
            assert_eq!(load, topology.end_points() - arity.pow(below), "{link:?}");
        }
    }
}

#[test]
fn one_destinations_packets_come_down_one_tree() {
    let topology = folded_shuffle(4, 3).unwrap();
    for destination in 0..64 {
        let roots: BTreeSet<Node> = (0..64)
            .flat_map(|source| path(&topology, source, destination))
            .map(|link| topology.links()[link].to)
            .filter(|node| matches!(node, Node::Switch(number) if *number >= 32))
            .collect();
        assert_eq!(roots.len(), 1, "to {destination}");
    }
}

#[test]
fn the_one_way_shuffle_has_paths_of_one_length() {
    let topology = shuffle(8, 2).unwrap();
    assert_valid(&topology);
    assert_eq!((topology.end_points(), topology.switches()), (64, 16));
    assert!((0..16).all(|switch| topology.ports(switch) == 8));
    assert_eq!(lengths(&topology), BTreeMap::from([(3, 64 * 63)]));
    // Every link between the stages is on the routes of eight sources to eight destinations.
    for (link, load) in topology.links().iter().zip(loads(&topology)) {
        if let (Node::Switch(_), Node::Switch(_)) = (link.from, link.to) {
            assert!((63..=64).contains(&load), "{link:?} carries {load}");
        } else {
            assert_eq!(load, 63);
        }
    }
    for (radix, stages) in [(2, 1), (2, 4), (3, 3), (5, 2)] {
        let topology = shuffle(radix, stages).unwrap();
        assert_valid(&topology);
        assert_eq!(lengths(&topology).into_keys().collect::<Vec<_>>(), [stages as usize + 1]);
    }
}

#[test]
fn a_fat_tree_is_a_shortest_path_network_with_even_load() {
    for ports in [2, 4, 6, 8] {
        let topology = fat_tree(ports).unwrap();
        assert_valid(&topology);
        assert_all_shortest(&topology);
        assert_eq!(topology.end_points(), ports.pow(3) / 4);
        assert_eq!(topology.switches(), 5 * ports * ports / 4);
        let half = ports / 2;
        let edges = ports * half;
        for (link, load) in topology.links().iter().zip(loads(&topology)) {
            // Below a link is an end-point, or all end-points of an edge switch or of a pod.
            let below = match link.from.max(link.to) {
                _ if matches!(link.from.min(link.to), Node::EndPoint(_)) => 1,
                Node::Switch(upper) if upper < 2 * edges => half,
                _ => half * half,
            };
            assert_eq!(load, topology.end_points() - below, "{link:?}");
        }
    }
    let topology = fat_tree(4).unwrap();
    assert_eq!(lengths(&topology), BTreeMap::from([(2, 16), (4, 32), (6, 16 * 12)]));
}

#[test]
fn meshes_go_dimension_by_dimension() {
    for (dims, concentration) in
        [(&[2][..], 1), (&[7], 2), (&[4, 3], 1), (&[2, 2], 3), (&[3, 2, 4], 1), (&[2, 2, 2, 3], 2)]
    {
        let topology = mesh(dims, concentration).unwrap();
        assert_valid(&topology);
        assert_all_shortest(&topology);
        assert_eq!(topology.layers(), 1);
        assert_eq!(topology.end_points(), dims.iter().product::<u32>() * concentration);
    }
    // From (0, 0) to (2, 1): two steps up the first dimension (port 1), then one up the second
    // (port 3).
    let topology = mesh(&[4, 3], 1).unwrap();
    let ports: Vec<u16> =
        path(&topology, 0, 6).iter().map(|&link| topology.links()[link].from_port).collect();
    assert_eq!(ports, [0, 1, 1, 3, 0]);
}

#[test]
fn tori_go_the_shortest_way_round() {
    for (dims, concentration) in
        [(&[2][..], 1), (&[3], 1), (&[8], 1), (&[4, 5], 1), (&[3, 2], 2), (&[4, 3, 3], 1)]
    {
        let topology = torus(dims, concentration).unwrap();
        assert_valid(&topology);
        assert_all_shortest(&topology);
        assert_eq!(topology.layers(), 2);
        assert!((0..topology.switches()).all(|switch| {
            (0..topology.ports(switch)).all(|port| topology.output_link(switch, port).is_some())
        }));
    }
    // A packet goes up if its destination is halfway around. It uses layer 0 only before the
    // dateline.
    let topology = torus(&[8], 1).unwrap();
    let hop = |switch, destination| {
        let hop = topology.hop(switch, destination);
        (hop.port, hop.layer)
    };
    assert_eq!(hop(1, 5), (1, 1));
    assert_eq!(hop(5, 1), (1, 0));
    assert_eq!(hop(0, 1), (1, 1));
    assert_eq!(hop(1, 6), (2, 0));
    assert_eq!(hop(6, 4), (2, 1));
}

#[test]
fn tori_and_dragonflies_have_a_cycle_on_one_layer() {
    for topology in [
        torus(&[4], 1).unwrap(),
        torus(&[5, 4], 1).unwrap(),
        dragonfly(1, 2, 1).unwrap(),
        dragonfly(2, 4, 2).unwrap(),
    ] {
        assert_eq!(topology.dependency_cycle(), None);
        let one = topology.on_one_layer();
        assert_eq!(one.layers(), 1);
        assert_all_arrive(&one);
        let cycle = one.dependency_cycle().unwrap();
        assert!(cycle.len() > 1);
        // Each link is held by some packet that waits for the next.
        for (place, &(link, layer)) in cycle.iter().enumerate() {
            assert_eq!(layer, 0);
            let (next, _) = cycle[(place + 1) % cycle.len()];
            assert!(
                pairs(&one).any(|(source, destination)| path(&one, source, destination)
                    .windows(2)
                    .any(|step| step == [link, next])),
                "no packet goes from link {link} to {next}"
            );
        }
    }
    // In a ring of three no shortest route has two steps, so there is no dependency.
    assert_eq!(torus(&[3], 1).unwrap().on_one_layer().dependency_cycle(), None);
}

#[test]
fn a_dragonfly_goes_local_global_local() {
    for (p, a, h) in [(1, 1, 1), (1, 2, 1), (2, 1, 3), (2, 4, 2), (1, 3, 3), (3, 6, 1)] {
        let topology = dragonfly(p, a, h).unwrap();
        assert_valid(&topology);
        let groups = a * h + 1;
        assert_eq!(topology.end_points(), groups * a * p);
        assert_eq!(topology.switches(), groups * a);
        assert!(
            (0..topology.switches())
                .all(|switch| topology.ports(switch) == u16::try_from(p + a - 1 + h).unwrap())
        );
        assert!(lengths(&topology).into_keys().all(|links| links <= 5));
        for (source, destination) in pairs(&topology) {
            let between = path(&topology, source, destination)
                .into_iter()
                .map(|link| topology.links()[link])
                .filter_map(|link| match (link.from, link.to) {
                    (Node::Switch(from), Node::Switch(to)) => Some((from / a, to / a)),
                    _ => None,
                });
            let last = destination / (p * a);
            let globals = between.clone().filter(|(from, to)| from != to).count();
            assert_eq!(globals, usize::from(source / (p * a) != last));
            // Packets go directly from the first group to the last.
            assert!(between.clone().all(|(from, to)| from == to || to == last));
        }
        // Exactly one cable between any two groups.
        let cables: BTreeSet<(u32, u32)> = topology
            .links()
            .iter()
            .filter_map(|link| match (link.from, link.to) {
                (Node::Switch(from), Node::Switch(to)) if from / a != to / a => {
                    Some((from / a, to / a))
                }
                _ => None,
            })
            .collect();
        assert_eq!(cables.len(), (groups * (groups - 1)) as usize);
    }
}

fn end_point(number: u32, switch: u32, port: u16) -> Cable {
    (Node::EndPoint(number), 0, Node::Switch(switch), port)
}

fn cable(one: u32, one_port: u16, other: u32, other_port: u16) -> Cable {
    (Node::Switch(one), one_port, Node::Switch(other), other_port)
}

#[test]
fn errors_name_the_value_and_the_allowed_range() {
    let good = [end_point(0, 0, 0), end_point(1, 1, 0), cable(0, 1, 1, 1)];
    let with = |extra: &[Cable]| custom(2, &[3, 3], &[&good[..], extra].concat());
    let cases: Vec<(Result<Topology, TopologyError>, &str)> = vec![
        (folded_shuffle(1, 3), "arity is 1; must be 2 to 128"),
        (folded_shuffle(4, 0), "levels is 0; must be 1 to 14"),
        (
            folded_shuffle(4, 8),
            "arity 4 and levels 8 give 65536 end-points; at most 16384 are allowed",
        ),
        (
            folded_shuffle(2, 14),
            "arity 2 and levels 14 give 114688 switches; at most 65536 are allowed",
        ),
        (shuffle(257, 1), "radix is 257; must be 2 to 256"),
        (shuffle(2, 15), "stages is 15; must be 1 to 14"),
        (fat_tree(5), "ports is 5; must be an even number from 2 to 40"),
        (fat_tree(42), "ports is 42; must be an even number from 2 to 40"),
        (mesh(&[], 1), "the number of dims is 0; must be 1 to 14"),
        (torus(&[4, 1], 1), "a size in dims is 1; must be 2 to 16384"),
        (mesh(&[4, 4], 0), "concentration is 0; must be 1 to 254"),
        (
            torus(&[2, 2], 253),
            "dims [2, 2] and concentration 253 give 257 ports per switch; at most 256 are allowed",
        ),
        (dragonfly(0, 4, 2), "end_points is 0; must be 1 to 16384"),
        (
            dragonfly(8, 16, 8),
            "end_points 8, switches 16 and globals 8 give 16512 end-points; at most 16384 are \
             allowed",
        ),
        (custom(0, &[1], &[]), "end_points is 0; must be 1 to 16384"),
        (custom(1, &[], &[]), "the number of switches is 0; must be 1 to 65536"),
        (custom(1, &[257], &[]), "a number of ports in switches is 257; must be 1 to 256"),
        (
            custom(16_384, &[1; 40_000], &[]),
            "end_points 16384 and 40000 switches give 655360000 routes (switches × end-points); \
             at most 536870912 are allowed",
        ),
        (
            with(&[cable(0, 2, 2, 0)]),
            "cable 3 ends at switch 2; there are 2 end-points and 2 switches, each numbered from 0",
        ),
        (
            with(&[end_point(2, 0, 2)]),
            "cable 3 ends at end-point 2; there are 2 end-points and 2 switches, each numbered \
             from 0",
        ),
        (
            with(&[cable(0, 2, 1, 3)]),
            "cable 3 ends at port 3 of switch 1, which has 3 ports numbered from 0",
        ),
        (
            with(&[cable(0, 2, 1, 1)]),
            "cable 3 ends at port 1 of switch 1, which already has a cable; a port takes one",
        ),
        (
            with(&[end_point(1, 0, 2)]),
            "cable 3 ends at port 0 of end-point 1, which already has a cable; a port takes one",
        ),
        (
            with(&[cable(0, 2, 0, 2)]),
            "cable 3 joins switch 0 to switch 0; a cable must join a switch to another node",
        ),
        (
            custom(2, &[2], &[(Node::EndPoint(0), 0, Node::EndPoint(1), 0)]),
            "cable 0 joins end-point 0 to end-point 1; a cable must join a switch to another node",
        ),
        (
            custom(2, &[2], &[end_point(0, 0, 0)]),
            "end-point 1 has no cable; each end-point needs one, from its port 0 to a switch",
        ),
        (
            custom(2, &[2, 2], &good[..2]),
            "switch 1 is not connected to switch 0; every switch must be reachable",
        ),
    ];
    for (result, message) in cases {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
}

#[test]
fn the_largest_networks_are_built_and_the_check_ends() {
    let topology = folded_shuffle(8, 4).unwrap();
    assert_eq!((topology.end_points(), topology.switches()), (4_096, 2_048));
    assert_eq!(path(&topology, 0, 4_095).len(), 8);
    assert_eq!(topology.dependency_cycle(), None);
    assert_eq!(fat_tree(40).unwrap().end_points(), 16_000);
    assert_eq!(folded_shuffle(128, 2).unwrap().end_points(), 16_384);
}
