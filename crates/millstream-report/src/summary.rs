//! The summary JSON; field names and order are the file format.
//!
//! Whatever serialises [`Summary`] writes the format: names end in their units, integers are exact,
//! and the one fraction, utilisation, is rounded to six decimals so that it prints the same
//! everywhere. A stream of which nothing was sent has no delay: null, not 0.

use serde::Serialize;

use crate::recorder::{Results, StreamResults};

/// A run in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The link.
    pub link: LinkSummary,
    /// The streams in file order.
    pub streams: Vec<StreamSummary>,
    /// The end-system card, if the run had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_system: Option<EndSystemSummary>,
}

/// An end-system card and its bus in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct EndSystemSummary {
    /// The bus.
    pub bus: &'static str,
    /// The card's clock.
    pub clock_hz: u64,
    /// Packets that left the card, sent or dropped late.
    pub packets: u64,
    /// Decisions, those without a winner included.
    pub decisions: u64,
    /// Cycles from one decision to the next, where nothing is waited for.
    pub decision_cycles: u64,
    /// From the first arrival until the last winner was read, ns.
    pub span_ns: u64,
    /// Packets by that time; null if there is none.
    pub packets_per_second: Option<u64>,
    /// What the bus could carry; null if transfers cost nothing.
    pub bus_packets_per_second: Option<u64>,
    /// What the card could decide.
    pub card_packets_per_second: Option<u64>,
    /// Time on the bus, ns; that of the four below.
    pub bus_busy_ns: u64,
    /// Bursts of arrivals that the card pulled.
    pub arrivals_pulled: TransferSummary,
    /// Arrivals pushed, and offers of those to be pulled.
    pub arrivals_written: TransferSummary,
    /// Bursts of winners.
    pub winners_read: TransferSummary,
    /// Counters of missed deadlines.
    pub counters_read: TransferSummary,
}

/// Transfers of a kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TransferSummary {
    /// How many.
    pub transfers: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time on the bus, ns.
    pub busy_ns: u64,
}

/// The link in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct LinkSummary {
    /// Time transmitting, ns.
    pub busy_ns: u64,
    /// The end of the last transmission, ns.
    pub end_ns: u64,
    /// The first as a share of the second, rounded to six decimals; 0 if the second is 0.
    pub utilisation: f64,
}

/// A stream in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSummary {
    /// Its name.
    pub name: String,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, without the link's overhead.
    pub sent_bytes: u64,
    /// Packets dropped late.
    pub dropped_late: u64,
    /// Packets dropped at a full queue.
    pub dropped_full: u64,
    /// Packets still waiting at the end: without credits, or of an interrupted run.
    pub queued: u64,
    /// Deadlines missed.
    pub missed: u64,
    /// Misses with no loss left in the window.
    pub violations: u64,
    /// Mean rate over the whole run, bits/s, rounded down.
    pub rate_bps: u64,
    /// Delay of sent packets; null if none was sent.
    pub delay_ns: Option<DelaySummary>,
    /// Difference of delay between successive packets; null if fewer than two were sent.
    pub jitter_ns: Option<JitterSummary>,
}

/// Delays, ns.
#[derive(Clone, Debug, Serialize)]
pub struct DelaySummary {
    /// Mean, rounded down.
    pub mean: u64,
    /// Median: exact up to 64 packets, then at most 1 % too high.
    pub p50: u64,
    /// 99th percentile, as exact as the median.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

/// Jitter, ns.
#[derive(Clone, Debug, Serialize)]
pub struct JitterSummary {
    /// Mean, rounded down.
    pub mean: u64,
    /// Largest.
    pub max: u64,
}

impl Results {
    /// The summary under the scenario's name.
    #[must_use]
    pub fn summary(&self, scenario: &str) -> Summary {
        let streams = self.names.iter().zip(&self.streams);
        Summary {
            scenario: scenario.to_owned(),
            link: LinkSummary {
                busy_ns: self.busy_ns,
                end_ns: self.end_ns,
                utilisation: (self.utilisation() * 1e6).round() / 1e6,
            },
            streams: streams.map(|(name, stream)| stream.summary(name, self.end_ns)).collect(),
            end_system: None,
        }
    }

    /// Time transmitting as a share of the run; 0 if the run took no time.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        if self.end_ns == 0 { 0.0 } else { self.busy_ns as f64 / self.end_ns as f64 }
    }
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
            queued: self.queued(),
            missed: self.missed,
            violations: self.violations,
            rate_bps: self.rate_bps(end_ns),
            delay_ns: (self.sent > 0).then(|| DelaySummary {
                mean: self.delays.mean_ns(),
                p50: self.delays.percentile_ns(50),
                p99: self.delays.percentile_ns(99),
                max: self.delays.max_ns(),
            }),
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
    fn the_json_is_the_file_format() {
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
                r#""delay_ns":{"mean":1500,"p50":500,"p99":2500,"max":2500},"#,
                r#""jitter_ns":{"mean":2000,"max":2000}},{"name":"b","arrived":0,"sent":0,"#,
                r#""sent_bytes":0,"dropped_late":0,"dropped_full":0,"queued":0,"missed":0,"#,
                r#""violations":0,"rate_bps":0,"delay_ns":null,"jitter_ns":null}]}"#
            )
        );
    }

    #[test]
    fn one_packet_has_a_delay_and_no_jitter() {
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
