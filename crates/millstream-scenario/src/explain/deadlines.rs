//! Verdicts of disciplines with deadlines: the theorem that applies to all streams, and contracts
//! that their own numbers rule out.

use millstream::bounds::{
    ArrivalPattern, Bounds, Condition, DeadlineGuarantee, EdfVerdict, Failing, StreamLimits,
    Theorem,
};
use millstream::catalogue::DisciplineRow;
use millstream::{CREDIT_BYTES, Window};

use super::repair::looser_window;
use super::verdict::{Checks, FailedPremise, Verdict};
use crate::network::Direction;
use crate::scenario::{Scenario, SchedulerConfig, Stream};

/// The window of a stream that may lose nothing.
const NO_LOSS: (u32, u32) = (0, 1);

/// Returns whether a window requires nothing under this guarantee, so no violation is possible.
fn requires_nothing(guarantee: &DeadlineGuarantee, (lost, of): (u32, u32)) -> bool {
    !guarantee.every_request && lost == of
}

/// Returns the scheduler of the parent of `stream` under `root`.
fn scheduler<'a>(
    scenario: &'a Scenario,
    root: &'a SchedulerConfig,
    stream: &Stream,
) -> &'a SchedulerConfig {
    stream.class.map_or(root, |class| &scenario.classes[class].scheduler)
}

/// Returns the discipline of the parent of `stream` and its guarantee, if the stream asks for
/// deadlines.
fn required_deadlines(
    scenario: &Scenario,
    root: &SchedulerConfig,
    stream: &Stream,
) -> Option<(&'static DisciplineRow, DeadlineGuarantee)> {
    let row = scheduler(scenario, root, stream).discipline;
    let guarantee = row.guarantee.deadlines()?;
    (!requires_nothing(&guarantee, stream.window)).then_some((row, guarantee))
}

/// Returns whether the parent of stream `at` orders it by a deadline that it may miss.
pub(super) fn is_ordered_by_deadline(scenario: &Scenario, at: usize) -> bool {
    is_ordered_by_deadline_under(scenario, &scenario.scheduler, at)
}

/// See [`is_ordered_by_deadline`], of a link with this root.
pub(super) fn is_ordered_by_deadline_under(
    scenario: &Scenario,
    root: &SchedulerConfig,
    at: usize,
) -> bool {
    required_deadlines(scenario, root, &scenario.streams[at]).is_some()
}

/// Returns the reason why the contract of one stream cannot be kept, independent of other streams.
pub(super) fn infeasible_alone(
    scenario: &Scenario,
    limits: &StreamLimits,
    at: usize,
) -> Option<Verdict> {
    let stream = &scenario.streams[at];
    let packets = limits.arrivals.as_ref().map_or(0, ArrivalPattern::packets);
    if packets == 0 {
        return None;
    }
    if let Some(credits) = stream.contract.initial_credits() {
        let needed = u64::from(limits.largest_bytes.div_ceil(CREDIT_BYTES));
        if needed > credits {
            return Some(Verdict::infeasible(
                format!(
                    "its packet of {} bytes needs {needed} credits and the buffer has {credits}: \
                     it is never sent",
                    limits.largest_bytes
                ),
                Some(format!("credits.buffer = \"{} B\"", needed * u64::from(CREDIT_BYTES))),
            ));
        }
    }
    let (row, guarantee) = required_deadlines(scenario, &scenario.scheduler, stream)?;
    first_deadline_passed(row, &guarantee, limits)
        .or_else(|| check_rate_cap(scenario, &guarantee, limits, at))
}

/// Checks that the first packet does not arrive after its deadline, if none may be lost.
fn first_deadline_passed(
    row: &DisciplineRow,
    guarantee: &DeadlineGuarantee,
    limits: &StreamLimits,
) -> Option<Verdict> {
    let none_may_be_lost = row.uses.contains(&"first-deadline")
        && (guarantee.every_request || limits.window.lost() == 0);
    let given_ns = limits.first_deadline_ns.filter(|_| none_may_be_lost)?;
    let first_ns = limits.arrivals.as_ref()?.first_ns();
    (given_ns <= first_ns).then(|| {
        Verdict::infeasible(
            format!(
                "its first packet arrives at {first_ns} ns, its first deadline is {given_ns} ns"
            ),
            Some(format!("first-deadline = \"{} ns\"", first_ns.saturating_add(limits.period_ns))),
        )
    })
}

