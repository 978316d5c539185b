//! Published tables, cases worked out by hand, and extreme values.

use core::cmp::Ordering;

use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::exact::sum_fractions;
use super::*;

const FAIR: [FairDiscipline; 9] = [
    FairDiscipline::Wfq,
    FairDiscipline::Wf2q,
    FairDiscipline::Wf2qPlus,
    FairDiscipline::VirtualClock,
    FairDiscipline::Scfq,
    FairDiscipline::Sfq,
    FairDiscipline::Drr,
    FairDiscipline::Wrr,
    FairDiscipline::Wirr,
];

const GIGABIT: Link = Link { rate_bps: 1_000_000_000, overhead_bytes: 0 };

/// VO, VI, CL, EE, BE, BK of the MinBW paper's Table II, lengths and quanta in units of `unit`
/// bytes.
fn minbw(unit: u32) -> Vec<StreamLimits> {
    let row = |(weight, bytes): (u32, u32)| StreamLimits {
        weight,
        quantum_bytes: weight * 2176 / unit,
        ..StreamLimits::new(bytes / unit, bytes / unit)
    };
    [(17, 128), (13, 2176), (13, 2176), (6, 2176), (2, 2176), (1, 2176)].map(row).to_vec()
}

/// To three digits, as the table gives them, in units of 100 ns.
fn three_digits(ns: u64) -> u64 {
    let unit = if ns < 100_000 { 100 } else { 1000 };
    (ns + unit / 2) / unit * unit / 100
}

#[test]
fn the_latencies_of_the_minbw_paper_s_configuration() {
    let link = Link { rate_bps: 2_000_000_000, overhead_bytes: 0 };
    // WFQ by the reserved rate: 12 of 64 are unassigned.
    let mut reserved = minbw(1);
    reserved.push(StreamLimits { weight: 12, ..StreamLimits::new(2176, 2176) });
    let streams = minbw(1);
    let latencies = |streams: &[StreamLimits], discipline| -> Vec<_> {
        let bounds = Bounds::new(link, streams);
        (0..6)
            .map(|at| three_digits(bounds.latency_rate(discipline, at).unwrap().latency_ns))
            .collect()
    };
    let wfq = latencies(&reserved, FairDiscipline::Wfq);
    assert_eq!(wfq, [106, 516, 516, 1020, 2870, 5660]);
    // SCFQ by the share among the six.
    let scfq = latencies(&streams, FairDiscipline::Scfq);
    assert_eq!(scfq, [451, 701, 701, 1110, 2620, 4880]);
    // DRR by the credit of 64 bytes: 2 Gb/s are 31.25 million of them, times 8.
    let streams = minbw(64);
    let credits = Link { rate_bps: 2_000_000_000 / 64, overhead_bytes: 0 };
    let bounds = Bounds::new(credits, &streams);
    let drr: Vec<_> = (0..6).map(|at| three_digits(bounds.drr_latency_ns(at).unwrap())).collect();
    assert_eq!(drr, [3470, 3990, 3990, 4990, 6800, 9090]);
    let frame: u64 = streams.iter().map(|stream| u64::from(stream.quantum_bytes)).sum();
    assert_eq!((frame, frame * 64 * 4), (1768, 452_608));
    // (3·1768 − 2·34)·64 bytes at 4 ns.
    assert_eq!(bounds.drr_classic_latency_ns(5), Some((3 * 1768 - 68) * 256));
}

