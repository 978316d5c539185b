//! Virtual deadline scheduling (algorithms.md, section 1), processed period by period, and PD².
//!
//! PD² follows the definitions of Anderson and Srinivasan 2001: each period is a slot, each service
//! a subtask.
//!
//! A stream with window-constraint x/y requests m = y - x services in k = y consecutive periods of
//! length T, at most one per period. Its virtual deadline is Vd = ts + T·k'/m', where ts is the
//! start of its current period. Streams already served in their period, and those with m' = 0, have
//! the lowest precedence. The first deadline, the priority and `once_a_period` of [`StreamSpec`]
//! are ignored. In a [`Decision`] `before` holds m', k' and the end of the period, ts + T.

use std::collections::VecDeque;

use num_rational::Ratio;

use crate::gated::{GatedLink, Gates, Gating, run_gated_link};
use crate::overhead::Overhead;
use crate::{Arrival, Decision, Outcome, Row, StreamSpec};

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: u64,
    bytes: u32,
    arrival_ns: u64,
}

/// The order of services that the windows still require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    VirtualDeadline,
    Pd2,
}

/// The state of a stream.
struct Stream<'a> {
    spec: &'a StreamSpec,
    order: Order,
    queue: VecDeque<Waiting>,
    arrivals: u64,
    /// m'.
    services_left: u64,
    /// k'.
    periods_left: u64,
    /// ts, ns; `None` before the first packet.
    start_ns: Option<u64>,
    /// Whether the stream was served in the current period.
    served: bool,
    missed: u64,
    violations: u64,
}

/// The order, least first: tier, virtual deadline or end of the period (PD²: the subtask's
/// deadline, then whether its successor's window does not overlap, then the negated group
/// deadline), arrival of the head.
type Key = (u8, Ratio<i128>, bool, i128, u64);

/// Returns release and deadline of subtask `i` ≥ 1 of a task of `m` in `k` slots.
fn subtask(i: u64, m: u64, k: u64) -> (u64, u64) {
    ((i - 1) * k / m, (i * k).div_ceil(m))
}

/// Returns b: whether the window of the next subtask overlaps that of `i`.
fn overlaps(i: u64, m: u64, k: u64) -> bool {
    subtask(i + 1, m, k).0 < subtask(i, m, k).1
}

/// Returns the group deadline of subtask i: the earliest t ≥ d(i) at which a subtask ends without
/// overlapping its successor, or one slot before the end of a window of length 3. Light tasks: 0.
fn group_deadline(i: u64, m: u64, k: u64) -> u64 {
    if 2 * m < k {
        return 0;
    }
    let least = subtask(i, m, k).1;
    (i..)
        .flat_map(|later| {
            let (release, deadline) = subtask(later, m, k);
            let alone = (!overlaps(later, m, k)).then_some(deadline);
            [alone, (deadline - release == 3).then_some(deadline - 1)]
        })
        .flatten()
        .find(|t| *t >= least)
        .unwrap_or(0)
}

impl<'a> Stream<'a> {
    fn new(order: Order, spec: &'a StreamSpec) -> Self {
        let mut stream = Self {
            spec,
            order,
            queue: VecDeque::new(),
            arrivals: 0,
            services_left: 0,
            periods_left: 0,
            start_ns: None,
            served: false,
            missed: 0,
            violations: 0,
        };
        stream.new_window();
        stream
    }

    /// Begins a window: m' = m, k' = k.
    fn new_window(&mut self) {
        let (x, y) = self.spec.window;
        self.services_left = u64::from(y) - u64::from(x);
        self.periods_left = u64::from(y);
    }

    /// Returns ts + T.
    fn end_ns(&self) -> u64 {
        self.start_ns.map_or(u64::MAX, |start| start + self.spec.period_ns)
    }

    /// Ends a period: decrements k', and counts a violation if the window ends with m' > 0.
    ///
    /// A stream of window-constraint 0/0 has no window.
    fn count_period(&mut self) {
        if self.spec.window.1 == 0 {
            return;
        }
        self.periods_left -= 1;
        if self.periods_left == 0 {
            self.violations += u64::from(self.services_left > 0);
            self.new_window();
        }
    }

    /// Called when a packet becomes the head of an empty queue or after a drop.
    ///
    /// If it arrived after the period, that period had no request, and the next one begins with the
    /// packet.
    fn begin(&mut self, arrival_ns: u64) {
        let first = self.start_ns.is_none();
        if !first && arrival_ns < self.end_ns() {
            return;
        }
        if !first && self.served {
            self.count_period();
        }
        self.start_ns = Some(arrival_ns);
        self.served = false;
    }

