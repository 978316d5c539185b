//! Validation of the assignment of a router's processes to cores.

use toml::Spanned;

use crate::error::{Problem, list};
use crate::file::router::RouterFile;
use crate::router::{PortKind, RouterPath, RouterPort};

const MAX_CORES: u32 = 64;

/// Returns the number of cores.
pub(super) fn count(given: Option<&Spanned<u32>>, problems: &mut Vec<Problem>) -> usize {
    crate::validate::check_range(given, 1, 1..=MAX_CORES, "`cores`", problems) as usize
}

/// Returns the core of a port or a path; the default is 0.
pub(super) fn core(given: Option<&Spanned<u32>>) -> usize {
    given.map_or(0, |core| *core.get_ref() as usize)
}

/// Checks that ports and paths use existing cores and that no core is idle.
///
/// Ports that share a device must be on one core. A path with a proxy needs a router with one core,
/// because other processes look up its tables for each packet.
pub(super) fn shared(
    file: &RouterFile,
    cores: usize,
    ports: &[Option<RouterPort>],
    paths: &[Option<RouterPath>],
    problems: &mut Vec<Problem>,
) {
    let of_ports = file.port.iter().map(Spanned::get_ref).map(|of| ("port", &of.name, &of.core));
    let of_paths = file.path.iter().map(Spanned::get_ref).map(|of| ("path", &of.name, &of.core));
    let mut has = vec![false; cores];
    for (what, name, given) in of_ports.chain(of_paths) {
        let at = core(given.as_ref());
        match (has.get_mut(at), given) {
            (Some(has), _) => *has = true,
            (None, Some(given)) => {
                let message = format!("{what} `{}` on core {at} of {cores}", name.get_ref());
                let help = format!("from 0 to {}, or more `cores`", cores.saturating_sub(1));
                problems.push(Problem::new(given.span(), message).help(help));
            }
            (None, None) => {}
        }
    }
    let Some(given) = file.router.cores.as_ref().filter(|_| cores > 1) else { return };
    let idle = (0..cores).filter(|core| !has[*core]).map(|core| core.to_string());
    let idle: Vec<String> = idle.collect();
    if !idle.is_empty() {
        let message =
            format!("no port or path uses core {}", list(idle.iter().map(String::as_str)));
        let help = "give a port or a path this `core`, or reduce `cores`";
        problems.push(Problem::new(given.span(), message).help(help));
    }
    let shares = |port: &RouterPort, other: &RouterPort| {
        port.kind == other.kind && !matches!(port.kind, PortKind::Pcap(..))
    };
    let known: Vec<&RouterPort> = ports.iter().flatten().collect();
    for (at, port) in known.iter().enumerate() {
        let other = known[..at].iter().find(|other| shares(port, other));
        if let Some(other) = other.filter(|other| other.core != port.core) {
            let message =
                format!("ports `{}` and `{}` share a device on two cores", other.name, port.name);
            problems.push(Problem::new(given.span(), message).help("give both the same `core`"));
        }
    }
    if let Some(path) = paths.iter().flatten().find(|path| path.proxy.is_some()) {
        let message = format!("path `{}` has a proxy in a router of {cores} cores", path.name);
        let help = "a proxy needs a router of one core: take `cores` out";
        problems.push(Problem::new(given.span(), message).help(help));
    }
}
