//! The report of a live router's run, which accounts for every packet.

use crate::live::delay::{DelayReport, DelaySources, RecentDelay};
use crate::live::extension::ExtensionCounters;
use crate::net::nat::NatCounters;
use crate::proxy::ProxyCounters;
use crate::renamed_keys::renamed_key;

renamed_key!(unsupported, "unsupported", "unfit");
renamed_key!(unknown_vlan, "unknown_vlan", "strays");
renamed_key!(wrong_output, "dropped_wrong_output", "dropped_elsewhere");

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The router is still running.
    Running,
    /// A stop was requested.
    Told,
    /// The time limit of the run passed.
    Time,
    /// Every port reached the end of its input.
    Input,
}

/// The counters of a port.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PortReport {
    /// The port's name.
    pub name: String,
    /// Packets taken from the device; of an ingress port, those that have passed its link.
    pub received: u64,
    /// Received packets that are neither IPv4 nor IPv6, not for the port's address, or of no path.
    pub unclassified: u64,
    /// Received packets dropped because no buffer was free, or because they were longer than a
    /// buffer, truncated or unsupported.
    #[serde(flatten, with = "unsupported")]
    pub unsupported: u64,
    /// Received packets dropped because no port has their VLAN, or because they have several tags.
    #[serde(flatten, with = "unknown_vlan")]
    pub unknown_vlan: u64,
    /// Received packets for the router: ARP, neighbour discovery, packets to its own addresses.
    pub for_router: u64,
    /// Packets of paths given to the device.
    pub transmitted: u64,
    /// Packets sent by the router itself: ARP, neighbour discovery, echo replies, ICMP errors.
    pub originated: u64,
    /// Packets that the device lost before the router received them, if the device counts them.
    pub lost_by_device: u64,
    /// How often the device went down or was removed.
    pub went_away: u64,
    /// Whether the device is down or removed now.
    #[serde(default)]
    pub away: bool,
    /// The rate of the link, bits/s: the configured one, or that of `autorate` now.
    #[serde(default)]
    pub rate_bps: u64,
    /// The delay of queues beyond the device, ns, by which `autorate` decided last; `None` without
    /// `autorate` or a recent measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_delay_ns: Option<u64>,
    /// The counters of the port's NAT, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<NatCounters>,
}

/// The counters of a path.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PathReport {
    /// The path's name.
    pub name: String,
    /// Packets classified to the path.
    pub received: u64,
    /// Packets dropped on classification, because the path's action is to drop.
    pub dropped_by_action: u64,
    /// Packets dropped because the path's input queue was full.
    pub dropped_full: u64,
    /// Packets dropped by the function: no route, hop limit, checksum, length, or extension.
    pub dropped_by_function: u64,
    /// Packets dropped because their route leads to a port outside the path.
    #[serde(flatten, with = "wrong_output")]
    pub dropped_wrong_output: u64,
    /// Packets dropped by the link's discipline because their deadline had passed.
    pub dropped_late: u64,
    /// Packets dropped by queue management, so that their senders slow down.
    #[serde(default)]
    pub dropped_by_aqm: u64,
    /// Packets dropped from the longest flow, because the path's output queue was full.
    #[serde(default)]
    pub dropped_from_longest: u64,
    /// Packets marked as having met congestion (ECN).
    #[serde(default)]
    pub marked: u64,
    /// Packets dropped by a reload that removed their path, or their output from the path.
    pub dropped_by_reload: u64,
    /// Packets sent.
    pub sent: u64,
    /// The bytes of the packets sent.
    pub sent_bytes: u64,
    /// Packets that are queued at the end, or held for neighbour resolution.
    pub queued: u64,
    /// Queued packets that only wait for a link.
    pub at_links: u64,
    /// Packets made by the path's function: a proxy's own packets.
    #[serde(default)]
    pub made: u64,
    /// Packets consumed by the path's function: packets to a proxy.
    #[serde(default)]
    pub consumed: u64,
    /// The counters of the path's extension, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<ExtensionCounters>,
    /// The counters of the path's proxy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyCounters>,
    /// The sojourn times of its packets; `None` for paths that have sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayReport>,
    /// The sojourn times of the last second, if the router keeps a history: it serves its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_delay: Option<RecentDelay>,
    /// The round-trip times of the path's TCP handshakes, from the reception of a SYN to that of
    /// its SYN-ACK; `None` if none was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_rtt: Option<DelayReport>,
    /// The histograms that `tcp_rtt` is computed from.
    #[serde(skip)]
    pub(crate) rtt_sources: DelaySources,
    /// The longest time that packets within the path's `max-rate` and `burst` wait for a link and
    /// its transmission, ns; `None` if it is not known. It excludes the wait for the CPU. See
    /// [`RouterScenario::link_delays_ns`](millstream_scenario::RouterScenario::link_delays_ns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_delay_bound_ns: Option<u64>,
    /// The longest time from the reception of such a packet to the end of its transmission, ns, the
    /// waits for the CPU included; `None` if it is not known. See
    /// [`path_delays_ns`](crate::live::path_delays_ns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_bound_ns: Option<u64>,
    /// The histograms that `delay` is computed from.
    #[serde(skip)]
    pub(crate) delay_sources: DelaySources,
}

