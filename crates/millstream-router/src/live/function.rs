//! The forwarding function: the IP fast path.

use crate::live::header::{destination, hop};
use crate::live::routes::Routes;

/// The IP fast path: looks the destination up, takes a hop from the packet's time to live, updates
/// its checksum and rewrites its hardware addresses.
///
/// Packets without a route, without hops left or with a wrong checksum are dropped; no ICMP error is
/// sent. Header options are carried along and not looked at.
#[derive(Clone, Debug, Default)]
pub struct Forwarder {
    routes: Routes,
}

impl Forwarder {
    /// The fast path by these routes.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        Self { routes }
    }

    /// Readies `frame` for its next hop; returns the output, or `None` if it is to be dropped.
    #[inline]
    pub fn forward(&mut self, frame: &mut [u8]) -> Option<usize> {
        let next = self.routes.find(destination(frame)?)?;
        hop(frame, next.from, next.to);
        Some(next.output)
    }
}
