//! What proxies need of the machine: the path of received packets, and source addresses.

use std::net::IpAddr;

use super::addresses::{LocalAddresses, LocalDestination};
use crate::ids::PathId;
use crate::net::forwarder::Forwarder;
use crate::net::header::Header;
use crate::proxy::{Proxies, SourceAddresses, TCP, Tuple};

/// Chooses the router's address for a connection by the route to its destination.
pub(super) struct ConnectionContext<'a> {
    pub(super) function: &'a mut Forwarder,
    pub(super) addresses: &'a LocalAddresses,
}

impl SourceAddresses for ConnectionContext<'_> {
    fn own_address(&mut self, destination: IpAddr) -> Option<IpAddr> {
        let output = self.function.egress(destination)?;
        self.addresses.get(output)?.connection_source(destination)
    }
}

/// Returns the path of a packet of a proxied connection, or to a local address that a proxy
/// serves. `path` returns the path by the rules.
pub(super) fn proxied_path<A: Into<IpAddr> + Copy>(
    proxies: &Proxies,
    header: &Header<A>,
    to: Option<LocalDestination>,
    path: impl FnOnce() -> Option<PathId>,
) -> Option<PathId> {
    let (from, into) = header.ports.filter(|_| header.protocol == TCP)?;
    let tuple = Tuple {
        source: (header.source.into(), from).into(),
        destination: (header.destination.into(), into).into(),
    };
    let known = proxies.path(&tuple);
    known.or_else(|| {
        let ours = (to == Some(LocalDestination::Router)).then(path).flatten();
        ours.filter(|path| proxies.terminates(*path))
    })
}
