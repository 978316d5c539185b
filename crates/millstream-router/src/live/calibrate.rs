//! Measures the cost of each path's function on this machine, for reservations in packets (`cost`).
//!
//! The configured router forwards generated packets, one path after the other, from memory to
//! memory. The result is the time that its CPU scheduler charges: the minimum of several rounds,
//! because interference only adds time. Device costs are not included.

use etherparse::{IpDscp, IpNumber, Ipv4Header, Ipv6Header};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use macaddr::MacAddr6;
use millstream_scenario::{
    InputMode, Match, NextHop, PathAction, PortKind, Route, RouterPath, RouterScenario,
};
use millstream_sync::clock::tsc::Clock;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::PortError;
use crate::ids::PortId;
use crate::io::memory::MemoryPort;
use crate::io::port::Port;
use crate::live::assemble::{LiveRouter, processes};
use crate::live::control::Control;
use crate::live::report::Report;
use crate::net::classifier::Classifier;
use crate::net::filter::Filters;
use crate::net::header::Header;
use crate::net::vlan_tag::{self, Tag};

/// The measured frame lengths, bytes: the shortest and the longest of Ethernet.
pub const FRAME_BYTES: [usize; 2] = [60, 1_514];
/// How long a round forwards packets of one length, ns.
const ROUND_NS: u64 = 20_000_000;
/// The number of rounds per measurement.
const ROUNDS: usize = 5;
/// A link rate above the throughput of any machine, bits/s: the link never limits.
const RATE_BPS: u64 = 1 << 46;
const UDP: u8 = 17;
/// The most numbers of a filter that are tried as ports.
const FILTER_PORTS: usize = 8;

/// The measured cost of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionCost {
    /// The function's name: "input lan", "path voice", "extension of voice", "output wan".
    pub function: String,
    /// The cost in ns per packet for each of [`FRAME_BYTES`]; `None` if no packet reached it.
    pub ns: Option<[u64; FRAME_BYTES.len()]>,
}

/// The measured costs of a file's functions, ports and paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Calibration {
    /// All functions: inputs, paths, each with its extension, outputs.
    pub functions: Vec<FunctionCost>,
    /// The value of each port's `cost` key, ns: the greater of input and output.
    pub ports: Vec<(String, Option<u64>)>,
    /// The value of each path's `cost` key, ns: its function, extension included.
    pub paths: Vec<(String, Option<u64>)>,
}

/// The cost of each process in ns per packet for each frame length; `None` if unknown.
type Costs = Vec<Option<[u64; FRAME_BYTES.len()]>>;

/// Returns the greater of two costs for each frame length; ignores an unknown cost.
fn max_costs(
    one: Option<[u64; FRAME_BYTES.len()]>,
    other: Option<[u64; FRAME_BYTES.len()]>,
) -> Option<[u64; FRAME_BYTES.len()]> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(std::array::from_fn(|length| one[length].max(other[length])))
        }
        (one, other) => one.or(other),
    }
}