    /// Ends every period that has passed while a packet waits; returns the dropped packets and
    /// their deadlines.
    fn charge(&mut self, now_ns: u64) -> Vec<(Waiting, u64)> {
        let mut dropped = Vec::new();
        while !self.queue.is_empty() && now_ns >= self.end_ns() {
            let (old_ns, was_served) = (self.end_ns(), self.served);
            self.missed += u64::from(!was_served);
            self.count_period();
            self.start_ns = Some(old_ns);
            self.served = false;
            if !was_served && self.spec.drop_late {
                dropped.extend(self.queue.pop_front().map(|head| (head, old_ns)));
                if let Some(next) = self.queue.front() {
                    self.begin(next.arrival_ns);
                }
            }
        }
        dropped
    }

    fn key(&self) -> Option<Key> {
        let (head, start_ns) = (self.queue.front()?, i128::from(self.start_ns?));
        let period_ns = i128::from(self.spec.period_ns);
        let end_ns = Ratio::from_integer(start_ns + period_ns);
        Some(match (self.served, self.services_left, self.order) {
            (false, 1.., Order::VirtualDeadline) => {
                let periods =
                    Ratio::new(i128::from(self.periods_left), i128::from(self.services_left));
                (0, periods * period_ns + start_ns, false, 0, head.arrival_ns)
            }
            (false, 1.., Order::Pd2) => {
                let (x, y) = (u64::from(self.spec.window.0), u64::from(self.spec.window.1));
                let (m, i) = (y - x, y - x - self.services_left + 1);
                // The time of a slot of the window.
                let at = |slot: u64| {
                    let past = i128::from(y - self.periods_left);
                    start_ns + (i128::from(slot) - past) * period_ns
                };
                let due_ns = Ratio::from_integer(at(subtask(i, m, y).1));
                let overlaps = overlaps(i, m, y);
                let group_ns = match group_deadline(i, m, y) {
                    group if overlaps && group > 0 => -at(group),
                    _ => i128::MAX,
                };
                (0, due_ns, !overlaps, group_ns, head.arrival_ns)
            }
            (false, 0, _) => (1, end_ns, false, 0, head.arrival_ns),
            (true, _, _) => (2, end_ns, false, 0, head.arrival_ns),
        })
    }

    /// Puts its head in service.
    fn serve(&mut self) {
        if !self.served {
            self.services_left = self.services_left.saturating_sub(1);
            self.served = true;
        }
    }
}

fn row(
    time_ns: u64,
    index: usize,
    head: Waiting,
    deadline_ns: Option<u64>,
    event: &'static str,
) -> Row {
    Row {
        time_ns,
        stream: u32::try_from(index).unwrap_or(u32::MAX),
        packet: head.packet,
        bytes: head.bytes,
        arrival_ns: head.arrival_ns,
        deadline_ns,
        event,
    }
}

