//! A port on a Linux network interface, through AF_XDP or AF_PACKET.
//!
//! While the interface is down or missing, the port receives nothing and its packets stay queued. A
//! separate thread tries to open it again (`opener`).

mod opener;
mod packet;
mod redirect;
mod xdp;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockaddrLike};
use std::fs;
use std::net::Ipv6Addr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use self::xdp::MAX_QUEUES;
use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::net::checksum;
use crate::net::pool::Pool;
use millstream_scenario::InterfaceIo;
use opener::{OpenSpec, Opened, Opener};
use redirect::Redirect;

/// Packets moved, and why the interface is away, if it is.
type Transfer = (usize, Option<String>);

/// An open interface.
trait Device {
    /// See [`Port::receive`].
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<PacketHandle>) -> Transfer;

    /// See [`Port::transmit`].
    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Transfer;

    /// See [`Port::retry_pending`].
    fn retry_pending(&mut self) -> bool {
        false
    }

    /// See [`Port::backlog`].
    fn backlog(&self) -> Option<usize> {
        None
    }

    /// See [`Port::arrivals`].
    fn arrivals(&self) -> Option<Vec<RawFd>>;

    /// Returns the packets dropped since the interface was opened.
    fn lost(&mut self) -> u64;

    /// Returns the resources to drop, which may block for long.
    fn close(self: Box<Self>) -> Box<dyn Send>;

    /// Sends what remains in the transmit ring.
    fn flush(&mut self) {}
}

/// A port on a network interface.
pub struct InterfacePort {
    name: String,
    spec: OpenSpec,
    /// `None` while the interface is away.
    device: Option<Box<dyn Device>>,
    /// Opens the interface again; `None` until [`Port::prepare`].
    opener: Option<Opener>,
    /// Whether local senders may leave checksums incomplete.
    completes_checksums: bool,
    /// The longest frame that the MTU allows, bytes.
    longest_bytes: u32,
    /// Socket that holds the multicast memberships.
    membership: Option<OwnedFd>,
    times_down: u64,
    /// Packets dropped by earlier devices.
    lost: u64,
}

impl InterfacePort {
    /// Opens the interface `interface` for the port `name`. [`InterfaceIo::Auto`] selects AF_XDP if
    /// it can be opened and `xdp_conflict`, a reason against it, is `None`.
    ///
    /// # Errors
    /// Fails if the interface does not exist or cannot be opened.
    pub fn open(
        name: &str,
        interface: &str,
        io: InterfaceIo,
        xdp_conflict: Option<&str>,
    ) -> Result<Self, PortError> {
        let (interface_name, groups) = (interface.to_owned(), Vec::new());
        let packet = OpenSpec { interface: interface_name, redirect: None, groups };
        let reason = match (io, xdp_conflict) {
            (InterfaceIo::Packet, _) => "as configured".to_owned(),
            (InterfaceIo::Auto, Some(reason)) => reason.to_owned(),
            (InterfaceIo::Auto | InterfaceIo::Xdp, _) => {
                let opened = Redirect::load(MAX_QUEUES)
                    .map_err(|error| format!("loading the XDP program: {error}"));
                let opened = opened.and_then(|redirect| {
                    let redirect = Some(Arc::new(redirect));
                    let spec = OpenSpec { redirect, ..packet.clone() };
                    Ok((spec.open()?, spec))
                });
                match opened {
                    Ok((opened, spec)) => {
                        log::info!(
                            port = name, interface = interface, io = "AF_XDP",
                            mode = opened.handle.mode(), queues = opened.handle.queues();
                            "the interface is open"
                        );
                        return Ok(Self::new(name, spec, opened));
                    }
                    Err(error) if io == InterfaceIo::Xdp => {
                        return Err(open_error(name, interface, "AF_XDP", &error));
                    }
                    Err(error) => error,
                }
            }
        };
        let opened =
            packet.open().map_err(|error| open_error(name, interface, "AF_PACKET", &error))?;
        log::info!(
            port = name, interface = interface, io = "AF_PACKET";
            "the interface is open, AF_PACKET: {reason}"
        );
        Ok(Self::new(name, packet, opened))
    }

    fn new(name: &str, spec: OpenSpec, opened: Opened) -> Self {
        let completes_checksums = is_local(&spec.interface);
        let (name, opener) = (name.to_owned(), None);
        let Opened { handle, longest_bytes, membership, .. } = opened;
        let (device, times_down, lost) = (Some(handle.device()), 0, 0);
        Self {
            name,
            spec,
            device,
            opener,
            completes_checksums,
            longest_bytes,
            membership,
            times_down,
            lost,
        }
    }

