//! What each class gets over time: delivered bytes and latencies in bins of a run.

use super::listener::{Delivery, FabricListener};

/// Bins of a run.
pub const BINS: usize = 100;

/// What a class got in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Packets that arrived.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Sum of their latencies, ns.
    pub latency_sum_ns: u128,
}

/// Listens to a fabric and counts by class and time.
#[derive(Clone, Debug)]
pub struct Curves {
    width_ns: u64,
    classes: Vec<[Bin; BINS]>,
}

impl Curves {
    /// Curves of `classes` classes over a run that ends at `end_ns`, from time 0.
    #[must_use]
    pub fn new(classes: u8, end_ns: u64) -> Self {
        Self {
            width_ns: end_ns.div_ceil(BINS as u64).max(1),
            classes: vec![[Bin::default(); BINS]; usize::from(classes)],
        }
    }

    /// The width of every bin, ns; bin k covers the time from k widths to k + 1.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The bins of each class.
    #[must_use]
    pub fn classes(&self) -> &[[Bin; BINS]] {
        &self.classes
    }
}

impl FabricListener for Curves {
    #[inline]
    fn delivered(&mut self, delivery: &Delivery) {
        let bins = &mut self.classes[usize::from(delivery.class)];
        // A last byte may arrive after the end.
        let bin = usize::try_from(delivery.time_ns / self.width_ns).unwrap_or(BINS);
        if let Some(bin) = bins.get_mut(bin) {
            bin.delivered += 1;
            bin.delivered_bytes += u64::from(delivery.bytes);
            bin.latency_sum_ns += u128::from(delivery.time_ns - delivery.injected_ns);
        }
    }
}