/// Checks that the rate cap is not below the rate that the contract asks for.
fn check_rate_cap(
    scenario: &Scenario,
    guarantee: &DeadlineGuarantee,
    limits: &StreamLimits,
    at: usize,
) -> Option<Verdict> {
    let cap_bps = scenario.streams[at].contract.rate_cap()?.rate_bps.get();
    let (lost, of) = (limits.window.lost(), limits.window.of());
    let (served, of) = if guarantee.every_request || of == 0 { (1, 1) } else { (of - lost, of) };
    let bytes = scenario.scheduler.options.link.wire_bytes(limits.smallest_bytes);
    let bits = u128::from(bytes) * 8_000_000_000 * u128::from(served);
    let periods = u128::from(of) * u128::from(limits.period_ns.max(1));
    let need_bps = u64::try_from(bits.div_ceil(periods)).unwrap_or(u64::MAX);
    (need_bps > cap_bps).then(|| {
        Verdict::infeasible(
            format!("its contract needs {need_bps} bit/s and max-rate is {cap_bps} bit/s"),
            Some(format!("max-rate = \"{need_bps} bit/s\"")),
        )
    })
}

/// Contracts with deadlines that need more than the link.
pub(super) struct Overload {
    /// The share of the link that they need, in 10⁻⁶.
    pub(super) ppm: u64,
    /// A window that makes all contracts guaranteed, or otherwise feasible.
    pub(super) window: Option<String>,
}

/// Returns by how much the contracts with deadlines need more than the link, if they do.
///
/// In a tree, only streams of classes that order by deadlines count.
pub(super) fn overload(scenario: &Scenario, bounds: &Bounds) -> Option<Overload> {
    let need = |streams: &[StreamLimits]| {
        let asking = asking(scenario, streams);
        Bounds { streams: &asking, ..*bounds }.need(false, true)
    };
    let (ppm, too_much) = need(bounds.streams);
    let window = || {
        let row = scenario.scheduler.discipline;
        let guarantee = row.guarantee.deadlines().filter(|_| scenario.classes.is_empty());
        let by_windows = |theorem: &&Theorem| **theorem != Theorem::EdfDemand;
        let proves = |streams: &[StreamLimits], theorem: Theorem| {
            let proved = Bounds { streams, ..*bounds }.prove(theorem);
            proved.iter().all(|of| of.failing.is_none())
        };
        let mut theorems = guarantee.iter().flat_map(|of| of.theorems).filter(by_windows);
        let guaranteed =
            theorems.find_map(|theorem| looser_window(bounds.streams, |of| proves(of, *theorem)));
        let found = guaranteed.or_else(|| looser_window(bounds.streams, |of| !need(of).1));
        found.map(|(stream, window)| window_of(&scenario.streams[stream].name, window))
    };
    too_much.then(|| Overload { ppm, window: window() })
}

/// Returns the streams that ask for deadlines, with the windows in which they ask for them.
fn asking(scenario: &Scenario, limits: &[StreamLimits]) -> Vec<StreamLimits> {
    let asking = |(stream, limits): (&Stream, &StreamLimits)| {
        let arrives = limits.arrivals.as_ref().is_some_and(|of| of.packets() > 0);
        // The sum is that of `[link]`.
        let counts = arrives && stream.direction == Direction::Forward;
        let root = &scenario.scheduler;
        let guarantee = scheduler(scenario, root, stream).discipline.guarantee.deadlines()?;
        let window = (limits.window.lost(), limits.window.of());
        let asks = counts && !requires_nothing(&guarantee, window);
        let (lost, of) = if guarantee.every_request { NO_LOSS } else { window };
        let window = Window::new(lost, of).unwrap_or_default();
        asks.then_some(StreamLimits { window, ..*limits })
    };
    scenario.streams.iter().zip(limits).filter_map(asking).collect()
}

/// Returns a window as a change of the stream called `name`.
fn window_of(name: &str, window: Window) -> String {
    format!("window = \"{}/{}\" of `{name}`", window.lost(), window.of())
}

/// The theorem with the fewest failing premises for a flat set of streams.
pub(super) struct Proof {
    theorem: Theorem,
    checks: Checks,
}

impl Proof {
    /// Returns the most packets of a stream that wait at once; `None` if there is no bound.
    pub(super) fn most_waiting(&self, bounds: &Bounds, stream: usize) -> Option<u64> {
        bounds.most_waiting(self.theorem, stream)
    }
}