/// Measures the functions of `scenario`; opens none of its ports.
///
/// # Errors
/// Fails if an extension cannot be loaded, or a filter is invalid.
pub fn calibrate(scenario: &RouterScenario) -> Result<Calibration, PortError> {
    let open = in_memory(scenario);
    let (ports, paths) = (open.ports.len(), open.paths.len());
    let classifier = classifier(&open)?;
    let macs: Vec<_> = (0..ports).map(mac).collect();
    let mut costs: Costs = vec![None; 2 * ports + paths];
    let mut bare = vec![None; paths];
    for (path, bare) in bare.iter_mut().enumerate() {
        for (port, sample) in samples(&open, &classifier, path) {
            let frames = FRAME_BYTES.map(|bytes| {
                let frame = frame(&sample, macs[port], bytes);
                let mut tagged = Vec::new();
                sample.tag.inspect(|tag| vlan_tag::insert(&frame, *tag, &mut tagged));
                if tagged.is_empty() { frame } else { tagged }
            });
            let measured = measure(&open, port, &frames)?;
            // The cost of a packet depends on its path and port: the greatest counts.
            for (cost, new) in costs.iter_mut().zip(measured) {
                *cost = max_costs(*cost, new);
            }
            if open.paths[path].extension.is_some() {
                let mut without = open.clone();
                without.paths[path].extension = None;
                *bare = max_costs(*bare, measure(&without, port, &frames)?[ports + path]);
            }
        }
    }
    let dearest = |at: usize| costs[at].and_then(|ns| ns.into_iter().max());
    let mut functions = Vec::new();
    let mut add = |function: String, ns| functions.push(FunctionCost { function, ns });
    for (at, port) in open.ports.iter().enumerate() {
        add(format!("input {}", port.name), costs[at]);
    }
    // The cost of a proxied path depends on its connections: it is not measured.
    let forwards = |path: &RouterPath| path.action == PathAction::Forward && path.proxy.is_none();
    for (at, path) in open.paths.iter().enumerate().filter(|(_, path)| forwards(path)) {
        let whole = costs[ports + at];
        add(format!("path {}", path.name), bare[at].or(whole));
        if let (Some(whole), Some(bare)) = (whole, bare[at]) {
            let more = std::array::from_fn(|length| whole[length].saturating_sub(bare[length]));
            add(format!("extension of {}", path.name), Some(more));
        }
    }
    for (at, port) in open.ports.iter().enumerate() {
        add(format!("output {}", port.name), costs[ports + paths + at]);
    }
    let names = open.ports.iter().map(|port| port.name.clone()).enumerate();
    let port_costs = names.map(|(at, name)| (name, dearest(at).max(dearest(ports + paths + at))));
    let named = open.paths.iter().enumerate().filter(|(_, path)| forwards(path));
    let path_costs = named.map(|(at, path)| (path.name.clone(), dearest(ports + at)));
    Ok(Calibration { ports: port_costs.collect(), paths: path_costs.collect(), functions })
}

/// Returns `scenario` on one core with static neighbours, an unlimited link rate and no
/// reservations.
fn in_memory(scenario: &RouterScenario) -> RouterScenario {
    let mut open = scenario.clone();
    // The cost of a transfer between cores is not measured.
    open.cores = 1;
    for port in &mut open.ports {
        port.core = 0;
        port.kind = PortKind::Pcap(None, None);
        port.link.rate_bps = RATE_BPS;
        (port.input, port.output) = (None, None);
    }
    for path in &mut open.paths {
        path.core = 0;
        path.reservation = None;
    }
    for route in &mut open.routes {
        route.next = neighbour();
    }
    for (port, of) in open.ports.iter_mut().enumerate() {
        for net in std::mem::take(&mut of.addresses) {
            open.routes.push(Route { prefix: net.trunc(), port, next: neighbour() });
        }
    }
    if open.kernel_routes {
        // The kernel's routes are unknown here: all packets leave by the last port.
        let port = open.ports.len() - 1;
        for prefix in [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())] {
            open.routes.push(Route { prefix, port, next: neighbour() });
        }
    }
    open.kernel_routes = false;
    // Polled input costs as much per packet, and is charged to its process.
    open.input = InputMode::Polled;
    open
}

fn neighbour() -> NextHop {
    NextHop::Neighbour(MacAddr6::new(2, 0, 0, 0, 2, 1))
}

fn mac(port: usize) -> [u8; 6] {
    let [high, low] = u16::try_from(port).unwrap_or(u16::MAX).to_be_bytes();
    [2, 0, 0, 1, high, low]
}

/// Returns the classifier of the paths of `scenario`.
fn classifier(scenario: &RouterScenario) -> Result<Classifier, PortError> {
    let rules = scenario.paths.iter().map(|path| path.matches).collect();
    Ok(Classifier::new(rules).with_filters(Filters::load(scenario)?))
}

