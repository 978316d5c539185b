//! Bounds in a tree of classes, by service curves from the root down.
//!
//! A class gets a share of its parent's service or, under a discipline without shares, what the
//! token buckets of its siblings leave. In a class of streams alone, the class's discipline keeps
//! its own bound, slowed by the class's rate: see [`millstream::bounds::ServiceCurve`].

use millstream::Link;
use millstream::bounds::{
    Bounds, Guarantee, LatencyRate, Lead, ServiceCurve, Share, Source, StreamLimits,
};

use crate::scenario::{Scenario, SchedulerConfig};

/// A child of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Child {
    Class(usize),
    Stream(usize),
}

/// The bounds of a stream in a tree.
pub(super) struct TreeBounds {
    /// Bits/s; `None` if the stream's class has no shares.
    pub(super) guaranteed_bps: Option<u64>,
    pub(super) delay_ns: u64,
    pub(super) backlog_bytes: u64,
}

/// A tree of classes with the limits of its streams.
pub(super) struct Tree<'a> {
    pub(super) scenario: &'a Scenario,
    /// A stream without a source may send without limit.
    pub(super) limits: &'a [StreamLimits],
    pub(super) link: Link,
    /// The longest busy period of the link, ns; `None` if unknown.
    pub(super) busy_ns: Option<u64>,
}

/// The children of a class with their limits, and the place of one of them.
struct Siblings {
    limits: Vec<StreamLimits>,
    at: usize,
}

