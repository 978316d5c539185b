//! Tags and clocks against formulas that do not depend on the schedule.

use std::collections::VecDeque;

use millstream_reference::fair::gps::Clock;
use millstream_reference::fair::rule::{ratio, whole};
use millstream_reference::fair::{
    CreditReturn, Discipline, Outcome, Service, Spec, StreamSpec, run,
};
use millstream_reference::{Arrival, Overhead};
use num_rational::BigRational;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// One byte a µs.
const RATE_BPS: u64 = 8_000_000;
const BYTE_NS: u64 = 1000;

fn below(random: &mut ChaCha8Rng, limit: u64) -> u64 {
    random.next_u64() % limit
}

fn arrival(time_ns: u64, stream: u32, bytes: u32) -> Arrival {
    Arrival { time_ns, stream, bytes }
}

fn load(random: &mut ChaCha8Rng, packets: usize) -> Vec<Arrival> {
    let mut time_ns = 0;
    let one = |_| {
        if below(random, 3) > 0 {
            time_ns += below(random, 70) * BYTE_NS / 2;
        }
        let stream = u32::try_from(below(random, 3)).unwrap();
        arrival(time_ns, stream, 1 + u32::try_from(below(random, 40)).unwrap())
    };
    (0..packets).map(one).collect()
}

fn spec(discipline: Discipline, weights: &[u64]) -> Spec {
    Spec {
        discipline,
        rate_bps: RATE_BPS,
        overhead: Overhead::default(),
        streams: weights.iter().map(|weight| StreamSpec::new(*weight, 100)).collect(),
        credit_returns: Vec::new(),
    }
}

fn weights(random: &mut ChaCha8Rng) -> [u64; 3] {
    [0; 3].map(|_| 1 + below(random, 5))
}

/// Returns the packets of one stream in order: arrival, bytes, service.
fn of_stream<'a>(
    arrivals: &[Arrival],
    outcome: &'a Outcome,
    stream: u32,
) -> Vec<(u64, u32, &'a Service)> {
    let own = arrivals.iter().filter(|arrival| arrival.stream == stream);
    let services = outcome.services.iter().filter(|service| service.stream == stream);
    own.zip(services).map(|(arrival, s)| (arrival.time_ns, arrival.bytes, s)).collect()
}

/// Returns the departure time of each packet from the fluid system, computed without tags.
fn fluid(arrivals: &[Arrival], weights: &[u64]) -> Vec<BigRational> {
    let mut departures = vec![whole(0); arrivals.len()];
    let mut left: Vec<VecDeque<(usize, BigRational)>> = vec![VecDeque::new(); weights.len()];
    let (mut now, mut next) = (whole(0), 0);
    loop {
        let busy: Vec<usize> = (0..left.len()).filter(|i| !left[*i].is_empty()).collect();
        let sum: u64 = busy.iter().map(|stream| weights[*stream]).sum();
        // The stream's rate, bytes/ns.
        let share = |stream: usize| ratio(weights[stream], sum * BYTE_NS);
        let ends = busy.iter().map(|stream| &now + &left[*stream][0].1 / share(*stream));
        let arrival = arrivals.get(next).map(|arrival| whole(arrival.time_ns));
        let Some(event) = ends.chain(arrival).min() else { return departures };
        for stream in busy {
            left[stream][0].1 -= (&event - &now) * share(stream);
            if left[stream][0].1 == whole(0) {
                departures[left[stream].pop_front().unwrap().0] = event.clone();
            }
        }
        now = event;
        while arrivals.get(next).is_some_and(|arrival| whole(arrival.time_ns) <= now) {
            let arrival = arrivals[next];
            left[arrival.stream as usize].push_back((next, whole(u64::from(arrival.bytes))));
            next += 1;
        }
    }
}

#[test]
fn the_clock_returns_departures_of_the_fluid_system() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..60 {
        let arrivals = load(&mut random, 50);
        let weights = weights(&mut random);
        let mut clock = Clock::new(&spec(Discipline::Wfq, &weights));
        let mut finishes = Vec::new();
        for arrival in &arrivals {
            clock.advance(arrival.time_ns);
            let (_, finish) = clock.stamp(arrival.stream as usize, u64::from(arrival.bytes));
            finishes.push(finish);
        }
        clock.advance(1_000_000_000);
        let departures: Vec<_> =
            finishes.iter().map(|finish| clock.fluid_departure(finish).unwrap()).collect();
        assert_eq!(departures, fluid(&arrivals, &weights));
    }
}

