//! Validation of VLANs in a router file: ID ranges, and a single port for every frame of a device.

use toml::Spanned;

use crate::error::Problem;
use crate::file::router::{PortKind as KindName, PortTable, RouterFile};
use crate::router::{PortKind, RouterPort};

/// The length of a VLAN tag on the wire, bytes.
const TAG_BYTES: i32 = 4;
/// The largest VLAN ID; 4095 is reserved (IEEE 802.1Q, table 9-2).
const MAX_VLAN_ID: u16 = 4_094;

/// Returns a VLAN ID; reports a problem and returns `None` if it is out of range.
pub(super) fn vlan(given: &Spanned<u16>, problems: &mut Vec<Problem>) -> Option<u16> {
    let number = *given.get_ref();
    let right = (1..=MAX_VLAN_ID).contains(&number);
    if !right {
        let message = format!("a `vlan` of {number}");
        problems.push(Problem::new(given.span(), message).help(format!("from 1 to {MAX_VLAN_ID}")));
    }
    right.then_some(number)
}

/// Returns a priority code point; reports a problem and returns `None` if it is out of range.
pub(super) fn pcp(given: &Spanned<u8>, problems: &mut Vec<Problem>) -> Option<u8> {
    let number = *given.get_ref();
    if number > 7 {
        let message = format!("a `pcp` of {number}");
        problems.push(Problem::new(given.span(), message).help("from 0 to 7"));
    }
    (number <= 7).then_some(number)
}

/// Returns the length on the wire of the VLAN tag of a port's frames, bytes.
pub(super) fn tag_bytes(table: &PortTable) -> i32 {
    table.vlan.as_ref().map_or(0, |_| TAG_BYTES)
}

/// Returns the VLAN ID of a port.
pub(super) fn of_port(table: &PortTable, problems: &mut Vec<Problem>) -> Option<u16> {
    if let (None, Some(given)) = (&table.vlan, &table.pcp) {
        let message = format!("`pcp` of port `{}`, whose frames have no tag", table.name.get_ref());
        problems.push(
            Problem::new(given.span(), message).help("give the port a `vlan`, or take `pcp` out"),
        );
    }
    let given = table.vlan.as_ref()?;
    if matches!(table.kind, KindName::Tun) {
        let message =
            format!("`vlan` of port `{}`: a TUN device has no tags", table.name.get_ref());
        let help = "take it out, or make it kind = \"tap\"";
        problems.push(Problem::new(given.span(), message).help(help));
    }
    vlan(given, problems)
}

/// Checks that ports of a device have different VLANs, and that every matched VLAN has a port.
pub(super) fn shared(file: &RouterFile, ports: &[Option<RouterPort>], problems: &mut Vec<Problem>) {
    let tables = file.port.iter().map(Spanned::get_ref).zip(ports);
    let known = tables.filter_map(|(table, port)| Some((table, port.as_ref()?)));
    let known: Vec<(&PortTable, &RouterPort)> = known.collect();
    for (at, (table, port)) in known.iter().enumerate() {
        let device = device(&port.kind);
        let others: Vec<&RouterPort> = (known[..at].iter().map(|(_, other)| *other))
            .filter(|other| self::device(&other.kind) == device)
            .collect();
        if let Some(other) = others.iter().find(|other| other.kind != port.kind) {
            let message =
                format!("ports `{}` and `{}` open `{device}` differently", other.name, port.name);
            let problem = Problem::new(table.name.span(), message);
            problems.push(
                problem.help("give both the same `kind` and `io`: the device is opened once"),
            );
        }
        if let Some(twin) = others.iter().find(|other| other.vlan == port.vlan) {
            let what = port.vlan.map_or_else(
                || format!("frames of `{device}` without a VLAN"),
                |vlan| format!("VLAN {vlan} of `{device}`"),
            );
            let message = format!("ports `{}` and `{}` are both for {what}", twin.name, port.name);
            let span = table.vlan.as_ref().map_or_else(|| table.name.span(), Spanned::span);
            problems.push(Problem::new(span, message).help("give each a different `vlan`"));
        }
    }
    let vlans: Vec<u16> = known.iter().filter_map(|(_, port)| port.vlan).collect();
    // IDs out of range have already been reported.
    let wanted = file.path.iter().filter_map(|path| path.get_ref().r#match.vlan.as_ref());
    for given in wanted.filter(|given| (1..=MAX_VLAN_ID).contains(given.get_ref())) {
        let number = *given.get_ref();
        if !vlans.contains(&number) {
            let message = format!("no port has VLAN {number}, so no packet matches");
            let help = format!("give a port `vlan = {number}`");
            problems.push(Problem::new(given.span(), message).help(help));
        }
    }
}

/// Returns the name of the device or files behind a port; ports with equal names share the device.
fn device(kind: &PortKind) -> String {
    match kind {
        PortKind::Interface(device, _) | PortKind::Tap(device) | PortKind::Tun(device) => {
            device.clone()
        }
        PortKind::Pcap(input, output) => {
            let files = [input, output].into_iter().flatten();
            let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
            files.join("`, `")
        }
        PortKind::Ingress(of) => format!("ingress of port {of}"),
    }
}
