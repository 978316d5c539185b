//! The view of an attached qdisc.

use millstream_bpf::attach::{Status, StreamStatus};
use millstream_report::human;
use millstream_router::live::RecentDelay;
use std::time::Instant;

use super::{Row, row_table};
use crate::attach::{json_line, read_status};
use crate::failure::Failure;

/// The counters of a qdisc, and when they were read.
pub(super) struct Snapshot {
    interface: String,
    status: Status,
    read_at: Instant,
}

impl Snapshot {
    pub(super) fn take(interface: &str) -> Result<Self, Failure> {
        let status = read_status(interface)?;
        Ok(Self { interface: interface.to_owned(), status, read_at: Instant::now() })
    }

    pub(super) fn json(&self) -> String {
        json_line(&self.interface, &self.status)
    }
}

/// Formats the changes between two updates.
pub(super) fn difference(before: &Snapshot, now: &Snapshot) -> String {
    let elapsed = now.read_at.saturating_duration_since(before.read_at);
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1);
    let rate = human::rate(now.status.rate_bps);
    let title = format!("{}: {}, link {rate}\n", now.interface, now.status.discipline);
    let old: Vec<_> = before.status.streams.iter().map(|stream| row(stream, None)).collect();
    let new = now.status.streams.iter().map(|stream| {
        let old = before.status.streams.iter().find(|old| old.name == stream.name);
        row(stream, recent_delay(stream, old))
    });
    title + &row_table("stream", &old, &new.collect::<Vec<_>>(), elapsed_ns)
}

fn row(stream: &StreamStatus, delay: Option<RecentDelay>) -> Row<'_> {
    Row {
        name: &stream.name,
        received: stream.arrivals,
        sent: stream.sent,
        sent_bytes: stream.sent_bytes,
        dropped: stream.dropped(),
        queued: stream.waiting.into(),
        delay,
        link_delay_bound_ns: stream.delay_bound_ns,
        delay_bound_ns: None,
        tcp_rtt_ns: None,
    }
}

/// Returns upper bounds of the delays of packets sent since `old`.
fn recent_delay(now: &StreamStatus, old: Option<&StreamStatus>) -> Option<RecentDelay> {
    let mut since = now.clone();
    for (count, old) in since.sojourn.iter_mut().zip(old.iter().flat_map(|old| &old.sojourn)) {
        *count = count.saturating_sub(*old);
    }
    Some(RecentDelay {
        packets: since.sojourn.iter().sum(),
        p50_ns: since.sojourn_bound_ns(50)?,
        p99_ns: since.sojourn_bound_ns(99)?,
        // All packets' longest delay may be in the bucket of these packets' longest.
        longest_ns: since.sojourn_bound_ns(100)?.min(now.sojourn_longest_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_delays_are_those_between_the_updates() {
        let stream = |packets: u64, slow: u64, dropped: u64| {
            let mut sojourn = vec![0; 40];
            (sojourn[10], sojourn[20]) = (packets - slow, slow);
            StreamStatus {
                name: "voice".into(),
                waiting: 3,
                arrivals: packets + 13 + dropped,
                sent: packets,
                sent_bytes: 125 * packets,
                dropped_full: 10,
                dropped_by_aqm: dropped,
                sojourn,
                sojourn_longest_ns: 1_900_000,
                delay_bound_ns: Some(3_000_000),
                ..StreamStatus::default()
            }
        };
        let read_at = Instant::now();
        let at = |seconds, streams| Snapshot {
            interface: "eth0".into(),
            status: Status {
                discipline: "dwcs",
                rate_bps: 20_000_000,
                timer_late_longest_ns: 0,
                streams,
            },
            read_at: read_at + std::time::Duration::from_secs(seconds),
        };
        let text =
            difference(&at(0, vec![stream(500, 500, 0)]), &at(2, vec![stream(2_500, 510, 8)]));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("eth0: dwcs, link 20.0 Mbit/s"));
        assert!(lines.next().unwrap().starts_with("stream  received/s  sent/s"), "{text}");
        let words: Vec<_> = lines.next().unwrap().split("  ").map(str::trim).collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        assert_eq!(
            words,
            [
                "voice",
                "1004",
                "1000",
                "1.00 Mbit/s",
                "4",
                "3",
                "2.05 µs",
                "2.05 µs",
                "1.90 ms",
                "3.00 ms",
                "–",
                "–"
            ]
        );
    }
}
