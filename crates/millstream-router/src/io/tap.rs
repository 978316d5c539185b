//! A port on a TAP device: receives the frames that the kernel sends on the device.
//!
//! The kernel leaves checksums and segmentation to the router and accepts
//! [coalesced](crate::net::segmentation) segments, so one system call moves up to 64 KiB.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use tun_rs::Layer;

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::io::tun_device::TunDevice;
use crate::net::pool::{BUFFER_BYTES, Pool};
use crate::net::segmentation::{Coalescer, Segmenter, VIRTIO_BYTES, Virtio};

/// A port on a TAP device.
pub struct TapPort {
    device: TunDevice,
    segmenter: Segmenter,
    coalescer: Coalescer,
    /// Whether the kernel accepts coalesced packets; cleared by the first refusal.
    coalesces: bool,
}

/// Result of a read.
enum Read {
    /// A packet; `None` if it was dropped or left to the segmenter without a free buffer.
    Packet(Option<PacketHandle>),
    /// No packet is waiting.
    Empty,
}

impl TapPort {
    /// Creates the TAP device `device` for the port `name` and sets it up.
    ///
    /// # Errors
    /// Fails if the device cannot be created.
    pub fn open(name: &str, device: &str) -> Result<Self, PortError> {
        let device = TunDevice::open(name, device, Layer::L2)?;
        Ok(Self {
            device,
            segmenter: Segmenter::default(),
            coalescer: Coalescer::default(),
            coalesces: true,
        })
    }

    /// Reads a packet into a buffer, or into the segmenter if it is too long.
    fn read(&mut self, pool: &mut Pool) -> Result<Read, PortError> {
        let (mut header, mut large) = ([0; VIRTIO_BYTES], None);
        let (device, room) = (&self.device.device, self.segmenter.room());
        let mut result = Ok(0);
        let packet = pool.fill(|buffer| {
            let rest = &mut room[BUFFER_BYTES..];
            let mut slices =
                [IoSliceMut::new(&mut header), IoSliceMut::new(buffer), IoSliceMut::new(rest)];
            result = device.recv_vectored(&mut slices);
            let length = result.as_ref().ok()?.checked_sub(VIRTIO_BYTES)?;
            let virtio = Virtio::read(header);
            if virtio.size().is_some() || length > BUFFER_BYTES {
                let head = length.min(BUFFER_BYTES);
                room[..head].copy_from_slice(&buffer[..head]);
                large = Some((length, virtio.size().unwrap_or(0)));
                return None;
            }
            virtio.finish(&mut buffer[..length]);
            Some(length)
        });
        if self.device.check(result)?.is_none() {
            return Ok(Read::Empty);
        }
        let Some((length, size)) = large else { return Ok(Read::Packet(packet)) };
        let cut = self.segmenter.begin(length, size);
        Ok(Read::Packet(if cut { self.segmenter.next(pool) } else { None }))
    }

    /// Sends one packet or one coalesced batch; returns whether the kernel accepted it.
    fn write(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<bool, PortError> {
        let device = &self.device.device;
        let result = if packets.len() > 1 {
            self.coalescer.slices(pool, packets, |slices| device.send_vectored(slices))
        } else {
            let header = Virtio::default().bytes();
            device.send_vectored(&[IoSlice::new(&header), IoSlice::new(pool.wire(packets[0]))])
        };
        if packets.len() > 1 && matches!(&result, Err(of) if of.kind() == ErrorKind::InvalidInput) {
            self.coalesces = false;
            return Ok(false);
        }
        Ok(self.device.check(result)?.is_some())
    }
}

impl Port for TapPort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let mut count = 0;
        while count < most && pool.free() > 0 {
            let packet = if self.segmenter.is_empty() {
                match self.read(pool)? {
                    Read::Packet(packet) => packet,
                    Read::Empty => break,
                }
            } else {
                self.segmenter.next(pool)
            };
            into.extend(packet);
            count += 1;
        }
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        let mut taken = 0;
        while taken < packets.len() {
            let rest = &packets[taken..];
            let together = if self.coalesces { self.coalescer.begin(pool, rest) } else { 1 };
            if !self.write(pool, &rest[..together])? {
                break;
            }
            rest[..together].iter().for_each(|packet| pool.release(*packet));
            taken += together;
        }
        Ok(taken)
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        self.segmenter.is_empty().then(|| self.device.arrivals())
    }

    fn times_down(&self) -> u64 {
        self.device.times_down()
    }

    fn is_down(&self) -> bool {
        self.device.is_down()
    }
}
