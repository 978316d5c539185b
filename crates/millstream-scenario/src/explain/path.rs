//! Bounds on links in series.
//!
//! ```text
//! arrivals at link 1 (measured) ─> bounds at link 1 ─> arrivals at link 2 ─> bounds at link 2 ─> …
//! ```
//!
//! All packets of a direction pass the same links, so no bound depends on a later link. Three
//! bounds on the whole way are computed; the shortest one counts. The *sum* adds the links' own
//! bounds. The *series* composes the links' guarantees ([`LatencyRate::then`]), so that a burst is
//! paid once. The links *together* ([`ServiceCurve::then`]) leave a stream what the others do not
//! use, so that the bursts of others are paid once, too.
//!
//! What arrives at a later link conforms to the bucket of the first, enlarged by what the links
//! between may delay: by ρ_s·θ (Le Boudec and Thiran 2001, theorem 1.4.3), or by ρ_s times the
//! difference of the longest and the shortest delay, since all packets that end in a time t arrived
//! in t and that difference. Lengths count in bytes on the wire of the first link.

mod hop;

use millstream::Link;
use millstream::bounds::{Bounds, Guarantee, LatencyRate, ServiceCurve, Source, StreamLimits};
use millstream::catalogue::StructureName;
use serde::Serialize;
use std::cmp::Ordering;

use self::hop::{HopCase, Service};
use super::offered::{BUCKETS, EVEN, MEAN, OfferedLoads};
use crate::network::{Direction, Hop, Network};
use crate::scenario::{Scenario, SchedulerConfig, Stream};

pub(super) use self::hop::weigh_by_entries;

/// The guarantee of a stream at one link of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HopBounds {
    /// The link's name.
    pub link: String,
    /// The rate of its guarantee there, bits/s on the wire of the stream's first link.
    pub rate_bps: Option<u64>,
    /// The latency of its guarantee there, ns.
    pub latency_ns: Option<u64>,
    /// The longest time from the packet's arrival at the link to the end of its transmission, ns.
    pub worst_delay_ns: Option<u64>,
    /// The stream's greatest backlog there, bytes on the wire.
    pub worst_backlog_bytes: Option<u64>,
    /// The greatest backlog there, packets. A `queue` of this length loses none.
    pub worst_backlog_packets: Option<u64>,
}

/// The bounds of a stream on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct PathBounds {
    /// Whether there are several links, or others than `[link]`.
    pub(super) is_series: bool,
    pub(super) hops: Vec<HopBounds>,
    /// The rate on the whole way, whatever other streams send, bits/s.
    pub(super) guaranteed_bps: Option<u64>,
    /// The sum of the links' delays, propagation between them included, ns.
    pub(super) sum_ns: Option<u64>,
    /// The delay by the links' guarantees in series, ns.
    pub(super) series_ns: Option<u64>,
    /// The delay by what the others leave on all links together, ns.
    pub(super) together_ns: Option<u64>,
    /// The reason why there is no bound.
    pub(super) unbounded: Option<String>,
    /// A link that may start a packet later than its period after its arrival, and when, ns.
    pub(super) late: Option<(String, u64)>,
    /// The latest arrival of the first packet at a link that orders by deadlines, ns after that at
    /// the first link.
    pub(super) first_arrival_ns: Option<u64>,
}

/// Returns whether the bounds of `[link]` alone do not apply to the packets of `stream`.
pub(super) fn is_series(network: &Network, stream: &Stream) -> bool {
    let mut hops = network.hops.iter().filter(|hop| hop.direction == stream.direction);
    stream.direction == Direction::Return || hops.nth(1).is_some()
}

/// The links of one direction.
pub(super) struct Route<'a> {
    scenario: &'a Scenario,
    direction: Direction,
    is_series: bool,
    hops: Vec<Hop>,
    /// The streams with lengths, without sources.
    limits: Vec<StreamLimits>,
    /// Whether packets of a stream pass the links.
    present: Vec<bool>,
    /// Whether other streams share a stream's queue.
    shared: Vec<bool>,
    /// The mean offered rates on the wire of the first link, bits/s.
    means: Vec<u64>,
    /// The longest busy period of the first link, ns, if it was measured.
    busy_ns: Option<u64>,
}