/// The headers of a generated packet.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The VLAN tag of the port's frames, or a priority tag.
    tag: Option<Tag>,
    dscp: u8,
    protocol: u8,
    source: IpAddr,
    /// An address of the family of `source`.
    destination: IpAddr,
    ports: Option<(u16, u16)>,
}

/// Returns packets that take path number `path`: one for each possible input port and address
/// family, with the port's number.
fn samples(
    scenario: &RouterScenario,
    classifier: &Classifier,
    path: usize,
) -> Vec<(usize, Sample)> {
    let wanted = scenario.paths[path].matches.port;
    let ports = wanted.map_or(0..scenario.ports.len(), |port| port..port + 1);
    let kinds = ports.flat_map(|port| [(port, false), (port, true)]);
    let found = kinds.map(|(port, v6)| (port, sample(scenario, classifier, path, (port, v6))));
    found.filter_map(|(port, sample)| Some((port, sample?))).collect()
}

/// Returns a packet that arrives at `port` and takes path number `path`, if one is found. `v6`
/// selects the address family.
fn sample(
    scenario: &RouterScenario,
    classifier: &Classifier,
    path: usize,
    (port, v6): (usize, bool),
) -> Option<Sample> {
    let of = &scenario.paths[path];
    let wanted = &of.matches;
    let vlan = scenario.ports[port].vlan;
    // A frame without a VLAN may have a priority tag.
    let tag = (vlan.is_some() || wanted.pcp.is_some())
        .then(|| Tag::default().with_vlan(vlan.unwrap_or(0)).with_pcp(wanted.pcp.unwrap_or(0)));
    let leaves = |route: &&Route| of.to.is_none_or(|to| to == route.port);
    let destinations = scenario
        .routes
        .iter()
        .filter(leaves)
        .filter_map(|route| intersection(route.prefix, wanted.destination))
        .map(host)
        .filter(|to| to.is_ipv6() == v6)
        .filter(|to| !matches!(to, IpAddr::V6(to) if to.is_unicast_link_local()));
    // A number in a filter may be a port; earlier paths may match the usual ports.
    let words = of.filter.iter().flat_map(|text| text.split(|c: char| !c.is_ascii_digit()));
    let named: Vec<u16> = words.filter_map(|word| word.parse().ok()).take(FILTER_PORTS).collect();
    let usual = || [40_000, 9, 61_003].into_iter().chain(named.iter().copied()).collect();
    let numbers = |given: Option<u16>| given.map_or_else(usual, |port| vec![port]);
    for destination in destinations {
        let Some(source) = source(wanted, port, destination) else { continue };
        let icmp = if v6 { 58 } else { 1 };
        for protocol in wanted.protocol.map_or(vec![UDP, 6, icmp], |protocol| vec![protocol]) {
            for source_port in numbers(wanted.source_port) {
                for destination_port in numbers(wanted.destination_port) {
                    let ports =
                        matches!(protocol, 6 | 17).then_some((source_port, destination_port));
                    let dscp = wanted.dscp.and_then(|points| points.iter().next()).unwrap_or(0);
                    let sample = Sample { tag, dscp, protocol, source, destination, ports };
                    let takes = |bytes: usize| {
                        let frame = frame(&sample, mac(port), bytes);
                        classified(classifier, port, tag, &frame) == Some(path)
                    };
                    if FRAME_BYTES.into_iter().all(takes) {
                        return Some(sample);
                    }
                }
            }
        }
    }
    None
}

/// Returns the path of a frame that arrives at `port` with this tag.
fn classified(
    classifier: &Classifier,
    port: usize,
    tag: Option<Tag>,
    frame: &[u8],
) -> Option<usize> {
    let port = PortId(port);
    let path = match Header::parse(frame) {
        Some(header) => classifier.path(port, &Header { tag, ..header }, frame),
        None => {
            let header = Header { tag, ..Header::parse_v6(frame)? };
            classifier.path_v6(port, &header, frame)
        }
    };
    path.map(|path| path.0)
}

