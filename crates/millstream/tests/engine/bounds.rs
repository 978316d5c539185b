//! Theoretical guarantees compared with the engine: random bursts, and the two cases in which the
//! published bounds are exceeded.

use millstream::bounds::{
    Bounds, Channel, EdfVerdict, FairDiscipline, RateGuarantee, Source, StreamLimits, Windows,
};
use millstream::catalogue::{DISCIPLINES, DisciplineRow, MinBwAlgorithm, Options};
use millstream::{Contract, Framing, Link, MaxRate, Observer, Packet, StreamId, Window};
use proptest::prelude::*;
use std::num::NonZeroU64;

/// Returns the guarantee and name of every discipline that guarantees shares.
fn fair() -> impl Iterator<Item = (RateGuarantee, &'static str)> {
    let rows = DISCIPLINES.iter().filter(|row| row.guarantees_shares());
    rows.map(|row| (row.guarantee.rate().unwrap(), row.name))
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    time_ns: u64,
    stream: usize,
    bytes: u32,
}

/// The observed maxima of one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    start_ns: u64,
    end_ns: u64,
    backlog_bytes: u64,
    late: u64,
    violations: u64,
}

struct Count<'a>(&'a mut [Seen]);

impl Observer for Count<'_> {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.0[stream.index()].late += missed;
        self.0[stream.index()].violations += violations;
    }
}

fn contract(stream: &StreamLimits) -> Contract {
    let mut contract = Contract::new().priority(stream.priority).window(stream.window);
    contract = contract.weight(stream.weight).unwrap();
    if stream.quantum_bytes > 0 {
        contract = contract.quantum_bytes(stream.quantum_bytes).unwrap();
    }
    if stream.period_ns > 0 {
        contract = contract.period_ns(stream.period_ns).unwrap();
    }
    contract
}

/// Runs `discipline`; returns the maxima of each stream, and the longest busy period, ns.
fn run(
    discipline: &str,
    link: Link,
    streams: &[StreamLimits],
    arrivals: Vec<Arrival>,
) -> (Vec<Seen>, u64) {
    let contracts = streams.iter().map(contract).collect();
    let options = Options { link, ..Options::default() };
    run_with(discipline, &options, contracts, arrivals)
}

