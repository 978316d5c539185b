//! The TOML tables of a router file: `[router]`, `[[port]]`, `[[path]]` and `[[route]]`.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

use super::LateName;
use super::aqm::AqmText;
use super::flows::FlowsTable;
use crate::dscp::CodePoints;
use crate::mark::Mark;
use crate::overhead::{FramingName, Overhead};
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
    /// The switching paths in the order of matching: a packet takes the first path that matches it.
    #[serde(default)]
    #[schemars(with = "Vec<PathTable>")]
    pub(crate) path: Vec<Spanned<PathTable>>,
    /// The static routes; a packet takes the longest prefix that contains its destination.
    #[serde(default)]
    #[schemars(with = "Vec<RouteTable>")]
    pub(crate) route: Vec<Spanned<RouteTable>>,
}

/// The general settings of the router.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RouterTable {
    /// The router's name; default: the file's name without its extension.
    pub(crate) name: Option<String>,
    /// The largest number of packets that a process moves in one run; default 32.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1024))]
    pub(crate) batch: Option<Spanned<u32>>,
    /// The time slice of a forwarding process, which starts no packet after it; default "30 us".
    #[schemars(with = "Option<Duration>")]
    pub(crate) slice: Option<Spanned<Duration>>,
    /// The longest wait of a forwarding process for a full batch while other processes have work;
    /// "0 us" disables the wait. Default "50 us".
    #[schemars(with = "Option<Duration>")]
    pub(crate) gather: Option<Spanned<Duration>>,
    /// How the router reads its ports; default "polled".
    pub(crate) input: Option<InputMode>,
    /// The number of cores that run the router's processes, each with its own scheduler; default 1.
    #[schemars(with = "Option<u32>", range(min = 1, max = 64))]
    pub(crate) cores: Option<Spanned<u32>>,
    /// The number of packets that all queues of a core hold together; default 16384.
    #[schemars(with = "Option<u32>", range(min = 64, max = 1048576))]
    pub(crate) buffers: Option<Spanned<u32>>,
    /// Whether the router also follows the kernel's main routing table and neighbours. A route of
    /// this file precedes the kernel's route of the same prefix. Default false.
    #[schemars(with = "Option<bool>")]
    pub(crate) kernel_routes: Option<Spanned<bool>>,
    /// The loopback address and port of the HTTP page of counters, for example "127.0.0.1:9817";
    /// default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) status: Option<Spanned<String>>,
}

/// The kind of port.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PortKind {
    /// A network interface; needs CAP_NET_RAW, and for AF_XDP also CAP_NET_ADMIN, CAP_BPF and
    /// CAP_IPC_LOCK.
    Interface,
    /// A TAP device, which the router creates; needs CAP_NET_ADMIN.
    Tap,
    /// A TUN device, which the router creates: IP packets without hardware addresses; needs
    /// CAP_NET_ADMIN.
    Tun,
    /// Capture files instead of a device.
    Pcap,
    /// No device: the link that packets pass after the port `of` has received them, before they
    /// leave by another port. It schedules what arrives, as Linux does by an IFB device.
    Ingress,
}

/// An address with its prefix length, or a list of such addresses.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "addresses")]
#[serde(untagged, expecting = "an address such as \"10.1.0.1/24\", or a list of addresses")]
pub(crate) enum AddressText {
    /// A single address.
    One(String),
    /// A list of addresses.
    Several(Vec<String>),
}

