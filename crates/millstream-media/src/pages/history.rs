//! The history of a media server: rates and delays of its streams by second and minute.

use millstream_report::http::history::{HistoryPage, Sampler, Span, rate, sample_each_second};
use mio::Waker;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{ANSWER_TIMEOUT, PageRequest, Totals};
use crate::rtsp::session::StreamTotals;

/// The values of a point, in order.
const COLUMNS: [&str; 4] = ["sent_bps", "sent_fps", "missed_fps", "delay_p99_ns"];

type StreamSampler = Sampler<Vec<(String, StreamTotals)>, { COLUMNS.len() }>;

/// The history that a thread writes.
#[derive(Clone)]
pub(super) struct SharedHistory(Arc<Mutex<StreamSampler>>);

impl SharedHistory {
    /// Returns a span of the history.
    pub(super) fn page(&self, span: Span) -> HistoryPage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).page(span)
    }
}

/// Starts the thread that requests totals once a second by `ask`, as long as session control runs.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(super) fn start(ask: SyncSender<PageRequest>, waker: Arc<Waker>) -> io::Result<SharedHistory> {
    let history = SharedHistory(Arc::new(Mutex::new(Sampler::new(COLUMNS))));
    let written = history.clone();
    let sample = move || {
        let (reply, answer) = sync_channel(1);
        if ask.send(PageRequest::Totals(reply)).is_err() || waker.wake().is_err() {
            return false;
        }
        if let Ok(totals) = answer.recv_timeout(ANSWER_TIMEOUT) {
            add(&mut written.0.lock().unwrap_or_else(PoisonError::into_inner), totals);
        }
        true
    };
    thread::Builder::new().name("history".into()).spawn(|| sample_each_second(sample))?;
    Ok(history)
}

/// Adds totals: a point a second, and one a minute.
fn add(sampler: &mut StreamSampler, totals: Totals) {
    sampler.add(totals.elapsed_ns, totals.streams, |_, before, now, elapsed_ns| {
        let rows = now.iter().map(|(name, of)| {
            let old = before.iter().find(|(old, _)| old == name);
            let old = old.map_or_else(StreamTotals::default, |(_, old)| *old);
            (name.clone(), row(&old, of, elapsed_ns))
        });
        rows.collect()
    });
}

/// Returns the values of the time between two totals of a stream.
fn row(old: &StreamTotals, now: &StreamTotals, elapsed_ns: u64) -> [f64; COLUMNS.len()] {
    let frames = |of: fn(&StreamTotals) -> u64| rate(of(old), of(now), elapsed_ns);
    [
        8.0 * rate(old.sent_bytes, now.sent_bytes, elapsed_ns),
        frames(|of| of.frames.sent_frames()),
        frames(|of| of.frames.missed()),
        now.delays.since(&old.delays).p99_ns().map_or(f64::NAN, |ns| ns as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_second_has_its_rates_and_a_stream_without_frames_no_delay() {
        let mut sampler = Sampler::new(COLUMNS);
        let mut totals = StreamTotals::default();
        let at = |second: u64, totals: StreamTotals| Totals {
            elapsed_ns: second * SECOND,
            streams: vec![("clip".to_owned(), totals)],
        };
        add(&mut sampler, at(1, totals));
        totals.sent_bytes = 1_000;
        totals.frames.sent = [1, 2, 22];
        totals.frames.late = [0, 0, 3];
        totals.delays.frames[4] = 25;
        add(&mut sampler, at(2, totals));
        add(&mut sampler, at(3, totals));
        let page = sampler.page(Span::Hour);
        let clip = &page.series[0];
        assert_eq!(page.columns, COLUMNS);
        assert_eq!(clip.values[0], [Some(8_000.0), Some(0.0)]);
        assert_eq!(clip.values[1], [Some(25.0), Some(0.0)]);
        assert_eq!(clip.values[2], [Some(3.0), Some(0.0)]);
        assert_eq!(clip.values[3], [Some(16_000.0), None]);
        assert!(sampler.page(Span::Week).series.is_empty());
    }
}