#[test]
fn two_streams_by_hand() {
    // 1 Gb/s: 8 ns a byte. 100 and 1,000 bytes, weights 1 and 3.
    let small = StreamLimits { weight: 1, quantum_bytes: 500, ..StreamLimits::new(100, 100) };
    let large = StreamLimits { weight: 3, quantum_bytes: 1500, ..StreamLimits::new(500, 1000) };
    let streams = [small, large];
    let bounds = Bounds::new(GIGABIT, &streams);
    let of = |discipline, stream| {
        let promise = bounds.latency_rate(discipline, stream).unwrap();
        (promise.rate_bps, promise.latency_ns, promise.error_ns)
    };
    // Own 100 bytes at 250 Mb/s: 3,200 ns; the other's 1,000: 8,000 ns; tags: 1 ns.
    assert_eq!(of(FairDiscipline::Wfq, 0), (250_000_000, 11_201, 8_001));
    // The clock of WF²Q+ can leap while its own packet is sent.
    assert_eq!(of(FairDiscipline::Wfq, 1).2, 801);
    assert_eq!(of(FairDiscipline::Wf2qPlus, 1).2, 8_001);
    assert_eq!(of(FairDiscipline::Scfq, 0), (250_000_000, 11_201, 8_001));
    // SFQ: (1,000 + 100)·8 in all; 8,000 − 3,200 + 800 by the packet.
    assert_eq!(of(FairDiscipline::Sfq, 0), (250_000_000, 8_801, 5_601));
    // DRR: 1,500 + 999 − 3 + 100 = 2,596 bytes, then 100 at a quarter of the rate.
    assert_eq!(of(FairDiscipline::Drr, 0), (250_000_000, 20_768 + 3_200, 20_768));
    // WRR: 100 bytes of 3,100 a round. 3,000 − 3,000 + 1,000 bytes, and 3,000 + 1,000 + 100.
    assert_eq!(of(FairDiscipline::Wrr, 0), (32_258_064, 32_800, 8_000));
    // 3·500 of 1,600. WRR: 100 − 100/3 + 1,000; WIRR: E = 100.
    assert_eq!(of(FairDiscipline::Wrr, 1).0, 937_500_000);
    assert_eq!(of(FairDiscipline::Wrr, 1).2, 8_534);
    assert_eq!(of(FairDiscipline::Wirr, 1), (937_500_000, 16_800, 8_534));
    // WIRR: the other has 3 − 1 + 1 packets between two of this one.
    assert_eq!(of(FairDiscipline::Wirr, 0), (32_258_064, 8 * 3_200, 800));

    let source = Source { rate_bps: 250_000_000, burst_bytes: 200 };
    let promise = bounds.latency_rate(FairDiscipline::Wfq, 0).unwrap();
    assert_eq!(promise.delay_ns(source), Some(6_400 + 8_001));
    assert_eq!(bounds.start_ns(14_401, 0), 13_601);
    // 250 Mb/s for 11,201 ns are 350.03 bytes.
    assert_eq!(promise.backlog_bytes(source), Some(200 + 351));
    assert_eq!(promise.delay_ns(Source { rate_bps: 250_000_001, ..source }), None);
    // 2,096 bytes and a packet in service; the delay would say more.
    let promise = bounds.latency_rate(FairDiscipline::Drr, 0).unwrap();
    assert_eq!(promise.backlog_bytes(source), Some(200 + 749 + 100));
}

#[test]
fn fifo_and_static_priority_by_hand() {
    let stream = |priority, rate_bps, burst_bytes| StreamLimits {
        priority,
        source: Some(Source { rate_bps, burst_bytes }),
        ..StreamLimits::new(100, 1000)
    };
    let streams = [
        stream(0, 200_000_000, 1000),
        stream(1, 300_000_000, 2000),
        stream(1, 100_000_000, 1500),
        stream(2, 400_000_000, 1000),
    ];
    let mut bounds = Bounds::new(GIGABIT, &streams);
    assert_eq!(bounds.fifo_delay_ns(), Some(5500 * 8));
    let delays = [0, 1, 2, 3, 4].map(|at| bounds.static_priority_delay_ns(at));
    // 2,000 bytes at the rate; 5,500 at 800 Mb/s; 5,500 and no lower at 400 Mb/s.
    assert_eq!(delays, [Some(16_000), Some(55_000), Some(55_000), Some(110_000), None]);
    bounds.link.rate_bps -= 1;
    assert_eq!(bounds.fifo_delay_ns(), None);
}

