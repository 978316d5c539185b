//! Bounds at one link of several in series.
//!
//! Every link of a direction has the same streams. A stream's bounds at a link come from the
//! discipline, from what the other streams may send into it, or from the line before it, which
//! sends no faster than its rate.

use millstream::bounds::{
    Bounds, Condition, CreditWindow, DelayGuarantee, Gated, Guarantee, LatencyRate, RateGuarantee,
    ServiceCurve, Share, Source, StreamLimits, Theorem,
};
use millstream::{CREDIT_BYTES, Link};

use super::super::analysis::below;
use super::super::deadlines;
use super::super::offered::{EVEN, MEAN};
use super::super::tree::{Tree, demand_of_all};
use super::Arrivals;
use crate::scenario::{Scenario, SchedulerConfig};

/// One link, and what arrives there.
pub(super) struct HopCase<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) root: &'a SchedulerConfig,
    pub(super) link: Link,
    /// The streams, without sources.
    pub(super) limits: Vec<StreamLimits>,
    /// All buckets of each stream's arrivals.
    pub(super) arrivals: Vec<Arrivals>,
    /// What all packets together conform to, since they come from one line.
    pub(super) line: Option<Source>,
    /// The longest busy period of the link, ns, if it is known from elsewhere.
    pub(super) busy_ns: Option<u64>,
}

/// What a link guarantees to a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    /// Rates and latencies that all hold.
    pub(super) rates: Vec<LatencyRate>,
    /// The number of those, the first ones, that hold whatever other streams send.
    pub(super) independent: usize,
    /// The worst delay by other means, ns.
    pub(super) delay_ns: Option<u64>,
    /// Whether every deadline at this link is kept.
    pub(super) keeps_deadlines: bool,
}

impl Service {
    fn independent(rate: LatencyRate) -> Self {
        Self { rates: vec![rate], independent: 1, ..Self::default() }
    }

    /// Adds what also holds.
    fn merge(&mut self, other: Self) {
        let place = self.independent..self.independent;
        let (independent, more) = other.rates.split_at(other.independent);
        self.rates.splice(place, independent.iter().copied());
        self.rates.extend(more);
        self.independent += other.independent;
        self.limit(other.delay_ns);
        self.keeps_deadlines |= other.keeps_deadlines;
    }

    /// Adds a bound on the delay.
    fn limit(&mut self, delay_ns: Option<u64>) {
        self.delay_ns = self.delay_ns.into_iter().chain(delay_ns).min();
    }
}