/// What a stream sends into a link: its packets conform to each of these buckets.
type Arrivals = [Option<Source>; BUCKETS];

/// Returns `[link]` as the one link of a network.
fn of_link(scenario: &Scenario) -> Hop {
    Hop {
        name: "link".into(),
        direction: Direction::Forward,
        link: scenario.link,
        scheduler: None,
        delay_ns: 0,
        loss: 0,
        queue: None,
    }
}

impl<'a> Route<'a> {
    /// Returns the route of a direction, if streams of it pass several links or other links than
    /// `[link]`; also that of `[link]` alone with gates or deadlines. `limits` are the streams'
    /// with lengths; `busy_ns` is the longest busy period of `[link]`.
    pub(super) fn new(
        scenario: &'a Scenario,
        direction: Direction,
        limits: &[StreamLimits],
        means: Vec<u64>,
        busy_ns: Option<u64>,
    ) -> Option<Self> {
        let streams = &scenario.streams;
        let of = |stream: &&Stream| stream.direction == direction;
        let network = scenario.network.as_ref();
        let in_series = |stream| network.is_some_and(|network| is_series(network, stream));
        let is_series = streams.iter().filter(of).any(in_series);
        // HILQ's rounding may keep packets that others precede.
        let rounds = scenario.scheduler.structure == StructureName::Hilq;
        let has_gates = streams.iter().any(|stream| stream.contract.is_limited())
            || scenario.classes.iter().any(|class| class.contract.is_limited());
        let has_deadlines = scenario.scheduler.discipline.guarantee.deadlines().is_some();
        let applies = (has_gates || has_deadlines) && !rounds && direction == Direction::Forward;
        if !is_series && !applies {
            return None;
        }
        let hops: Vec<_> = match network {
            Some(network) => {
                network.hops.iter().filter(|hop| hop.direction == direction).cloned().collect()
            }
            None => vec![of_link(scenario)],
        };
        let passes = |stream: &Stream| stream.direction == direction || stream.source.reacts();
        // The packets of a shared queue are those of its stream.
        let (mut shared, mut passed) = (vec![false; streams.len()], vec![false; streams.len()]);
        for stream in streams {
            if let Some(at) = stream.shares {
                shared[at] = true;
                passed[at] |= passes(stream);
            }
        }
        let is_present = |(at, stream): (usize, &Stream)| {
            stream.shares.is_none() && (passes(stream) || passed[at])
        };
        let present: Vec<_> = streams.iter().enumerate().map(is_present).collect();
        let mut limits = limits.to_vec();
        let lengths = limits.iter().zip(&present).filter(|(_, present)| **present);
        let least = lengths.map(|(of, _)| of.smallest_bytes).min().unwrap_or(0);
        for (of, present) in limits.iter_mut().zip(&present) {
            (of.source, of.arrivals) = (None, None);
            if !present {
                (of.smallest_bytes, of.largest_bytes, of.gated) = (least, least, false);
            }
        }
        let busy_ns = busy_ns.filter(|_| direction == Direction::Forward);
        Some(Self { scenario, direction, is_series, hops, limits, present, shared, means, busy_ns })
    }

    /// Returns whether a stream's data passes the links.
    pub(super) fn is_of(&self, stream: usize) -> bool {
        self.scenario.streams[stream].direction == self.direction
    }

    /// Returns whether there are several links, or others than `[link]`.
    pub(super) fn is_series(&self) -> bool {
        self.is_series
    }

    fn root<'b>(&'b self, hop: &'b Hop) -> &'b SchedulerConfig {
        hop.scheduler.as_ref().unwrap_or(&self.scenario.scheduler)
    }