/// Runs a discipline with settings and contracts.
fn run_with(
    discipline: &str,
    options: &Options,
    contracts: Vec<Contract>,
    mut arrivals: Vec<Arrival>,
) -> (Vec<Seen>, u64) {
    arrivals.sort_by_key(|arrival| arrival.time_ns);
    let row = DisciplineRow::parse(discipline).unwrap();
    let link = options.link;
    let mut seen = vec![Seen::default(); contracts.len()];
    let mut backlog = vec![0; contracts.len()];
    let mut scheduler = row.build(options, row.auto_structure(options, contracts.len()));
    for contract in contracts {
        scheduler.add_stream(contract).unwrap();
    }
    let mut arrivals = arrivals.iter().peekable();
    let (mut free_ns, mut busy_from_ns, mut busy_ns) = (0u64, 0u64, 0u64);
    loop {
        if scheduler.total_waiting() == 0 {
            let Some(next) = arrivals.peek() else { break };
            if next.time_ns > free_ns {
                // The driver calls `decide` when the link becomes free.
                scheduler.decide(free_ns, &mut Count(&mut seen));
                busy_from_ns = next.time_ns;
                free_ns = next.time_ns;
            }
        }
        let now_ns = free_ns;
        let mut arrive = |scheduler: &mut dyn millstream::catalogue::DynScheduler,
                          until_ns: u64,
                          backlog: &mut [u64],
                          seen: &mut [Seen]| {
            while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns <= until_ns) {
                let stream = StreamId(u32::try_from(arrival.stream).unwrap());
                scheduler.enqueue(arrival.time_ns, stream, Packet::new(arrival.bytes)).unwrap();
                backlog[arrival.stream] += link.wire_bytes(arrival.bytes);
                let seen = &mut seen[arrival.stream];
                seen.backlog_bytes = seen.backlog_bytes.max(backlog[arrival.stream]);
            }
        };
        arrive(&mut *scheduler, now_ns, &mut backlog, &mut seen);
        let Some(departure) = scheduler.decide(now_ns, &mut Count(&mut seen)) else {
            if scheduler.total_waiting() > 0 {
                // Only rate caps make all streams ineligible.
                let arrival_ns = arrivals.peek().map(|arrival| arrival.time_ns);
                let next_ns = [arrival_ns, scheduler.next_eligible_ns()].into_iter().flatten();
                free_ns = next_ns.min().unwrap();
                busy_from_ns = free_ns;
            }
            continue;
        };
        free_ns = now_ns + link.transmission_ns(departure.bytes);
        // The packet in service counts until it has ended.
        arrive(&mut *scheduler, free_ns.saturating_sub(1), &mut backlog, &mut seen);
        let stream = departure.stream.index();
        backlog[stream] -= link.wire_bytes(departure.bytes);
        seen[stream].start_ns = seen[stream].start_ns.max(now_ns - departure.arrival_ns);
        seen[stream].end_ns = seen[stream].end_ns.max(free_ns - departure.arrival_ns);
        busy_ns = busy_ns.max(free_ns - busy_from_ns);
    }
    (seen, busy_ns)
}

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        u64::try_from((u128::from(self.0 >> 16) * u128::from(end)) >> 48).unwrap()
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    fn length(&mut self, stream: &StreamLimits) -> u32 {
        match self.below(3) {
            0 => stream.smallest_bytes,
            1 => stream.largest_bytes,
            _ => {
                let more = self.below(u64::from(stream.largest_bytes - stream.smallest_bytes) + 1);
                stream.smallest_bytes + u32::try_from(more).unwrap()
            }
        }
    }

    fn link(&mut self) -> Link {
        let rate_bps =
            self.one_of(&[1_000_000_000, 10_000_000_000, 777_777_777, 3_000_000_000, 1_234_567]);
        let framing = self.one_of(&[Framing::None, Framing::None, Framing::Atm, Framing::Ptm]);
        Link::new(rate_bps, self.one_of(&[0, 0, 24])).framed(framing)
    }

    fn streams(&mut self) -> Vec<StreamLimits> {
        let scale = self.one_of(&[1, 1, 40]);
        (0..self.below(4) + 1)
            .map(|_| {
                let largest = u32::try_from(self.below(40) + 1).unwrap() * scale;
                let smallest = u32::try_from(self.below(largest.into())).unwrap() + 1;
                let smallest = self.one_of(&[largest, smallest]);
                StreamLimits {
                    weight: u32::try_from(self.below(5)).unwrap() + 1,
                    quantum_bytes: u32::try_from(self.below(60)).unwrap() * self.one_of(&[1, 100])
                        + 1,
                    ..StreamLimits::new(smallest, largest)
                }
            })
            .collect()
    }

    /// Generates packets as early as they conform to `source`, with pauses.
    fn conforming(
        &mut self,
        link: Link,
        stream: usize,
        limits: &StreamLimits,
        source: Source,
        packets: u64,
    ) -> Vec<Arrival> {
        let units = |bytes: u64| u128::from(bytes) * 8_000_000_000;
        let rate = u128::from(source.rate_bps.max(1));
        let pause_ns = self.one_of(&[0, 0, 1, 4, 16]) * link.transmission_ns(limits.largest_bytes);
        let (mut now_ns, mut tat) = (self.below(pause_ns + 1), 0u128);
        (0..packets)
            .map(|_| {
                let bytes = self.length(limits);
                let cost = units(link.wire_bytes(bytes));
                let from = (tat + cost).saturating_sub(units(source.burst_bytes));
                now_ns = now_ns.max(u64::try_from(from.div_ceil(rate)).unwrap());
                now_ns += if self.below(2) == 0 { self.below(pause_ns + 1) } else { 0 };
                tat = tat.max(u128::from(now_ns) * rate) + cost;
                Arrival { time_ns: now_ns, stream, bytes }
            })
            .collect()
    }

    /// Generates packets without limit, with pauses.
    fn rush(&mut self, link: Link, stream: usize, limits: &StreamLimits) -> Vec<Arrival> {
        let pause_ns = self.one_of(&[0, 1, 2, 3, 20]) * link.transmission_ns(limits.largest_bytes);
        let mut now_ns = 0;
        (0..150)
            .map(|_| {
                now_ns += if self.below(3) == 0 { self.below(pause_ns + 1) } else { 0 };
                Arrival { time_ns: now_ns, stream, bytes: self.length(limits) }
            })
            .collect()
    }
}

