//! Progress bars on a terminal; none in a pipe and for short runs.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_report::human;
use millstream_traffic::ReadProgress;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which a run shows its progress.
const SHOW_AFTER: Duration = Duration::from_millis(500);

/// Calls between updates of the terminal.
const STRIDE: u64 = 8192;

/// A progress bar of simulated time if its end is known, else of input bytes, else of packets.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    duration_ns: Option<u64>,
    reading: Arc<ReadProgress>,
    packets: u64,
}

impl Progress {
    pub(crate) fn new(duration_ns: Option<u64>, reading: Arc<ReadProgress>) -> Self {
        Self { bar: None, started: Instant::now(), duration_ns, reading, packets: 0 }
    }

    /// Counts a departure at `now_ns`.
    #[inline]
    pub(crate) fn packet(&mut self, now_ns: u64) {
        self.packets += 1;
        if self.packets.is_multiple_of(STRIDE) {
            self.draw(now_ns);
        }
    }

    /// Counts departures until `now_ns`.
    pub(crate) fn packets(&mut self, count: u64, now_ns: u64) {
        self.packets += count;
        self.draw(now_ns);
    }

    #[cold]
    fn draw(&mut self, now_ns: u64) {
        let done = match (self.duration_ns, self.reading.bytes()) {
            (Some(end_ns), _) => Some((now_ns, end_ns, "simulated time")),
            (None, Some((read, total))) => Some((read, total, "the input")),
            (None, None) => None,
        };
        if self.bar.is_none() && self.started.elapsed() >= SHOW_AFTER {
            self.bar = Some(bar(done));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done.map_or(self.packets, |(done, _, _)| done));
            let seconds = self.started.elapsed().as_secs_f64();
            #[allow(clippy::cast_precision_loss)]
            let rate = self.packets as f64 / seconds / 1e6;
            bar.set_message(format!(
                "{}, {rate:.1} M packets/s",
                human::count(self.packets, "packet")
            ));
        }
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A progress bar of a sweep's runs.
pub(crate) struct RunsProgress(ProgressBar);

impl RunsProgress {
    pub(crate) fn new() -> Self {
        let template = "{bar:30} {pos} of {len} runs, {elapsed} so far, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
        let target = ProgressDrawTarget::stderr_with_hz(5);
        Self(ProgressBar::with_draw_target(Some(0), target).with_style(style))
    }

    /// Sets the number of finished runs and of all runs.
    pub(crate) fn ended(&self, ended: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(ended);
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Draws a bar of `done` of a total, with its unit.
fn bar(done: Option<(u64, u64, &str)>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let (length, template) = match done {
        Some((_, total, what)) => {
            let template = format!("{{bar:30}} {{percent:>3}} % of {what}, {{msg}}, {{eta}} left");
            (Some(total), template)
        }
        None => (None, "{spinner} {msg}, {elapsed} so far".to_owned()),
    };
    let style = ProgressStyle::with_template(&template).unwrap_or(ProgressStyle::default_bar());
    ProgressBar::with_draw_target(length, target).with_style(style)
}
