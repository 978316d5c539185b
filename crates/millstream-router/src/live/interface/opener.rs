//! Opening an interface, again and again if it is away.
//!
//! By AF_XDP the kernel may be at closing and opening for long, as both wait for whatever else changes interfaces. So
//! the thread that forwards does neither.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tappers::Interface;

use crate::live::interface::Device;
use crate::live::interface::packet::PacketDevice;
use crate::live::interface::redirect::Redirect;
use crate::live::interface::xdp::{Shared, XdpDevice};

/// How often an interface that is away is tried.
const RETRY: Duration = Duration::from_millis(100);

/// What is opened, and how.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) interface: String,
    /// The program for AF_XDP, if that is used.
    pub(super) redirect: Option<Arc<Redirect>>,
}

/// An interface, open, for whichever thread will use it.
pub(super) enum Opened {
    Xdp(Box<Shared>),
    Packet(PacketDevice),
}

impl Opened {
    pub(super) fn device(self) -> Box<dyn Device> {
        match self {
            Self::Xdp(shared) => Box::new(XdpDevice::new(*shared)),
            Self::Packet(device) => Box::new(device),
        }
    }

    /// How the kernel hands packets over.
    pub(super) fn mode(&self) -> &'static str {
        match self {
            Self::Xdp(shared) => shared.mode(),
            Self::Packet(_) => "AF_PACKET",
        }
    }
}

impl Way {
    /// Opens it now.
    pub(super) fn open(&self) -> Result<Opened, String> {
        let Some(redirect) = &self.redirect else {
            return PacketDevice::open(&self.interface).map(Opened::Packet);
        };
        let index = Interface::new(&self.interface).and_then(|interface| interface.index());
        let index = index.map_err(|error| error.to_string())?;
        Shared::open(redirect, index).map(|shared| Opened::Xdp(Box::new(shared)))
    }
}

/// A thread that closes what is away and opens it again. It ends with this.
pub(super) struct Opener {
    away: Sender<Box<dyn Send>>,
    back: Receiver<Opened>,
}

impl Opener {
    pub(super) fn start(way: Way) -> io::Result<Self> {
        let (away, gone) = channel();
        let (found, back) = channel();
        thread::Builder::new().spawn(move || serve(&way, &gone, &found))?;
        Ok(Self { away, back })
    }

    /// The interface is away; `left` is to be closed.
    pub(super) fn again(&self, left: Box<dyn Send>) {
        // The thread ends with this only.
        let _ = self.away.send(left);
    }

    /// The interface, if it is open again.
    pub(super) fn opened(&self) -> Option<Opened> {
        self.back.try_recv().ok()
    }
}

fn serve(way: &Way, gone: &Receiver<Box<dyn Send>>, found: &Sender<Opened>) {
    while let Ok(left) = gone.recv() {
        drop(left);
        loop {
            match way.open() {
                Ok(opened) => match found.send(opened) {
                    Ok(()) => break,
                    Err(_) => return,
                },
                Err(error) => {
                    log::debug!(interface = way.interface; "the interface is not back: {error}");
                }
            }
            if let Err(RecvTimeoutError::Disconnected) = gone.recv_timeout(RETRY) {
                return;
            }
        }
    }
}
