//! The traffic of a switched network: rates, times, destinations and admission.

use std::collections::BTreeMap;

use millstream_sim::fabric::traffic::{
    Admission, Admitted, CONTROL_BYTES, ClassTraffic, EndPointTraffic, Injection, Kind, PEAK_SHARE,
    PacketBytes, Reservable, SOURCES, table_ii,
};
use millstream_sim::fabric::{topology, traffic};
use proptest::prelude::*;

const LINK_BPS: u64 = 2_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Admits connections of end-points on one ideal switch, with a link from and to each end-point.
fn admit(
    end_points: u32,
    reservable: impl Into<Reservable>,
    classes: &[ClassTraffic],
    seed: u64,
) -> Admitted {
    let route = |source: u32, destination: u32, path: &mut Vec<usize>| {
        path.extend([source as usize, (end_points + destination) as usize]);
    };
    let links = 2 * end_points as usize;
    Admission::admit(end_points, LINK_BPS, reservable, classes, seed, route, links)
}

/// Creates the traffic of end-point 0 of 16, with all connections admitted.
fn end_point(classes: &[ClassTraffic], seed: u64, stop_ns: u64) -> EndPointTraffic {
    let admitted = admit(16, 10.0, classes, seed);
    EndPointTraffic::new(0, 16, LINK_BPS, classes, &admitted, seed, stop_ns)
}

fn self_similar(load: f64) -> ClassTraffic {
    let packet_bytes = PacketBytes::Pareto { shape: 1.4, least: 64, most: 2176 };
    let kind = Kind::SelfSimilar { packet_bytes, sources: SOURCES, peak_share: PEAK_SHARE };
    ClassTraffic { load, kind }
}

fn poisson(load: f64, bytes: u32) -> ClassTraffic {
    ClassTraffic { load, kind: Kind::Poisson { bytes } }
}

fn video(load: f64) -> ClassTraffic {
    let kind = Kind::Video { mean_rate_bps: 6_000_000, frame_ns: 40_000_000, packet_bytes: 2176 };
    ClassTraffic { load, kind }
}

fn voice(load: f64) -> ClassTraffic {
    ClassTraffic { load, kind: Kind::Connections { bytes: 128, interval_ns: 2_000_000 } }
}

fn bytes_of(injections: &[Injection]) -> u64 {
    injections.iter().map(|injection| u64::from(injection.bytes)).sum()
}

/// Returns `bytes` as a share of the link's capacity in `stop_ns`.
fn load(bytes: u64, stop_ns: u64) -> f64 {
    bytes as f64 * 8e9 / (LINK_BPS as f64 * stop_ns as f64)
}

#[test]
fn the_same_seed_is_the_same_traffic_in_time_order() {
    let classes = table_ii(1.0);
    let stop_ns = 10_000_000;
    let first: Vec<_> = end_point(&classes, 1, stop_ns).collect();
    assert!(first.len() > 1000);
    assert!(first.is_sorted_by_key(|injection| (injection.time_ns, injection.class)));
    assert!(first.iter().all(|injection| injection.time_ns < stop_ns));
    assert_eq!(first, end_point(&classes, 1, stop_ns).collect::<Vec<_>>());
    assert_ne!(first, end_point(&classes, 2, stop_ns).collect::<Vec<_>>());
    // A longer run starts with the packets of a shorter one.
    let longer = end_point(&classes, 1, 2 * stop_ns);
    assert!(longer.take(first.len()).eq(first));
}

#[test]
fn a_class_is_independent_of_other_classes() {
    let all = table_ii(1.0);
    let mut quieter = all.clone();
    quieter[2].load = 0.0;
    quieter[5] = poisson(0.1, 500);
    let of_class = |classes: &[ClassTraffic], class| {
        let traffic = end_point(classes, 1, 10_000_000);
        let first = traffic.connections(class).start;
        traffic
            .filter(|injection| injection.class == class)
            .map(|injection| Injection { connection: injection.connection - first, ..injection })
            .collect::<Vec<_>>()
    };
    for class in [0, 1, 3, 4, 6] {
        assert_eq!(of_class(&all, class), of_class(&quieter, class), "class {class}");
    }
    assert_ne!(of_class(&all, 4), of_class(&all, 5), "equal classes have equal sequences");
}

