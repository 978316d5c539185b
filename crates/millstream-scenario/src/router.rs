//! A live router as its file says: ports, switching paths and routes.
//!
//! [`RouterScenario::load`] is the way in. Nothing is opened here: whether an interface exists is
//! found when the router starts.

use ipnet::IpNet;
use macaddr::MacAddr6;
use millstream::catalogue::{DisciplineRow, StructureName};
use millstream::{Contract, MaxRate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use crate::error::ScenarioError;
use crate::file::router::RouterFile;
use crate::scenario::load_text;
use crate::validate::validate_router;

/// The most IPv6 addresses of a port.
pub const MOST_IPV6: usize = 8;

/// A share of the CPU that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Cycles a second.
    Cycles(u64),
    /// Packets a second, each of which costs so much, ns.
    Packets {
        /// Packets a second.
        pps: u64,
        /// ns a packet.
        cost_ns: u64,
    },
}

/// How packets of a network interface are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceIo {
    /// By AF_XDP where that can be and nobody would miss the packets, by AF_PACKET otherwise.
    Auto,
    /// By AF_XDP: packets are taken from the kernel.
    Xdp,
    /// By AF_PACKET: the kernel has them, too.
    #[default]
    Packet,
}

/// What packets come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A network interface, by name.
    Interface(String, InterfaceIo),
    /// A TAP device, by name.
    Tap(String),
    /// A TUN device, by name.
    Tun(String),
    /// Captures: read from, written to.
    Pcap(Option<PathBuf>, Option<PathBuf>),
}

/// How a router reads its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InputMode {
    /// By input processes, scheduled beside all others.
    #[default]
    Polled,
    /// As by interrupts: whenever packets are there, before anything else, whatever that costs.
    Interrupt,
}

/// Where the priority of frames that leave in a VLAN is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PcpSource {
    /// The tag that the packet came with; 0 if there was none.
    #[default]
    Keep,
    /// The first three bits of its differentiated services code point.
    Dscp,
}

/// Many hosts behind a port's address (RFC 3022).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortNat {
    /// Flows at once; at least 1.
    pub flows: u32,
    /// Flows of one host at once; at least 1.
    pub host_flows: u32,
    /// Packets are dropped whose source does not belong to the port that they came by.
    pub check_source: bool,
    /// Ports of the address that hosts behind it serve.
    pub forwards: Vec<PortForward>,
}

/// A port of an address that a host behind it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// IP protocol number: TCP's or UDP's.
    pub protocol: u8,
    /// The port of the address; at least 1. Of one protocol each is another.
    pub port: u16,
    /// The host, and its port.
    pub to: SocketAddrV4,
}

/// A port.
#[derive(Clone, Debug)]
pub struct RouterPort {
    /// Its name.
    pub name: String,
    /// What stands behind it.
    pub kind: PortKind,
    /// Which of the router's cores reads and writes it.
    pub core: usize,
    /// The VLAN of the device that it is, from 1 to 4094; `None` for frames without one. Of ports
    /// of one kind each is another.
    pub vlan: Option<u16>,
    /// Where the priority of frames in its VLAN is from.
    pub pcp: PcpSource,
    /// The speed that packets leave at, bits/s.
    pub rate_bps: u64,
    /// Bytes that a packet takes on the wire beyond its length; a VLAN's tag is among them.
    pub overhead_bytes: u32,
    /// How long the line takes for packets that it is given at once, unless it is one, ns.
    pub line_burst_ns: u64,
    /// Its hardware address, if the file gives one.
    pub mac: Option<MacAddr6>,
    /// The router's own addresses on the port's networks, with each network's length: at most one
    /// of IPv4 and [`MOST_IPV6`] of IPv6.
    pub addresses: Vec<IpNet>,
    /// Whoever sends IPv4 by it does so from its IPv4 address.
    pub nat: Option<PortNat>,
    /// How paths share it.
    pub discipline: &'static DisciplineRow,
    /// How the first path in that order is found.
    pub structure: StructureName,
    /// Of the input process.
    pub input: Option<Reservation>,
    /// Of the output process.
    pub output: Option<Reservation>,
    /// The longest that the input process sleeps, ns.
    pub longest_sleep_ns: u64,
}

/// What packets a path takes; all that is given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The port's position in the file.
    pub port: Option<usize>,
    /// IP protocol number; of IPv6 what stands behind extension headers.
    pub protocol: Option<u8>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Priority code point of their VLAN tag.
    pub pcp: Option<u8>,
    /// The VLAN that they came by.
    pub vlan: Option<u16>,
    /// Source prefix.
    pub source: Option<IpNet>,
    /// Destination prefix.
    pub destination: Option<IpNet>,
    /// TCP or UDP source port.
    pub source_port: Option<u16>,
    /// TCP or UDP destination port.
    pub destination_port: Option<u16>,
}

