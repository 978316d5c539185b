//! Published tables, cases computed by hand, and extreme values.

use core::cmp::Ordering;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::exact::sum_fractions;
use super::*;
use crate::link::Framing;

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

const GIGABIT: Link = Link::new(1_000_000_000, 0);

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

/// Rounds to three digits, as the table does, in units of 100 ns.
fn three_digits(ns: u64) -> u64 {
    let unit = if ns < 100_000 { 100 } else { 1000 };
    (ns + unit / 2) / unit * unit / 100
}

#[test]
fn the_latencies_of_the_minbw_paper_s_configuration() {
    let link = Link::new(2_000_000_000, 0);
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
    // DRR with a credit of 64 bytes as the unit: 2 Gbit/s / 64 is the rate in units.
    let streams = minbw(64);
    let credits = Link::new(2_000_000_000 / 64, 0);
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
    // 1 Gbit/s: 8 ns per byte. 100 and 1,000 bytes, weights 1 and 3.
    let small = StreamLimits { weight: 1, quantum_bytes: 500, ..StreamLimits::new(100, 100) };
    let large = StreamLimits { weight: 3, quantum_bytes: 1500, ..StreamLimits::new(500, 1000) };
    let streams = [small, large];
    let bounds = Bounds::new(GIGABIT, &streams);
    let of = |discipline, stream| {
        let guarantee = bounds.latency_rate(discipline, stream).unwrap();
        (guarantee.rate_bps, guarantee.latency_ns, guarantee.error_ns)
    };
    // Own 100 bytes at 250 Mbit/s: 3,200 ns; the other's 1,000: 8,000 ns; tags: 1 ns.
    assert_eq!(of(FairDiscipline::Wfq, 0), (250_000_000, 11_201, 8_001));
    // The clock of WF²Q+ can leap while the stream's own packet is sent.
    assert_eq!(of(FairDiscipline::Wfq, 1).2, 801);
    assert_eq!(of(FairDiscipline::Wf2qPlus, 1).2, 8_001);
    assert_eq!(of(FairDiscipline::Scfq, 0), (250_000_000, 11_201, 8_001));
    // SFQ: (1,000 + 100)·8 in all; 8,000 − 3,200 + 800 by the packet.
    assert_eq!(of(FairDiscipline::Sfq, 0), (250_000_000, 8_801, 5_601));
    // DRR: 1,500 + 999 − 3 + 100 = 2,596 bytes, then 100 at a quarter of the rate.
    assert_eq!(of(FairDiscipline::Drr, 0), (250_000_000, 20_768 + 3_200, 20_768));
    // WRR: 100 of 3,100 bytes per round. 3,000 − 3,000 + 1,000 bytes, and 3,000 + 1,000 + 100.
    assert_eq!(of(FairDiscipline::Wrr, 0), (32_258_064, 32_800, 8_000));
    // 3·500 of 1,600. WRR: 100 − 100/3 + 1,000; WIRR: E = 100.
    assert_eq!(of(FairDiscipline::Wrr, 1).0, 937_500_000);
    assert_eq!(of(FairDiscipline::Wrr, 1).2, 8_534);
    assert_eq!(of(FairDiscipline::Wirr, 1), (937_500_000, 16_800, 8_534));
    // WIRR: the other has 3 − 1 + 1 packets between two of this one.
    assert_eq!(of(FairDiscipline::Wirr, 0), (32_258_064, 8 * 3_200, 800));

    let source = Source { rate_bps: 250_000_000, burst_bytes: 200 };
    let guarantee = bounds.latency_rate(FairDiscipline::Wfq, 0).unwrap();
    assert_eq!(guarantee.delay_ns(source), Some(6_400 + 8_001));
    assert_eq!(bounds.start_ns(14_401, 0), 13_601);
    // 250 Mbit/s for 11,201 ns are 350.03 bytes.
    assert_eq!(guarantee.backlog_bytes(source), Some(200 + 351));
    assert_eq!(guarantee.delay_ns(Source { rate_bps: 250_000_001, ..source }), None);
    // 749 bytes arrive within θ = 23,968 ns, plus a packet in service; the delay gives more.
    let guarantee = bounds.latency_rate(FairDiscipline::Drr, 0).unwrap();
    assert_eq!(guarantee.backlog_bytes(source), Some(200 + 749 + 100));
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
    // 2,000 bytes at the link's rate; 5,500 at 800 Mbit/s; 5,500, none lower, at 400 Mbit/s.
    assert_eq!(delays, [Some(16_000), Some(55_000), Some(55_000), Some(110_000), None]);
    bounds.link.rate_bps -= 1;
    assert_eq!(bounds.fifo_delay_ns(), None);
}

