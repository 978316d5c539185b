//! A TAP or TUN device that the router makes.
//!
//! One that is set down, or deleted, is survived: nothing comes in, and packets for it wait.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::error::PortError;

/// The device of a port.
pub(crate) struct TunDevice {
    name: String,
    pub(crate) device: SyncDevice,
    away: bool,
    went_away: u64,
}

impl TunDevice {
    /// Makes `device` for the port called `name`, and sets it up: TAP of layer 2, which takes and gives what is known of a
    /// packet before it, or TUN of layer 3, which does not.
    pub(crate) fn open(name: &str, device: &str, layer: Layer) -> Result<Self, PortError> {
        let is_tap = layer == Layer::L2;
        let made = DeviceBuilder::new().name(device).layer(layer).offload(is_tap).build_sync();
        let made = made.and_then(|made| made.set_nonblocking(true).map(|()| made));
        let device = made.map_err(|error| {
            let kind = if is_tap { "TAP" } else { "TUN" };
            let message = format!("cannot make {kind} device `{device}`: {error}");
            let what = PortError::new(name, message);
            match error.raw_os_error() {
                Some(libc::EPERM) => what.help("run as root, or give the program CAP_NET_ADMIN"),
                Some(libc::EACCES) => what.help(
                    "run as root, or let this user open /dev/net/tun, and give the program CAP_NET_ADMIN",
                ),
                Some(libc::ENOENT) => what.help("there is no /dev/net/tun: `modprobe tun`"),
                _ => what,
            }
        })?;
        Ok(Self { name: name.to_owned(), device, away: false, went_away: 0 })
    }

    /// What came of reading or writing; `None` if it is to be tried again later.
    #[inline]
    pub(crate) fn check(
        &mut self,
        result: Result<usize, Error>,
    ) -> Result<Option<usize>, PortError> {
        match result {
            Ok(length) => {
                self.away = false;
                Ok(Some(length))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => self.failed(&error),
        }
    }

    #[cold]
    fn failed(&mut self, error: &Error) -> Result<Option<usize>, PortError> {
        // Down, or deleted.
        if !matches!(error.raw_os_error(), Some(libc::EIO | libc::EBADFD)) {
            return Err(PortError::new(&self.name, error.to_string()));
        }
        if !std::mem::replace(&mut self.away, true) {
            self.went_away += 1;
            log::warn!(port = self.name; "the device is down or deleted: {error}");
        }
        Ok(None)
    }

    /// What becomes readable when packets have come; nothing while it is away.
    pub(crate) fn arrivals(&self) -> Vec<RawFd> {
        if self.away { Vec::new() } else { vec![self.device.as_raw_fd()] }
    }

    /// Whether it is down or deleted, as far as it was tried.
    pub(crate) fn is_away(&self) -> bool {
        self.away
    }

    /// How often it went down.
    pub(crate) fn went_away(&self) -> u64 {
        self.went_away
    }
}