/// Proves the deadlines of all streams; `None` for disciplines without deadlines. `checks` returns
/// the shared premises of a theorem with the given name.
pub(super) fn prove(
    scenario: &Scenario,
    bounds: &Bounds,
    checks: impl Fn(&str) -> Checks,
) -> Option<Proof> {
    let SchedulerConfig { discipline, structure, options } = &scenario.scheduler;
    let guarantee = discipline.guarantee.deadlines()?;
    let mut nearest: Option<Proof> = None;
    for &theorem in guarantee.theorems {
        let mut checks = checks(&theorem.to_string());
        if let Some(unproved) = guarantee.settings {
            let setting = unproved(options, *structure, theorem);
            let unmet = setting.map(|setting| FailedPremise::new(setting.detail, setting.change));
            checks.add("order-and-rules", unmet);
        }
        for checked in bounds.prove(theorem) {
            let unmet = checked.failing.map(|failing| unmet(scenario, bounds, theorem, failing));
            checks.add(checked.condition.name(), unmet);
        }
        // The first theorem that holds is kept.
        let nearer = |known: &Proof| {
            known.checks.failing() > 0 && checks.failing() <= known.checks.failing()
        };
        if nearest.as_ref().is_none_or(nearer) {
            nearest = Some(Proof { theorem, checks });
        }
    }
    nearest
}

/// Returns the verdict of stream `at` under this proof.
pub(super) fn verdict(scenario: &Scenario, at: usize, proof: &Proof) -> Verdict {
    if !is_ordered_by_deadline(scenario, at) {
        return Verdict::trivial("its window allows every packet to be lost");
    }
    let Proof { theorem, checks } = proof;
    let (lost, of) = scenario.streams[at].window;
    let promise = match theorem {
        Theorem::EdfDemand => "every packet starts before its deadline".to_owned(),
        _ if of == 0 => "every packet starts before its deadline".to_owned(),
        _ => format!("of each {of} requests at most {lost} miss their deadline"),
    };
    checks.clone().verdict(promise)
}

/// Describes a failing condition with the names of streams.
fn unmet(
    scenario: &Scenario,
    bounds: &Bounds,
    theorem: Theorem,
    failing: Failing,
) -> FailedPremise {
    let name = |stream: usize| format!("`{}`", scenario.streams[stream].name);
    let of = |stream: usize| &bounds.streams[stream];
    match failing {
        Failing::Gated { stream } => describe_gate(scenario, stream),
        Failing::FirstDeadline { stream, least_ns } => FailedPremise {
            detail: format!(
                "the first deadline of {} is earlier than its first arrival + period",
                name(stream)
            ),
            change: least_ns.map(|ns| format!("first-deadline = \"{ns} ns\" of {}", name(stream))),
        },
        Failing::Queue { stream, packets } => FailedPremise::new(
            match packets {
                Some(packets) => {
                    format!(
                        "{packets} packets of {} may wait, more than its queue holds",
                        name(stream)
                    )
                }
                None => format!("late packets of {} may fill its queue", name(stream)),
            },
            match packets {
                Some(packets) => format!("queue = {packets} of {}", name(stream)),
                None => format!("late = \"drop\" of {}, or no `queue`", name(stream)),
            },
        ),
        Failing::Length { stream } => FailedPremise::new(
            format!("packets of {} and of {} differ in length", name(stream), name(0)),
            format!("packets of {} bytes in every stream", of(0).largest_bytes),
        ),
        Failing::BrokenSlots { stream, slot_ns } => {
            let period_ns = of(stream).period_ns;
            let whole_ns = period_ns.max(1).div_ceil(slot_ns.max(1)).saturating_mul(slot_ns);
            let detail = format!(
                "the period of {} is not a multiple of a packet's transmission time, {slot_ns} ns",
                name(stream)
            );
            FailedPremise::new(detail, format!("period = \"{whole_ns} ns\" of {}", name(stream)))
        }
        Failing::Period { stream } => FailedPremise::new(
            format!("the periods of {} and {} differ", name(stream), name(0)),
            format!("period = \"{} ns\" of {}, or discipline vds", of(0).period_ns, name(stream)),
        ),
        Failing::OffSlot { stream, slot_ns } => FailedPremise::new(
            format!("packets of {} arrive within slots of {slot_ns} ns", name(stream)),
            format!(
                "arrivals of {} at multiples of {slot_ns} ns after those of the others",
                name(stream)
            ),
        ),
        Failing::Phase { stream, by_ns } => match by_ns {
            Some(by_ns) => FailedPremise::new(
                format!(
                    "the periods of {} begin {by_ns} ns after those of the first stream",
                    name(stream)
                ),
                format!(
                    "first-deadline of {} later by {} ns",
                    name(stream),
                    of(stream).period_ns - by_ns
                ),
            ),
            None => FailedPremise::new(
                format!("the periods of {} restart at different phases", name(stream)),
                format!("a packet of {} in every period", name(stream)),
            ),
        },
        Failing::Pause { stream } => FailedPremise::new(
            format!("{} has periods without a request in the middle of its window", name(stream)),
            format!("a packet of {} in every period, or window = \"0/1\"", name(stream)),
        ),
        Failing::Window { stream } => describe_partial_window(scenario, bounds, stream),
        Failing::Overload { ppm } => FailedPremise::new(
            format!(
                "the contracts need {} % of the link if all packets have the largest length",
                percent(ppm)
            ),
            or_window(
                format!("link.rate = \"{} bit/s\"", scaled(scenario.link.rate_bps, ppm)),
                sufficient_window(bounds, theorem)
                    .map(|(stream, window)| window_of(&scenario.streams[stream].name, window))
                    .or_else(|| under_vds(scenario, bounds)),
            ),
        ),
        Failing::TooClose => FailedPremise::new(
            "the needed share of the link is too near to 1 for a decision".to_owned(),
            "longer periods".to_owned(),
        ),
        Failing::Miss { at_ns } => describe_miss(scenario, bounds, at_ns),
        Failing::Unknown { stream } => FailedPremise {
            detail: format!("when packets of {} arrive is unknown", name(stream)),
            change: None,
        },
    }
}

