//! The ingress links that packets pass after their reception, before they leave by another port.
//!
//! A received packet carries the number of its port's ingress link, if there is one. The forwarding
//! function sends it to that link, and the packet then carries the number of the output to which it
//! goes afterwards.

use crate::ids::{IdVec, OutputId, PacketHandle, PathId, PortId};
use crate::net::pool::Pool;

/// The number that a packet carries if it passes no ingress link.
const NONE: u32 = u32::MAX;

/// The ingress links of a router.
#[derive(Default)]
pub(super) struct IngressLinks {
    /// The ingress link of each port, if any port has one.
    links: IdVec<PortId, Option<OutputId>>,
}

impl IngressLinks {
    /// Sets the ingress link of each port; empty if none has one.
    pub(super) fn new(links: IdVec<PortId, Option<OutputId>>) -> Self {
        Self { links }
    }

    /// Returns whether an output is an ingress link.
    #[inline]
    pub(super) fn contains(&self, output: OutputId) -> bool {
        self.links.iter().any(|link| *link == Some(output))
    }

    /// Notes that packets were received at `port`; `None`: that the router made them.
    #[inline]
    pub(super) fn received(
        &self,
        pool: &mut Pool,
        port: Option<PortId>,
        packets: &[(PathId, PacketHandle)],
    ) {
        if self.links.is_empty() {
            return;
        }
        let link = port.and_then(|port| self.links.get(port).copied().flatten());
        let number = link.map_or(NONE, number);
        packets.iter().for_each(|(_, packet)| pool.set_output(*packet, number));
    }

    /// Returns the first output of a packet that leaves by `output`: its ingress link, or `output`.
    #[inline]
    pub(super) fn first_output(
        &self,
        pool: &mut Pool,
        packet: PacketHandle,
        output: OutputId,
    ) -> OutputId {
        if self.links.is_empty() {
            return output;
        }
        match pool.output(packet) {
            NONE => output,
            link => {
                pool.set_output(packet, number(output));
                OutputId(link as usize)
            }
        }
    }

    /// Returns the output of a packet that has passed its ingress link.
    #[inline]
    pub(super) fn next_output(pool: &Pool, packet: PacketHandle) -> OutputId {
        OutputId(pool.output(packet) as usize)
    }
}

/// Returns the number that a packet carries for an output.
fn number(output: OutputId) -> u32 {
    u32::try_from(output.0).unwrap_or(NONE)
}
