//! A port on a TUN device: receives the IP packets that the kernel sends on the device.
//!
//! The router expects Ethernet. Packets get a header at reception and lose it at transmission.
//! Every peer behind the device has the same hardware address, so the port answers ARP and
//! neighbour solicitations itself.

use etherparse::ArpOperation;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use tun_rs::Layer;

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::io::tun_device::TunDevice;
use crate::net::header::ETHERNET;
use crate::net::ipv4_control::{self, Endpoint};
use crate::net::ndp;
use crate::net::pool::Pool;

/// Hardware address of the router's end, unless the file gives one.
pub(crate) const DEFAULT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Hardware address of every peer.
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Replies that wait to be received, at most.
const MAX_REPLIES: usize = 64;
/// EtherTypes of IPv4 and IPv6.
const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// A port on a TUN device.
pub struct TunPort {
    device: TunDevice,
    /// The port's hardware address.
    mac: [u8; 6],
    /// ARP replies and neighbour advertisements to receive.
    replies: VecDeque<Vec<u8>>,
}

impl TunPort {
    /// Creates the TUN device `device` for the port `name` with the hardware address `mac` and sets
    /// it up.
    ///
    /// # Errors
    /// Fails if the device cannot be created.
    pub fn open(name: &str, device: &str, mac: [u8; 6]) -> Result<Self, PortError> {
        let device = TunDevice::open(name, device, Layer::L3)?;
        Ok(Self { device, mac, replies: VecDeque::new() })
    }
}

/// Returns the Ethernet header of an IP packet; `None` for another kind.
fn ethernet(to: [u8; 6], packet: &[u8]) -> Option<[u8; ETHERNET]> {
    let kind = match packet.first()? >> 4 {
        4 => IPV4,
        6 => IPV6,
        _ => return None,
    };
    let mut header = [0; ETHERNET];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&PEER_MAC);
    header[12..].copy_from_slice(&kind);
    Some(header)
}

/// Returns the reply to an ARP request or a neighbour solicitation in `frame`.
fn resolve(frame: &[u8]) -> Option<Vec<u8>> {
    if let Some(request) = ipv4_control::arp(frame) {
        let us = Endpoint { mac: PEER_MAC, address: request.target_ipv4.into() };
        let them = Endpoint { mac: request.sender_mac, address: request.sender_ipv4.into() };
        return (request.operation == ArpOperation::REQUEST)
            .then(|| ipv4_control::arp_reply(us, them));
    }
    match ndp::message(frame)? {
        ndp::Message::Solicitation { target, from: Some(from), mac: Some(mac) } => {
            let us = Endpoint { mac: PEER_MAC, address: target };
            Some(ndp::advertisement(us, Some(Endpoint { mac, address: from })))
        }
        _ => None,
    }
}

impl Port for TunPort {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let mut count = 0;
        while count < most && pool.free() > 0 {
            if let Some(frame) = self.replies.pop_front() {
                into.extend(pool.copy(&frame));
                count += 1;
                continue;
            }
            let (mut result, device, mac) = (Ok(0), &self.device.device, self.mac);
            let packet = pool.fill(|buffer| {
                result = device.recv(&mut buffer[ETHERNET..]);
                let length = *result.as_ref().ok()?;
                let header = ethernet(mac, &buffer[ETHERNET..ETHERNET + length])?;
                buffer[..ETHERNET].copy_from_slice(&header);
                Some(ETHERNET + length)
            });
            if self.device.check(result)?.is_none() {
                break;
            }
            into.extend(packet);
            count += 1;
        }
        Ok(count)
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        self.replies.is_empty().then(|| self.device.arrivals())
    }

    fn times_down(&self) -> u64 {
        self.device.times_down()
    }

    fn is_down(&self) -> bool {
        self.device.is_down()
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        for (taken, packet) in packets.iter().enumerate() {
            let frame = pool.frame(*packet);
            if let Some(reply) = resolve(frame) {
                if self.replies.len() < MAX_REPLIES {
                    self.replies.push_back(reply);
                }
            } else if [IPV4, IPV6].iter().any(|kind| frame.get(12..ETHERNET) == Some(&kind[..])) {
                let result = self.device.device.send(&frame[ETHERNET..]);
                if self.device.check(result)?.is_none() {
                    return Ok(taken);
                }
            }
            pool.release(*packet);
        }
        Ok(packets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn packets_get_the_header_of_their_kind() {
        let [to, from, kind] = [0..6, 6..12, 12..14];
        for (first, number) in [(0x45, IPV4), (0x60, IPV6)] {
            let header = ethernet(DEFAULT_MAC, &[first, 0]).unwrap();
            assert_eq!(
                (&header[to.clone()], &header[from.clone()]),
                (&DEFAULT_MAC[..], &PEER_MAC[..])
            );
            assert_eq!(header[kind.clone()], number);
        }
        for packet in [&[][..], &[0], &[0x55, 0]] {
            assert_eq!(ethernet(DEFAULT_MAC, packet), None);
        }
    }

    #[test]
    fn every_address_resolves_to_the_peer() {
        let us = Endpoint { mac: DEFAULT_MAC, address: Ipv4Addr::new(10, 1, 0, 1) };
        let target = Ipv4Addr::new(10, 1, 0, 9);
        let reply =
            ipv4_control::arp(&resolve(&ipv4_control::arp_request(us, target)).unwrap()).unwrap();
        assert_eq!(reply.operation, ArpOperation::REPLY);
        assert_eq!((reply.sender_mac, reply.sender_ipv4), (PEER_MAC, target.octets()));
        assert_eq!(reply.target_mac, DEFAULT_MAC);
        let us = Endpoint { mac: DEFAULT_MAC, address: "2001:db8::1".parse::<Ipv6Addr>().unwrap() };
        let target = "2001:db8::9".parse().unwrap();
        let reply = resolve(&ndp::solicitation(us, target)).unwrap();
        let Some(ndp::Message::Advertisement { target: of, mac, solicited: true, .. }) =
            ndp::message(&reply)
        else {
            panic!("{reply:?}");
        };
        assert_eq!((of, mac), (target, Some(PEER_MAC)));
        // Replies cause no reply.
        assert_eq!(resolve(&reply), None);
        let them = Endpoint { mac: PEER_MAC, address: Ipv4Addr::new(10, 1, 0, 9) };
        let ours = Endpoint { mac: DEFAULT_MAC, address: Ipv4Addr::new(10, 1, 0, 1) };
        assert_eq!(resolve(&ipv4_control::arp_reply(them, ours)), None);
        assert_eq!(resolve(&[0; 60]), None);
    }
}
