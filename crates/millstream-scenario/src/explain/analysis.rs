//! The guarantee of each stream, or the reason why there is none, with its verdict.
//!
//! The engine computes the bounds ([`millstream::bounds`]) from token buckets. A stream's bucket is
//! the tightest that its packets fit into at its guaranteed rate. So the bounds apply to these
//! packets for any other streams (fair queueing, round robins), or with the packets of the streams
//! that can go before (FIFO, static priority).

use millstream::Framing;
use millstream::bounds::{
    ArrivalPattern, Bounds, Channel, DelayGuarantee, FlowTurns, Guarantee, LatencyRate,
    RateGuarantee, Share, Source, StreamLimits,
};
use millstream::catalogue::{DisciplineRow, StructureName};
use serde::Serialize;

use super::deadlines::{self, Proof};
use super::network;
use super::offered::{BUCKETS, EVEN, MEAN, Offered, OfferedLoads};
use super::path::{self, HopBounds, PathBounds, Route};
use super::tree::{Tree, TreeBounds};
use super::verdict::{Answer, Checks, FailedPremise, Verdict};
use crate::network::Direction;
use crate::scenario::{Class, Scenario, SchedulerConfig};

/// The guarantee of one stream.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamBounds {
    /// The rate that it gets while it has packets, on the wire, bits/s.
    pub guaranteed_bps: Option<u64>,
    /// The longest time from the arrival of a packet that is sent to the end of its service, ns.
    /// It holds whether or not the contract is kept.
    pub worst_delay_ns: Option<u64>,
    /// The theorem of the worst delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_theorem: Option<String>,
    /// The stream's greatest backlog at a link, bytes on the wire.
    pub worst_backlog_bytes: Option<u64>,
    /// The most packets of the stream that wait at a link. A `queue` of this length loses none.
    pub worst_backlog_packets: Option<u64>,
    /// The reason why there is no bound on its delay.
    pub no_promise: Option<String>,
    /// The window over as many requests with the fewest losses that is guaranteed while the other
    /// windows stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tightest_window: Option<String>,
    /// The bounds at each link of several in series.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopBounds>,
    /// The sum of the delays at the links and of the propagation between them, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_of_hops_ns: Option<u64>,
    /// The delay by the guarantees of the links in series, which pays bursts once, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series_ns: Option<u64>,
    /// The delay by what the others leave on all links together, which pays their bursts once, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together_ns: Option<u64>,
}

/// How a discipline's bounds are derived.
enum Theory {
    /// A guaranteed rate and a latency, whatever other streams send.
    Rate(RateGuarantee),
    /// A guaranteed rate below the stream of this number, which goes first.
    Below(RateGuarantee, usize),
    /// A delay of token buckets.
    Delay(DelayGuarantee),
    /// Deadlines: the verdict states the guarantee.
    Deadlines,
    /// Service curves of classes.
    Tree,
    /// No bound, for this reason.
    NoBounds(&'static str),
}

const NO_BOUNDS: &str = "the discipline has no bounds here";

fn theory(scenario: &Scenario) -> Theory {
    if !scenario.classes.is_empty() {
        return Theory::Tree;
    }
    match scenario.scheduler.discipline.guarantee {
        Guarantee::Rate(guarantee) => Theory::Rate(guarantee),
        Guarantee::Delay(guarantee) => Theory::Delay(guarantee),
        Guarantee::Deadlines(_) => Theory::Deadlines,
        Guarantee::BelowManagement => below_management(scenario),
        Guarantee::None => Theory::NoBounds(NO_BOUNDS),
    }
}

/// Returns whether the discipline called `name` guarantees each stream a share of the link while it
/// has packets: see [`DisciplineRow::guarantees_shares`].
#[must_use]
pub fn guarantees_shares(name: &str) -> bool {
    DisciplineRow::parse(name).is_some_and(DisciplineRow::guarantees_shares)
}

/// Returns the theory of the streams that share the bandwidth below management channels.
fn below_management(scenario: &Scenario) -> Theory {
    let SchedulerConfig { discipline, options, .. } = &scenario.scheduler;
    let Some(guarantee) = discipline.below(options).and_then(|row| row.guarantee.rate()) else {
        return Theory::NoBounds(NO_BOUNDS);
    };
    let first = |stream: &crate::scenario::Stream| stream.contract.is_fmc();
    let mut channels = (0..scenario.streams.len()).filter(|at| first(&scenario.streams[*at]));
    match (channels.next(), channels.next()) {
        (None, _) => Theory::Rate(guarantee),
        (Some(channel), None) => Theory::Below(guarantee, channel),
        _ => Theory::NoBounds("bounds are for one management channel, and there are several"),
    }
}

/// Returns the streams' attributes for bounds on `[link]`.
pub(super) fn limits(scenario: &Scenario, offered: &[Offered]) -> Vec<StreamLimits> {
    let mut limits = contracts(scenario, offered);
    path::weigh_by_entries(scenario, &scenario.scheduler, &mut limits);
    limits
}

/// Returns the streams' contracts and lengths.
fn contracts(scenario: &Scenario, offered: &[Offered]) -> Vec<StreamLimits> {
    let limits = |(stream, offered): (&crate::scenario::Stream, &Offered)| StreamLimits {
        arrivals: offered.pattern,
        ..StreamLimits::of(&stream.contract, offered.smallest_bytes, offered.largest_bytes)
    };
    let mut limits: Vec<_> = scenario.streams.iter().zip(offered).map(limits).collect();
    network::add_packets(scenario, &mut limits);
    limits
}

/// Returns the engine's link of the scenario.
pub(super) fn link(scenario: &Scenario) -> millstream::Link {
    scenario.scheduler.options.link
}

/// Returns the routes of streams that pass several links, or others than `[link]`; of all streams
/// if `[link]` is alone and has gates or deadlines.
fn routes<'a>(scenario: &'a Scenario, read: &OfferedLoads, span_ns: u64) -> Vec<Route<'a>> {
    let contracts = contracts(scenario, &read.streams);
    let of = |direction| {
        let busy_ns = busy_ns(scenario, read);
        Route::new(scenario, direction, &contracts, means(read, span_ns), busy_ns)
    };
    [Direction::Forward, Direction::Return].into_iter().filter_map(of).collect()
}

