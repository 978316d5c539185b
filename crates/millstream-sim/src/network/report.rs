//! The results of a network.

use hdrhistogram::Histogram;
use millstream_scenario::{Direction, Network, Scenario, Source};

use super::sender::Sender;

/// The results of all links and of the sources that react.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkReport {
    /// The links in the order of [`Network::hops`].
    pub hops: Vec<HopReport>,
    /// The streams with `tcp`, `web`, `echo` or `adaptive` sources, in file order.
    pub sources: Vec<SourceReport>,
}

/// The results of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopReport {
    /// The name.
    pub name: String,
    /// The direction of its packets.
    pub direction: Direction,
    /// The packets and bytes that it has sent, without overhead.
    pub sent_packets: u64,
    /// See `sent_packets`.
    pub sent_bytes: u64,
    /// How long it transmitted, ns.
    pub busy_ns: u64,
    /// The packets dropped at limits.
    pub dropped_full: u64,
    /// The packets that queue management dropped.
    pub dropped_by_aqm: u64,
    /// The late packets that were dropped.
    pub dropped_late: u64,
    /// The packets that queue management marked.
    pub marked: u64,
    /// The packets lost on the link.
    pub lost: u64,
    /// The queueing delay of the packets that it has sent.
    pub delay: Times,
}

/// The results of a `tcp`, `web`, `echo` or `adaptive` source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceReport {
    /// The stream.
    pub stream: String,
    /// The data packets or requests sent, with retransmissions.
    pub sent_packets: u64,
    /// The bytes that receivers got for the first time, without headers; of an echo source those of
    /// answered requests.
    pub delivered_bytes: u64,
    /// The packets sent again.
    pub retransmissions: u64,
    /// The timeouts.
    pub timeouts: u64,
    /// The packets that arrived with a mark.
    pub marked: u64,
    /// The changes of the rate of adaptive video.
    pub rate_changes: u64,
    /// The round-trip times.
    pub rtt: Times,
    /// The durations of completed transfers.
    pub transfers: Times,
    /// The transfers of a `tcp` source with an end; `None` for others.
    pub completions: Option<Completions>,
    /// The pages of a `web` source; `None` for others.
    pub pages: Option<Pages>,
}

/// The largest transfers of each class of sizes but the last, bytes.
pub const SIZE_CLASSES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// The transfers of a `tcp` source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completions {
    /// The transfers that began or waited to begin.
    pub offered: u64,
    /// The transfers that waited for a connection.
    pub waited: u64,
    /// The transfers that were not complete at the end, or still waited.
    pub unfinished: u64,
    /// The durations of completed transfers, with the wait for a connection, by
    /// [`SIZE_CLASSES`]; the last class is above all of them.
    pub by_size: [Times; SIZE_CLASSES.len() + 1],
}

/// The pages of a `web` source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The pages that a client began to load.
    pub begun: u64,
    /// The pages that were not complete at the end.
    pub unfinished: u64,
    /// The load times: from the begin of the handshake to the arrival of the last object.
    pub load: Times,
}

/// A summary of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The number of times.
    pub count: u64,
    /// The mean, ns, rounded down.
    pub mean_ns: u64,
    /// The median, ns, at most 0.1 % too long.
    pub p50_ns: u64,
    /// The 95th percentile, ns, at most 0.1 % too long.
    pub p95_ns: u64,
    /// The 99th percentile, ns, at most 0.1 % too long.
    pub p99_ns: u64,
    /// The 99.9th percentile, ns, at most 0.1 % too long.
    pub p999_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

/// Times as they are recorded.
#[derive(Clone, Debug)]
pub(super) struct TimesRecorder {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for TimesRecorder {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("three digits are valid");
        Self { histogram, sum_ns: 0, max_ns: 0 }
    }
}