/// Prints the ratio of an observed value to its bound if `MILLSTREAM_BOUNDS` is set.
fn note(what: &str, seen: u64, bound: u64) {
    if std::env::var_os("MILLSTREAM_BOUNDS").is_some() {
        println!("near {what} {}", seen * 1000 / bound.max(1));
    }
}

/// Runs a random burst under the discipline `name` and checks its bounds. Returns the number of
/// streams, the greatest observed delay, ns, and its bound, ns.
fn rush(seed: u64, guarantee: &RateGuarantee, name: &str) -> (usize, u64, u64) {
    let mut random = Random(seed);
    let (link, streams) = (random.link(), random.streams());
    // The busy period is known only after the run; rates do not depend on it.
    let bounds = Bounds { busy_ns: Some(0), ..Bounds::new(link, &streams) };
    let rate_bps = (guarantee.latency_rate)(&bounds, 0).unwrap().rate_bps;
    let largest = link.wire_bytes(streams[0].largest_bytes);
    let source = Source {
        rate_bps: random.one_of(&[rate_bps, rate_bps, rate_bps / 2, rate_bps / 20]),
        burst_bytes: largest * random.one_of(&[1, 1, 2, 5]) + random.one_of(&[0, 7]),
    };
    let mut arrivals = random.conforming(link, 0, &streams[0], source, 60);
    for (at, stream) in streams.iter().enumerate().skip(1) {
        arrivals.extend(random.rush(link, at, stream));
    }
    let (seen, busy_ns) = run(name, link, &streams, arrivals);
    let bounds = Bounds { busy_ns: Some(busy_ns), ..bounds };
    let latency_rate = (guarantee.latency_rate)(&bounds, 0).unwrap();
    let delay_ns = latency_rate.delay_ns(source).unwrap();
    let context = (name, link, &streams, source, latency_rate, seen[0]);
    assert!(seen[0].end_ns <= delay_ns, "{delay_ns}: {context:?}");
    assert!(seen[0].start_ns <= bounds.start_ns(delay_ns, 0), "{context:?}");
    let backlog = latency_rate.backlog_bytes(source).unwrap();
    assert!(seen[0].backlog_bytes <= backlog, "{backlog}: {context:?}");
    (streams.len(), seen[0].end_ns, delay_ns)
}