impl HopCase<'_> {
    /// Returns what the link guarantees to each stream.
    ///
    /// A gate without effect is left out. None has an effect if its burst holds σ + c·D of each
    /// stream, or its credits all packets of D and their return, where D is the stream's delay:
    /// while no gate has held a packet, the bounds without gates hold, and the next packet arrives
    /// when its gate is open.
    pub(super) fn services(&self) -> Vec<Service> {
        let mut open = vec![true; self.limits.len()];
        let mut services = loop {
            let services = self.services_beside(&open, &vec![None; open.len()]);
            let closes = |at: &usize| {
                self.limits[*at].gated && open[*at] && !self.is_open(*at, &services[*at])
            };
            let closing: Vec<_> = (0..open.len()).filter(closes).collect();
            if closing.is_empty() {
                break services;
            }
            closing.into_iter().for_each(|at| open[at] = false);
        };
        if open.iter().any(|open| !open) {
            // What such a stream starts is what arrived, later by no more than its delay.
            let held = |at: usize| self.starts_by(&services[at], at).filter(|_| !open[at]);
            let held: Vec<_> = (0..open.len()).map(held).collect();
            let more = self.services_beside(&open, &held);
            services.iter_mut().zip(more).for_each(|(service, more)| service.merge(more));
        }
        services
    }

    /// Returns what the link guarantees to each stream from sums of buckets: those that together
    /// use the link, and the slowest ones. Gated streams start no more than `held`, if it is known.
    fn services_beside(&self, open: &[bool], held: &[Option<Source>]) -> Vec<Service> {
        let mut services = self.services_with(open, held, EVEN);
        let slow = self.services_with(open, held, MEAN);
        services.iter_mut().zip(slow).for_each(|(service, slow)| service.merge(slow));
        services
    }

    /// Returns the delay of a stream with this service, ns.
    fn delay_ns(&self, at: usize, service: &Service) -> Option<u64> {
        let known = || self.arrivals[at].into_iter().flatten();
        let by_rate = |rate: &LatencyRate| known().filter_map(|of| rate.delay_ns(of)).min();
        service.rates.iter().filter_map(by_rate).chain(service.delay_ns).min()
    }

    /// Returns what a stream with this service may start in any time, from its slowest bucket.
    fn starts_by(&self, service: &Service, at: usize) -> Option<Source> {
        let (source, delay_ns) = self.arrivals[at][MEAN].zip(self.delay_ns(at, service))?;
        Some(Source { burst_bytes: source.bytes_in(delay_ns), ..source })
    }

    /// Returns whether a stream's gate never holds back a packet.
    fn is_open(&self, at: usize, service: &Service) -> bool {
        let delay_ns = self.delay_ns(at, service);
        delay_ns.is_some_and(|ns| self.cap_is_open(at, ns) && self.has_credits(at, ns))
    }

    /// Returns whether the rate cap of a stream never holds back a packet, if none is delayed for
    /// longer than `delay_ns`.
    fn cap_is_open(&self, at: usize, delay_ns: u64) -> bool {
        let Some(cap) = self.limits[at].cap else { return true };
        let known = self.arrivals[at].into_iter().flatten();
        let mut slow = known.filter(|source| source.rate_bps <= cap.rate_bps);
        // One more, since caps open at whole ns.
        slow.any(|source| {
            let bucket = Source { burst_bytes: source.burst_bytes, ..cap };
            bucket.bytes_in(delay_ns.saturating_add(1)) <= cap.burst_bytes
        })
    }

    /// Returns whether a stream has credits for every packet, if none is delayed for longer than
    /// `delay_ns`.
    fn has_credits(&self, at: usize, delay_ns: u64) -> bool {
        let Some(CreditWindow { packets, return_ns }) = self.credits(at) else { return true };
        let least = self.link.wire_bytes(self.limits[at].smallest_bytes).max(1);
        let until_ns = delay_ns.saturating_add(return_ns);
        let mut known = self.arrivals[at].into_iter().flatten();
        known.any(|source| source.bytes_in(until_ns) / least <= packets)
    }

    /// Returns the packets of a stream for which the receiver has credits; `None` without credits.
    fn credits(&self, at: usize) -> Option<CreditWindow> {
        let credits = self.scenario.streams[at].contract.initial_credits()?;
        let of_packet = u64::from(self.limits[at].largest_bytes.div_ceil(CREDIT_BYTES).max(1));
        let return_ns = self.scenario.link.credits.as_ref().map_or(0, |of| of.return_delay_ns);
        Some(CreditWindow { packets: credits / of_packet, return_ns })
    }

    /// Returns what the link guarantees to each stream if the caps of `open` have no effect, from
    /// this bucket of each.
    fn services_with(&self, open: &[bool], held: &[Option<Source>], bucket: usize) -> Vec<Service> {
        let mut limits = self.limits.clone();
        for (at, of) in limits.iter_mut().enumerate() {
            of.source = self.arrivals[at][bucket];
            of.gated &= !open[at];
            // What a cap holds back may arrive at once, but does not start at once.
            if of.gated {
                let starts = of.starts(self.link).into_iter().chain(held[at]);
                of.source = starts.min_by_key(|of| of.rate_bps);
            }
        }
        let any_gate = limits.iter().any(|of| of.gated)
            || self.scenario.classes.iter().any(|class| class.contract.is_limited());
        let mut of = OpenCase { case: self, limits, any_gate, total: None, busy_ns: None };
        of.total = of.total();
        of.busy_ns = of.busy_period_ns();
        of.services()
    }

    /// Returns whether the parent of a stream orders it by a deadline that it may miss.
    pub(super) fn is_ordered_by_deadline(&self, stream: usize) -> bool {
        deadlines::is_ordered_by_deadline_under(self.scenario, self.root, stream)
    }
}