/// The counters of a process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ProcessReport {
    /// The process' kind and its port or path: "input lan".
    pub name: String,
    /// The number of the core that runs the process.
    #[serde(default)]
    pub core: usize,
    /// The reservation, cycles per second.
    pub reserved_cycles: u64,
    /// The average use, cycles per second.
    pub used_cycles: u64,
    /// The total CPU time of its runs, ns.
    pub busy_ns: u64,
    /// The number of runs.
    pub runs: u64,
    /// The number of packets moved.
    pub packets: u64,
}

/// The report of a live router's run.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// The router's name.
    pub router: String,
    /// The duration of the run so far, ns.
    pub elapsed_ns: u64,
    /// Why the run ended.
    pub ended: Ended,
    /// The ports, in file order.
    pub ports: Vec<PortReport>,
    /// The paths, in file order; then `(removed)`, the sum of paths removed by reloads.
    pub paths: Vec<PathReport>,
    /// The number of reloads.
    pub reloads: u64,
    /// The processes that can run, in the router's order: inputs, paths, outputs.
    pub processes: Vec<ProcessReport>,
    /// Packets received or made, less those sent, dropped, consumed or queued: always 0.
    pub unaccounted: i64,
}

impl PathReport {
    /// Returns the number of packets dropped for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_by_action
            + self.dropped_full
            + self.dropped_by_function
            + self.dropped_wrong_output
            + self.dropped_late
            + self.dropped_by_aqm
            + self.dropped_from_longest
            + self.dropped_by_reload
    }
}

impl Report {
    /// Computes the sojourn and round-trip times from the paths' histograms, which threads other
    /// than the router's may read.
    pub(super) fn measure_delays(&mut self) {
        for path in &mut self.paths {
            path.delay = path.delay_sources.report();
            path.tcp_rtt = path.rtt_sources.report();
        }
    }

    /// Returns packets received or made, less those sent, dropped, consumed, queued or `staged`.
    #[must_use]
    pub(super) fn count_unaccounted(
        ports: &[PortReport],
        paths: &[PathReport],
        staged: u64,
    ) -> i64 {
        let received: u64 = ports.iter().map(|port| port.received).sum();
        let pathless = |port: &PortReport| {
            port.unclassified + port.unsupported + port.unknown_vlan + port.for_router
        };
        let pathless: u64 = ports.iter().map(pathless).sum();
        let dropped: u64 =
            paths.iter().map(|path| path.dropped() + path.consumed + path.queued).sum();
        let transmitted: u64 = ports.iter().map(|port| port.transmitted).sum();
        let made: u64 = paths.iter().map(|path| path.made).sum();
        (received + made).cast_signed() - (pathless + dropped + transmitted + staged).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::{PathReport, PortReport};
    use serde_json::{Value, json};

    fn port() -> Value {
        json!({
            "name": "lan", "received": 10, "unclassified": 0, "unsupported": 3, "unfit": 3,
            "unknown_vlan": 2, "strays": 2, "for_router": 0, "transmitted": 5, "originated": 0,
            "lost_by_device": 0, "went_away": 0, "away": false, "rate_bps": 10,
        })
    }

    #[test]
    fn renamed_counters_are_written_under_both_names() {
        let report: PortReport = serde_json::from_value(port()).unwrap();
        assert_eq!((report.unsupported, report.unknown_vlan), (3, 2));
        assert_eq!(serde_json::to_value(&report).unwrap(), port());
    }

    #[test]
    fn a_report_with_old_names_only_is_read() {
        let mut old = port();
        let keys = old.as_object_mut().unwrap();
        keys.remove("unsupported");
        keys.remove("unknown_vlan");
        let report: PortReport = serde_json::from_value(old).unwrap();
        assert_eq!((report.unsupported, report.unknown_vlan), (3, 2));
        let path = json!({
            "name": "web", "received": 9, "dropped_by_action": 0, "dropped_full": 0,
            "dropped_by_function": 0, "dropped_elsewhere": 4, "dropped_late": 0,
            "dropped_by_reload": 0, "sent": 5, "sent_bytes": 500, "queued": 0, "at_links": 0,
        });
        let path: PathReport = serde_json::from_value(path).unwrap();
        assert_eq!(path.dropped_wrong_output, 4);
    }
}
