//! Invariants of fair queueing that the golden tables do not cover.

use millstream_reference::fair::gps::Clock;
use millstream_reference::fair::rule::{ratio, whole};
use millstream_reference::fair::{
    CreditReturn, Discipline, Outcome, Service, Spec, StreamSpec, run,
};
use millstream_reference::{Arrival, Overhead, Row};
use num_rational::BigRational;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// One byte a µs.
const RATE_BPS: u64 = 8_000_000;
const BYTE_NS: u64 = 1000;

fn all() -> Vec<Discipline> {
    use Discipline::*;
    vec![Wfq, Scfq, Sfq, Wf2q, Wf2qPlus, VirtualClock, Drr, Wrr, Wirr, Table(vec![2, 0, 1, 0])]
}

fn spec(discipline: Discipline, streams: Vec<StreamSpec>) -> Spec {
    Spec {
        discipline,
        rate_bps: RATE_BPS,
        overhead: Overhead::default(),
        streams,
        credit_returns: Vec::new(),
    }
}

fn arrival(time_ns: u64, stream: u32, bytes: u32) -> Arrival {
    Arrival { time_ns, stream, bytes }
}

fn sent(outcome: &Outcome) -> Vec<&Row> {
    outcome.rows.iter().filter(|row| row.event == "sent").collect()
}

/// Returns the streams in order of service.
fn order(outcome: &Outcome) -> Vec<u32> {
    outcome.services.iter().map(|service| service.stream).collect()
}

fn below(random: &mut ChaCha8Rng, limit: u64) -> u64 {
    random.next_u64() % limit
}

/// Returns packets of 0 to 40 bytes on streams 0 to 2 at about the link's rate, often
/// simultaneous.
fn load(random: &mut ChaCha8Rng, packets: usize) -> Vec<Arrival> {
    let mut time_ns = 0;
    let one = |_| {
        if below(random, 3) > 0 {
            time_ns += below(random, 60) * BYTE_NS / 2;
        }
        let stream = u32::try_from(below(random, 3)).unwrap();
        arrival(time_ns, stream, u32::try_from(below(random, 41)).unwrap())
    };
    (0..packets).map(one).collect()
}

fn three(random: &mut ChaCha8Rng) -> Vec<StreamSpec> {
    (0..3).map(|_| StreamSpec::new(1 + below(random, 4), 10 + below(random, 50))).collect()
}

/// Asserts that every packet leaves at most once; with `all_leave`, exactly once.
fn assert_conserved(arrivals: &[Arrival], outcome: &Outcome, all_leave: bool) {
    let mut rows: Vec<(u32, u64, u32, u64)> = Vec::new();
    for row in &outcome.rows {
        rows.push((row.stream, row.packet, row.bytes, row.arrival_ns));
    }
    let mut expected = Vec::new();
    let mut counts = [0u64; 4];
    for arrival in arrivals {
        let count = &mut counts[arrival.stream as usize];
        expected.push((arrival.stream, *count, arrival.bytes, arrival.time_ns));
        *count += 1;
    }
    for row in &rows {
        assert!(expected.contains(row), "{row:?} did not arrive");
    }
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), outcome.rows.len(), "a packet leaves twice");
    assert!(!all_leave || rows.len() == expected.len(), "a packet never leaves");
    assert!(outcome.rows.is_sorted_by_key(|row| row.time_ns), "rows are not in time order");
    for stream in 0..4 {
        let own = sent(outcome).into_iter().filter(|row| row.stream == stream);
        assert!(own.map(|row| row.packet).is_sorted(), "a stream is not first in, first out");
    }
    let services = outcome.services.iter().map(|s| (s.time_ns, s.stream, s.packet));
    assert!(services.eq(sent(outcome).iter().map(|r| (r.time_ns, r.stream, r.packet))));
}

#[test]
fn every_packet_leaves_once_and_the_link_is_work_conserving() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..40 {
        let arrivals = load(&mut random, 60);
        let streams = three(&mut random);
        let mut ends = Vec::new();
        for discipline in all() {
            let outcome = run(&spec(discipline, streams.clone()), &arrivals);
            assert_conserved(&arrivals, &outcome, true);
            ends.push(outcome.end_ns);
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }
}

