//! Clients that load pages.
//!
//! A client opens a connection and requests the first object. When that has arrived, it requests
//! the further objects in their order, one at a time on each of its connections, as HTTP/1.1 does
//! without pipelining. A page ends when its last object has arrived; the client then closes its
//! connections. A request without any data of its object is repeated after the retransmission
//! timeout of the client.

use millstream_scenario::Web;
use millstream_traffic::Random;
use std::collections::VecDeque;
use std::ops::Range;

use super::transfers::exponential_ns;

/// The first random sequence of clients; those of streams and links are below.
const FIRST_SEQUENCE: u64 = 1 << 33;

/// A client of a `web` source.
#[derive(Debug)]
pub(super) struct Client<'a> {
    web: &'a Web,
    stream: u32,
    /// The numbers of its connections.
    connections: Range<u32>,
    /// Its own sequence: what it loads does not depend on other clients.
    random: Random,
    began_ns: u64,
    /// Whether the first object has not arrived yet.
    is_first: bool,
    /// The sizes of objects that were not requested yet, bytes.
    objects: VecDeque<u64>,
    /// The requested objects that have not arrived yet.
    loading: u32,
}

impl<'a> Client<'a> {
    /// Returns client number `at` of a stream, with these connections.
    pub(super) fn new(
        web: &'a Web,
        stream: u32,
        at: u32,
        connections: Range<u32>,
        seed: u64,
    ) -> Self {
        let sequence = FIRST_SEQUENCE + (u64::from(stream) << 32) + u64::from(at);
        Self {
            web,
            stream,
            connections,
            random: Random::new(seed, sequence),
            began_ns: 0,
            is_first: false,
            objects: VecDeque::new(),
            loading: 0,
        }
    }

    /// Returns the number of connections that a client of `web` can use.
    pub(super) fn most_connections(web: &Web) -> u32 {
        web.tcp.connections.min(web.objects.max(1))
    }

    /// Returns when the first page of client number `at` begins, ns: within a mean pause.
    pub(super) fn first_page_ns(web: &Web, at: u32) -> u64 {
        let offset_ns = u128::from(web.pause_ns) * u128::from(at) / u128::from(web.clients);
        web.tcp.start_ns.saturating_add(u64::try_from(offset_ns).unwrap_or(0))
    }

    /// Returns its parameters.
    pub(super) fn web(&self) -> &'a Web {
        self.web
    }

    /// Returns its stream.
    pub(super) fn stream(&self) -> u32 {
        self.stream
    }

    /// Returns the numbers of its connections.
    pub(super) fn connections(&self) -> Range<u32> {
        self.connections.clone()
    }

    /// Begins a page at `now_ns`; returns the size of its first object, bytes.
    pub(super) fn begin(&mut self, now_ns: u64) -> u64 {
        let html = self.web.html.draw(&mut self.random);
        let sizes = (0..self.web.objects).map(|_| self.web.object.draw(&mut self.random));
        self.objects = sizes.collect();
        (self.began_ns, self.is_first, self.loading) = (now_ns, true, 1);
        html
    }

    /// Returns the size of the next object to request, bytes; `None` after the last.
    pub(super) fn next_object(&mut self) -> Option<u64> {
        let bytes = self.objects.pop_front()?;
        self.loading += 1;
        Some(bytes)
    }

    /// Takes note that an object has arrived; returns whether it is the first of the page.
    pub(super) fn arrived(&mut self) -> bool {
        self.loading -= 1;
        std::mem::take(&mut self.is_first)
    }

    /// Returns how long the page took, ns, if it has arrived completely.
    pub(super) fn load_ns(&self, now_ns: u64) -> Option<u64> {
        (self.loading == 0 && self.objects.is_empty()).then_some(now_ns - self.began_ns)
    }

    /// Draws the time to the next page, ns.
    pub(super) fn pause_ns(&mut self) -> u64 {
        exponential_ns(self.web.pause_ns, &mut self.random)
    }
}