/// A link with a choice of caps that have no effect.
struct OpenCase<'a> {
    case: &'a HopCase<'a>,
    /// The streams; the source of a gated one is what it may start.
    limits: Vec<StreamLimits>,
    any_gate: bool,
    /// What the streams may be served in a busy period of the link, if that is bounded.
    total: Option<Total>,
    busy_ns: Option<u64>,
}

/// What all streams together may be served in a busy period.
#[derive(Clone, Copy)]
struct Total {
    /// The sum of the streams with known sources.
    known: Source,
    /// The stream with an unknown source, if there is one. There are never several.
    unknown: Option<usize>,
}

impl OpenCase<'_> {
    fn bounds(&self) -> Bounds<'_> {
        Bounds { busy_ns: self.busy_ns, ..Bounds::new(self.case.link, &self.limits) }
    }

    fn services(&self) -> Vec<Service> {
        let HopCase { scenario, root, link, .. } = *self.case;
        let bounds = self.bounds();
        let tree = (!scenario.classes.is_empty())
            .then(|| Tree::new(scenario, root, &self.limits, link, self.busy_ns));
        let edf = self.keeps_all_deadlines();
        let whole = ServiceCurve { rate_bps: bounds.effective_rate_bps(), latency_ns: 0 };
        let of = |stream: usize| {
            let mut service = match (&tree, root.discipline.guarantee) {
                (Some(tree), _) => self.in_tree(tree, stream),
                (None, Guarantee::Rate(guarantee)) => self.by_rate(&guarantee, stream),
                (None, Guarantee::Delay(guarantee)) => self.in_order(&guarantee, stream),
                (None, Guarantee::Deadlines(_)) if edf => self.by_deadlines(stream),
                (None, Guarantee::BelowManagement) => self.beside_management(stream),
                _ => Service::default(),
            };
            if !self.limits[stream].gated && !self.is_below_cap(stream) {
                service.limit(self.busy_ns);
            }
            let left = self.left(whole, stream);
            service.rates.extend(left.and_then(|left| self.gated(stream, left)));
            service
        };
        (0..self.limits.len()).map(of).collect()
    }

    /// Returns what the streams may be served; `None` if several sources are unknown, or the sum
    /// saturates.
    fn total(&self) -> Option<Total> {
        let mut unknown = (0..self.limits.len()).filter(|at| self.limits[*at].source.is_none());
        let (one, two) = (unknown.next(), unknown.next());
        if two.is_some() {
            return None;
        }
        let mut limits = self.limits.clone();
        if let Some(one) = one {
            limits[one].source = Some(Source::default());
        }
        let known = demand_of_all(self.case.scenario, &limits, self.case.link)?;
        let saturates = known.burst_bytes == u64::MAX || known.rate_bps == u64::MAX;
        (!saturates).then_some(Total { known, unknown: one })
    }

    /// Returns what all streams may be served, if all sources are known.
    fn total_of_all(&self) -> Option<Source> {
        self.total.filter(|total| total.unknown.is_none()).map(|total| total.known)
    }

    /// Returns whether a class above a stream has a rate cap.
    fn is_below_cap(&self, stream: usize) -> bool {
        let scenario = self.case.scenario;
        scenario.classes_above(stream).any(|of| scenario.classes[of].contract.is_limited())
    }

    /// Returns the longest time for which the link has packets that no gate holds back, ns.
    fn busy_period_ns(&self) -> Option<u64> {
        let rate_bps = self.bounds().effective_rate_bps();
        let link = ServiceCurve { rate_bps, latency_ns: 0 };
        let served = |all: Source| link.remainder(all).map(|left| left.latency_ns);
        let measured = self.case.line.and_then(served).into_iter().chain(self.case.busy_ns);
        let measured = measured.filter(|_| !self.any_gate);
        self.total_of_all().and_then(served).into_iter().chain(measured).min()
    }

    /// Returns the service of a stream under a discipline that shares the link.
    fn by_rate(&self, guarantee: &RateGuarantee, stream: usize) -> Service {
        let gated = |other: usize| self.limits[other].gated;
        if guarantee.others_ungated && (0..self.limits.len()).any(gated) {
            return Service::default();
        }
        // Beside caps, a clock may run on while the link waits.
        let busy_ns = if self.any_gate { self.case.busy_ns } else { self.busy_ns };
        let rate = (guarantee.latency_rate)(&Bounds { busy_ns, ..self.bounds() }, stream).ok();
        let rate = rate.and_then(|rate| self.gated(stream, rate));
        rate.map(Service::independent).unwrap_or_default()
    }

    /// Returns the guarantee of a stream under its own gate, if it has one; this is the guarantee
    /// that it has while the gate is open.
    fn gated(&self, stream: usize, rate: LatencyRate) -> Option<LatencyRate> {
        let own = &self.limits[stream];
        if !own.gated {
            return Some(rate);
        }
        let gated = Gated::of(own, self.case.link);
        Gated { credits: self.case.credits(stream), ..gated }.guarantee(rate)
    }

    /// Returns the service of a management channel, which waits for one packet in service, or of a
    /// stream below one.
    fn beside_management(&self, stream: usize) -> Service {
        let HopCase { scenario, link, .. } = *self.case;
        let channels = (0..self.limits.len()).filter(|at| scenario.streams[*at].contract.is_fmc());
        let channels: Vec<_> = channels.collect();
        let discipline = self.case.root.discipline.below(&self.case.root.options);
        let Some(guarantee) = discipline.and_then(|row| row.guarantee.rate()) else {
            return Service::default();
        };
        let rate = match channels[..] {
            [] => return self.by_rate(&guarantee, stream),
            [channel] if channel == stream => {
                let others = self.limits.iter().enumerate().filter(|(at, _)| *at != stream);
                let in_service = others.map(|(_, of)| link.wire_bytes(of.largest_bytes)).max();
                let burst = Source { rate_bps: 0, burst_bytes: in_service.unwrap_or(0) };
                let rate_bps = self.bounds().effective_rate_bps();
                let left = ServiceCurve { rate_bps, latency_ns: 0 }.remainder(burst);
                left.map(|left| left.guarantee(link.wire_bytes(self.limits[stream].largest_bytes)))
            }
            [channel] if !guarantee.others_ungated => {
                below(scenario, &self.bounds(), &guarantee, channel, stream).ok()
            }
            _ => None,
        };
        let rate = rate.and_then(|rate| self.gated(stream, rate));
        rate.map(Service::independent).unwrap_or_default()
    }

    /// Returns the service of a stream under FIFO or static priority. What a cap holds back has
    /// arrived earlier than other packets, and goes before them later; so do others before what
    /// the stream's own cap holds back.
    fn in_order(&self, guarantee: &DelayGuarantee, stream: usize) -> Service {
        let own = &self.limits[stream];
        let (mut same, mut higher) = (Some(Source::default()), Some(Source::default()));
        let (mut lower_bytes, mut all_equal) = (0, true);
        for (_, other) in self.limits.iter().enumerate().filter(|(at, _)| *at != stream) {
            let add = |sum: Option<Source>| Some(sum?.plus(other.source?));
            if !(guarantee.may_precede)(own, other) {
                lower_bytes = lower_bytes.max(self.case.link.wire_bytes(other.largest_bytes));
                all_equal = false;
            } else if own.gated || other.gated || !(guarantee.may_precede)(other, own) {
                higher = add(higher);
                all_equal = false;
            } else {
                same = add(same);
            }
        }
        let mut service = Service::default();
        let rate_bps = self.bounds().effective_rate_bps();
        let link = ServiceCurve { rate_bps, latency_ns: 0 };
        let burst = |burst_bytes| Source { rate_bps: 0, burst_bytes };
        let largest = self.case.link.wire_bytes(own.largest_bytes);
        if own.gated {
            let left = higher.and_then(|of| link.remainder(of.plus(burst(lower_bytes))));
            let rate = left.map(|left| left.guarantee(largest));
            service.rates.extend(rate.and_then(|rate| self.gated(stream, rate)));
            return service;
        }
        // Packets are served in the order in which the line delivers them.
        if let Some(line) = self.case.line.filter(|_| all_equal) {
            let waits = match self.total_of_all() {
                Some(total) => total.burst_of_both(line, rate_bps),
                None => (line.rate_bps <= rate_bps).then_some(line.burst_bytes),
            };
            let served = waits.and_then(|bytes| link.remainder(burst(bytes)));
            service.limit(served.map(|left| left.latency_ns));
        }
        let Some((higher, same)) = higher.zip(same) else { return service };
        let before = higher.plus(burst(lower_bytes));
        if let Some(all) = own.source.map(|source| before.plus(same).plus(source))
            && all.rate_bps <= rate_bps
        {
            let served = link.remainder(Source { rate_bps: higher.rate_bps, ..all });
            service.limit(served.map(|left| left.latency_ns));
        }
        let left = link.remainder(before);
        service.rates.extend(left.and_then(|left| left.in_order(same, largest)));
        service
    }

    /// Returns the service of a stream that meets every deadline. A packet then starts within a
    /// period of its arrival or, if that is later, of the previous packet's deadline.
    fn by_deadlines(&self, stream: usize) -> Service {
        let (of, link) = (&self.limits[stream], self.case.link);
        let bits = u128::from(link.wire_bytes(of.smallest_bytes)) * 8_000_000_000;
        let rate_bps = bits / u128::from(of.period_ns.max(1));
        let rate_bps = u64::try_from(rate_bps).unwrap_or(u64::MAX);
        let mut service = Service { keeps_deadlines: true, ..Service::default() };
        if rate_bps > 0 {
            let latency_ns = link.transmission_ns(of.largest_bytes);
            let rate = ServiceCurve { rate_bps, latency_ns };
            service.rates.push(rate.guarantee(link.wire_bytes(of.largest_bytes)));
            service.independent = 1;
        }
        service
    }

    /// Returns whether the demand criterion of EDF holds for all streams.
    fn keeps_all_deadlines(&self) -> bool {
        let SchedulerConfig { discipline, structure, options } = self.case.root;
        let Some(guarantee) = discipline.guarantee.deadlines() else { return false };
        let theorem = Theorem::EdfDemand;
        let covered = guarantee.theorems.contains(&theorem)
            && guarantee.settings.is_none_or(|check| check(options, *structure, theorem).is_none());
        // Each stream's own queue is checked apart.
        covered
            && self.case.scenario.classes.is_empty()
            && self.limits.iter().all(|of| of.first_deadline_ns.is_none())
            && self
                .bounds()
                .prove(theorem)
                .iter()
                .all(|checked| checked.failing.is_none() || checked.condition == Condition::Queues)
    }

    /// Returns the service of a stream in a tree of classes.
    fn in_tree(&self, tree: &Tree, stream: usize) -> Service {
        let rate = tree.rate(stream).and_then(|rate| self.gated(stream, rate));
        let mut service = rate.map(Service::independent).unwrap_or_default();
        if self.limits[stream].gated {
            return service;
        }
        service.rates.extend(tree.in_order(stream));
        service.delay_ns = tree.of(stream).map(|bounds| bounds.delay_ns);
        service
    }

    /// Returns what the other streams leave to a stream of the `whole` link under any discipline.
    fn left(&self, whole: ServiceCurve, stream: usize) -> Option<LatencyRate> {
        let Total { known, unknown } = self.total?;
        // Below a capped class, its part of the total is not its source.
        if unknown.is_some_and(|unknown| unknown != stream) || self.is_below_cap(stream) {
            return None;
        }
        let own = self.limits[stream].source.unwrap_or_default();
        let others = Source {
            rate_bps: known.rate_bps - own.rate_bps,
            burst_bytes: known.burst_bytes - own.burst_bytes,
        };
        let largest = self.case.link.wire_bytes(self.limits[stream].largest_bytes);
        whole.remainder(others)?.in_order(Source::default(), largest)
    }
}

/// Replaces the weights by the entries of the root's table, if it has one.
pub(in super::super) fn weigh_by_entries(
    scenario: &Scenario,
    root: &SchedulerConfig,
    limits: &mut [StreamLimits],
) {
    if root.discipline.share == Share::Entries && scenario.classes.is_empty() {
        limits.iter_mut().for_each(|stream| stream.weight = 0);
        for entry in &root.options.table {
            limits[entry.0 as usize].weight += 1;
        }
    }
}