/// Returns `change`, or a window instead if there is one.
pub(super) fn or_window(change: String, window: Option<String>) -> String {
    match window {
        Some(window) => format!("{change}, or {window}"),
        None => change,
    }
}

/// Returns a looser window with which the conditions of `theorem` on windows hold, and its stream.
fn sufficient_window(bounds: &Bounds, theorem: Theorem) -> Option<(usize, Window)> {
    if theorem == Theorem::EdfDemand {
        return None;
    }
    looser_window(bounds.streams, |streams| {
        let proved = Bounds { streams, ..*bounds }.prove(theorem);
        proved.iter().all(|of| of.failing.is_none() || !WINDOWS.contains(&of.condition))
    })
}

/// Returns the discipline VDS, and a looser window if it needs one, if it guarantees windows with
/// different periods, for which DWCS has no theorem but the demand criterion.
fn under_vds(scenario: &Scenario, bounds: &Bounds) -> Option<String> {
    let guarantee = scenario.scheduler.discipline.guarantee.deadlines()?;
    let in_step = guarantee.theorems.contains(&Theorem::UnitJobsInStep);
    let first = bounds.streams.first()?.period_ns;
    let failing = bounds.prove(Theorem::UnitJobs);
    let mut failing = failing.iter().filter(|of| of.failing.is_some()).map(|of| of.condition);
    let applies = in_step
        && bounds.streams.iter().any(|of| of.period_ns != first)
        && failing.clone().all(|of| WINDOWS.contains(&of));
    if !applies {
        return None;
    }
    if failing.next().is_none() {
        return Some("discipline vds".into());
    }
    let (stream, window) = sufficient_window(bounds, Theorem::UnitJobs)?;
    Some(format!("discipline vds with {}", window_of(&scenario.streams[stream].name, window)))
}

/// The conditions of theorems that looser windows can repair.
const WINDOWS: [Condition; 2] = [Condition::Windows, Condition::Utilisation];

/// Returns for each stream the window over as many requests with the fewest losses that is
/// guaranteed while the other windows stay as they are; empty for too many streams. `checks` are
/// the shared premises of a theorem.
pub(super) fn tightest_windows(
    scenario: &Scenario,
    bounds: &Bounds,
    checks: impl Fn(&str) -> Checks,
) -> Vec<Option<Window>> {
    let SchedulerConfig { discipline, structure, options } = &scenario.scheduler;
    let guarantee = discipline.guarantee.deadlines().filter(|of| !of.every_request);
    if bounds.streams.len() > SEARCHED_STREAMS || checks("").failing() > 0 {
        return Vec::new();
    }
    let theorems =
        guarantee.iter().flat_map(|of| of.theorems.iter().map(move |theorem| (of, *theorem)));
    let covered = theorems.filter(|(of, theorem)| {
        of.settings.is_none_or(|unproved| unproved(options, *structure, *theorem).is_none())
    });
    let (by_demand, by_windows): (Vec<_>, Vec<_>) =
        covered.map(|(_, theorem)| theorem).partition(|of| *of == Theorem::EdfDemand);
    // The demand criterion reads no windows, and takes longest.
    let holds = |theorem: &Theorem| bounds.prove(*theorem).iter().all(|of| of.failing.is_none());
    let every_request = by_demand.iter().any(holds);
    let tightest = |(stream, of): (usize, &StreamLimits)| {
        let all = Window::new(0, of.window.of()).ok().filter(|window| window.of() > 0);
        let proved = by_windows.iter().filter_map(|of| bounds.tightest_window(*of, stream));
        if every_request { all } else { proved.min_by_key(|window| window.lost()) }
    };
    bounds.streams.iter().enumerate().map(tightest).collect()
}

