//! Admission control by average bandwidth.

use super::sequence::{Purpose, nth_other, random};
use super::{ClassTraffic, Kind};

/// The rate of each link that connections may reserve, as shares of its data rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Reservable {
    /// One share for the connections of all classes together.
    Shared(f64),
    /// A share for each class; a class that is not listed has none. This models a virtual channel
    /// per class, each with its own minimum bandwidth.
    PerClass(Vec<f64>),
}

impl From<f64> for Reservable {
    fn from(share: f64) -> Self {
        Self::Shared(share)
    }
}

impl From<&[f64]> for Reservable {
    fn from(shares: &[f64]) -> Self {
        Self::PerClass(shares.to_vec())
    }
}

/// Counts of a class's connections over the whole network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Connections requested by the class's load.
    pub requested: u64,
    /// Connections set up.
    pub admitted: u64,
    /// Connections without enough free rate to any destination: requested − admitted.
    pub refused: u64,
}

/// The admitted connections and the rate that they reserve on the links.
#[derive(Clone, Debug)]
pub struct Admitted {
    classes: usize,
    /// Destinations of the connections of each end-point and class, end-point by end-point.
    destinations: Vec<Vec<u32>>,
    counts: Vec<ClassCount>,
    /// Reserved rate of each link, bits/s, one row for each share of [`Reservable`].
    reserved_bps: Vec<Vec<u64>>,
}

impl Admitted {
    /// Returns the destinations of `class`'s connections at `end_point`, in order of admission.
    #[must_use]
    pub fn destinations(&self, end_point: u32, class: u8) -> &[u32] {
        if usize::from(class) >= self.classes {
            return &[];
        }
        let place = end_point as usize * self.classes + usize::from(class);
        self.destinations.get(place).map_or(&[], Vec::as_slice)
    }

    /// Returns the requested, admitted and refused connections of each class, over all end-points.
    #[must_use]
    pub fn counts(&self) -> &[ClassCount] {
        &self.counts
    }

    /// Returns the rate in bits/s that connections of all classes reserve on `link`.
    #[must_use]
    pub fn reserved_bps(&self, link: usize) -> u64 {
        self.reserved_bps.iter().filter_map(|links| links.get(link)).sum()
    }
}

/// The admission control of a network's connections.
///
/// Each end-point requests as many connections of a class as the class's load contains, a number x
/// that is seldom whole. End-point i of n requests round((i + 1)·x) − round(i·x) connections, so
/// the total is n·x to within half a connection.
///
/// Connections are set up one at a time, interleaved over all end-points and classes. The k-th of n
/// is due at (k + ½)/n; ties go to the lower class, then the lower end-point. A connection reserves
/// its mean rate, rounded up to whole bits/s, on every link of its route. Its destination is drawn
/// uniformly over the other end-points. If a link on the route lacks free rate, another destination
/// is drawn without repetition, until one fits or all are tried. The paper says only that the
/// control is "a simple one, based on average bandwidth".
#[derive(Clone, Copy, Debug)]
pub struct Admission;

/// A request for a connection.
struct Request {
    due: f64,
    class: u8,
    end_point: u32,
    connection: u32,
}

impl Admission {
    /// Sets up the connections of `classes` in a network of `end_points`.
    ///
    /// All `links` links carry `link_bps` bits/s of data. `route(source, destination, path)`
    /// appends the route's link numbers, each below `links`, to `path`, including the links of both
    /// end-points.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    #[must_use]
    pub fn admit(
        end_points: u32,
        link_bps: u64,
        reservable: impl Into<Reservable>,
        classes: &[ClassTraffic],
        seed: u64,
        mut route: impl FnMut(u32, u32, &mut Vec<usize>),
        links: usize,
    ) -> Admitted {
        let bps = |share: f64| (share.max(0.0) * link_bps as f64) as u64;
        let (limits_bps, together) = match reservable.into() {
            Reservable::Shared(share) => (vec![bps(share)], true),
            Reservable::PerClass(shares) => (shares.into_iter().map(bps).collect(), false),
        };
        let mut admitted = Admitted {
            classes: classes.len(),
            destinations: vec![Vec::new(); end_points as usize * classes.len()],
            counts: vec![ClassCount::default(); classes.len()],
            reserved_bps: vec![vec![0; links]; limits_bps.len()],
        };
        let mut candidates: Vec<u32> = (0..end_points.saturating_sub(1)).collect();
        let (mut swaps, mut path) = (Vec::new(), Vec::new());
        for request in requests(end_points, link_bps, classes) {
            let Request { class, end_point, connection, .. } = request;
            let index = usize::from(class);
            let rate_bps = classes[index].kind.connection_rate_bps().unwrap_or(0.0).ceil() as u64;
            let row = if together { 0 } else { index };
            let mut random = random(seed, end_point, class, connection, Purpose::Destination);
            let mut found = None;
            let only = match classes[index].kind {
                Kind::VirtualLink { to, .. } => Some(to),
                _ => None,
            };
            let tries = if only.is_some() { 1 } else { candidates.len() };
            for tried in 0..tries {
                let left = (candidates.len() - tried) as u64;
                let pick = tried + random.below(left) as usize;
                candidates.swap(tried, pick);
                swaps.push((tried, pick));
                let other = nth_other(candidates[tried], end_point);
                let destination = only.unwrap_or(other);
                path.clear();
                route(end_point, destination, &mut path);
                let Some(reserved) = admitted.reserved_bps.get_mut(row) else { break };
                if path.iter().all(|link| reserved[*link] + rate_bps <= limits_bps[row]) {
                    for link in &path {
                        reserved[*link] += rate_bps;
                    }
                    found = Some(destination);
                    break;
                }
            }
            // Restore the order: it must not depend on earlier connections.
            for (tried, pick) in swaps.drain(..).rev() {
                candidates.swap(tried, pick);
            }
            let count = &mut admitted.counts[index];
            count.requested += 1;
            match found {
                Some(destination) => {
                    count.admitted += 1;
                    let place = end_point as usize * classes.len() + index;
                    admitted.destinations[place].push(destination);
                }
                None => count.refused += 1,
            }
        }
        admitted
    }
}

/// Returns all requests, in the order in which connections are set up.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn requests(end_points: u32, link_bps: u64, classes: &[ClassTraffic]) -> Vec<Request> {
    let mut requests = Vec::new();
    for (traffic, class) in classes.iter().zip(0..=u8::MAX) {
        let Some(rate_bps) = traffic.kind.connection_rate_bps() else { continue };
        let each = traffic.load.max(0.0) * link_bps as f64 / rate_bps;
        for end_point in 0..end_points {
            let up_to = |end_points: u32| (f64::from(end_points) * each + 0.5).floor() as u64;
            let count = match traffic.kind {
                Kind::VirtualLink { from, .. } => u32::from(from == end_point),
                _ => (up_to(end_point + 1) - up_to(end_point)) as u32,
            };
            requests.extend((0..count).map(|connection| Request {
                due: (f64::from(connection) + 0.5) / f64::from(count),
                class,
                end_point,
                connection,
            }));
        }
    }
    requests.sort_by(|a, b| {
        let key = |request: &Request| (request.class, request.end_point, request.connection);
        a.due.total_cmp(&b.due).then_with(|| key(a).cmp(&key(b)))
    });
    requests
}
