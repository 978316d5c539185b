//! Converts a report to the OpenMetrics text format, for Prometheus.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::atomic::AtomicU64;

use crate::live::delay::DelayReport;
use crate::live::report::{PathReport, PortReport, Report};

type Labels = Vec<(&'static str, String)>;

/// Registers a family of counters, one per set of labels.
fn counters(
    registry: &mut Registry,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, u64)>,
) {
    let family = Family::<Labels, Counter>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).inc_by(value);
    }
    registry.register(name, help, family);
}

fn gauges(
    registry: &mut Registry,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, u64)>,
) {
    let family = Family::<Labels, Gauge>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
    registry.register(name, help, family);
}

/// Times of paths by name, as histograms with a bucket for each power of two, ns.
#[derive(Debug)]
struct Delays {
    name: &'static str,
    help: &'static str,
    paths: Vec<(String, DelayReport)>,
}

/// The powers of two that are bucket limits: 1 µs to 17 s.
const POWERS: std::ops::RangeInclusive<usize> = 10..=34;

impl Collector for Delays {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        for (path, delay) in &self.paths {
            let mut below = 0;
            let limits = POWERS.map(|power| ((1u64 << power) as f64 / 1e9, power));
            let buckets = limits.chain([(f64::INFINITY, usize::MAX)]);
            let buckets = buckets.map(|(limit, power)| {
                let all = delay.below_power_of_two.get(power).copied().unwrap_or(delay.packets);
                (limit, all.saturating_sub(std::mem::replace(&mut below, all)))
            });
            let buckets: Vec<_> = buckets.collect();
            let labels = [("path", path.as_str())];
            let mut metric = family.encode_family(&labels)?;
            let sum = delay.sum_ns as f64 / 1e9;
            metric.encode_histogram::<NoLabelSet>(sum, delay.packets, &buckets, None)?;
        }
        Ok(())
    }
}

/// Registers the metrics of all proxies.
fn proxies(registry: &mut Registry, report: &Report) {
    let proxies = || report.paths.iter().filter_map(|of| Some((of.name.clone(), of.proxy?)));
    let now = proxies().map(|(name, of)| (vec![("path", name)], of.connections));
    gauges(registry, "path_proxy_connections", "Connections of a proxy", now);
    let events = proxies().flat_map(|(name, of)| {
        let events = [
            ("opened", of.opened),
            ("refused-full", of.refused_full),
            ("refused-host", of.refused_host),
            ("unreachable", of.unreachable),
            ("broken", of.broken),
            ("no-connection", of.no_connection),
            // Deprecated name of `no-connection`.
            ("stray-packet", of.no_connection),
        ];
        events.map(|(event, count)| (vec![("path", name.clone()), ("event", event.into())], count))
    });
    let help = "Connections opened by a proxy, and their failures";
    counters(registry, "path_proxy_events", help, events);
    let bytes = proxies().flat_map(|(name, of)| {
        let ways = [("server", of.to_server_bytes), ("client", of.to_client_bytes)];
        ways.map(|(to, bytes)| (vec![("path", name.clone()), ("to", to.to_owned())], bytes))
    });
    counters(registry, "path_proxy_bytes", "Bytes carried by a proxy", bytes);
}

