//! Bounds in a tree of classes, by service curves from the root down.
//!
//! A class gets a share of its parent's service or, under a discipline without shares, what the
//! token buckets of its siblings leave. In a class of streams alone, the class's discipline keeps
//! its own bound, slowed by the class's rate: see [`millstream::bounds::ServiceCurve`].

use millstream::Link;
use millstream::bounds::{
    Bounds, Gated, Guarantee, LatencyRate, Lead, ServiceCurve, Share, Source, StreamLimits,
};

use crate::scenario::{Class, Scenario, SchedulerConfig};

/// The bounds of a stream in a tree.
pub(super) struct TreeBounds {
    /// Bits/s; `None` if the stream's class has no shares.
    pub(super) guaranteed_bps: Option<u64>,
    pub(super) delay_ns: u64,
    pub(super) backlog_bytes: u64,
}

/// A tree of classes.
pub(super) struct Tree<'a> {
    link: Link,
    busy_ns: Option<u64>,
    /// The root, then the classes.
    nodes: Vec<Node<'a>>,
    /// The place of each stream.
    places: Vec<Place>,
}

/// The root or a class.
struct Node<'a> {
    scheduler: &'a SchedulerConfig,
    children: Vec<StreamLimits>,
    /// `None` if no service is guaranteed.
    service: Option<ServiceCurve>,
}

/// A position among the children of a node.
#[derive(Clone, Copy)]
struct Place {
    node: usize,
    child: usize,
}

impl<'a> Tree<'a> {
    /// Returns the tree of a scenario under `root`. A stream without a source may send without
    /// limit; that of a stream behind a gate is what may start. `busy_ns` is the longest busy
    /// period of the link; `None` if unknown.
    pub(super) fn new(
        scenario: &'a Scenario,
        root: &'a SchedulerConfig,
        streams: &[StreamLimits],
        link: Link,
        busy_ns: Option<u64>,
    ) -> Self {
        let rate_bps = Bounds::new(link, streams).effective_rate_bps();
        let service = ServiceCurve { rate_bps, latency_ns: 0 };
        let schedulers = scenario.classes.iter().map(|class| &class.scheduler);
        let node = |scheduler| Node { scheduler, children: Vec::new(), service: None };
        let nodes = std::iter::once(root).chain(schedulers).map(node).collect();
        let mut tree = Self { link, busy_ns, nodes, places: Vec::new() };
        let of_classes = limits_of_classes(scenario, streams, link);
        let parents = scenario.classes.iter().map(|class| class.parent);
        let classes: Vec<_> =
            parents.zip(&of_classes).map(|(parent, of)| tree.push(parent, of)).collect();
        let parents = scenario.streams.iter().map(|stream| stream.class);
        tree.places = parents.zip(streams).map(|(parent, of)| tree.push(parent, of)).collect();
        tree.nodes[0].service = Some(service);
        // Parents come before their children.
        for (class, place) in classes.into_iter().enumerate() {
            let gated = Gated::of(&of_classes[class], link);
            tree.nodes[1 + class].service =
                tree.service(place).and_then(|uncapped| gated.class_curve(uncapped));
        }
        tree
    }

    fn push(&mut self, parent: Option<usize>, of: &StreamLimits) -> Place {
        let node = parent.map_or(0, |class| 1 + class);
        let children = &mut self.nodes[node].children;
        children.push(*of);
        Place { node, child: children.len() - 1 }
    }

    /// Returns the guaranteed rate of a stream, whatever others send; `None` if a class on its path
    /// does not guarantee shares.
    pub(super) fn rate(&self, stream: usize) -> Option<LatencyRate> {
        let place = self.places[stream];
        let Node { scheduler, children, service } = &self.nodes[place.node];
        let largest = self.link.wire_bytes(children[place.child].largest_bytes);
        // The limits do not have the entries of a table.
        let row = scheduler.discipline;
        let guarantee = row.guarantee.rate().filter(|_| row.share != Share::Entries);
        if let Some(guarantee) = guarantee
            && !children.iter().any(|of| of.is_class || of.gated && guarantee.others_ungated)
            && guarantee.lead != Lead::Unbounded
            && let Ok(own) = (guarantee.latency_rate)(&self.bounds(children), place.child)
        {
            let lead = if guarantee.lead == Lead::Packet { largest } else { 0 };
            return Some((*service)?.slowed(own.behind(lead), self.link.rate_bps));
        }
        Some(self.service(place)?.guarantee(largest))
    }

