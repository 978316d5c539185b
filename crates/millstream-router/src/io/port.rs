//! The [`Port`] trait: batched reception and transmission on a device.

use std::net::Ipv6Addr;
use std::os::fd::RawFd;

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::net::pool::Pool;

/// A network port that moves packets in batches.
pub trait Port {
    /// Receives up to `most` packets without blocking and appends their handles to `into`. Returns
    /// the number of packets taken from the device, including those too long for a buffer.
    ///
    /// # Errors
    /// Fails if the device fails.
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError>;

    /// Transmits packets in order and frees their buffers; returns how many the device accepted.
    ///
    /// # Errors
    /// Fails if the device fails.
    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError>;

    /// Retries accepted packets that remain in the device's transmit ring, as behind a stalled
    /// receiver; returns whether some remain.
    fn retry_pending(&mut self) -> bool {
        false
    }

    /// Returns whether no packet will arrive any more.
    fn ended(&self) -> bool {
        false
    }

    /// Returns the packets waiting on the device since the last [`receive`](Self::receive), if
    /// known.
    fn backlog(&self) -> Option<usize> {
        None
    }

    /// Returns the descriptors to poll for arrivals; empty while the device is away. `None` if the
    /// port cannot be polled, or has packets that are read but not yet received. The descriptors
    /// stay valid while the port is open.
    fn arrivals(&self) -> Option<Vec<RawFd>> {
        None
    }

    /// Returns the packets that the device dropped before reception.
    fn lost(&mut self) -> u64 {
        0
    }

    /// Returns the received packets dropped for an unknown VLAN or several tags.
    fn unknown_vlan(&self) -> u64 {
        0
    }

    /// Returns how often the device went down or disappeared. Meanwhile nothing is received or
    /// accepted.
    fn times_down(&self) -> u64 {
        0
    }

    /// Returns whether the device is down or missing now.
    fn is_down(&self) -> bool {
        false
    }

    /// Returns the longest frame that the port transmits, bytes.
    fn longest_bytes(&self) -> u32 {
        u32::MAX
    }

    /// Joins these IPv6 multicast groups, replacing the previous set.
    fn join(&mut self, groups: &[Ipv6Addr]) {
        let _ = groups;
    }

    /// Starts the threads that the port may need. Call it after dropping privileges: threads
    /// inherit them.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    fn prepare(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Writes out everything transmitted.
    ///
    /// # Errors
    /// Fails if writing fails.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        (**self).receive(pool, most, into)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
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

    fn unknown_vlan(&self) -> u64 {
        (**self).unknown_vlan()
    }

    fn times_down(&self) -> u64 {
        (**self).times_down()
    }

    fn is_down(&self) -> bool {
        (**self).is_down()
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
