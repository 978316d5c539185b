//! Guarantees of streams and classes that a rate cap or credits hold back.
//!
//! A stream behind a closed gate is to its discipline as one without packets. So packet k is as if
//! it arrived at A_k, when its gate opens, and with the guarantee ρ, α of the stream without the
//! gate it ends by max(A_k, F_{k−1}) + L_k/ρ + α. If the gate opens by U_k for every k, where
//!
//! ```text
//! U_k = max(a_k, V_{k−1})        V_k = U_k + τ_k        τ_k ≥ L_k/ρ
//! ```
//!
//! then each packet ends by U_k + L_k/ρ + α ≤ V_k + α. That is a guaranteed rate: L_k/τ_k and α.
//! Each gate below has its own least τ; the greatest of them is sufficient for all.

use super::exact::{BITS_NS, ceil_ns, narrow, plus_error};
use super::{LatencyRate, ServiceCurve, Source, StreamLimits};
use crate::link::Link;

/// Returns the time that `bytes` take at `rate_bps`, ns, rounded up.
fn time_ns(bytes: u64, rate_bps: u64) -> u64 {
    ceil_ns(u128::from(bytes).checked_mul(BITS_NS), u128::from(rate_bps))
}

/// Returns the rate of `bytes` in each `ns`, bits/s, rounded down; `None` if the time saturates.
fn rate_of(bytes: u64, ns: u64) -> Option<u64> {
    let bits_ns = u128::from(bytes).checked_mul(BITS_NS).filter(|_| ns < u64::MAX)?;
    Some(narrow(bits_ns / u128::from(ns.max(1))))
}

/// Packets of a stream that may be on their way to the receiver at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditWindow {
    /// The least number of packets, w.
    pub packets: u64,
    /// The time from the end of a packet to the return of its credits, R, ns.
    pub return_ns: u64,
}

/// A stream or class behind a gate; lengths are bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gated {
    /// The rate of the link, bits/s.
    pub link_bps: u64,
    /// The smallest packet.
    pub smallest_bytes: u64,
    /// The largest packet.
    pub largest_bytes: u64,
    /// The rate cap (c, b); `None` without one.
    pub cap: Option<Source>,
    /// The credits; `None` without flow control. Classes have none.
    pub credits: Option<CreditWindow>,
}

impl Gated {
    /// Returns a stream or class with these limits on `link`. Credits are not among the limits.
    #[must_use]
    pub fn of(limits: &StreamLimits, link: Link) -> Self {
        Self {
            link_bps: link.rate_bps,
            smallest_bytes: link.wire_bytes(limits.smallest_bytes),
            largest_bytes: link.wire_bytes(limits.largest_bytes),
            cap: limits.cap,
            credits: None,
        }
    }

    /// Returns the guarantee of the stream behind its gate; `open` is its guarantee without one.
    /// `None` if that is less than 1 bit/s.
    #[must_use]
    pub fn guarantee(self, open: LatencyRate) -> Option<LatencyRate> {
        let (by_cap, later_ns) = match self.cap {
            Some(cap) => self.under_cap(open, cap)?,
            None => (open.rate_bps, 0),
        };
        let by_credits = match self.credits {
            Some(credits) => self.with_credits(open, credits)?,
            None => open.rate_bps,
        };
        let rate_bps = by_cap.min(by_credits);
        let error_ns = u64::try_from(open.error_ns).unwrap_or(0).saturating_add(later_ns);
        (rate_bps > 0).then(|| LatencyRate {
            rate_bps,
            latency_ns: time_ns(self.largest_bytes, rate_bps).saturating_add(error_ns),
            error_ns: i64::try_from(error_ns).unwrap_or(i64::MAX),
            carried_bytes: open.carried_bytes,
        })
    }

    /// Returns the bound on the delay, ns, of packets that arrive within the bucket (c, b) of the
    /// cap itself, none longer than b; `open` is the stream's guarantee without the cap. `None` if
    /// that does not bound it, or if there is no cap or there are credits.
    ///
    /// Let X = b/ρ + α − L/r with the smallest L, and X ≤ (b − L)/c with the largest. A packet that
    /// the cap permits at A_k starts by A_k + X: between two such times, TAT advances by the
    /// packets from j on, so they are at most b + c·(A_k − A_j). Let T_k be TAT if every packet
    /// started at its arrival. Then TAT_k ≤ T_k + X: if packet k starts after TAT_{k−1}, the cap
    /// did not hold it back, since X ≤ (b − L_k)/c, so it starts by a_k + X. As a_k ≥ T_{k−1} −
    /// (b − L_k)/c, the cap permits it by a_k + X. It ends by a_k + X + b/ρ + α.
    #[must_use]
    pub fn own_bucket_delay_ns(self, open: LatencyRate) -> Option<u64> {
        let cap = self.cap.filter(|cap| cap.rate_bps <= open.rate_bps && self.credits.is_none())?;
        // Caps open at whole ns.
        let ends_ns = plus_error(time_ns(cap.burst_bytes, open.rate_bps), open.error_ns.max(0));
        let ends_ns = ends_ns.saturating_add(1);
        let shortest_ns = time_ns(self.smallest_bytes, self.link_bps).saturating_sub(1);
        let starts_ns = ends_ns.saturating_sub(shortest_ns);
        let room_bytes = cap.burst_bytes.checked_sub(self.largest_bytes)?;
        let needed_bytes = Source { burst_bytes: 0, ..cap }.bytes_in(starts_ns);
        (needed_bytes <= room_bytes).then(|| starts_ns.saturating_add(ends_ns))
    }

