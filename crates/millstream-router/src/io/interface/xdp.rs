//! An interface by AF_XDP: rings shared with the kernel, one system call per transmitted batch,
//! none to receive.
//!
//! A packet is copied once between the rings' memory and the router's buffers. In native mode the
//! driver redirects packets before the kernel's stack, with zero copy where it can. In generic mode
//! the kernel copies each packet. In both modes the kernel's stack and its sockets do not see the
//! packets.
//!
//! Each receive queue has a socket, because the kernel would get its packets otherwise. Sockets are
//! read round-robin. All packets leave by the first one, in order.
//!
//! Source: Documentation/networking/af_xdp.rst of Linux.

mod queue;

use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::ids::PacketHandle;
use crate::io::interface::redirect::{DRIVER_MODE, Redirect, SKB_MODE};
use crate::io::interface::{Device, Transfer};
use crate::net::pool::Pool;
use queue::Queue;

/// Receive queues per interface, at most: each takes memory.
pub(super) const MAX_QUEUES: u32 = 16;
/// Interval between checks that an idle interface still exists.
const PROBE: Duration = Duration::from_millis(100);

/// Interval and number of retries while the kernel still releases earlier sockets.
const BUSY: Duration = Duration::from_millis(20);
const BUSY_TRIES: u32 = 25;

/// Why an interface cannot be opened.
struct Failed {
    /// Whether another process has the interface, or had it until now.
    busy: bool,
    text: String,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self { busy: error.kind() == io::ErrorKind::ResourceBusy, text: error.to_string() }
    }
}

impl Failed {
    /// Prefixes the message by `what`.
    fn of(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }
}

/// A mode of AF_XDP.
struct Mode {
    name: &'static str,
    attach: u32,
    zero_copy: bool,
}

/// The modes, in order of preference.
const MODES: [Mode; 3] = [
    Mode { name: "native, zero-copy", attach: DRIVER_MODE, zero_copy: true },
    Mode { name: "native", attach: DRIVER_MODE, zero_copy: false },
    Mode { name: "generic", attach: SKB_MODE, zero_copy: false },
];

/// The kernel resources of an open interface; any thread may drop them.
pub(super) struct Shared {
    link: OwnedFd,
    /// The shared parts of the queues; at least one.
    queues: Vec<queue::Shared>,
    mode: &'static str,
}

/// An open interface.
pub(super) struct XdpDevice {
    link: OwnedFd,
    /// The queues, at least one; packets leave by the first.
    queues: Vec<Queue>,
    /// The queue to read next.
    next: usize,
    probed: Instant,
}

impl Shared {
    /// Opens the interface with this index and number of receive queues.
    pub(super) fn open(redirect: &Redirect, index: u32, queues: u32) -> Result<Self, String> {
        if queues > MAX_QUEUES {
            return Err(format!(
                "it has {queues} receive queues; at most {MAX_QUEUES} are supported: see `ethtool \
                 -L`"
            ));
        }
        let mut failed = String::new();
        for mode in &MODES {
            match Self::open_when_free(mode, redirect, index, queues) {
                Ok(shared) => {
                    // A socket on an interface that is down opens but cannot send.
                    shared.queues[0].kick().map_err(|error| error.to_string())?;
                    return Ok(shared);
                }
                // A slower mode would stay for as long as the interface is open.
                Err(Failed { busy: true, text }) => return Err(text),
                Err(Failed { busy: false, text }) => failed = text,
            }
        }
        Err(failed)
    }

    fn open_when_free(
        mode: &Mode,
        redirect: &Redirect,
        index: u32,
        queues: u32,
    ) -> Result<Self, Failed> {
        for _ in 0..BUSY_TRIES {
            match Self::open_by(mode, redirect, index, queues) {
                Err(Failed { busy: true, .. }) => thread::sleep(BUSY),
                opened => return opened,
            }
        }
        Self::open_by(mode, redirect, index, queues)
    }

    fn open_by(mode: &Mode, redirect: &Redirect, index: u32, queues: u32) -> Result<Self, Failed> {
        let open = |number| {
            let queue = queue::Shared::open(index, number, mode.zero_copy)?;
            let sent = redirect.send_to(number, queue.socket());
            sent.map_err(|error| Failed::from(error).of("adding the socket to the XDP map"))?;
            Ok(queue)
        };
        let queues = (0..queues.max(1)).map(open).collect::<Result<_, Failed>>()?;
        let link = redirect.attach(index, mode.attach);
        let link = link.map_err(|error| Failed::from(error).of("attaching the XDP program"))?;
        Ok(Self { link, queues, mode: mode.name })
    }

    /// Returns the name of the mode.
    pub(super) fn mode(&self) -> &'static str {
        self.mode
    }

    /// Returns the number of receive queues.
    pub(super) fn queues(&self) -> usize {
        self.queues.len()
    }
}

impl XdpDevice {
    /// Uses the resources of an open interface.
    pub(super) fn new(shared: Shared) -> Self {
        let queues = shared.queues.into_iter().map(Queue::new).collect();
        Self { link: shared.link, queues, next: 0, probed: Instant::now() }
    }
}

impl Device for XdpDevice {
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<PacketHandle>) -> Transfer {
        let mut count = 0;
        for _ in 0..self.queues.len() {
            count += self.queues[self.next].receive(pool, most - count, into);
            // The next batch starts at another queue, so that no queue starves.
            self.next = if self.next + 1 < self.queues.len() { self.next + 1 } else { 0 };
            if count == most {
                break;
            }
        }
        let probe = count == 0 && self.probed.elapsed() >= PROBE;
        if probe || self.queues[0].has_unsent() {
            self.probed = Instant::now();
            if let Err(error) = self.queues[0].kick() {
                return (count, Some(error.to_string()));
            }
        }
        (count, None)
    }

    fn backlog(&self) -> Option<usize> {
        Some(self.queues.iter().map(Queue::waiting).sum())
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Transfer {
        self.queues[0].transmit(pool, packets)
    }

    fn retry_pending(&mut self) -> bool {
        self.queues[0].retry_pending()
    }

    fn lost(&mut self) -> u64 {
        self.queues.iter().map(Queue::lost).sum()
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        Some(self.queues.iter().map(Queue::arrivals).collect())
    }

    fn close(self: Box<Self>) -> Box<dyn Send> {
        let queues: Vec<_> = self.queues.into_iter().map(Queue::into_shared).collect();
        Box::new((self.link, queues))
    }

    fn flush(&mut self) {
        self.queues[0].flush();
    }
}