#[test]
fn end_points_differ() {
    let classes = [self_similar(0.2), poisson(0.2, 512)];
    let admitted = admit(2, 1.0, &classes, 1);
    let times = |end_point| -> Vec<u64> {
        EndPointTraffic::new(end_point, 2, LINK_BPS, &classes, &admitted, 1, 1_000_000)
            .map(|injection| injection.time_ns)
            .collect()
    };
    assert_ne!(times(0), times(1));
}

#[test]
fn destinations_are_uniform_over_the_other_end_points() {
    let end_points = 8;
    // Many bursts and connections, so that each class has thousands of draws.
    let classes = [poisson(0.5, 64), voice(0.5), self_similar(0.5)];
    let admitted = admit(end_points, 10.0, &classes, 3);
    for end_point in 0..end_points {
        let traffic = EndPointTraffic::new(
            end_point, end_points, LINK_BPS, &classes, &admitted, 3, 40_000_000,
        );
        let mut draws = vec![vec![0f64; end_points as usize]; classes.len()];
        let mut previous = BTreeMap::new();
        for injection in traffic {
            let class = usize::from(injection.class);
            assert_ne!(injection.destination, end_point, "class {class}");
            // All packets of a burst or connection share one draw.
            let before = previous.insert(injection.connection, injection.destination);
            if class == 0 || before != Some(injection.destination) {
                draws[class][injection.destination as usize] += 1.0;
            }
        }
        for (class, counts) in draws.iter().enumerate() {
            let total: f64 = counts.iter().sum();
            let expected = total / f64::from(end_points - 1);
            assert!(expected > 100.0, "class {class}: {counts:?}");
            let chi_square: f64 = (0..end_points)
                .filter(|destination| *destination != end_point)
                .map(|destination| (counts[destination as usize] - expected).powi(2) / expected)
                .sum();
            // 6 degrees of freedom: exceeded once in 10⁵.
            assert!(chi_square < 33.1, "class {class} at {end_point}: {counts:?}");
        }
    }
}

/// A virtual link sends from one end-point to one other, from its start on.
#[test]
fn virtual_links_send_from_their_start_on() {
    let kind =
        Kind::VirtualLink { bytes: 100, interval_ns: 1_000, start_ns: 2_500, from: 1, to: 3 };
    let topology = topology::folded_shuffle(2, 2).unwrap();
    let classes = [ClassTraffic { load: 0.0, kind }];
    let (sources, admitted) =
        traffic::end_point_traffic(&topology, 1_000_000_000, 1.0, &classes, 1, 5_000);
    assert_eq!((admitted.counts()[0].requested, admitted.counts()[0].admitted), (1, 1));
    for (end_point, source) in sources.into_iter().enumerate() {
        let sent: Vec<_> = source.map(|of| (of.time_ns, of.destination, of.bytes)).collect();
        let expected = [2_500, 3_500, 4_500].map(|time_ns| (time_ns, 3, 100));
        assert_eq!(sent, if end_point == 1 { expected.to_vec() } else { Vec::new() });
    }
}

#[test]
fn connections_come_at_their_phase_and_every_interval_from_there() {
    let classes = [voice(0.203_125), poisson(0.01, 64)];
    let stop_ns = 100_000_000;
    let mut traffic = end_point(&classes, 1, stop_ns);
    let numbers = traffic.connections(0);
    assert_eq!(numbers, 0..793);
    assert_eq!(traffic.connections(1), 793..794);
    assert_eq!(traffic.connections(2), 0..0);
    let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut destinations = BTreeMap::new();
    for injection in traffic.by_ref().filter(|injection| injection.class == 0) {
        times.entry(injection.connection).or_default().push(injection.time_ns);
        let destination = destinations.entry(injection.connection).or_insert(injection.destination);
        assert_eq!(*destination, injection.destination);
    }
    assert!(times.keys().copied().eq(numbers));
    for times in times.values() {
        assert!(times[0] < 2_000_000);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 2_000_000));
        // 50 intervals of 2 ms: exactly 50 packets at any phase.
        assert_eq!(times.len(), 50);
    }
    assert_eq!(traffic.offered_bytes()[0], 793 * 50 * 128);
}