#[test]
fn fifo_and_static_priority_have_no_bound_beyond_the_link() {
    let stream = |priority, rate_bps| StreamLimits {
        priority,
        source: Some(Source { rate_bps, burst_bytes: 1000 }),
        ..StreamLimits::new(100, 1000)
    };
    let delays = |streams: &[StreamLimits]| {
        let bounds = Bounds::new(GIGABIT, streams);
        (bounds.fifo_delay_ns(), [0, 1].map(|at| bounds.static_priority_delay_ns(at)))
    };
    let full = [stream(0, 1_000_000_000), stream(1, 0)];
    // Higher packets take the whole link.
    assert_eq!(delays(&full), (Some(16_000), [Some(16_000), None]));
    let over = [stream(0, 900_000_000), stream(1, 100_000_001)];
    assert_eq!(delays(&over), (None, [Some(16_000), None]));
    let endless = [stream(0, 1), StreamLimits { source: None, ..stream(1, 1) }];
    assert_eq!(delays(&endless), (None, [Some(16_000), None]));
    assert_eq!(delays(&[]), (Some(0), [None, None]));
}

#[test]
fn streams_without_a_share_have_no_guarantee() {
    let stream = StreamLimits { quantum_bytes: 100, ..StreamLimits::new(100, 100) };
    let of = |rate_bps, stream: StreamLimits, at, discipline| {
        let link = Link::new(rate_bps, 0);
        Bounds::new(link, &[stream, stream]).latency_rate(discipline, at).map(|of| of.rate_bps)
    };
    let giga = 1_000_000_000;
    for discipline in FAIR {
        assert_eq!(of(giga, stream, 1, discipline), Ok(giga / 2), "{discipline:?}");
        assert_eq!(of(giga, stream, 2, discipline), Err(NoPromise::UnknownStream));
        assert_eq!(of(0, stream, 1, discipline), Err(NoPromise::NoShare), "{discipline:?}");
        let nothing = StreamLimits { weight: 0, quantum_bytes: 0, ..stream };
        assert_eq!(of(giga, nothing, 0, discipline), Err(NoPromise::NoShare), "{discipline:?}");
    }
    let unknown = StreamLimits { smallest_bytes: 0, ..stream };
    for discipline in [FairDiscipline::Wrr, FairDiscipline::Wirr] {
        assert_eq!(of(giga, unknown, 0, discipline), Err(NoPromise::NoShare), "{discipline:?}");
    }
    let empty = [StreamLimits { quantum_bytes: 0, ..stream }];
    let bounds = Bounds::new(GIGABIT, &empty);
    assert_eq!((bounds.drr_latency_ns(0), bounds.drr_latency_ns(1)), (None, None));
    assert_eq!(
        (bounds.drr_classic_latency_ns(0), bounds.drr_classic_latency_ns(1)),
        (Some(0), None)
    );
    assert_eq!((bounds.start_ns(9_000, 0), bounds.start_ns(9_000, 1)), (8_200, 0));
    let stopped = Link::new(0, 0);
    assert_eq!(Bounds::new(stopped, &empty).start_ns(9_000, 0), 0);
    // Nothing is sent.
    let waiting = [StreamLimits { quantum_bytes: 10, ..stream }; 2];
    let bounds = Bounds::new(stopped, &waiting);
    let never = Some(u64::MAX);
    assert_eq!((bounds.drr_latency_ns(0), bounds.drr_classic_latency_ns(0)), (never, never));
    let alone = Bounds::new(GIGABIT, &[]);
    assert_eq!(alone.latency_rate(FairDiscipline::Wfq, 0), Err(NoPromise::UnknownStream));
}