/// A port of the router.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PortTable {
    /// The port's name, unique among ports.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The kind of port.
    pub(crate) kind: PortKind,
    /// The name of the interface or device; default: the port's name.
    pub(crate) interface: Option<String>,
    /// Ingress: the port that receives the packets of this link. Required.
    #[schemars(with = "Option<String>")]
    pub(crate) of: Option<Spanned<String>>,
    /// Interface: how packets are read and written; default "packet".
    pub(crate) io: Option<InterfaceIo>,
    /// The index of the core that reads and writes the port, from 0; default 0.
    #[schemars(with = "Option<u32>")]
    pub(crate) core: Option<Spanned<u32>>,
    /// The VLAN ID of the port on its device: its frames are received and sent with this tag.
    /// Default: untagged frames.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4094))]
    pub(crate) vlan: Option<Spanned<u16>>,
    /// With `vlan`: the source of the priority code point in the tags of sent frames; default
    /// "keep".
    #[schemars(with = "Option<PcpSource>")]
    pub(crate) pcp: Option<Spanned<PcpSource>>,
    /// Pcap: the capture that is read, as fast as the queues have room.
    pub(crate) input: Option<String>,
    /// Pcap: whether packets that the capture holds in part are padded with zeros to their length.
    /// Otherwise they are unsupported. Default false.
    pub(crate) pad_truncated: Option<bool>,
    /// Pcap: the capture that is written.
    pub(crate) output: Option<String>,
    /// The egress rate.
    pub(crate) rate: Rate,
    /// Bytes on the wire per packet in addition to its length, at least -64, or a name. A length
    /// includes the Ethernet header, also on TUN: "ethernet" is 24 (preamble, FCS and gap),
    /// "docsis" 4 (FCS). Names of ATM and PTM links also set `framing`. A VLAN tag is added.
    /// Default 0.
    #[serde(default)]
    pub(crate) overhead: Overhead,
    /// The division of packets on the wire: "atm" (cells of 53 bytes for every 48), "ptm" (65 for
    /// 64) or "none". Default: that of the name in `overhead`, or "none".
    #[schemars(with = "Option<FramingName>")]
    pub(crate) framing: Option<Spanned<FramingName>>,
    /// A rate that adapts between `min` and `max` to the delay that TCP packets meet beyond the
    /// port; `rate` is the first one, and that of an idle link. Default: `rate` is constant.
    #[schemars(with = "Option<AutorateTable>")]
    pub(crate) autorate: Option<Spanned<AutorateTable>>,
    /// The longest transmission time of packets sent to the device at once; a single packet may
    /// take longer. "0 us" sends one packet at a time. At most "100 ms"; default "100 us".
    #[schemars(with = "Option<Duration>")]
    pub(crate) line_burst: Option<Spanned<Duration>>,
    /// The port's own hardware address; default: the interface's. Required for pcap ports.
    #[schemars(with = "Option<String>")]
    pub(crate) mac: Option<Spanned<String>>,
    /// The router's own address with its prefix length, for example "10.1.0.1/24", or a list of one
    /// IPv4 and up to eight IPv6 addresses. The router then answers ARP or neighbour discovery and
    /// echo requests, sends ICMP errors and routes to that network.
    #[schemars(with = "Option<AddressText>")]
    pub(crate) address: Option<Spanned<AddressText>>,
    /// Network address translation (NAPT) of IPv4 packets that leave by this port. They get its
    /// `address` and a port number of the router; answers are translated back. `{}` selects the
    /// defaults.
    #[schemars(with = "Option<NatTable>")]
    pub(crate) nat: Option<Spanned<NatTable>>,
    /// The discipline that schedules the paths on the link; default "wf2q+".
    #[schemars(with = "Option<String>", extend("enum" = super::discipline_names()))]
    pub(crate) discipline: Option<Spanned<String>>,
    /// The reservation of the input process, cycles or packets per second; default: the cycles that
    /// other processes leave.
    #[schemars(with = "Option<ReservationText>")]
    pub(crate) input_reservation: Option<Spanned<ReservationText>>,
    /// The reservation of the output process, cycles or packets per second; default: best effort.
    #[schemars(with = "Option<ReservationText>")]
    pub(crate) output_reservation: Option<Spanned<ReservationText>>,
    /// The cost of a packet in each of the two processes; required if a reservation is in packets.
    pub(crate) cost: Option<Duration>,
    /// The longest sleep of the input process between two runs; default "25 us".
    pub(crate) longest_sleep: Option<Duration>,
}

/// The limits of a port's rate that adapts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AutorateTable {
    /// The lowest rate.
    pub(crate) min: Rate,
    /// The highest rate.
    pub(crate) max: Rate,
    /// The delay of queues beyond the port above which the rate falls, from "1 ms" to "1 s";
    /// default "30 ms".
    pub(crate) delay: Option<Duration>,
}

/// The limits and forwarded ports of NAT. A flow is a protocol (UDP, TCP, ICMP echo) with the
/// addresses and ports of both ends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct NatTable {
    /// The limit of concurrent flows. A new flow replaces an unanswered one; if all are answered,
    /// its packet is dropped. Default 16384.
    #[schemars(with = "Option<u32>", range(min = 1, max = 262_144))]
    pub(crate) flows: Option<Spanned<u32>>,
    /// The limit of concurrent flows per host; default 2048.
    #[schemars(with = "Option<u32>", range(min = 1, max = 262_144))]
    pub(crate) host_flows: Option<Spanned<u32>>,
    /// Whether a packet is dropped if the router has no route to its source, or a route by another
    /// port than the ingress port. Default true.
    pub(crate) check_source: Option<bool>,
    /// The ports of `address` that are forwarded to hosts behind it, at most 1024; default: none,
    /// so hosts outside cannot open connections.
    #[serde(default)]
    #[schemars(with = "Vec<ForwardTable>")]
    pub(crate) forward: Vec<Spanned<ForwardTable>>,
}

