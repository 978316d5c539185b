//! Progress on a terminal; quiet in a pipe and on short runs.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the terminal is touched, in calls.
const STRIDE: u64 = 8192;

/// A bar of simulated time where the end is known, else of packets.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    duration_ns: Option<u64>,
    packets: u64,
}

impl Progress {
    pub(crate) fn new(duration_ns: Option<u64>) -> Self {
        Self { bar: None, started: Instant::now(), duration_ns, packets: 0 }
    }

    /// One more packet left, at `now_ns`.
    #[inline]
    pub(crate) fn packet(&mut self, now_ns: u64) {
        self.packets += 1;
        if self.packets.is_multiple_of(STRIDE) {
            self.draw(now_ns);
        }
    }

    #[cold]
    fn draw(&mut self, now_ns: u64) {
        if self.bar.is_none() && self.started.elapsed() >= PATIENCE {
            self.bar = Some(bar(self.duration_ns));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(if self.duration_ns.is_some() { now_ns } else { self.packets });
            let seconds = self.started.elapsed().as_secs_f64();
            #[allow(clippy::cast_precision_loss)]
            let rate = self.packets as f64 / seconds / 1e6;
            bar.set_message(format!("{} packets, {rate:.1} M packets/s", self.packets));
        }
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(duration_ns: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let (bar, template) = match duration_ns {
        Some(end_ns) => (
            ProgressBar::with_draw_target(Some(end_ns), target),
            "{bar:30} {percent:>3} % of simulated time, {msg}, {eta} left",
        ),
        None => (ProgressBar::with_draw_target(None, target), "{spinner} {msg}, {elapsed} so far"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar()))
}