#[test]
fn limits_credits_and_buckets_conserve_packets() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for _ in 0..40 {
        let arrivals = load(&mut random, 60);
        let mut streams = three(&mut random);
        streams[0].queue = Some(3);
        streams[0].shaper = Some((1 + below(&mut random, RATE_BPS), below(&mut random, 80)));
        streams[1].credits = Some(below(&mut random, 6));
        streams[2].fmc = below(&mut random, 2) == 0;
        streams[2].shaper = Some((RATE_BPS / 3, 40));
        let back = |time: u64| CreditReturn { time_ns: time * 50 * BYTE_NS, stream: 1, credits: 1 };
        for discipline in all() {
            let mut spec = spec(discipline, streams.clone());
            spec.credit_returns = (0..60).map(back).collect();
            assert_conserved(&arrivals, &run(&spec, &arrivals), true);
        }
    }
}

#[test]
fn credits_that_never_come_end_the_run_with_packets_waiting() {
    for discipline in all() {
        let mut streams = vec![StreamSpec::new(1, 100); 3];
        streams[1].credits = Some(0);
        let arrivals = [arrival(0, 1, 64), arrival(0, 0, 10), arrival(5, 1, 0), arrival(9, 2, 1)];
        let outcome = run(&spec(discipline, streams), &arrivals);
        assert_eq!(order(&outcome), [0, 2]);
        assert_eq!(outcome.end_ns, 11 * BYTE_NS);
        assert_conserved(&arrivals, &outcome, false);
    }
    // The run also ends if no table entry names a stream with packets.
    let streams = vec![StreamSpec::new(1, 1); 2];
    for table in [vec![], vec![1]] {
        let outcome = run(&spec(Discipline::Table(table), streams.clone()), &[arrival(0, 0, 1)]);
        assert!(outcome.rows.is_empty());
    }
}

#[test]
fn a_token_bucket_spaces_packets_by_its_rate() {
    for discipline in all() {
        let mut streams = vec![StreamSpec::new(1, 100); 3];
        // A rate of 3 bytes per 10 µs, and a burst of two packets of 10 bytes.
        streams[0].shaper = Some((2_400_000, 20));
        let arrivals = vec![arrival(7, 0, 10); 5];
        let outcome = run(&spec(discipline, streams), &arrivals);
        let times: Vec<u64> = outcome.rows.iter().map(|row| row.time_ns).collect();
        // The second starts when the link is free; later ones every 33⅓ µs from 7 ns on, rounded
        // up.
        assert_eq!(times, [7, 10_007, 33_341, 66_674, 100_007]);
    }
    // A packet longer than the burst waits until its own time has passed.
    let mut streams = vec![StreamSpec::new(1, 100)];
    streams[0].shaper = Some((RATE_BPS, 4));
    let outcome = run(&spec(Discipline::Sfq, streams), &[arrival(0, 0, 10)]);
    assert_eq!(outcome.rows[0].time_ns, 6 * BYTE_NS);
}

