//! What each service class gets of a fabric.
//!
//! As in section VII of the MinBW paper: throughput over all end-points, mean and maximum of
//! latency, and the greatest jitter of any connection. Latency is from a packet's injection until
//! its last byte has arrived; jitter is how much the latencies of successive packets of a
//! connection differ. Counted is what is injected, and what arrives, within a window of time, so
//! that the start of a run can be left out.

use std::ops::Range;

use hdrhistogram::Histogram;

use super::listener::{Delivery, FabricListener};
use super::traffic::{EndPointTraffic, Injection};

/// The greatest latency that distributions tell from greater ones, ns: a minute.
const LATENCY_MOST_NS: u64 = 60_000_000_000;

/// What one class got.
#[derive(Clone, Debug)]
pub struct ClassStatistics {
    /// Packets injected within the window.
    pub injected: u64,
    /// Their bytes.
    pub injected_bytes: u64,
    /// Packets that arrived within the window.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Sum of the latencies of packets that arrived, ns.
    pub latency_sum_ns: u128,
    /// The greatest of them, ns.
    pub latency_max_ns: u64,
    /// Their distribution, ns, to two significant digits.
    pub latencies_ns: Histogram<u64>,
    /// Greatest difference of latency of two successive packets of a connection, ns. Meaningless
    /// for a class without connections.
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
            latencies_ns: Histogram::new_with_bounds(1, LATENCY_MOST_NS, 2)
                .expect("bounds are in order"),
            jitter_max_ns: 0,
        }
    }

    /// Mean latency, ns; 0 if nothing arrived.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn latency_mean_ns(&self) -> f64 {
        self.latency_sum_ns as f64 / self.delivered.max(1) as f64
    }
}

/// Listens to a fabric and counts by class.
#[derive(Clone, Debug)]
pub struct Statistics {
    window_ns: Range<u64>,
    classes: Vec<ClassStatistics>,
    /// Latency of each connection's last packet, ns, by end-point's first and connection.
    last_ns: Vec<u64>,
    first_connection: Vec<usize>,
}

const NO_PACKET: u64 = u64::MAX;

impl Statistics {
    /// Statistics of `classes` classes within `window_ns`, of a fabric with these sources.
    #[must_use]
    pub fn new(classes: u8, sources: &[EndPointTraffic], window_ns: Range<u64>) -> Self {
        let mut first_connection = Vec::with_capacity(sources.len());
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

    /// What each class got.
    #[must_use]
    pub fn classes(&self) -> &[ClassStatistics] {
        &self.classes
    }

    /// What `bytes` within the window are of all end-points' links of `rate_bps` bits/s, in 0 to 1.
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
