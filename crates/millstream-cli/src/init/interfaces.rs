//! Facts about the machine's network interfaces, from the kernel.

use miette::miette;
use nix::sys::socket::SockaddrIn;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::failure::Failure;

/// A network interface.
pub(crate) struct Interface {
    pub(super) name: String,
    /// Its speed, bits/s; `None` if the driver does not say.
    pub(super) speed_bps: Option<u64>,
    /// Its first IPv4 address and the prefix length.
    pub(super) address: Option<(Ipv4Addr, u32)>,
}

impl Interface {
    /// Reads the interface `name`.
    ///
    /// # Errors
    /// Fails if there is no such interface; the message lists those that exist.
    pub(crate) fn read(name: &str) -> Result<Self, Failure> {
        let known = names();
        if !known.iter().any(|known| known == name) {
            return Err(Failure::Input(miette!(
                help = format!("interfaces: {}", known.join(", ")),
                "there is no interface `{name}`"
            )));
        }
        // The kernel prints -1, or fails, for an unknown speed.
        let speed = std::fs::read_to_string(Path::new("/sys/class/net").join(name).join("speed"));
        let speed: Option<u64> = speed.ok().and_then(|text| text.trim().parse().ok());
        let speed_bps = speed.filter(|speed| *speed > 0).map(|speed| speed * 1_000_000);
        Ok(Self { name: name.to_owned(), speed_bps, address: address(name) })
    }
}

/// Returns the names of all interfaces.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns the first IPv4 address of an interface, with its prefix length.
fn address(name: &str) -> Option<(Ipv4Addr, u32)> {
    let of_interface =
        nix::ifaddrs::getifaddrs().ok()?.filter(|address| address.interface_name == name);
    let mut found = of_interface.filter_map(|interface| {
        let address = *interface.address?.as_sockaddr_in()?;
        let mask = interface.netmask.as_ref().and_then(|mask| mask.as_sockaddr_in().copied());
        let bits = mask.map_or(32, |mask: SockaddrIn| mask.ip().to_bits().count_ones());
        Some((address.ip(), bits))
    });
    found.next()
}

/// Returns the gateway of the kernel's IPv4 default route by the interface `name`.
pub(super) fn gateway(name: &str) -> Option<Ipv4Addr> {
    parse_gateway(&std::fs::read_to_string("/proc/net/route").ok()?, name)
}

/// Parses `/proc/net/route`, which has addresses in hexadecimal, in the order of memory.
fn parse_gateway(table: &str, name: &str) -> Option<Ipv4Addr> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_default = fields.next()? == name && fields.next()? == "00000000";
        let gateway = u32::from_str_radix(fields.next()?, 16).ok()?;
        (is_default && gateway != 0).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_of_an_interface_is_found() {
        let gateway = u32::from_ne_bytes([10, 2, 0, 254]);
        let table = format!(
            "Iface\tDestination\tGateway\tFlags\neth1\t00000000\t00000000\t0001\n\
             eth0\t0000020A\t00000000\t0001\neth0\t00000000\t{gateway:08X}\t0003\n"
        );
        assert_eq!(parse_gateway(&table, "eth0"), Some(Ipv4Addr::new(10, 2, 0, 254)));
        assert_eq!(parse_gateway(&table, "eth1"), None);
    }
}
