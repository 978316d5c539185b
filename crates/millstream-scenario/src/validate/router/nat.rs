//! Validation of a port's `nat`: the rules that types cannot express.

use std::net::{IpAddr, SocketAddrV4};
use toml::Spanned;

use super::{address, parse_as};
use crate::error::Problem;
use crate::file::router::{ForwardProtocol, ForwardTable, NatTable, RouterFile};
use crate::router::{PortForward, PortNat, RouterPort};
use crate::validate::check_range;

const FLOWS: u32 = 16_384;
const HOST_FLOWS: u32 = 2_048;
const MAX_FLOWS: u32 = 1 << 18;
const MAX_FORWARDS: usize = 1_024;

/// Validates the translation at a port; `addressed` is whether the port has an IPv4 address.
pub(super) fn nat(
    spanned: &Spanned<NatTable>,
    addressed: bool,
    problems: &mut Vec<Problem>,
) -> PortNat {
    if !addressed {
        let problem = Problem::new(spanned.span(), "`nat` on a port with no IPv4 `address`");
        problems.push(problem.help("for example address = \"203.0.113.1/24\""));
    }
    let table = spanned.get_ref();
    let flows = check_range(table.flows.as_ref(), FLOWS, 1..=MAX_FLOWS, "`flows`", problems);
    let most = table.host_flows.as_ref();
    let host_flows = check_range(most, HOST_FLOWS.min(flows), 1..=flows, "`host-flows`", problems);
    if table.forward.len() > MAX_FORWARDS {
        let message = format!("{} ports are forwarded", table.forward.len());
        let help = format!("at most {MAX_FORWARDS}");
        problems.push(Problem::new(spanned.span(), message).help(help));
    }
    let mut forwards: Vec<PortForward> = Vec::new();
    for forward in table.forward.iter().take(MAX_FORWARDS) {
        let forward = self::forward(forward.get_ref(), &forwards, problems);
        forwards.extend(forward);
    }
    let check_source = table.check_source.unwrap_or(true);
    PortNat { flows, host_flows, check_source, forwards }
}

/// Validates a forwarded port against the forwards `before` it.
fn forward(
    table: &ForwardTable,
    before: &[PortForward],
    problems: &mut Vec<Problem>,
) -> Option<PortForward> {
    let port = *table.port.get_ref();
    let protocol = match table.protocol {
        ForwardProtocol::Tcp => 6,
        ForwardProtocol::Udp => 17,
    };
    if port == 0 {
        let problem = Problem::new(table.port.span(), "`port` of 0");
        problems.push(problem.help("from 1 to 65535"));
    } else if before.iter().any(|of| (of.protocol, of.port) == (protocol, port)) {
        let message = format!("port {port} is forwarded twice");
        let help = "a port can be forwarded to one host only: take one out";
        problems.push(Problem::new(table.port.span(), message).label("the second").help(help));
    }
    let to: SocketAddrV4 =
        parse_as(&table.to, "an IPv4 address and a port", "10.1.0.5:80", problems)?;
    let host = IpAddr::V4(*to.ip());
    if to.port() == 0 || to.ip().is_broadcast() || !address::is_host(host.into()) {
        let problem = Problem::new(table.to.span(), format!("no host can listen at {to}"));
        problems.push(problem.help("a host's address and a port, for example \"10.1.0.5:80\""));
    }
    Some(PortForward { protocol, port, to })
}

/// Checks that no port is forwarded to the router itself or to the network of the port.
pub(super) fn hosts(file: &RouterFile, ports: &[Option<RouterPort>], problems: &mut Vec<Problem>) {
    let own: Vec<_> = ports.iter().flatten().flat_map(|port| &port.addresses).collect();
    for (table, port) in file.port.iter().zip(ports) {
        let forwards = table.get_ref().nat.iter().flat_map(|nat| &nat.get_ref().forward);
        for to in forwards.map(|forward| &forward.get_ref().to) {
            let Ok(host) = to.get_ref().parse::<SocketAddrV4>() else { continue };
            let host = IpAddr::V4(*host.ip());
            let mut outside = port.iter().flat_map(|port| &port.addresses);
            let (message, help) = if own.iter().any(|net| net.addr() == host) {
                let help = "the address of a host; a path with a proxy needs no forward";
                (format!("{host} is the router itself"), help)
            } else if outside.any(|net| net.contains(&host)) {
                let message =
                    format!("{host} is on the network of the port itself, outside the NAT");
                (message, "a host behind another port, for example \"10.1.0.5:80\"")
            } else {
                continue;
            };
            problems.push(Problem::new(to.span(), message).help(help));
        }
    }
}