#[test]
fn round_robins_of_three_streams_by_hand() {
    // 8 ns a byte.
    let stream = |weight, quantum_bytes, smallest, largest| StreamLimits {
        weight,
        quantum_bytes,
        ..StreamLimits::new(smallest, largest)
    };
    let streams = [stream(5, 100, 100, 100), stream(2, 100, 60, 70), stream(9, 100, 1, 300)];
    let bounds = Bounds::new(GIGABIT, &streams);
    let of = |discipline| {
        let promise = bounds.latency_rate(discipline, 0).unwrap();
        (promise.rate_bps, promise.latency_ns, promise.error_ns)
    };
    // X = 2·70 + 9·300 = 2,840: 500 of 3,340. X − X/5 + 300, and X + 300 + 100.
    assert_eq!(of(FairDiscipline::Wrr), (149_700_598, 25_920, 20_576));
    // E = ⌈2·4·70/5⌉ + (9 − 5 + 1)·300 = 1,612. E − X/5 + 100, and E + 2·100.
    assert_eq!(of(FairDiscipline::Wirr), (149_700_598, 14_496, 9_152));
    // A third. 200 + 69 + 299 − 200/100 + 100, and 100 at a third.
    assert_eq!(of(FairDiscipline::Drr), (333_333_333, 5_328 + 2_400, 5_328));
    // The only stream has the link, behind its own packet in service.
    let alone = Bounds::new(GIGABIT, &streams[..1]);
    for discipline in [FairDiscipline::Wrr, FairDiscipline::Wirr, FairDiscipline::Drr] {
        let promise = alone.latency_rate(discipline, 0).unwrap();
        let found = (promise.rate_bps, promise.latency_ns, promise.error_ns);
        assert_eq!(found, (1_000_000_000, 1_600, 800), "{discipline:?}");
    }
    for discipline in [FairDiscipline::Wfq, FairDiscipline::Scfq] {
        let promise = alone.latency_rate(discipline, 0).unwrap();
        let found = (promise.rate_bps, promise.latency_ns, promise.error_ns);
        assert_eq!(found, (1_000_000_000, 801, 1), "{discipline:?}");
    }
    // Empty packets: in service is a byte of the other stream. 1 + 100 + 99 − 100/100.
    let empty = [stream(1, 100, 0, 0), stream(1, 100, 100, 100)];
    let promise = Bounds::new(GIGABIT, &empty).latency_rate(FairDiscipline::Drr, 0).unwrap();
    assert_eq!((promise.error_ns, promise.latency_ns, promise.carried_bytes), (1_592, 1_592, 0));
}

#[test]
fn rounded_tags_delay_by_a_grain_for_each_weight() {
    // 2³¹ weights of 2⁻³⁹ bytes at 1,000 bytes a second: 3,906,250 ns, and 100 bytes of the others.
    let streams = [StreamLimits { weight: 1 << 30, ..StreamLimits::new(100, 100) }; 2];
    let bounds = Bounds::new(Link::new(8_000, 0), &streams);
    for discipline in [FairDiscipline::Wfq, FairDiscipline::Wf2qPlus, FairDiscipline::Scfq] {
        let promise = bounds.latency_rate(discipline, 0).unwrap();
        let (rate_bps, error_ns) = (promise.rate_bps, promise.error_ns);
        assert_eq!((rate_bps, error_ns), (4_000, 100_000_000 + 3_907), "{discipline:?}");
        assert_eq!(promise.latency_ns, 300_000_000 + 3_907, "{discipline:?}");
    }
    let promise = bounds.latency_rate(FairDiscipline::Sfq, 0).unwrap();
    assert_eq!((promise.error_ns, promise.latency_ns), (3_907, 200_000_000 + 3_907));
}

