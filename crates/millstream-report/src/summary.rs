//! The summary JSON; field names and their order define the file format.
//!
//! Every serialiser of [`Summary`] writes this format. Names end in their units and integers are
//! exact. The fractions, utilisation and tightness, are rounded to six decimals, so that their text
//! does not depend on the platform. The delay of a stream without sent packets is null, not 0.

use serde::Serialize;

use crate::network::NetworkSummary;
use crate::recorder::{DelayBound, Results, StreamResults};

/// The summary of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The summary of the link.
    pub link: LinkSummary,
    /// The summaries of the streams in file order.
    pub streams: Vec<StreamSummary>,
    /// The links and sources of a network; absent for a single link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSummary>,
    /// The summary of the end-system card; `None` for a run without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_system: Option<EndSystemSummary>,
}

/// The summary of an end-system card and its bus.
#[derive(Clone, Debug, Serialize)]
pub struct EndSystemSummary {
    /// The name of the bus.
    pub bus: &'static str,
    /// The card's clock, Hz.
    pub clock_hz: u64,
    /// The number of packets that left the card, sent or dropped late.
    pub packets: u64,
    /// The number of decisions, including those without a winner.
    pub decisions: u64,
    /// The number of cycles from one decision to the next without waiting.
    pub decision_cycles: u64,
    /// The time from the first arrival until the last winner was read, ns.
    pub span_ns: u64,
    /// `packets` per second of `span_ns`; null if `span_ns` is 0.
    pub packets_per_second: Option<u64>,
    /// The capacity of the bus, packets per second; null if transfers cost nothing.
    pub bus_packets_per_second: Option<u64>,
    /// The decision capacity of the card, packets per second.
    pub card_packets_per_second: Option<u64>,
    /// The time that the bus was busy with the four kinds of transfers below, ns.
    pub bus_busy_ns: u64,
    /// The bursts of arrivals that the card pulled.
    pub arrivals_pulled: TransferSummary,
    /// The arrivals that the host pushed, and its offers of arrivals to pull.
    pub arrivals_written: TransferSummary,
    /// The bursts of winners.
    pub winners_read: TransferSummary,
    /// The reads of counters of missed deadlines.
    pub counters_read: TransferSummary,
}

/// The totals of one kind of bus transfer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TransferSummary {
    /// The number of transfers.
    pub transfers: u64,
    /// The bytes transferred.
    pub bytes: u64,
    /// The time on the bus, ns.
    pub busy_ns: u64,
}

/// The summary of the link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkSummary {
    /// The time that the link transmitted, ns.
    pub busy_ns: u64,
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// `busy_ns` as a share of `end_ns`, rounded to six decimals; 0 if `end_ns` is 0.
    pub utilisation: f64,
}

/// The summary of a stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSummary {
    /// The stream's name.
    pub name: String,
    /// The number of packets that arrived.
    pub arrived: u64,
    /// The number of packets sent.
    pub sent: u64,
    /// The bytes sent, without the link's overhead.
    pub sent_bytes: u64,
    /// The number of packets dropped late.
    pub dropped_late: u64,
    /// The number of packets dropped at a full queue.
    pub dropped_full: u64,
    /// The number of packets that queue management dropped; absent without a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_aqm: Option<u64>,
    /// The number of packets queued at the end: without credits, or in an interrupted run.
    pub queued: u64,
    /// The number of missed deadlines.
    pub missed: u64,
    /// The number of misses with no loss left in the window.
    pub violations: u64,
    /// The mean rate over the whole run, bits/s, rounded down.
    pub rate_bps: u64,
    /// The delay of sent packets; null if none was sent.
    pub delay_ns: Option<DelaySummary>,
    /// The guaranteed longest delay, ns; absent if no bounds were computed or none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_bound_ns: Option<u64>,
    /// The longest delay to the end of transmission over `delay_bound_ns`, rounded to six decimals;
    /// absent without a bound or if nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tightness: Option<f64>,
    /// The difference of delay between successive packets; null if fewer than two were sent.
    pub jitter_ns: Option<JitterSummary>,
}

/// The statistics of delays, ns.
#[derive(Clone, Debug, Serialize)]
pub struct DelaySummary {
    /// The mean, rounded down.
    pub mean: u64,
    /// The median: exact up to 64 packets, then at most 1 % too high.
    pub p50: u64,
    /// The 99th percentile, with the accuracy of the median.
    pub p99: u64,
    /// The 99.9th percentile, with the accuracy of the median.
    pub p999: u64,
    /// The longest delay.
    pub max: u64,
}

/// The statistics of jitter, ns.
#[derive(Clone, Debug, Serialize)]
pub struct JitterSummary {
    /// The mean, rounded down.
    pub mean: u64,
    /// The largest value.
    pub max: u64,
}