/// Runs a random burst below a management channel that sends all that its bucket allows. Returns
/// the greatest observed delay, ns, and its bound, ns.
fn rush_below(seed: u64, discipline: FairDiscipline, algorithm: MinBwAlgorithm) -> (u64, u64) {
    let mut random = Random(seed);
    let (link, streams) = (random.link(), random.streams());
    let largest_bytes = u32::try_from(random.below(60) + 1).unwrap();
    let bucket = Source {
        rate_bps: link.rate_bps / random.one_of(&[3, 5, 20]),
        burst_bytes: link.wire_bytes(largest_bytes) * random.one_of(&[1, 3]),
    };
    let channel = Channel { smallest_bytes: 1, largest_bytes, bucket };
    let bounds = Bounds { busy_ns: Some(0), ..Bounds::new(link, &streams) };
    let rate_bps = bounds.latency_rate_below(discipline, 0, &channel).unwrap().rate_bps;
    let largest = link.wire_bytes(streams[0].largest_bytes);
    let source = Source { rate_bps, burst_bytes: largest * random.one_of(&[1, 1, 2, 5]) };
    let mut arrivals = random.conforming(link, 0, &streams[0], source, 60);
    for (at, stream) in streams.iter().enumerate().skip(1) {
        arrivals.extend(random.rush(link, at, stream));
    }
    let limits = StreamLimits::new(1, largest_bytes);
    let begun_ns = random.below(arrivals[0].time_ns + 1);
    arrivals.extend((0..400).map(|_| {
        let (stream, bytes) = (streams.len(), random.length(&limits));
        Arrival { time_ns: begun_ns, stream, bytes }
    }));
    let mut contracts: Vec<_> = streams.iter().map(contract).collect();
    let rate_bps = NonZeroU64::new(bucket.rate_bps).unwrap();
    let max_rate = MaxRate { rate_bps, burst_bytes: bucket.burst_bytes };
    contracts.push(Contract::new().fmc().max_rate(max_rate));
    let options = Options { link, algorithm, ..Options::default() };
    let (seen, busy_ns) = run_with("minbw", &options, contracts, arrivals);
    let bounds = Bounds { busy_ns: Some(busy_ns), ..bounds };
    let latency_rate = bounds.latency_rate_below(discipline, 0, &channel).unwrap();
    let delay_ns = latency_rate.delay_ns(source).unwrap();
    let context = (algorithm, link, &streams, channel, source, latency_rate, seen[0]);
    assert!(seen[0].end_ns <= delay_ns, "{delay_ns}: {context:?}");
    assert!(seen[0].backlog_bytes <= latency_rate.backlog_bytes(source).unwrap(), "{context:?}");
    (seen[0].end_ns, delay_ns)
}

#[test]
fn minbw_keeps_its_promises_and_no_better_ones() {
    for (discipline, algorithm) in [
        (FairDiscipline::Wfq, MinBwAlgorithm::Wfq),
        (FairDiscipline::Scfq, MinBwAlgorithm::Scfq),
        (FairDiscipline::Drr, MinBwAlgorithm::Drr),
    ] {
        let mut nearest = 0;
        for seed in 0..5_000 {
            let seed = Random(seed).below(1 << 48);
            let (seen_ns, bound_ns) = rush_below(seed, discipline, algorithm);
            nearest = nearest.max(seen_ns * 1000 / bound_ns);
        }
        assert!(nearest >= 900, "{algorithm:?}: at most {nearest} thousandths of the bound");
    }
}

/// A table keeps the guarantee of weighted round robin with the number of entries as the weight.
#[test]
fn a_table_keeps_the_promises_of_weighted_round_robin() {
    let mut nearest = 0;
    for seed in 0..5_000 {
        let mut random = Random(Random(seed).below(1 << 48));
        let (link, streams) = (random.link(), random.streams());
        let mut table: Vec<_> = (0u32..)
            .zip(&streams)
            .flat_map(|(at, stream)| vec![StreamId(at); stream.weight as usize])
            .collect();
        for at in (1..table.len()).rev() {
            table.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap());
        }
        let bounds = Bounds::new(link, &streams);
        let latency_rate = bounds.latency_rate(FairDiscipline::Wrr, 0).unwrap();
        let largest = link.wire_bytes(streams[0].largest_bytes);
        let burst_bytes = largest * random.one_of(&[1, 1, 2, 5]);
        let source = Source { rate_bps: latency_rate.rate_bps, burst_bytes };
        let mut arrivals = random.conforming(link, 0, &streams[0], source, 60);
        for (at, stream) in streams.iter().enumerate().skip(1) {
            arrivals.extend(random.rush(link, at, stream));
        }
        let options = Options { link, table, ..Options::default() };
        let contracts = streams.iter().map(contract).collect();
        let (seen, _) = run_with("table", &options, contracts, arrivals);
        let delay_ns = latency_rate.delay_ns(source).unwrap();
        assert!(seen[0].end_ns <= delay_ns, "{delay_ns}: {seen:?} {streams:?} {source:?}");
        nearest = nearest.max(if streams.len() > 1 { seen[0].end_ns * 1000 / delay_ns } else { 0 });
    }
    assert!(nearest >= 900, "at most {nearest} thousandths of the bound");
}