/// Returns the rates of the streams' buckets, bits/s; 0 if a bucket is not needed.
pub(super) fn bucket_rates(
    scenario: &Scenario,
    read: &OfferedLoads,
    span_ns: u64,
) -> Vec<[u64; BUCKETS]> {
    let of_link = link_bucket_rates(scenario, read, span_ns);
    let mut rates: Vec<_> = of_link.iter().map(|rate| [*rate, 0, 0, 0]).collect();
    // The busy periods of a stream with flows end sooner if its bucket is slower than its service.
    for (at, mean_bps) in means(read, span_ns).into_iter().enumerate() {
        let stream = &scenario.streams[at];
        if stream.contract.flow_options().is_some() || stream.shares.is_some() {
            (rates[at][EVEN], rates[at][MEAN]) = (mean_bps.midpoint(of_link[at]), mean_bps);
        }
    }
    for route in routes(scenario, read, span_ns) {
        let of_route = route.bucket_rates();
        for stream in (0..rates.len()).filter(|at| route.is_of(*at)) {
            let of_link = of_link[stream];
            rates[stream] = of_route[stream];
            if !route.is_series() {
                rates[stream][0] = of_link;
            }
        }
    }
    rates
}

/// Returns the rate of each stream's bucket on `[link]`, bits/s; 0 if no bucket is needed.
fn link_bucket_rates(scenario: &Scenario, read: &OfferedLoads, span_ns: u64) -> Vec<u64> {
    let limits = limits(scenario, &read.streams);
    let bounds =
        Bounds { busy_ns: busy_ns(scenario, read), ..Bounds::new(link(scenario), &limits) };
    let rate = |guaranteed: Result<LatencyRate, String>| guaranteed.map_or(0, |p| p.rate_bps);
    match theory(scenario) {
        Theory::Rate(guarantee) => (0..limits.len())
            .map(|stream| rate(latency_rate(&bounds, &guarantee, stream)))
            .collect(),
        Theory::Below(guarantee, channel) => (0..limits.len())
            .map(|stream| rate(below(scenario, &bounds, &guarantee, channel, stream)))
            .collect(),
        Theory::Tree => {
            let means = means(read, span_ns);
            let even = even_rates(&bounds, &means);
            let tree = Tree::new(scenario, &scenario.scheduler, &limits, bounds.link, None);
            // Without sources, only classes with shares guarantee rates.
            let rates: Vec<_> = (0..limits.len()).map(|stream| tree.rate(stream)).collect();
            let all = rates.iter().all(Option::is_some);
            let bucket = |(at, rate): (usize, Option<LatencyRate>)| match rate {
                Some(rate) if all => rate.rate_bps,
                // As little as they need, for the streams that they precede.
                Some(rate) => rate.rate_bps.min(even[at].max(means[at])),
                None => even[at].max(means[at]),
            };
            rates.into_iter().enumerate().map(bucket).collect()
        }
        Theory::Delay(_) => even_rates(&bounds, &means(read, span_ns)),
        Theory::Deadlines | Theory::NoBounds(_) => vec![0; limits.len()],
    }
}

/// Returns the mean offered rates, bits/s.
fn means(read: &OfferedLoads, span_ns: u64) -> Vec<u64> {
    read.streams.iter().map(|offered| offered.mean_bps(span_ns)).collect()
}

/// Returns the link's rate, divided in proportion to the mean rates.
fn even_rates(bounds: &Bounds, means: &[u64]) -> Vec<u64> {
    let total: u128 = means.iter().map(|mean| u128::from(*mean)).sum();
    let all = u128::from(bounds.effective_rate_bps());
    let rate = |mean: &u64| u64::try_from(u128::from(*mean) * all / total.max(1)).unwrap_or(0);
    means.iter().map(rate).collect()
}

/// Returns the longest busy period of the link, ns; `None`: sources react, so it is not known.
fn busy_ns(scenario: &Scenario, read: &OfferedLoads) -> Option<u64> {
    Some(read.busy_ns).filter(|_| !scenario.streams.iter().any(|stream| stream.source.reacts()))
}

/// The guarantee and the verdict of one stream.
pub(super) struct StreamAnalysis {
    pub(super) bounds: StreamBounds,
    pub(super) verdict: Verdict,
}

/// The inputs of all guarantees.
struct Case<'a> {
    scenario: &'a Scenario,
    read: &'a OfferedLoads,
    bounds: Bounds<'a>,
    /// The mean offered rates, bits/s.
    means: Vec<u64>,
    /// The longest busy period, ns; `None` if the load is not known or exceeds the link's rate, or
    /// the link is not work-conserving.
    busy_ns: Option<u64>,
    /// A stream or class with a rate cap or credits.
    any_gate: Option<FailedPremise>,
    tree: Option<Tree<'a>>,
    /// The bounds of streams that pass several links, or others than `[link]`.
    paths: Vec<Option<PathBounds>>,
    assumed: Option<&'static str>,
}

