//! The validated configuration of a live router: ports, switching paths and routes.
//!
//! The entry point is [`RouterScenario::load`]. This module opens no device: the router reports a
//! missing interface when it starts.

mod link_delay;

pub use link_delay::SHORTEST_PACKET_BYTES;

use ipnet::IpNet;
use macaddr::MacAddr6;
use millstream::catalogue::{DisciplineRow, StructureName};
use millstream::{Contract, Link, MaxRate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use crate::dscp::CodePoints;
use crate::error::ScenarioError;
use crate::file::router::RouterFile;
use crate::parse::has_table;
use crate::scenario::load_text;
use crate::validate::validate_router;

/// The largest number of IPv6 addresses of a port.
pub const MAX_IPV6_ADDRESSES: usize = 8;

/// A reservation of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Cycles per second.
    Cycles(u64),
    /// Packets per second at a given cost per packet.
    Packets {
        /// Packets per second.
        pps: u64,
        /// The cost of a packet, ns.
        cost_ns: u64,
    },
}

/// How packets of a network interface are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceIo {
    /// AF_XDP if it is possible and the kernel does not use the packets; otherwise AF_PACKET.
    Auto,
    /// AF_XDP: the kernel does not receive the packets.
    Xdp,
    /// AF_PACKET: the kernel also receives the packets.
    #[default]
    Packet,
}

/// The device or files of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A network interface, by name.
    Interface(String, InterfaceIo),
    /// A TAP device, by name.
    Tap(String),
    /// A TUN device, by name.
    Tun(String),
    /// The capture that is read, and the capture that is written.
    Pcap(Option<PathBuf>, Option<PathBuf>),
    /// No device: the link that packets pass after the port of this index, in file order, has
    /// received them and before they leave by another port.
    Ingress(usize),
}

/// How a router reads its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InputMode {
    /// By polling: the CPU scheduler runs input processes among all other processes.
    #[default]
    Polled,
    /// As with interrupts: packets are read when they arrive, before any process is scheduled. For
    /// comparison: overload causes receive livelock.
    Interrupt,
}

/// What the flows of a path are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowBy {
    /// Connections: addresses, protocol and ports.
    #[default]
    #[serde(rename = "5-tuple")]
    FiveTuple,
    /// Hosts by source address.
    Source,
    /// Hosts by destination address.
    Destination,
    /// Differentiated services code points.
    Dscp,
}

/// The hosts that share a path with flows equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostBy {
    /// Hosts by source address.
    Source,
    /// Hosts by destination address.
    Destination,
}

/// The source of the priority code point in the VLAN tags of sent frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PcpSource {
    /// The tag of the received packet; 0 if it was untagged.
    #[default]
    Keep,
    /// The first three bits of the packet's differentiated services code point.
    Dscp,
}

/// Network address translation behind a port's address (RFC 3022).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortNat {
    /// The limit of concurrent flows; at least 1.
    pub flows: u32,
    /// The limit of concurrent flows per host; at least 1.
    pub host_flows: u32,
    /// Whether packets are dropped if their source does not belong to the ingress port.
    pub check_source: bool,
    /// The ports of the address that are forwarded to hosts behind it.
    pub forwards: Vec<PortForward>,
}

/// A port of a translated address that is forwarded to a host behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// The IP protocol number, of TCP or UDP.
    pub protocol: u8,
    /// The port of the address; at least 1 and unique within a protocol.
    pub port: u16,
    /// The address and port of the host.
    pub to: SocketAddrV4,
}