#[test]
fn delays_and_backlogs_follow_from_rate_and_error() {
    let promise = LatencyRate {
        rate_bps: 8_000_000,
        latency_ns: 500_000,
        error_ns: -1_000,
        carried_bytes: 9,
    };
    let source = Source { rate_bps: 8_000_000, burst_bytes: 100 };
    // 100 µs of the burst; 100 + 99 bytes by then, or 100 + 500 + 9 by θ.
    assert_eq!(promise.delay_ns(source), Some(99_000));
    assert_eq!(promise.backlog_bytes(source), Some(199));
    let early = LatencyRate { latency_ns: 10_001, ..promise };
    assert_eq!(early.backlog_bytes(source), Some(100 + 11 + 9));
    let faster = Source { rate_bps: 8_000_001, ..source };
    assert_eq!((promise.delay_ns(faster), promise.backlog_bytes(faster)), (None, None));
    let nothing = LatencyRate { rate_bps: 0, ..promise };
    assert_eq!(nothing.delay_ns(Source { rate_bps: 0, ..source }), None);
    let endless = LatencyRate { error_ns: i64::MAX, ..promise };
    assert_eq!(endless.delay_ns(source), Some(u64::MAX));
}

#[test]
fn below_a_channel_the_link_is_slower_and_late() {
    let small = StreamLimits { weight: 1, quantum_bytes: 500, ..StreamLimits::new(100, 100) };
    let large = StreamLimits { weight: 3, quantum_bytes: 1500, ..StreamLimits::new(500, 1000) };
    let streams = [small, large];
    let bounds = Bounds::new(GIGABIT, &streams);
    let below = |discipline, rate_bps, burst_bytes| {
        let bucket = Source { rate_bps, burst_bytes };
        let channel = Channel { smallest_bytes: 50, largest_bytes: 150, bucket };
        let promise = bounds.latency_rate_below(discipline, 0, &channel)?;
        Ok((promise.rate_bps, promise.latency_ns, promise.error_ns, promise.carried_bytes))
    };
    // 800 Mbit/s, 10 ns a byte, are left: 1,000 bytes of the other, 400 + 150 of the channel.
    let wfq = Ok((200_000_000, 4_000 + 10_001 + 5_500, 10_001 + 5_500, 0));
    assert_eq!(below(FairDiscipline::Wfq, 200_000_000, 400), wfq);
    // A packet of 150 is sent whole, though the burst is less.
    let late = Ok((200_000_000, 4_000 + 10_001 + 3_000, 10_001 + 3_000, 0));
    assert_eq!(below(FairDiscipline::Wfq, 200_000_000, 100), late);
    let drr = Ok((200_000_000, 25_960 + 4_000 + 5_500, 25_960 + 5_500, 100));
    assert_eq!(below(FairDiscipline::Drr, 200_000_000, 400), drr);
    assert_eq!(below(FairDiscipline::Drr, 1_000_000_000, 400), Err(NoPromise::NoShare));
    assert_eq!(below(FairDiscipline::Drr, 1_000_000_001, 400), Err(NoPromise::NoShare));
}

#[test]
fn below_a_channel_a_clock_gains_what_the_whole_link_rounds() {
    let link = Link::new(10_000_000_000, 20);
    let streams = [StreamLimits::new(64, 64); 2];
    let below = |discipline, busy_ns, largest_bytes, rate_bps| {
        let bucket = Source { rate_bps, burst_bytes: 84 };
        let channel = Channel { smallest_bytes: 64, largest_bytes, bucket };
        let bounds = Bounds { busy_ns, ..Bounds::new(link, &streams) };
        let promise = bounds.latency_rate_below(discipline, 0, &channel)?;
        Ok((promise.rate_bps, promise.latency_ns, promise.error_ns))
    };
    // 9,882,352,941 bits/s are sent, 8 Gbit/s are left: 1 ns a byte.
    let rate_bps = 1_882_352_941;
    let (wfq, scfq) = (FairDiscipline::Wfq, FairDiscipline::Scfq);
    assert_eq!(below(wfq, None, 64, rate_bps), Err(NoPromise::ClockDrifts));
    // 117,647,059 of 8·10⁹ in a millisecond.
    let drifts = Ok((4_000_000_000, 168 + 85 + 168 + 14_706, 85 + 168 + 14_706));
    assert_eq!(below(wfq, Some(1_000_000), 64, rate_bps), drifts);
    let own = Ok((4_000_000_000, 168 + 85 + 168, 85 + 168));
    assert_eq!(below(scfq, None, 64, rate_bps), own);
    assert_eq!(below(scfq, Some(1_000_000), 64, rate_bps), own);
    // Packets of 64 to 1,500 bytes round more: 9,853,372,434 bits/s.
    let mixed = Ok((4_000_000_000, 168 + 85 + 3_040, 85 + 3_040));
    assert_eq!(below(scfq, None, 1500, 1_853_372_434), mixed);
}

