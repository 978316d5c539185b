//! What packets come in and go out by.

use std::net::Ipv6Addr;
use std::os::fd::RawFd;

use crate::error::PortError;
use crate::net::pool::Pool;

/// A port, by batches.
pub trait Port {
    /// Receives up to `most` packets, without waiting; their handles go to `into`. Returns how many
    /// packets were taken from the device, those that did not fit a buffer included.
    ///
    /// # Errors
    /// If the device fails.
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<u64>,
    ) -> Result<usize, PortError>;

    /// Transmits packets in order and releases their buffers; returns how many were taken.
    ///
    /// # Errors
    /// If the device fails.
    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError>;

    /// Retries packets that were taken and are still in the device's transmit ring, as behind a receiver
    /// that stalls; returns whether some remain there.
    fn retry_pending(&mut self) -> bool {
        false
    }

    /// Nothing will come in any more.
    fn ended(&self) -> bool {
        false
    }

    /// Packets that wait on the device since the last [`receive`](Self::receive), where that is known.
    fn backlog(&self) -> Option<usize> {
        None
    }

    /// What becomes readable when packets have come, as long as the port is open; nothing does while it is away. `None` if
    /// there is no such thing, or packets have been taken from it and not been received yet.
    fn arrivals(&self) -> Option<Vec<RawFd>> {
        None
    }

    /// Packets that the device lost before they could be received.
    fn lost(&mut self) -> u64 {
        0
    }

    /// Packets that were received and dropped because they are of no VLAN that a port is, or have several tags.
    fn strays(&self) -> u64 {
        0
    }

    /// How often the device went down or away. While it is, nothing is received and nothing taken.
    fn went_away(&self) -> u64 {
        0
    }

    /// Whether the device is down or away now.
    fn is_away(&self) -> bool {
        false
    }

    /// The longest frame that it transmits, bytes.
    fn longest_bytes(&self) -> u32 {
        u32::MAX
    }

    /// Frames to these groups of IPv6 are to be received, as well as those to the port itself.
    fn join(&mut self, groups: &[Ipv6Addr]) {
        let _ = groups;
    }

    /// Starts the threads that it may need later. To be called when privileges have been given up, as threads have
    /// those of who starts them.
    ///
    /// # Errors
    /// If there can be no thread.
    fn prepare(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Everything transmitted is to be where it belongs.
    ///
    /// # Errors
    /// If it cannot be brought there.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<u64>,
    ) -> Result<usize, PortError> {
        (**self).receive(pool, most, into)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[u64]) -> Result<usize, PortError> {
        (**self).transmit(pool, packets)
    }

    fn retry_pending(&mut self) -> bool {
        (**self).retry_pending()
    }

    fn ended(&self) -> bool {
        (**self).ended()
    }

    fn backlog(&self) -> Option<usize> {
        (**self).backlog()
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        (**self).arrivals()
    }

    fn lost(&mut self) -> u64 {
        (**self).lost()
    }

    fn strays(&self) -> u64 {
        (**self).strays()
    }

    fn went_away(&self) -> u64 {
        (**self).went_away()
    }

    fn is_away(&self) -> bool {
        (**self).is_away()
    }

    fn longest_bytes(&self) -> u32 {
        (**self).longest_bytes()
    }

    fn join(&mut self, groups: &[Ipv6Addr]) {
        (**self).join(groups);
    }

    fn prepare(&mut self) -> Result<(), PortError> {
        (**self).prepare()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        (**self).flush()
    }
}
