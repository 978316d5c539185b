//! The history of a router: rates and delays of its paths by second and minute.

use millstream_report::http::history::{History, HistoryPage, Span};
use millstream_sync::histogram::TimeCounts;
use std::collections::HashMap;

use crate::live::delay::RecentDelay;
use crate::live::report::{PathReport, Report};

/// The values of a point, in order.
const COLUMNS: [&str; 6] =
    ["sent_bps", "sent_pps", "dropped_pps", "delay_p50_ns", "delay_p99_ns", "delay_longest_ns"];

/// Turns reports into a history.
pub(super) struct Sampler {
    history: History<{ COLUMNS.len() }>,
    /// The last sample of each span.
    last: [Option<Sample>; 2],
    /// The sojourn times of the last second by path.
    recent: HashMap<String, RecentDelay>,
}

/// The counters of all paths at one time.
struct Sample {
    elapsed_ns: u64,
    paths: HashMap<String, PathSample>,
}

struct PathSample {
    sent: u64,
    sent_bytes: u64,
    dropped: u64,
    delays: TimeCounts,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { history: History::new(COLUMNS), last: [None, None], recent: HashMap::new() }
    }
}

impl Sampler {
    /// Adds a report: a point a second, and one a minute.
    pub(super) fn add(&mut self, report: &Report) {
        for span in [Span::Hour, Span::Week] {
            let last = &mut self.last[usize::from(span == Span::Week)];
            let Some(before) = last else {
                *last = Some(Sample::new(report));
                continue;
            };
            let elapsed_ns = report.elapsed_ns.saturating_sub(before.elapsed_ns);
            // The seconds' samples may be some milliseconds early.
            if elapsed_ns < span.step_ns() - Span::Hour.step_ns() / 2 {
                continue;
            }
            let now = Sample::new(report);
            let changes = report.paths.iter().filter_map(|path| {
                let (old, new) = (before.paths.get(&path.name)?, &now.paths[&path.name]);
                Some((path.name.as_str(), new.since(old, elapsed_ns)))
            });
            let changes: Vec<_> = changes.collect();
            if span == Span::Hour {
                let recent = changes
                    .iter()
                    .filter_map(|(name, change)| Some(((*name).to_owned(), change.delay?)));
                self.recent = recent.collect();
            }
            let rows = changes.iter().map(|(name, change)| (*name, change.row()));
            self.history.push(span, report.elapsed_ns, rows);
            *last = Some(now);
        }
    }

    /// Adds the sojourn times of the last second to a report.
    pub(super) fn add_recent(&self, report: &mut Report) {
        for path in &mut report.paths {
            path.recent_delay = self.recent.get(&path.name).copied();
        }
    }

    /// Returns a span of the history.
    pub(super) fn page(&self, span: Span) -> HistoryPage {
        self.history.page(span)
    }
}

impl Sample {
    fn new(report: &Report) -> Self {
        let paths = report.paths.iter().map(|path| (path.name.clone(), PathSample::new(path)));
        Self { elapsed_ns: report.elapsed_ns, paths: paths.collect() }
    }
}

impl PathSample {
    fn new(path: &PathReport) -> Self {
        Self {
            sent: path.sent,
            sent_bytes: path.sent_bytes,
            dropped: path.dropped(),
            delays: path.delay_sources.counts(),
        }
    }

    /// Returns the changes after `before`.
    fn since(&self, before: &Self, elapsed_ns: u64) -> Change {
        let rate = |now: u64, before: u64| {
            now.saturating_sub(before) as f64 * 1e9 / elapsed_ns.max(1) as f64
        };
        Change {
            sent_bps: 8.0 * rate(self.sent_bytes, before.sent_bytes),
            sent_pps: rate(self.sent, before.sent),
            dropped_pps: rate(self.dropped, before.dropped),
            delay: RecentDelay::new(&self.delays.since(&before.delays)),
        }
    }
}

/// The rates and sojourn times of a path in a second or minute.
struct Change {
    sent_bps: f64,
    sent_pps: f64,
    dropped_pps: f64,
    delay: Option<RecentDelay>,
}

impl Change {
    fn row(&self) -> [f64; COLUMNS.len()] {
        let delay = |of: fn(&RecentDelay) -> u64| {
            self.delay.as_ref().map_or(f64::NAN, |delay| of(delay) as f64)
        };
        [
            self.sent_bps,
            self.sent_pps,
            self.dropped_pps,
            delay(|delay| delay.p50_ns),
            delay(|delay| delay.p99_ns),
            delay(|delay| delay.longest_ns),
        ]
    }
}