#[test]
fn whole_nanoseconds_cost_short_packets_most() {
    let effective = |rate_bps, overhead_bytes, streams: &[StreamLimits]| {
        Bounds::new(Link { rate_bps, overhead_bytes }, streams).effective_rate_bps()
    };
    let mixed = [StreamLimits::new(64, 1500)];
    assert_eq!(effective(2_000_000_000, 0, &mixed), 2_000_000_000);
    // 84 bytes at 10 Gb/s: 67.2 ns take 68.
    assert_eq!(effective(10_000_000_000, 20, &[StreamLimits::new(64, 64)]), 9_882_352_941);
    // And less than 68.2 if other lengths are possible.
    assert_eq!(effective(10_000_000_000, 20, &mixed), 9_853_372_434);
    // 80 bytes are 64 ns.
    assert_eq!(effective(10_000_000_000, 0, &[StreamLimits::new(80, 80)]), 10_000_000_000);
    assert_eq!(effective(10_000_000_000, 0, &[]), 10_000_000_000);

    let link = Link { rate_bps: 10_000_000_000, overhead_bytes: 20 };
    let streams = [StreamLimits::new(64, 64); 2];
    let bounds = Bounds::new(link, &streams);
    assert_eq!(bounds.latency_rate(FairDiscipline::Wfq, 0), Err(NoPromise::ClockDrifts));
    let bounds = Bounds { busy_ns: Some(1_000_000), ..bounds };
    // 68 ns rounded up, 1.18 % of a millisecond, tags.
    let promise = bounds.latency_rate(FairDiscipline::Wfq, 0).unwrap();
    assert_eq!((promise.rate_bps, promise.error_ns), (5_000_000_000, 68 + 11_765 + 1));
}

#[test]
fn edf_deadlines_are_for_the_start_of_service() {
    // 125 bytes are 1 µs.
    let verdict = |streams: &[(u64, u32)]| {
        let stream = |&(period_ns, bytes): &(u64, u32)| StreamLimits {
            period_ns,
            ..StreamLimits::new(bytes, bytes)
        };
        let streams: Vec<_> = streams.iter().map(stream).collect();
        Bounds::new(GIGABIT, &streams).edf().unwrap()
    };
    let feasible = |utilisation_ppm| EdfVerdict::Feasible { utilisation_ppm };
    assert_eq!(verdict(&[]), feasible(0));
    assert_eq!(verdict(&[(1000, 125)]), feasible(1_000_000));
    assert_eq!(verdict(&[(2000, 125), (2000, 125)]), feasible(1_000_000));
    // A packet that has just started lasts 1,000 ns; the rush 1 ns later may wait 999.
    assert_eq!(verdict(&[(1000, 25), (9000, 125)]), feasible(311_112));
    let missed = |utilisation_ppm, at_ns| EdfVerdict::Infeasible { utilisation_ppm, at_ns };
    assert_eq!(verdict(&[(999, 25), (9000, 125)]), missed(311_312, Some(999)));
    // Two that must both start within 1,200 ns, the second after 1,000 + 200.
    assert_eq!(verdict(&[(1200, 25), (1200, 25), (9000, 125)]), feasible(444_445));
    assert_eq!(verdict(&[(1199, 25), (1199, 25), (9000, 125)]), missed(444_723, Some(1199)));
    // Overload: of three in 2,000 ns the last starts at 2,000.
    assert_eq!(verdict(&[(2000, 125); 3]), missed(1_500_000, Some(2000)));
    assert_eq!(verdict(&[(1000, 125), (u64::MAX, 125)]), missed(1_000_001, None));
    assert_eq!(Bounds::new(GIGABIT, &[StreamLimits::new(1, 1)]).edf(), None);
}

