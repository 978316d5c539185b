//! Packets of proxies: the path of received packets, and the routes of packets that proxies make.

use std::net::IpAddr;

use super::local_services::LocalDestination;
use super::{LiveMachine, PortState};
use crate::io::port::Port;
use crate::net::forwarder::{ForwardError, Forwarder};
use crate::net::header::{Header, is_v6};
use crate::proxy::{SourceAddresses, TCP, Tuple};
use crate::router::machine::Verdict;

/// Chooses the router's address for a connection by the route to its destination.
struct ConnectionContext<'a, P> {
    function: &'a mut Forwarder,
    port_states: &'a [PortState<P>],
}

impl<P> SourceAddresses for ConnectionContext<'_, P> {
    fn own_address(&mut self, destination: IpAddr) -> Option<IpAddr> {
        let state = self.port_states.get(self.function.egress(destination)?)?;
        match destination {
            IpAddr::V4(_) => state.address.map(|net| net.addr().into()),
            IpAddr::V6(to) => {
                let far =
                    state.addresses_v6.iter().filter(|net| !net.addr().is_unicast_link_local());
                let beside = far.clone().find(|net| net.contains(&to));
                beside.or_else(|| far.clone().next()).map(|net| net.addr().into())
            }
        }
    }
}

impl<P: Port> LiveMachine<P> {
    /// Returns the path of a packet of a proxied connection, or to a local address that a proxy
    /// serves.
    pub(super) fn proxied<A: Into<IpAddr> + Copy>(
        &self,
        header: &Header<A>,
        to: Option<LocalDestination>,
        path: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        let (from, into) = header.ports.filter(|_| header.protocol == TCP)?;
        let tuple = Tuple {
            source: (header.source.into(), from).into(),
            destination: (header.destination.into(), into).into(),
        };
        let known = self.proxies.path(&tuple);
        known.or_else(|| {
            let ours = (to == Some(LocalDestination::Router)).then(path).flatten();
            ours.filter(|path| self.proxies.is_host(*path))
        })
    }

    /// Appends the segments that the proxy of `path` sends.
    #[cold]
    pub(super) fn make_proxied(
        &mut self,
        path: usize,
        most: usize,
        into: &mut Vec<(Verdict, u64)>,
    ) {
        let mut made = std::mem::take(&mut self.made);
        let mut context =
            ConnectionContext { function: &mut self.function, port_states: &self.port_states };
        let room = (&mut self.pool, most);
        self.proxies.make(path, room, &mut context, self.now_ns, &mut made);
        for packet in made.drain(..) {
            into.push((self.send_made(path, packet), packet));
        }
        self.made = made;
    }

    /// Routes a packet that a proxy made; drops it silently without a route.
    fn send_made(&mut self, path: usize, packet: u64) -> Verdict {
        let mut ask = None;
        let frame = self.pool.frame_mut(packet);
        let sent = self.function.forward_at(frame, self.now_ns, &mut ask);
        if let Some(ask) = ask {
            self.ask(ask);
        }
        match sent {
            Ok(output) if !self.translated(output, packet) => Verdict::Drop,
            Ok(output) => Verdict::Send(output),
            Err(ForwardError::Unresolved(neighbour)) if self.held.hold(neighbour, path, packet) => {
                Verdict::Hold
            }
            Err(_) => Verdict::Drop,
        }
    }

    /// Returns the proxied path of an IPv6 packet; see [`proxied`](Self::proxied).
    pub(super) fn proxied_v6(
        &self,
        input: usize,
        packet: u64,
        to: Option<LocalDestination>,
    ) -> Option<usize> {
        let frame = self.pool.frame(packet);
        let header = Header::parse_v6(frame).filter(|_| is_v6(frame))?;
        self.proxied(&header, to, || self.classifier.path_v6(input, &header, frame))
    }
}