/// Returns the guarantee and the verdict of each stream from the measured buckets. The premise
/// called `assumed` is not checked.
pub(super) fn analyse(
    scenario: &Scenario,
    read: &OfferedLoads,
    span_ns: u64,
    assumed: Option<&'static str>,
) -> Vec<StreamAnalysis> {
    let mut limits = limits(scenario, &read.streams);
    for (limits, offered) in limits.iter_mut().zip(&read.streams) {
        [limits.source, ..] = offered.sources();
    }
    network::forget_sources(scenario, &mut limits);
    let bounds =
        Bounds { busy_ns: busy_ns(scenario, read), ..Bounds::new(link(scenario), &limits) };
    let means = means(read, span_ns);
    let theory = theory(scenario);
    let tree = matches!(theory, Theory::Tree).then(|| {
        let mut limits = limits.clone();
        for (of, mean_bps) in limits.iter_mut().zip(&means) {
            of.source = if of.gated {
                of.starts(bounds.link)
            } else {
                of.source.filter(|source| *mean_bps <= source.rate_bps)
            };
        }
        Tree::new(scenario, &scenario.scheduler, &limits, bounds.link, bounds.busy_ns)
    });
    let load: u128 = means.iter().map(|mean| u128::from(*mean)).sum();
    let is_bounded = load <= u128::from(bounds.effective_rate_bps());
    let rounds = scenario.scheduler.structure == StructureName::Hilq;
    let busy_ns = bounds.busy_ns.filter(|_| is_bounded && !rounds);
    let any_gate = (0..limits.len())
        .find(|stream| limits[*stream].gated)
        .map(|stream| deadlines::describe_gate(scenario, stream))
        .or_else(|| scenario.classes.iter().find_map(class_gate));
    let mut paths: Vec<Option<PathBounds>> = limits.iter().map(|_| None).collect();
    for route in routes(scenario, read, span_ns) {
        let bounds = route.bounds(read).into_iter().enumerate();
        bounds.filter(|(at, _)| route.is_of(*at)).for_each(|(at, of)| paths[at] = Some(of));
    }
    let case = Case { scenario, read, bounds, means, busy_ns, any_gate, tree, paths, assumed };
    let proof = matches!(theory, Theory::Deadlines)
        .then(|| deadlines::prove(scenario, &case.bounds, |theorem| case.checks(theorem)))
        .flatten();
    let overload = deadlines::overload(scenario, &case.bounds);
    let mut analyses: Vec<_> = (0..limits.len())
        .map(|stream| case.analyse_stream(&theory, proof.as_ref(), overload.as_ref(), stream))
        .collect();
    if matches!(theory, Theory::Deadlines) && scenario.network.is_none() {
        let checks = |theorem: &str| case.checks(theorem);
        let tightest = deadlines::tightest_windows(scenario, &case.bounds, checks);
        for (of, window) in analyses.iter_mut().zip(tightest) {
            of.bounds.tightest_window = window.map(|of| format!("{}/{}", of.lost(), of.of()));
        }
    }
    analyses
}

/// Describes the rate cap of a class, if it has one.
fn class_gate(class: &Class) -> Option<FailedPremise> {
    let name = &class.name;
    class.contract.is_limited().then(|| {
        FailedPremise::new(
            format!("class `{name}` has a rate cap"),
            format!("class `{name}` without `max-rate`"),
        )
    })
}

fn no_bounds(why: impl Into<String>) -> StreamBounds {
    StreamBounds { no_promise: Some(why.into()), ..StreamBounds::default() }
}

/// The premises of contracts: where only these fail, the packets that are sent keep their delay.
const OF_CONTRACTS: [&str; 3] = ["periods", "first-deadlines", "queues"];

/// Returns the bounds of a stream with the first delay that is known: the one that was chosen, with
/// its proof, or the least of the others.
fn with_delay(
    chosen: StreamBounds,
    proved: &Verdict,
    verdict: &Verdict,
    others: Vec<(StreamBounds, Verdict)>,
) -> StreamBounds {
    let is_bound = |of: &StreamBounds, verdict: &Verdict| {
        let mut premises = verdict.premises.iter();
        of.worst_delay_ns.is_some()
            && premises.all(|of| of.holds || OF_CONTRACTS.contains(&of.premise))
    };
    if is_bound(&chosen, proved) {
        return StreamBounds { delay_theorem: proved.theorem.clone(), ..chosen };
    }
    let others = others.into_iter().filter(|(of, verdict)| is_bound(of, verdict));
    match others.min_by_key(|(of, _)| of.worst_delay_ns) {
        Some((other, by)) => StreamBounds {
            guaranteed_bps: chosen.guaranteed_bps.or(other.guaranteed_bps),
            delay_theorem: by.theorem,
            ..other
        },
        None if chosen.no_promise.is_some() => chosen,
        None => {
            StreamBounds { guaranteed_bps: chosen.guaranteed_bps, ..no_bounds(&*verdict.because) }
        }
    }
}

fn latency_rate(
    bounds: &Bounds,
    guarantee: &RateGuarantee,
    stream: usize,
) -> Result<LatencyRate, String> {
    (guarantee.latency_rate)(bounds, stream).map_err(|error| error.to_string())
}

