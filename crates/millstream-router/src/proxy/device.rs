//! smoltcp devices on the router's buffers; each buffer holds one IP packet.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::ids::PacketHandle;
use crate::net::header::ETHERNET;
use crate::net::pool::Pool;

/// MTU of a proxy's own packets, bytes: Ethernet's.
pub(super) const MTU: usize = 1_500;

/// Converts to smoltcp's clock.
pub(super) fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1_000).unwrap_or(i64::MAX))
}

fn capabilities() -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ip;
    capabilities.max_transmission_unit = MTU;
    capabilities
}

/// Receives one packet and keeps the last immediate reply.
pub(super) struct RxDevice<'a> {
    pub(super) packet: Option<&'a [u8]>,
    pub(super) reply: &'a mut Vec<u8>,
}

/// The received packet.
pub(super) struct RxFrame<'a>(&'a [u8]);

/// Writes the reply.
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
        Some((RxFrame(self.packet.take()?), ReplyToken(self.reply)))
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

/// Transmits packets into buffers of the pool.
pub(super) struct TxDevice<'a> {
    pub(super) pool: &'a mut Pool,
    /// Handles of the packets made; the caller fills in hardware addresses.
    pub(super) made: &'a mut Vec<PacketHandle>,
    /// Packets in `made`, at most.
    pub(super) most: usize,
}

impl TxDevice<'_> {
    /// Makes a frame with an IP packet of `length` bytes written by `write`; returns `write` if no
    /// buffer is free.
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

/// Permission to transmit one packet.
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
        // A buffer was free and the length is within the MTU. TCP retransmits a lost packet.
        self.0.put(length, write).unwrap_or_else(|write| write(&mut vec![0; length]))
    }
}