/// The bound is never exceeded and nearly reached: with other streams the worst burst is within a
/// tenth of it.
#[test]
fn fair_queueing_and_round_robins_keep_their_promises_and_no_better_ones() {
    for (guarantee, name) in fair() {
        let mut nearest = 0;
        for seed in 0..5_000 {
            // Mixes the seed: similar seeds produce similar numbers.
            let seed = Random(seed).below(1 << 48);
            let (streams, seen_ns, bound_ns) = rush(seed, &guarantee, name);
            if streams >= 3 {
                nearest = nearest.max(seen_ns * 1000 / bound_ns);
            }
        }
        assert!(nearest >= 900, "{name}: at most {nearest} thousandths of the bound");
    }
}

/// The bounds are never exceeded and nearly reached.
#[test]
fn fifo_and_static_priority_keep_their_promises_and_no_better_ones() {
    let mut nearest = [0, 0];
    for seed in 0..5_000 {
        let mut random = Random(Random(seed).below(1 << 48));
        let (link, mut streams) = (random.link(), random.streams());
        let rate_bps = Bounds::new(link, &streams).effective_rate_bps();
        let count = streams.len() as u64;
        for stream in &mut streams {
            let largest = link.wire_bytes(stream.largest_bytes);
            stream.priority = u32::try_from(random.below(3)).unwrap();
            stream.source = Some(Source {
                rate_bps: rate_bps / (count + random.below(2)),
                burst_bytes: largest * random.one_of(&[1, 2, 8]),
            });
        }
        let mut arrivals = Vec::new();
        for (at, stream) in streams.iter().enumerate() {
            arrivals.extend(random.conforming(link, at, stream, stream.source.unwrap(), 60));
        }
        let bounds = Bounds::new(link, &streams);
        let fifo_ns = bounds.fifo_delay_ns().unwrap();
        let (seen, _) = run("fifo", link, &streams, arrivals.clone());
        for seen in &seen {
            assert!(seen.end_ns <= fifo_ns, "{fifo_ns} {seen:?} {link:?} {streams:?}");
            nearest[0] = nearest[0].max(seen.end_ns * 1000 / fifo_ns.max(1));
        }
        // The lowest streams may send without limit: higher ones are not affected.
        let lowest = streams.iter().map(|stream| stream.priority).max().unwrap();
        for (at, stream) in streams.iter_mut().enumerate() {
            if stream.priority == lowest {
                arrivals.extend(random.rush(link, at, stream));
                stream.source = None;
            }
        }
        let bounds = Bounds::new(link, &streams);
        let (seen, _) = run("static-priority", link, &streams, arrivals);
        for (at, stream) in streams.iter().enumerate() {
            let delay_ns = bounds.static_priority_delay_ns(at);
            assert_eq!(delay_ns.is_some(), stream.source.is_some());
            if let Some(delay_ns) = delay_ns {
                assert!(seen[at].end_ns <= delay_ns, "{delay_ns} {at} {seen:?} {streams:?}");
                nearest[1] = nearest[1].max(seen[at].end_ns * 1000 / delay_ns.max(1));
            }
        }
    }
    assert!(nearest.iter().all(|nearest| *nearest >= 900), "{nearest:?} thousandths");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn edf_misses_nothing_where_the_criterion_says_so(seed: u64) {
        let mut random = Random(seed);
        let (link, mut streams) = (random.link(), random.streams());
        for stream in &mut streams {
            let cost_ns = link.transmission_ns(stream.largest_bytes);
            stream.period_ns = random.below(cost_ns * 8) + 1 + cost_ns * random.below(4);
        }
        let verdict = Bounds::new(link, &streams).edf();
        let feasible = matches!(verdict, Some(EdfVerdict::Feasible { .. }));
        let mut late = 0;
        for offset in 0..6 {
            let mut arrivals = Vec::new();
            for (at, stream) in streams.iter().enumerate() {
                // One packet per period, or early ones; they begin 1 ns after the stream of the
                // longest period, or at a random time.
                let longest = streams.iter().all(|other| other.period_ns <= stream.period_ns);
                let mut time_ns = if offset < 3 { u64::from(!longest) } else {
                    random.below(stream.period_ns * 2)
                };
                let early = offset % 2 == 1;
                for _ in 0..80 {
                    let largest = offset < 3;
                    let bytes = if largest { stream.largest_bytes } else { random.length(stream) };
                    arrivals.push(Arrival { time_ns, stream: at, bytes });
                    let period_ns = stream.period_ns;
                    time_ns += if early { random.below(period_ns * 2) } else { period_ns };
                }
            }
            let (seen, _) = run("edf", link, &streams, arrivals);
            late += seen.iter().map(|seen| seen.late).sum::<u64>();
        }
        prop_assert!(!feasible || late == 0, "{late} {link:?} {streams:?}");
        note("edf-agrees", u64::from(feasible == (late == 0)), 1);
        note("edf-feasible", u64::from(feasible), 1);
    }

    #[test]
    fn windows_are_kept_where_the_sum_says_so(seed: u64) {
        let mut random = Random(seed);
        let link = Link::new(1_000_000_000, 0);
        let count = random.below(5) + 1;
        let slots = random.below(count) + 1;
        let mut streams: Vec<_> = (0..count).map(|_| {
            let of = u32::try_from(random.below(6)).unwrap();
            // All, one, none or several of the requests.
            let several = u32::try_from(random.below(u64::from(of) + 1)).unwrap();
            let required = [of, of.min(1), 0, several][usize::try_from(random.below(4)).unwrap()];
            let lost = of - required;
            let window = Window::new(lost, of).unwrap();
            StreamLimits { window, period_ns: slots * 1000, ..StreamLimits::new(125, 125) }
        }).collect();
        let burst = |streams: &[StreamLimits]| -> Vec<_> {
            (0..streams.len())
                .flat_map(|stream| {
                    (0..200).map(move |_| Arrival { time_ns: 0, stream, bytes: 125 })
                })
                .collect()
        };
        // Streams that empty before the end do not harm other streams.
        let verdict = Bounds::new(link, &streams).pd2().unwrap();
        let (seen, _) = run("pd2", link, &streams, burst(&streams));
        let violations = seen.iter().map(|seen| seen.violations).sum::<u64>();
        prop_assert!(verdict.windows != Windows::Kept || violations == 0, "{streams:?} {seen:?}");
        let verdict = Bounds::new(link, &streams).dwcs().unwrap();
        let (seen, _) = run("dwcs", link, &streams, burst(&streams));
        let violations = seen.iter().map(|seen| seen.violations).sum::<u64>();
        prop_assert!(verdict.windows != Windows::Kept || violations == 0, "{streams:?} {seen:?}");
        note("dwcs-agrees", u64::from((verdict.windows == Windows::Kept) == (violations == 0)), 1);
        for stream in &mut streams {
            stream.period_ns = (random.below(count * 2) + 1) * 1000;
        }
        let verdict = Bounds::new(link, &streams).vds().unwrap();
        let (seen, _) = run("vds", link, &streams, burst(&streams));
        let violations = seen.iter().map(|seen| seen.violations).sum::<u64>();
        prop_assert!(verdict.windows != Windows::Kept || violations == 0, "{streams:?} {seen:?}");
        note("vds-agrees", u64::from((verdict.windows == Windows::Kept) == (violations == 0)), 1);
        let verdict = Bounds::new(link, &streams).pd2().unwrap();
        let (seen, _) = run("pd2", link, &streams, burst(&streams));
        let violations = seen.iter().map(|seen| seen.violations).sum::<u64>();
        prop_assert!(verdict.windows != Windows::Kept || violations == 0, "{streams:?} {seen:?}");
    }
}

