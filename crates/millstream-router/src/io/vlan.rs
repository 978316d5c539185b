//! Ports that share a device: one per VLAN, and one for untagged frames.
//!
//! ```text
//!            ┌ port "office", VLAN 10: tag 10 out, in
//!   device ──┼ port "phones", VLAN 20
//!            └ port "lan": frames without a VLAN
//! ```
//!
//! A port that reads takes whatever the device has and queues packets of other ports, at most
//! [`MAX_WAITING`] each. Frames of unknown VLANs and frames with several tags are dropped and
//! counted.
//!
//! Source: IEEE 802.1Q-2022, sections 6.9 and 9.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::os::fd::RawFd;
use std::rc::Rc;

use millstream_scenario::{PcpSource, RouterPort, RouterScenario};

use crate::error::PortError;
use crate::ids::PacketHandle;
use crate::io::port::Port;
use crate::net::header::Header;
use crate::net::pool::Pool;
use crate::net::vlan_tag::is_stacked;

/// Packets queued per port, at most.
const MAX_WAITING: usize = 256;
/// VLAN identifiers; 0 means untagged.
const VLANS: usize = 1 << 12;
/// Marks a VLAN without a port.
const NO_PORT: u16 = u16::MAX;

/// Distributes the packets of a device to its ports by VLAN.
struct VlanDemux<P> {
    device: P,
    members: Vec<Member>,
    /// Port by VLAN identifier.
    owners: Vec<u16>,
}

/// State of one port.
#[derive(Default)]
struct Member {
    waiting: VecDeque<PacketHandle>,
    /// Packets dropped because `waiting` was full.
    lost: u64,
    /// Packets of no port that this port read.
    unknown_vlan: u64,
    groups: Vec<Ipv6Addr>,
}

impl<P> VlanDemux<P> {
    /// Returns the port of a packet, or [`NO_PORT`].
    #[inline]
    fn owner(&self, pool: &Pool, packet: PacketHandle) -> u16 {
        let vlan = Pool::tag(packet).and_then(|tag| tag.vlan());
        match vlan {
            None if is_stacked(pool.frame(packet)) => NO_PORT,
            vlan => self.owners[usize::from(vlan.unwrap_or(0)) % VLANS],
        }
    }

    /// Keeps the packets of port `at` among `packets[first..]`; queues or drops the others.
    fn demultiplex(
        &mut self,
        pool: &mut Pool,
        at: usize,
        packets: &mut Vec<PacketHandle>,
        first: usize,
    ) {
        let mut kept = first;
        for read in first..packets.len() {
            let packet = packets[read];
            let owner = usize::from(self.owner(pool, packet));
            if owner == at {
                packets[kept] = packet;
                kept += 1;
                continue;
            }
            match self.members.get_mut(owner) {
                Some(member) if member.waiting.len() < MAX_WAITING => {
                    member.waiting.push_back(packet)
                }
                other => {
                    match other {
                        Some(member) => member.lost += 1,
                        None => self.members[at].unknown_vlan += 1,
                    }
                    pool.release(packet);
                }
            }
        }
        packets.truncate(kept);
    }
}

/// A port on one VLAN of a shared device, or on its untagged frames.
pub struct VlanPort<P> {
    demux: Rc<RefCell<VlanDemux<P>>>,
    at: usize,
    vlan: Option<u16>,
    pcp: PcpSource,
    /// Scratch space: packets with their outgoing tags.
    leaving: Vec<PacketHandle>,
}

impl<P: Port> VlanPort<P> {
    /// Splits `device` into ports. Each has a VLAN from 1 to 4094, or `None` for untagged frames,
    /// and a source for the priority of its outgoing frames. If a VLAN repeats, the first port has
    /// its frames.
    #[must_use]
    pub fn share(device: P, vlans: &[(Option<u16>, PcpSource)]) -> Vec<Self> {
        let mut owners = vec![NO_PORT; VLANS];
        for (at, (vlan, _)) in vlans.iter().enumerate().rev() {
            owners[usize::from(vlan.unwrap_or(0)) % VLANS] = u16::try_from(at).unwrap_or(NO_PORT);
        }
        let members = vlans.iter().map(|_| Member::default()).collect();
        let demux = Rc::new(RefCell::new(VlanDemux { device, members, owners }));
        let port = |(at, (vlan, pcp)): (usize, &(Option<u16>, PcpSource))| Self {
            demux: Rc::clone(&demux),
            at,
            vlan: *vlan,
            pcp: *pcp,
            leaving: Vec::new(),
        };
        vlans.iter().enumerate().map(port).collect()
    }