/// Describes a first deadline that is earlier than a period after the first arrival.
fn first_deadline(of: &StreamLimits, first_arrival_ns: u64) -> Option<FailedPremise> {
    let least_ns = first_arrival_ns.saturating_add(of.period_ns);
    of.first_deadline_ns.filter(|given_ns| *given_ns < least_ns).map(|_| {
        let detail = "its first deadline is earlier than its first arrival + period";
        FailedPremise::new(detail, format!("first-deadline = \"{least_ns} ns\""))
    })
}

/// Describes a queue that holds fewer packets than may wait.
fn overflow(of: &StreamLimits, packets: u64) -> Option<FailedPremise> {
    of.queue.filter(|queue| packets > u64::from(*queue)).map(|_| {
        let detail = format!("{packets} of its packets may wait, more than its queue holds");
        FailedPremise::new(detail, format!("queue = {packets}"))
    })
}

/// Returns the guarantee of `stream` while the stream `channel` goes first.
pub(super) fn below(
    scenario: &Scenario,
    bounds: &Bounds,
    guarantee: &RateGuarantee,
    channel: usize,
    stream: usize,
) -> Result<LatencyRate, String> {
    if stream == channel {
        return Err("it is served before all others, within its rate cap".to_owned());
    }
    let of = &bounds.streams[channel];
    let contract = &scenario.streams[channel].contract;
    let name = &scenario.streams[channel].name;
    let bucket = Channel::of(contract, of.smallest_bytes, of.largest_bytes).ok_or_else(|| {
        format!("`{name}` is served first and has no max-rate: it may use all of the link")
    })?;
    let mut others = bounds.streams.to_vec();
    others.remove(channel);
    let bounds = Bounds { streams: &others, ..*bounds };
    guarantee
        .latency_rate_below(&bounds, stream - usize::from(stream > channel), &bucket)
        .map_err(|error| error.to_string())
}