    /// Returns the curve of the class under its cap; `open` is its curve without the cap. `None` if
    /// that is less than 1 bit/s.
    ///
    /// As [`guarantee`](Self::guarantee), but from any instant s in which the class has packets.
    /// The length that decides on its head is an estimate, so TAT is at most s + (max(b, L) + L)/c,
    /// and V begins at s + (max(b, L) + L − (b − L))/c.
    #[must_use]
    pub fn class_curve(self, open: ServiceCurve) -> Option<ServiceCurve> {
        let Some(cap) = self.cap else { return Some(open) };
        let largest = self.largest_bytes;
        let capped = self.guarantee(open.guarantee(largest))?;
        let behind =
            largest.saturating_mul(2).saturating_add(largest.saturating_sub(cap.burst_bytes));
        let latency_ns = capped.latency_ns.saturating_add(time_ns(behind, cap.rate_bps));
        Some(ServiceCurve { rate_bps: capped.rate_bps, latency_ns })
    }

    /// Returns the rate under the cap (c, b), bits/s, and the time by which packets end later, ns.
    ///
    /// Let Δ = L/ρ + α − L/r and τ_k = L_k/min(c, ρ) + max(0, Δ − (b − L)/c). Packet k conforms
    /// from TAT_{k−1} − (b − L_k)/c on. If TAT_{k−1} ≤ V_{k−1} + (b − L)/c, it starts by U_k + Δ,
    /// its transmission before its end, so TAT_k ≤ U_k + max((b − L)/c, Δ) + L_k/c ≤
    /// V_k + (b − L)/c. So a burst of L + c·Δ costs the cap's rate alone, and a smaller one costs
    /// time for each packet. A burst of less than L delays the first packet by (L − b)/c.
    fn under_cap(self, open: LatencyRate, cap: Source) -> Option<(u64, u64)> {
        let Self { link_bps, smallest_bytes: smallest, largest_bytes: largest, .. } = self;
        // Caps open at whole ns, and transmissions take no less than L/r.
        let end_ns = plus_error(time_ns(largest, open.rate_bps), open.error_ns).saturating_add(1);
        let start_ns = end_ns.saturating_sub(time_ns(largest, link_bps).saturating_sub(1));
        // L + c·Δ − b, rounded up, over c.
        let needed_bytes = Source { burst_bytes: largest, ..cap }.bytes_in(start_ns);
        let each_ns = time_ns(needed_bytes.saturating_sub(cap.burst_bytes), cap.rate_bps);
        let slower_bps = cap.rate_bps.min(open.rate_bps);
        let rate_bps = match each_ns {
            0 => slower_bps,
            _ => rate_of(smallest, time_ns(smallest, slower_bps).saturating_add(each_ns))?,
        };
        let first_ns = time_ns(largest.saturating_sub(cap.burst_bytes), cap.rate_bps);
        Some((rate_bps, first_ns.saturating_add(1)))
    }

