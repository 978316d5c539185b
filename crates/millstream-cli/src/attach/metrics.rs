//! The counters of a qdisc in Prometheus' text format.

use millstream_bpf::attach::{Status, StreamStatus};
use std::fmt::Write as _;

/// The powers of two that are bucket limits, as of the router's delays: 1 µs to 17 s.
const POWERS: std::ops::RangeInclusive<usize> = 10..=34;

/// Returns the counters in Prometheus' text format.
pub(super) fn metrics(interface: &str, status: &Status) -> String {
    let mut text = String::new();
    let quoted =
        |label: &str| label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut family = |name: &str, kind: &str, help: &str, rows: &dyn Fn(&StreamStatus) -> Rows| {
        let _ = writeln!(text, "# HELP millstream_stream_{name} {help}");
        let _ = writeln!(text, "# TYPE millstream_stream_{name} {kind}");
        for stream in &status.streams {
            let labels =
                format!("interface=\"{}\",stream=\"{}\"", quoted(interface), quoted(&stream.name));
            for (suffix, label, value) in rows(stream) {
                let comma = if label.is_empty() { "" } else { "," };
                let _ = writeln!(
                    text,
                    "millstream_stream_{name}{suffix}{{{labels}{comma}{label}}} {value}"
                );
            }
        }
    };
    let one = |value: u64| vec![("", String::new(), value.to_string())];
    let help = "Packets that arrived in a stream";
    family("received_packets_total", "counter", help, &|of| one(of.arrivals));
    let help = "Packets that left a stream: sent, or dropped, by reason";
    family("packets_total", "counter", help, &|of| {
        let outcomes = [
            ("sent", of.sent),
            ("full", of.dropped_full),
            ("late", of.dropped_late),
            ("aqm", of.dropped_by_aqm),
            ("longest-flow", of.dropped_from_longest),
        ];
        let row = |(outcome, count): (&str, u64)| {
            ("", format!("outcome=\"{outcome}\""), count.to_string())
        };
        outcomes.map(row).to_vec()
    });
    family("sent_bytes_total", "counter", "Bytes of packets sent", &|of| one(of.sent_bytes));
    let help = "Packets in the queue of a stream";
    family("queued_packets", "gauge", help, &|of| one(of.waiting.into()));
    let help = "Flows of a stream that have packets, or had some a moment ago";
    family("flows", "gauge", help, &|of| one(of.flows.into()));
    let help = "Packets that missed their deadline";
    family("missed_deadlines_total", "counter", help, &|of| one(of.missed));
    let help = "Missed deadlines that the window does not allow";
    family("violations_total", "counter", help, &|of| one(of.violations));
    let help = "Time from a packet's arrival until its transmission begins";
    family("delay_seconds", "histogram", help, &|of| {
        let below = |power: usize| of.sojourn.iter().take(power).sum::<u64>();
        let seconds = |ns: u64| format!("{}", ns as f64 / 1e9);
        let limits = POWERS.map(|power| (seconds(1 << power), below(power)));
        let limits = limits.chain([("+Inf".to_owned(), below(usize::MAX))]);
        let mut rows: Rows = limits
            .map(|(limit, count)| ("_bucket", format!("le=\"{limit}\""), count.to_string()))
            .collect();
        rows.push(("_sum", String::new(), seconds(of.sojourn_sum_ns)));
        rows.push(("_count", String::new(), below(usize::MAX).to_string()));
        rows
    });
    let seconds = |ns: u64| vec![("", String::new(), format!("{}", ns as f64 / 1e9))];
    let help = "Longest time from a packet's arrival until its transmission begins";
    family("longest_delay_seconds", "gauge", help, &|of| seconds(of.sojourn_longest_ns));
    let help = "Longest delay of packets that arrive as the scenario's sources say";
    family("delay_bound_seconds", "gauge", help, &|of| {
        of.delay_bound_ns.map(seconds).unwrap_or_default()
    });
    let name = "millstream_qdisc_longest_timer_lateness_seconds";
    let late = status.timer_late_longest_ns as f64 / 1e9;
    let _ = write!(
        text,
        "# HELP {name} Longest time by which the timer of the kernel was late\n\
         # TYPE {name} gauge\n\
         {name}{{interface=\"{}\"}} {late}\n",
        quoted(interface)
    );
    text
}

/// The samples of a stream: the suffix of the name, a further label and the value.
type Rows = Vec<(&'static str, String, String)>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::tests::status;

    #[test]
    fn counters_are_shown_in_prometheus_text_format() {
        const TIMER: &str = "millstream_qdisc_longest_timer_lateness_seconds{interface=\"eth0\"}";
        let text = metrics("eth0", &status());
        let labels = r#"interface="eth0",stream="voice \"a\"""#;
        for line in [
            "# TYPE millstream_stream_packets_total counter".to_owned(),
            format!("millstream_stream_packets_total{{{labels},outcome=\"late\"}} 2"),
            format!("millstream_stream_queued_packets{{{labels}}} 1"),
            format!("millstream_stream_delay_seconds_bucket{{{labels},le=\"0.000001024\"}} 0"),
            format!("millstream_stream_delay_seconds_bucket{{{labels},le=\"0.000002048\"}} 1"),
            format!("millstream_stream_delay_seconds_bucket{{{labels},le=\"0.001048576\"}} 3"),
            format!("millstream_stream_delay_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("millstream_stream_delay_seconds_sum{{{labels}}} 0.001503"),
            format!("millstream_stream_delay_seconds_count{{{labels}}} 3"),
            format!("millstream_stream_longest_delay_seconds{{{labels}}} 0.000901"),
            format!("millstream_stream_delay_bound_seconds{{{labels}}} 0.0012"),
            format!("{TIMER} 0.000009"),
        ] {
            assert!(text.lines().any(|of| of == line), "{line} is not in\n{text}");
        }
        let is_labelled = |line: &str| line.contains(labels) || line.starts_with(TIMER);
        assert!(text.lines().all(|line| line.starts_with('#') || is_labelled(line)));
    }
}
