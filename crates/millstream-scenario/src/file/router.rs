//! The TOML tables of a router file: `[router]`, `[[port]]`, `[[path]]` and `[[route]]`.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

use super::LateName;
use crate::router::{InputMode, InterfaceIo, PathAction, PcpSource, ProxyKind};
use crate::units::{Duration, Rate, ReservationText, Size, WindowText};

/// A Millstream router: ports, switching paths and routes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Millstream router")]
pub(crate) struct RouterFile {
    pub(crate) router: RouterTable,
    /// The ports.
    #[serde(default)]
    #[schemars(with = "Vec<PortTable>")]
    pub(crate) port: Vec<Spanned<PortTable>>,
    /// Switching paths; a packet takes the first that matches it.
    #[serde(default)]
    #[schemars(with = "Vec<PathTable>")]
    pub(crate) path: Vec<Spanned<PathTable>>,
    /// Routes; the longest prefix that holds a packet's destination counts.
    #[serde(default)]
    #[schemars(with = "Vec<RouteTable>")]
    pub(crate) route: Vec<Spanned<RouteTable>>,
}

/// The router as a whole.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RouterTable {
    /// The router's name; default: the file's.
    pub(crate) name: Option<String>,
    /// Packets that a process moves before another is chosen; default 32.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1024))]
    pub(crate) batch: Option<Spanned<u32>>,
    /// How long a forwarding process runs before another is chosen; default "30 us".
    #[schemars(with = "Option<Duration>")]
    pub(crate) slice: Option<Spanned<Duration>>,
    /// How long a forwarding process waits for a whole batch while others have work, at most; "0
    /// us": not at all. Default "50 us".
    #[schemars(with = "Option<Duration>")]
    pub(crate) gather: Option<Spanned<Duration>>,
    /// How ports are read: by processes that are scheduled, or before everything else, to compare;
    /// default "polled".
    pub(crate) input: Option<InputMode>,
    /// Processors that the router's processes run on; default 1. Each has a scheduler of its own.
    #[schemars(with = "Option<u32>", range(min = 1, max = 64))]
    pub(crate) cores: Option<Spanned<u32>>,
    /// Packets that all queues hold together, those of each core where there are several; default
    /// 16384.
    #[schemars(with = "Option<u32>", range(min = 64, max = 1048576))]
    pub(crate) buffers: Option<Spanned<u32>>,
    /// Whether the routes of the kernel's main table and its neighbours count, too, as they change;
    /// a route of the file counts before the kernel's of the same prefix. Default: false.
    #[schemars(with = "Option<bool>")]
    pub(crate) kernel_routes: Option<Spanned<bool>>,
    /// Where counters are shown by HTTP, for example "127.0.0.1:9817"; a loopback address. Default:
    /// nowhere.
    #[schemars(with = "Option<String>")]
    pub(crate) status: Option<Spanned<String>>,
}

/// What kind of port.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PortKind {
    /// A network interface; needs CAP_NET_RAW, and for AF_XDP CAP_NET_ADMIN, CAP_BPF and
    /// CAP_IPC_LOCK.
    Interface,
    /// A TAP device, which is made; needs CAP_NET_ADMIN.
    Tap,
    /// A TUN device, which is made: IP packets without hardware addresses; needs CAP_NET_ADMIN.
    Tun,
    /// Captures in place of a device.
    Pcap,
}