/// A port of the router.
#[derive(Clone, Debug)]
pub struct RouterPort {
    /// The port's name.
    pub name: String,
    /// The device or files behind it.
    pub kind: PortKind,
    /// Whether packets that a capture holds in part are padded with zeros to their length.
    pub pads_truncated: bool,
    /// The index of the core that reads and writes it.
    pub core: usize,
    /// The VLAN ID on the device, from 1 to 4094; `None` for untagged frames. Each port of a device
    /// has a different one.
    pub vlan: Option<u16>,
    /// The source of the priority code point of its tagged frames.
    pub pcp: PcpSource,
    /// The egress link; its overhead includes a VLAN tag.
    pub link: Link,
    /// The limits of its rate, if that adapts.
    pub autorate: Option<PortAutorate>,
    /// The longest transmission time of packets sent to the device at once, ns; a single packet may
    /// take longer.
    pub line_burst_ns: u64,
    /// The hardware address, if the file gives one.
    pub mac: Option<MacAddr6>,
    /// The router's own addresses on the port's networks with the prefix lengths: at most one IPv4
    /// address and [`MAX_IPV6_ADDRESSES`] IPv6 addresses.
    pub addresses: Vec<IpNet>,
    /// The translation of IPv4 packets that leave by this port; they get its IPv4 address.
    pub nat: Option<PortNat>,
    /// The discipline that schedules the paths on the link.
    pub discipline: &'static DisciplineRow,
    /// The queue structure of the discipline.
    pub structure: StructureName,
    /// The reservation of the input process.
    pub input: Option<Reservation>,
    /// The reservation of the output process.
    pub output: Option<Reservation>,
    /// The longest sleep of the input process, ns.
    pub longest_sleep_ns: u64,
}

/// The match of a path; a packet must satisfy every given field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The ingress port, as an index in file order.
    pub port: Option<usize>,
    /// The IP protocol number; for IPv6, the protocol after all extension headers.
    pub protocol: Option<u8>,
    /// The differentiated services code points; a packet has to have one of them.
    pub dscp: Option<CodePoints>,
    /// The priority code point of the VLAN tag.
    pub pcp: Option<u8>,
    /// The VLAN ID of the ingress port.
    pub vlan: Option<u16>,
    /// The source prefix.
    pub source: Option<IpNet>,
    /// The destination prefix.
    pub destination: Option<IpNet>,
    /// The TCP or UDP source port.
    pub source_port: Option<u16>,
    /// The TCP or UDP destination port.
    pub destination_port: Option<u16>,
}

/// The action on a path's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathAction {
    /// Routes them.
    #[default]
    Forward,
    /// Drops them when they are classified: the path has no queue and no process.
    Drop,
}

/// A WebAssembly module that processes a path's packets before they are routed, with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathExtension {
    /// The file of the module.
    pub module: PathBuf,
    /// The largest size of its memory, bytes.
    pub memory_bytes: u64,
    /// The fuel for one packet; a WebAssembly instruction uses about one unit.
    pub fuel: u32,
    /// The number of consecutive failed packets after which it is stopped; at least 1.
    pub faults: u32,
}

/// The kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyKind {
    /// Reads the first bytes of a connection, then splices client and server by changing header
    /// fields.
    Transparent,
    /// Terminates the client's connection and opens another one to a server.
    Classical,
}

/// The TCP proxy of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProxy {
    /// The kind of proxy.
    pub kind: ProxyKind,
    /// Classical: the server for connections whose host name is not in `hosts`.
    pub to: Option<SocketAddr>,
    /// Classical: the server for each host name that a client sends first.
    pub hosts: Vec<(HostPattern, SocketAddr)>,
    /// The host names that the proxy accepts; an empty list accepts all names.
    pub allow: Vec<HostPattern>,
    /// The host names that the proxy refuses.
    pub deny: Vec<HostPattern>,
    /// The limit of concurrent connections; at least 1.
    pub connections: u32,
    /// The limit of concurrent connections per client; at least 1.
    pub host_connections: u32,
    /// Classical: the size of each of a connection's four buffers, bytes.
    pub buffer_bytes: u32,
}

/// A host name, or all names below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// The name in lower case, without a trailing dot.
    pub name: String,
    /// Whether the pattern matches all names below `name`, but not `name` itself.
    pub is_wildcard: bool,
}

impl HostPattern {
    /// Deprecated alias of [`matches`](Self::matches).
    #[deprecated(note = "renamed to `matches`")]
    #[must_use]
    pub fn holds(&self, host: &str) -> bool {
        self.matches(host)
    }

