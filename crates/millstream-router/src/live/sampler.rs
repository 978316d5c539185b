//! The history of a router: rates and delays of its paths by second and minute.

use millstream_report::http::history::{HistoryPage, Sampler, Span, rate};
use millstream_sync::histogram::TimeCounts;
use std::collections::HashMap;

use crate::live::delay::RecentDelay;
use crate::live::report::{PathReport, Report};

/// The values of a point, in order.
const COLUMNS: [&str; 6] =
    ["sent_bps", "sent_pps", "dropped_pps", "delay_p50_ns", "delay_p99_ns", "delay_longest_ns"];

/// Turns reports into a history.
pub(super) struct PathSampler {
    history: Sampler<HashMap<String, PathSample>, { COLUMNS.len() }>,
    /// The sojourn times of the last second by path.
    recent: HashMap<String, RecentDelay>,
}

/// The counters of a path at one time.
struct PathSample {
    sent: u64,
    sent_bytes: u64,
    dropped: u64,
    delays: TimeCounts,
}

impl Default for PathSampler {
    fn default() -> Self {
        Self { history: Sampler::new(COLUMNS), recent: HashMap::new() }
    }
}

impl PathSampler {
    /// Adds a report: a point a second, and one a minute.
    pub(super) fn add(&mut self, report: &Report) {
        let sample = |path: &PathReport| (path.name.clone(), PathSample::new(path));
        let now: HashMap<_, _> = report.paths.iter().map(sample).collect();
        let recent = &mut self.recent;
        self.history.add(report.elapsed_ns, now, |span, before, now, elapsed_ns| {
            if span == Span::Hour {
                recent.clear();
            }
            // The report's order: the first paths have a history.
            let known = report.paths.iter().filter_map(|path| {
                Some((&path.name, before.get(&path.name)?, now.get(&path.name)?))
            });
            let rows = known.map(|(name, before, now)| {
                let delay = RecentDelay::new(&now.delays.since(&before.delays));
                if span == Span::Hour {
                    recent.extend(delay.map(|delay| (name.clone(), delay)));
                }
                (name.clone(), row(before, now, delay, elapsed_ns))
            });
            rows.collect()
        });
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

impl PathSample {
    fn new(path: &PathReport) -> Self {
        Self {
            sent: path.sent,
            sent_bytes: path.sent_bytes,
            dropped: path.dropped(),
            delays: path.delay_sources.counts(),
        }
    }
}

/// Returns the values of the time between two samples of a path.
fn row(
    before: &PathSample,
    now: &PathSample,
    delay: Option<RecentDelay>,
    elapsed_ns: u64,
) -> [f64; COLUMNS.len()] {
    let delay = |of: fn(&RecentDelay) -> u64| delay.as_ref().map_or(f64::NAN, |d| of(d) as f64);
    [
        8.0 * rate(before.sent_bytes, now.sent_bytes, elapsed_ns),
        rate(before.sent, now.sent, elapsed_ns),
        rate(before.dropped, now.dropped, elapsed_ns),
        delay(|delay| delay.p50_ns),
        delay(|delay| delay.p99_ns),
        delay(|delay| delay.longest_ns),
    ]
}