impl Tree<'_> {
    /// Returns the guaranteed rate of a stream, whatever others send; `None` if a class on its path
    /// does not guarantee shares.
    pub(super) fn rate(&self, stream: usize) -> Option<LatencyRate> {
        let node = self.scenario.streams[stream].class;
        let Siblings { limits, at } = self.siblings(node, Child::Stream(stream));
        let class = self.service(node)?;
        let largest = self.link.wire_bytes(limits[at].largest_bytes);
        // The limits do not have the entries of a table.
        let row = self.scheduler(node).discipline;
        let guarantee = row.guarantee.rate().filter(|_| row.share != Share::Entries);
        if let Some(guarantee) = guarantee
            && !limits.iter().any(|of| of.is_class || of.gated && guarantee.others_ungated)
            && guarantee.lead != Lead::Unbounded
            && let Ok(own) = (guarantee.latency_rate)(&self.bounds(&limits), at)
        {
            let lead = if guarantee.lead == Lead::Packet { largest } else { 0 };
            return Some(class.slowed(own.behind(lead), self.link.rate_bps));
        }
        let curve = self.child(node, Child::Stream(stream))?;
        Some(curve.guarantee(largest))
    }

    /// Returns the bounds of a stream; `None` if its classes guarantee less than it offers.
    pub(super) fn of(&self, stream: usize) -> Option<TreeBounds> {
        let source = self.limits[stream].source?;
        let in_order = self.in_order_ns(stream).or_else(|| self.busy_ns_of_class(stream));
        let in_order = in_order.map(|delay_ns| TreeBounds {
            guaranteed_bps: None,
            delay_ns,
            backlog_bytes: source.burst_bytes.saturating_add(bytes_in(source.rate_bps, delay_ns)),
        });
        let rate = self.rate(stream).and_then(|rate| {
            Some(TreeBounds {
                guaranteed_bps: Some(rate.rate_bps),
                delay_ns: rate.delay_ns(source)?,
                backlog_bytes: rate.backlog_bytes(source)?,
            })
        });
        in_order.into_iter().chain(rate).min_by_key(|bounds| bounds.delay_ns)
    }

    /// Returns the longest busy period of a stream's class, in which each of its packets leaves,
    /// ns.
    fn busy_ns_of_class(&self, stream: usize) -> Option<u64> {
        let node = self.scenario.streams[stream].class;
        let Siblings { limits, .. } = self.siblings(node, Child::Stream(stream));
        let (mut rate_bps, mut bytes) = (0u64, 0u64);
        for of in limits {
            let source = of.source.filter(|_| !of.gated)?;
            rate_bps = rate_bps.saturating_add(source.rate_bps);
            bytes = bytes.saturating_add(source.burst_bytes);
        }
        Some(self.service(node)?.remainder(rate_bps, bytes)?.latency_ns)
    }

    /// Returns the delay of a stream whose class serves a common queue, or several by precedence,
    /// ns.
    fn in_order_ns(&self, stream: usize) -> Option<u64> {
        let node = self.scenario.streams[stream].class;
        let Guarantee::Delay(guarantee) = self.scheduler(node).discipline.guarantee else {
            return None;
        };
        let Siblings { limits, at } = self.siblings(node, Child::Stream(stream));
        if limits.iter().any(|of| of.is_class || of.gated) {
            return None;
        }
        let class = self.service(node)?;
        let link = Link { rate_bps: class.rate_bps, ..self.link };
        let own_ns = (guarantee.delay_ns)(&Bounds::new(link, &limits), at)?;
        Some(own_ns.saturating_add(class.latency_ns))
    }

    /// Returns the first class on the path of a stream that has a rate cap.
    pub(super) fn capped_class(&self, stream: usize) -> Option<usize> {
        let mut node = self.scenario.streams[stream].class;
        while let Some(class) = node {
            if self.scenario.classes[class].contract.is_limited() {
                return Some(class);
            }
            node = self.scenario.classes[class].parent;
        }
        None
    }

    /// Returns the service of a class, or of the root.
    fn service(&self, node: Option<usize>) -> Option<ServiceCurve> {
        let Some(class) = node else {
            let rate_bps = self.bounds(self.limits).effective_rate_bps();
            return Some(ServiceCurve { rate_bps, latency_ns: 0 });
        };
        self.child(self.scenario.classes[class].parent, Child::Class(class))
    }

    /// Returns the service of a child of `node`.
    fn child(&self, node: Option<usize>, child: Child) -> Option<ServiceCurve> {
        let class = self.service(node)?;
        let Siblings { limits, at } = self.siblings(node, child);
        let guarantee = self.scheduler(node).discipline.guarantee;
        let strict = guarantee.rate().and_then(|guarantee| guarantee.strict);
        if let Some(share) = strict.and_then(|strict| strict(&self.bounds(&limits), at)) {
            return class.share(share);
        }
        let may_precede = |other: &StreamLimits| match guarantee {
            Guarantee::Delay(guarantee) => (guarantee.may_precede)(&limits[at], other),
            _ => true,
        };
        let (mut rate_bps, mut bytes, mut in_service) = (0u64, 0u64, 0);
        for (_, other) in limits.iter().enumerate().filter(|(other, _)| *other != at) {
            if may_precede(other) {
                // A gate may hold packets back for longer than a busy period.
                if other.gated {
                    return None;
                }
                // What waits already when the child's backlog begins is at most a busy period old.
                let source = other.source?;
                let waiting = bytes_in(source.rate_bps, self.busy_ns?);
                rate_bps = rate_bps.saturating_add(source.rate_bps);
                bytes = bytes.saturating_add(source.burst_bytes).saturating_add(waiting);
            } else {
                in_service = in_service.max(self.link.wire_bytes(other.largest_bytes));
            }
        }
        class.remainder(rate_bps, bytes.saturating_add(in_service))
    }

    /// Returns the children of `node`, and the place of `child` among them.
    fn siblings(&self, node: Option<usize>, child: Child) -> Siblings {
        let classes = self.scenario.classes.iter().enumerate();
        let classes = classes.filter(|(_, of)| of.parent == node).map(|(at, _)| Child::Class(at));
        let streams = self.scenario.streams.iter().enumerate();
        let streams = streams.filter(|(_, of)| of.class == node).map(|(at, _)| Child::Stream(at));
        let all: Vec<_> = classes.chain(streams).collect();
        let at = all.iter().position(|of| *of == child).unwrap_or(0);
        Siblings { limits: all.into_iter().map(|of| self.limits_of(of)).collect(), at }
    }

    /// Returns the limits of a child. A class has the packets of all streams below it.
    fn limits_of(&self, child: Child) -> StreamLimits {
        let class = match child {
            Child::Stream(stream) => return self.limits[stream],
            Child::Class(class) => class,
        };
        let contract = &self.scenario.classes[class].contract;
        let mut sum = Some(Source::default());
        let (mut smallest, mut largest, mut gated) = (u32::MAX, 0, contract.is_limited());
        let below = (0..self.limits.len()).filter(|stream| self.is_below(*stream, class));
        for of in below.map(|stream| &self.limits[stream]) {
            smallest = smallest.min(of.smallest_bytes);
            largest = largest.max(of.largest_bytes);
            gated |= of.gated;
            sum = sum.zip(of.source).map(|(sum, source)| Source {
                rate_bps: sum.rate_bps.saturating_add(source.rate_bps),
                burst_bytes: sum.burst_bytes.saturating_add(source.burst_bytes),
            });
        }
        StreamLimits {
            source: sum,
            gated,
            is_class: true,
            ..StreamLimits::of(contract, smallest.min(largest), largest)
        }
    }

    fn is_below(&self, stream: usize, class: usize) -> bool {
        let mut node = self.scenario.streams[stream].class;
        while let Some(at) = node {
            if at == class {
                return true;
            }
            node = self.scenario.classes[at].parent;
        }
        false
    }

    fn scheduler(&self, node: Option<usize>) -> &SchedulerConfig {
        node.map_or(&self.scenario.scheduler, |class| &self.scenario.classes[class].scheduler)
    }

    fn bounds<'b>(&self, limits: &'b [StreamLimits]) -> Bounds<'b> {
        Bounds { busy_ns: self.busy_ns, ..Bounds::new(self.link, limits) }
    }
}

/// Returns the bytes that arrive at a rate in `ns`, rounded up.
pub(super) fn bytes_in(rate_bps: u64, ns: u64) -> u64 {
    let bytes = (u128::from(rate_bps) * u128::from(ns)).div_ceil(8_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
