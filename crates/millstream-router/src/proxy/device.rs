//! What smoltcp sends by and receives from: buffers of the router's pool, an IP packet in each.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::net::header::ETHERNET;
use crate::net::pool::Pool;

/// The longest packet of a proxy's own, bytes: Ethernet's.
pub(super) const MTU: usize = 1_500;

/// The time as smoltcp counts it.
pub(super) fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1_000).unwrap_or(i64::MAX))
}

fn capabilities() -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ip;
    capabilities.max_transmission_unit = MTU;
    capabilities
}

/// One packet that comes in, and what is answered at once: at most one packet, the last.
pub(super) struct Incoming<'a> {
    pub(super) packet: Option<&'a [u8]>,
    pub(super) answer: &'a mut Vec<u8>,
}

/// What is read of it.
pub(super) struct Read<'a>(&'a [u8]);

/// Where the answer goes.
pub(super) struct Answer<'a>(&'a mut Vec<u8>);

impl Device for Incoming<'_> {
    type RxToken<'a>
        = Read<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Answer<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Read<'_>, Answer<'_>)> {
        Some((Read(self.packet.take()?), Answer(self.answer)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Answer<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

impl RxToken for Read<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for Answer<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        self.0.clear();
        self.0.resize(length, 0);
        write(self.0)
    }
}

/// Packets that go out: as many as there is room for.
pub(super) struct Outgoing<'a> {
    pub(super) pool: &'a mut Pool,
    /// Handles of their frames, hardware addresses to be filled in.
    pub(super) made: &'a mut Vec<u64>,
    /// How many there may be in all.
    pub(super) most: usize,
}

impl Outgoing<'_> {
    /// A frame around the IP packet of `length` bytes that `write` writes; `write` itself if there is no room.
    pub(super) fn put<R, F: FnOnce(&mut [u8]) -> R>(
        &mut self,
        length: usize,
        write: F,
    ) -> Result<R, F> {
        let fits = self.made.len() < self.most;
        let Some(packet) = fits.then(|| self.pool.blank(ETHERNET + length)).flatten() else {
            return Err(write);
        };
        let (ethernet, ip) = self.pool.frame_mut(packet).split_at_mut(ETHERNET);
        let result = write(ip);
        ethernet.fill(0);
        let is_v6 = ip.first().is_some_and(|byte| byte >> 4 == 6);
        ethernet[12..].copy_from_slice(if is_v6 { &[0x86, 0xdd] } else { &[8, 0] });
        self.made.push(Pool::mark_seen(packet));
        Ok(result)
    }
}

/// Room for a packet.
pub(super) struct Room<'a, 'b>(&'a mut Outgoing<'b>);

impl<'b> Device for Outgoing<'b> {
    type RxToken<'a>
        = Read<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Room<'a, 'b>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Read<'_>, Room<'_, 'b>)> {
        None
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_, 'b>> {
        let room = self.made.len() < self.most && self.pool.free() > 0;
        room.then_some(Room(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

impl TxToken for Room<'_, '_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        // There was room, and nothing is longer than what the capabilities say; what is lost is sent again.
        self.0.put(length, write).unwrap_or_else(|write| write(&mut vec![0; length]))
    }
}