    /// Returns whether the pattern matches `host`, ignoring case and a trailing dot.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let Some(at) = host.len().checked_sub(self.name.len()) else { return false };
        let (Some(left), Some(end)) = (host.get(..at), host.get(at..)) else { return false };
        let fits =
            if self.is_wildcard { left.len() > 1 && left.ends_with('.') } else { left.is_empty() };
        fits && end.eq_ignore_ascii_case(&self.name)
    }
}

/// A switching path.
#[derive(Clone, Debug)]
pub struct RouterPath {
    /// The path's name.
    pub name: String,
    /// The match fields of its packets.
    pub matches: Match,
    /// A pcap-filter expression that the frames must also match.
    pub filter: Option<String>,
    /// The action on its packets. [`PathAction::Drop`] ignores the fields below.
    pub action: PathAction,
    /// The index of the core where its forwarding process runs.
    pub core: usize,
    /// The reservation of its forwarding process.
    pub reservation: Option<Reservation>,
    /// The WebAssembly extension that processes its packets before they are routed.
    pub extension: Option<PathExtension>,
    /// The proxy of its TCP connections.
    pub proxy: Option<PathProxy>,
    /// The capacity of its input queue and of each output queue, packets.
    pub queue: u32,
    /// The only egress port, as an index in file order; `None` allows any.
    pub to: Option<usize>,
    /// The service contract on the links, with its flows if it has some.
    pub contract: Contract,
    /// What the flows are, if the contract has some.
    pub flow_by: FlowBy,
    /// What the hosts are, if hosts share the flows equally.
    pub hosts_by: Option<HostBy>,
}

/// The next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The neighbour with this hardware address.
    Neighbour(MacAddr6),
    /// The gateway with this address, on the port's network.
    Gateway(IpAddr),
    /// The destination itself.
    Connected,
}

/// A static route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The destination prefix.
    pub prefix: IpNet,
    /// The egress port, as an index in file order.
    pub port: usize,
    /// The next hop.
    pub next: NextHop,
}

/// The configuration of a live router.
#[derive(Clone, Debug)]
pub struct RouterScenario {
    /// The router's name.
    pub name: String,
    /// The largest number of packets that a process moves before the next scheduling decision.
    pub batch: u32,
    /// The time slice of a forwarding process, ns.
    pub slice_ns: u64,
    /// The longest wait of a forwarding process for a full batch while other processes have work,
    /// ns.
    pub gather_ns: u64,
    /// How the router reads its ports.
    pub input: InputMode,
    /// The number of cores that run its processes, at least 1.
    pub cores: usize,
    /// The number of packets that all queues of a core hold together.
    pub buffers: u32,
    /// Whether the router also uses the kernel's routes and neighbours.
    pub kernel_routes: bool,
    /// The loopback address of the HTTP page of counters; `None` disables it.
    pub status: Option<SocketAddr>,
    /// The ports in file order.
    pub ports: Vec<RouterPort>,
    /// The paths in the order of matching.
    pub paths: Vec<RouterPath>,
    /// The static routes.
    pub routes: Vec<Route>,
}

/// The limits of a port's rate that adapts to the delay beyond the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAutorate {
    /// The lowest rate, bits/s.
    pub min_bps: u64,
    /// The highest rate, bits/s.
    pub max_bps: u64,
    /// The delay of queues beyond the port above which the rate falls, ns.
    pub delay_ns: u64,
}

impl RouterPort {
    /// Returns the link at its highest rate.
    #[must_use]
    pub fn fastest_link(&self) -> Link {
        let rate_bps = self.autorate.map_or(self.link.rate_bps, |limits| limits.max_bps);
        Link { rate_bps, ..self.link }
    }

    /// Returns the link at its lowest rate.
    #[must_use]
    pub fn slowest_link(&self) -> Link {
        let rate_bps = self.autorate.map_or(self.link.rate_bps, |limits| limits.min_bps);
        Link { rate_bps, ..self.link }
    }

    /// Returns whether the port is the link of another port's arrivals.
    #[must_use]
    pub fn is_ingress(&self) -> bool {
        matches!(self.kind, PortKind::Ingress(_))
    }
}