    /// Returns the bounds of a stream; `None` if its classes guarantee less than it offers.
    pub(super) fn of(&self, stream: usize) -> Option<TreeBounds> {
        let place = self.places[stream];
        let source = self.nodes[place.node].children[place.child].source?;
        let in_order = self.in_order_ns(place).or_else(|| self.busy_ns_of_class(place));
        let in_order = in_order.map(|delay_ns| TreeBounds {
            guaranteed_bps: None,
            delay_ns,
            backlog_bytes: source.bytes_in(delay_ns),
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

    /// Returns the longest busy period of a stream's class, ns: each of its packets leaves in one.
    fn busy_ns_of_class(&self, place: Place) -> Option<u64> {
        let Node { children, service, .. } = &self.nodes[place.node];
        let mut all = Source::default();
        for of in children {
            all = all.plus(demand(of, self.link)?);
        }
        Some((*service)?.remainder(all)?.latency_ns)
    }

    /// Returns the longest time for which a stream that conforms to `source` has packets, ns: each
    /// of them leaves in such a time, in any order. The stream counts as a class of its own.
    pub(super) fn backlogged_ns(&self, stream: usize, source: Source) -> Option<u64> {
        Some(self.service_of(stream)?.remainder(source)?.latency_ns)
    }

    /// Returns the service of a stream at any instant while it has packets, as of a class.
    pub(super) fn service_of(&self, stream: usize) -> Option<ServiceCurve> {
        self.service(self.places[stream])
    }

    /// Returns the rate that FIFO or static priority leave to a stream in a class of streams alone.
    pub(super) fn in_order(&self, stream: usize) -> Option<LatencyRate> {
        let place = self.places[stream];
        let Node { scheduler, children, service } = &self.nodes[place.node];
        let Guarantee::Delay(guarantee) = scheduler.discipline.guarantee else { return None };
        if children.iter().any(|of| of.is_class) {
            return None;
        }
        let own = &children[place.child];
        let (mut same, mut higher, mut lower) = (Source::default(), Source::default(), 0);
        for (_, other) in children.iter().enumerate().filter(|(at, _)| *at != place.child) {
            if !(guarantee.may_precede)(own, other) {
                lower = lower.max(self.link.wire_bytes(other.largest_bytes));
            } else if !other.gated && !own.gated && (guarantee.may_precede)(other, own) {
                same = same.plus(other.source?);
            } else {
                higher = higher.plus(demand(other, self.link)?);
            }
        }
        let before = higher.plus(Source { rate_bps: 0, burst_bytes: lower });
        (*service)?.remainder(before)?.in_order(same, self.link.wire_bytes(own.largest_bytes))
    }

    /// Returns the delay under FIFO or static priority in a class of streams alone, ns.
    fn in_order_ns(&self, place: Place) -> Option<u64> {
        let Node { scheduler, children, service } = &self.nodes[place.node];
        let Guarantee::Delay(guarantee) = scheduler.discipline.guarantee else { return None };
        if children.iter().any(|of| of.is_class || of.gated) {
            return None;
        }
        let class = (*service)?;
        let link = Link { rate_bps: class.rate_bps, ..self.link };
        let own_ns = (guarantee.delay_ns)(&Bounds::new(link, children), place.child)?;
        Some(own_ns.saturating_add(class.latency_ns))
    }

    /// Returns the service of a child.
    fn service(&self, place: Place) -> Option<ServiceCurve> {
        let Node { scheduler, children, service } = &self.nodes[place.node];
        let class = (*service)?;
        let guarantee = scheduler.discipline.guarantee;
        let strict = guarantee.rate().and_then(|guarantee| guarantee.strict);
        if let Some(share) = strict.and_then(|strict| strict(&self.bounds(children), place.child)) {
            return class.share(share);
        }
        let may_precede = |other: &StreamLimits| match guarantee {
            Guarantee::Delay(of) => (of.may_precede)(&children[place.child], other),
            _ => true,
        };
        let (mut before, mut in_service) = (Source::default(), 0);
        for (_, other) in children.iter().enumerate().filter(|(at, _)| *at != place.child) {
            if may_precede(other) {
                before = before.plus(self.taken(other)?);
            } else {
                in_service = in_service.max(self.link.wire_bytes(other.largest_bytes));
            }
        }
        class.remainder(before.plus(Source { rate_bps: 0, burst_bytes: in_service }))
    }

    /// Returns what a child may be served in a time that begins at any instant.
    fn taken(&self, child: &StreamLimits) -> Option<Source> {
        let demand = demand(child, self.link)?;
        if demand == Source::default() {
            return Some(demand);
        }
        // A packet may be in service.
        let in_service = if child.gated { self.link.wire_bytes(child.largest_bytes) } else { 0 };
        // Without a gate of its own, what waits already is at most a busy period old.
        let is_behind_gate = child.gated && (!child.is_class || child.cap.is_some());
        let before_ns = if is_behind_gate { 0 } else { self.busy_ns? };
        let burst_bytes = demand.bytes_in(before_ns).saturating_add(in_service);
        Some(Source { burst_bytes, ..demand })
    }

    fn bounds<'b>(&self, children: &'b [StreamLimits]) -> Bounds<'b> {
        Bounds { busy_ns: self.busy_ns, ..Bounds::new(self.link, children) }
    }
}

/// Returns what a child may be served from the beginning of a busy period of its parent; the source
/// of a stream behind a gate is what may start.
fn demand(child: &StreamLimits, link: Link) -> Option<Source> {
    if !child.is_class || child.cap.is_none() {
        return child.source;
    }
    // It may start a packet that is longer than the estimate.
    let more = link.wire_bytes(child.largest_bytes);
    child.starts(link).map(|of| Source { burst_bytes: of.burst_bytes.saturating_add(more), ..of })
}

/// Returns what the streams, with sources as for [`Tree::new`], may be served from the beginning of
/// a busy period of the link; `None` if that is not bounded.
pub(super) fn demand_of_all(
    scenario: &Scenario,
    streams: &[StreamLimits],
    link: Link,
) -> Option<Source> {
    let classes = limits_of_classes(scenario, streams, link);
    let classes = scenario.classes.iter().zip(&classes);
    let classes = classes.filter(|(class, _)| class.parent.is_none()).map(|(_, of)| of);
    let streams = scenario.streams.iter().zip(streams);
    let streams = streams.filter(|(stream, _)| stream.class.is_none()).map(|(_, of)| of);
    let mut children = classes.chain(streams);
    children.try_fold(Source::default(), |sum, child| Some(sum.plus(demand(child, link)?)))
}

/// Returns the limits of the classes. A class has the packets of all streams below it.
fn limits_of_classes(
    scenario: &Scenario,
    streams: &[StreamLimits],
    link: Link,
) -> Vec<StreamLimits> {
    let empty = |class: &Class| StreamLimits {
        is_class: true,
        source: Some(Source::default()),
        ..StreamLimits::of(&class.contract, u32::MAX, 0)
    };
    let mut classes: Vec<_> = scenario.classes.iter().map(empty).collect();
    let add = |class: &mut StreamLimits, of: &StreamLimits| {
        class.smallest_bytes = class.smallest_bytes.min(of.smallest_bytes);
        class.largest_bytes = class.largest_bytes.max(of.largest_bytes);
        class.gated |= of.gated;
        class.source = class.source.zip(demand(of, link)).map(|(sum, source)| sum.plus(source));
    };
    for (stream, of) in scenario.streams.iter().zip(streams) {
        if let Some(class) = stream.class {
            add(&mut classes[class], of);
        }
    }
    // Children come after their parents.
    for (class, of) in scenario.classes.iter().enumerate().rev() {
        if let Some(parent) = of.parent {
            let below = classes[class];
            add(&mut classes[parent], &below);
        }
    }
    classes
}