    /// Returns the case of link `number` if streams send `arrivals` into it.
    fn case(&self, number: usize, arrivals: &[Arrivals]) -> HopCase<'_> {
        let hop = &self.hops[number];
        let mut limits = self.limits.clone();
        let longer = |(stream, of): (usize, &Arrivals)| {
            of.map(|source| self.longer(number, stream, source?))
        };
        let arrivals: Vec<_> = arrivals.iter().enumerate().map(longer).collect();
        let root = self.root(hop);
        weigh_by_entries(self.scenario, root, &mut limits);
        let link = hop.link.wire();
        let line = number.checked_sub(1).and_then(|before| {
            let largest = self.each_present().map(|at| link.wire_bytes(limits[at].largest_bytes));
            let before = self.hops[before].link.wire();
            let ratios = self.each_present().map(|at| ratio(before, link, &limits[at]));
            let ratios = ratios.collect::<Option<Vec<_>>>()?;
            let (over, under) = ratios.into_iter().max_by(|one, other| compare(*one, *other))?;
            let rate_bps = scaled_up(before.rate_bps, over, under);
            Some(Source { rate_bps, burst_bytes: largest.max()? })
        });
        let busy_ns = self.busy_ns.filter(|_| number == 0);
        HopCase { scenario: self.scenario, root, link, limits, arrivals, line, busy_ns }
    }

    fn each_present(&self) -> impl Iterator<Item = usize> {
        (0..self.present.len()).filter(|at| self.present[*at])
    }

    /// Returns a bucket on the wire of the first link as one on the wire of link `number`.
    fn longer(&self, number: usize, stream: usize, source: Source) -> Option<Source> {
        let (over, under) = self.ratio(number, stream)?;
        Some(Source {
            rate_bps: scaled_up(source.rate_bps, over, under),
            burst_bytes: scaled_up(source.burst_bytes, over, under),
        })
    }

    /// Returns the greatest ratio of a packet's length at link `number` and at the first link.
    fn ratio(&self, number: usize, stream: usize) -> Option<(u64, u64)> {
        if !self.present[stream] {
            return Some((1, 1));
        }
        let (first, link) = (self.hops[0].link.wire(), self.hops[number].link.wire());
        ratio(first, link, &self.limits[stream])
    }

    /// Returns a guarantee of link `number` as one in bytes on the wire of the first link.
    fn on_first_wire(&self, number: usize, stream: usize, of: LatencyRate) -> Option<LatencyRate> {
        let (over, under) = self.ratio(number, stream)?;
        let rate = u128::from(of.rate_bps) * u128::from(under) / u128::from(over.max(1));
        let rate_bps = u64::try_from(rate).unwrap_or(u64::MAX);
        (rate_bps > 0).then_some(LatencyRate { rate_bps, ..of })
    }

    /// Returns the rates of the buckets of the streams, bits/s: the least rate that the links
    /// guarantee whatever others send, and a part of the slowest link in proportion to the mean
    /// rates.
    pub(super) fn bucket_rates(&self) -> Vec<[u64; BUCKETS]> {
        let unknown: Vec<Arrivals> =
            self.present.iter().map(|present| self.idle(*present)).collect();
        let services: Vec<_> =
            (0..self.hops.len()).map(|number| self.case(number, &unknown).services()).collect();
        // A cap limits the part of a flood.
        let part_bps = |at: usize| {
            self.limits[at].cap.map_or(u64::MAX, |cap| cap.rate_bps).min(self.means[at])
        };
        let total: u128 = self.each_present().map(|at| u128::from(part_bps(at))).sum();
        let present: Vec<_> = self.each_present().map(|at| self.limits[at]).collect();
        let effective = |hop: &Hop| Bounds::new(hop.link.wire(), &present).effective_rate_bps();
        let links: Vec<_> = self.hops.iter().map(effective).collect();
        let slowest = |stream: usize| {
            let bps = |(number, rate_bps): (usize, &u64)| {
                let of = LatencyRate { rate_bps: *rate_bps, ..LatencyRate::of_delay(0, 0) };
                self.on_first_wire(number, stream, of).map_or(0, |of| of.rate_bps)
            };
            links.iter().enumerate().map(bps).min().unwrap_or(0)
        };
        let rates = |stream: usize| {
            let mean_bps = self.means[stream];
            if !self.present[stream] || mean_bps == 0 {
                return [0; BUCKETS];
            }
            let part_bps = u128::from(part_bps(stream));
            let even = u128::from(slowest(stream)) * part_bps / total.max(1);
            let even_bps = u64::try_from(even).unwrap_or(u64::MAX).max(mean_bps);
            let guaranteed = |(number, services): (usize, &Vec<Service>)| {
                let service = &services[stream];
                let rates = service.rates[..service.independent].iter();
                let rates = rates.filter_map(|of| self.on_first_wire(number, stream, *of));
                rates.map(|of| of.rate_bps).max()
            };
            let guaranteed_bps = services.iter().enumerate().filter_map(guaranteed).min();
            let cap_bps = self.limits[stream].cap.map_or(0, |cap| cap.rate_bps);
            [
                guaranteed_bps.filter(|bps| *bps >= mean_bps).unwrap_or(even_bps),
                even_bps,
                mean_bps,
                Some(cap_bps).filter(|bps| *bps >= mean_bps).unwrap_or(0),
            ]
        };
        (0..self.limits.len()).map(rates).collect()
    }

    /// Returns the arrivals of a stream that is unknown if it is present.
    fn idle(&self, present: bool) -> Arrivals {
        [(!present).then_some(Source::default()); BUCKETS]
    }

    /// Returns the bounds of each stream from the measured buckets.
    pub(super) fn bounds(&self, read: &OfferedLoads) -> Vec<PathBounds> {
        let mut arrivals: Vec<_> =
            (0..self.limits.len()).map(|at| self.first_arrivals(at, read)).collect();
        let first = arrivals.clone();
        let mut paths: Vec<_> = arrivals.iter().map(|first| Path::new(*first)).collect();
        for (number, hop) in self.hops.iter().enumerate() {
            let case = self.case(number, &arrivals);
            let services = case.services();
            // A stream and another one.
            let is_unknown = |at: &usize| arrivals[*at].iter().all(Option::is_none);
            let unknown: Vec<_> = self.each_present().filter(is_unknown).take(2).collect();
            for at in self.each_present() {
                let bounds = self.at_hop(number, at, &services[at], arrivals[at]);
                if bounds.delay_ns.is_none() && paths[at].bounds.unbounded.is_none() {
                    let reason =
                        self.reason(&case, &unknown, arrivals[at].iter().any(Option::is_some), at);
                    paths[at].bounds.unbounded = Some(format!("{reason} at `{}`", hop.name));
                }
                if case.is_ordered_by_deadline(at) {
                    paths[at].check_deadline(&case, hop, at, &services[at], &bounds);
                }
                let after_ns = if number + 1 < self.hops.len() { hop.delay_ns } else { 0 };
                let first = self.hops[0].link.wire().wire_bytes(self.limits[at].largest_bytes);
                arrivals[at] = self.output(number, at, &bounds, arrivals[at]);
                paths[at].append(bounds, after_ns, first);
            }
        }
        let is_series = self.is_series;
        let finish = |(at, path): (usize, Path)| {
            let together_ns = self.together_ns(at, &first);
            PathBounds { is_series, together_ns, ..path.finish() }
        };
        paths.into_iter().enumerate().map(finish).collect()
    }

    /// Returns the delay of a stream by what the others, which send `arrivals` into the first link,
    /// leave on all links together, ns; `None` for one link, with a rate cap or credits, or if
    /// packets have other lengths on some link.
    fn together_ns(&self, at: usize, arrivals: &[Arrivals]) -> Option<u64> {
        let streams = || self.each_present().map(|stream| &self.limits[stream]);
        let numbers = 0..self.hops.len();
        let is_plain = numbers.len() > 1
            && self.scenario.scheduler.structure != StructureName::Hilq
            && !streams().any(|of| of.gated)
            && !self.scenario.classes.iter().any(|class| class.contract.is_limited())
            && numbers
                .clone()
                .all(|number| self.each_present().all(|of| self.ratio(number, of) == Some((1, 1))));
        if !is_plain || !self.present[at] {
            return None;
        }
        // If every link serves in order, the same streams go before this one at each.
        let in_order = |hop: &Hop| match self.root(hop).discipline.guarantee {
            Guarantee::Delay(of) if self.scenario.classes.is_empty() => Some(of.may_precede),
            _ => None,
        };
        let orders: Option<Vec<_>> = self.hops.iter().map(in_order).collect();
        let own = &self.limits[at];
        let before = |of: &StreamLimits| {
            orders.as_ref().is_none_or(|all| all.iter().any(|order| order(own, of)))
        };
        let in_turn = |of: &StreamLimits| {
            let equal =
                |order: &fn(&StreamLimits, &StreamLimits) -> bool| order(own, of) && order(of, own);
            orders.as_ref().is_some_and(|all| all.iter().all(equal))
        };
        let wire = self.hops[0].link.wire();
        let largest = |counts: &dyn Fn(&StreamLimits) -> bool| {
            let lengths =
                streams().filter(|of| counts(of)).map(|of| wire.wire_bytes(of.largest_bytes));
            lengths.max().unwrap_or(0)
        };
        let (packet, lower) = (largest(&before), largest(&|of| !before(of)));
        let present: Vec<_> = streams().copied().collect();
        let curve = |number: usize| {
            let link = self.hops[number].link.wire();
            let rate_bps = Bounds::new(link, &present).effective_rate_bps();
            let after_ns = if number + 1 < numbers.len() { self.hops[number].delay_ns } else { 0 };
            let blocked = ServiceCurve { rate_bps, latency_ns: 0 }.guarantee(lower);
            ServiceCurve { latency_ns: blocked.latency_ns.saturating_add(after_ns), rate_bps }
        };
        let all = numbers.clone().map(curve).reduce(|one, next| one.then(next, packet))?;
        let by_bucket = |bucket: usize| {
            // Streams that may overtake this one, and those that every link serves in turn with it.
            let (mut higher, mut same) = (Source::default(), Source::default());
            for stream in self.each_present().filter(|stream| *stream != at) {
                let of = &self.limits[stream];
                if before(of) {
                    let sum = if in_turn(of) { &mut same } else { &mut higher };
                    *sum = sum.plus(arrivals[stream][bucket]?);
                }
            }
            let left = all.remainder(higher)?;
            let largest = wire.wire_bytes(own.largest_bytes);
            let known = || arrivals[at].iter().copied().flatten();
            let rate = left.in_order(same, largest);
            let by_rate = known().filter_map(|of| rate?.delay_ns(of)).min();
            let fits = |of: &Source| of.plus(same).rate_bps <= left.rate_bps;
            // In the order of arrival, a packet waits for no more than all bursts.
            let by_burst = |of: Source| left.guarantee(same.plus(of).burst_bytes).latency_ns;
            let in_order = known().filter(fits).map(by_burst).min().filter(|_| orders.is_some());
            by_rate.into_iter().chain(in_order).min()
        };
        [EVEN, MEAN].into_iter().filter_map(by_bucket).min().filter(|ns| *ns < u64::MAX)
    }

    /// Returns what a stream sends into the first link.
    fn first_arrivals(&self, at: usize, read: &OfferedLoads) -> Arrivals {
        let of = &self.scenario.streams[at];
        if !self.present[at] || of.source.reacts() || self.shared[at] {
            return self.idle(self.present[at]);
        }
        let fits = |source: &Source| self.means[at] <= source.rate_bps;
        read.streams[at].sources().map(|source| source.filter(fits))
    }

    /// Returns the bounds of a stream at link `number`.
    fn at_hop(&self, number: usize, at: usize, service: &Service, arrivals: Arrivals) -> AtHop {
        let known = || arrivals.iter().copied().flatten();
        let rates = service.rates.iter().enumerate();
        let rates = rates.filter_map(|(which, of)| {
            let of = self.on_first_wire(number, at, *of)?;
            let delay_ns = known().filter_map(|source| of.delay_ns(source)).min()?;
            (delay_ns < u64::MAX).then_some((delay_ns, which, of))
        });
        let best = rates.min_by_key(|(delay_ns, ..)| *delay_ns);
        let delay_ns = service.delay_ns.into_iter().chain(best.map(|(ns, ..)| ns)).min();
        let rate = best.map(|(.., of)| of);
        let backlog = |source: Source| {
            let by_delay = delay_ns.map(|ns| source.bytes_in(ns));
            by_delay.into_iter().chain(rate.and_then(|of| of.backlog_bytes(source))).min()
        };
        let backlog = known().filter_map(backlog).min();
        let least = self.hops[0].link.wire().wire_bytes(self.limits[at].smallest_bytes);
        let bytes = backlog.zip(self.ratio(number, at));
        AtHop {
            delay_ns,
            rate,
            is_independent: best.is_some_and(|(_, which, _)| which < service.independent),
            shown: HopBounds {
                link: self.hops[number].name.clone(),
                rate_bps: rate.map(|of| of.rate_bps),
                latency_ns: rate.map(|of| of.latency_ns),
                worst_delay_ns: delay_ns,
                worst_backlog_bytes: bytes
                    .map(|(bytes, (over, under))| scaled_up(bytes, over, under)),
                worst_backlog_packets: backlog.map(|bytes| bytes / least.max(1)),
            },
        }
    }

    /// Returns what a stream with these bounds at link `number` sends into the next link.
    fn output(&self, number: usize, at: usize, bounds: &AtHop, arrivals: Arrivals) -> Arrivals {
        let by_cap = self.output_of_cap(number, at);
        // Queue management drops packets of flows, and reorders them, within the link.
        if self.scenario.streams[at].contract.flow_options().is_some() {
            return [by_cap; BUCKETS];
        }
        let link = &self.hops[number].link;
        let shortest_ns = link.transmission_ns(self.limits[at].smallest_bytes);
        arrivals.map(|source| {
            let by_rate = source.and_then(|source| bounds.rate?.output(source));
            let by_delay = source.zip(bounds.delay_ns).map(|(source, ns)| Source {
                burst_bytes: source.bytes_in(ns.saturating_sub(shortest_ns)),
                ..source
            });
            by_rate.into_iter().chain(by_delay).min_by_key(|of| of.burst_bytes).or(by_cap)
        })
    }

    /// Returns what a rate cap lets a stream send from link `number`, whatever arrives there: that
    /// of the starts, since all packets that end in a time started in it and the difference of the
    /// longest and the shortest transmission.
    fn output_of_cap(&self, number: usize, at: usize) -> Option<Source> {
        let (of, link) = (&self.limits[at], self.hops[number].link.wire());
        let starts = of.starts(link)?;
        let (longest_ns, shortest_ns) =
            (link.transmission_ns(of.largest_bytes), link.transmission_ns(of.smallest_bytes));
        let (over, under) = ratio(link, self.hops[0].link.wire(), of)?;
        Some(Source {
            rate_bps: scaled_up(starts.rate_bps, over, under),
            burst_bytes: scaled_up(starts.bytes_in(longest_ns - shortest_ns), over, under),
        })
    }

    /// Returns why a stream has no bound at a link. `unknown` are the first streams with unknown
    /// arrivals; `is_known` is whether the stream's own are known.
    fn reason(&self, case: &HopCase, unknown: &[usize], is_known: bool, at: usize) -> String {
        let streams = &self.scenario.streams;
        if case.limits[at].gated {
            return "its rate cap or credits may hold it back for longer than can be bounded"
                .into();
        }
        match unknown.iter().find(|other| **other != at) {
            _ if !is_known => "what it sends has no bound".into(),
            Some(other) => format!(
                "`{}` may go before it, and what that sends is not known",
                streams[*other].name
            ),
            None => "it and the streams before it offer more than the link's rate".into(),
        }
    }
}