impl RouterScenario {
    /// Returns whether packets of `path` may pass the link of `port`, an index in file order: they
    /// may leave by it, or it is the ingress of a port where they may arrive.
    #[must_use]
    pub fn may_pass(&self, path: &RouterPath, port: usize) -> bool {
        path.action == PathAction::Forward
            && match self.ports[port].kind {
                PortKind::Ingress(of) => path.matches.port.is_none_or(|arrives| arrives == of),
                _ => path.to.is_none_or(|to| to == port),
            }
    }

    /// Deprecated alias of [`is_router_file`](Self::is_router_file).
    #[deprecated(note = "renamed to `is_router_file`")]
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        Self::is_router_file(path)
    }

    /// Returns whether the file at `path` is a router file: it has a `[router]` table.
    ///
    /// Returns `false` if the file is unreadable; [`load`](Self::load) reports the reason.
    #[must_use]
    pub fn is_router_file(path: &Path) -> bool {
        let Ok((_, text)) = load_text(path) else { return false };
        has_table(&text, "router")
    }

    /// Reads and validates the router file at `path`.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let (name, text) = load_text(path)?;
        Self::parse(&name, &text, path.parent().unwrap_or(Path::new("")))
    }

    /// Validates the text of a router file called `name` whose captures are relative to `folder`.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        validate_router(name, text, folder)
            .map_err(|problems| ScenarioError::new(name, text, problems))
    }
}