/// Returns the intersection of both prefixes; `None` if they are disjoint.
fn intersection(route: IpNet, wanted: Option<IpNet>) -> Option<IpNet> {
    match wanted {
        Some(wanted) if route.contains(&wanted) => Some(wanted),
        Some(wanted) if !wanted.contains(&route) => None,
        _ => Some(route),
    }
}

/// Returns a host address in `net`.
fn host(net: IpNet) -> IpAddr {
    net.hosts().nth(6).or_else(|| net.hosts().next()).unwrap_or(net.addr())
}

/// Returns a source address for packets to `destination`: from 192.0.2.0/24 (RFC 5737) or
/// 2001:db8::/32 (RFC 3849) unless the path matches on it. `None` if the path matches another
/// family.
fn source(wanted: &Match, port: usize, destination: IpAddr) -> Option<IpAddr> {
    let last = u8::try_from(port % 200 + 1).unwrap_or(1);
    let any = if destination.is_ipv6() {
        Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, last.into()).into()
    } else {
        Ipv4Addr::new(192, 0, 2, last).into()
    };
    Some(wanted.source.map_or(any, host)).filter(|from| from.is_ipv6() == destination.is_ipv6())
}

/// Returns an Ethernet frame of `bytes` bytes with the headers of `sample`, without its tag.
fn frame(sample: &Sample, to: [u8; 6], bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame[..6].copy_from_slice(&to);
    frame[6..].copy_from_slice(&[2, 0, 0, 0, 2, 2]);
    let protocol = IpNumber(sample.protocol);
    let payload = |headers: usize| u16::try_from(bytes - headers).unwrap_or(u16::MAX);
    match (sample.source, sample.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([8, 0]);
            let (source, destination) = (source.octets(), destination.octets());
            if let Ok(mut ip) = Ipv4Header::new(payload(34), 64, protocol, source, destination) {
                ip.dscp = IpDscp::try_new(sample.dscp).unwrap_or_default();
                ip.header_checksum = ip.calc_header_checksum();
                frame.extend(ip.to_bytes());
            }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd]);
            let ip = Ipv6Header {
                traffic_class: sample.dscp << 2,
                payload_length: payload(54),
                next_header: protocol,
                hop_limit: 64,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            frame.extend(ip.to_bytes());
        }
        _ => {}
    }
    if let Some((source, destination)) = sample.ports {
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        // UDP length or TCP sequence number: not checked.
        frame.extend([0; 2]);
    }
    frame.resize(bytes, 0);
    frame
}

/// Measures the cost of each process for these frames at `port`: the minimum of all rounds.
fn measure(
    scenario: &RouterScenario,
    port: usize,
    frames: &[Vec<u8>; FRAME_BYTES.len()],
) -> Result<Costs, PortError> {
    let all = 2 * scenario.ports.len() + scenario.paths.len();
    let numbers = processes(scenario).into_iter().map(|(.., process)| process.0);
    let numbers: Vec<usize> = numbers.collect();
    let mut least: Costs = vec![None; all];
    for _ in 0..ROUNDS {
        let mut round: Costs = vec![None; all];
        for number in &numbers {
            round[*number] = Some([0; FRAME_BYTES.len()]);
        }
        for (length, frame) in frames.iter().enumerate() {
            let report = forward(scenario, port, frame)?;
            for (number, process) in numbers.iter().zip(&report.processes) {
                let cost = &mut round[*number];
                // Rounded up: a cost of 0 would reserve nothing.
                let each = (process.packets > 0).then(|| process.busy_ns.div_ceil(process.packets));
                *cost = cost.zip(each).map(|(mut costs, each)| {
                    costs[length] = each.max(1);
                    costs
                });
            }
        }
        for (least, new) in least.iter_mut().zip(round) {
            *least = match (*least, new) {
                (Some(least), Some(new)) => {
                    Some(std::array::from_fn(|length| least[length].min(new[length])))
                }
                (least, new) => least.or(new),
            };
        }
    }
    Ok(least)
}