/// Describes the rate cap or the credits of a stream.
pub(super) fn describe_gate(scenario: &Scenario, stream: usize) -> FailedPremise {
    let stream = &scenario.streams[stream];
    let name = &stream.name;
    let (what, change) = if stream.contract.rate_cap().is_some() {
        ("a rate cap", format!("`{name}` without `max-rate`"))
    } else {
        ("credits", "[link] without `credits`".to_owned())
    };
    FailedPremise::new(format!("`{name}` has {what}, which can hold its packets back"), change)
}

/// Describes a window that asks for several of its requests, and a window that implies it.
fn describe_partial_window(scenario: &Scenario, bounds: &Bounds, stream: usize) -> FailedPremise {
    let window = bounds.streams[stream].window;
    let (lost, of) = (window.lost(), window.of());
    let block = of / (of - lost);
    let name = &scenario.streams[stream].name;
    FailedPremise::new(
        format!(
            "window {lost}/{of} of `{name}` requires {} of {of} requests, so it counts with all of \
             them, and with these the contracts need more than the link",
            of - lost
        ),
        format!(
            "window = \"{}/{block}\" of `{name}`, which implies it, or discipline pd2 with equal \
             periods",
            block - 1
        ),
    )
}

/// The most streams for which a sufficient period is computed.
const SEARCHED_STREAMS: usize = 64;

/// Describes a possible miss although the sum is at most 1.
fn describe_miss(scenario: &Scenario, bounds: &Bounds, at_ns: Option<u64>) -> FailedPremise {
    let at_ns = at_ns.unwrap_or(0);
    let detail = format!(
        "a deadline can be missed {at_ns} ns after a burst of all streams begins, because packets \
         in service are finished first"
    );
    let change = sufficient_period(bounds, at_ns).map(|(stream, period_ns)| {
        format!("period = \"{period_ns} ns\" of `{}`", scenario.streams[stream].name)
    });
    FailedPremise { detail, change }
}

/// Returns the stream with the shortest period within `at_ns`, and the shortest period with which
/// the criterion holds, by bisection.
fn sufficient_period(bounds: &Bounds, at_ns: u64) -> Option<(usize, u64)> {
    if bounds.streams.len() > SEARCHED_STREAMS {
        return None;
    }
    let short = bounds.streams.iter().enumerate().filter(|(_, of)| of.period_ns <= at_ns);
    let stream = short.min_by_key(|(_, of)| of.period_ns)?.0;
    let holds = |period_ns: u64| {
        let mut streams = bounds.streams.to_vec();
        streams[stream].period_ns = period_ns;
        let bounds = Bounds { streams: &streams, ..*bounds };
        matches!(bounds.edf(), Some(EdfVerdict::Feasible { .. }))
    };
    let mut short_ns = bounds.streams[stream].period_ns;
    let mut long_ns = short_ns.saturating_mul(1024);
    if !holds(long_ns) {
        return None;
    }
    while long_ns - short_ns > 1 {
        let middle_ns = short_ns + (long_ns - short_ns) / 2;
        if holds(middle_ns) { long_ns = middle_ns } else { short_ns = middle_ns }
    }
    Some((stream, long_ns))
}

/// Formats 10⁻⁶ as a percentage with one decimal, rounded up.
pub(super) fn percent(ppm: u64) -> String {
    let tenths = ppm.div_ceil(1_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns `rate_bps` × `ppm` / 10⁶, rounded up.
pub(super) fn scaled(rate_bps: u64, ppm: u64) -> u64 {
    let scaled = (u128::from(rate_bps) * u128::from(ppm)).div_ceil(1_000_000);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
