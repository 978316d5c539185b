//! All that one end-point sends, in time order.

use std::ops::Range;

use super::connections::Connections;
use super::self_similar::{Poisson, SelfSimilar};
use super::video::Video;
use super::{Admitted, ClassTraffic, Injection, Kind};

/// One class's packets in time order.
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
    source: Source,
    /// Numbers of its connections within the end-point.
    connections: Range<u32>,
    /// Where each connection goes; empty for classes that set up none.
    destinations: Vec<u32>,
    /// Its next packet; one that is not before the stop time is never sent.
    head: Injection,
}

impl Class {
    /// The next packet becomes the head; a class that is over gets one at the end of time.
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

/// All injections of one end-point in time order; at one instant the lower class goes first.
///
/// The same arguments give the same injections. They do not depend on what other end-points send,
/// nor a class's on other classes, but for the connections that admission refused.
#[derive(Clone, Debug)]
pub struct EndPointTraffic {
    classes: Vec<Class>,
    offered_bytes: Vec<u64>,
    stop_ns: u64,
}

impl EndPointTraffic {
    /// What `end_point` of `end_points` (numbered from 0) sends before `stop_ns` on a link whose
    /// data rate is `link_bps` bits/s. `classes`, at most 256, `link_bps` and `seed` are those that
    /// `admitted` was made with. An end-point alone in its network sends nothing.
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
                    Kind::Connections { bytes, interval_ns } => {
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
                let mut class = Class { source, connections, destinations, head };
                class.advance();
                class
            })
            .collect();
        Self { offered_bytes: vec![0; classes.len()], classes, stop_ns }
    }

    /// Bytes of each class that were handed out so far: the load that the run has come to.
    #[must_use]
    pub fn offered_bytes(&self) -> &[u64] {
        &self.offered_bytes
    }

    /// The numbers of the connections of `class`, over which jitter is measured. Classes follow
    /// each other in order. A self-similar class has a number for each source, a Poisson class one
    /// in all; their packets go to ever other end-points.
    #[must_use]
    pub fn connections(&self, class: u8) -> Range<u32> {
        self.classes.get(usize::from(class)).map_or(0..0, |class| class.connections.clone())
    }
}

impl Iterator for EndPointTraffic {
    type Item = Injection;

    #[inline]
    fn next(&mut self) -> Option<Injection> {
        // Classes are few: a scan finds the first head sooner than a heap would.
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
