//! Time series by service class: delivered bytes and latencies in bins of a run.

use super::listener::{Delivery, FabricListener};

/// The number of bins of a run.
pub const BINS: usize = 100;

/// Counters of one class in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Packets that arrived.
    pub delivered: u64,
    /// Bytes of the packets that arrived.
    pub delivered_bytes: u64,
    /// Sum of the latencies of the packets that arrived, ns.
    pub latency_sum_ns: u128,
}

/// A listener that counts by class and time.
#[derive(Clone, Debug)]
pub struct TimeSeries {
    width_ns: u64,
    classes: Vec<[Bin; BINS]>,
}

impl TimeSeries {
    /// Creates time series of `classes` classes over a run from time 0 to `end_ns`.
    #[must_use]
    pub fn new(classes: u8, end_ns: u64) -> Self {
        Self {
            width_ns: end_ns.div_ceil(BINS as u64).max(1),
            classes: vec![[Bin::default(); BINS]; usize::from(classes)],
        }
    }

    /// Returns the width of every bin, ns; bin k covers times from k to k + 1 widths.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Returns the bins of each class.
    #[must_use]
    pub fn classes(&self) -> &[[Bin; BINS]] {
        &self.classes
    }
}

impl FabricListener for TimeSeries {
    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        let bins = &mut self.classes[usize::from(delivery.class)];
        // A last byte may arrive after the end of the run; it is not counted.
        let bin = usize::try_from(delivery.time_ns / self.width_ns).unwrap_or(BINS);
        if let Some(bin) = bins.get_mut(bin) {
            bin.delivered += 1;
            bin.delivered_bytes += u64::from(delivery.bytes);
            bin.latency_sum_ns += u128::from(delivery.time_ns - delivery.injected_ns);
        }
    }
}