/// A forwarded port: packets to a port of `address` go to a host behind it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ForwardTable {
    /// The protocol of the port.
    pub(crate) protocol: ForwardProtocol,
    /// The port of `address`.
    #[schemars(with = "u16", range(min = 1))]
    pub(crate) port: Spanned<u16>,
    /// The address and port of the host, for example "10.1.0.5:80".
    #[schemars(with = "String")]
    pub(crate) to: Spanned<String>,
}

/// The protocols whose ports can be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ForwardProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The match of a path or a stream; a packet must satisfy every given key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MatchTable {
    /// Path: the ingress port.
    #[schemars(with = "Option<String>")]
    pub(crate) port: Option<Spanned<String>>,
    /// The IP protocol: "tcp", "udp", "icmp", "icmpv6" or a number; for IPv6, the protocol after
    /// all extension headers.
    #[schemars(with = "Option<String>")]
    pub(crate) protocol: Option<Spanned<String>>,
    /// The differentiated services code point: a number or a name such as "EF" or "AF4x" (AF41 to
    /// AF43), in upper or lower case. A list matches any of its code points.
    pub(crate) dscp: Option<CodePoints>,
    /// Path: the priority code point of the VLAN tag; untagged frames have none.
    #[schemars(with = "Option<u8>", range(max = 7))]
    pub(crate) pcp: Option<Spanned<u8>>,
    /// Path: the VLAN ID of the ingress port.
    #[schemars(with = "Option<u16>", range(min = 1, max = 4094))]
    pub(crate) vlan: Option<Spanned<u16>>,
    /// The source prefix, such as "10.1.0.0/16" or "2001:db8::/32".
    #[schemars(with = "Option<String>")]
    pub(crate) source: Option<Spanned<String>>,
    /// The destination prefix.
    #[schemars(with = "Option<String>")]
    pub(crate) destination: Option<Spanned<String>>,
    /// The TCP or UDP source port.
    pub(crate) source_port: Option<u16>,
    /// The TCP or UDP destination port.
    pub(crate) destination_port: Option<u16>,
    /// A pcap-filter expression for the Ethernet frame, such as "tcp port 80 and not host
    /// 10.0.0.9" (`man pcap-filter`).
    #[schemars(with = "Option<String>", length(min = 1, max = 4096))]
    pub(crate) filter: Option<Spanned<String>>,
    /// Stream: the mark of the packet (fwmark), which nftables sets: a number, or a value and a
    /// mask such as "0x100/0xff00".
    #[schemars(with = "Option<Mark>")]
    pub(crate) mark: Option<Spanned<Mark>>,
    /// Stream: the cgroup (version 2) of the sending process, or one above it, such as
    /// "/system.slice/backup.service".
    #[schemars(with = "Option<String>", length(min = 1))]
    pub(crate) cgroup: Option<Spanned<String>>,
}

/// The extension of a path: a WebAssembly module that processes its packets before they are routed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ExtensionTable {
    /// The file of the module (.wasm), relative to this file.
    #[schemars(with = "String")]
    pub(crate) module: Spanned<String>,
    /// The largest size of its memory, from "64 KiB" to "1 GiB"; default "2 MiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) memory: Option<Spanned<Size>>,
    /// The fuel for one packet; a WebAssembly instruction uses about one unit; default 20000.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000000000))]
    pub(crate) fuel: Option<Spanned<u32>>,
    /// The number of consecutive failed packets after which it is stopped; default 8.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000000))]
    pub(crate) faults: Option<Spanned<u32>>,
}