/// Returns `report` in the OpenMetrics text format.
#[must_use]
pub fn metrics(report: &Report) -> String {
    let mut registry = Registry::with_prefix("millstream");
    let paths = || report.paths.iter();
    let path = |name: &str| ("path", name.to_owned());
    let received = paths().map(|of| (vec![path(&of.name)], of.received));
    counters(&mut registry, "path_received_packets", "Packets classified to a path", received);
    let outcomes = paths().flat_map(|of| {
        let outcomes = [
            ("sent", of.sent),
            ("action", of.dropped_by_action),
            ("full", of.dropped_full),
            ("function", of.dropped_by_function),
            ("wrong-output", of.dropped_wrong_output),
            // Deprecated name of `wrong-output`.
            ("elsewhere", of.dropped_wrong_output),
            ("late", of.dropped_late),
            ("aqm", of.dropped_by_aqm),
            ("longest-flow", of.dropped_from_longest),
            ("reload", of.dropped_by_reload),
            ("consumed", of.consumed),
        ];
        outcomes.map(|(outcome, count)| (vec![path(&of.name), ("outcome", outcome.into())], count))
    });
    let help = "Packets that left a path: sent, consumed by its proxy, or dropped, by reason";
    counters(&mut registry, "path_packets", help, outcomes);
    let marked = paths().map(|of| (vec![path(&of.name)], of.marked));
    let help = "Packets of a path marked as having met congestion (ECN)";
    counters(&mut registry, "path_marked_packets", help, marked);
    let made = paths().map(|of| (vec![path(&of.name)], of.made));
    counters(&mut registry, "path_made_packets", "Packets made by a path's proxy", made);
    proxies(&mut registry, report);
    let extensions = || paths().filter_map(|of| Some((of, of.extension?)));
    let outcomes = extensions().flat_map(|(of, extension)| {
        let outcomes = [
            ("called", extension.called),
            ("dropped", extension.dropped),
            ("out-of-fuel", extension.out_of_fuel),
            ("over-memory", extension.over_memory),
            ("trapped", extension.trapped),
            ("bad-length", extension.bad_length),
            ("while-stopped", extension.while_stopped),
        ];
        outcomes.map(|(outcome, count)| (vec![path(&of.name), ("outcome", outcome.into())], count))
    });
    let help = "Packets passed to an extension, and those it dropped, by reason";
    counters(&mut registry, "path_extension_packets", help, outcomes);
    let stopped =
        extensions().map(|(of, extension)| (vec![path(&of.name)], u64::from(extension.stopped)));
    gauges(&mut registry, "path_extension_stopped", "1 if an extension is stopped", stopped);
    let bytes = paths().map(|of| (vec![path(&of.name)], of.sent_bytes));
    counters(&mut registry, "path_sent_bytes", "Bytes of packets sent", bytes);
    registry.register_collector(Box::new(Delays {
        name: "path_delay",
        help: "Time from reception of a path's packets until the device took them",
        paths: paths().filter_map(|of| Some((of.name.clone(), of.delay.clone()?))).collect(),
    }));
    registry.register_collector(Box::new(Delays {
        name: "path_tcp_rtt",
        help: "Round-trip time of a path's TCP handshakes, from SYN to SYN-ACK",
        paths: paths().filter_map(|of| Some((of.name.clone(), of.tcp_rtt.clone()?))).collect(),
    }));
    let mut bounds = |name: &str, help: &str, of: fn(&PathReport) -> Option<u64>| {
        let bounds = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (report, bound_ns) in paths().filter_map(|report| Some((report, of(report)?))) {
            bounds.get_or_create(&vec![path(&report.name)]).set(bound_ns as f64 / 1e9);
        }
        registry.register_with_unit(name, help, Unit::Seconds, bounds);
    };
    let help = "Longest delay of packets within the max-rate and burst of a path at its links";
    bounds("path_link_delay_bound", help, |of| of.link_delay_bound_ns);
    let help = "Longest time from reception to the end of transmission of these packets";
    bounds("path_delay_bound", help, |of| of.delay_bound_ns);
    let queued = paths().map(|of| (vec![path(&of.name)], of.queued));
    gauges(&mut registry, "path_queued_packets", "Packets in a path's queues", queued);

    let ports = report.ports.iter().flat_map(|of| {
        let events = [
            ("received", of.received),
            ("unclassified", of.unclassified),
            ("unsupported", of.unsupported),
            ("unknown-vlan", of.unknown_vlan),
            // Deprecated names of these two.
            ("unfit", of.unsupported),
            ("strays", of.unknown_vlan),
            ("lost", of.lost_by_device),
            ("for-router", of.for_router),
            ("transmitted", of.transmitted),
            ("originated", of.originated),
        ];
        events.map(|(event, count)| {
            (vec![("port", of.name.clone()), ("event", event.to_owned())], count)
        })
    });
    let help = "Packets at a port by event: received, which includes unclassified, truncated or \
                unsupported, of an unknown VLAN, and for the router; lost before reception; \
                transmitted; originated by the router";
    counters(&mut registry, "port_packets", help, ports);

    let translations = || report.ports.iter().filter_map(|of| Some((of, of.nat?)));
    let flows = translations().map(|(of, nat)| (vec![("port", of.name.clone())], nat.flows));
    gauges(&mut registry, "port_nat_flows", "Translated flows", flows);
    let begun = translations().flat_map(|(of, nat)| {
        let begun = [("inside", nat.opened - nat.forwarded), ("outside", nat.forwarded)];
        begun.map(|(by, count)| (vec![("port", of.name.clone()), ("by", by.to_owned())], count))
    });
    let help = "Translated flows opened, by hosts inside or at forwarded ports";
    counters(&mut registry, "port_nat_flows_begun", help, begun);
    let evicted = translations().map(|(of, nat)| (vec![("port", of.name.clone())], nat.evicted));
    let help = "Unanswered translated flows evicted for new ones";
    counters(&mut registry, "port_nat_flows_evicted", help, evicted);
    let events = translations().flat_map(|(of, nat)| {
        let events = [
            ("outbound", nat.outbound),
            ("inbound", nat.inbound),
            ("refused-full", nat.refused_full),
            ("refused-kind", nat.refused_kind),
            ("refused-source", nat.refused_source),
        ];
        events.map(|(event, count)| {
            (vec![("port", of.name.clone()), ("event", event.to_owned())], count)
        })
    });
    let help = "Packets that NAT translated, or dropped, by reason";
    counters(&mut registry, "port_nat_packets", help, events);

    let away = report.ports.iter().map(|of| (vec![("port", of.name.clone())], of.went_away));
    counters(&mut registry, "port_went_away", "Times a device went down or was removed", away);
    let now = report.ports.iter().map(|of| (vec![("port", of.name.clone())], u64::from(of.away)));
    gauges(&mut registry, "port_away", "1 while a device is down or away", now);

    let rates = report.ports.iter().map(|of| (vec![("port", of.name.clone())], of.rate_bps));
    let help = "The rate of a port's link: as configured, or by autorate";
    gauges(&mut registry, "port_rate_bits_per_second", help, rates);
    let measured = |of: &PortReport| Some((vec![("port", of.name.clone())], of.line_delay_ns?));
    let help = "The delay of queues beyond a port, by which autorate decided last";
    let delays = report.ports.iter().filter_map(measured);
    gauges(&mut registry, "port_line_delay_nanoseconds", help, delays);

    let processes = || report.processes.iter();
    let process = |name: &str| vec![("process", name.to_owned())];
    let reserved = processes().map(|of| (process(&of.name), of.reserved_cycles));
    gauges(&mut registry, "process_reserved_cycles", "Reserved cycles per second", reserved);
    let used = processes().map(|of| (process(&of.name), of.used_cycles));
    gauges(&mut registry, "process_used_cycles", "Average cycles used per second", used);
    let busy = processes().map(|of| (process(&of.name), of.busy_ns));
    counters(&mut registry, "process_busy_nanoseconds", "Run time of a process, ns", busy);
    let runs = processes().map(|of| (process(&of.name), of.runs));
    counters(&mut registry, "process_runs", "Runs of a process", runs);
    let packets = processes().map(|of| (process(&of.name), of.packets));
    counters(&mut registry, "process_packets", "Packets moved by a process", packets);

    let none = |value| [(Labels::new(), value)].into_iter();
    counters(&mut registry, "reloads", "Configuration reloads", none(report.reloads));
    let elapsed = none(report.elapsed_ns);
    counters(&mut registry, "elapsed_nanoseconds", "Run time of the router, ns", elapsed);
    let unaccounted = report.unaccounted.unsigned_abs();
    let help = "Packets received or made, less those sent, dropped, consumed or queued: always 0";
    gauges(&mut registry, "unaccounted_packets", help, none(unaccounted));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}