/// What becomes of a path's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathAction {
    /// They are routed.
    #[default]
    Forward,
    /// They are dropped as soon as they are classified: the path has no queue and no process.
    Drop,
}

/// A WebAssembly module that sees a path's packets before they are routed, and what it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathExtension {
    /// The module's file.
    pub module: PathBuf,
    /// What its memory may grow to, bytes.
    pub memory_bytes: u64,
    /// What it may compute for a packet, in units of fuel: about one a WebAssembly instruction.
    pub fuel: u32,
    /// It is stopped after so many packets in a row at which it failed; at least 1.
    pub faults: u32,
}

/// What kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyKind {
    /// The router sees how a connection begins; from then on both ends speak with each other, and
    /// numbers in their packets' headers are changed.
    Transparent,
    /// The router has a connection with the client and one with a server.
    Classical,
}

/// What stands between both ends of a path's TCP connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProxy {
    /// What kind of proxy.
    pub kind: ProxyKind,
    /// Of the classical one: where connections go whose name is not in `hosts`.
    pub to: Option<SocketAddr>,
    /// Of the classical one: where those go that begin by a name.
    pub hosts: Vec<(HostPattern, SocketAddr)>,
    /// If there are any, only connections to these names are let through,
    pub allow: Vec<HostPattern>,
    /// and none to these.
    pub deny: Vec<HostPattern>,
    /// Connections at once; at least 1.
    pub connections: u32,
    /// Connections of one client at once; at least 1.
    pub host_connections: u32,
    /// Of the classical one: the size of each of a connection's four buffers, bytes.
    pub buffer_bytes: u32,
}

/// A name of a host, or all names below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// In lower case, without a point at the end.
    pub name: String,
    /// All names below it, and not itself.
    pub below: bool,
}

impl HostPattern {
    /// Whether `host` is meant, in any case and with a point at its end or not.
    #[must_use]
    pub fn holds(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let Some(at) = host.len().checked_sub(self.name.len()) else { return false };
        let (Some(left), Some(end)) = (host.get(..at), host.get(at..)) else { return false };
        let fits = if self.below { left.len() > 1 && left.ends_with('.') } else { left.is_empty() };
        fits && end.eq_ignore_ascii_case(&self.name)
    }
}

/// A switching path.
#[derive(Clone, Debug)]
pub struct RouterPath {
    /// Its name.
    pub name: String,
    /// What packets it takes.
    pub matches: Match,
    /// A pcap-filter expression that must hold of their frames, too.
    pub filter: Option<String>,
    /// What becomes of them. With [`PathAction::Drop`] nothing that follows is of use.
    pub action: PathAction,
    /// Which of the router's cores its function runs on.
    pub core: usize,
    /// Of its forwarding process.
    pub reservation: Option<Reservation>,
    /// What sees its packets before they are routed.
    pub extension: Option<PathExtension>,
    /// What stands between both ends of its TCP connections.
    pub proxy: Option<PathProxy>,
    /// Packets in its input queue, and in each output queue.
    pub queue: u32,
    /// The only port that it leaves by, by position in the file.
    pub to: Option<usize>,
    /// Its contract on links.
    pub contract: Contract,
}

/// Who is next on the way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The neighbour of this hardware address.
    Neighbour(MacAddr6),
    /// The gateway of this address, on the port's network.
    Gateway(IpAddr),
    /// The destination itself.
    Connected,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Destinations.
    pub prefix: IpNet,
    /// The port that leads there, by position in the file.
    pub port: usize,
    /// Who is next on the way.
    pub next: NextHop,
}

/// A live router.
#[derive(Clone, Debug)]
pub struct RouterScenario {
    /// Its name.
    pub name: String,
    /// Packets that a process moves before another is chosen.
    pub batch: u32,
    /// How long a forwarding process runs, ns.
    pub slice_ns: u64,
    /// How long a forwarding process waits for a whole batch while others have work, ns.
    pub gather_ns: u64,
    /// How ports are read.
    pub input: InputMode,
    /// On how many processors its processes run, at least 1.
    pub cores: usize,
    /// Packets that all queues of a core hold together.
    pub buffers: u32,
    /// Whether the kernel's routes and neighbours count, too.
    pub kernel_routes: bool,
    /// Where counters are shown by HTTP; a loopback address.
    pub status: Option<SocketAddr>,
    /// Ports, in the order of the file.
    pub ports: Vec<RouterPort>,
    /// Paths, in the order that packets are matched in.
    pub paths: Vec<RouterPath>,
    /// Routes.
    pub routes: Vec<Route>,
}

