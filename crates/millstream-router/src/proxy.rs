//! TCP proxies of paths.
//!
//! | kind | does |
//! |---|---|
//! | [transparent] | reads the first bytes of a connection, then splices it by its headers |
//! | [classical] | terminates the connection, opens one to a server and copies bytes between them |
//!
//! A packet goes to a proxy if it belongs to one of its connections or takes the proxy's path. A
//! packet to the router's address goes there, too, if it would take that path. The path's
//! forwarding process runs the proxy and its timers, and is charged for them. Packets that a proxy
//! makes are routed and queued like others of the path.
//!
//! Source: the Router paper, Table 1 and section 2.1.

mod classical;
mod cookie;
mod device;
mod outgoing_segment;
mod rules;
mod segment;
mod spliced_flow;
mod table;
mod tcp_pair;
mod transparent;

use millstream_scenario::{PathProxy, ProxyKind, RouterScenario};
use std::net::IpAddr;

use crate::ids::{IdVec, PacketHandle, PathId};
use crate::net::pool::Pool;
use crate::renamed_keys::renamed_key;
use classical::Classical;
use device::TxDevice;
use transparent::Transparent;

pub(crate) use segment::{TCP, Tuple};

renamed_key!(no_connection_key, "no-connection", "strays");

/// Counters of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProxyCounters {
    /// Connections in the table, including those in TIME-WAIT.
    pub connections: u64,
    /// Connections opened by clients.
    pub opened: u64,
    /// Connections refused because the table or the client's share was full.
    pub refused_full: u64,
    /// Connections refused because of their host name, or without one.
    pub refused_host: u64,
    /// Connections reset because the server does not answer, has no route, or the router no address
    /// towards it.
    pub unreachable: u64,
    /// Connections reset by either end, or after the idle timeout.
    pub broken: u64,
    /// Packets of no connection, dropped.
    #[serde(flatten, with = "no_connection_key")]
    pub no_connection: u64,
    /// Payload bytes from clients to servers.
    pub to_server_bytes: u64,
    /// Payload bytes from servers to clients.
    pub to_client_bytes: u64,
}

/// Provides source addresses for connections to servers.
pub(crate) trait SourceAddresses {
    /// Returns the router's address on the route to `destination`.
    fn own_address(&mut self, destination: IpAddr) -> Option<IpAddr>;
}

/// The proxy of a path.
enum Proxy {
    Transparent(Box<Transparent>),
    Classical(Box<Classical>),
}

impl Proxy {
    fn new(settings: &PathProxy) -> Self {
        match settings.kind {
            ProxyKind::Transparent => Self::Transparent(Box::new(Transparent::new(settings))),
            ProxyKind::Classical => Self::Classical(Box::new(Classical::new(settings))),
        }
    }

    /// Applies changed settings. If table or buffer sizes differ, starts an empty proxy that keeps
    /// the counters.
    fn change(mut self, settings: &PathProxy) -> Self {
        let changed = match &mut self {
            Self::Transparent(of) => of.change(settings),
            Self::Classical(of) => of.change(settings),
        };
        if changed {
            return self;
        }
        let mut new = Self::new(settings);
        match &mut new {
            Self::Transparent(of) => of.carry_counters(self.counters()),
            Self::Classical(of) => of.carry_counters(self.counters()),
        }
        new
    }

    #[inline]
    fn has_connection(&self, tuple: &Tuple) -> bool {
        match self {
            Self::Transparent(of) => of.has_connection(tuple),
            Self::Classical(of) => of.has_connection(tuple),
        }
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        match self {
            Self::Transparent(of) => of.due_ns(),
            Self::Classical(of) => of.due_ns(),
        }
    }

    fn counters(&self) -> ProxyCounters {
        match self {
            Self::Transparent(of) => of.counters(),
            Self::Classical(of) => of.counters(),
        }
    }
}

/// The proxies in path order; empty if no path has one.
#[derive(Default)]
pub(crate) struct Proxies(IdVec<PathId, Option<Proxy>>);

impl Proxies {
    /// Creates the proxies of `scenario`.
    pub(crate) fn new(scenario: &RouterScenario) -> Self {
        let proxies = scenario.paths.iter().map(|path| path.proxy.as_ref().map(Proxy::new));
        let any = scenario.paths.iter().any(|path| path.proxy.is_some());
        Self(if any { proxies.collect() } else { IdVec::new() })
    }

    /// Applies a changed scenario; its path `n` was path `kept[n]`.
    pub(crate) fn reload(&mut self, scenario: &RouterScenario, kept: &[Option<PathId>]) {
        let mut old = std::mem::take(&mut self.0);
        if scenario.paths.iter().any(|path| path.proxy.is_some()) {
            let paths = scenario.paths.iter().zip(kept);
            let proxies = paths.map(|(path, was)| {
                let settings = path.proxy.as_ref()?;
                let was = was.and_then(|was| old.get_mut(was)?.take());
                Some(was.map_or_else(|| Proxy::new(settings), |was| was.change(settings)))
            });
            self.0 = proxies.collect();
        }
    }

    /// Returns whether any path has a proxy.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns whether `path` has a proxy.
    #[inline]
    pub(crate) fn has(&self, path: PathId) -> bool {
        self.0.get(path).is_some_and(Option::is_some)
    }

    /// Returns whether the path's proxy owns addresses of the router, as the classical proxy does.
    pub(crate) fn terminates(&self, path: PathId) -> bool {
        matches!(self.0.get(path), Some(Some(Proxy::Classical(_))))
    }

    /// Returns the path whose proxy has the connection of `tuple`.
    pub(crate) fn path(&self, tuple: &Tuple) -> Option<PathId> {
        let has = |proxy: &Option<Proxy>| proxy.as_ref().is_some_and(|of| of.has_connection(tuple));
        self.0.iter().position(has).map(PathId)
    }

    /// Passes a packet to the proxy of `path`; returns whether to route it, or `false` if the proxy
    /// consumed it.
    pub(crate) fn receive(
        &mut self,
        path: PathId,
        pool: &mut Pool,
        packet: PacketHandle,
        now_ns: u64,
    ) -> bool {
        match self.0.get_mut(path) {
            Some(Some(Proxy::Transparent(of))) => of.receive(pool.frame_mut(packet), now_ns),
            Some(Some(Proxy::Classical(of))) => {
                of.receive(pool.frame(packet), now_ns);
                false
            }
            _ => true,
        }
    }

    /// Returns when the proxy of `path` must run, ns.
    #[inline]
    pub(crate) fn due_ns(&self, path: PathId) -> u64 {
        self.0.get(path).and_then(Option::as_ref).map_or(u64::MAX, Proxy::due_ns)
    }

    /// Makes up to `most` packets of the proxy of `path`; the caller fills in hardware addresses.
    pub(crate) fn make(
        &mut self,
        path: PathId,
        (pool, most): (&mut Pool, usize),
        sources: &mut dyn SourceAddresses,
        now_ns: u64,
        made: &mut Vec<PacketHandle>,
    ) {
        let mut out = TxDevice { pool, made, most };
        match self.0.get_mut(path) {
            Some(Some(Proxy::Transparent(of))) => of.make(&mut out, now_ns),
            Some(Some(Proxy::Classical(of))) => of.make(&mut out, sources, now_ns),
            _ => {}
        }
    }

    /// Returns the counters of the proxy of `path`.
    pub(crate) fn counters(&self, path: PathId) -> Option<ProxyCounters> {
        self.0.get(path)?.as_ref().map(Proxy::counters)
    }
}
