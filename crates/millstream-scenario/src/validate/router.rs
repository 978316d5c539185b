//! Validation of a router file: the rules that types cannot express.

mod address;
mod autorate;
mod cores;
mod ingress;
mod input;
mod nat;
mod proxy;
mod vlan;

use ipnet::IpNet;
use macaddr::MacAddr6;
use millstream::catalogue::{DISCIPLINES, DisciplineRow, Options};
use millstream::{Contract, Late, Link};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use toml::Spanned;

use super::{check_range, flows, not_a_router_file, stem, syntax_problem};
use crate::error::{Problem, list, nearest};
use crate::file::LateName;
use crate::file::router::{
    ExtensionTable, MatchTable, PathTable, PortKind as KindName, PortTable, RouteTable, RouterFile,
};
use crate::router::{
    FlowBy, Match, NextHop, PathAction, PathExtension, PcpSource, PortKind, Reservation, Route,
    RouterPath, RouterPort, RouterScenario, max_rate,
};
use crate::units::{Duration, ReservationText};

const BATCH: u32 = 32;
const SLICE_NS: u64 = 30_000;
/// The default `gather`, ns: the time of some hundred packets on a fast port, and little compared
/// with the queueing delay on a slow one.
const GATHER_NS: u64 = 50_000;
const BUFFERS: u32 = 16_384;
const QUEUE: u32 = 256;
/// The default memory of an extension, bytes: more than the 17 pages that compilers allocate.
const MEMORY_BYTES: u64 = 2 << 20;
/// The range of an extension's memory, bytes. The minimum is one WebAssembly page, the smallest
/// memory of a module.
const MEMORY_RANGE: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 30;
const FUEL: u32 = 20_000;
const FAULTS: u32 = 8;
const FILTER_BYTES: usize = 4_096;
const LONGEST_SLEEP_NS: u64 = 25_000;
const LINE_BURST_NS: u64 = 100_000;
const MAX_LINE_BURST_NS: u64 = 100_000_000;
/// The assumed largest packet, bytes, for the defaults of quantum and burst.
const LARGEST_BYTES: u32 = 1_514;