#[test]
fn every_fair_discipline_has_the_guarantee_of_its_catalogue_row() {
    use FairDiscipline::{Drr, Scfq, Sfq, VirtualClock, Wf2q, Wf2qPlus, Wfq, Wirr, Wrr};
    let all = [Wfq, Wf2q, Wf2qPlus, Scfq, Sfq, VirtualClock, Drr, Wrr, Wirr];
    assert_eq!(fair().count(), all.len());
    for ((guarantee, name), discipline) in fair().zip(all) {
        assert_eq!(guarantee.theorem, discipline.guarantee().theorem, "{name}");
    }
}

#[test]
fn the_published_latency_of_drr_is_too_short_where_the_queue_empties_during_service() {
    // Both other streams save 999 bytes. The first packet waits for them until its bucket is full
    // again. The second arrives just after the first starts, when the stream has left the ring.
    let link = Link::new(8_000_000_000, 0);
    let own = StreamLimits { quantum_bytes: 100_000, ..StreamLimits::new(1000, 1000) };
    let other = StreamLimits { quantum_bytes: 1000, ..StreamLimits::new(1, 1000) };
    let streams = [own, other, other];
    let mut arrivals = Vec::new();
    for stream in [1, 2] {
        let lengths = [1, 1000, 1000, 999, 1000];
        arrivals.extend(lengths.map(|bytes| Arrival { time_ns: 0, stream, bytes }));
    }
    arrivals.extend([3, 2003].map(|time_ns| Arrival { time_ns, stream: 0, bytes: 1000 }));
    let (seen, _) = run("drr", link, &streams, arrivals);
    assert_eq!(seen[0].end_ns, 999 + 1000 + 2 * 1999 + 1000 - 1000);
    let bounds = Bounds::new(link, &streams);
    let latency_rate = bounds.latency_rate(FairDiscipline::Drr, 0).unwrap();
    let source = Source { rate_bps: latency_rate.rate_bps, burst_bytes: 1000 };
    let published_ns =
        bounds.drr_latency_ns(0).unwrap() + 1000 * 8_000_000_000 / latency_rate.rate_bps;
    assert_eq!(published_ns, 4018 + 1020);
    assert!(seen[0].end_ns > published_ns);
    // 22 ns below the bound: 1 because the second packet arrived 1 ns after the first started, 20
    // because W/Q bounds ⌊W/Q⌋ turns, and 1 because ρ is rounded down.
    assert_eq!(latency_rate.delay_ns(source), Some(seen[0].end_ns + 22));
}

