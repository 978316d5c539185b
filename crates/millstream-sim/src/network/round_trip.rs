//! The round-trip time of a TCP connection, and its retransmission timeout (RFC 6298).

/// The longest timeout, ns.
pub(super) const MAX_RTO_NS: u64 = 60_000_000_000;
/// The timeout before the first sample, ns.
const FIRST_RTO_NS: u64 = 1_000_000_000;

/// The estimates of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    min_rto_ns: u64,
    /// SRTT and RTTVAR, ns; `None` before the first sample.
    smoothed: Option<(u64, u64)>,
    /// The doublings of the timeout since the last sample.
    backoff: u32,
}

impl RoundTrip {
    /// Returns the estimates of a new connection with this least timeout.
    pub(super) fn new(min_rto_ns: u64) -> Self {
        Self { min_rto_ns, smoothed: None, backoff: 0 }
    }

    /// Adds a sample. Gains are 1/8 and 1/4 (RFC 6298, section 2).
    pub(super) fn add(&mut self, rtt_ns: u64) {
        self.backoff = 0;
        self.smoothed = Some(match self.smoothed {
            None => (rtt_ns, rtt_ns / 2),
            Some((smoothed_ns, variation_ns)) => {
                let off_ns = smoothed_ns.abs_diff(rtt_ns);
                ((7 * smoothed_ns + rtt_ns) / 8, (3 * variation_ns + off_ns) / 4)
            }
        });
    }

    /// Returns SRTT, ns; `None` before the first sample.
    pub(super) fn smoothed_ns(&self) -> Option<u64> {
        Some(self.smoothed?.0)
    }

    /// Returns the retransmission timeout, ns.
    pub(super) fn timeout_ns(&self) -> u64 {
        let rto_ns = self.smoothed.map_or(FIRST_RTO_NS, |(smoothed_ns, variation_ns)| {
            (smoothed_ns + 4 * variation_ns).max(self.min_rto_ns)
        });
        rto_ns.saturating_mul(1 << self.backoff.min(16)).min(MAX_RTO_NS)
    }

    /// Doubles the timeout after it has expired.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_follows_the_variation_and_doubles_after_expiry() {
        let mut times = RoundTrip::new(200 * MS);
        assert_eq!(times.timeout_ns(), 1_000 * MS);
        times.add(100 * MS);
        assert_eq!((times.smoothed_ns(), times.timeout_ns()), (Some(100 * MS), 300 * MS));
        times.add(180 * MS);
        // SRTT 110 ms, RTTVAR (3 × 50 + 80) / 4 = 57.5 ms.
        assert_eq!((times.smoothed_ns(), times.timeout_ns()), (Some(110 * MS), 340 * MS));
        times.back_off();
        times.back_off();
        assert_eq!(times.timeout_ns(), 1_360 * MS);
        times.add(110 * MS);
        assert!(times.timeout_ns() < 340 * MS);
        for _ in 0..100 {
            times.add(110 * MS);
        }
        assert_eq!(times.timeout_ns(), 200 * MS, "the least timeout");
        for _ in 0..20 {
            times.back_off();
        }
        assert_eq!(times.timeout_ns(), 60_000 * MS);
    }
}
