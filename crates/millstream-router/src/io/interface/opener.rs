//! Opens an interface, and reopens one that is away on a separate thread.
//!
//! Closing and opening AF_XDP sockets can block for long behind other changes to interfaces. The
//! forwarding thread must not block.

use nix::net::if_::if_nametoindex;
use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use std::{fs, io};

use crate::io::interface::Device;
use crate::io::interface::packet::PacketDevice;
use crate::io::interface::redirect::Redirect;
use crate::io::interface::xdp::{Shared, XdpDevice};
use crate::net::header::ETHERNET_BYTES;

/// Interval between attempts to open an interface that is away.
const RETRY: Duration = Duration::from_millis(100);

/// Parameters for opening an interface.
#[derive(Clone)]
pub(super) struct OpenSpec {
    pub(super) interface: String,
    /// The XDP program; `None` selects AF_PACKET.
    pub(super) redirect: Option<Arc<Redirect>>,
    /// Multicast groups to join.
    pub(super) groups: Vec<Ipv6Addr>,
}

/// An open interface and its properties.
pub(super) struct Opened {
    pub(super) handle: Handle,
    /// The longest frame that the MTU allows, bytes.
    pub(super) longest_bytes: u32,
    /// Socket that holds the multicast memberships.
    pub(super) membership: Option<OwnedFd>,
    pub(super) groups: Vec<Ipv6Addr>,
}

/// An open interface that can move to another thread.
pub(super) enum Handle {
    Xdp(Box<Shared>),
    Packet(Box<PacketDevice>),
}

impl Handle {
    pub(super) fn device(self) -> Box<dyn Device> {
        match self {
            Self::Xdp(shared) => Box::new(XdpDevice::new(*shared)),
            Self::Packet(device) => device,
        }
    }

    /// Returns the name of the I/O mode.
    pub(super) fn mode(&self) -> &'static str {
        match self {
            Self::Xdp(shared) => shared.mode(),
            Self::Packet(_) => "AF_PACKET",
        }
    }

    /// Returns the number of receive queues read.
    pub(super) fn queues(&self) -> usize {
        match self {
            Self::Xdp(shared) => shared.queues(),
            Self::Packet(_) => 1,
        }
    }
}

impl OpenSpec {
    /// Opens the interface.
    pub(super) fn open(&self) -> Result<Opened, String> {
        let mtu = fs::read_to_string(format!("/sys/class/net/{}/mtu", self.interface));
        let mtu = mtu.ok().and_then(|text| text.trim().parse::<u32>().ok());
        let handle = match &self.redirect {
            None => {
                let index = self.index().ok();
                Handle::Packet(Box::new(PacketDevice::open(&self.interface, index, mtu)?))
            }
            Some(redirect) => {
                let index = self.index().map_err(|error| error.to_string())?;
                let queues = receive_queues(&self.interface);
                Handle::Xdp(Box::new(Shared::open(redirect, index, queues)?))
            }
        };
        let longest_bytes = mtu.map_or(u32::MAX, |mtu| mtu.saturating_add(ETHERNET_BYTES));
        let (membership, groups) = (self.join(), self.groups.clone());
        Ok(Opened { handle, longest_bytes, membership, groups })
    }

    fn index(&self) -> io::Result<u32> {
        Ok(if_nametoindex(self.interface.as_str())?)
    }

    /// Joins the groups on an unbound socket, so that the interface accepts their frames and
    /// snooping switches send them (MLD).
    pub(super) fn join(&self) -> Option<OwnedFd> {
        if self.groups.is_empty() {
            return None;
        }
        let join = || -> io::Result<OwnedFd> {
            let index = self.index()?;
            let membership = socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
            for group in &self.groups {
                sockopt::set_ipv6_add_membership(&membership, group, index)?;
            }
            Ok(membership)
        };
        join()
            .inspect_err(|error| {
                log::warn!(
                    interface = self.interface;
                    "cannot join multicast groups, so solicitations may be lost: {error}"
                );
            })
            .ok()
    }
}

/// Returns the number of receive queues that sysfs lists.
fn receive_queues(interface: &str) -> u32 {
    let queues = fs::read_dir(format!("/sys/class/net/{interface}/queues"));
    let names = queues.into_iter().flatten().flatten().map(|queue| queue.file_name());
    let queues = names.filter(|name| name.to_string_lossy().starts_with("rx-")).count();
    u32::try_from(queues).unwrap_or(u32::MAX)
}

/// Resources to close, and how to reopen the interface.
type ReopenRequest = (Box<dyn Send>, OpenSpec);

/// Handle of the reopening thread, which ends when this is dropped.
pub(super) struct Opener {
    away: Sender<ReopenRequest>,
    back: Receiver<Opened>,
}

impl Opener {
    pub(super) fn start() -> io::Result<Self> {
        let (away, requests) = channel();
        let (reopened, back) = channel();
        thread::Builder::new().spawn(move || serve(&requests, &reopened))?;
        Ok(Self { away, back })
    }

    /// Hands over `left`, to be closed, and `spec`, to be opened.
    pub(super) fn reopen(&self, left: Box<dyn Send>, spec: OpenSpec) {
        // The thread outlives the sender only if it panicked.
        let _ = self.away.send((left, spec));
    }

    /// Returns the reopened interface, once.
    pub(super) fn opened(&self) -> Option<Opened> {
        self.back.try_recv().ok()
    }
}

fn serve(requests: &Receiver<ReopenRequest>, reopened: &Sender<Opened>) {
    while let Ok((left, spec)) = requests.recv() {
        drop(left);
        loop {
            match spec.open() {
                Ok(opened) => match reopened.send(opened) {
                    Ok(()) => break,
                    Err(_) => return,
                },
                Err(error) => {
                    log::debug!(
                        interface = spec.interface;
                        "the interface cannot be reopened yet: {error}"
                    );
                }
            }
            if let Err(RecvTimeoutError::Disconnected) = requests.recv_timeout(RETRY) {
                return;
            }
        }
    }
}