    /// Returns the rate with credits, bits/s.
    ///
    /// Packet k waits at most until R after the end of packet k − w, which is by
    /// U_{k−w} + L/ρ + α + R. As U_k ≥ U_{k−w} + Στ, τ_k = max(L_k/ρ, (L/ρ + α + R)/w). Source:
    /// feedback control by a window, Le Boudec and Thiran 2001, section 4.2.
    fn with_credits(self, open: LatencyRate, window: CreditWindow) -> Option<u64> {
        let own_ns = time_ns(self.largest_bytes, open.rate_bps);
        let ends_ns = plus_error(own_ns, open.error_ns.max(0));
        let each_ns = ends_ns.saturating_add(window.return_ns).div_ceil(window.packets.max(1));
        let by_window = rate_of(self.smallest_bytes, each_ns).filter(|_| window.packets > 0)?;
        Some(by_window.min(open.rate_bps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 bytes/s, α = 0.5 s; 100 bytes take 0.1 s.
    const LINK: LatencyRate = LatencyRate {
        rate_bps: 8_000,
        latency_ns: 600_000_000,
        error_ns: 500_000_000,
        carried_bytes: 0,
    };

    /// Packets that take no time on the link.
    const STREAM: Gated = Gated {
        link_bps: u64::MAX,
        smallest_bytes: 50,
        largest_bytes: 100,
        cap: None,
        credits: None,
    };

    fn with_cap(bytes_per_s: u64, burst_bytes: u64) -> Gated {
        Gated { cap: Some(Source { rate_bps: bytes_per_s * 8, burst_bytes }), ..STREAM }
    }

    fn with_window(packets: u64, return_ns: u64) -> Gated {
        Gated { credits: Some(CreditWindow { packets, return_ns }), ..STREAM }
    }

    #[test]
    fn a_cap_with_enough_burst_costs_its_rate_alone() {
        // At 500 bytes/s, 0.6 s are 300 bytes.
        let capped = with_cap(500, 401).guarantee(LINK).unwrap();
        assert_eq!((capped.rate_bps, capped.error_ns), (4_000, 500_000_001));
        assert_eq!(capped.latency_ns, 700_000_001);
        // A faster cap leaves the link's rate.
        assert_eq!(with_cap(2_000, 1_301).guarantee(LINK).unwrap().rate_bps, 8_000);
    }

    #[test]
    fn a_cap_with_a_small_burst_costs_time_for_each_packet() {
        // 151 bytes less than needed are 302 ms: 50 bytes in 402 ms.
        let slow = with_cap(500, 250).guarantee(LINK).unwrap();
        assert_eq!((slow.rate_bps, slow.error_ns), (995, 500_000_001));
        // A transmission of 0.1 s begins as much earlier: 101 bytes less are 202 ms.
        assert_eq!(
            Gated { link_bps: 8_000, ..with_cap(500, 250) }.guarantee(LINK).unwrap().rate_bps,
            1_324
        );
        // A burst of 60 bytes permits 100 bytes 80 ms later, and each packet takes 682 ms more.
        let later = with_cap(500, 60).guarantee(LINK).unwrap();
        assert_eq!((later.rate_bps, later.error_ns), (511, 580_000_001));
    }

    #[test]
    fn packets_within_the_caps_own_bucket_wait_twice_if_it_has_room() {
        // 400 bytes take 0.4 s, and α is 0.5 s: 0.9 s are 270 bytes at 300 bytes/s.
        let delay = |burst| with_cap(300, burst).own_bucket_delay_ns(LINK);
        assert_eq!(delay(400), Some(1_800_000_002));
        assert_eq!((delay(355), delay(90)), (None, None));
        // A transmission of 50 bytes begins 0.05 s earlier.
        let on_link = Gated { link_bps: 8_000, ..with_cap(300, 400) };
        assert_eq!(on_link.own_bucket_delay_ns(LINK), Some(1_750_000_003));
        assert_eq!(with_cap(1_001, 4_000).own_bucket_delay_ns(LINK), None);
        assert_eq!(STREAM.own_bucket_delay_ns(LINK), None);
    }

    #[test]
    fn credits_for_one_packet_wait_for_it_and_its_return() {
        // 0.6 s and 0.2 s: 50 bytes in 0.8 s; in 0.4 s with two packets.
        let one = with_window(1, 200_000_000).guarantee(LINK).unwrap();
        assert_eq!((one.rate_bps, one.error_ns), (500, 500_000_000));
        assert_eq!(with_window(2, 200_000_000).guarantee(LINK).unwrap().rate_bps, 1_000);
        assert_eq!(with_window(100, 200_000_000).guarantee(LINK).unwrap().rate_bps, 8_000);
        assert_eq!(with_window(0, 0).guarantee(LINK), None);
    }

    /// The slower of both, 500 bit/s, and as late as the cap lets it begin.
    #[test]
    fn a_cap_and_credits_hold_back_as_much_as_the_slower_one() {
        let both = Gated { cap: with_cap(500, 60).cap, ..with_window(1, 200_000_000) };
        let guarantee = both.guarantee(LINK).unwrap();
        assert_eq!((guarantee.rate_bps, guarantee.error_ns), (500, 580_000_001));
        // 100 bytes at 500 bit/s take 1.6 s.
        assert_eq!(guarantee.latency_ns, 2_180_000_001);
    }

    #[test]
    fn a_capped_class_may_begin_with_an_empty_bucket() {
        // α = 0.5 s and 1,000 bytes/s as above; two packets at 500 bytes/s are 0.4 s.
        let class = ServiceCurve { rate_bps: 8_000, latency_ns: 500_000_000 };
        let capped = with_cap(500, 401).class_curve(class).unwrap();
        assert_eq!(capped, ServiceCurve { rate_bps: 4_000, latency_ns: 1_100_000_001 });
    }
}
