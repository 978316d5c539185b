//! Statistics of a fabric by service class.
//!
//! The metrics are those of section VII of the MinBW paper: throughput over all end-points, mean
//! and maximum latency, and the maximum jitter of any connection. Latency is the time from a
//! packet's injection to the arrival of its last byte. Jitter is the difference between the
//! latencies of successive packets of a connection. Only injections and arrivals within a time
//! window count, so the start of a run can be excluded.

use std::ops::Range;

use hdrhistogram::Histogram;

use super::listener::{Delivery, FabricListener};
use super::traffic::{EndPointTraffic, Injection};

/// The upper bound of the latency histograms, ns: one minute. Greater latencies count as this.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// Statistics of one class.
#[derive(Clone, Debug)]
pub struct ClassStatistics {
    /// Packets injected within the window.
    pub injected: u64,
    /// Bytes of the packets injected within the window.
    pub injected_bytes: u64,
    /// Packets that arrived within the window.
    pub delivered: u64,
    /// Bytes of the packets that arrived within the window.
    pub delivered_bytes: u64,
    /// Sum of the latencies of packets that arrived, ns.
    pub latency_sum_ns: u128,
    /// Maximum latency of packets that arrived, ns.
    pub latency_max_ns: u64,
    /// Distribution of the latencies of packets that arrived, ns, to two significant digits.
    pub latencies_ns: Histogram<u64>,
    /// Maximum difference between the latencies of two successive packets of a connection, ns.
    /// Meaningless for a class without connections.
    pub jitter_max_ns: u64,
}

impl ClassStatistics {
    fn new() -> Self {
        Self {
            injected: 0,
            injected_bytes: 0,
            delivered: 0,
            delivered_bytes: 0,
            latency_sum_ns: 0,
            latency_max_ns: 0,
            latencies_ns: Histogram::new_with_bounds(1, MAX_LATENCY_NS, 2)
                .expect("bounds are in order"),
            jitter_max_ns: 0,
        }
    }

    /// Returns the mean latency, ns; 0 if no packet arrived.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn latency_mean_ns(&self) -> f64 {
        self.latency_sum_ns as f64 / self.delivered.max(1) as f64
    }
}

/// A listener that counts by class.
#[derive(Clone, Debug)]
pub struct Statistics {
    window_ns: Range<u64>,
    classes: Vec<ClassStatistics>,
    /// Latency of each connection's last packet, ns. A connection's index is its number plus
    /// `first_connection` of its source.
    last_ns: Vec<u64>,
    first_connection: Vec<usize>,
}

const NO_PACKET: u64 = u64::MAX;

impl Statistics {
    /// Creates statistics of `classes` classes within `window_ns`, for a fabric with `sources`.
    #[must_use]
    pub fn new<'a>(
        classes: u8,
        sources: impl IntoIterator<Item = &'a EndPointTraffic>,
        window_ns: Range<u64>,
    ) -> Self {
        let mut first_connection = Vec::new();
        let mut connections = 0;
        for source in sources {
            first_connection.push(connections);
            let of_source = (0..classes).map(|class| source.connections(class).end).max();
            connections += of_source.unwrap_or(0) as usize;
        }
        Self {
            window_ns,
            classes: (0..classes).map(|_| ClassStatistics::new()).collect(),
            last_ns: vec![NO_PACKET; connections],
            first_connection,
        }
    }

    /// Returns the statistics of each class.
    #[must_use]
    pub fn classes(&self) -> &[ClassStatistics] {
        &self.classes
    }

    /// Returns `bytes` within the window as a share of the capacity of all end-points' links.
    ///
    /// The share is in 0 to 1; each link has `rate_bps` bits/s.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn share(&self, bytes: u64, rate_bps: u64) -> f64 {
        let window_s = (self.window_ns.end - self.window_ns.start) as f64 / 1e9;
        bytes as f64 * 8.0 / (window_s * rate_bps as f64 * self.first_connection.len() as f64)
    }
}

impl FabricListener for Statistics {
    #[inline]
    fn injected(&mut self, _: u32, injection: &Injection) {
        if self.window_ns.contains(&injection.time_ns) {
            let class = &mut self.classes[usize::from(injection.class)];
            class.injected += 1;
            class.injected_bytes += u64::from(injection.bytes);
        }
    }

    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        let latency_ns = delivery.time_ns - delivery.injected_ns;
        let connection =
            self.first_connection[delivery.source as usize] + delivery.connection as usize;
        let before_ns = std::mem::replace(&mut self.last_ns[connection], latency_ns);
        if !self.window_ns.contains(&delivery.time_ns) {
            return;
        }
        let class = &mut self.classes[usize::from(delivery.class)];
        class.delivered += 1;
        class.delivered_bytes += u64::from(delivery.bytes);
        class.latency_sum_ns += u128::from(latency_ns);
        class.latency_max_ns = class.latency_max_ns.max(latency_ns);
        class.latencies_ns.saturating_record(latency_ns);
        if before_ns != NO_PACKET {
            class.jitter_max_ns = class.jitter_max_ns.max(before_ns.abs_diff(latency_ns));
        }
    }
}