impl Case<'_> {
    fn analyse_stream(
        &self,
        theory: &Theory,
        proof: Option<&Proof>,
        overload: Option<&deadlines::Overload>,
        stream: usize,
    ) -> StreamAnalysis {
        let before = |other: usize| match theory {
            Theory::Delay(guarantee) => {
                let of = &self.bounds.streams;
                (guarantee.may_precede)(&of[stream], &of[other])
            }
            Theory::Deadlines => true,
            Theory::Rate(_) | Theory::Below(..) => false,
            // The bounds of these read the packets of all streams, or say which they do not read.
            Theory::Tree | Theory::NoBounds(_) => false,
        };
        if let Some((bounds, verdict)) = self.as_flow(stream) {
            return StreamAnalysis {
                bounds: with_delay(bounds, &verdict, &verdict, Vec::new()),
                verdict,
            };
        }
        if let Some(failed) = network::obstacle(self.scenario, stream, before) {
            let mut checks = self.checks("none");
            let why = failed.detail.clone();
            checks.add("network", Some(failed));
            return StreamAnalysis { bounds: no_bounds(why), verdict: checks.verdict("") };
        }
        let has_flows = self.scenario.streams[stream].contract.flow_options().is_some();
        let path = self.paths[stream].as_ref().filter(|_| !has_flows);
        let mut others = Vec::new();
        let (chosen, proved) = match path {
            _ if has_flows => self.in_flows(stream),
            Some(path) if path.is_series => self.on_path(stream, path),
            path => {
                let on_link = self.on_link(theory, proof, stream);
                let holds = |of: &(_, Verdict)| of.1.answer == Answer::Guaranteed;
                match path.map(|path| self.on_path(stream, path)) {
                    Some(on_path) if holds(&on_path) && !holds(&on_link) => on_path,
                    on_path => {
                        others.extend(on_path);
                        on_link
                    }
                }
            }
        };
        if path.is_none_or(|path| !path.is_series) {
            others.insert(0, self.any_order(stream, NO_BOUNDS));
        }
        let verdict = self.impossible(stream, overload, &proved).unwrap_or_else(|| proved.clone());
        StreamAnalysis { bounds: with_delay(chosen, &proved, &verdict, others), verdict }
    }

    /// Returns why the contract of a stream cannot be kept, if it cannot.
    fn impossible(
        &self,
        stream: usize,
        overload: Option<&deadlines::Overload>,
        proved: &Verdict,
    ) -> Option<Verdict> {
        // The other direction does not pass `[link]`.
        let passes = self.scenario.streams[stream].direction == Direction::Forward;
        let alone =
            deadlines::infeasible_alone(self.scenario, &self.bounds.streams[stream], stream);
        if !passes || alone.is_some() {
            return alone.filter(|_| passes);
        }
        let asks = proved.answer != Answer::Guaranteed || proved.theorem.is_some();
        let ordered = deadlines::is_ordered_by_deadline(self.scenario, stream);
        overload.filter(|_| ordered && asks).map(|of| self.overloaded(of))
    }

    /// Returns the bounds of a stream that passes `[link]` alone.
    fn on_link(
        &self,
        theory: &Theory,
        proof: Option<&Proof>,
        stream: usize,
    ) -> (StreamBounds, Verdict) {
        match theory {
            Theory::Rate(guarantee) => {
                let guaranteed = latency_rate(&self.bounds, guarantee, stream);
                self.rate_bounds(guarantee, guaranteed, stream)
            }
            Theory::Below(guarantee, channel) => {
                let guaranteed = below(self.scenario, &self.bounds, guarantee, *channel, stream);
                self.rate_bounds(guarantee, guaranteed, stream)
            }
            Theory::Delay(guarantee) => self.delay_bounds(guarantee, stream),
            Theory::Deadlines => {
                let holds = |of: &(_, Verdict)| of.1.answer == Answer::Guaranteed;
                let busy = || self.any_order(stream, NO_BOUNDS);
                match proof.map(|proof| self.deadlines(stream, proof)) {
                    None => busy(),
                    Some(proved) if holds(&proved) => proved,
                    Some(unproved) => Some(busy()).filter(holds).unwrap_or(unproved),
                }
            }
            Theory::Tree => self.in_tree(stream),
            Theory::NoBounds(why) => self.any_order(stream, why),
        }
    }

    /// Returns the bounds of a stream on links in series.
    fn on_path(&self, stream: usize, path: &PathBounds) -> (StreamBounds, Verdict) {
        let by_links = path.series_ns.into_iter().chain(path.sum_ns).min();
        let theorem = match (path.series_ns, path.sum_ns) {
            _ if path
                .together_ns
                .is_some_and(|ns| by_links.is_none_or(|by_links| ns < by_links)) =>
            {
                "all links together (Schmitt, Zdarsky and Martinovic 2008)"
            }
            (Some(series_ns), Some(sum_ns)) if series_ns < sum_ns => {
                "links in series (Le Boudec and Thiran 2001, theorem 1.4.6)"
            }
            _ if path.is_series => "the sum of the bounds of each link (Cruz 1991)",
            _ if self.any_gate.is_none() => {
                "token buckets and guaranteed rates (Cruz 1991; Goyal, Lam and Vin 1997)"
            }
            _ => "token buckets, rate caps and credits (Cruz 1991; Goyal, Lam and Vin 1997)",
        };
        let mut checks = self.checks(theorem);
        let delay_ns = by_links.into_iter().chain(path.together_ns).min();
        let why = path.unbounded.as_deref().unwrap_or("its bound exceeds 64 bits");
        let unbounded = || FailedPremise { detail: why.into(), change: None };
        checks.add("bounded-at-each-link", delay_ns.is_none().then(unbounded));
        let Some(delay_ns) = delay_ns else { return (no_bounds(why), checks.verdict("")) };
        let of = &self.bounds.streams[stream];
        if let Some(first_ns) = path.first_arrival_ns {
            let late = path.late.as_ref().map(|(link, start_ns)| {
                let detail =
                    format!("a packet may start {start_ns} ns after its arrival at `{link}`");
                let period = format!("period = \"{} ns\"", start_ns.saturating_add(1));
                FailedPremise::new(detail, period)
            });
            checks.add("periods", late);
            let measured_ns = of.arrivals.as_ref().map_or(0, ArrivalPattern::first_ns);
            checks.add("first-deadlines", first_deadline(of, measured_ns.saturating_add(first_ns)));
        }
        let most = |of: fn(&HopBounds) -> Option<u64>| path.hops.iter().filter_map(of).max();
        let packets = most(|hop| hop.worst_backlog_packets);
        checks.add("queues", packets.and_then(|packets| overflow(of, packets)));
        let stream_bounds = StreamBounds {
            guaranteed_bps: path.guaranteed_bps,
            worst_delay_ns: Some(delay_ns),
            worst_backlog_bytes: most(|hop| hop.worst_backlog_bytes),
            worst_backlog_packets: packets,
            hops: if path.is_series { path.hops.clone() } else { Vec::new() },
            sum_of_hops_ns: path.sum_ns.filter(|_| path.is_series),
            series_ns: path.series_ns.filter(|_| path.is_series),
            together_ns: path.together_ns.filter(|_| path.is_series),
            ..StreamBounds::default()
        };
        let hops = self.scenario.network.iter().flat_map(|network| &network.hops);
        let direction = self.scenario.streams[stream].direction;
        let loses = hops.filter(|hop| hop.direction == direction).any(|hop| hop.loss > 0);
        let which = if loses { "no packet that the links do not lose" } else { "no packet" };
        let promise = format!("{which} leaves later than {delay_ns} ns after its arrival");
        (stream_bounds, checks.verdict(promise))
    }

    /// Returns the bounds of a stream in a tree: those of its classes or of the busy period,
    /// whichever are shorter.
    fn in_tree(&self, stream: usize) -> (StreamBounds, Verdict) {
        let busy_ns = self.busy_ns.filter(|_| self.any_gate.is_none());
        let shorter = |of: &TreeBounds| busy_ns.is_none_or(|busy_ns| of.delay_ns <= busy_ns);
        let of_classes = self.tree.as_ref().and_then(|tree| tree.of(stream)).filter(shorter);
        let Some(bounds) = of_classes else {
            return self.any_order(stream, "its classes guarantee less than it offers");
        };
        let mut checks = self.checks("service curves of classes (Le Boudec and Thiran 2001)");
        let gate = self.gated(|other| other == stream).or_else(|| self.gate_above(stream));
        checks.add("no-gates", gate);
        self.delay_of(stream, bounds, checks)
    }

    /// Returns the bounds of a stream with flows. Its packets leave in any order, but each within a
    /// busy period of the stream and within one of the link.
    fn in_flows(&self, stream: usize) -> (StreamBounds, Verdict) {
        let scenario = self.scenario;
        let mut limits = self.bounds.streams.to_vec();
        // The next packet of flows is not known before they are asked for it, as that of a class.
        for (of, stream) in limits.iter_mut().zip(&scenario.streams) {
            of.is_class = stream.contract.flow_options().is_some();
        }
        let link = self.bounds.link;
        let tree = Tree::new(scenario, &scenario.scheduler, &limits, link, self.bounds.busy_ns);
        let fits = |source: &Source| self.means[stream] <= source.rate_bps;
        let own_busy = |source: Source| {
            let delay_ns = tree.backlogged_ns(stream, source)?;
            let backlog_bytes = source.bytes_in(delay_ns);
            Some(TreeBounds { guaranteed_bps: None, delay_ns, backlog_bytes })
        };
        let known = self.read.streams[stream].sources().into_iter().flatten();
        let least = known.filter(fits).filter_map(own_busy).min_by_key(|of| of.delay_ns);
        let busy_ns = self.busy_ns.filter(|_| self.any_gate.is_none());
        let shorter = |of: &TreeBounds| busy_ns.is_none_or(|busy_ns| of.delay_ns <= busy_ns);
        let Some(bounds) = least.filter(shorter) else {
            return self.any_order(stream, "its flows are scheduled");
        };
        let mut checks = self.checks("the busy period of a stream with flows (Cruz 1991)");
        let gate = self.gated(|other| other == stream).or_else(|| self.gate_above(stream));
        checks.add("no-gates", gate);
        self.delay_of(stream, bounds, checks)
    }

    /// Returns the bounds of a stream that is one flow in a queue by flow; `None` if the other
    /// flows are not known, or leave less than it offers.
    fn as_flow(&self, stream: usize) -> Option<(StreamBounds, Verdict)> {
        let (scenario, link) = (self.scenario, self.bounds.link);
        let largest = |at: usize| self.read.streams[at].largest_bytes;
        let of = network::queue_flows(scenario, stream, largest)?;
        let mut limits = self.bounds.streams.to_vec();
        for (limits, stream) in limits.iter_mut().zip(&scenario.streams) {
            limits.is_class = stream.contract.flow_options().is_some();
            // Its packets are in the queue of another stream: it never has any.
            if stream.shares.is_some() {
                (limits.weight, limits.quantum_bytes, limits.is_class) = (0, 0, false);
                (limits.source, limits.gated) = (Some(Source::default()), false);
            }
        }
        let tree = Tree::new(scenario, &scenario.scheduler, &limits, link, self.bounds.busy_ns);
        let in_queue = &self.bounds.streams[of.queue];
        // Turns count bytes without overhead, which is a greater part of short packets.
        let smallest = in_queue.smallest_bytes.max(1);
        let is_longer = link.overhead_bytes >= 0 && link.framing == Framing::None;
        let on_wire = |bytes: u64| {
            let product = u128::from(bytes) * u128::from(link.wire_bytes(smallest));
            u64::try_from(product.div_ceil(smallest.into())).unwrap_or(u64::MAX)
        };
        let quantum_bytes = of.options.quantum_bytes.max(1);
        let quanta = u64::from(quantum_bytes) * of.others.len() as u64;
        let turns = FlowTurns {
            quantum_bytes,
            largest_bytes: largest(stream),
            head_bytes: link.wire_bytes(in_queue.largest_bytes),
            others_bytes: on_wire(quanta),
            last_bytes: of.others.iter().map(|largest| link.wire_bytes(*largest)).sum(),
        };
        let strict = tree.service_of(of.queue).filter(|_| is_longer)?;
        let service = turns.service(strict)?;
        let own = &self.read.streams[stream];
        let own_bytes = [own.smallest_bytes, own.largest_bytes].map(|of| link.wire_bytes(of));
        let sparse = turns.sparse(strict, own_bytes[1]);
        let known: Vec<_> = own.sources().into_iter().flatten().collect();
        // No two packets arrive within that time.
        let apart = |source: &Source| source.bytes_in(sparse.apart_ns) < 2 * own_bytes[0];
        let is_sparse = own.largest_bytes <= quantum_bytes && known.iter().any(apart);
        let bounds = |source: &Source| {
            let delay_ns = service.guarantee(0).delay_ns(*source);
            let delay_ns =
                delay_ns.into_iter().chain(is_sparse.then_some(sparse.delay_ns)).min()?;
            let backlog_bytes = source.bytes_in(delay_ns);
            Some(TreeBounds { guaranteed_bps: Some(service.rate_bps), delay_ns, backlog_bytes })
        };
        let shortest = |of: &TreeBounds| (of.delay_ns, of.backlog_bytes);
        let bounds = known.iter().filter_map(bounds).min_by_key(shortest)?;
        let mut checks = self.checks("a flow among others under deficit round robin (RFC 8290)");
        let gate = self.gated(|other| other == of.queue).or_else(|| self.gate_above(of.queue));
        checks.add("no-gates", gate);
        // Only the flow with the most bytes loses packets at a limit.
        let each = bounds.backlog_bytes;
        let bytes = each.saturating_mul(of.others.len() as u64 + 1);
        let packets = bytes / u64::from(smallest);
        let loses =
            bytes > of.options.limit_bytes || packets >= u64::from(of.options.limit_packets);
        let detail = || {
            let detail = format!("it may be the longest of its queue, with {each} bytes");
            FailedPremise { detail, change: Some(format!("queue = {}", packets.saturating_add(1))) }
        };
        checks.add("queues", loses.then(detail));
        let TreeBounds { guaranteed_bps, delay_ns, backlog_bytes } = bounds;
        let stream_bounds = StreamBounds {
            guaranteed_bps,
            worst_delay_ns: Some(delay_ns),
            worst_backlog_bytes: Some(backlog_bytes),
            ..StreamBounds::default()
        };
        let promise = format!("no packet leaves later than {delay_ns} ns after its arrival");
        Some((stream_bounds, checks.verdict(promise)))
    }

    /// Describes the first class above a stream that has a rate cap.
    fn gate_above(&self, stream: usize) -> Option<FailedPremise> {
        let mut above = self.scenario.classes_above(stream);
        above.find_map(|class| class_gate(&self.scenario.classes[class]))
    }

    /// Returns the bounds of a stream under any discipline: every packet leaves in the busy period
    /// in which it arrives. If there are none, the reason is `why` and that the load is not
    /// bounded.
    fn any_order(&self, stream: usize, why: &str) -> (StreamBounds, Verdict) {
        let mut checks = self.checks("the busy period of a work-conserving link (Cruz 1991)");
        let detail =
            || format!("{why}; the offered load exceeds the link rate, or it is not known");
        let unknown = self.busy_ns.is_none();
        checks.add("load", unknown.then(|| FailedPremise { detail: detail(), change: None }));
        checks.add("no-gates", self.any_gate.clone());
        let Some(delay_ns) = self.busy_ns else { return (no_bounds(detail()), checks.verdict("")) };
        let backlog_bytes = self.read.streams[stream].busy_bytes;
        let bounds = TreeBounds { guaranteed_bps: None, delay_ns, backlog_bytes };
        self.delay_of(stream, bounds, checks)
    }

    /// Checks the premises of a delay, after those of its theorem.
    fn delay_of(
        &self,
        stream: usize,
        bounds: TreeBounds,
        mut checks: Checks,
    ) -> (StreamBounds, Verdict) {
        let TreeBounds { guaranteed_bps, delay_ns, backlog_bytes } = bounds;
        if deadlines::is_ordered_by_deadline(self.scenario, stream) {
            let of = &self.bounds.streams[stream];
            let start_ns = self.bounds.start_ns(delay_ns, stream);
            let late = || {
                let detail = format!("a packet may start {start_ns} ns after its arrival");
                FailedPremise::new(
                    detail,
                    format!("period = \"{} ns\"", start_ns.saturating_add(1)),
                )
            };
            checks.add("periods", (start_ns >= of.period_ns).then(late));
            let first_ns = of.arrivals.as_ref().map_or(0, ArrivalPattern::first_ns);
            checks.add("first-deadlines", first_deadline(of, first_ns));
        }
        let stream_bounds = StreamBounds {
            guaranteed_bps,
            worst_delay_ns: Some(delay_ns),
            worst_backlog_bytes: Some(backlog_bytes),
            ..StreamBounds::default()
        };
        self.check_queue_limit(stream_bounds, checks, stream)
    }

    fn overloaded(&self, overload: &deadlines::Overload) -> Verdict {
        let needed = deadlines::scaled(self.scenario.link.rate_bps, overload.ppm);
        let window = overload.window.clone().unwrap_or_else(|| "looser contracts".to_owned());
        Verdict::infeasible(
            format!("the contracts need {} % of the link", deadlines::percent(overload.ppm)),
            Some(format!("link.rate = \"{needed} bit/s\", or {window}")),
        )
    }

    /// Checks the premises that all theorems share.
    fn checks(&self, theorem: &str) -> Checks {
        let mut checks = Checks::new(theorem, self.assumed);
        let partly = || FailedPremise::new("not all arrivals were read", "a shorter `duration`");
        checks.add("all-arrivals-read", (!self.read.complete).then(partly));
        let card = || {
            let detail = "the end-system card delays arrivals and counts deadlines in decisions";
            FailedPremise::new(detail, "realisation = \"core\"")
        };
        checks.add("link-alone", self.scenario.end_system.is_some().then(card));
        checks
    }

    fn rate_bounds(
        &self,
        guarantee: &RateGuarantee,
        guaranteed: Result<LatencyRate, String>,
        stream: usize,
    ) -> (StreamBounds, Verdict) {
        let mut checks = self.checks(guarantee.theorem);
        let guaranteed = match guaranteed {
            Ok(guaranteed) => guaranteed,
            Err(why) => {
                checks.add("share", Some(FailedPremise { detail: why.clone(), change: None }));
                return (no_bounds(why), checks.verdict(""));
            }
        };
        checks.add("share", None);
        let guaranteed_bps = Some(guaranteed.rate_bps);
        let mean_bps = self.means[stream];
        let source = self.bounds.streams[stream].source.filter(|s| mean_bps <= s.rate_bps);
        let more = || FailedPremise {
            detail: "its offered rate exceeds its guaranteed rate".into(),
            change: self.sufficient_share(stream, mean_bps),
        };
        checks.add("rate", source.is_none().then(more));
        let channel = |other: usize| self.scenario.streams[other].contract.is_fmc();
        let counts = |other: usize| other == stream || guarantee.others_ungated && !channel(other);
        checks.add("no-gates", self.gated(counts));
        let Some(source) = source else {
            return (
                StreamBounds {
                    guaranteed_bps,
                    ..no_bounds("its offered rate exceeds its guaranteed rate")
                },
                checks.verdict(""),
            );
        };
        let stream_bounds = StreamBounds {
            guaranteed_bps,
            worst_delay_ns: guaranteed.delay_ns(source),
            worst_backlog_bytes: guaranteed.backlog_bytes(source),
            ..StreamBounds::default()
        };
        self.check_queue_limit(stream_bounds, checks, stream)
    }

    /// Returns the weight or quantum that guarantees `mean_bps` with the other streams unchanged.
    fn sufficient_share(&self, stream: usize, mean_bps: u64) -> Option<String> {
        let share = self.scenario.scheduler.discipline.share;
        let by_bytes = share == Share::Quantum;
        let of = |limits: &StreamLimits| {
            u128::from(if by_bytes { limits.quantum_bytes } else { limits.weight })
        };
        let others: u128 =
            self.bounds.streams.iter().map(of).sum::<u128>() - of(&self.bounds.streams[stream]);
        let left =
            u128::from(self.bounds.effective_rate_bps()).checked_sub(u128::from(mean_bps))?;
        let needed = (u128::from(mean_bps) * others).div_ceil(left.max(1));
        let key = match share {
            Share::Weight => "weight",
            Share::Quantum => "quantum",
            Share::None | Share::Packets | Share::Entries => return None,
        };
        (left > 0 && needed < 1 << 31).then(|| format!("{key} = {needed}"))
    }

    fn delay_bounds(&self, guarantee: &DelayGuarantee, stream: usize) -> (StreamBounds, Verdict) {
        let bounds = &self.bounds;
        let before =
            |other: usize| (guarantee.may_precede)(&bounds.streams[stream], &bounds.streams[other]);
        let mut checks = self.checks(guarantee.theorem);
        let load: u128 = (0..self.means.len())
            .filter(|other| before(*other))
            .map(|other| u128::from(self.means[other]))
            .sum();
        let delay_ns = (guarantee.delay_ns)(bounds, stream);
        let source = bounds.streams[stream].source;
        let fits = load <= u128::from(bounds.effective_rate_bps());
        let why = "the offered rate of it and of the streams before it exceeds the link rate";
        let bound = delay_ns.zip(source).filter(|_| fits);
        let faster = u64::try_from(load).ok().map(|load| format!("link.rate above {load} bit/s"));
        checks.add(
            "rate",
            bound.is_none().then(|| FailedPremise { detail: why.into(), change: faster }),
        );
        checks.add("no-gates", self.gated(before));
        let Some((delay_ns, source)) = bound else { return (no_bounds(why), checks.verdict("")) };
        let stream_bounds = StreamBounds {
            guaranteed_bps: None,
            worst_delay_ns: Some(delay_ns),
            worst_backlog_bytes: Some(source.bytes_in(delay_ns)),
            ..StreamBounds::default()
        };
        self.check_queue_limit(stream_bounds, checks, stream)
    }

    /// Describes the first gated stream for which `counts` is true.
    fn gated(&self, counts: impl Fn(usize) -> bool) -> Option<FailedPremise> {
        let gated = |other: &usize| self.bounds.streams[*other].gated && counts(*other);
        let stream = (0..self.bounds.streams.len()).find(gated)?;
        Some(deadlines::describe_gate(self.scenario, stream))
    }

    /// Checks by the bound on the backlog that the queue cannot overflow.
    fn check_queue_limit(
        &self,
        stream_bounds: StreamBounds,
        mut checks: Checks,
        stream: usize,
    ) -> (StreamBounds, Verdict) {
        let of = &self.bounds.streams[stream];
        let (Some(delay_ns), Some(backlog)) =
            (stream_bounds.worst_delay_ns, stream_bounds.worst_backlog_bytes)
        else {
            let why = "its bound exceeds 64 bits";
            checks.add("range", Some(FailedPremise { detail: why.into(), change: None }));
            return (no_bounds(why), checks.verdict(""));
        };
        let smallest = self.bounds.link.wire_bytes(of.smallest_bytes).max(1);
        let packets = backlog / smallest;
        checks.add("queues", overflow(of, packets));
        (
            StreamBounds { worst_backlog_packets: Some(packets), ..stream_bounds },
            checks.verdict(format!("no packet leaves later than {delay_ns} ns after its arrival")),
        )
    }

    /// Returns the guarantee under deadlines: a stream that is served in m of k periods of T gets
    /// m·L/(k·T).
    fn deadlines(&self, stream: usize, proof: &Proof) -> (StreamBounds, Verdict) {
        let verdict = deadlines::verdict(self.scenario, stream, proof);
        if verdict.answer != Answer::Guaranteed {
            return (no_bounds("its contract may be violated"), verdict);
        }
        let limits = &self.bounds.streams[stream];
        let guarantee = self.scenario.scheduler.discipline.guarantee.deadlines();
        let every_request = guarantee.is_some_and(|guarantee| guarantee.every_request);
        let (served, of) = match (every_request, limits.window.of()) {
            (true, _) => (1, 1),
            (_, 0) => (0, 1),
            (_, of) => (of - limits.window.lost(), of),
        };
        let bits = u128::from(self.bounds.link.wire_bytes(limits.smallest_bytes)) * 8_000_000_000;
        let periods = u128::from(of) * u128::from(limits.period_ns.max(1));
        let rate = u64::try_from(bits * u128::from(served) / periods).unwrap_or(u64::MAX);
        let stream_bounds = StreamBounds {
            guaranteed_bps: Some(rate).filter(|rate| *rate > 0),
            worst_backlog_packets: verdict
                .theorem
                .as_ref()
                .and_then(|_| proof.most_waiting(&self.bounds, stream)),
            no_promise: Some(
                "a packet starts before its deadline, or is lost as its window allows".into(),
            ),
            ..StreamBounds::default()
        };
        (stream_bounds, verdict)
    }
}
