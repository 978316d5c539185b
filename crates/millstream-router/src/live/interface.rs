//! A network interface, by AF_XDP or by AF_PACKET.
//!
//! An interface that goes down or away is survived: nothing comes in, packets to be sent wait in
//! their queues, and opening it is tried again every [`RETRY`].

mod packet;
mod redirect;
mod xdp;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockaddrLike};
use rustix::net::{AddressFamily as Family, SocketType, socket, sockopt};
use std::fs;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tappers::Interface;

use crate::live::checksum;
use crate::live::pool::Pool;
use crate::live::port::{Port, PortError};
use millstream_scenario::InterfaceIo;
use packet::PacketDevice;
use redirect::Redirect;
use xdp::XdpDevice;

/// How often an interface that is away is tried.
const RETRY: Duration = Duration::from_millis(100);

/// A frame's bytes beyond the MTU.
const ETHERNET_BYTES: u32 = 14;

/// How many packets were taken, and why the interface is away, if it is.
type Moved = (usize, Option<String>);

/// An open interface.
trait Device {
    /// As [`Port::receive`].
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<u64>) -> Moved;

    /// As [`Port::transmit`].
    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Moved;

    /// As [`Port::backlog`].
    fn backlog(&self) -> Option<usize> {
        None
    }

    /// Packets lost since it was opened.
    fn lost(&mut self) -> u64;

    /// Sends what is left.
    fn flush(&mut self) {}
}

/// A port on a network interface.
pub struct InterfacePort {
    name: String,
    interface: String,
    /// The program for AF_XDP, if that is used.
    redirect: Option<Redirect>,
    /// `None` while it is away.
    device: Option<Box<dyn Device>>,
    /// Packets of local senders may come in with checksums that nobody has computed.
    unfinished: bool,
    /// The longest frame that its MTU allows, bytes.
    longest_bytes: u32,
    /// Groups whose frames are to come in, and what makes the kernel let them in.
    groups: Vec<Ipv6Addr>,
    membership: Option<OwnedFd>,
    tried: Instant,
    went_away: u64,
    /// Packets that the device lost before it went away.
    lost: u64,
}

impl InterfacePort {
    /// Opens the interface `interface` for the port called `name`. With [`InterfaceIo::Auto`] it is AF_XDP where
    /// that can be and `against_xdp` is `None`, a reason against it.
    ///
    /// # Errors
    /// If there is no such interface, or it may not be opened.
    pub fn open(
        name: &str,
        interface: &str,
        io: InterfaceIo,
        against_xdp: Option<&str>,
    ) -> Result<Self, PortError> {
        let unfinished = is_local(interface);
        let (name, interface) = (name.to_owned(), interface.to_owned());
        let (tried, went_away, lost) = (Instant::now(), 0, 0);
        let mut port = Self {
            name,
            interface,
            redirect: None,
            device: None,
            unfinished,
            longest_bytes: u32::MAX,
            groups: Vec::new(),
            membership: None,
            tried,
            went_away,
            lost,
        };
        let reason = match (io, against_xdp) {
            (InterfaceIo::Packet, _) => "so the file says".to_owned(),
            (InterfaceIo::Auto, Some(reason)) => reason.to_owned(),
            (InterfaceIo::Auto | InterfaceIo::Xdp, _) => match port.open_xdp() {
                Ok(()) => return Ok(port),
                Err(error) if io == InterfaceIo::Xdp => return Err(port.refused("AF_XDP", &error)),
                Err(error) => error,
            },
        };
        port.redirect = None;
        port.open_packet().map_err(|error| port.refused("AF_PACKET", &error))?;
        let (port_name, interface) = (&port.name, &port.interface);
        log::info!(port = port_name, interface = interface, io = "AF_PACKET"; "the interface is open, without AF_XDP: {reason}");
        Ok(port)
    }

    fn open_packet(&mut self) -> Result<(), String> {
        self.device = Some(Box::new(PacketDevice::open(&self.interface)?));
        self.opened();
        Ok(())
    }

    fn open_xdp(&mut self) -> Result<(), String> {
        let index = Interface::new(&self.interface).and_then(|interface| interface.index());
        let index = index.map_err(|error| error.to_string())?;
        if self.redirect.is_none() {
            let loaded = Redirect::load();
            self.redirect = Some(loaded.map_err(|error| format!("loading a program: {error}"))?);
        }
        let Some(redirect) = &self.redirect else { return Ok(()) };
        let device = XdpDevice::open(redirect, index)?;
        log::info!(port = self.name, interface = self.interface, io = "AF_XDP", mode = device.mode(); "the interface is open");
        self.device = Some(Box::new(device));
        self.opened();
        Ok(())
    }

    /// What belongs to an interface that has just come.
    fn opened(&mut self) {
        let mtu = fs::read_to_string(format!("/sys/class/net/{}/mtu", self.interface));
        let mtu = mtu.ok().and_then(|text| text.trim().parse::<u32>().ok());
        self.longest_bytes = mtu.map_or(u32::MAX, |mtu| mtu.saturating_add(ETHERNET_BYTES));
        self.let_in();
    }