#[test]
fn video_has_its_mean_rate_in_every_quarter() {
    let classes = [video(0.203_125)];
    let (seeds, stop_ns) = (20, 2 * SECOND_NS);
    let mut quarters = [0u64; 4];
    for seed in 0..seeds {
        for injection in end_point(&classes, seed, stop_ns) {
            quarters[usize::try_from(injection.time_ns * 4 / stop_ns).unwrap()] +=
                u64::from(injection.bytes);
        }
    }
    // The number of connections of 6 Mbit/s is whole: 68, or 67 where admission rounds down.
    let requested =
        admit(16, 10.0, &classes, 0).destinations(0, 0).len() as f64 * 6e6 / LINK_BPS as f64;
    for quarter in quarters {
        let ratio = load(quarter, seeds * stop_ns / 4) / requested;
        assert!((ratio - 1.0).abs() < 0.05, "{ratio} of the requested load: {quarters:?}");
    }
}

#[test]
fn a_frames_packets_are_spread_evenly_and_cover_the_frame() {
    // One connection: full packets, and a last one that ends the frame.
    let frame_ns = 40_000_000;
    let injections: Vec<_> = end_point(&[video(0.003)], 5, 4 * SECOND_NS).collect();
    assert!(injections.iter().all(|injection| injection.connection == 0));
    // The first frame began before time 0.
    let start = injections.iter().position(|injection| injection.bytes < 2176).unwrap() + 1;
    let begin_ns = injections[start].time_ns;
    let mut frames: Vec<Vec<Injection>> = Vec::new();
    for injection in &injections[start..] {
        let index = usize::try_from((injection.time_ns - begin_ns) / frame_ns).unwrap();
        frames.resize(frames.len().max(index + 1), Vec::new());
        frames[index].push(*injection);
    }
    frames.pop();
    assert!(frames.len() >= 98);
    let mut sizes = Vec::new();
    for (index, frame) in (0..).zip(&frames) {
        let packets = frame.len() as u64;
        for (place, injection) in (0..).zip(frame) {
            let due_ns = begin_ns + index * frame_ns + place * frame_ns / packets;
            assert_eq!(injection.time_ns, due_ns);
            assert!(
                injection.bytes == 2176 || place + 1 == packets,
                "an earlier packet is smaller"
            );
        }
        sizes.push(bytes_of(frame));
        assert_eq!(packets, bytes_of(frame).div_ceil(2176), "more packets than the frame needs");
    }
    let model_peak = 4.4 * 30_000.0;
    assert!(sizes.iter().all(|bytes| (*bytes as f64) <= model_peak));
    assert!(sizes.iter().max() > sizes.iter().min());
}

#[test]
fn self_similar_traffic_comes_to_its_load_over_many_seeds() {
    for (requested, packet_bytes) in [
        (0.25, PacketBytes::Pareto { shape: 1.4, least: 64, most: 2176 }),
        (0.01, PacketBytes::Fixed(CONTROL_BYTES)),
    ] {
        let kind = Kind::SelfSimilar { packet_bytes, sources: SOURCES, peak_share: PEAK_SHARE };
        let classes = [ClassTraffic { load: requested, kind }];
        let (seeds, stop_ns) = (100, if requested < 0.1 { 200_000_000 } else { 20_000_000 });
        let loads: Vec<f64> = (0..seeds)
            .map(|seed| {
                let mut traffic = end_point(&classes, seed, stop_ns);
                let bytes = bytes_of(&traffic.by_ref().collect::<Vec<_>>());
                assert_eq!(traffic.offered_bytes(), [bytes]);
                load(bytes, stop_ns) / requested
            })
            .collect();
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        assert!((mean - 1.0).abs() < 0.06, "{mean} of {requested}");
        assert!(loads.iter().all(|load| (0.3..3.0).contains(load)), "{loads:?}");
    }
}