#[test]
fn wf2q_plus_alternates_where_wfq_bursts() {
    let mut streams = vec![StreamSpec::new(10, 1)];
    streams.extend(vec![StreamSpec::new(1, 1); 10]);
    let mut arrivals = vec![arrival(0, 0, 1); 11];
    arrivals.extend((1..=10).map(|stream| arrival(0, stream, 1)));
    let alternating: Vec<u32> = (1..=10).flat_map(|other| [0, other]).chain([0]).collect();
    for discipline in [Discipline::Wf2q, Discipline::Wf2qPlus] {
        assert_eq!(order(&run(&spec(discipline, streams.clone()), &arrivals)), alternating);
    }
    let wfq = order(&run(&spec(Discipline::Wfq, streams), &arrivals));
    assert_eq!(wfq[..11], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn wfq_finishes_at_most_a_longest_packet_after_the_fluid_system() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..60 {
        let mut arrivals = load(&mut random, 50);
        // One busy period, so that V is never reset and tags stay comparable.
        arrivals.insert(0, arrival(0, 0, 2000));
        let spec = spec(Discipline::Wfq, three(&mut random));
        let mut clock = Clock::new(&spec);
        let mut departures = Vec::new();
        for arrival in &arrivals {
            clock.advance(arrival.time_ns);
            let (_, finish) = clock.stamp(arrival.stream as usize, u64::from(arrival.bytes));
            departures.push(finish);
        }
        clock.advance(1_000_000_000);
        let outcome = run(&spec, &arrivals);
        let mut counts = [0u64; 3];
        for (arrival, tag) in arrivals.iter().zip(&departures) {
            let packet = counts[arrival.stream as usize];
            counts[arrival.stream as usize] += 1;
            let own =
                |service: &&Service| (service.stream, service.packet) == (arrival.stream, packet);
            let service = outcome.services.iter().find(own).unwrap();
            assert_eq!(service.finish_tag.as_ref(), Some(tag));
            // In the fluid system, a packet of length 0 leaves at its arrival or earlier.
            let fluid = clock.fluid_departure(tag).unwrap().max(whole(arrival.time_ns));
            let end = whole(service.time_ns + u64::from(arrival.bytes) * BYTE_NS);
            assert!(end <= fluid + whole(2000 * BYTE_NS));
        }
    }
}

/// A service as visible to the discipline: time t', stream, packet, tags, V, deficit.
type VisibleService =
    (u64, u32, u64, Option<BigRational>, Option<BigRational>, BigRational, Option<u64>);

fn visible(service: &Service, clock_ns: u64) -> VisibleService {
    let (start, finish) = (service.start_tag.clone(), service.finish_tag.clone());
    let (virtual_time, deficit) = (service.virtual_time.clone(), service.deficit);
    (clock_ns, service.stream, service.packet, start, finish, virtual_time, deficit)
}

/// Without the time of FMC transmissions, all other services equal those of a run without FMC
/// packets.
#[test]
fn fmc_packets_do_not_affect_the_discipline() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for _ in 0..60 {
        let mut arrivals = load(&mut random, 60);
        let mut streams = three(&mut random);
        streams.push(StreamSpec { fmc: true, ..StreamSpec::new(7, 1) });
        for _ in 0..12 {
            let time_ns = below(&mut random, 900) * BYTE_NS / 2;
            arrivals.push(arrival(time_ns, 3, u32::try_from(below(&mut random, 30)).unwrap()));
        }
        arrivals.sort_by_key(|arrival| arrival.time_ns);
        for discipline in all() {
            let spec = spec(discipline, streams.clone());
            let with = run(&spec, &arrivals);
            let busy: Vec<(u64, u64)> = with
                .rows
                .iter()
                .filter(|row| row.stream == 3)
                .map(|row| (row.time_ns, row.time_ns + u64::from(row.bytes) * BYTE_NS))
                .collect();
            let clock_ns = |time_ns: u64| {
                time_ns - busy.iter().map(|(s, e)| time_ns.clamp(*s, *e) - s).sum::<u64>()
            };
            let others = arrivals.iter().filter(|arrival| arrival.stream != 3);
            let without_fmc: Vec<Arrival> =
                others.map(|a| Arrival { time_ns: clock_ns(a.time_ns), ..*a }).collect();
            let without = run(&spec, &without_fmc);
            let own = with.services.iter().filter(|service| service.stream != 3);
            let own: Vec<VisibleService> = own.map(|s| visible(s, clock_ns(s.time_ns))).collect();
            let other: Vec<VisibleService> =
                without.services.iter().map(|s| visible(s, s.time_ns)).collect();
            assert_eq!(own, other, "{:?}", spec.discipline);
        }
    }
}

#[test]
fn rounds_keep_their_order() {
    let streams: Vec<StreamSpec> = [3, 1, 2].map(|weight| StreamSpec::new(weight, 1)).into();
    let arrivals: Vec<Arrival> = (0..3).flat_map(|stream| vec![arrival(0, stream, 5); 6]).collect();
    let by = |discipline| order(&run(&spec(discipline, streams.clone()), &arrivals));
    assert_eq!(by(Discipline::Wrr)[..12], [0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 2, 2]);
    assert_eq!(by(Discipline::Wirr)[..12], [0, 1, 2, 0, 2, 0, 0, 1, 2, 0, 2, 0]);
    assert_eq!(by(Discipline::Table(vec![2, 2, 1]))[..9], [2, 2, 1, 2, 2, 1, 2, 2, 1]);
}

#[test]
fn overhead_counts_on_the_wire_and_not_in_credits() {
    let mut streams = vec![StreamSpec::new(1, 84), StreamSpec::new(1, 84)];
    streams[0].credits = Some(2);
    let mut spec = spec(Discipline::Drr, streams);
    spec.overhead = 20.into();
    let arrivals = [arrival(0, 0, 64), arrival(0, 0, 64), arrival(0, 0, 1), arrival(0, 1, 65)];
    let outcome = run(&spec, &arrivals);
    assert_eq!(order(&outcome), [0, 0, 1]);
    assert_eq!(outcome.services[0].deficit, Some(0));
    assert_eq!(outcome.end_ns, (84 + 84 + 85) * BYTE_NS);
    spec.discipline = Discipline::Scfq;
    assert_eq!(run(&spec, &arrivals).services[0].finish_tag, Some(ratio(84, 1)));
}