impl Results {
    /// Returns the summary of the run of the scenario called `scenario`.
    #[must_use]
    pub fn summary(&self, scenario: &str) -> Summary {
        let streams = self.names.iter().zip(&self.streams);
        Summary {
            scenario: scenario.to_owned(),
            link: LinkSummary {
                busy_ns: self.busy_ns,
                end_ns: self.end_ns,
                utilisation: share(self.busy_ns, self.end_ns),
            },
            streams: streams
                .enumerate()
                .map(|(at, (name, stream))| StreamSummary {
                    dropped_aqm: self.network.as_ref().map(|_| stream.dropped_aqm),
                    delay_bound_ns: self.bound(at).map(|of| of.bound_ns),
                    tightness: self.bound(at).and_then(|of| of.tightness()),
                    ..stream.summary(name, self.end_ns)
                })
                .collect(),
            network: self.network.clone(),
            end_system: None,
        }
    }

    /// Returns the bound on the delay of the stream number `at`.
    pub(crate) fn bound(&self, at: usize) -> Option<DelayBound> {
        self.bounds.get(at).copied().flatten()
    }

    /// Returns the link's busy time as a share of the run; 0 if the run took no time.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        if self.end_ns == 0 { 0.0 } else { self.busy_ns as f64 / self.end_ns as f64 }
    }
}

/// Returns `part_ns` as a share of `whole_ns`, rounded to six decimals; 0 if `whole_ns` is 0.
#[allow(clippy::cast_precision_loss)]
#[must_use]
pub fn share(part_ns: u64, whole_ns: u64) -> f64 {
    let share = if whole_ns == 0 { 0.0 } else { part_ns as f64 / whole_ns as f64 };
    (share * 1e6).round() / 1e6
}

impl StreamResults {
    fn summary(&self, name: &str, end_ns: u64) -> StreamSummary {
        StreamSummary {
            name: name.to_owned(),
            arrived: self.arrived,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            dropped_late: self.dropped_late,
            dropped_full: self.dropped_full,
            dropped_aqm: None,
            queued: self.queued(),
            missed: self.missed,
            violations: self.violations,
            rate_bps: self.rate_bps(end_ns),
            delay_ns: (self.sent > 0).then(|| DelaySummary {
                mean: self.delays.mean_ns(),
                p50: self.delays.percentile_ns(500),
                p99: self.delays.percentile_ns(990),
                p999: self.delays.percentile_ns(999),
                max: self.delays.max_ns(),
            }),
            delay_bound_ns: None,
            tightness: None,
            jitter_ns: (self.sent > 1)
                .then(|| JitterSummary { mean: self.jitter_mean_ns(), max: self.jitter_max_ns() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Recorder, RecorderOptions};
    use millstream::{Departure, Event, StreamId};

    #[test]
    fn json_matches_the_file_format() {
        let mut recorder =
            Recorder::new(vec!["a".into(), "b".into()], RecorderOptions { series: true });
        for (packet, (time_ns, event)) in
            [(1000, Event::Sent), (3000, Event::Sent), (3000, Event::DroppedLate)]
                .into_iter()
                .enumerate()
        {
            recorder.arrived(StreamId(0), 500, 100);
            recorder.departed(&Departure {
                time_ns,
                stream: StreamId(0),
                packet: packet as u64,
                bytes: 100,
                arrival_ns: 500,
                deadline_ns: None,
                event,
                tag: 0,
            });
        }
        recorder.missed(StreamId(0), 3000, 2, 1);
        recorder.busy(1000, 2000);
        recorder.busy(3000, 4000);
        let json = serde_json::to_string(&recorder.finish(4000).summary("s")).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"scenario":"s","link":{"busy_ns":2000,"end_ns":4000,"utilisation":0.5},"#,
                r#""streams":[{"name":"a","arrived":3,"sent":2,"sent_bytes":200,"dropped_late":1,"#,
                r#""dropped_full":0,"queued":0,"missed":2,"violations":1,"rate_bps":400000000,"#,
                r#""delay_ns":{"mean":1500,"p50":500,"p99":2500,"p999":2500,"max":2500},"#,
                r#""jitter_ns":{"mean":2000,"max":2000}},{"name":"b","arrived":0,"sent":0,"#,
                r#""sent_bytes":0,"dropped_late":0,"dropped_full":0,"queued":0,"missed":0,"#,
                r#""violations":0,"rate_bps":0,"delay_ns":null,"jitter_ns":null}]}"#
            )
        );
    }

    #[test]
    fn single_packet_has_a_delay_and_no_jitter() {
        let mut recorder = Recorder::new(vec!["a".into()], RecorderOptions::default());
        recorder.departed(&Departure {
            time_ns: 7,
            stream: StreamId(0),
            packet: 0,
            bytes: 1,
            arrival_ns: 5,
            deadline_ns: None,
            event: Event::Sent,
            tag: 0,
        });
        recorder.busy(7, 8);
        let summary = recorder.finish(3).summary("s");
        assert_eq!(summary.streams[0].delay_ns.as_ref().map(|delay| delay.p99), Some(2));
        assert!(summary.streams[0].jitter_ns.is_none());
        assert_eq!(summary.link.utilisation.to_string(), "0.333333");
    }
}