/// Returns the JSON Schema of a router file, pretty-printed.
#[must_use]
pub fn router_schema() -> String {
    let schema = schemars::schema_for!(RouterFile);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// Returns the rate cap of a path on its links; `None` if `rate_bps` is 0.
pub(crate) fn max_rate(rate_bps: u64, burst_bytes: u64) -> Option<MaxRate> {
    Some(MaxRate { rate_bps: NonZeroU64::new(rate_bps)?, burst_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_must_be_used_and_shared_devices_need_one_core() {
        let parse = |router: &str, port: &str, other: &str, path: &str| {
            let text = format!(
                "[router]\n{router}\n\
                 [[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                 address = \"10.1.0.1/24\"\n{port}\n\
                 [[port]]\nname = \"b\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n{other}\n\
                 [[path]]\nname = \"p\"\n{path}\n"
            );
            RouterScenario::parse("test.toml", &text, Path::new(""))
        };
        let two = parse("cores = 2", "core = 1", "", "core = 1").unwrap();
        assert_eq!(
            (two.cores, two.ports[0].core, two.ports[1].core, two.paths[0].core),
            (2, 1, 0, 1)
        );
        assert_eq!(parse("", "", "", "").unwrap().cores, 1);
        let proxy = "match = { protocol = \"tcp\" }\nproxy = { kind = \"transparent\" }";
        let vlan = "interface = \"a\"\nvlan = 7\ncore = 1";
        for (router, port, other, path, message) in [
            ("cores = 0", "", "", "", "`cores` of 0"),
            ("cores = 65", "", "", "", "`cores` of 65"),
            ("cores = 2", "", "", "", "no port or path uses core `1`"),
            ("", "core = 1", "", "", "port `a` on core 1 of 1"),
            ("cores = 2", "core = 1", "", "core = 2", "path `p` on core 2 of 2"),
            ("cores = 2", "", vlan, "", "`a` and `b` share a device on two cores"),
            ("cores = 2", "core = 1", "", proxy, "path `p` has a proxy in a router of 2 cores"),
            (
                "cores = 2",
                "core = 1",
                "",
                "core = 1\naction = \"drop\"",
                "`core` of path `p`, whose action is \"drop\"",
            ),
        ] {
            let problems = parse(router, port, other, path).unwrap_err().problems;
            assert!(
                problems.iter().any(|of| of.to_string().contains(message)),
                "{router} {path}: {problems:?}"
            );
        }
    }

    #[test]
    fn ingress_ports_name_a_port_that_receives() {
        let problems = |cores: &str, ingress: &str, path: &str| -> Vec<String> {
            let text = format!(
                "[router]\n{cores}\n[[port]]\nname = \"wan\"\nkind = \"tap\"\n\
                 rate = \"1 Gbit/s\"\naddress = \"10.1.0.1/24\"\n[[port]]\nname = \"down\"\n\
                 kind = \"ingress\"\nrate = \"10 Mbit/s\"\n{ingress}\n\
                 [[path]]\nname = \"p\"\n{path}\n"
            );
            match RouterScenario::parse("test.toml", &text, Path::new("")) {
                Ok(scenario) => {
                    assert_eq!(scenario.ports[1].kind, PortKind::Ingress(0));
                    Vec::new()
                }
                Err(error) => error.problems.iter().map(ToString::to_string).collect(),
            }
        };
        let of = "of = \"wan\"";
        assert_eq!(problems("", of, ""), [""; 0]);
        let second = "of = \"wan\"\n[[port]]\nname = \"b\"\nkind = \"ingress\"\n\
                      rate = \"1 Mbit/s\"\nof = \"wan\"";
        for (cores, ingress, path, message) in [
            ("", "", "", "port `down` has no `of`"),
            ("", "of = \"lan\"", "", "there is no port `lan`"),
            ("", "of = \"down\"", "", "`down` is an ingress port and receives nothing"),
            ("", second, "", "port `wan` has two ingress ports"),
            ("", &format!("{of}\nmac = \"02:00:00:00:00:01\""), "", "`mac` does not belong"),
            ("", of, "to = \"down\"", "port `down` is an ingress port"),
            ("", of, "match = { port = \"down\" }", "port `down` is an ingress port"),
            ("cores = 2", of, "core = 1", "an ingress port in a router of 2 cores"),
        ] {
            let problems = problems(cores, ingress, path);
            assert!(
                problems.iter().any(|problem| problem.contains(message)),
                "{ingress} {path}: {problems:?}"
            );
        }
    }

    /// A path that says nothing about its contract has flows and CoDel, unless its packets come
    /// from or go to a capture.
    #[test]
    fn best_effort_paths_have_flows_by_default() {
        let flows = |kind: &str, path: &str| {
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\n{kind}\nrate = \"1 Gbit/s\"\n\
                 address = \"10.1.0.1/24\"\n[[path]]\nname = \"p\"\n{path}\n"
            );
            let scenario = RouterScenario::parse("test.toml", &text, Path::new("")).unwrap();
            scenario.paths[0].contract.flow_options()
        };
        let live = "kind = \"tap\"";
        let default = flows(live, "match = { protocol = \"udp\" }").unwrap();
        assert_eq!((default.buckets, default.limit_packets), (1_024, 256));
        assert_eq!(default.aqm, millstream::flow_queue::FlowOptions::default().aqm);
        let contracts = ["weight = 2", "priority = 1", "period = \"1 ms\"", "window = \"1/2\""];
        let others = [
            "late = \"drop\"",
            "max-rate = \"1 Mbit/s\"",
            "queue = 256",
            "aqm = \"none\"",
            "action = \"drop\"",
        ];
        for path in contracts.iter().chain(&others) {
            assert_eq!(flows(live, path), None, "{path}");
        }
        let capture = "kind = \"pcap\"\ninput = \"in.pcap\"\nmac = \"02:00:00:00:00:01\"";
        assert_eq!(flows(capture, ""), None);
    }

    #[test]
    fn limits_of_extensions_are_validated() {
        let parse = |extension: &str| {
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                 address = \"10.1.0.1/24\"\n[[path]]\nname = \"p\"\nextension = {extension}\n"
            );
            RouterScenario::parse("test.toml", &text, Path::new("folder"))
        };
        let whole = "{ module = \"m.wasm\", memory = \"64 KiB\", fuel = 1, faults = 1 }";
        let extension = PathExtension {
            module: PathBuf::from("folder/m.wasm"),
            memory_bytes: 65_536,
            fuel: 1,
            faults: 1,
        };
        assert_eq!(parse(whole).unwrap().paths[0].extension, Some(extension));
        for (wrong, message) in [
            ("{ module = \"\" }", "no module is named"),
            ("{ module = \"m\", memory = \"65535 B\" }", "a memory of 65535 bytes"),
            ("{ module = \"m\", memory = \"2 GiB\" }", "a memory of 2147483648 bytes"),
            ("{ module = \"m\", fuel = 0 }", "`fuel` of 0"),
            ("{ module = \"m\", faults = 0 }", "`faults` of 0"),
            ("{ memory = \"1 MiB\" }", "missing field `module`"),
        ] {
            let problems = parse(wrong).unwrap_err().problems;
            assert!(problems[0].to_string().contains(message), "{wrong}: {}", problems[0]);
        }
    }

    #[test]
    fn ports_accept_addresses_and_gateways_of_both_families() {
        let parse = |address: &str, route: &str| {
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                 address = {address}\n[[path]]\nname = \"p\"\n[[route]]\nport = \"a\"\n{route}\n"
            );
            RouterScenario::parse("test.toml", &text, Path::new(""))
        };
        let both = "[\"10.1.0.1/24\", \"2001:db8:1::1/64\", \"fd00::1/48\"]";
        for via in ["2001:db8:1::9", "fd00::9", "fe80::9"] {
            let route = format!("prefix = \"2001:db8:2::/48\"\nvia = \"{via}\"");
            let scenario = parse(both, &route).unwrap();
            let nets: Vec<_> = scenario.ports[0].addresses.iter().map(IpNet::to_string).collect();
            assert_eq!(nets, ["10.1.0.1/24", "2001:db8:1::1/64", "fd00::1/48"]);
            assert_eq!(scenario.routes[0].next, NextHop::Gateway(via.parse().unwrap()));
        }
        for (address, route, message) in [
            (
                both,
                "prefix = \"::/0\"\nvia = \"10.1.0.9\"",
                "10.1.0.9 cannot be the next hop of ::/0",
            ),
            (both, "prefix = \"::/0\"\nvia = \"2001:db8:9::9\"", "not on the network of port `a`"),
            (both, "prefix = \"::/0\"\nvia = \"fd00::1\"", "not on the network of port `a`"),
            ("\"10.1.0.1/24\"", "prefix = \"::/0\"\nvia = \"fe80::9\"", "not on the network"),
            ("\"10.1.0.1/24\"", "prefix = \"::/0\"", "no connected IPv6 network on port `a`"),
            ("\"fd00::1/64\"", "prefix = \"10.2.0.0/16\"", "no connected IPv4 network on port `a`"),
            ("[]", "prefix = \"::/0\"", "an empty list of addresses"),
            ("[\"fd00::1/64\", \"fd00::1/48\"]", "prefix = \"::/0\"", "is listed twice"),
            ("\"ff02::1/64\"", "prefix = \"::/0\"", "ff02::1 is not the address of a host"),
            ("7", "prefix = \"::/0\"", "or a list of addresses"),
        ] {
            let problems = parse(address, route).unwrap_err().problems;
            assert!(problems[0].to_string().contains(message), "{route}: {}", problems[0]);
        }
        let many: Vec<_> = (1..=9).map(|k| format!("\"fd00::{k}/64\"")).collect();
        let many = parse(&format!("[{}]", many.join(",")), "prefix = \"::/0\"");
        assert!(many.unwrap_err().problems[0].to_string().contains("9 IPv6 addresses"));
    }

    #[test]
    fn quanta_are_proportional_to_weights_with_default_1() {
        let quantum = |weights: &[&str]| -> Vec<_> {
            let path =
                |(at, weight): (usize, &&str)| format!("[[path]]\nname = \"{at}\"\n{weight}\n");
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                 address = \"10.1.0.1/24\"\n{}",
                weights.iter().enumerate().map(path).collect::<String>()
            );
            let scenario = RouterScenario::parse("test.toml", &text, Path::new("")).unwrap();
            scenario.paths.into_iter().map(|path| path.contract).collect()
        };
        let contract =
            |weight, bytes| Contract::new().weight(weight).unwrap().quantum_bytes(bytes).unwrap();
        assert_eq!(
            quantum(&["weight = 3", "queue = 256"]),
            [contract(3, 3 * 1_514), contract(1, 1_514)]
        );
        let halves = [contract(2, 1_514), contract(3, 2_271)];
        assert_eq!(quantum(&["weight = 2", "weight = 3"]), halves);
    }
}