#[test]
fn windows_and_their_premises() {
    let stream = |slots: u64, lost, of| StreamLimits {
        period_ns: slots * 1000,
        window: Window::new(lost, of).unwrap(),
        ..StreamLimits::new(125, 125)
    };
    let verdict = |windows, utilisation_ppm| Ok(WindowVerdict { windows, utilisation_ppm });
    let both = |streams: &[StreamLimits]| {
        let bounds = Bounds::new(GIGABIT, streams);
        (bounds.dwcs(), bounds.vds())
    };
    let kept = |ppm| verdict(Windows::Kept, ppm);
    assert_eq!(both(&[]), (kept(0), kept(0)));
    // The 1999 paper's example: 1/2, 3/4, 6/8 in one slot. The last asks for two of eight.
    let classic = [stream(1, 1, 2), stream(1, 3, 4), stream(1, 6, 8)];
    let unproven = verdict(Windows::Unproven { stream: 2 }, 1_000_000);
    assert_eq!(both(&classic), (unproven, unproven));
    let ones = [stream(1, 1, 2), stream(1, 3, 4), stream(1, 3, 4)];
    assert_eq!(both(&ones), (kept(1_000_000), kept(1_000_000)));
    let pd2 = |streams: &[StreamLimits]| Bounds::new(GIGABIT, streams).pd2();
    assert_eq!(pd2(&classic), kept(1_000_000));
    let mixed = [stream(2, 1, 3), stream(3, 1, 2), stream(3, 1, 2)];
    assert_eq!(pd2(&mixed), verdict(Windows::Unproven { stream: 0 }, 666_667));
    let more = [stream(1, 1, 2), stream(1, 3, 4), stream(1, 5, 8)];
    assert_eq!(pd2(&more), verdict(Windows::Overloaded, 1_125_000));
    let overloaded = verdict(Windows::Overloaded, 1_125_000);
    assert_eq!(both(&more), (overloaded, overloaded));
    // Three requests fit into a period of three slots, whatever the windows.
    let fit = [stream(3, 1, 3), stream(3, 1, 3), stream(3, 1, 3)];
    assert_eq!(both(&fit), (kept(666_667), verdict(Windows::Unproven { stream: 0 }, 666_667)));
    // Without a window: everything under DWCS, nothing under VDS.
    let free = [stream(2, 0, 0), stream(2, 0, 1)];
    assert_eq!(both(&free), (kept(1_000_000), kept(500_000)));
    let thirds = [stream(3, 0, 1), stream(3, 0, 1), stream(3, 0, 1)];
    assert_eq!(both(&thirds), (kept(1_000_000), kept(1_000_000)));

    let periods = [stream(1, 1, 2), stream(2, 0, 1)];
    let unequal = Err(Premise::UnequalPeriods { stream: 1 });
    assert_eq!(both(&periods), (unequal, kept(1_000_000)));
    let longer = [stream(2, 1, 2), StreamLimits { largest_bytes: 126, ..stream(2, 1, 2) }];
    let unequal = Err(Premise::UnequalLengths { stream: 1 });
    assert_eq!(both(&longer), (unequal, unequal));
    let broken = [StreamLimits { period_ns: 1500, ..stream(1, 1, 2) }];
    let unequal = Err(Premise::PeriodNotMultiple { stream: 0 });
    assert_eq!(both(&broken), (unequal, unequal));
}

#[test]
fn sums_of_fractions_are_compared_with_one_exactly() {
    let against_one = |fractions: &[(u128, u128)]| {
        let sum = sum_fractions(fractions.iter().copied());
        (sum.against_one, sum.ppm)
    };
    assert_eq!(against_one(&[]), (Some(Ordering::Less), 0));
    assert_eq!(against_one(&[(1, 2), (1, 3), (1, 6)]), (Some(Ordering::Equal), 1_000_000));
    let large = (1 << 63) - 25;
    assert_eq!(against_one(&[(large - 1, large), (1, large)]).0, Some(Ordering::Equal));
    assert_eq!(against_one(&[(large - 1, large), (1, large - 2)]).0, Some(Ordering::Greater));
    // Denominators without a common divisor, beyond 128 bits.
    let primes = [1_000_000_007u128, 998_244_353, 1_000_000_009, 1_000_000_021, 1_000_000_033];
    let mut fractions: Vec<_> = primes.iter().map(|&prime| (prime / 5, prime)).collect();
    assert_eq!(against_one(&fractions), (Some(Ordering::Less), 1_000_000));
    fractions.push((1, 1000));
    assert_eq!(against_one(&fractions), (Some(Ordering::Greater), 1_001_000));
    // Nearer to 1 than anyone can tell.
    let near = (1 << 95) - 1;
    let fractions = vec![(near / 2, near), (near / 2 - 1, near - 2), (1, near - 4)];
    assert_eq!(against_one(&fractions).0, None);
    assert_eq!(against_one(&[((1 << 96) - 1, 1), ((1 << 96) - 1, 1)]).1, u64::MAX);
}

/// Any number, the greatest and least more often.
fn any_u64() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), 0..10_000u64, any::<u64>()]
}

fn any_u32() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(u32::MAX), 0..2_000u32, any::<u32>()]
}

fn any_source() -> impl Strategy<Value = Source> {
    (any_u64(), any_u64()).prop_map(|(rate_bps, burst_bytes)| Source { rate_bps, burst_bytes })
}