/// An address with its network's length, or a list of such.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "addresses")]
#[serde(untagged, expecting = "an address such as \"10.1.0.1/24\", or a list of addresses")]
pub(crate) enum AddressText {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// A port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PortTable {
    /// Unique.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// What kind of port.
    pub(crate) kind: PortKind,
    /// The interface's name; default: the port's.
    pub(crate) interface: Option<String>,
    /// Interface: how packets are read and written; default "packet".
    pub(crate) io: Option<InterfaceIo>,
    /// Which of the router's cores reads and writes it, from 0 on; default 0.
    #[schemars(with = "Option<u32>")]
    pub(crate) core: Option<Spanned<u32>>,
    /// The VLAN of the device that the port is: its frames come and leave with this tag. Default:
    /// frames without one.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4094))]
    pub(crate) vlan: Option<Spanned<u16>>,
    /// In a VLAN: where the priority of frames that leave is from; default "keep".
    #[schemars(with = "Option<PcpSource>")]
    pub(crate) pcp: Option<Spanned<PcpSource>>,
    /// Pcap: the capture that packets come from, as fast as they are read.
    pub(crate) input: Option<String>,
    /// Pcap: the capture that packets are written to.
    pub(crate) output: Option<String>,
    /// The speed that packets leave at.
    pub(crate) rate: Rate,
    /// Bytes that a packet takes on the wire beyond its length; default 0.
    #[serde(default)]
    pub(crate) overhead: u32,
    /// The longest burst: packets that are sent at once take the line this long at most, or
    /// are one. "0 us": one at a time. At most "100 ms"; default "100 us".
    #[schemars(with = "Option<Duration>")]
    pub(crate) line_burst: Option<Spanned<Duration>>,
    /// The port's own hardware address; default: the interface's. Pcap ports need it.
    #[schemars(with = "Option<String>")]
    pub(crate) mac: Option<Spanned<String>>,
    /// The router's own address there and its network's length, for example "10.1.0.1/24", or a
    /// list of one IPv4 and some IPv6 addresses: the router then answers ARP or neighbour discovery
    /// and echo requests, sends ICMP errors and routes to that network.
    #[schemars(with = "Option<AddressText>")]
    pub(crate) address: Option<Spanned<AddressText>>,
    /// Hides who sends IPv4 by this port behind its `address`: packets leave from there, with a
    /// port number of the router's, and answers find their way back. `{}` takes the defaults.
    #[schemars(with = "Option<NatTable>")]
    pub(crate) nat: Option<Spanned<NatTable>>,
    /// How paths share the port; default "wf2q+".
    #[schemars(with = "Option<String>", extend("enum" = super::discipline_names()))]
    pub(crate) discipline: Option<Spanned<String>>,
    /// Cycles or packets a second of the input process; default: what other processes leave.
    #[schemars(with = "Option<ReservationText>")]
    pub(crate) input_reservation: Option<Spanned<ReservationText>>,
    /// Cycles or packets a second of the output process; default: a part of what is left.
    #[schemars(with = "Option<ReservationText>")]
    pub(crate) output_reservation: Option<Spanned<ReservationText>>,
    /// What a packet costs each of the two; needed where a reservation is in packets.
    pub(crate) cost: Option<Duration>,
    /// The longest that the input process leaves its device alone; default "25 us".
    pub(crate) longest_sleep: Option<Duration>,
}

/// How much is translated. A flow is a protocol (UDP, TCP, ICMP echo) and both ends' addresses and
/// ports.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct NatTable {
    /// Flows at once. A new one takes the place of one that nobody has answered yet; if all are
    /// answered, the packet is dropped. Default 16384.
    #[schemars(with = "Option<u32>", range(min = 1, max = 262_144))]
    pub(crate) flows: Option<Spanned<u32>>,
    /// Flows of one host at once; default 2048.
    #[schemars(with = "Option<u32>", range(min = 1, max = 262_144))]
    pub(crate) host_flows: Option<Spanned<u32>>,
    /// Whether packets are dropped whose source does not belong to the port that they came by: the
    /// router's own route to it leads by another port, or there is none. Default: true.
    pub(crate) check_source: Option<bool>,
    /// Ports of `address` that hosts behind it serve; at most 1024. Default: nobody outside can
    /// begin anything.
    #[serde(default)]
    #[schemars(with = "Vec<ForwardTable>")]
    pub(crate) forward: Vec<Spanned<ForwardTable>>,
}

/// A port that a host behind the address serves: what comes for it goes there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ForwardTable {
    /// Whose port.
    pub(crate) protocol: ForwardProtocol,
    /// The port of `address`.
    #[schemars(with = "u16", range(min = 1))]
    pub(crate) port: Spanned<u16>,
    /// The host and its port, for example "10.1.0.5:80".
    #[schemars(with = "String")]
    pub(crate) to: Spanned<String>,
}

/// What has ports that can be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForwardProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What packets a path takes; all that is given must hold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MatchTable {
    /// They came in by this port.
    #[schemars(with = "Option<String>")]
    pub(crate) port: Option<Spanned<String>>,
    /// "tcp", "udp", "icmp", "icmpv6" or a number; of IPv6 what stands behind extension headers.
    #[schemars(with = "Option<String>")]
    pub(crate) protocol: Option<Spanned<String>>,
    /// Their differentiated services code point.
    #[schemars(with = "Option<u8>", range(max = 63))]
    pub(crate) dscp: Option<Spanned<u8>>,
    /// The priority in their VLAN tag; frames without a tag have none.
    #[schemars(with = "Option<u8>", range(max = 7))]
    pub(crate) pcp: Option<Spanned<u8>>,
    /// They came in by a port of this VLAN.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4094))]
    pub(crate) vlan: Option<Spanned<u16>>,
    /// A prefix such as "10.1.0.0/16" or "2001:db8::/32".
    #[schemars(with = "Option<String>")]
    pub(crate) source: Option<Spanned<String>>,
    /// A prefix.
    #[schemars(with = "Option<String>")]
    pub(crate) destination: Option<Spanned<String>>,
    /// TCP or UDP port.
    pub(crate) source_port: Option<u16>,
    /// TCP or UDP port.
    pub(crate) destination_port: Option<u16>,
    /// A pcap-filter expression about the Ethernet frame, such as "tcp port 80 and not host
    /// 10.0.0.9" (`man pcap-filter`).
    #[schemars(with = "Option<String>", length(min = 1, max = 4096))]
    pub(crate) filter: Option<Spanned<String>>,
}

