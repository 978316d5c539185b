//! What theory promises each stream, or why it promises nothing.
//!
//! The bounds are the engine's ([`millstream::bounds`]). They speak of token buckets; a stream's
//! bucket is the tightest that its packets fit into at the rate it is guaranteed, so the bounds are
//! those of these packets, whoever the others are (fair queueing, round robins), or of these packets
//! and those of the streams that can go before (FIFO, static priority).

use millstream::bounds::{
    Bounds, Channel, EdfVerdict, FairDiscipline, LatencyRate, Source, StreamLimits, Windows,
};
use millstream::catalogue::MinBwAlgorithm;
use serde::Serialize;

use super::offered::{Offered, Read};
use crate::scenario::Scenario;

/// What one stream is promised; `None` where nothing is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Promise {
    /// The rate it gets whenever it has packets, on the wire, bits/s.
    pub guaranteed_bps: Option<u64>,
    /// The longest from a packet's arrival to the end of its service, ns.
    pub worst_delay_ns: Option<u64>,
    /// The most bytes on the wire that it has at the link.
    pub worst_backlog_bytes: Option<u64>,
    /// Why there is no bound on its delay.
    pub no_promise: Option<String>,
}

/// How a discipline's bounds come about.
enum Theory {
    /// A guaranteed rate and a latency, whatever the others do.
    Fair(FairDiscipline),
    /// The same, below this stream, which goes first.
    Below(FairDiscipline, usize),
    Fifo,
    StaticPriority,
    /// Deadlines: the verdict says it.
    Deadlines,
    /// None.
    Silent(&'static str),
}

fn theory(scenario: &Scenario) -> Theory {
    if !scenario.classes.is_empty() {
        return Theory::Silent("it stands in a tree of classes; bounds are for one level");
    }
    Theory::Fair(match scenario.scheduler.discipline.name {
        "wfq" => FairDiscipline::Wfq,
        "wf2q" => FairDiscipline::Wf2q,
        "wf2q+" => FairDiscipline::Wf2qPlus,
        "virtual-clock" => FairDiscipline::VirtualClock,
        "scfq" => FairDiscipline::Scfq,
        "sfq" => FairDiscipline::Sfq,
        "drr" => FairDiscipline::Drr,
        // A table is weighted round robin by entries.
        "wrr" | "table" => FairDiscipline::Wrr,
        "wirr" => FairDiscipline::Wirr,
        "fifo" => return Theory::Fifo,
        "static-priority" => return Theory::StaticPriority,
        "edf" | "dwcs" | "vds" | "pd2" => return Theory::Deadlines,
        "minbw" => return minbw(scenario),
        _ => return Theory::Silent("the discipline has no bounds here"),
    })
}

fn minbw(scenario: &Scenario) -> Theory {
    let discipline = match scenario.scheduler.options.algorithm {
        MinBwAlgorithm::Wfq => FairDiscipline::Wfq,
        MinBwAlgorithm::Scfq => FairDiscipline::Scfq,
        MinBwAlgorithm::Drr => FairDiscipline::Drr,
    };
    let first = |stream: &crate::scenario::Stream| stream.contract.is_fmc();
    let mut channels = (0..scenario.streams.len()).filter(|at| first(&scenario.streams[*at]));
    match (channels.next(), channels.next()) {
        (None, _) => Theory::Fair(discipline),
        (Some(channel), None) => Theory::Below(discipline, channel),
        _ => Theory::Silent("bounds are for one management channel, and there are several"),
    }
}

/// The streams as bounds know them.
pub(super) fn limits(scenario: &Scenario, offered: &[Offered]) -> Vec<StreamLimits> {
    let limits = |(stream, offered): (&crate::scenario::Stream, &Offered)| {
        StreamLimits::of(&stream.contract, offered.smallest_bytes, offered.largest_bytes)
    };
    let mut limits: Vec<_> = scenario.streams.iter().zip(offered).map(limits).collect();
    if scenario.scheduler.discipline.name == "table" && scenario.classes.is_empty() {
        limits.iter_mut().for_each(|stream| stream.weight = 0);
        for entry in &scenario.scheduler.options.table {
            limits[entry.0 as usize].weight += 1;
        }
    }
    limits
}

/// The scenario's link for the engine.
pub(super) fn link(scenario: &Scenario) -> millstream::Link {
    scenario.scheduler.options.link
}

/// At what rates the streams' buckets are to be measured, bits/s; 0 where no bucket is needed.
pub(super) fn bucket_rates(scenario: &Scenario, read: &Read, span_ns: u64) -> Vec<u64> {
    let limits = limits(scenario, &read.streams);
    let bounds = Bounds { busy_ns: Some(read.busy_ns), ..Bounds::new(link(scenario), &limits) };
    let rate = |promised: Result<LatencyRate, String>| promised.map_or(0, |p| p.rate_bps);
    match theory(scenario) {
        Theory::Fair(discipline) => (0..limits.len())
            .map(|stream| rate(latency_rate(&bounds, discipline, stream)))
            .collect(),
        Theory::Below(discipline, channel) => (0..limits.len())
            .map(|stream| rate(below(scenario, &bounds, discipline, channel, stream)))
            .collect(),
        Theory::Fifo | Theory::StaticPriority => {
            // What the link can do beyond the mean rates is given out in proportion to them.
            let mean = |offered: &Offered| u128::from(offered.mean_bps(span_ns, &scenario.link));
            let total: u128 = read.streams.iter().map(mean).sum();
            let all = u128::from(bounds.effective_rate_bps());
            let rate = |offered| u64::try_from(mean(offered) * all / total.max(1)).unwrap_or(0);
            read.streams.iter().map(rate).collect()
        }
        Theory::Deadlines | Theory::Silent(_) => vec![0; limits.len()],
    }
}

/// What each stream is promised, its bucket having been measured.
pub(super) fn promises(scenario: &Scenario, read: &Read, span_ns: u64) -> Vec<Promise> {
    let mut limits = limits(scenario, &read.streams);
    for (limits, offered) in limits.iter_mut().zip(&read.streams) {
        let source = Source { rate_bps: offered.bucket_bps, burst_bytes: offered.burst_bytes() };
        limits.source = Some(source).filter(|source| source.rate_bps > 0);
    }
    let bounds = Bounds { busy_ns: Some(read.busy_ns), ..Bounds::new(link(scenario), &limits) };
    let theory = theory(scenario);
    let means: Vec<u64> =
        read.streams.iter().map(|offered| offered.mean_bps(span_ns, &scenario.link)).collect();
    (0..limits.len())
        .map(|stream| {
            let mut promise = match theory {
                Theory::Fair(discipline) => {
                    fair(&bounds, latency_rate(&bounds, discipline, stream), stream, means[stream])
                }
                Theory::Below(discipline, channel) => {
                    let promised = below(scenario, &bounds, discipline, channel, stream);
                    fair(&bounds, promised, stream, means[stream])
                }
                Theory::Fifo => queue(&bounds, stream, bounds.fifo_delay_ns(), &means, |_| true),
                Theory::StaticPriority => {
                    let own = limits[stream].priority;
                    let delay_ns = bounds.static_priority_delay_ns(stream);
                    queue(&bounds, stream, delay_ns, &means, |other| limits[other].priority <= own)
                }
                Theory::Deadlines => deadlines(scenario, &bounds, stream),
                Theory::Silent(why) => silent(why),
            };
            if scenario.streams[stream].contract.is_limited() && promise.no_promise.is_none() {
                let why = "its rate cap or lack of credits can hold it back for longer";
                promise = Promise { guaranteed_bps: promise.guaranteed_bps, ..silent(why) };
            }
            promise
        })
        .collect()
}

fn silent(why: impl Into<String>) -> Promise {
    Promise { no_promise: Some(why.into()), ..Promise::default() }
}

fn latency_rate(
    bounds: &Bounds,
    discipline: FairDiscipline,
    stream: usize,
) -> Result<LatencyRate, String> {
    bounds.latency_rate(discipline, stream).map_err(|error| error.to_string())
}

/// What `stream` is guaranteed while the stream `channel` goes first.
fn below(
    scenario: &Scenario,
    bounds: &Bounds,
    discipline: FairDiscipline,
    channel: usize,
    stream: usize,
) -> Result<LatencyRate, String> {
    if stream == channel {
        return Err("it goes before all others, as far as its rate cap lets it".to_owned());
    }
    let of = &bounds.streams[channel];
    let contract = &scenario.streams[channel].contract;
    let name = &scenario.streams[channel].name;
    let bucket = Channel::of(contract, of.smallest_bytes, of.largest_bytes)
        .ok_or_else(|| format!("`{name}` goes first and has no max-rate: it may take all"))?;
    let mut others = bounds.streams.to_vec();
    others.remove(channel);
    let bounds = Bounds { streams: &others, ..*bounds };
    bounds
        .latency_rate_below(discipline, stream - usize::from(stream > channel), &bucket)
        .map_err(|error| error.to_string())
}

fn fair(
    bounds: &Bounds,
    promised: Result<LatencyRate, String>,
    stream: usize,
    mean_bps: u64,
) -> Promise {
    let promised = match promised {
        Ok(promised) => promised,
        Err(why) => return silent(why),
    };
    let guaranteed_bps = Some(promised.rate_bps);
    let Some(source) = bounds.streams[stream].source.filter(|s| mean_bps <= s.rate_bps) else {
        return Promise { guaranteed_bps, ..silent("it offers more than it is guaranteed") };
    };
    Promise {
        guaranteed_bps,
        worst_delay_ns: promised.delay_ns(source),
        worst_backlog_bytes: promised.backlog_bytes(source),
        no_promise: None,
    }
}

fn queue(
    bounds: &Bounds,
    stream: usize,
    delay_ns: Option<u64>,
    means: &[u64],
    before: impl Fn(usize) -> bool,
) -> Promise {
    let load: u128 =
        (0..means.len()).filter(|other| before(*other)).map(|other| u128::from(means[other])).sum();
    let fits = load <= u128::from(bounds.effective_rate_bps());
    let (Some(delay_ns), Some(source), true) = (delay_ns, bounds.streams[stream].source, fits)
    else {
        return silent("it and those that go before it offer more than the link carries");
    };
    let meanwhile = u128::from(source.rate_bps) * u128::from(delay_ns);
    let meanwhile = u64::try_from(meanwhile.div_ceil(8_000_000_000)).unwrap_or(u64::MAX);
    Promise {
        guaranteed_bps: None,
        worst_delay_ns: Some(delay_ns),
        worst_backlog_bytes: Some(source.burst_bytes.saturating_add(meanwhile)),
        no_promise: None,
    }
}

/// Under a schedule of deadlines a stream that is served in m of k periods of T gets m·L/(k·T).
fn deadlines(scenario: &Scenario, bounds: &Bounds, stream: usize) -> Promise {
    let limits = &bounds.streams[stream];
    let kept = match scenario.scheduler.discipline.name {
        "edf" => matches!(bounds.edf(), Some(EdfVerdict::Feasible { .. })),
        _ => super::windows(scenario, bounds).is_ok_and(|verdict| verdict.windows == Windows::Kept),
    };
    if !kept {
        return silent("its contract may be broken");
    }
    let (served, of) = match (scenario.scheduler.discipline.name, limits.window.of()) {
        ("edf", _) => (1, 1),
        (_, 0) => (0, 1),
        (_, of) => (of - limits.window.lost(), of),
    };
    let bits = u128::from(bounds.link.wire_bytes(limits.smallest_bytes)) * 8_000_000_000;
    let periods = u128::from(of) * u128::from(limits.period_ns.max(1));
    let rate = u64::try_from(bits * u128::from(served) / periods).unwrap_or(u64::MAX);
    Promise {
        guaranteed_bps: Some(rate).filter(|rate| *rate > 0),
        no_promise: Some(
            "a packet starts before its deadline, or is lost as its window allows".into(),
        ),
        ..Promise::default()
    }
}