#[test]
fn a_clock_at_the_nominal_rate_runs_away_from_a_link_of_whole_nanoseconds() {
    // 84 bytes take 67.2 ns at 10 Gbit/s, which is rounded up to 68.
    let link = Link::new(10_000_000_000, 20);
    let stream = StreamLimits { quantum_bytes: 84, ..StreamLimits::new(64, 64) };
    let streams = [stream, stream];
    let mut arrivals: Vec<_> = (0..100_000)
        .map(|packet| Arrival { time_ns: packet * 672 / 10, stream: 1, bytes: 64 })
        .collect();
    arrivals.push(Arrival { time_ns: 6_719_000, stream: 0, bytes: 64 });
    let source = Source { rate_bps: 1_000_000_000, burst_bytes: 84 };
    for (guarantee, name) in fair() {
        let (seen, busy_ns) = run(name, link, &streams, arrivals.clone());
        let bounds = Bounds { busy_ns: Some(busy_ns), ..Bounds::new(link, &streams) };
        let end_ns = seen[0].end_ns;
        let delay_ns = (guarantee.latency_rate)(&bounds, 0).unwrap().delay_ns(source).unwrap();
        println!("{name}: {end_ns} of {delay_ns}");
        assert!(end_ns <= delay_ns);
        let drifts = (guarantee.latency_rate)(&Bounds::new(link, &streams), 0).is_err();
        assert_eq!(drifts, ["wfq", "wf2q", "wf2q+", "virtual-clock"].contains(&name));
    }
}