/// The bounds of a stream at one link, in bytes on the wire of the first link.
struct AtHop {
    delay_ns: Option<u64>,
    rate: Option<LatencyRate>,
    /// Whether the rate holds whatever others send.
    is_independent: bool,
    shown: HopBounds,
}

/// The way of a stream, link by link.
struct Path {
    first: Arrivals,
    sum_ns: Option<u64>,
    series: Option<LatencyRate>,
    is_independent: bool,
    bounds: PathBounds,
}

impl Path {
    fn new(first: Arrivals) -> Self {
        let bounds = PathBounds::default();
        Self { first, sum_ns: Some(0), series: None, is_independent: true, bounds }
    }

    /// Notes whether a link that orders by deadlines keeps those of a stream.
    fn check_deadline(
        &mut self,
        case: &HopCase,
        hop: &Hop,
        at: usize,
        service: &Service,
        bounds: &AtHop,
    ) {
        let of = &case.limits[at];
        let latest = self.bounds.first_arrival_ns.unwrap_or(0);
        self.bounds.first_arrival_ns = Some(latest.max(self.sum_ns.unwrap_or(u64::MAX)));
        let shortest_ns = hop.link.transmission_ns(of.smallest_bytes);
        let start_ns = bounds.delay_ns.map_or(u64::MAX, |ns| ns.saturating_sub(shortest_ns));
        if !service.keeps_deadlines && start_ns >= of.period_ns {
            self.bounds.late.get_or_insert((hop.name.clone(), start_ns));
        }
    }