fn arrive(streams: &mut [Stream<'_>], arrival: Arrival, outcome: &mut Outcome) {
    let index = arrival.stream as usize;
    let stream = &mut streams[index];
    let (bytes, arrival_ns) = (arrival.bytes, arrival.time_ns);
    let waiting = Waiting { packet: stream.arrivals, bytes, arrival_ns };
    stream.arrivals += 1;
    if stream.spec.queue.is_some_and(|limit| stream.queue.len() >= limit as usize) {
        outcome.rows.push(row(arrival_ns, index, waiting, None, "dropped-full"));
        return;
    }
    if stream.queue.is_empty() {
        stream.begin(arrival_ns);
    }
    stream.queue.push_back(waiting);
}

/// Charges every stream in order, then serves the first head; returns its length.
fn decide(
    streams: &mut [Stream<'_>],
    gates: &mut Gates,
    now_ns: u64,
    outcome: &mut Outcome,
) -> Option<u32> {
    for (index, stream) in streams.iter_mut().enumerate().filter(|(i, _)| !gates.is_fmc(*i)) {
        for (head, deadline_ns) in stream.charge(now_ns) {
            outcome.rows.push(row(now_ns, index, head, Some(deadline_ns), "dropped-late"));
        }
    }
    let mut best: Option<(Key, usize)> = None;
    for (index, stream) in streams.iter().enumerate() {
        let Some(mut key) = stream.key() else { continue };
        if !stream.queue.front().is_some_and(|head| gates.open(index, head.bytes, now_ns)) {
            continue;
        }
        if gates.is_fmc(index) {
            // The FMC stream precedes all other streams.
            key = (0, Ratio::from_integer(i128::MIN), false, 0, 0);
        }
        if best.as_ref().is_none_or(|(least, _)| key < *least) {
            best = Some((key, index));
        }
    }
    let (_, index) = best?;
    outcome.decisions.push(Decision {
        time_ns: now_ns,
        winner: u32::try_from(index).unwrap_or(u32::MAX),
        before: streams.iter().map(|s| (s.services_left, s.periods_left, s.end_ns())).collect(),
        missed: streams.iter().map(|s| s.missed).collect(),
        violations: streams.iter().map(|s| s.violations).collect(),
    });
    let stream = &mut streams[index];
    let head = stream.queue.pop_front()?;
    gates.charge(index, head.bytes, now_ns);
    let fmc = gates.is_fmc(index);
    if !fmc {
        stream.serve();
    }
    let deadline_ns = Some(stream.end_ns()).filter(|_| !fmc);
    outcome.rows.push(row(now_ns, index, head, deadline_ns, "sent"));
    Some(head.bytes)
}

/// A function that runs arrivals through streams; its arguments are the link's rate, bits/s, its
/// overhead, the streams and the arrivals.
pub type Run = fn(u64, Overhead, &[StreamSpec], &[Arrival]) -> Outcome;

/// Every discipline of windows by its name in scenario files.
pub const DISCIPLINES: [(&str, Run); 2] = [("vds", run), ("pd2", run_pd2)];

/// Runs `arrivals` (in time order) through the streams.
///
/// # Panics
/// If arrivals are not in time order, an x is above its y, or a stream has no period.
#[must_use]
pub fn run(
    rate_bps: u64,
    overhead: Overhead,
    streams: &[StreamSpec],
    arrivals: &[Arrival],
) -> Outcome {
    run_by(Order::VirtualDeadline, rate_bps, overhead, streams, arrivals)
}

/// Runs `arrivals` (in time order) through the streams by PD².
///
/// # Panics
/// If [`run`] does.
#[must_use]
pub fn run_pd2(
    rate_bps: u64,
    overhead: Overhead,
    streams: &[StreamSpec],
    arrivals: &[Arrival],
) -> Outcome {
    run_by(Order::Pd2, rate_bps, overhead, streams, arrivals)
}

fn run_by(
    order: Order,
    rate_bps: u64,
    overhead: Overhead,
    streams: &[StreamSpec],
    arrivals: &[Arrival],
) -> Outcome {
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.time_ns), "arrivals in time order");
    for stream in streams {
        assert!(stream.window.0 <= stream.window.1, "x is at most y");
        assert!(stream.period_ns > 0, "VDS needs a request period");
    }
    let mut streams: Vec<Stream<'_>> =
        streams.iter().map(|spec| Stream::new(order, spec)).collect();
    let mut outcome = Outcome::default();
    let mut gates = Gates::new(&Gating::default(), overhead);
    let mut arrivals = arrivals.iter().copied().peekable();
    let mut free_ns = 0;
    loop {
        // Every head is eligible, so a decision is made when the link is free and a packet waits.
        let backlogged = streams.iter().any(|stream| !stream.queue.is_empty());
        let now_ns = match arrivals.peek() {
            _ if backlogged => free_ns,
            Some(arrival) => free_ns.max(arrival.time_ns),
            None => break,
        };
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns <= now_ns) {
            arrive(&mut streams, arrival, &mut outcome);
        }
        if let Some(bytes) = decide(&mut streams, &mut gates, now_ns, &mut outcome) {
            free_ns = now_ns + overhead.transmission_ns(bytes, rate_bps);
            outcome.end_ns = free_ns;
        } else {
            free_ns = free_ns.max(now_ns);
        }
    }
    outcome.missed = streams.iter().map(|stream| stream.missed).collect();
    outcome.violations = streams.iter().map(|stream| stream.violations).collect();
    outcome
}

/// Streams with gates.
struct Link<'a> {
    streams: Vec<Stream<'a>>,
    gates: Gates,
    outcome: Outcome,
    rate_bps: u64,
    overhead: Overhead,
}

/// Runs `arrivals` with streams limited by `gating`.
///
/// At the end, packets may wait for credits that are never returned.
///
/// # Panics
/// If [`run`] does.
#[must_use]
pub fn run_gated(
    rate_bps: u64,
    overhead: Overhead,
    streams: &[StreamSpec],
    gating: &Gating,
    arrivals: &[Arrival],
) -> Outcome {
    let link = Link {
        streams: streams.iter().map(|spec| Stream::new(Order::VirtualDeadline, spec)).collect(),
        gates: Gates::new(gating, overhead),
        outcome: Outcome::default(),
        rate_bps,
        overhead,
    };
    run_gated_link(link, &gating.returns, arrivals)
}

impl GatedLink for Link<'_> {
    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }

    fn heads(&self) -> Vec<Option<u32>> {
        self.streams.iter().map(|stream| stream.queue.front().map(|head| head.bytes)).collect()
    }

    fn arrive(&mut self, arrival: Arrival) {
        arrive(&mut self.streams, arrival, &mut self.outcome);
    }

    fn decide(&mut self, now_ns: u64) -> Option<u64> {
        let bytes = decide(&mut self.streams, &mut self.gates, now_ns, &mut self.outcome)?;
        self.outcome.end_ns = now_ns + self.overhead.transmission_ns(bytes, self.rate_bps);
        Some(self.outcome.end_ns)
    }

    fn outcome(mut self) -> Outcome {
        self.outcome.missed = self.streams.iter().map(|stream| stream.missed).collect();
        self.outcome.violations = self.streams.iter().map(|stream| stream.violations).collect();
        self.outcome
    }
}
