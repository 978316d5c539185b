//! A TAP device that the router makes: frames that the kernel sends on it come in here.
//!
//! The kernel leaves checksums and cutting to the router, and takes segments that were [joined](crate::live::offload): a
//! system call is for up to 64 KiB, not for a frame.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::live::offload::{Cutter, Joined, VIRTIO_BYTES, Virtio};
use crate::live::pool::{BUFFER_BYTES, Pool};
use crate::live::port::{Port, PortError};

/// A port on a TAP device.
pub struct TapPort {
    name: String,
    tap: SyncDevice,
    cutter: Cutter,
    joined: Joined,
}

/// What came of reading.
enum Read {
    /// A packet, in a buffer or to be cut.
    Packet(Option<u64>),
    /// Nothing more.
    Nothing,
}

impl TapPort {
    /// Makes the TAP device `device` for the port called `name`, and sets it up.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(name: &str, device: &str) -> Result<Self, PortError> {
        let made = DeviceBuilder::new().name(device).layer(Layer::L2).offload(true).build_sync();
        let made = made.and_then(|tap| tap.set_nonblocking(true).map(|()| tap));
        let tap = made.map_err(|error| PortError::no_device(name, "TAP", device, &error))?;
        Ok(Self {
            name: name.to_owned(),
            tap,
            cutter: Cutter::default(),
            joined: Joined::default(),
        })
    }

    /// Reads a packet: into a buffer what has room there, and the rest to where it is cut.
    fn read(&mut self, pool: &mut Pool) -> Result<Read, Error> {
        let (mut said, mut large) = ([0; VIRTIO_BYTES], None);
        let (tap, room) = (&self.tap, self.cutter.room());
        let mut failed = None;
        let packet = pool.fill(|buffer| {
            let rest = &mut room[BUFFER_BYTES..];
            let mut slices =
                [IoSliceMut::new(&mut said), IoSliceMut::new(buffer), IoSliceMut::new(rest)];
            let read = tap.recv_vectored(&mut slices);
            let length = read.map_err(|error| failed = Some(error)).ok()?;
            let length = length.checked_sub(VIRTIO_BYTES)?;
            let virtio = Virtio::read(said);
            if virtio.size().is_some() || length > BUFFER_BYTES {
                let head = length.min(BUFFER_BYTES);
                room[..head].copy_from_slice(&buffer[..head]);
                large = Some((length, virtio.size().unwrap_or(0)));
                return None;
            }
            virtio.finish(&mut buffer[..length]);
            Some(length)
        });
        match failed {
            Some(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Read::Nothing),
            Some(error) => return Err(error),
            None => {}
        }
        let Some((length, size)) = large else { return Ok(Read::Packet(packet)) };
        let cut = self.cutter.begin(length, size);
        Ok(Read::Packet(if cut { self.cutter.next(pool) } else { None }))
    }

    /// Sends what was joined, or a packet; returns whether the kernel took it.
    fn write(&self, pool: &mut Pool, packets: &[u64]) -> Result<(), Error> {
        if packets.len() > 1 {
            return self
                .joined
                .slices(pool, packets, |slices| self.tap.send_vectored(slices))
                .map(drop);
        }
        let said = Virtio::default().bytes();
        let slices = [IoSlice::new(&said), IoSlice::new(pool.wire(packets[0]))];
        self.tap.send_vectored(&slices).map(drop)
    }

    fn failed(&self, error: &Error) -> PortError {
        PortError::new(&self.name, error.to_string())
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
            let packet = if self.cutter.is_empty() {
                match self.read(pool).map_err(|error| self.failed(&error))? {
                    Read::Packet(packet) => packet,
                    Read::Nothing => break,
                }
            } else {
                self.cutter.next(pool)
            };
            into.extend(packet);
            count += 1;
        }
        Ok(count)
    }

    fn arrivals(&self) -> Option<RawFd> {
        self.cutter.is_empty().then(|| self.tap.as_raw_fd())
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError> {
        let mut taken = 0;
        while taken < packets.len() {
            let together = self.joined.begin(pool, &packets[taken..]);
            let packets = &packets[taken..taken + together];
            match self.write(pool, packets) {
                Ok(()) => packets.iter().for_each(|packet| pool.release(*packet)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken),
                Err(error) => return Err(self.failed(&error)),
            }
            taken += together;
        }
        Ok(taken)
    }
}