#[test]
fn a_channel_is_limited_by_its_contract() {
    let rate_bps = NonZeroU64::new(7).unwrap();
    let capped = Contract::new().max_rate(crate::contract::MaxRate { rate_bps, burst_bytes: 9 });
    let bucket = Source { rate_bps: 7, burst_bytes: 9 };
    let channel = Channel { smallest_bytes: 1, largest_bytes: 2, bucket };
    assert_eq!(Channel::of(&capped, 1, 2), Some(channel));
    assert_eq!(Channel::of(&Contract::new(), 1, 2), None);
}

#[test]
fn limits_are_those_of_the_contract() {
    let contract = Contract::new().weight(3).unwrap().quantum_bytes(700).unwrap();
    let contract = contract.period_ns(50).unwrap().window(Window::new(1, 4).unwrap()).priority(2);
    let contract = contract.first_deadline_ns(60).late(Late::Drop).queue(5);
    let limits = StreamLimits::of(&contract, 64, 1500);
    let expected = StreamLimits {
        smallest_bytes: 64,
        largest_bytes: 1500,
        weight: 3,
        quantum_bytes: 700,
        priority: 2,
        period_ns: 50,
        window: Window::new(1, 4).unwrap(),
        first_deadline_ns: Some(60),
        late: Late::Drop,
        queue: Some(5),
        gated: false,
        cap: None,
        is_class: false,
        source: None,
        arrivals: None,
    };
    assert_eq!(limits, expected);
    assert!(StreamLimits::of(&contract.clone().credits(1), 64, 1500).gated);
    assert_eq!(StreamLimits::of(&Contract::new(), 64, 1500), StreamLimits::new(64, 1500));
}

#[test]
fn a_missing_guarantee_has_its_reason() {
    let text = |reason: NoPromise| reason.to_string();
    assert_eq!(text(NoPromise::UnknownStream), "the stream is out of range");
    assert!(text(NoPromise::NoShare).contains("no share of the link"));
    assert!(text(NoPromise::ClockDrifts).contains("not whole nanoseconds"));
}

#[test]
fn ratios_are_rounded_up_and_saturate() {
    use super::exact::{
        ceil_ns, ceil_signed_ns, greatest_common_divisor, narrow, plus_error, ratio_up,
        signed_product,
    };
    assert_eq!([narrow(7), narrow(u128::MAX)], [7, u64::MAX]);
    assert_eq!([(6, 3), (7, 3), (0, 3), (0, 0)].map(|(a, b)| ratio_up(a, b)), [2, 3, 0, u64::MAX]);
    assert_eq!([ceil_ns(Some(7), 2), ceil_ns(None, 2)], [4, u64::MAX]);
    let signed = |over| ceil_signed_ns(Some(over), 2);
    assert_eq!([7, 8, -7, -8, 0].map(signed), [4, 4, -3, -4, 0]);
    assert_eq!([i128::MAX, i128::MIN].map(signed), [i64::MAX, i64::MIN]);
    assert_eq!(ceil_signed_ns(None, 2), i64::MAX);
    assert_eq!([plus_error(5, -2), plus_error(5, -9), plus_error(5, i64::MAX)], [3, 0, u64::MAX]);
    assert_eq!(signed_product(3, 4), Some(12));
    assert_eq!([signed_product(1 << 127, 1), signed_product(1 << 64, 1 << 64)], [None, None]);
    let divisor = |a, b| greatest_common_divisor(a, b);
    assert_eq!([divisor(12, 18), divisor(0, 5), divisor(5, 0), divisor(7, 9)], [6, 5, 5, 1]);
}