/// Validates the text of a router file called `name` whose captures are relative to `folder`.
pub(crate) fn validate_router(
    name: &str,
    text: &str,
    folder: &Path,
) -> Result<RouterScenario, Vec<Problem>> {
    let file: RouterFile = toml::from_str(text).map_err(|error| {
        vec![not_a_router_file(name, text).unwrap_or_else(|| syntax_problem(&error, text))]
    })?;
    let mut problems = Vec::new();
    let kernel_routes = file.router.kernel_routes.as_ref().filter(|given| *given.get_ref());
    let has_device =
        file.port.iter().any(|port| matches!(port.get_ref().kind, KindName::Interface));
    if let Some(given) = kernel_routes.filter(|_| !has_device) {
        let message = "`kernel-routes` without a port of kind \"interface\"";
        let help = "leave `kernel-routes` out, or add a port of kind \"interface\"";
        problems.push(Problem::new(given.span(), message).help(help));
    }
    for (missing, table) in [
        (file.port.is_empty(), "port"),
        (file.path.is_empty(), "path"),
        (
            file.route.is_empty()
                && kernel_routes.is_none()
                && file.port.iter().all(|port| port.get_ref().address.is_none()),
            "route",
        ),
    ] {
        if missing {
            let problem = Problem::whole_file(format!("there is no {table}"));
            problems.push(problem.help(format!("add at least one [[{table}]] table")));
        }
    }
    check_unique("port", file.port.iter().map(|port| &port.get_ref().name), &mut problems);
    check_unique("path", file.path.iter().map(|path| &path.get_ref().name), &mut problems);
    let known: Vec<&str> =
        file.port.iter().map(|port| port.get_ref().name.get_ref().as_str()).collect();
    let router = &file.router;
    let batch = check_range(router.batch.as_ref(), BATCH, 1..=1_024, "a batch", &mut problems);
    let buffers =
        check_range(router.buffers.as_ref(), BUFFERS, 64..=1_048_576, "`buffers`", &mut problems);
    let input = input::input(&file, &mut problems);
    let slice_ns = router.slice.as_ref().map_or(SLICE_NS, |slice| slice.get_ref().0);
    if let Some(slice) = router.slice.as_ref().filter(|_| slice_ns == 0) {
        problems.push(Problem::new(slice.span(), "a `slice` of 0 ns").help("at least 1 ns"));
    }
    let gather_ns = router.gather.as_ref().map_or(GATHER_NS, |gather| gather.get_ref().0);
    let status = router.status.as_ref().and_then(|text| loopback(text, &mut problems));
    let ports = file.port.iter();
    let ports: Vec<Option<RouterPort>> =
        ports.map(|table| port(table, &known, file.path.len(), folder, &mut problems)).collect();
    let queued = file.path.iter().filter(|path| !drops(path.get_ref()));
    let weights = queued.map(|path| path.get_ref().weight.as_ref());
    let weights = weights.map(|weight| weight.map_or(1, |weight| *weight.get_ref()));
    let smallest = weights.min().unwrap_or(1).max(1);
    let needs_period = file.port.iter().zip(&ports).find_map(|(table, port)| {
        let row = port.as_ref()?.discipline;
        row.needs.contains(&"period").then(|| (table.get_ref().name.get_ref().as_str(), row.name))
    });
    // Packets of a capture wait for room instead of being lost, which flows would not do.
    let is_capture = |port: &RouterPort| matches!(port.kind, PortKind::Pcap(..));
    let is_live = !ports.iter().flatten().any(is_capture);
    let paths: Vec<Option<RouterPath>> = file
        .path
        .iter()
        .map(|table| {
            let table = table.get_ref();
            let extension = &table.extension;
            let extension =
                extension.as_ref().map(|table| self::extension(table, folder, &mut problems));
            let proxy = table.proxy.as_ref();
            let proxy = proxy.and_then(|of| proxy::proxy(of, table, &ports, &mut problems));
            let mut path = path(table, &known, smallest, needs_period, &mut problems)?;
            if is_live && flows::is_best_effort(table) {
                path.contract = path.contract.flows(flows::best_effort(path.queue));
            }
            Some(RouterPath { extension, proxy, ..path })
        })
        .collect();
    vlan::shared(&file, &ports, &mut problems);
    ingress::check(&file, &ports, &mut problems);
    autorate::check(&file, &ports, &paths, &mut problems);
    nat::hosts(&file, &ports, &mut problems);
    let cores = cores::count(router.cores.as_ref(), &mut problems);
    cores::shared(&file, cores, &ports, &paths, &mut problems);
    let nets: Vec<&[IpNet]> =
        ports.iter().map(|port| port.as_ref().map_or(&[][..], |port| &port.addresses)).collect();
    let routes: Vec<Option<Route>> = file
        .route
        .iter()
        .map(|table| route(table.get_ref(), &known, &nets, &mut problems))
        .collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(RouterScenario {
        name: router.name.clone().unwrap_or_else(|| stem(name)),
        batch,
        slice_ns,
        gather_ns,
        input,
        cores,
        buffers,
        kernel_routes: kernel_routes.is_some(),
        status,
        ports: ports.into_iter().flatten().collect(),
        paths: paths.into_iter().flatten().collect(),
        routes: routes.into_iter().flatten().collect(),
    })
}

fn loopback(text: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<SocketAddr> {
    let address: SocketAddr = parse_as(text, "an address and a port", "127.0.0.1:9817", problems)?;
    if !address.ip().is_loopback() {
        let message = format!("{address} can be reached from the network");
        let help = "use a loopback address, for example \"127.0.0.1:9817\"";
        problems.push(Problem::new(text.span(), message).help(help));
    }
    Some(address)
}

fn check_unique<'a>(
    what: &str,
    names: impl Iterator<Item = &'a Spanned<String>>,
    problems: &mut Vec<Problem>,
) {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        let text = name.get_ref().as_str();
        if text.is_empty() {
            problems.push(Problem::new(name.span(), format!("a {what}'s name is empty")));
        } else if known.contains(&text) {
            let message = format!("two {what}s are called `{text}`");
            problems.push(Problem::new(name.span(), message).label("the second"));
        }
        known.push(text);
    }
}

/// Returns the position of a name among `known`.
fn port_index(
    name: &Spanned<String>,
    known: &[&str],
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let text = name.get_ref().as_str();
    let found = known.iter().position(|port| *port == text);
    if found.is_none() {
        let help = match nearest(text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the ports are {}", list(known.iter().copied())),
        };
        let message = format!("there is no port `{text}`");
        problems.push(Problem::new(name.span(), message).help(help));
    }
    found
}

