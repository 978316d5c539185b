//! Proxies: what stands between both ends of a path's TCP connections.
//!
//! | kind | does |
//! |---|---|
//! | [transparent] | hears how a connection begins; then both ends speak with each other, and numbers in headers change |
//! | [classical] | has a connection with the client and one with a server, and moves bytes from one to the other |
//!
//! A packet belongs to a proxy if it is of one of its connections, if it takes the proxy's path, or if it goes to an
//! address of the router and would take that path. Its cost is its path's: packets are worked on by the path's
//! forwarding process, and so is what time brings about. Packets that a proxy makes are routed, and wait for the link, as
//! the path's others.
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

use crate::net::pool::Pool;
use classical::Classical;
use device::TxDevice;
use transparent::Transparent;

pub(crate) use segment::{TCP, Tuple};

/// What a proxy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProxyCounters {
    /// Connections that are known now, those that are over but for stragglers among them.
    pub connections: u64,
    /// Connections that clients began.
    pub opened: u64,
    /// Refused because there were too many, or too many of their client.
    pub refused_full: u64,
    /// Refused because of the name that their client said, or for want of one.
    pub refused_host: u64,
    /// Broken off because the server has no way, or the router no address towards it.
    pub unreachable: u64,
    /// Broken off by either end, or because it was silent for too long.
    pub broken: u64,
    /// Packets of no connection, dropped.
    pub strays: u64,
    /// Bytes that went from clients to servers.
    pub to_server_bytes: u64,
    /// Bytes that went from servers to clients.
    pub to_client_bytes: u64,
}

/// What a proxy asks of the sources around the router.
pub(crate) trait SourceAddresses {
    /// The router's own address on the way to `destination`.
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

    /// Goes on by other settings; with room for another number of connections, or for more or less in each, it begins
    /// anew, and only its counters go on.
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
    fn knows(&self, tuple: &Tuple) -> bool {
        match self {
            Self::Transparent(of) => of.knows(tuple),
            Self::Classical(of) => of.knows(tuple),
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

/// The proxies of all paths, in their order; none at all if no path has one.
#[derive(Default)]
pub(crate) struct Proxies(Vec<Option<Proxy>>);

impl Proxies {
    /// Those of `scenario`, with all that they need.
    pub(crate) fn new(scenario: &RouterScenario) -> Self {
        let proxies = scenario.paths.iter().map(|path| path.proxy.as_ref().map(Proxy::new));
        let any = scenario.paths.iter().any(|path| path.proxy.is_some());
        Self(if any { proxies.collect() } else { Vec::new() })
    }

    /// Goes on as `scenario` says; its path `n` was path `kept[n]`.
    pub(crate) fn reload(&mut self, scenario: &RouterScenario, kept: &[Option<usize>]) {
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

    /// Whether there is one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a path has one.
    #[inline]
    pub(crate) fn has(&self, path: usize) -> bool {
        self.0.get(path).is_some_and(Option::is_some)
    }

    /// Whether the proxy of a path speaks for addresses of the router.
    pub(crate) fn is_host(&self, path: usize) -> bool {
        matches!(self.0.get(path), Some(Some(Proxy::Classical(_))))
    }

    /// The path of the connection that packets of `tuple` belong to.
    pub(crate) fn path(&self, tuple: &Tuple) -> Option<usize> {
        self.0.iter().position(|proxy| proxy.as_ref().is_some_and(|of| of.knows(tuple)))
    }

    /// A packet of `path`, which has a proxy; whether it is to be routed now. If not, it was for the proxy itself.
    pub(crate) fn receive(
        &mut self,
        path: usize,
        pool: &mut Pool,
        packet: u64,
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

    /// When the proxy of a path wants to run, ns.
    #[inline]
    pub(crate) fn due_ns(&self, path: usize) -> u64 {
        self.0.get(path).and_then(Option::as_ref).map_or(u64::MAX, Proxy::due_ns)
    }

    /// Packets that the proxy of a path makes, `most` at most; their hardware addresses are to be filled in.
    pub(crate) fn make(
        &mut self,
        path: usize,
        (pool, most): (&mut Pool, usize),
        sources: &mut dyn SourceAddresses,
        now_ns: u64,
        made: &mut Vec<u64>,
    ) {
        let mut out = TxDevice { pool, made, most };
        match self.0.get_mut(path) {
            Some(Some(Proxy::Transparent(of))) => of.make(&mut out, now_ns),
            Some(Some(Proxy::Classical(of))) => of.make(&mut out, sources, now_ns),
            _ => {}
        }
    }

    /// What the proxy of a path did, if it has one.
    pub(crate) fn counters(&self, path: usize) -> Option<ProxyCounters> {
        self.0.get(path)?.as_ref().map(Proxy::counters)
    }
}