/// Returns the Hurst parameter H, estimated by the variance-time plot.
///
/// The variance of the mean of m windows is proportional to m^(2H − 2). H follows from the
/// least-squares slope over m = 1, 2, 4 … 128.
fn hurst(class: ClassTraffic, seed: u64, window_ns: u64, windows: usize) -> f64 {
    let mut counts = vec![0.0; windows];
    for injection in end_point(&[class], seed, window_ns * windows as u64) {
        counts[usize::try_from(injection.time_ns / window_ns).unwrap()] +=
            f64::from(injection.bytes);
    }
    let points: Vec<(f64, f64)> = (0..8)
        .map(|exponent| {
            let m = 1 << exponent;
            let means: Vec<f64> =
                counts.chunks_exact(m).map(|chunk| chunk.iter().sum::<f64>() / m as f64).collect();
            let mean = means.iter().sum::<f64>() / means.len() as f64;
            let variance =
                means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / means.len() as f64;
            ((m as f64).ln(), variance.ln())
        })
        .collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    1.0 + covariance / variance / 2.0
}

#[test]
fn bursts_are_self_similar_and_poisson_arrivals_are_not() {
    // Windows from about the mean on period (14 µs) up to the bound of the Pareto distributions.
    let (window_ns, windows, seeds) = (20_000, 10_000, 6);
    let mean = |class: ClassTraffic| {
        (0..seeds).map(|seed| hurst(class, seed, window_ns, windows)).sum::<f64>() / seeds as f64
    };
    let bursty = mean(self_similar(0.25));
    assert!(bursty > 0.7, "H = {bursty}");
    let poisson = mean(poisson(0.25, 512));
    assert!((0.4..0.6).contains(&poisson), "H = {poisson}");
}

#[test]
fn poisson_arrivals_have_poisson_counts() {
    // 0.8 of 2 Gbit/s in packets of 512 bytes: one every 2.56 µs, 39.0625 in 100 µs.
    let windows = 10_000;
    let mut counts = vec![0u32; windows];
    for injection in end_point(&[poisson(0.8, 512)], 7, 100_000 * windows as u64) {
        assert_eq!(injection.bytes, 512);
        counts[usize::try_from(injection.time_ns / 100_000).unwrap()] += 1;
    }
    let mean = counts.iter().map(|n| f64::from(*n)).sum::<f64>() / windows as f64;
    let variance =
        counts.iter().map(|n| (f64::from(*n) - mean).powi(2)).sum::<f64>() / windows as f64;
    // Five standard errors: √(39/10⁴) = 0.0625 for the mean, √(2/10⁴) for variance/mean.
    assert!((mean - 39.0625).abs() < 0.32, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.07, "variance {variance} for mean {mean}");
}

#[test]
fn the_paper_s_connections_are_as_many_as_its_table_says() {
    let classes = table_ii(0.7);
    let admitted = admit(64, 1.0, &classes, 1);
    // 793.457 voice connections at each end-point, 67.7083 of video and of controlled load.
    let requested: Vec<u64> = admitted.counts().iter().map(|count| count.requested).collect();
    assert_eq!(requested, [0, 50_781, 4333, 4333, 0, 0, 0]);
    assert!(admitted.counts().iter().all(|count| count.refused == 0));
    for end_point in 0..64 {
        assert!((793..=794).contains(&admitted.destinations(end_point, 1).len()));
        assert!((67..=68).contains(&admitted.destinations(end_point, 2).len()));
    }
}