impl TimesRecorder {
    #[inline]
    pub(super) fn record(&mut self, time_ns: u64) {
        // It grows to any time, so that recording cannot fail.
        let _ = self.histogram.record(time_ns);
        self.sum_ns += u128::from(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(super) fn summary(&self) -> Times {
        let count = self.histogram.len();
        let quantile = |of| self.histogram.value_at_quantile(of).min(self.max_ns);
        Times {
            count,
            mean_ns: u64::try_from(self.sum_ns / u128::from(count.max(1))).unwrap_or(u64::MAX),
            p50_ns: quantile(0.5),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.max_ns,
        }
    }
}

/// What a hop counts.
#[derive(Debug, Default)]
pub(super) struct HopCounts {
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) busy_ns: u64,
    pub(super) dropped_full: u64,
    pub(super) dropped_by_aqm: u64,
    pub(super) dropped_late: u64,
    pub(super) marked: u64,
    pub(super) lost: u64,
    pub(super) delay: TimesRecorder,
}

/// What is counted of the source of a stream.
#[derive(Debug, Default)]
pub(super) struct SourceCounts {
    pub(super) sent_packets: u64,
    pub(super) delivered_bytes: u64,
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    pub(super) marked: u64,
    pub(super) rate_changes: u64,
    pub(super) rtt: TimesRecorder,
    pub(super) transfers: TimesRecorder,
    /// The transfers or pages that began or waited to begin.
    pub(super) offered: u64,
    pub(super) waited: u64,
    pub(super) by_size: [TimesRecorder; SIZE_CLASSES.len() + 1],
    pub(super) pages: TimesRecorder,
}

impl SourceCounts {
    /// Records a transfer of `bytes` that took `time_ns`.
    pub(super) fn completed(&mut self, bytes: u64, time_ns: u64) {
        self.transfers.record(time_ns);
        self.by_size[SIZE_CLASSES.partition_point(|most| *most < bytes)].record(time_ns);
    }

    fn completions(&self) -> Completions {
        Completions {
            offered: self.offered,
            waited: self.waited,
            unfinished: self.offered - self.transfers.count(),
            by_size: self.by_size.each_ref().map(TimesRecorder::summary),
        }
    }

    fn pages(&self) -> Pages {
        Pages {
            begun: self.offered,
            unfinished: self.offered - self.pages.count(),
            load: self.pages.summary(),
        }
    }

    /// Adds the counts of a sender at the end of its transfer or of the run.
    pub(super) fn add_transfer(&mut self, sender: &Sender) {
        self.retransmissions += sender.retransmissions;
        self.timeouts += sender.timeouts;
    }
}

impl NetworkReport {
    pub(super) fn new<'a>(
        scenario: &Scenario,
        network: &Network,
        hops: impl Iterator<Item = &'a HopCounts>,
        sources: &[SourceCounts],
    ) -> Self {
        let hop = |(hop, counts): (&millstream_scenario::Hop, &HopCounts)| HopReport {
            name: hop.name.clone(),
            direction: hop.direction,
            sent_packets: counts.sent_packets,
            sent_bytes: counts.sent_bytes,
            busy_ns: counts.busy_ns,
            dropped_full: counts.dropped_full,
            dropped_by_aqm: counts.dropped_by_aqm,
            dropped_late: counts.dropped_late,
            marked: counts.marked,
            lost: counts.lost,
            delay: counts.delay.summary(),
        };
        let streams = scenario.streams.iter().zip(sources);
        let source =
            |(stream, counts): (&millstream_scenario::Stream, &SourceCounts)| SourceReport {
                stream: stream.name.clone(),
                sent_packets: counts.sent_packets,
                delivered_bytes: counts.delivered_bytes,
                retransmissions: counts.retransmissions,
                timeouts: counts.timeouts,
                marked: counts.marked,
                rate_changes: counts.rate_changes,
                rtt: counts.rtt.summary(),
                transfers: counts.transfers.summary(),
                completions: matches!(&stream.source, Source::Tcp(tcp) if tcp.transfer.is_some())
                    .then(|| counts.completions()),
                pages: matches!(stream.source, Source::Web(_)).then(|| counts.pages()),
            };
        Self {
            hops: network.hops.iter().zip(hops).map(hop).collect(),
            sources: streams.filter(|(stream, _)| stream.source.reacts()).map(source).collect(),
        }
    }
}
