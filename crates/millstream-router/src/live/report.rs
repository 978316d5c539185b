//! What a live router did: every packet accounted for.

use crate::live::extension::ExtensionCounters;
use crate::net::nat::NatCounters;
use crate::proxy::ProxyCounters;

/// Counters and configuration of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It runs.
    Running,
    /// It was told to.
    Told,
    /// Its time was over.
    Time,
    /// Every port had ended.
    Input,
}

/// A port.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PortReport {
    /// Its name.
    pub name: String,
    /// Packets taken from the device.
    pub received: u64,
    /// Of them, neither IPv4 nor IPv6, not for the port's address, or of no path.
    pub unclassified: u64,
    /// Of them, dropped for want of a buffer or because they were longer than one.
    pub unfit: u64,
    /// Of those received, dropped because they are of a VLAN that no port is, or have several tags.
    #[serde(default)]
    pub strays: u64,
    /// Received for the router: ARP, neighbour discovery, packets to its own addresses.
    pub for_router: u64,
    /// Packets given to the device.
    pub transmitted: u64,
    /// Sent by the router itself: ARP, neighbour discovery, echo replies, ICMP errors.
    pub originated: u64,
    /// Packets that the device lost before they could be received, where it says so.
    pub lost_by_device: u64,
    /// How often the device went down or away.
    pub went_away: u64,
    /// Whether it is down or away now.
    #[serde(default)]
    pub away: bool,
    /// What the translation of addresses did, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<NatCounters>,
}

/// A path.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PathReport {
    /// Its name.
    pub name: String,
    /// Packets classified to it.
    pub received: u64,
    /// Dropped as they were classified: the path's action is to drop.
    pub dropped_by_action: u64,
    /// Dropped at its full input queue.
    pub dropped_full: u64,
    /// Dropped by the function: no route, hop limit, checksum, length, or extension.
    pub dropped_by_function: u64,
    /// Routed to a port that the path does not leave by.
    pub dropped_elsewhere: u64,
    /// Dropped by the link's discipline, too late.
    pub dropped_late: u64,
    /// Dropped because a changed file had no place for them.
    pub dropped_by_reload: u64,
    /// Sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Still queued at the end, or held until a neighbour answers.
    pub queued: u64,
    /// Of them, those that only wait for a link.
    pub at_links: u64,
    /// Made by its function: a proxy's own packets.
    #[serde(default)]
    pub made: u64,
    /// Not forwarded, as they were for its function: what came for a proxy.
    #[serde(default)]
    pub consumed: u64,
    /// What its extension did, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<ExtensionCounters>,
    /// What its proxy did, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyCounters>,
}

/// A process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ProcessReport {
    /// What it does: "input lan".
    pub name: String,
    /// Which of the router's cores it runs on.
    #[serde(default)]
    pub core: usize,
    /// Its reservation, cycles a second.
    pub reserved_cycles: u64,
    /// What it used, cycles a second on average.
    pub used_cycles: u64,
    /// How long it has run, ns.
    pub busy_ns: u64,
    /// Times it ran.
    pub runs: u64,
    /// Packets it moved.
    pub packets: u64,
}

/// A run of a live router.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// The router's name.
    pub router: String,
    /// How long it ran, ns.
    pub elapsed_ns: u64,
    /// Why it stopped.
    pub ended: Ended,
    /// Ports, in the order of the file.
    pub ports: Vec<PortReport>,
    /// Paths in file order; then `(removed)`, the sum of paths removed by reloads.
    pub paths: Vec<PathReport>,
    /// How often the file was read again.
    pub reloads: u64,
    /// Processes.
    pub processes: Vec<ProcessReport>,
    /// Packets received or made, less those sent, dropped, consumed or queued: always 0.
    pub unaccounted: i64,
}

impl Report {
    /// Packets received or made less all that became of them.
    #[must_use]
    pub(super) fn account(ports: &[PortReport], paths: &[PathReport], staged: u64) -> i64 {
        let received: u64 = ports.iter().map(|port| port.received).sum();
        let aside =
            |port: &PortReport| port.unclassified + port.unfit + port.strays + port.for_router;
        let aside: u64 = ports.iter().map(aside).sum();
        let dropped: u64 = paths
            .iter()
            .map(|path| {
                path.dropped_by_action
                    + path.dropped_full
                    + path.consumed
                    + path.dropped_by_function
                    + path.dropped_elsewhere
                    + path.dropped_late
                    + path.dropped_by_reload
                    + path.queued
            })
            .sum();
        let transmitted: u64 = ports.iter().map(|port| port.transmitted).sum();
        let made: u64 = paths.iter().map(|path| path.made).sum();
        (received + made).cast_signed() - (aside + dropped + transmitted + staged).cast_signed()
    }
}
