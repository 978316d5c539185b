//! The port behind an ingress link: it has no device.

use std::os::fd::RawFd;

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::net::pool::Pool;

/// A port that receives nothing. It accepts every packet and keeps its buffer: the router passes
/// the packet on to another output.
#[derive(Debug)]
pub(crate) struct IngressPort;

impl Port for IngressPort {
    fn receive(
        &mut self,
        _: &mut Pool,
        _: usize,
        _: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, _: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        Ok(packets.len())
    }

    fn ended(&self) -> bool {
        true
    }

    fn backlog(&self) -> Option<usize> {
        Some(0)
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        Some(Vec::new())
    }
}
