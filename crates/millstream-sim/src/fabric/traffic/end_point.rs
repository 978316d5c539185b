//! All packets of one end-point, in time order.

use std::ops::Range;

use super::connections::Connections;
use super::self_similar::{Poisson, SelfSimilar};
use super::video::Video;
use super::{Admitted, ClassTraffic, Injection, Kind};

/// The packets of one class, in time order.
#[derive(Clone, Debug)]
enum Source {
    Connections(Connections),
    Video(Video),
    SelfSimilar(Box<SelfSimilar>),
    Poisson(Box<Poisson>),
}

/// One class of one end-point.
#[derive(Clone, Debug)]
struct Class {
    /// The source of the class's packets.
    source: Source,
    /// Least length of a packet, bytes.
    smallest_bytes: u32,
    /// Numbers of the class's connections within the end-point.
    connections: Range<u32>,
    /// Destination of each connection; empty for classes without connections.
    destinations: Vec<u32>,
    /// The next packet; it is never sent if its time is at or after the stop time.
    head: Injection,
}

impl Class {
    /// Makes the next packet the head; after the last packet, the head's time is `u64::MAX`.
    #[inline]
    fn advance(&mut self) {
        let found = match &mut self.source {
            Source::Connections(source) => source.next().map(|(time_ns, connection, bytes)| {
                (time_ns, connection, bytes, self.destinations[connection as usize])
            }),
            Source::Video(source) => source.next().map(|(time_ns, connection, bytes)| {
                (time_ns, connection, bytes, self.destinations[connection as usize])
            }),
            Source::SelfSimilar(source) => source.next(),
            Source::Poisson(source) => {
                source.next().map(|(time_ns, bytes, destination)| (time_ns, 0, bytes, destination))
            }
        };
        let head = &mut self.head;
        match found {
            Some((time_ns, connection, bytes, destination)) => {
                head.time_ns = time_ns;
                head.connection = self.connections.start + connection;
                head.bytes = bytes;
                head.destination = destination;
            }
            None => head.time_ns = u64::MAX,
        }
    }
}

/// An iterator over all injections of one end-point, in time order.
///
/// At one instant the lower class goes first. Equal arguments give equal injections. They do not
/// depend on other end-points; a class's injections do not depend on other classes, except for
/// refused connections.
#[derive(Clone, Debug)]
pub struct EndPointTraffic {
    classes: Vec<Class>,
    offered_bytes: Vec<u64>,
    stop_ns: u64,
}

impl EndPointTraffic {
    /// Creates the traffic of `end_point`, one of `end_points` (numbered from 0), before `stop_ns`.
    ///
    /// The link has a data rate of `link_bps` bits/s. `classes` (at most 256), `link_bps` and
    /// `seed` must equal the arguments that made `admitted`. A single end-point in a network sends
    /// nothing.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    #[must_use]
    pub fn new(
        end_point: u32,
        end_points: u32,
        link_bps: u64,
        classes: &[ClassTraffic],
        admitted: &Admitted,
        seed: u64,
        stop_ns: u64,
    ) -> Self {
        let classes = if end_points > 1 { classes } else { &[] };
        let mut first = 0;
        let classes: Vec<Class> = classes
            .iter()
            .zip(0..=u8::MAX)
            .map(|(traffic, class)| {
                let own = (seed, end_point, class);
                let destinations = admitted.destinations(end_point, class).to_vec();
                let admitted = destinations.len() as u32;
                let rate_bps = traffic.load.max(0.0) * link_bps as f64;
                let (source, count) = match traffic.kind {
                    Kind::VirtualLink { bytes, interval_ns, start_ns, .. } if admitted > 0 => {
                        let source = Connections::one(bytes, interval_ns, start_ns);
                        (Source::Connections(source), admitted)
                    }
                    // A virtual link from another end-point has no connection here.
                    Kind::Connections { bytes, interval_ns }
                    | Kind::VirtualLink { bytes, interval_ns, .. } => {
                        let source = Connections::new(bytes, interval_ns, admitted, own);
                        (Source::Connections(source), admitted)
                    }
                    Kind::Video { mean_rate_bps, frame_ns, packet_bytes } => {
                        let source =
                            Video::new(mean_rate_bps, frame_ns, packet_bytes, admitted, own);
                        (Source::Video(source), admitted)
                    }
                    Kind::SelfSimilar { packet_bytes, sources, peak_share } => {
                        let rate_bps = (rate_bps + 0.5) as u64;
                        let peak_rate_bps = (peak_share * link_bps as f64 + 0.5) as u64;
                        let source = SelfSimilar::new(
                            packet_bytes,
                            rate_bps,
                            peak_rate_bps,
                            sources,
                            end_points,
                            own,
                        );
                        (Source::SelfSimilar(Box::new(source)), sources)
                    }
                    Kind::Poisson { bytes } => {
                        let source = Poisson::new(bytes, rate_bps, end_points, own);
                        (Source::Poisson(Box::new(source)), 1)
                    }
                };
                let connections = first..first + count;
                first += count;
                let head = Injection { time_ns: 0, class, destination: 0, bytes: 0, connection: 0 };
                let smallest_bytes = match traffic.kind {
                    Kind::Connections { bytes, .. }
                    | Kind::VirtualLink { bytes, .. }
                    | Kind::Poisson { bytes } => bytes.max(1),
                    // The last packet of a frame has what is left of it.
                    Kind::Video { .. } => 1,
                    Kind::SelfSimilar { packet_bytes, .. } => packet_bytes.least(),
                };
                let mut class = Class { source, smallest_bytes, connections, destinations, head };
                class.advance();
                class
            })
            .collect();
        Self { offered_bytes: vec![0; classes.len()], classes, stop_ns }
    }

    /// Returns the bytes of each class that were injected so far.
    #[must_use]
    pub fn offered_bytes(&self) -> &[u64] {
        &self.offered_bytes
    }

    /// Returns the least length of a packet, bytes; `u32::MAX` if it sends nothing.
    #[must_use]
    pub(crate) fn smallest_bytes(&self) -> u32 {
        self.classes.iter().map(|class| class.smallest_bytes).min().unwrap_or(u32::MAX)
    }

    /// Returns the numbers of the connections of `class`, over which jitter is measured.
    ///
    /// The ranges of the classes follow each other in order. A self-similar class has one number
    /// per source, a Poisson class one number in all; the destinations of their packets vary.
    #[must_use]
    pub fn connections(&self, class: u8) -> Range<u32> {
        self.classes.get(usize::from(class)).map_or(0..0, |class| class.connections.clone())
    }
}

impl EndPointTraffic {
    /// Returns the destinations of the connections of `class`; none if the class has none.
    #[must_use]
    pub fn destinations(&self, class: u8) -> &[u32] {
        self.classes.get(usize::from(class)).map_or(&[], |class| &class.destinations)
    }
}

impl Iterator for EndPointTraffic {
    type Item = Injection;

    #[inline]
    fn next(&mut self) -> Option<Injection> {
        // There are few classes: a linear scan finds the first head faster than a heap.
        let class = self.classes.iter_mut().min_by_key(|class| class.head.time_ns)?;
        let injection = class.head;
        if injection.time_ns >= self.stop_ns {
            return None;
        }
        class.advance();
        self.offered_bytes[usize::from(injection.class)] += u64::from(injection.bytes);
        Some(injection)
    }
}