#[test]
fn whole_nanoseconds_cost_short_packets_most() {
    let effective = |rate_bps, overhead_bytes, streams: &[StreamLimits]| {
        Bounds::new(Link::new(rate_bps, overhead_bytes), streams).effective_rate_bps()
    };
    let mixed = [StreamLimits::new(64, 1500)];
    assert_eq!(effective(2_000_000_000, 0, &mixed), 2_000_000_000);
    // 84 bytes at 10 Gbit/s: 67.2 ns are rounded up to 68.
    assert_eq!(effective(10_000_000_000, 20, &[StreamLimits::new(64, 64)]), 9_882_352_941);
    // The bound is less than 68.2 if other lengths are possible.
    assert_eq!(effective(10_000_000_000, 20, &mixed), 9_853_372_434);
    // 80 bytes are 64 ns.
    assert_eq!(effective(10_000_000_000, 0, &[StreamLimits::new(80, 80)]), 10_000_000_000);
    assert_eq!(effective(10_000_000_000, 0, &[]), 10_000_000_000);

    let link = Link::new(10_000_000_000, 20);
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
    // A packet that has just started lasts 1,000 ns; the burst 1 ns later may wait 999.
    assert_eq!(verdict(&[(1000, 25), (9000, 125)]), feasible(311_112));
    let missed = |utilisation_ppm, at_ns| EdfVerdict::Infeasible { utilisation_ppm, at_ns };
    assert_eq!(verdict(&[(999, 25), (9000, 125)]), missed(311_312, Some(999)));
    // Two packets must both start within 1,200 ns, the second after 1,000 + 200.
    assert_eq!(verdict(&[(1200, 25), (1200, 25), (9000, 125)]), feasible(444_445));
    assert_eq!(verdict(&[(1199, 25), (1199, 25), (9000, 125)]), missed(444_723, Some(1199)));
    // Overload: the last of three packets in 2,000 ns starts at 2,000.
    assert_eq!(verdict(&[(2000, 125); 3]), missed(1_500_000, Some(2000)));
    assert_eq!(verdict(&[(1000, 125), (u64::MAX, 125)]), missed(1_000_001, None));
    // An empty packet counts as a nanosecond.
    assert_eq!(verdict(&[(1000, 0)]), feasible(1000));
    assert_eq!(Bounds::new(GIGABIT, &[StreamLimits::new(1, 1)]).edf(), None);
    // Nearly all of the link, and deadlines for 2⁶⁰ ns.
    let full = [(10_000_000, 1_249_999), (1 << 60, 1), (1 << 60, 1)];
    assert_eq!(verdict(&full), EdfVerdict::TooLong { utilisation_ppm: 1_000_000 });
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
    // The 1999 paper's example: 1/2, 3/4, 6/8 in one slot. The last requires two of eight.
    let classic = [stream(1, 1, 2), stream(1, 3, 4), stream(1, 6, 8)];
    let unproven = verdict(Windows::Unproven { stream: 2 }, 1_000_000);
    assert_eq!(both(&classic), (unproven, unproven));
    let ones = [stream(1, 1, 2), stream(1, 3, 4), stream(1, 3, 4)];
    assert_eq!(both(&ones), (kept(1_000_000), kept(1_000_000)));
    let pd2 = |streams: &[StreamLimits]| Bounds::new(GIGABIT, streams).pd2();
    assert_eq!(pd2(&classic), kept(1_000_000));
    // Two of three requests count with all three: 1/2 + 1/6 + 1/6, or 1 + 1/6 + 1/6.
    let mixed = [stream(2, 1, 3), stream(3, 1, 2), stream(3, 1, 2)];
    assert_eq!(pd2(&mixed), kept(666_667));
    let tight = [stream(1, 1, 3), stream(3, 1, 2), stream(3, 1, 2)];
    assert_eq!(pd2(&tight), verdict(Windows::Unproven { stream: 0 }, 1_000_000));
    let more = [stream(1, 1, 2), stream(1, 3, 4), stream(1, 5, 8)];
    assert_eq!(pd2(&more), verdict(Windows::Overloaded, 1_125_000));
    let overloaded = verdict(Windows::Overloaded, 1_125_000);
    assert_eq!(both(&more), (overloaded, overloaded));
    // Three requests fit into a period of three slots, whatever the windows.
    let fit = [stream(3, 1, 3), stream(3, 1, 3), stream(3, 1, 3)];
    assert_eq!(both(&fit), (kept(666_667), kept(666_667)));
    // A stream without a window requires every request under DWCS, none under VDS.
    let free = [stream(2, 0, 0), stream(2, 0, 1)];
    assert_eq!(both(&free), (kept(1_000_000), kept(500_000)));
    assert_eq!(pd2(&free), kept(500_000));
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
    fractions.push((3, 1));
    assert_eq!(against_one(&fractions), (Some(Ordering::Greater), 4_001_000));
    // A third of three denominators each: 3, which is not exact, so one millionth more.
    let pairs = primes.chunks_exact(2).chain([&[1_000_000_087, 1_000_000_093][..]]);
    let thirds = pairs.flat_map(|of| {
        let (p, q) = (of[0], of[1]);
        [(1, p), (1, q), (p * q - p - q, p * q)]
    });
    let thirds: Vec<_> = thirds.collect();
    assert_eq!(against_one(&thirds), (Some(Ordering::Greater), 3_000_001));
    // Too close to 1 for 128 bits to decide.
    let near = (1 << 95) - 1;
    let fractions = vec![(near / 2, near), (near / 2 - 1, near - 2), (1, near - 4)];
    assert_eq!(against_one(&fractions).0, None);
    assert_eq!(against_one(&[((1 << 96) - 1, 1), ((1 << 96) - 1, 1)]).1, u64::MAX);
}