#[test]
fn the_paper_s_loads_add_up() {
    let sum = |load| table_ii(load).iter().map(|class| class.load).sum::<f64>();
    for load in [0.0, 0.3, 0.619_375, 0.7, 1.0, 1.381] {
        assert!((sum(load) - load).abs() < 1e-12, "{load}");
    }
    let largest = table_ii(1.381);
    assert_eq!(largest.len(), 7);
    assert!((largest[4].load - 0.254).abs() < 0.001);
    assert_eq!(largest[1].load, 13.0 / 64.0);
    assert_eq!(table_ii(0.7)[..4], largest[..4], "control or connections depend on the load");
}

/// Asserts that no link has more than `limit_bps` reserved and that all counts add up.
fn check_admission(admitted: &Admitted, classes: &[ClassTraffic], end_points: u32, limit_bps: u64) {
    let mut reserved_bps = vec![0; 2 * end_points as usize];
    for (class, count) in (0..).zip(admitted.counts()) {
        let mut found = 0;
        for end_point in 0..end_points {
            for destination in admitted.destinations(end_point, class) {
                let rate_bps = classes[usize::from(class)].kind.connection_rate_bps().unwrap();
                for link in [end_point, end_points + destination] {
                    reserved_bps[link as usize] += rate_bps.ceil() as u64;
                }
                assert_ne!(*destination, end_point);
                found += 1;
            }
        }
        assert_eq!(count.admitted, found);
        assert_eq!(count.requested, count.admitted + count.refused);
    }
    for (link, reserved_bps) in reserved_bps.into_iter().enumerate() {
        assert_eq!(admitted.reserved_bps(link), reserved_bps);
        assert!(reserved_bps <= limit_bps, "link {link}: {reserved_bps} of {limit_bps}");
    }
}

#[test]
fn connections_beyond_the_reservable_rate_are_refused() {
    let classes = [voice(0.4), video(0.4)];
    let admitted = admit(16, 0.5, &classes, 1);
    check_admission(&admitted, &classes, 16, LINK_BPS / 2);
    for (count, fair) in admitted.counts().iter().zip([0.625, 0.625]) {
        let share = count.admitted as f64 / count.requested as f64;
        // Classes are admitted at equal pace until the links are full; small connections fill the
        // rest.
        assert!((fair - 0.03..fair + 0.05).contains(&share), "{count:?}");
    }
    // Admission tries every destination, so few links have room for another small connection.
    let reserved: u64 = (0..16).map(|link| admitted.reserved_bps(link)).sum();
    assert!(reserved as f64 > 0.98 * 16.0 * LINK_BPS as f64 / 2.0, "{reserved}");
    // A refused connection sends nothing.
    let traffic = EndPointTraffic::new(3, 16, LINK_BPS, &classes, &admitted, 1, 40_000_000);
    let connections = traffic.connections(1).end as usize;
    assert_eq!(connections, admitted.destinations(3, 0).len() + admitted.destinations(3, 1).len());
}

#[test]
fn each_class_may_have_a_share_of_its_own() {
    let classes = [voice(0.3), voice(0.1), video(0.1)];
    let admitted = admit(8, [0.1, 0.5].as_slice(), &classes, 1);
    check_admission(&admitted, &classes, 8, LINK_BPS * 6 / 10);
    for end_point in 0..8 {
        assert!(admitted.destinations(end_point, 0).len() as u64 * 512_000 <= LINK_BPS / 10);
    }
    let counts = admitted.counts();
    assert!(counts[0].refused > counts[0].admitted, "{counts:?}");
    assert_eq!(counts[1].refused, 0);
    assert_eq!(counts[2].admitted, 0, "a class without a share has a connection");
}

