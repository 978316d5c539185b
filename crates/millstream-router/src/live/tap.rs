//! A TAP device that the router makes: frames that the kernel sends on it come in here.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, RawFd};
use tappers::{Interface, Tap};

use crate::live::pool::Pool;
use crate::live::port::{Port, PortError};

/// A port on a TAP device.
pub struct TapPort {
    name: String,
    tap: Tap,
}

impl TapPort {
    /// Makes the TAP device `device` for the port called `name`, and sets it up.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(name: &str, device: &str) -> Result<Self, PortError> {
        let made = Interface::new(device).and_then(Tap::new_named).and_then(|mut tap| {
            tap.set_nonblocking(true)?;
            tap.set_up()?;
            Ok(tap)
        });
        let tap = made.map_err(|error| {
            let what = PortError::new(name, format!("cannot make TAP device `{device}`: {error}"));
            if error.kind() == ErrorKind::PermissionDenied {
                what.help("run as root, or give the program CAP_NET_ADMIN")
            } else {
                what
            }
        })?;
        Ok(Self { name: name.to_owned(), tap })
    }
}

impl Port for TapPort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<u64>,
    ) -> Result<usize, PortError> {
        let mut count = 0;
        while count < most && pool.free() > 0 {
            let mut failed = None;
            let packet = pool.fill(|buffer| match self.tap.recv(buffer) {
                Ok(length) => Some(length),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            });
            match failed {
                Some(error) if error.kind() == ErrorKind::WouldBlock => break,
                Some(error) => return Err(PortError::new(&self.name, error.to_string())),
                None => {}
            }
            into.extend(packet);
            count += 1;
        }
        Ok(count)
    }

    fn arrivals(&self) -> Option<RawFd> {
        Some(self.tap.as_raw_fd())
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError> {
        for (taken, packet) in packets.iter().enumerate() {
            match self.tap.send(pool.wire(*packet)) {
                Ok(_) => pool.release(*packet),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken),
                Err(error) => return Err(PortError::new(&self.name, error.to_string())),
            }
        }
        Ok(packets.len())
    }
}
