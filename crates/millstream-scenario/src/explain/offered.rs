//! The offered load of sources: counts, and the token buckets that the packets fit into.

use millstream::bounds::{ArrivalPattern, Source};
use millstream_traffic::TrafficError;
use std::num::NonZeroU64;

use crate::feeds;
use crate::scenario::{Link, Scenario, Stream};

/// ns in a second × bits in a byte.
const SCALE: u128 = 8_000_000_000;

/// The number of token buckets of each stream: at a guaranteed rate, at a part of the link in
/// proportion to the mean rate ([`EVEN`]), at the mean rate ([`MEAN`]), and at the rate of the
/// stream's cap.
pub(super) const BUCKETS: usize = 4;
/// See [`BUCKETS`].
pub(super) const EVEN: usize = 1;
/// See [`BUCKETS`].
pub(super) const MEAN: usize = 2;

/// A token bucket that is measured.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// The rate at which it drains, bits/s.
    rate_bps: u64,
    /// The level at the last arrival, in byte × ns × bits/s.
    level: u128,
    most: u128,
}

/// The load of one source, as far as it was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offered {
    pub(super) packets: u64,
    /// Bytes without the link's overhead.
    pub(super) bytes: u64,
    wire_bytes: u128,
    pub(super) largest_bytes: u32,
    pub(super) smallest_bytes: u32,
    pub(super) last_ns: u64,
    pub(super) pattern: Option<ArrivalPattern>,
    buckets: [Bucket; BUCKETS],
    /// The beginning of the link's busy period at the last arrival, ns, and the bytes since then on
    /// the wire.
    busy_from_ns: u64,
    bytes_since: u64,
    /// The most bytes in one busy period, on the wire.
    pub(super) busy_bytes: u64,
}

/// The load of all sources.
pub(super) struct OfferedLoads {
    pub(super) streams: Vec<Offered>,
    /// The longest busy period of the link under any discipline, ns. With gates it is the
    /// transmission time of all packets.
    pub(super) busy_ns: u64,
    /// Whether every arrival was read.
    pub(super) complete: bool,
    pub(super) notes: Vec<String>,
}

impl Offered {
    /// Counts a packet in the busy period of the link that began at `busy_from_ns`.
    fn count(&mut self, time_ns: u64, bytes: u32, link: &Link, busy_from_ns: u64) {
        self.smallest_bytes =
            if self.packets == 0 { bytes } else { self.smallest_bytes.min(bytes) };
        self.largest_bytes = self.largest_bytes.max(bytes);
        if let Some(pattern) = &mut self.pattern {
            pattern.record(time_ns);
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
        let wire_bytes = link.wire().wire_bytes(bytes);
        self.wire_bytes += u128::from(wire_bytes);
        for bucket in &mut self.buckets {
            let drained = u128::from(time_ns - self.last_ns) * u128::from(bucket.rate_bps);
            bucket.level = bucket.level.saturating_sub(drained) + u128::from(wire_bytes) * SCALE;
            bucket.most = bucket.most.max(bucket.level);
        }
        self.last_ns = time_ns;
        if self.busy_from_ns < busy_from_ns {
            (self.busy_from_ns, self.bytes_since) = (busy_from_ns, 0);
        }
        self.bytes_since = self.bytes_since.saturating_add(wire_bytes);
        self.busy_bytes = self.busy_bytes.max(self.bytes_since);
    }

    /// Returns the buckets with the least bursts that all packets fit into, bytes on the wire of
    /// the stream's first link. A bucket without a rate is `None`, unless there are no packets.
    pub(super) fn sources(&self) -> [Option<Source>; BUCKETS] {
        self.buckets.map(|bucket| {
            let burst_bytes = u64::try_from(bucket.most.div_ceil(SCALE)).unwrap_or(u64::MAX);
            let source = Source { rate_bps: bucket.rate_bps, burst_bytes };
            Some(source).filter(|source| source.rate_bps > 0 || self.packets == 0)
        })
    }

    /// Returns the mean rate over `span_ns`, on the wire, bits/s, rounded up.
    pub(super) fn mean_bps(&self, span_ns: u64) -> u64 {
        u64::try_from((self.wire_bytes * SCALE).div_ceil(u128::from(span_ns.max(1))))
            .unwrap_or(u64::MAX)
    }
}

impl OfferedLoads {
    /// Reads at most `most` arrivals; `buckets_bps` are the rates of the streams' buckets.
    pub(super) fn of(
        scenario: &Scenario,
        most: u64,
        buckets_bps: &[[u64; BUCKETS]],
    ) -> Result<Self, TrafficError> {
        let mut input = feeds::open(scenario, false)?;
        let offered = |(stream, rates_bps): (&Stream, &[u64; BUCKETS])| {
            let period_ns = stream.period_ns.and_then(NonZeroU64::new);
            let first_deadline_ns = stream.contract.terms().first_deadline_ns;
            Offered {
                buckets: rates_bps.map(|rate_bps| Bucket { rate_bps, ..Bucket::default() }),
                pattern: Some(ArrivalPattern::new(period_ns, first_deadline_ns)),
                ..Offered::default()
            }
        };
        let mut streams: Vec<_> = scenario.streams.iter().zip(buckets_bps).map(offered).collect();
        let first_links: Vec<_> =
            scenario.streams.iter().map(|stream| first_link(scenario, stream)).collect();
        let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
        let (mut busy_ns, mut busy_from_ns, mut free_ns, mut all_ns) = (0, 0, 0u64, 0u64);
        let mut complete = false;
        for _ in 0..most {
            let Some(arrival) = input.feed.next_arrival()?.filter(|a| a.time_ns < until_ns) else {
                complete = true;
                break;
            };
            if arrival.time_ns > free_ns {
                (busy_from_ns, free_ns) = (arrival.time_ns, arrival.time_ns);
            }
            let stream = arrival.stream as usize;
            let link = first_links[stream];
            streams[stream].count(arrival.time_ns, arrival.bytes, link, busy_from_ns);
            let transmission_ns = scenario.link.transmission_ns(arrival.bytes);
            free_ns = free_ns.saturating_add(transmission_ns);
            busy_ns = busy_ns.max(free_ns - busy_from_ns);
            all_ns = all_ns.saturating_add(transmission_ns);
        }
        let gated = scenario.streams.iter().any(|stream| stream.contract.is_limited())
            || scenario.classes.iter().any(|class| class.contract.is_limited());
        let busy_ns = if gated { all_ns } else { busy_ns };
        Ok(Self { streams, busy_ns, complete, notes: input.notes() })
    }

    /// Returns the time of the last arrival, ns.
    pub(super) fn last_ns(&self) -> u64 {
        self.streams.iter().map(|stream| stream.last_ns).max().unwrap_or(0)
    }
}

/// Returns the first link that the packets of a stream pass.
fn first_link<'a>(scenario: &'a Scenario, stream: &Stream) -> &'a Link {
    let mut hops = scenario.network.iter().flat_map(|network| &network.hops);
    let first = hops.find(|hop| hop.direction == stream.direction);
    first.map_or(&scenario.link, |hop| &hop.link)
}
