//! What smoltcp sends by and receives from: buffers of the router's pool, an IP packet in each.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::net::header::ETHERNET;
use crate::net::pool::Pool;

/// The mss packet of a proxy's own, bytes: Ethernet's.
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
pub(super) struct RxDevice<'a> {
    pub(super) packet: Option<&'a [u8]>,
    pub(super) answer: &'a mut Vec<u8>,
}

/// What is read of it.
pub(super) struct RxFrame<'a>(&'a [u8]);

/// Where the answer goes.
pub(super) struct ReplyToken<'a>(&'a mut Vec<u8>);

impl Device for RxDevice<'_> {
    type RxToken<'a>
        = RxFrame<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = ReplyToken<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(RxFrame<'_>, ReplyToken<'_>)> {
        Some((RxFrame(self.packet.take()?), ReplyToken(self.answer)))
    }

    fn transmit(&mut self, _: Instant) -> Option<ReplyToken<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

impl RxToken for RxFrame<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for ReplyToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        self.0.clear();
        self.0.resize(length, 0);
        write(self.0)
    }
}

/// Packets that go out: as many as there is room for.
pub(super) struct TxDevice<'a> {
    pub(super) pool: &'a mut Pool,
    /// Handles of their frames, hardware addresses to be filled in.
    pub(super) made: &'a mut Vec<u64>,
    /// How many there may be in all.
    pub(super) most: usize,
}

impl TxDevice<'_> {
    /// A frame around the IP packet of `length` bytes that `write` writes; `write` itself if there is no room.
    pub(super) fn put<R, F: FnOnce(&mut [u8]) -> R>(
        &mut self,
        length: usize,
        write: F,
    ) -> Result<R, F> {
        let fits = self.made.len() < self.most;
        let Some(packet) = fits.then(|| self.pool.allocate(ETHERNET + length)).flatten() else {
            return Err(write);
        };
        let (ethernet, ip) = self.pool.frame_mut(packet).split_at_mut(ETHERNET);
        let result = write(ip);
        ethernet.fill(0);
        let is_v6 = ip.first().is_some_and(|byte| byte >> 4 == 6);
        ethernet[12..].copy_from_slice(if is_v6 { &[0x86, 0xdd] } else { &[8, 0] });
        self.made.push(Pool::mark_processed(packet));
        Ok(result)
    }
}

/// TxSlot for a packet.
pub(super) struct TxSlot<'a, 'b>(&'a mut TxDevice<'b>);

impl<'b> Device for TxDevice<'b> {
    type RxToken<'a>
        = RxFrame<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = TxSlot<'a, 'b>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(RxFrame<'_>, TxSlot<'_, 'b>)> {
        None
    }

    fn transmit(&mut self, _: Instant) -> Option<TxSlot<'_, 'b>> {
        let room = self.made.len() < self.most && self.pool.free() > 0;
        room.then_some(TxSlot(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

impl TxToken for TxSlot<'_, '_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        // There was room, and nothing is longer than what the capabilities say; what is lost is sent again.
        self.0.put(length, write).unwrap_or_else(|write| write(&mut vec![0; length]))
    }
}
