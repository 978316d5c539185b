//! The history of a media server: rates and delays of its streams by second and minute.

use millstream_report::http::history::{History, HistoryPage, Span};
use mio::Waker;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{ANSWER_TIMEOUT, PageRequest, Totals};
use crate::rtsp::session::StreamTotals;

/// The values of a point, in order.
const COLUMNS: [&str; 4] = ["sent_bps", "sent_fps", "missed_fps", "delay_p99_ns"];

/// The history that a thread writes.
#[derive(Clone)]
pub(super) struct SharedHistory(Arc<Mutex<Sampler>>);

impl SharedHistory {
    /// Returns a span of the history.
    pub(super) fn page(&self, span: Span) -> HistoryPage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).history.page(span)
    }
}

struct Sampler {
    history: History<{ COLUMNS.len() }>,
    /// The last totals of each span.
    last: [Option<Totals>; 2],
}

/// Starts the thread that requests totals once a second by `ask`, as long as session control runs.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(super) fn start(ask: SyncSender<PageRequest>, waker: Arc<Waker>) -> io::Result<SharedHistory> {
    let sampler = Sampler { history: History::new(COLUMNS), last: [None, None] };
    let history = SharedHistory(Arc::new(Mutex::new(sampler)));
    let written = history.clone();
    let sample = move || {
        let step = Duration::from_nanos(Span::Hour.step_ns());
        let mut due = Instant::now();
        loop {
            let (reply, answer) = sync_channel(1);
            if ask.send(PageRequest::Totals(reply)).is_err() || waker.wake().is_err() {
                return;
            }
            if let Ok(totals) = answer.recv_timeout(ANSWER_TIMEOUT) {
                written.0.lock().unwrap_or_else(PoisonError::into_inner).add(&totals);
            }
            // A late sample does not shift the following ones.
            due = (due + step).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    };
    thread::Builder::new().name("history".into()).spawn(sample)?;
    Ok(history)
}

impl Sampler {
    /// Adds totals: a point a second, and one a minute.
    fn add(&mut self, totals: &Totals) {
        for span in [Span::Hour, Span::Week] {
            let last = &mut self.last[usize::from(span == Span::Week)];
            let now = || Totals { elapsed_ns: totals.elapsed_ns, streams: totals.streams.clone() };
            let Some(before) = last else {
                *last = Some(now());
                continue;
            };
            let elapsed_ns = totals.elapsed_ns.saturating_sub(before.elapsed_ns);
            // The seconds' samples may be some milliseconds early.
            if elapsed_ns < span.step_ns() - Span::Hour.step_ns() / 2 {
                continue;
            }
            let rows = totals.streams.iter().map(|(name, of)| {
                let old = before.streams.iter().find(|(old, _)| old == name);
                let old = old.map_or_else(StreamTotals::default, |(_, old)| *old);
                (name.as_str(), row(&old, of, elapsed_ns))
            });
            self.history.push(span, totals.elapsed_ns, rows);
            *last = Some(now());
        }
    }
}

/// Returns the values of the time between two totals of a stream.
fn row(old: &StreamTotals, now: &StreamTotals, elapsed_ns: u64) -> [f64; COLUMNS.len()] {
    let rate = |now: u64, old: u64| now.saturating_sub(old) as f64 * 1e9 / elapsed_ns.max(1) as f64;
    [
        8.0 * rate(now.sent_bytes, old.sent_bytes),
        rate(now.frames.sent_frames(), old.frames.sent_frames()),
        rate(now.frames.missed(), old.frames.missed()),
        now.delays.since(&old.delays).p99_ns().map_or(f64::NAN, |ns| ns as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_second_has_its_rates_and_a_stream_without_frames_no_delay() {
        let mut sampler = Sampler { history: History::new(COLUMNS), last: [None, None] };
        let mut totals = StreamTotals::default();
        let at = |second: u64, totals: StreamTotals| Totals {
            elapsed_ns: second * SECOND,
            streams: vec![("clip".to_owned(), totals)],
        };
        sampler.add(&at(1, totals));
        totals.sent_bytes = 1_000;
        totals.frames.sent = [1, 2, 22];
        totals.frames.late = [0, 0, 3];
        totals.delays.frames[4] = 25;
        sampler.add(&at(2, totals));
        sampler.add(&at(3, totals));
        let page = sampler.history.page(Span::Hour);
        let clip = &page.series[0];
        assert_eq!(page.columns, COLUMNS);
        assert_eq!(clip.values[0], [Some(8_000.0), Some(0.0)]);
        assert_eq!(clip.values[1], [Some(25.0), Some(0.0)]);
        assert_eq!(clip.values[2], [Some(3.0), Some(0.0)]);
        assert_eq!(clip.values[3], [Some(16_000.0), None]);
        assert!(sampler.history.page(Span::Week).series.is_empty());
    }
}