#[test]
fn virtual_clock_tags_follow_from_arrivals_alone() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut caught_up = 0;
    for _ in 0..60 {
        let arrivals = load(&mut random, 50);
        let weights = weights(&mut random);
        let slope = ratio(1, BYTE_NS * weights.iter().sum::<u64>());
        let outcome = run(&spec(Discipline::VirtualClock, &weights), &arrivals);
        for (stream, weight) in (0u32..).zip(weights) {
            let mut last = whole(0);
            for (time_ns, bytes, service) in of_stream(&arrivals, &outcome, stream) {
                let start = last.max(whole(time_ns) * &slope);
                last = &start + ratio(u64::from(bytes), weight);
                assert_eq!(service.start_tag.as_ref(), Some(&start));
                assert_eq!(service.finish_tag.as_ref(), Some(&last));
                caught_up += u64::from(last < service.virtual_time);
            }
        }
    }
    assert!(caught_up > 20, "only {caught_up} packets are served after their tags");
}

#[test]
fn wf2q_plus_continues_from_the_last_tag_while_packets_wait() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut caught_up = 0;
    for _ in 0..60 {
        let arrivals = load(&mut random, 80);
        let weights = weights(&mut random);
        let outcome = run(&spec(Discipline::Wf2qPlus, &weights), &arrivals);
        for stream in 0..3 {
            for pair in of_stream(&arrivals, &outcome, stream).windows(2) {
                let (first, second) = (pair[0].2, pair[1].2);
                if pair[1].0 <= first.time_ns {
                    assert_eq!(first.finish_tag, second.start_tag);
                    caught_up +=
                        u64::from(first.finish_tag.as_ref().unwrap() < &first.virtual_time);
                }
            }
        }
    }
    assert!(caught_up > 0, "V was never ahead of the next start");
}

/// Returns S of two packets of a stream that waits for credits until 300 µs.
///
/// Another stream of equal weight is backlogged meanwhile.
fn after_credits(discipline: Discipline) -> [BigRational; 2] {
    let mut spec = spec(discipline, &[1, 1]);
    spec.streams[0].credits = Some(0);
    let back = |time: u64| CreditReturn { time_ns: time * BYTE_NS, stream: 0, credits: 1 };
    spec.credit_returns = vec![back(300), back(310)];
    let mut arrivals = vec![arrival(0, 1, 100); 5];
    arrivals.insert(0, arrival(0, 0, 10));
    arrivals.insert(1, arrival(0, 0, 10));
    let outcome = run(&spec, &arrivals);
    let own = outcome.services.iter().filter(|service| service.stream == 0);
    let starts: Vec<BigRational> = own.map(|service| service.start_tag.clone().unwrap()).collect();
    starts.try_into().unwrap()
}

#[test]
fn heads_made_active_by_credits_start_at_the_clock() {
    // The first has its credits at 300 µs and is served at once. The second becomes active at
    // 310 µs, at the end of the first's transmission.
    let at = |first: u64, second: u64| [whole(first), whole(second)];
    // The other stream's tags are 100, 200, 300. At 300 µs its third packet has left: its F, v in
    // SCFQ, is 300; its S, v in SFQ, is 200.
    assert_eq!(after_credits(Discipline::Scfq), at(300, 310));
    assert_eq!(after_credits(Discipline::Sfq), at(200, 210));
    // V advances at 1/µs while the other stream is alone in the fluid system. After the first's
    // service its stream leaves, so V advances from 300 to 310 until the second's credits.
    assert_eq!(after_credits(Discipline::Wfq), at(300, 310));
    assert_eq!(after_credits(Discipline::Wf2q), at(300, 310));
    // Virtual clock advances at half that rate: 150; then 155, less than the first's tag of 160.
    assert_eq!(after_credits(Discipline::VirtualClock), at(150, 160));
    // WF²Q+ also advances at half that rate, but at least to the other stream's S: 100, 200, 300.
    assert_eq!(after_credits(Discipline::Wf2qPlus), at(300, 310));
}