    /// Makes the interface take frames to the groups in, and switches that listen send them (MLD): the kernel joins
    /// the groups for a socket that is bound to nothing.
    fn let_in(&mut self) {
        self.membership = None;
        if self.groups.is_empty() {
            return;
        }
        let join = || -> std::io::Result<OwnedFd> {
            let index = Interface::new(&self.interface)?.index()?;
            let membership = socket(Family::INET6, SocketType::DGRAM, None)?;
            for group in &self.groups {
                sockopt::set_ipv6_add_membership(&membership, group, index)?;
            }
            Ok(membership)
        };
        match join() {
            Ok(membership) => self.membership = Some(membership),
            Err(error) => {
                log::warn!(port = self.name, interface = self.interface; "solicitations may not come in: the kernel does not join their groups: {error}");
            }
        }
    }

    fn refused(&self, by: &str, error: &str) -> PortError {
        let message = format!("cannot open interface `{}` by {by}: {error}", self.interface);
        let what = PortError::new(&self.name, message);
        let lower = error.to_lowercase();
        if lower.contains("permi") {
            what.help(if by == "AF_XDP" {
                "run as root, or give the program CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK; or io = \"packet\""
            } else {
                "run as root, or give the program CAP_NET_RAW"
            })
        } else if lower.contains("no such device") || lower.contains("doesn't exist") {
            what.help("`ip link` lists the interfaces of this network namespace")
        } else if lower.contains("no buffer space") {
            what.help(
                "16 MiB of locked memory a port: `ulimit -l`, or CAP_IPC_LOCK; or io = \"packet\"",
            )
        } else if by == "AF_XDP" {
            what.help("io = \"packet\" does without AF_XDP")
        } else {
            what
        }
    }

    #[cold]
    fn away(&mut self, error: &str) {
        self.lost = self.lost();
        self.device = None;
        self.went_away += 1;
        self.tried = Instant::now();
        log::warn!(port = self.name, interface = self.interface; "the interface is away: {error}");
    }

    #[cold]
    fn try_again(&mut self) {
        if self.tried.elapsed() < RETRY {
            return;
        }
        self.tried = Instant::now();
        let opened = if self.redirect.is_some() { self.open_xdp() } else { self.open_packet() };
        match opened {
            Ok(()) => {
                log::info!(port = self.name, interface = self.interface; "the interface is back");
            }
            Err(error) => {
                log::debug!(port = self.name, interface = self.interface; "the interface is not back: {error}");
            }
        }
    }
}

impl Port for InterfacePort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<u64>,
    ) -> Result<usize, PortError> {
        let Some(device) = &mut self.device else {
            self.try_again();
            return Ok(0);
        };
        let before = into.len();
        let (count, away) = device.receive(pool, most, into);
        if self.unfinished {
            for packet in &into[before..] {
                checksum::finish(pool.frame_mut(*packet));
            }
        }
        if let Some(error) = away {
            self.away(&error);
        }
        Ok(count)
    }

    fn backlog(&self) -> Option<usize> {
        self.device.as_ref()?.backlog()
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError> {
        let Some(device) = &mut self.device else { return Ok(0) };
        let (taken, away) = device.transmit(pool, packets);
        if let Some(error) = away {
            self.away(&error);
        }
        Ok(taken)
    }

    fn lost(&mut self) -> u64 {
        self.lost + self.device.as_mut().map_or(0, |device| device.lost())
    }

    fn went_away(&self) -> u64 {
        self.went_away
    }

    fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    fn join(&mut self, groups: &[Ipv6Addr]) {
        if self.groups != groups {
            self.groups = groups.to_vec();
            self.let_in();
        }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if let Some(device) = &mut self.device {
            device.flush();
        }
        Ok(())
    }
}

/// Why packets of `interface` should not be taken from the kernel, which they are by AF_XDP; `None` if nobody would
/// miss them.
pub(super) fn against_xdp(interface: &str) -> Option<String> {
    let entries = |path: String| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    };
    let device = format!("/sys/class/net/{interface}");
    if let Some(upper) = entries(device.clone()).find(|name| name.starts_with("upper_")) {
        let upper = upper.trim_start_matches("upper_").to_owned();
        return Some(format!("the kernel's `{upper}` uses it"));
    }
    let queues = entries(device + "/queues").filter(|name| name.starts_with("rx-")).count();
    if queues > 1 {
        return Some(format!(
            "it has {queues} receive queues: `ethtool -L {interface} combined 1`"
        ));
    }
    let has_address = getifaddrs().into_iter().flatten().any(|of| {
        let address = of.address.filter(|_| of.interface_name == interface);
        address.is_some_and(|address| match address.family() {
            Some(AddressFamily::Inet) => true,
            Some(AddressFamily::Inet6) => {
                // Every interface has a link-local address.
                address.as_sockaddr_in6().is_some_and(|of| !of.ip().is_unicast_link_local())
            }
            _ => false,
        })
    });
    has_address.then(|| "the kernel has an address there, whose packets it would take".to_owned())
}

/// Whether senders are on this machine, or on its host: no wire, and nobody who has computed checksums for it.
fn is_local(interface: &str) -> bool {
    let driver = fs::read_link(format!("/sys/class/net/{interface}/device/driver"));
    driver.map_or(true, |driver| driver.ends_with("virtio_net"))
}