fn parse_as<T: std::str::FromStr>(
    text: &Spanned<String>,
    what: &str,
    example: &str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let value = text.get_ref().parse().ok();
    if value.is_none() {
        let message = format!("`{}` is not {what}", text.get_ref());
        let help = format!("for example \"{example}\"");
        problems.push(Problem::new(text.span(), message).help(help));
    }
    value
}

fn prefix(text: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<IpNet> {
    parse_as(text, "an IP prefix", "10.2.0.0/16", problems).map(|net: IpNet| net.trunc())
}

fn mac(text: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<MacAddr6> {
    parse_as(text, "a hardware address", "02:00:00:00:00:01", problems)
}

fn reservation(
    given: Option<&Spanned<ReservationText>>,
    cost: Option<Duration>,
    problems: &mut Vec<Problem>,
) -> Option<Reservation> {
    let given = given?;
    match (*given.get_ref(), cost) {
        (ReservationText::Cycles(cycles), _) => Some(Reservation::Cycles(cycles)),
        (ReservationText::Packets(pps), Some(cost)) => {
            Some(Reservation::Packets { pps, cost_ns: cost.0 })
        }
        (ReservationText::Packets(pps), None) => {
            let message = format!("a reservation of {pps} packets per second without a `cost`");
            let help = "give `cost`, for example cost = \"1 us\", or reserve cycles: \"12 Mcps\"";
            problems.push(Problem::new(given.span(), message).help(help));
            None
        }
    }
}

/// Validates a port that `paths` paths share.
fn port(
    spanned: &Spanned<PortTable>,
    known: &[&str],
    paths: usize,
    folder: &Path,
    problems: &mut Vec<Problem>,
) -> Option<RouterPort> {
    let table = spanned.get_ref();
    let name = table.name.get_ref().clone();
    let interface = || table.interface.clone().unwrap_or_else(|| name.clone());
    let refuse = |key: &str, problems: &mut Vec<Problem>| {
        let message = format!("`{key}` does not belong to a port of this kind");
        problems.push(Problem::new(table.name.span(), message).help("take it out"));
    };
    let is_pcap = matches!(table.kind, KindName::Pcap);
    let is_ingress = matches!(table.kind, KindName::Ingress);
    let is_device = !is_pcap && !is_ingress;
    for (key, given, belongs) in [
        ("interface", table.interface.is_some(), is_device),
        ("of", table.of.is_some(), is_ingress),
        ("input", table.input.is_some(), is_pcap),
        ("pad-truncated", table.pad_truncated.is_some(), is_pcap),
        ("output", table.output.is_some(), is_pcap),
        ("io", table.io.is_some(), matches!(table.kind, KindName::Interface)),
        ("vlan", table.vlan.is_some(), !is_ingress),
        ("pcp", table.pcp.is_some(), !is_ingress),
        ("mac", table.mac.is_some(), !is_ingress),
        ("address", table.address.is_some(), !is_ingress),
        ("nat", table.nat.is_some(), !is_ingress),
        ("autorate", table.autorate.is_some(), !is_pcap),
        ("input-reservation", table.input_reservation.is_some(), !is_ingress),
    ] {
        if given && !belongs {
            refuse(key, problems);
        }
    }
    let kind = match table.kind {
        KindName::Interface => PortKind::Interface(interface(), table.io.unwrap_or_default()),
        KindName::Tap => PortKind::Tap(interface()),
        KindName::Tun => PortKind::Tun(interface()),
        KindName::Pcap => {
            if table.input.is_none() && table.output.is_none() {
                let message = format!("port `{name}` has neither `input` nor `output`");
                let help = "for example output = \"out.pcap\"";
                problems.push(Problem::new(table.name.span(), message).help(help));
            }
            let file = |file: &Option<String>| file.as_ref().map(|file| folder.join(file));
            PortKind::Pcap(file(&table.input), file(&table.output))
        }
        KindName::Ingress => PortKind::Ingress(ingress::of(table, known, problems)?),
    };
    if is_pcap && table.mac.is_none() {
        let message = format!("port `{name}` has no hardware address");
        let help = "for example mac = \"02:00:00:00:00:01\"";
        problems.push(Problem::new(table.name.span(), message).help(help));
    }
    let row = match &table.discipline {
        None => DisciplineRow::parse("wf2q+"),
        Some(given) => {
            let fit = |row: &&DisciplineRow| row.fits_port();
            let found = DISCIPLINES.iter().filter(fit).find(|row| row.name == given.get_ref());
            if found.is_none() {
                let names: Vec<&str> = DISCIPLINES.iter().filter(fit).map(|row| row.name).collect();
                let message = format!("a port cannot be scheduled by `{}`", given.get_ref());
                let help = format!("one of {}", list(names));
                problems.push(Problem::new(given.span(), message).help(help));
            }
            found
        }
    };
    let line_burst_ns = table.line_burst.as_ref().map_or(LINE_BURST_NS, |of| of.get_ref().0);
    if let Some(given) = table.line_burst.as_ref().filter(|_| line_burst_ns > MAX_LINE_BURST_NS) {
        let problem = Problem::new(given.span(), "a `line-burst` of more than 100 ms");
        problems.push(problem.help("from \"0 us\" to \"100 ms\", for example \"100 us\""));
    }
    table.overhead.check(table.framing.as_ref(), problems);
    let link = table.overhead.link(table.rate, table.framing.as_ref());
    let mac = table.mac.as_ref().and_then(|text| mac(text, problems));
    let addresses =
        table.address.as_ref().map_or_else(Vec::new, |given| address::addresses(given, problems));
    // Invalid addresses have already been reported; they must not cause a second problem.
    let has_ipv4 = addresses.iter().any(|net| net.addr().is_ipv4());
    let addressed = has_ipv4 || table.address.is_some() && addresses.is_empty();
    let nat = table.nat.as_ref().map(|nat| self::nat::nat(nat, addressed, problems));
    let row = row?;
    Some(RouterPort {
        name,
        kind,
        pads_truncated: table.pad_truncated.unwrap_or(false),
        core: cores::core(table.core.as_ref()),
        vlan: vlan::of_port(table, problems),
        pcp: table.pcp.as_ref().map_or(PcpSource::Keep, |pcp| *pcp.get_ref()),
        link: Link {
            overhead_bytes: link.overhead_bytes.saturating_add(vlan::tag_bytes(table)),
            ..link
        },
        autorate: table.autorate.as_ref().map(|given| autorate::autorate(given, table, problems)),
        line_burst_ns,
        mac,
        addresses,
        nat,
        discipline: row,
        structure: row.auto_structure(&Options::default(), paths),
        input: reservation(table.input_reservation.as_ref(), table.cost, problems),
        output: reservation(table.output_reservation.as_ref(), table.cost, problems),
        longest_sleep_ns: table.longest_sleep.map_or(LONGEST_SLEEP_NS, |sleep| sleep.0),
    })
}

/// Validates the fields of a match, for a path or a stream; `known` are the router's ports.
pub(super) fn matches(table: &MatchTable, known: &[&str], problems: &mut Vec<Problem>) -> Match {
    let protocol = table.protocol.as_ref().and_then(|text| match text.get_ref().as_str() {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmpv6" => Some(58),
        _ => parse_as(text, "a protocol", "udp", problems),
    });
    Match {
        port: table.port.as_ref().and_then(|name| port_index(name, known, problems)),
        protocol,
        dscp: table.dscp,
        pcp: table.pcp.as_ref().and_then(|pcp| vlan::pcp(pcp, problems)),
        vlan: table.vlan.as_ref().and_then(|given| vlan::vlan(given, problems)),
        source: table.source.as_ref().and_then(|text| prefix(text, problems)),
        destination: table.destination.as_ref().and_then(|text| prefix(text, problems)),
        source_port: table.source_port,
        destination_port: table.destination_port,
    }
}

/// Checks the length of a filter expression; the router compiles it.
fn filter(text: &Spanned<String>, problems: &mut Vec<Problem>) -> Option<String> {
    let expression = text.get_ref().trim();
    let wrong = if expression.is_empty() {
        "an empty filter".to_owned()
    } else if expression.len() > FILTER_BYTES {
        format!("a filter of {} bytes", expression.len())
    } else if expression.contains('\0') {
        "a filter with a NUL character".to_owned()
    } else {
        return Some(expression.to_owned());
    };
    let help = format!("for example \"tcp port 80\"; {FILTER_BYTES} bytes at most");
    problems.push(Problem::new(text.span(), wrong).help(help));
    None
}

fn extension(table: &ExtensionTable, folder: &Path, problems: &mut Vec<Problem>) -> PathExtension {
    let memory_bytes = table.memory.as_ref().map_or(MEMORY_BYTES, |memory| memory.get_ref().0);
    if let Some(given) = table.memory.as_ref().filter(|_| !MEMORY_RANGE.contains(&memory_bytes)) {
        let message = format!("a memory of {memory_bytes} bytes");
        problems.push(Problem::new(given.span(), message).help("from \"64 KiB\" to \"1 GiB\""));
    }
    if table.module.get_ref().is_empty() {
        let problem = Problem::new(table.module.span(), "no module is named");
        problems.push(problem.help("a file, for example module = \"filter.wasm\""));
    }
    PathExtension {
        module: folder.join(table.module.get_ref()),
        memory_bytes,
        fuel: check_range(table.fuel.as_ref(), FUEL, 1..=1_000_000_000, "`fuel`", problems),
        faults: check_range(table.faults.as_ref(), FAULTS, 1..=1_000_000, "`faults`", problems),
    }
}

fn drops(path: &PathTable) -> bool {
    path.action == Some(PathAction::Drop)
}

fn path(
    table: &PathTable,
    known: &[&str],
    smallest_weight: u32,
    needs_period: Option<(&str, &str)>,
    problems: &mut Vec<Problem>,
) -> Option<RouterPath> {
    let before = problems.len();
    let drops = drops(table);
    for (key, given) in [
        ("reservation", table.reservation.is_some()),
        ("cost", table.cost.is_some()),
        ("extension", table.extension.is_some()),
        ("proxy", table.proxy.is_some()),
        ("core", table.core.is_some()),
        ("queue", table.queue.is_some()),
        ("to", table.to.is_some()),
        ("weight", table.weight.is_some()),
        ("priority", table.priority.is_some()),
        ("period", table.period.is_some()),
        ("window", table.window.is_some()),
        ("late", table.late.is_some()),
        ("max-rate", table.max_rate.is_some()),
        ("burst", table.burst.is_some()),
        ("flows", table.flows.is_some()),
        ("aqm", table.aqm.is_some()),
    ] {
        if drops && given {
            let name = table.name.get_ref();
            let message = format!("`{key}` of path `{name}`, whose action is \"drop\"");
            let help = "take it out: the path has no queue and no process";
            problems.push(Problem::new(table.name.span(), message).help(help));
        }
    }
    let weight = check_range(table.weight.as_ref(), 1, 1..=u32::MAX, "a weight", problems).max(1);
    let quantum = u64::from(LARGEST_BYTES) * u64::from(weight) / u64::from(smallest_weight);
    let quantum = u32::try_from(quantum).unwrap_or(u32::MAX);
    let mut contract = Contract::new().weight(weight).ok()?.quantum_bytes(quantum).ok()?;
    contract = contract.priority(table.priority.unwrap_or(0));
    match (table.period, needs_period) {
        (Some(period), _) => match contract.clone().period_ns(period.0) {
            Ok(with) => contract = with,
            Err(error) => {
                problems.push(Problem::new(table.name.span(), error.to_string()));
            }
        },
        (None, Some((port, discipline))) if !drops => {
            let message = format!("path `{}` has no `period`", table.name.get_ref());
            let help = format!("port `{port}` is scheduled by {discipline}, which needs one");
            problems.push(Problem::new(table.name.span(), message).help(help));
        }
        (None, _) => {}
    }
    if let Some(window) = table.window {
        contract = contract.window(window.0);
    }
    if matches!(table.late, Some(LateName::Drop)) {
        contract = contract.late(Late::Drop);
    }
    match (table.max_rate, table.burst) {
        (Some(rate), burst) => {
            let burst = burst.map_or(u64::from(LARGEST_BYTES), |burst| burst.0);
            if let Some(cap) = max_rate(rate.0, burst) {
                contract = contract.max_rate(cap);
            }
        }
        (None, Some(_)) => problems.push(
            Problem::new(table.name.span(), "a `burst` without a `max-rate`")
                .help("both define a token bucket, for example max-rate = \"20 Mbit/s\""),
        ),
        (None, None) => {}
    }
    if let Some(mark) = &table.r#match.mark {
        let help = "the mark is the kernel's, which does not see these packets; match other fields";
        problems.push(Problem::new(mark.span(), "a path cannot match `mark`").help(help));
    }
    if let Some(cgroup) = &table.r#match.cgroup {
        let help = "the router does not see the sending processes; match other fields";
        problems.push(Problem::new(cgroup.span(), "a path cannot match `cgroup`").help(help));
    }
    let queue = check_range(table.queue.as_ref(), QUEUE, 1..=65_536, "a queue", problems);
    if let Some(flows) = flows::of_path(table, queue, problems) {
        contract = contract.flows(flows);
    }
    let path = RouterPath {
        name: table.name.get_ref().clone(),
        matches: matches(&table.r#match, known, problems),
        filter: table.r#match.filter.as_ref().and_then(|text| filter(text, problems)),
        action: table.action.unwrap_or_default(),
        core: cores::core(table.core.as_ref()),
        reservation: reservation(table.reservation.as_ref(), table.cost, problems),
        extension: None,
        proxy: None,
        queue,
        to: table.to.as_ref().and_then(|name| port_index(name, known, problems)),
        contract,
        flow_by: table.flows.as_ref().map_or(FlowBy::default(), |flows| flows.get_ref().by),
        hosts_by: table.flows.as_ref().and_then(|flows| flows.get_ref().hosts),
    };
    (problems.len() == before).then_some(path)
}

fn route(
    table: &RouteTable,
    known: &[&str],
    nets: &[&[IpNet]],
    problems: &mut Vec<Problem>,
) -> Option<Route> {
    let prefix = prefix(&table.prefix, problems);
    let port = port_index(&table.port, known, problems)?;
    let nets = nets[port];
    let is_ipv6 = prefix.is_some_and(|prefix| prefix.addr().is_ipv6());
    let same_family = |net: &&IpNet| net.addr().is_ipv6() == is_ipv6;
    let family = if is_ipv6 { "IPv6" } else { "IPv4" };
    let next = match (&table.neighbour, &table.via) {
        (Some(_), Some(via)) => {
            let message = "a route with both `neighbour` and `via`";
            problems.push(Problem::new(via.span(), message).help("give one of them"));
            None
        }
        (Some(text), None) => mac(text, problems).map(NextHop::Neighbour),
        (None, Some(text)) => {
            let example = if is_ipv6 { "2001:db8:2::9" } else { "10.2.0.9" };
            let via: IpAddr = parse_as(text, &format!("an {family} address"), example, problems)?;
            if via.is_ipv6() != is_ipv6 && prefix.is_some() {
                let message = format!("{via} cannot be the next hop of {}", table.prefix.get_ref());
                let help = format!("an {family} address, for example \"{example}\"");
                problems.push(Problem::new(text.span(), message).help(help));
                return None;
            }
            let link_local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
            let is_there = |net: &&IpNet| (net.contains(&via) || link_local) && net.addr() != via;
            let ours = nets.iter().any(|net| net.addr() == via);
            if ours || !nets.iter().filter(same_family).any(|net| is_there(&net)) {
                let message = format!("{via} is not on the network of port `{}`", known[port]);
                let of_family: Vec<_> = nets.iter().filter(same_family).map(IpNet::trunc).collect();
                let help = match &of_family[..] {
                    [] => format!("give the port an {family} `address`"),
                    nets => {
                        let nets = nets.iter().map(ToString::to_string).collect::<Vec<_>>();
                        format!("another address of {}", nets.join(" or "))
                    }
                };
                problems.push(Problem::new(text.span(), message).help(help));
            }
            Some(NextHop::Gateway(via))
        }
        (None, None) => {
            if prefix.is_some() && !nets.iter().any(|net| same_family(&net)) {
                let message = format!("no connected {family} network on port `{}`", known[port]);
                let help =
                    format!("give the route a `neighbour`, or the port an {family} `address`");
                problems.push(Problem::new(table.port.span(), message).help(help));
            }
            Some(NextHop::Connected)
        }
    };
    Some(Route { prefix: prefix?, port, next: next? })
}