/// An extension of a path: a WebAssembly module that sees its packets before they are routed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ExtensionTable {
    /// The module's file, .wasm; relative to this file.
    #[schemars(with = "String")]
    pub(crate) module: Spanned<String>,
    /// What its memory may grow to; default "2 MiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) memory: Option<Spanned<Size>>,
    /// What it may compute for a packet, about one a WebAssembly instruction; default 20000.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000000000))]
    pub(crate) fuel: Option<Spanned<u32>>,
    /// It is stopped after so many packets in a row at which it failed; default 8.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000000))]
    pub(crate) faults: Option<Spanned<u32>>,
}

/// A proxy: what stands between both ends of a path's TCP connections.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ProxyTable {
    /// What kind of proxy.
    pub(crate) kind: ProxyKind,
    /// Classical: the server that connections go on to, for example "10.2.0.9:80"; of those with
    /// `hosts` the one for names that are not among them.
    #[schemars(with = "Option<String>")]
    pub(crate) to: Option<Spanned<String>>,
    /// Classical: the server for each name, for example { "a.example" = "10.2.0.8:80" }. The name
    /// is what the client says first: the host of an HTTP/1 request, or the server name of a TLS
    /// connection.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) hosts: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Only connections to these names, "a.example" or "*.example" for all below it; default: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<Spanned<String>>>,
    /// No connections to these names; default: none is refused.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) deny: Option<Vec<Spanned<String>>>,
    /// Connections at once; those beyond are refused. Default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 16384))]
    pub(crate) connections: Option<Spanned<u32>>,
    /// Connections of one client at once; default 64.
    #[schemars(with = "Option<u32>", range(min = 1, max = 16384))]
    pub(crate) host_connections: Option<Spanned<u32>>,
    /// Classical: what may wait in each of the four buffers of a connection; default "32 KiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) buffer: Option<Spanned<Size>>,
}

/// A switching path: input queue, forwarding process, output queues.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PathTable {
    /// Unique.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// What packets it takes; default: all that no earlier path took.
    #[serde(default)]
    pub(crate) r#match: MatchTable,
    /// What becomes of them; default "forward".
    pub(crate) action: Option<PathAction>,
    /// Cycles or packets a second of its forwarding process; default: a part of what is left.
    #[schemars(with = "Option<ReservationText>")]
    pub(crate) reservation: Option<Spanned<ReservationText>>,
    /// What a packet costs; needed where the reservation is in packets.
    pub(crate) cost: Option<Duration>,
    /// A WebAssembly module that sees its packets before they are routed, and may change or drop
    /// them; default: none.
    pub(crate) extension: Option<ExtensionTable>,
    /// Stands between both ends of its TCP connections; default: none.
    #[schemars(with = "Option<ProxyTable>")]
    pub(crate) proxy: Option<Spanned<ProxyTable>>,
    /// Which of the router's cores its function runs on, from 0 on; default 0.
    #[schemars(with = "Option<u32>")]
    pub(crate) core: Option<Spanned<u32>>,
    /// Packets in its input queue, and in each of its output queues; default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) queue: Option<Spanned<u32>>,
    /// The only port that its packets leave by; default: any.
    #[schemars(with = "Option<String>")]
    pub(crate) to: Option<Spanned<String>>,
    /// On links, for fair queueing; positive; default 1.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) weight: Option<Spanned<u32>>,
    /// On links, for static priority; 0 is served first.
    pub(crate) priority: Option<u32>,
    /// On links: T; needed by edf and dwcs.
    pub(crate) period: Option<Duration>,
    /// On links: x/y.
    pub(crate) window: Option<WindowText>,
    /// On links: what becomes of late packets; default "send".
    pub(crate) late: Option<LateName>,
    /// A cap on its rate on each link.
    pub(crate) max_rate: Option<Rate>,
    /// How much may go at once under `max-rate`; default: one packet.
    pub(crate) burst: Option<Size>,
}

/// A route with its neighbour.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RouteTable {
    /// Destinations such as "10.2.0.0/16" or "2001:db8:2::/48".
    #[schemars(with = "String")]
    pub(crate) prefix: Spanned<String>,
    /// The port that leads there.
    #[schemars(with = "String")]
    pub(crate) port: Spanned<String>,
    /// The hardware address of the next hop.
    #[schemars(with = "Option<String>")]
    pub(crate) neighbour: Option<Spanned<String>>,
    /// The address of the next hop, a gateway on the port's network, or a link-local one of IPv6.
    /// Without this and `neighbour` the destinations are on that network.
    #[schemars(with = "Option<String>")]
    pub(crate) via: Option<Spanned<String>>,
}