fn any_stream() -> impl Strategy<Value = StreamLimits> {
    let numbers = (any_u32(), any_u32(), any_u32(), any_u32(), any_u32(), any_u32(), any_u32());
    let rest = (any_u64(), proptest::option::of(any_source()));
    (numbers, rest).prop_map(|((small, large, weight, quantum_bytes, priority, x, y), rest)| {
        StreamLimits {
            weight,
            quantum_bytes,
            priority,
            period_ns: rest.0,
            window: Window::new(x.min(y), x.max(y)).unwrap(),
            source: rest.1,
            ..StreamLimits::new(small.min(large), small.max(large))
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_panics_and_nothing_wraps(
        (rate_bps, overhead_bytes) in (any_u64(), any_u32()),
        streams in proptest::collection::vec(any_stream(), 0..6),
        busy_ns in proptest::option::of(any_u64()),
        source in any_source(),
    ) {
        let link = Link { rate_bps, overhead_bytes };
        let bounds = Bounds { busy_ns, ..Bounds::new(link, &streams) };
        prop_assert!(bounds.effective_rate_bps() <= rate_bps);
        let _ = (bounds.fifo_delay_ns(), bounds.edf(), bounds.vds(), bounds.dwcs());
        let absent = [StreamLimits::new(0, 0)];
        for (stream, own) in streams.iter().chain(&absent).enumerate() {
            let _ = (bounds.start_ns(u64::MAX, stream), bounds.static_priority_delay_ns(stream));
            let _ = bounds.drr_classic_latency_ns(stream);
            let _ = bounds.drr_latency_ns(stream);
            for discipline in FAIR {
                let Ok(promise) = bounds.latency_rate(discipline, stream) else { continue };
                prop_assert!(promise.rate_bps <= rate_bps);
                // A packet does not take less than its time at the link.
                let own_ns = link.transmission_ns(own.largest_bytes);
                prop_assert!(promise.latency_ns >= own_ns.min(u64::MAX / 2), "{promise:?}");
                let backlog = promise.backlog_bytes(source);
                prop_assert_eq!(backlog.is_some(), promise.delay_ns(source).is_some());
                prop_assert!(backlog.is_none_or(|bytes| bytes >= source.burst_bytes));
            }
        }
    }

    #[test]
    fn longer_packets_and_heavier_others_never_shorten_latencies(
        rate_bps in 1_000u64..20_000_000_000,
        lengths in proptest::collection::vec((1u32..200, 0u32..2_000, 1u32..20, 1u32..4_000), 2..6),
        (which, longer) in (any::<prop::sample::Index>(), 1u32..5_000),
    ) {
        let mut streams: Vec<_> = lengths.iter().map(|&(small, more, weight, quantum_bytes)| {
            StreamLimits { weight, quantum_bytes, ..StreamLimits::new(small, small + more + 1) }
        }).collect();
        let link = Link { rate_bps, overhead_bytes: 4 };
        let of = |streams: &[StreamLimits], discipline| {
            let bounds = Bounds { busy_ns: Some(1_000_000), ..Bounds::new(link, streams) };
            bounds.latency_rate(discipline, 0).unwrap()
        };
        let before = FAIR.map(|discipline| of(&streams, discipline));
        let which = which.index(streams.len());
        streams[which].largest_bytes += longer;
        let long = FAIR.map(|discipline| of(&streams, discipline));
        for (before, long) in before.iter().zip(&long) {
            prop_assert!(before.latency_ns <= long.latency_ns, "{before:?} {long:?}");
            prop_assert!(before.error_ns <= long.error_ns, "{before:?} {long:?}");
            prop_assert!(before.rate_bps >= long.rate_bps, "{before:?} {long:?}");
        }
        let other = which.max(1);
        streams[other].weight += longer;
        streams[other].quantum_bytes += longer;
        for ((discipline, before), long) in FAIR.into_iter().zip(&long).zip(
            FAIR.map(|discipline| of(&streams, discipline)),
        ) {
            prop_assert!(before.rate_bps >= long.rate_bps, "{discipline:?} {before:?} {long:?}");
            // WIRR spreads others of weights alike better than smaller ones; ρ falls all the same.
            let longer = before.latency_ns <= long.latency_ns;
            prop_assert!(longer || discipline == FairDiscipline::Wirr, "{discipline:?} {before:?}");
        }
    }
}
