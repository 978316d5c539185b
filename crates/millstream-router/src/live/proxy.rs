//! Proxies: what stands between both ends of a path's TCP connections.
//!
//! | kind | does |
//! |---|---|
//! | [classical](classical) | has a connection with the client and one with a server, and moves bytes from one to the other |
//!
//! A packet belongs to a proxy if it is of one of its connections, if it takes the proxy's path, or if it goes to an
//! address of the router and would take that path. Its cost is its path's: packets are worked on by the path's
//! forwarding process, and so is what time brings about. Packets that a proxy makes are routed, and wait for the link, as
//! the path's others.
//!
//! Source: the Router paper, Table 1 and section 2.1.

mod classical;
mod joint;
mod rules;
mod segment;
mod table;
mod wire;

use millstream_scenario::{PathProxy, RouterScenario};
use std::net::IpAddr;

use crate::live::pool::Pool;
use classical::Classical;
use wire::Outgoing;

pub(super) use segment::{TCP, Tuple};

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

/// What a proxy asks of the networks around the router.
pub(super) trait Networks {
    /// The router's own address on the way to `destination`.
    fn own_address(&mut self, destination: IpAddr) -> Option<IpAddr>;
}

/// The proxies of all paths, in their order; none at all if no path has one.
#[derive(Default)]
pub(super) struct Proxies(Vec<Option<Classical>>);

impl Proxies {
    /// Those of `scenario`, with all that they need.
    pub(super) fn new(scenario: &RouterScenario) -> Self {
        let proxies = scenario.paths.iter().map(|path| path.proxy.as_ref().map(Classical::new));
        let any = scenario.paths.iter().any(|path| path.proxy.is_some());
        Self(if any { proxies.collect() } else { Vec::new() })
    }

    /// Goes on as `scenario` says; its path `n` was path `kept[n]`. Connections of a path that stays go on, unless it
    /// has room for another number of them, or for more or less in each, now.
    pub(super) fn reload(&mut self, scenario: &RouterScenario, kept: &[Option<usize>]) {
        let mut old = std::mem::take(&mut self.0);
        let mut go_on = |path: Option<usize>, settings: &PathProxy| {
            let was = path.and_then(|path| old.get_mut(path)?.take());
            match was {
                Some(mut was) => {
                    if was.change(settings) {
                        return was;
                    }
                    let mut new = Classical::new(settings);
                    new.count_from(was.counters());
                    new
                }
                None => Classical::new(settings),
            }
        };
        if scenario.paths.iter().any(|path| path.proxy.is_some()) {
            let paths = scenario.paths.iter().zip(kept);
            let proxies = paths.map(|(path, was)| Some(go_on(*was, path.proxy.as_ref()?)));
            self.0 = proxies.collect();
        }
    }

    /// Whether there is one.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a path has one.
    #[inline]
    pub(super) fn has(&self, path: usize) -> bool {
        self.0.get(path).is_some_and(Option::is_some)
    }

    /// Whether the proxy of a path speaks for addresses of the router.
    pub(super) fn is_host(&self, path: usize) -> bool {
        self.has(path)
    }

    /// The path of the connection that packets of `tuple` belong to.
    pub(super) fn path(&self, tuple: &Tuple) -> Option<usize> {
        let knows = |proxy: &Option<Classical>| proxy.as_ref().is_some_and(|of| of.knows(tuple));
        self.0.iter().position(knows)
    }

    /// A packet of the proxy of `path`, which has one.
    pub(super) fn receive(&mut self, path: usize, pool: &Pool, packet: u64, now_ns: u64) {
        if let Some(Some(proxy)) = self.0.get_mut(path) {
            proxy.receive(pool.frame(packet), now_ns);
        }
    }

    /// When the proxy of a path wants to run, ns.
    #[inline]
    pub(super) fn due_ns(&self, path: usize) -> u64 {
        self.0.get(path).and_then(Option::as_ref).map_or(u64::MAX, Classical::due_ns)
    }

    /// Packets that the proxy of a path makes, `most` at most; their hardware addresses are to be filled in.
    pub(super) fn make(
        &mut self,
        path: usize,
        pool: &mut Pool,
        most: usize,
        networks: &mut dyn Networks,
        now_ns: u64,
        made: &mut Vec<u64>,
    ) {
        if let Some(Some(proxy)) = self.0.get_mut(path) {
            proxy.make(&mut Outgoing { pool, made, most }, networks, now_ns);
        }
    }

    /// What the proxy of a path did, if it has one.
    pub(super) fn counters(&self, path: usize) -> Option<ProxyCounters> {
        self.0.get(path)?.as_ref().map(Classical::counters)
    }
}