impl RouterScenario {
    /// Whether the file at `path` is a router's: it has a `[router]` table. `false` if it cannot be
    /// read, which [`load`](Self::load) says better.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        let Ok((_, text)) = load_text(path) else { return false };
        toml::from_str::<toml::Table>(&text).is_ok_and(|table| table.contains_key("router"))
    }

    /// Reads and validates the file at `path`.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let (name, text) = load_text(path)?;
        Self::parse(&name, &text, path.parent().unwrap_or(Path::new("")))
    }

    /// Validates the text of a router's file called `name` whose captures are relative to `folder`.
    ///
    /// # Errors
    /// [`ScenarioError`] with every problem found.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        validate_router(name, text, folder)
            .map_err(|problems| ScenarioError::new(name, text, problems))
    }
}

/// The JSON Schema of a router's file.
#[must_use]
pub fn router_schema() -> String {
    let schema = schemars::schema_for!(RouterFile);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// The cap of a path on its links.
pub(crate) fn max_rate(rate_bps: u64, burst_bytes: u64) -> Option<MaxRate> {
    Some(MaxRate { rate_bps: NonZeroU64::new(rate_bps)?, burst_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_has_something_and_what_belongs_together_is_on_one() {
        let parse = |router: &str, port: &str, other: &str, path: &str| {
            let text = format!(
                "[router]\n{router}\n\
                 [[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n\
                 address = \"10.1.0.1/24\"\n{port}\n\
                 [[port]]\nname = \"b\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n{other}\n\
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
            ("cores = 2", "", "", "", "nothing is on core `1`"),
            ("", "core = 1", "", "", "port `a` on core 1 of 1"),
            ("cores = 2", "core = 1", "", "core = 2", "path `p` on core 2 of 2"),
            ("cores = 2", "", vlan, "", "`a` and `b` are one device on two cores"),
            ("cores = 2", "core = 1", "", proxy, "path `p` has a proxy in a router of 2 cores"),
            (
                "cores = 2",
                "core = 1",
                "",
                "core = 1\naction = \"drop\"",
                "`core` of path `p`, which drops",
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
    fn what_an_extension_may_use_is_within_bounds() {
        let parse = |extension: &str| {
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n\
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
    fn addresses_and_gateways_may_be_of_both_families() {
        let parse = |address: &str, route: &str| {
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n\
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
            (both, "prefix = \"::/0\"\nvia = \"10.1.0.9\"", "10.1.0.9 cannot lead to ::/0"),
            (both, "prefix = \"::/0\"\nvia = \"2001:db8:9::9\"", "not on the network of port `a`"),
            (both, "prefix = \"::/0\"\nvia = \"fd00::1\"", "not on the network of port `a`"),
            ("\"10.1.0.1/24\"", "prefix = \"::/0\"\nvia = \"fe80::9\"", "not on the network"),
            ("\"10.1.0.1/24\"", "prefix = \"::/0\"", "nobody is known on port `a`"),
            ("\"fd00::1/64\"", "prefix = \"10.2.0.0/16\"", "nobody is known on port `a`"),
            ("[]", "prefix = \"::/0\"", "a list of no addresses"),
            ("[\"fd00::1/64\", \"fd00::1/48\"]", "prefix = \"::/0\"", "stands there twice"),
            ("\"ff02::1/64\"", "prefix = \"::/0\"", "no host can have ff02::1"),
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
    fn quanta_are_as_weights_and_a_path_without_one_has_weight_1() {
        let quantum = |weights: &[&str]| -> Vec<_> {
            let path =
                |(at, weight): (usize, &&str)| format!("[[path]]\nname = \"{at}\"\n{weight}\n");
            let text = format!(
                "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n\
                 address = \"10.1.0.1/24\"\n{}",
                weights.iter().enumerate().map(path).collect::<String>()
            );
            let scenario = RouterScenario::parse("test.toml", &text, Path::new("")).unwrap();
            scenario.paths.into_iter().map(|path| path.contract).collect()
        };
        let contract =
            |weight, bytes| Contract::new().weight(weight).unwrap().quantum_bytes(bytes).unwrap();
        assert_eq!(quantum(&["weight = 3", ""]), [contract(3, 3 * 1_514), contract(1, 1_514)]);
        let halves = [contract(2, 1_514), contract(3, 2_271)];
        assert_eq!(quantum(&["weight = 2", "weight = 3"]), halves);
    }
}