/// The TCP proxy of a path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ProxyTable {
    /// The kind of proxy.
    pub(crate) kind: ProxyKind,
    /// Classical: the server, for example "10.2.0.9:80"; with `hosts`, the server for all other
    /// host names.
    #[schemars(with = "Option<String>")]
    pub(crate) to: Option<Spanned<String>>,
    /// Classical: the server for each host name, for example { "a.example" = "10.2.0.8:80" }. The
    /// name is the host of an HTTP/1 request or the server name of a TLS connection, which the
    /// client sends first.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) hosts: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The accepted host names: "a.example", or "*.example" for all names below it; default: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<Spanned<String>>>,
    /// The refused host names; default: none.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) deny: Option<Vec<Spanned<String>>>,
    /// The limit of concurrent connections; further ones are refused. Default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 16384))]
    pub(crate) connections: Option<Spanned<u32>>,
    /// The limit of concurrent connections per client; default 64.
    #[schemars(with = "Option<u32>", range(min = 1, max = 16384))]
    pub(crate) host_connections: Option<Spanned<u32>>,
    /// Classical: the size of each of a connection's four buffers, from "4 KiB" to "4 MiB"; default
    /// "32 KiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) buffer: Option<Spanned<Size>>,
}

/// A switching path: input queue, forwarding process, output queues.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PathTable {
    /// The path's name, unique among paths.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The match of its packets; default: all packets that no earlier path matches.
    #[serde(default)]
    pub(crate) r#match: MatchTable,
    /// The action on its packets; default "forward".
    pub(crate) action: Option<PathAction>,
    /// The reservation of its forwarding process, cycles or packets per second; default: best
    /// effort.
    #[schemars(with = "Option<ReservationText>")]
    pub(crate) reservation: Option<Spanned<ReservationText>>,
    /// The cost of a packet; required if the reservation is in packets.
    pub(crate) cost: Option<Duration>,
    /// A WebAssembly module that processes its packets before they are routed, and may change or
    /// drop them; default: none.
    pub(crate) extension: Option<ExtensionTable>,
    /// The proxy of its TCP connections; default: none.
    #[schemars(with = "Option<ProxyTable>")]
    pub(crate) proxy: Option<Spanned<ProxyTable>>,
    /// The index of the core that runs its forwarding process, from 0; default 0.
    #[schemars(with = "Option<u32>")]
    pub(crate) core: Option<Spanned<u32>>,
    /// The capacity of its input queue and of each of its output queues, packets; default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) queue: Option<Spanned<u32>>,
    /// Queues its packets at each output by flow, so that a flow with few packets does not wait for
    /// the others (RFC 8290). `{}` selects the defaults, which a path has that gives none of
    /// `weight`, `priority`, `period`, `window`, `late`, `max-rate`, `queue` and `aqm`, unless a
    /// port is a capture; other paths have one queue. At `queue` packets, the longest flow loses
    /// some.
    #[schemars(with = "Option<FlowsTable>")]
    pub(crate) flows: Option<Spanned<FlowsTable>>,
    /// The queue management of each flow, or of the path's queue without `flows`: a name or a
    /// table; default "codel" with `flows`, otherwise "none".
    #[schemars(with = "Option<AqmText>")]
    pub(crate) aqm: Option<Spanned<AqmText>>,
    /// The only egress port of its packets; default: any.
    #[schemars(with = "Option<String>")]
    pub(crate) to: Option<Spanned<String>>,
    /// The weight on the links, for fair queueing; positive; default 1.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) weight: Option<Spanned<u32>>,
    /// The static priority on the links; 0 is served first; default 0.
    pub(crate) priority: Option<u32>,
    /// The request period T on the links; required by edf, dwcs, vds and pd2.
    pub(crate) period: Option<Duration>,
    /// The window-constraint x/y on the links; default 0/0, no constraint.
    pub(crate) window: Option<WindowText>,
    /// The treatment of late packets on the links; default "send".
    pub(crate) late: Option<LateName>,
    /// The rate cap on each link, on the wire; default: none.
    pub(crate) max_rate: Option<Rate>,
    /// The depth of the token bucket of `max-rate`, on the wire; default: 1,514 bytes.
    pub(crate) burst: Option<Size>,
}

/// A static route.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RouteTable {
    /// The destination prefix, such as "10.2.0.0/16" or "2001:db8:2::/48".
    #[schemars(with = "String")]
    pub(crate) prefix: Spanned<String>,
    /// The egress port.
    #[schemars(with = "String")]
    pub(crate) port: Spanned<String>,
    /// The hardware address of the next hop.
    #[schemars(with = "Option<String>")]
    pub(crate) neighbour: Option<Spanned<String>>,
    /// The address of the next hop: a gateway on the port's network, or a link-local IPv6 address.
    /// Without `via` and `neighbour`, the destinations are on that network.
    #[schemars(with = "Option<String>")]
    pub(crate) via: Option<Spanned<String>>,
}
