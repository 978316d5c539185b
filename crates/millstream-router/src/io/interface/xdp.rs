//! An interface by AF_XDP: packets come and go by rings that the kernel shares with this process, a batch a
//! system call to send, none to receive.
//!
//! A packet is copied once between the rings' memory and the router's buffers. In native mode the driver
//! hands packets over before the kernel has looked at them, without a copy of its own where it can; otherwise the
//! kernel copies, too. Either way the kernel does not see them: whoever else listens at the interface hears nothing.
//!
//! Each receive queue of the interface has a socket, or its packets would be the kernel's; they are read by turns. All
//! packets leave by the first, in the order they were sent. Source: Documentation/networking/af_xdp.rst of Linux.

mod queue;

use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::io::interface::redirect::{DRIVER_MODE, Redirect, SKB_MODE};
use crate::io::interface::{Device, Transfer};
use crate::net::pool::Pool;
use queue::Queue;

/// How many receive queues an interface has at most: each takes memory.
pub(super) const MAX_QUEUES: u32 = 16;
/// How often an interface by which nothing comes is asked whether it is there.
const PROBE: Duration = Duration::from_millis(100);

/// The kernel frees what was open some time after it was closed: it is asked again after so long, so often.
const BUSY: Duration = Duration::from_millis(20);
const BUSY_TRIES: u32 = 25;

/// Why an interface cannot be opened.
struct Failed {
    /// Somebody else has it, or had it just now.
    busy: bool,
    text: String,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self { busy: error.kind() == io::ErrorKind::ResourceBusy, text: error.to_string() }
    }
}

impl Failed {
    /// The same, of `what`.
    fn of(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }
}

/// A way of using AF_XDP.
struct Mode {
    name: &'static str,
    attach: u32,
    zero_copy: bool,
}

/// Tried in this order.
const MODES: [Mode; 3] = [
    Mode { name: "native, zero-copy", attach: DRIVER_MODE, zero_copy: true },
    Mode { name: "native", attach: DRIVER_MODE, zero_copy: false },
    Mode { name: "generic", attach: SKB_MODE, zero_copy: false },
];

/// What is shared with the kernel for an open interface; any thread may close it.
pub(super) struct Shared {
    link: OwnedFd,
    /// At least one.
    queues: Vec<queue::Shared>,
    mode: &'static str,
}

/// An open interface.
pub(super) struct XdpDevice {
    link: OwnedFd,
    /// At least one; packets leave by the first.
    queues: Vec<Queue>,
    /// Whose turn it is.
    next: usize,
    probed: Instant,
}

impl Shared {
    /// Opens the interface of this index, which has so many receive queues.
    pub(super) fn open(redirect: &Redirect, index: u32, queues: u32) -> Result<Self, String> {
        if queues > MAX_QUEUES {
            return Err(format!(
                "it has {queues} receive queues, {MAX_QUEUES} are read at most: `ethtool -L` changes that"
            ));
        }
        let mut failed = String::new();
        for mode in &MODES {
            match Self::open_when_free(mode, redirect, index, queues) {
                Ok(shared) => {
                    // One that is down can be opened, but does not send.
                    shared.queues[0].kick().map_err(|error| error.to_string())?;
                    return Ok(shared);
                }
                // Not by the next, which is worse for as long as it is open.
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
            sent.map_err(|error| Failed::from(error).of("its table of sockets"))?;
            Ok(queue)
        };
        let queues = (0..queues.max(1)).map(open).collect::<Result<_, Failed>>()?;
        let link = redirect.attach(index, mode.attach);
        let link = link.map_err(|error| Failed::from(error).of("attaching the program"))?;
        Ok(Self { link, queues, mode: mode.name })
    }

    /// How packets are handed over.
    pub(super) fn mode(&self) -> &'static str {
        self.mode
    }

    /// How many receive queues it has.
    pub(super) fn queues(&self) -> usize {
        self.queues.len()
    }
}

impl XdpDevice {
    /// Uses an interface that is open.
    pub(super) fn new(shared: Shared) -> Self {
        let queues = shared.queues.into_iter().map(Queue::new).collect();
        Self { link: shared.link, queues, next: 0, probed: Instant::now() }
    }
}

impl Device for XdpDevice {
    fn receive(&mut self, pool: &mut Pool, most: usize, into: &mut Vec<u64>) -> Transfer {
        let mut count = 0;
        for _ in 0..self.queues.len() {
            count += self.queues[self.next].receive(pool, most - count, into);
            // The next batch begins with another, so that none has to wait for ever.
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

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Transfer {
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