/// Generates any number, the greatest and least more often.
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
    // The number of cases is PROPTEST_CASES, or proptest's default.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_nothing_wraps(
        (rate_bps, overhead_bytes) in (any_u64(), any::<i32>()),
        framing in prop::sample::select(&[Framing::None, Framing::Atm, Framing::Ptm]),
        streams in proptest::collection::vec(any_stream(), 0..6),
        busy_ns in proptest::option::of(any_u64()),
        source in any_source(),
    ) {
        let link = Link::new(rate_bps, overhead_bytes).framed(framing);
        let bounds = Bounds { busy_ns, ..Bounds::new(link, &streams) };
        prop_assert!(bounds.effective_rate_bps() <= rate_bps);
        let _ = (bounds.fifo_delay_ns(), bounds.edf(), bounds.vds(), bounds.dwcs());
        let absent = [StreamLimits::new(0, 0)];
        for (stream, own) in streams.iter().chain(&absent).enumerate() {
            let _ = (bounds.start_ns(u64::MAX, stream), bounds.static_priority_delay_ns(stream));
            let _ = bounds.drr_classic_latency_ns(stream);
            let _ = bounds.drr_latency_ns(stream);
            for discipline in FAIR {
                let Ok(guarantee) = bounds.latency_rate(discipline, stream) else { continue };
                prop_assert!(guarantee.rate_bps <= rate_bps);
                // The latency is at least the packet's transmission time.
                let own_ns = link.transmission_ns(own.largest_bytes);
                prop_assert!(guarantee.latency_ns >= own_ns.min(u64::MAX / 2), "{guarantee:?}");
                let backlog = guarantee.backlog_bytes(source);
                prop_assert_eq!(backlog.is_some(), guarantee.delay_ns(source).is_some());
                prop_assert!(backlog.is_none_or(|bytes| bytes >= source.burst_bytes));
                let path = guarantee.then(guarantee, source.burst_bytes).delayed(source.rate_bps);
                prop_assert!(path.latency_ns >= source.rate_bps);
                let _ = (path.delay_ns(source), path.output(source));
                let (packets, return_ns) = (source.rate_bps % 9, own_ns);
                let gated = Gated {
                    link_bps: rate_bps,
                    smallest_bytes: own_ns / 2,
                    largest_bytes: own_ns,
                    cap: Some(source),
                    credits: Some(CreditWindow { packets, return_ns }),
                };
                let is_slower = |of: LatencyRate| of.rate_bps <= path.rate_bps;
                for of in [Gated { credits: None, ..gated }, Gated { cap: None, ..gated }, gated] {
                    prop_assert!(of.guarantee(path).is_none_or(is_slower));
                }
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
        let link = Link::new(rate_bps, 4);
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
            // WIRR interleaves streams of equal weight better than lighter ones; ρ falls anyway.
            let longer = before.latency_ns <= long.latency_ns;
            prop_assert!(longer || discipline == FairDiscipline::Wirr, "{discipline:?} {before:?}");
        }
    }
}