    #[cold]
    fn handle_away(&mut self, error: &str) -> Result<(), PortError> {
        self.lost = self.lost();
        self.times_down += 1;
        log::warn!(
            port = self.name, interface = self.spec.interface;
            "the interface is down or was removed: {error}"
        );
        let Some(device) = self.device.take() else { return Ok(()) };
        self.prepare()?;
        if let Some(opener) = &self.opener {
            let left = (device.close(), self.membership.take());
            opener.reopen(Box::new(left), self.spec.clone());
        }
        Ok(())
    }

    #[cold]
    fn poll_reopened(&mut self) {
        if let Some(opened) = self.opener.as_ref().and_then(Opener::opened) {
            log::info!(
                port = self.name, interface = self.spec.interface, mode = opened.handle.mode();
                "the interface is open again"
            );
            let Opened { handle, longest_bytes, membership, groups } = opened;
            self.device = Some(handle.device());
            (self.longest_bytes, self.membership) = (longest_bytes, membership);
            if groups != self.spec.groups {
                self.membership = self.spec.join();
            }
        }
    }
}

fn open_error(name: &str, interface: &str, by: &str, error: &str) -> PortError {
    let message = format!("cannot open interface `{interface}` with {by}: {error}");
    let what = PortError::new(name, message);
    let lower = error.to_lowercase();
    if lower.contains("permi") {
        what.help(if by == "AF_XDP" {
            "run as root, or give the program CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and \
             CAP_IPC_LOCK; or io = \"packet\""
        } else {
            "run as root, or give the program CAP_NET_RAW"
        })
    } else if lower.contains("no such device") || lower.contains("doesn't exist") {
        what.help("`ip link` lists the interfaces of this network namespace")
    } else if lower.contains("no buffer space") {
        what.help(
            "it locks 16 MiB of memory per port and 8 MiB per further receive queue: raise \
             `ulimit -l`, give the program CAP_IPC_LOCK, or set io = \"packet\"",
        )
    } else if by == "AF_XDP" {
        what.help("io = \"packet\" uses AF_PACKET instead")
    } else {
        what
    }
}

impl Port for InterfacePort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let Some(device) = &mut self.device else {
            self.poll_reopened();
            return Ok(0);
        };
        let before = into.len();
        let (count, away) = device.receive(pool, most, into);
        if self.completes_checksums {
            // Segments made here have complete checksums.
            for packet in into[before..].iter().filter(|packet| !Pool::is_segmented(**packet)) {
                checksum::finish(pool.frame_mut(*packet));
            }
        }
        if let Some(error) = away {
            self.handle_away(&error)?;
        }
        Ok(count)
    }

    fn backlog(&self) -> Option<usize> {
        self.device.as_ref()?.backlog()
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        let Some(device) = &mut self.device else { return Ok(0) };
        let (taken, away) = device.transmit(pool, packets);
        if let Some(error) = away {
            self.handle_away(&error)?;
        }
        Ok(taken)
    }

    fn retry_pending(&mut self) -> bool {
        self.device.as_mut().is_some_and(|device| device.retry_pending())
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        self.device.as_ref().map_or_else(|| Some(Vec::new()), |device| device.arrivals())
    }

    fn lost(&mut self) -> u64 {
        self.lost + self.device.as_mut().map_or(0, |device| device.lost())
    }

    fn times_down(&self) -> u64 {
        self.times_down
    }

    fn is_down(&self) -> bool {
        self.device.is_none()
    }

    fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    fn join(&mut self, groups: &[Ipv6Addr]) {
        if self.spec.groups != groups {
            self.spec.groups = groups.to_vec();
            self.membership = self.spec.join();
        }
    }

    fn prepare(&mut self) -> Result<(), PortError> {
        if self.opener.is_none() {
            let opener = Opener::start().map_err(|error| {
                PortError::new(&self.name, format!("cannot start the reopening thread: {error}"))
            })?;
            self.opener = Some(opener);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if let Some(device) = &mut self.device {
            device.flush();
        }
        Ok(())
    }
}

/// Returns why AF_XDP would take packets of `interface` that the kernel needs; `None` if it needs
/// none.
pub(crate) fn xdp_conflict(interface: &str) -> Option<String> {
    let entries = fs::read_dir(format!("/sys/class/net/{interface}")).into_iter().flatten();
    let mut names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    if let Some(upper) = names.find(|name| name.starts_with("upper_")) {
        let upper = upper.trim_start_matches("upper_").to_owned();
        return Some(format!("the kernel's device `{upper}` uses the interface"));
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
    has_address.then(|| {
        "the kernel has an address on the interface, and AF_XDP would take its packets".to_owned()
    })
}

/// Returns whether senders share this machine or its host, so that no sender completes checksums
/// for a wire.
fn is_local(interface: &str) -> bool {
    let driver = fs::read_link(format!("/sys/class/net/{interface}/device/driver"));
    driver.map_or(true, |driver| driver.ends_with("virtio_net"))
}
