//! The service of a class in any interval, and what its children get of it.

use super::exact::{BITS_NS, ceil_ns, narrow};
use super::{LatencyRate, Source, StrictShare};

/// A strict service curve: in any time t in which a class has packets, it gets at least
/// `rate_bps`·(t − `latency_ns`). Source: Le Boudec and Thiran 2001, section 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCurve {
    /// Bits/s on the wire, rounded down.
    pub rate_bps: u64,
    /// ns, rounded up.
    pub latency_ns: u64,
}

impl ServiceCurve {
    /// Returns the curve of a child with this share; `None` if that is less than 1 bit/s.
    #[must_use]
    pub fn share(self, of: StrictShare) -> Option<Self> {
        let rate = u128::from(self.rate_bps);
        let rate_bps = narrow(rate.checked_mul(of.share.0)? / of.share.1);
        let behind_ns = ceil_ns(of.behind_bytes.checked_mul(BITS_NS), rate);
        let latency_ns = self.latency_ns.saturating_add(behind_ns);
        (rate_bps > 0).then_some(Self { rate_bps, latency_ns })
    }

    /// Returns the curve that remains when others get at most what conforms to `others`; `None` if
    /// nothing remains.
    #[must_use]
    pub fn remainder(self, others: Source) -> Option<Self> {
        let left_bps = self.rate_bps.checked_sub(others.rate_bps).filter(|left| *left > 0)?;
        let own = u128::from(self.rate_bps).checked_mul(u128::from(self.latency_ns));
        let burst = u128::from(others.burst_bytes).checked_mul(BITS_NS);
        let work = own.and_then(|own| own.checked_add(burst?));
        Some(Self { rate_bps: left_bps, latency_ns: ceil_ns(work, u128::from(left_bps)) })
    }

    /// Returns the guarantee of a stream with this curve and packets of at most `largest` bytes on
    /// the wire.
    #[must_use]
    pub fn guarantee(self, largest: u64) -> LatencyRate {
        let own_ns = ceil_ns(u128::from(largest).checked_mul(BITS_NS), u128::from(self.rate_bps));
        LatencyRate {
            rate_bps: self.rate_bps,
            latency_ns: self.latency_ns.saturating_add(own_ns),
            error_ns: i64::try_from(self.latency_ns).unwrap_or(i64::MAX),
            carried_bytes: 0,
        }
    }

    /// Returns the guarantee of a child to which the class guarantees `own` while it has the whole
    /// link of `link_bps`. A class's clock stops while others are served, so the class divides its
    /// service as it would divide the link, counted from when the child becomes backlogged.
    #[must_use]
    pub fn slowed(self, own: LatencyRate, link_bps: u64) -> LatencyRate {
        let (rate, link) = (u128::from(self.rate_bps.max(1)), u128::from(link_bps.max(1)));
        let longer = |ns: u64| ceil_ns(u128::from(ns).checked_mul(link), rate);
        let later = |ns: u64| i64::try_from(longer(ns)).unwrap_or(i64::MAX);
        let error_ns = match u64::try_from(own.error_ns) {
            Ok(error_ns) => later(error_ns),
            // Rounded up: towards zero.
            Err(_) => {
                let sooner = u128::from(own.error_ns.unsigned_abs()) * link / rate;
                i64::try_from(sooner).map_or(i64::MIN, |ns| -ns)
            }
        };
        LatencyRate {
            rate_bps: narrow(u128::from(own.rate_bps) * rate / link),
            latency_ns: longer(own.latency_ns).saturating_add(self.latency_ns),
            error_ns: error_ns.saturating_add_unsigned(self.latency_ns),
            carried_bytes: own.carried_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: ServiceCurve = ServiceCurve { rate_bps: 8_000_000, latency_ns: 0 };

    #[test]
    fn shares_of_shares_multiply_rates_and_add_latencies() {
        // A quarter of 1 MB/s, 1,000 bytes behind; then a half of that, 500 bytes behind.
        let class = LINK.share(StrictShare { share: (1, 4), behind_bytes: 1_000 }).unwrap();
        assert_eq!(class, ServiceCurve { rate_bps: 2_000_000, latency_ns: 1_000_000 });
        let child = class.share(StrictShare { share: (1, 2), behind_bytes: 500 }).unwrap();
        assert_eq!(child, ServiceCurve { rate_bps: 1_000_000, latency_ns: 3_000_000 });
        assert_eq!(class.share(StrictShare { share: (0, 2), behind_bytes: 0 }), None);
        let guarantee = child.guarantee(250);
        assert_eq!((guarantee.latency_ns, guarantee.error_ns), (5_000_000, 3_000_000));
    }

    #[test]
    fn what_others_get_delays_the_remainder() {
        // 1 MB/s less 0.75 MB/s and 2,000 bytes, which take 8 ms at 0.25 MB/s.
        let left = LINK.remainder(Source { rate_bps: 6_000_000, burst_bytes: 2_000 }).unwrap();
        assert_eq!(left, ServiceCurve { rate_bps: 2_000_000, latency_ns: 8_000_000 });
        // The class's own latency of 1 ms is 250 bytes, 0.5 ms at half the rate less.
        let class = ServiceCurve { rate_bps: 2_000_000, latency_ns: 1_000_000 };
        assert_eq!(
            class.remainder(Source { rate_bps: 1_000_000, burst_bytes: 0 }).unwrap().latency_ns,
            2_000_000
        );
        assert_eq!(class.remainder(Source { rate_bps: 2_000_000, burst_bytes: 0 }), None);
    }

    #[test]
    fn a_class_with_a_quarter_of_the_link_is_four_times_as_slow() {
        let own =
            LatencyRate { rate_bps: 4_000_000, latency_ns: 100, error_ns: -30, carried_bytes: 7 };
        let class = ServiceCurve { rate_bps: 2_000_000, latency_ns: 1_000 };
        let slowed = class.slowed(own, 8_000_000);
        assert_eq!((slowed.rate_bps, slowed.latency_ns, slowed.error_ns), (1_000_000, 1_400, 880));
        let whole = LINK.slowed(own, 8_000_000);
        assert_eq!(whole, own);
    }
}
