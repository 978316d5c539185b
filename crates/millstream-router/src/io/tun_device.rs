//! A TAP or TUN device created by the router.
//!
//! While the device is down or deleted, the port receives nothing and its packets stay queued.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::error::PortError;

/// The device of a TAP or TUN port.
pub(crate) struct TunDevice {
    name: String,
    pub(crate) device: SyncDevice,
    away: bool,
    times_down: u64,
}

impl TunDevice {
    /// Creates `device` for the port `name` and sets it up. A TAP device (layer 2) uses the virtio
    /// header; a TUN device (layer 3) does not.
    pub(crate) fn open(name: &str, device: &str, layer: Layer) -> Result<Self, PortError> {
        let is_tap = layer == Layer::L2;
        let made = DeviceBuilder::new().name(device).layer(layer).offload(is_tap).build_sync();
        let made = made.and_then(|made| made.set_nonblocking(true).map(|()| made));
        let device = made.map_err(|error| {
            let kind = if is_tap { "TAP" } else { "TUN" };
            let message = format!("cannot create {kind} device `{device}`: {error}");
            let what = PortError::new(name, message);
            match error.raw_os_error() {
                Some(libc::EPERM) => what.help("run as root, or give the program CAP_NET_ADMIN"),
                Some(libc::EACCES) => what.help(
                    "run as root, or let this user open /dev/net/tun, and give the program \
                     CAP_NET_ADMIN",
                ),
                Some(libc::ENOENT) => what.help("/dev/net/tun is missing: run `modprobe tun`"),
                _ => what,
            }
        })?;
        Ok(Self { name: name.to_owned(), device, away: false, times_down: 0 })
    }

    /// Maps the result of a read or write; `None` means that it must be retried later.
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
        // The device is down or deleted.
        if !matches!(error.raw_os_error(), Some(libc::EIO | libc::EBADFD)) {
            return Err(PortError::new(&self.name, error.to_string()));
        }
        if !std::mem::replace(&mut self.away, true) {
            self.times_down += 1;
            log::warn!(port = self.name; "the device is down or deleted: {error}");
        }
        Ok(None)
    }

    /// Returns the descriptors to poll; empty while the device is away.
    pub(crate) fn arrivals(&self) -> Vec<RawFd> {
        if self.away { Vec::new() } else { vec![self.device.as_raw_fd()] }
    }

    /// Returns whether the last read or write found the device down or deleted.
    pub(crate) fn is_down(&self) -> bool {
        self.away
    }

    /// Returns how often the device went down.
    pub(crate) fn times_down(&self) -> u64 {
        self.times_down
    }
}