#[test]
fn admission_tries_other_destinations_if_a_route_is_full() {
    // Destination 1 is behind link 0; all other destinations share link 1.
    let classes = [ClassTraffic { load: 0.02, ..video(0.0) }];
    let route = |_: u32, destination: u32, path: &mut Vec<usize>| {
        path.push(usize::from(destination != 1));
    };
    let admitted = Admission::admit(4, LINK_BPS, 0.006, &classes, 1, route, 2);
    // Two connections of 6 Mbit/s fit into 12 Mbit/s: two on each of the two links.
    assert_eq!((admitted.reserved_bps(0), admitted.reserved_bps(1)), (12_000_000, 12_000_000));
    assert_eq!(admitted.counts()[0].admitted, 4);
}

#[test]
fn an_end_point_without_others_or_without_classes_is_silent() {
    for (end_points, classes) in [(1, table_ii(1.0)), (4, Vec::new()), (4, table_ii(0.0))] {
        let admitted = admit(end_points, 1.0, &classes, 1);
        let mut traffic =
            EndPointTraffic::new(0, end_points, LINK_BPS, &classes, &admitted, 1, SECOND_NS);
        assert_eq!(traffic.next(), None);
        assert_eq!(traffic.next(), None);
        assert!(admitted.counts().iter().all(|count| count.admitted == 0));
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    let packet_bytes = prop_oneof![
        (1u32..3000).prop_map(PacketBytes::Fixed),
        (0.5f64..3.0, 1u32..3000, 1u32..3000)
            .prop_map(|(shape, least, most)| PacketBytes::Pareto { shape, least, most }),
    ];
    prop_oneof![
        (16u32..3000, 1_000u64..3_000_000)
            .prop_map(|(bytes, interval_ns)| Kind::Connections { bytes, interval_ns }),
        (1_000_000u64..20_000_000, 100_000u64..50_000_000, 1u32..3000).prop_map(
            |(mean_rate_bps, frame_ns, packet_bytes)| Kind::Video {
                mean_rate_bps,
                frame_ns,
                packet_bytes
            }
        ),
        (packet_bytes, 0u32..20, 0.01f64..2.0).prop_map(|(packet_bytes, sources, peak_share)| {
            Kind::SelfSimilar { packet_bytes, sources, peak_share }
        }),
        (1u32..3000).prop_map(|bytes| Kind::Poisson { bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn injections_match_the_description_of_any_classes(
        kinds in prop::collection::vec((0.0f64..0.3, kinds()), 0..6),
        end_points in 2u32..6,
        reservable in 0.0f64..1.0,
        seed: u64,
    ) {
        let classes: Vec<ClassTraffic> =
            kinds.into_iter().map(|(load, kind)| ClassTraffic { load, kind }).collect();
        let admitted = admit(end_points, reservable, &classes, seed);
        let limit_bps = (reservable * LINK_BPS as f64) as u64;
        check_admission(&admitted, &classes, end_points, limit_bps);
        let stop_ns = 3_000_000;
        let of = |at| {
            EndPointTraffic::new(at, end_points, LINK_BPS, &classes, &admitted, seed, stop_ns)
        };
        for end_point in 0..end_points {
            let mut traffic = of(end_point);
            let injections: Vec<_> = traffic.by_ref().take(20_000).collect();
            prop_assert!(injections.is_sorted_by_key(|injection| injection.time_ns));
            let mut offered = vec![0; classes.len()];
            for injection in &injections {
                let class = usize::from(injection.class);
                offered[class] += u64::from(injection.bytes);
                prop_assert!(injection.time_ns < stop_ns);
                prop_assert!(injection.bytes > 0);
                prop_assert!(injection.destination < end_points);
                prop_assert_ne!(injection.destination, end_point);
                let numbers = traffic.connections(injection.class);
                prop_assert!(numbers.contains(&injection.connection));
                if classes[class].kind.connection_rate_bps().is_some() {
                    let place = (injection.connection - numbers.start) as usize;
                    let destinations = admitted.destinations(end_point, injection.class);
                    prop_assert_eq!(destinations[place], injection.destination);
                }
            }
            prop_assert_eq!(traffic.offered_bytes(), offered);
            prop_assert!(of(end_point).take(20_000).eq(injections));
        }
    }
}