fn forward(scenario: &RouterScenario, port: usize, frame: &[u8]) -> Result<Report, PortError> {
    let ports = (0..scenario.ports.len()).map(|at| {
        let frames = if at == port { vec![frame.to_vec()] } else { Vec::new() };
        let port: Box<dyn Port> = Box::new(MemoryPort::new(frames, u64::MAX));
        (port, mac(at))
    });
    let mut router = LiveRouter::assemble(scenario, ports.collect(), Clock::default())?;
    router.run(Some(ROUND_NS), &Control::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn scenario(paths: &str) -> RouterScenario {
        let text = format!(
            "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
             address = \"10.1.0.1/24\"\n\
             [[port]]\nname = \"b\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
             discipline = \"wf2q+\"\n{paths}\n\
             [[route]]\nprefix = \"10.2.0.0/16\"\nport = \"b\"\nneighbour = \"02:00:00:00:02:01\"\n\
             [[route]]\nprefix = \"2001:db8:2::/48\"\nport = \"b\"\n\
             neighbour = \"02:00:00:00:02:01\"\n"
        );
        RouterScenario::parse("test.toml", &text, Path::new("")).unwrap()
    }

    const PATHS: &str = "[[path]]\nname = \"web\"\n\
        match = { protocol = \"tcp\", source-port = 80 }\nto = \"a\"\n\
        [[path]]\nname = \"voice\"\nto = \"b\"\n\
        match = { port = \"a\", dscp = 46, destination = \"10.0.0.0/8\" }\n\
        [[path]]\nname = \"never\"\nmatch = { protocol = \"tcp\", source-port = 80, dscp = 3 }\n\
        [[path]]\nname = \"nowhere\"\nmatch = { destination = \"192.168.0.0/16\" }\n\
        [[path]]\nname = \"nobody\"\nmatch = { protocol = \"7\" }\naction = \"drop\"\n\
        [[path]]\nname = \"mail\"\nmatch = { filter = \"tcp dst port 25 or 587\" }\n\
        [[path]]\nname = \"rest\"";

    #[test]
    fn packets_are_found_for_every_path_that_can_receive_any() {
        let open = in_memory(&scenario(PATHS));
        let classifier = classifier(&open).unwrap();
        for (path, found) in [true, true, false, false, true, true, true].into_iter().enumerate() {
            let samples = samples(&open, &classifier, path);
            assert_eq!(!samples.is_empty(), found, "{}", open.paths[path].name);
            for (port, sample) in samples {
                for bytes in FRAME_BYTES {
                    let frame = frame(&sample, mac(port), bytes);
                    assert_eq!(frame.len(), bytes);
                    assert_eq!(classified(&classifier, port, sample.tag, &frame), Some(path));
                }
            }
        }
    }

    #[test]
    fn every_function_that_packets_reach_has_a_cost() {
        let costs = calibrate(&scenario(PATHS)).unwrap();
        let known: Vec<_> =
            costs.functions.iter().map(|of| (of.function.as_str(), of.ns.is_some())).collect();
        let expected = [
            ("input a", true),
            ("input b", true),
            ("path web", true),
            ("path voice", true),
            ("path never", false),
            ("path nowhere", false),
            ("path mail", true),
            ("path rest", true),
            ("output a", true),
            ("output b", true),
        ];
        assert_eq!(known, expected);
        assert!(costs.functions.iter().flat_map(|of| of.ns).flatten().all(|ns| ns > 0));
        assert!(costs.ports[0].1.is_some() && costs.paths[2] == ("never".to_owned(), None));
    }
}
