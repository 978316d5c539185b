//! Validation of ports of kind "ingress": the links that received packets pass.

use toml::Spanned;

use crate::error::Problem;
use crate::file::router::{PortKind as KindName, PortTable, RouterFile};
use crate::router::{PortKind, RouterPort};
use crate::validate::router::port_index;

/// Returns the port that receives the packets of the link of `table`, as an index.
pub(super) fn of(table: &PortTable, known: &[&str], problems: &mut Vec<Problem>) -> Option<usize> {
    if let Some(name) = &table.of {
        return port_index(name, known, problems);
    }
    let message = format!("port `{}` has no `of`", table.name.get_ref());
    let help = "the port that receives its packets, for example of = \"wan\"";
    problems.push(Problem::new(table.name.span(), message).help(help));
    None
}

/// Checks that each ingress port belongs to a port with a device or captures and is the only one
/// there, that nothing else names it, and that the router has one core: its packets go from one
/// output queue to another.
pub(super) fn check(file: &RouterFile, ports: &[Option<RouterPort>], problems: &mut Vec<Problem>) {
    let tables = || file.port.iter().map(Spanned::get_ref);
    let ingress = tables().filter(|table| matches!(table.kind, KindName::Ingress));
    let ingress: Vec<&str> = ingress.map(|table| table.name.get_ref().as_str()).collect();
    let paths = file.path.iter().map(Spanned::get_ref);
    let of_paths = paths.flat_map(|path| [&path.to, &path.r#match.port]).flatten();
    let of_routes = file.route.iter().map(|route| &route.get_ref().port);
    for name in of_paths.chain(of_routes).filter(|name| ingress.contains(&name.get_ref().as_str()))
    {
        let message = format!("port `{}` is an ingress port", name.get_ref());
        let help = "packets pass it by themselves: name the port of a device";
        problems.push(Problem::new(name.span(), message).help(help));
    }
    let mut seen: Vec<usize> = Vec::new();
    for (table, port) in tables().zip(ports) {
        let (Some(given), Some(PortKind::Ingress(of))) =
            (&table.of, port.as_ref().map(|port| &port.kind))
        else {
            continue;
        };
        if ingress.contains(&given.get_ref().as_str()) {
            let message = format!("`{}` is an ingress port and receives nothing", given.get_ref());
            let help = "name the port of a device";
            problems.push(Problem::new(given.span(), message).help(help));
        } else if seen.contains(of) {
            let message = format!("port `{}` has two ingress ports", given.get_ref());
            problems.push(Problem::new(given.span(), message).help("take one of them out"));
        }
        seen.push(*of);
        if let Some(cores) = file.router.cores.as_ref().filter(|cores| *cores.get_ref() > 1) {
            let message = format!("an ingress port in a router of {} cores", cores.get_ref());
            let help = "it needs a router of one core: take `cores` out";
            problems.push(Problem::new(table.name.span(), message).help(help));
        }
    }
}