    /// Returns the packet with the port's VLAN tag, or without a tag.
    #[inline]
    fn retag(&self, pool: &Pool, packet: PacketHandle) -> PacketHandle {
        let tag = self.vlan.map(|vlan| {
            let tag = Pool::tag(packet).unwrap_or_default().with_vlan(vlan);
            match self.pcp {
                PcpSource::Keep => tag,
                PcpSource::Dscp => tag.with_pcp(dscp_class(pool.frame(packet))),
            }
        });
        Pool::with_tag(packet, tag)
    }
}

/// Opens the ports of `scenario`; `open` opens each device once, for the first of its ports.
pub(crate) fn open_ports(
    scenario: &RouterScenario,
    open: impl Fn(&RouterPort) -> Result<Box<dyn Port>, PortError>,
) -> Result<Vec<Box<dyn Port>>, PortError> {
    let mut ports: Vec<Option<Box<dyn Port>>> = scenario.ports.iter().map(|_| None).collect();
    for (first, port) in scenario.ports.iter().enumerate() {
        if ports[first].is_some() {
            continue;
        }
        let device = open(port)?;
        let all = scenario.ports.iter().enumerate();
        let (places, vlans): (Vec<_>, Vec<_>) = all
            .filter(|(_, other)| other.kind == port.kind)
            .map(|(at, other)| (at, (other.vlan, other.pcp)))
            .unzip();
        for (at, port) in places.into_iter().zip(VlanPort::share(device, &vlans)) {
            ports[at] = Some(Box::new(port));
        }
    }
    Ok(ports.into_iter().flatten().collect())
}

/// Returns the class selector (the top three bits of the DSCP, RFC 2474, section 4.2.2); 0 without
/// IP.
fn dscp_class(frame: &[u8]) -> u8 {
    let of_v4 = Header::parse(frame).map(|header| header.dscp);
    of_v4.or_else(|| Header::parse_v6(frame).map(|header| header.dscp)).unwrap_or(0) >> 3
}

impl<P: Port> Port for VlanPort<P> {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let demux = &mut *self.demux.borrow_mut();
        let waiting = &mut demux.members[self.at].waiting;
        let taken = waiting.len().min(most);
        into.extend(waiting.drain(..taken));
        if taken == most {
            return Ok(taken);
        }
        let (first, unknown_vlan) = (into.len(), demux.members[self.at].unknown_vlan);
        let received = demux.device.receive(pool, most - taken, into);
        let arrived = into.len() - first;
        demux.demultiplex(pool, self.at, into, first);
        let unknown_vlan =
            usize::try_from(demux.members[self.at].unknown_vlan - unknown_vlan).unwrap_or(0);
        // Packets too long for a buffer count for the port that read them.
        let unsupported = received?.saturating_sub(arrived);
        Ok(taken + into.len() - first + unknown_vlan + unsupported)
    }

    fn arrivals(&self) -> Option<Vec<RawFd>> {
        let demux = self.demux.borrow();
        let taken = demux.members.iter().any(|member| !member.waiting.is_empty());
        if taken { None } else { demux.device.arrivals() }
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.extend(packets.iter().map(|packet| self.retag(pool, *packet)));
        let taken = self.demux.borrow_mut().device.transmit(pool, &leaving);
        leaving.clear();
        self.leaving = leaving;
        taken
    }

    fn retry_pending(&mut self) -> bool {
        self.demux.borrow_mut().device.retry_pending()
    }

    fn ended(&self) -> bool {
        let demux = self.demux.borrow();
        demux.device.ended() && demux.members[self.at].waiting.is_empty()
    }

    fn backlog(&self) -> Option<usize> {
        let demux = self.demux.borrow();
        Some(demux.members[self.at].waiting.len() + demux.device.backlog()?)
    }

    /// Returns this port's drops; the first port of a device adds the device's own.
    fn lost(&mut self) -> u64 {
        let demux = &mut *self.demux.borrow_mut();
        let of_device = if self.at == 0 { demux.device.lost() } else { 0 };
        of_device + demux.members[self.at].lost
    }

    fn unknown_vlan(&self) -> u64 {
        self.demux.borrow().members[self.at].unknown_vlan
    }

    fn times_down(&self) -> u64 {
        self.demux.borrow().device.times_down()
    }

    fn is_down(&self) -> bool {
        self.demux.borrow().device.is_down()
    }

    fn longest_bytes(&self) -> u32 {
        self.demux.borrow().device.longest_bytes()
    }

    fn join(&mut self, groups: &[Ipv6Addr]) {
        let demux = &mut *self.demux.borrow_mut();
        demux.members[self.at].groups = groups.to_vec();
        let members = demux.members.iter().flat_map(|member| &member.groups);
        let mut all: Vec<_> = members.copied().collect();
        all.sort_unstable();
        all.dedup();
        demux.device.join(&all);
    }

    fn prepare(&mut self) -> Result<(), PortError> {
        self.demux.borrow_mut().device.prepare()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.demux.borrow_mut().device.flush()
    }
}
