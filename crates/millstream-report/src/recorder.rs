//! Counts and delays of every stream while a run goes on.

use millstream::{Departure, Event, StreamId};

use crate::delay::Delays;
use crate::series::Series;

/// What is recorded beside the counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecorderOptions {
    /// Keep time series, for the report.
    pub series: bool,
}

/// One stream's record.
#[derive(Clone, Debug, Default)]
pub struct StreamResults {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets whose service started.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped because their deadline passed.
    pub dropped_late: u64,
    /// Packets dropped at a full queue.
    pub dropped_full: u64,
    /// Deadlines missed.
    pub missed: u64,
    /// Misses with no loss left in the window.
    pub violations: u64,
    pub(crate) delays: Delays,
    last_delay_ns: u64,
    jitter_sum_ns: u128,
    jitter_max_ns: u64,
}

/// Is told what happens; gives the [`Results`] at the end.
#[derive(Clone, Debug)]
pub struct Recorder {
    results: Results,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Results {
    /// The streams' names.
    pub names: Vec<String>,
    /// The streams, in the same order.
    pub streams: Vec<StreamResults>,
    /// Time series, if they were recorded.
    pub series: Option<Series>,
    /// How long the link transmitted, ns.
    pub busy_ns: u64,
    /// The end of the last transmission, ns.
    pub end_ns: u64,
}

impl Recorder {
    /// A recorder for streams of these names.
    #[must_use]
    pub fn new(names: Vec<String>, options: RecorderOptions) -> Self {
        let streams = vec![StreamResults::default(); names.len()];
        let series = options.series.then(|| Series::new(names.len()));
        Self { results: Results { names, streams, series, busy_ns: 0, end_ns: 0 } }
    }

    /// A packet arrived.
    #[inline]
    pub fn arrived(&mut self, stream: StreamId, _time_ns: u64, _bytes: u32) {
        self.results.streams[stream.index()].arrived += 1;
    }

    /// A packet left.
    #[inline]
    pub fn departed(&mut self, departure: &Departure) {
        let at = departure.stream.index();
        let stream = &mut self.results.streams[at];
        match departure.event {
            Event::Sent => {
                stream.sent += 1;
                stream.sent_bytes += u64::from(departure.bytes);
                stream.delay(departure.time_ns - departure.arrival_ns);
            }
            Event::DroppedLate => stream.dropped_late += 1,
            Event::DroppedFull => stream.dropped_full += 1,
        }
        if let Some(series) = &mut self.results.series {
            let bin = series.at(at, departure.time_ns);
            match departure.event {
                Event::Sent => bin.sent_bytes += u64::from(departure.bytes),
                Event::DroppedLate | Event::DroppedFull => bin.dropped += 1,
            }
        }
    }

    /// Deadlines were missed.
    #[inline]
    pub fn missed(&mut self, stream: StreamId, time_ns: u64, missed: u64, violations: u64) {
        let record = &mut self.results.streams[stream.index()];
        record.missed += missed;
        record.violations += violations;
        if let Some(series) = &mut self.results.series {
            let bin = series.at(stream.index(), time_ns);
            bin.missed += missed;
            bin.violations += violations;
        }
    }

    /// The link transmitted.
    #[inline]
    pub fn busy(&mut self, from_ns: u64, to_ns: u64) {
        self.results.busy_ns += to_ns - from_ns;
    }

    /// The run ended.
    #[must_use]
    pub fn finish(self, end_ns: u64) -> Results {
        Results { end_ns, ..self.results }
    }
}

impl StreamResults {
    #[inline]
    fn delay(&mut self, delay_ns: u64) {
        if self.sent > 1 {
            let jitter_ns = delay_ns.abs_diff(self.last_delay_ns);
            self.jitter_sum_ns += u128::from(jitter_ns);
            self.jitter_max_ns = self.jitter_max_ns.max(jitter_ns);
        }
        self.last_delay_ns = delay_ns;
        self.delays.record(delay_ns);
    }

    /// The largest difference of delay between successive packets, ns.
    #[must_use]
    pub fn jitter_max_ns(&self) -> u64 {
        self.jitter_max_ns
    }

    /// The mean difference of delay between successive packets, ns.
    #[must_use]
    pub fn jitter_mean_ns(&self) -> u64 {
        let pairs = u128::from(self.sent.saturating_sub(1));
        u64::try_from(self.jitter_sum_ns.checked_div(pairs).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// Mean rate over a run of `end_ns`, bits/s.
    #[must_use]
    pub fn rate_bps(&self, end_ns: u64) -> u64 {
        let bits = u128::from(self.sent_bytes) * 8_000_000_000;
        u64::try_from(bits.checked_div(u128::from(end_ns)).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}