    /// Adds the next link and the propagation after it; `largest` is the largest packet's length.
    fn append(&mut self, of: AtHop, after_ns: u64, largest: u64) {
        let sum = self.sum_ns.zip(of.delay_ns);
        self.sum_ns = sum.map(|(sum, ns)| sum.saturating_add(ns).saturating_add(after_ns));
        self.is_independent &= of.is_independent;
        // Without a rate, the link delays by as much as it may.
        let next = of.rate.or_else(|| Some(LatencyRate::of_delay(of.delay_ns?, u64::MAX)));
        let series = match (self.bounds.hops.is_empty(), self.series) {
            (true, _) => next,
            (false, before) => before.zip(next).map(|(before, next)| before.then(next, largest)),
        };
        self.series = series.map(|series| series.delayed(after_ns));
        self.bounds.hops.push(of.shown);
    }

    fn finish(self) -> PathBounds {
        let delay_ns = |series: LatencyRate| {
            let known = self.first.iter().copied().flatten();
            known.filter_map(|source| series.delay_ns(source)).min()
        };
        PathBounds {
            guaranteed_bps: self.series.filter(|_| self.is_independent).map(|of| of.rate_bps),
            sum_ns: self.sum_ns.filter(|ns| *ns < u64::MAX),
            series_ns: self.series.and_then(delay_ns).filter(|ns| *ns < u64::MAX),
            ..self.bounds
        }
    }
}

/// Returns ⌈`value` × `over` / `under`⌉, saturating.
fn scaled_up(value: u64, over: u64, under: u64) -> u64 {
    let scaled = (u128::from(value) * u128::from(over)).div_ceil(u128::from(under.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The most lengths of packets that are compared on two links.
const MOST_LENGTHS: u32 = 1 << 16;

/// Returns the greatest ratio of the lengths of a packet on two links; `None` if there are too many
/// lengths, or one is 0.
fn ratio(first: Link, then: Link, of: &StreamLimits) -> Option<(u64, u64)> {
    let same = first.overhead_bytes == then.overhead_bytes && first.framing == then.framing;
    if same {
        return Some((1, 1));
    }
    if of.largest_bytes - of.smallest_bytes > MOST_LENGTHS {
        return None;
    }
    let lengths = (of.smallest_bytes..=of.largest_bytes)
        .map(|bytes| (then.wire_bytes(bytes), first.wire_bytes(bytes)));
    if lengths.clone().any(|(_, under)| under == 0) {
        return None;
    }
    lengths.max_by(|one, other| compare(*one, *other))
}

fn compare(one: (u64, u64), other: (u64, u64)) -> Ordering {
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    product(one.0, other.1).cmp(&product(other.0, one.1))
}
