//! Guarantees of links in series, from the guarantees of each link.
//!
//! Two forms of a guarantee compose; W, L and s are those of `fair.rs`.
//!
//! ```text
//! service curve    departed by t  ≥  arrived by s + ρ·(t − s − θ)     for some s ≤ t
//! guaranteed rate  end of k       ≤  F_k + α        F_k = max(a_k, F_{k−1}) + L_k/ρ
//!
//! in series        ρ = min(ρ_1, ρ_2)    θ = θ_1 + θ_2    α = α_1 + α_2 + L/max(ρ_1, ρ_2)
//! ```
//!
//! Packets depart at the end of their transmission, so each link receives whole packets: θ has the
//! packet's own transmission on every link. σ/ρ, the delay of a burst, counts once.
//!
//! **α in series.** F of the second link is at most the greatest sum of lengths j … m over ρ_1 and
//! m … k over ρ_2, plus a_j + α_1. Only packet m counts twice; the term with the greater rate is
//! the excess. **From one form to the other**: a curve is a guaranteed rate with α = θ, and a
//! guaranteed rate is a curve with θ = α + L/ρ. So each form of a series is the better of both.
//!
//! Source: Le Boudec and Thiran 2001, theorems 1.4.6 (curves in series), 2.1.3 (equivalence), 2.1.5
//! (guaranteed rates in series); Goyal, Lam and Vin 1997; Parekh and Gallager 1994.

use super::exact::{BITS_NS, ceil_ns};
use super::{LatencyRate, ServiceCurve, Source};

impl LatencyRate {
    /// Returns the guarantee of a link that sends every packet within `delay_ns` of its arrival.
    ///
    /// `rate_bps` may be any rate; a rate above those of the other links has no effect in a series.
    #[must_use]
    pub fn of_delay(delay_ns: u64, rate_bps: u64) -> Self {
        let error_ns = i64::try_from(delay_ns).unwrap_or(i64::MAX);
        Self { rate_bps, latency_ns: delay_ns, error_ns, carried_bytes: 0 }
    }

    /// Returns the guarantee of this link and the `next` in series, for packets of at most
    /// `largest` bytes. Both rates and `largest` count the same bytes of a packet.
    #[must_use]
    pub fn then(self, next: Self, largest: u64) -> Self {
        let own_ns =
            |rate_bps: u64| ceil_ns(u128::from(largest).checked_mul(BITS_NS), u128::from(rate_bps));
        let rate_bps = self.rate_bps.min(next.rate_bps);
        let latency_ns = self.latency_ns.saturating_add(next.latency_ns);
        let by_curve = i64::try_from(latency_ns).unwrap_or(i64::MAX);
        // Rounding errors up is safe, and `i64::MAX` is not added to a negative error.
        let error_ns = match (self.error_ns, next.error_ns) {
            (i64::MAX, _) | (_, i64::MAX) => i64::MAX,
            (one, two) => {
                let twice_ns = own_ns(self.rate_bps.max(next.rate_bps));
                one.saturating_add(two).saturating_add_unsigned(twice_ns)
            }
        };
        let error_ns = error_ns.min(by_curve);
        let by_error = super::exact::plus_error(own_ns(rate_bps), error_ns);
        Self { rate_bps, latency_ns: latency_ns.min(by_error), error_ns, carried_bytes: 0 }
    }

    /// Returns this guarantee after a fixed delay of `ns`.
    #[must_use]
    pub fn delayed(self, ns: u64) -> Self {
        let error_ns = match self.error_ns {
            i64::MAX => i64::MAX,
            error_ns => error_ns.saturating_add_unsigned(ns),
        };
        Self { latency_ns: self.latency_ns.saturating_add(ns), error_ns, ..self }
    }

    /// Returns the token bucket that the departures of a stream conform to, if its arrivals conform
    /// to `source`: σ + ρ_s·θ.
    ///
    /// `None` if the source's rate exceeds the guaranteed one. Source: Le Boudec and Thiran 2001,
    /// theorem 1.4.3.
    #[must_use]
    pub fn output(&self, source: Source) -> Option<Source> {
        (source.rate_bps <= self.rate_bps)
            .then(|| Source { burst_bytes: source.bytes_in(self.latency_ns), ..source })
    }
}

/// A link on the way of a stream, and the others on it: some pass a part of the way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLink {
    /// The strict service curve of the link for all streams.
    pub service: ServiceCurve,
    /// The sum of the rates of all other streams on the link, bits/s.
    pub others_bps: u64,
    /// The sum of the bursts of those that did not share the link before, bytes.
    pub joining_bytes: u64,
}

impl ServiceCurve {
    /// Returns what other streams leave of the links of a way in any order of service, counting the
    /// burst of each where it joins; `None` if nothing remains, or there is no link.
    ///
    /// Let t_n be any instant, and t_{i−1} the beginning of the busy period of link i that contains
    /// t_i. From t_{i−1} to t_i link i sends R_i·(t_i − t_{i−1} − T_i). Summed over the links, what
    /// another stream gets on those that it shares is what left the last of them by its t_i, less
    /// what arrived at the first by its t_{i−1}: at most σ + ρ·(t_i − t_{i−1}). So the stream gets
    /// R = min (R_i − ρ_i) after T = ΣT_i + (Σσ + Σρ_i·T_i)/R. Source: Schmitt, Zdarsky and
    /// Martinovic 2008, theorem on paths with rate-latency servers.
    #[must_use]
    pub fn paying_once(way: &[SharedLink]) -> Option<Self> {
        let (mut rate_bps, mut latency_ns, mut work) = (None::<u64>, 0u64, Some(0u128));
        for link in way {
            let left = link.service.rate_bps.checked_sub(link.others_bps).filter(|of| *of > 0)?;
            rate_bps = Some(rate_bps.map_or(left, |least| least.min(left)));
            latency_ns = latency_ns.saturating_add(link.service.latency_ns);
            let burst = u128::from(link.joining_bytes).checked_mul(BITS_NS);
            let late = u128::from(link.others_bps).checked_mul(link.service.latency_ns.into());
            work = work.and_then(|work| work.checked_add(burst?)?.checked_add(late?));
        }
        let rate_bps = rate_bps?;
        let latency_ns = latency_ns.saturating_add(ceil_ns(work, u128::from(rate_bps)));
        Some(Self { rate_bps, latency_ns })
    }

    /// Returns the curve of all packets together on this link and the `next` in series, where all
    /// of them pass both and are at most `largest` bytes long; the next link receives whole
    /// packets.
    ///
    /// [`remainder`](Self::remainder) and [`in_order`](Self::in_order) of it then count the burst
    /// of other streams once, not at every link. Let the next link be busy from u until t, and this
    /// one from s until u. What has left by t is what arrived there by u and the service from u to
    /// t; what had left this link by u is what arrived by s and the service from s to u. Everything
    /// that arrived by s had left it by s, and everything that it had sent by u had left the next
    /// link by u. So for each stream, what has left by t is at least what arrived by s. Source:
    /// Schmitt, Zdarsky and Martinovic 2008, "pay multiplexing only once", for streams that share
    /// all links.
    #[must_use]
    pub fn then(self, next: Self, largest: u64) -> Self {
        let whole_ns = ceil_ns(u128::from(largest).checked_mul(BITS_NS), u128::from(self.rate_bps));
        let latency_ns = self.latency_ns.saturating_add(whole_ns).saturating_add(next.latency_ns);
        Self { rate_bps: self.rate_bps.min(next.rate_bps), latency_ns }
    }

    /// Returns the guarantee of a stream with packets of at most `largest` bytes that shares this
    /// service with `others` in the order of arrival: rate r − ρ, latency θ + (σ + L)/r.
    ///
    /// `None` if nothing remains. Let s be the beginning of the busy period, a the arrival of
    /// packet k, and t before its end. Then r·(t − s − θ) < W + σ + ρ·(a − s). With T for the
    /// stated latency: if a ≤ t − T, this is (r − ρ)·(t − s − T) < W − L. Otherwise all packets
    /// before k have departed, which arrived before a. Source: Le Boudec and Thiran 2001,
    /// proposition 6.2.1.
    #[must_use]
    pub fn in_order(self, others: Source, largest: u64) -> Option<LatencyRate> {
        let rate_bps = self.rate_bps.checked_sub(others.rate_bps).filter(|left| *left > 0)?;
        let after_ns = |bytes: u128| {
            let ns = ceil_ns(bytes.checked_mul(BITS_NS), u128::from(self.rate_bps));
            self.latency_ns.saturating_add(ns)
        };
        let burst = u128::from(others.burst_bytes);
        Some(LatencyRate {
            rate_bps,
            latency_ns: after_ns(burst + u128::from(largest)),
            error_ns: i64::try_from(after_ns(burst)).unwrap_or(i64::MAX),
            carried_bytes: 0,
        })
    }
}

impl Source {
    /// Returns the least burst, bytes, with which arrivals that conform to both buckets conform to
    /// a bucket of `rate_bps`; `None` if both rates are higher.
    ///
    /// With ρ_1 ≤ r ≤ ρ_2 it is (σ_1·(ρ_2 − r) + σ_2·(r − ρ_1))/(ρ_2 − ρ_1), the height at which
    /// the two lines cross, less r times that time.
    #[must_use]
    pub fn burst_of_both(self, other: Self, rate_bps: u64) -> Option<u64> {
        let (slow, fast) =
            if self.rate_bps <= other.rate_bps { (self, other) } else { (other, self) };
        let above = u128::from(rate_bps.checked_sub(slow.rate_bps)?);
        let Some(below) = fast.rate_bps.checked_sub(rate_bps).map(u128::from) else {
            return Some(slow.burst_bytes.min(fast.burst_bytes));
        };
        if above + below == 0 {
            return Some(slow.burst_bytes.min(fast.burst_bytes));
        }
        let part = |bytes: u64, weight: u128| u128::from(bytes).checked_mul(weight);
        let sum = part(slow.burst_bytes, below)
            .and_then(|sum| sum.checked_add(part(fast.burst_bytes, above)?));
        Some(ceil_ns(sum, above + below).min(slow.burst_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve in bytes/s and s.
    fn curve(bytes_per_s: u64, seconds: u64) -> LatencyRate {
        ServiceCurve { rate_bps: bytes_per_s * 8, latency_ns: seconds * 1_000_000_000 }.guarantee(0)
    }

    fn bucket(bytes_per_s: u64, burst_bytes: u64) -> Source {
        Source { rate_bps: bytes_per_s * 8, burst_bytes }
    }

    /// Case TA_2S_2SC_1F_1AC_1P of the tests of NCorg DNC (NetCal/DNC_func_tests, commit b182140):
    /// a bucket of 5, 25 through servers of 10, 10 and 6, 6. Separate flow analysis gives a delay
    /// of 121/6 and a backlog of 105, total flow analysis a delay of 31.
    #[test]
    fn two_servers_of_the_dnc_tests() {
        let (first, second, source) = (curve(10, 10), curve(6, 6), bucket(5, 25));
        let path = first.then(second, 0);
        assert_eq!(path.delay_ns(source), Some(20_166_666_667));
        assert_eq!(path.backlog_bytes(source), Some(105));
        let between = first.output(source).unwrap();
        assert_eq!(between, bucket(5, 75));
        let sum = first.delay_ns(source).unwrap() + second.delay_ns(between).unwrap();
        assert_eq!(sum, 31_000_000_000);
    }

    /// Case TA_2S_1SC_2F_1AC_1P of the same tests: two flows of 5, 25 through two FIFO servers of
    /// 10, 10; total flow analysis gives a delay of 40. What remains for a flow at the first server
    /// is 5, 12.5.
    #[test]
    fn two_fifo_servers_of_the_dnc_tests() {
        let (server, flow) = (curve(10, 10), bucket(5, 25));
        let both = flow.plus(flow);
        let between = server.output(both).unwrap();
        assert_eq!(between, bucket(10, 150));
        let sum = server.delay_ns(both).unwrap() + server.delay_ns(between).unwrap();
        assert_eq!(sum, 40_000_000_000);
        let service = ServiceCurve { rate_bps: 80, latency_ns: 10_000_000_000 };
        let left = service.in_order(flow, 0).unwrap();
        assert_eq!((left.rate_bps, left.latency_ns), (40, 12_500_000_000));
        assert_eq!(service.in_order(bucket(10, 0), 0), None);
    }

    /// The same case by pay multiplexing only once: a delay of 50 and a backlog of 250. In the
    /// order of arrival it is 20 + 25/10 + 25/5.
    #[test]
    fn the_burst_of_others_is_paid_once_on_two_servers_of_the_dnc_tests() {
        let (server, flow) =
            (ServiceCurve { rate_bps: 80, latency_ns: 10_000_000_000 }, bucket(5, 25));
        let both = server.then(server, 0);
        let left = both.remainder(flow).unwrap().guarantee(0);
        assert_eq!(left.delay_ns(flow), Some(50_000_000_000));
        assert_eq!(left.backlog_bytes(flow), Some(250));
        assert_eq!(both.in_order(flow, 0).unwrap().delay_ns(flow), Some(27_500_000_000));
        // Whole packets of 5 bytes take half a second on the first server.
        assert_eq!(server.then(server, 5).latency_ns, 20_500_000_000);
    }

    /// Cases TA_3S_1SC_3F_1AC_3P and FF_3S_1SC_2F_1AC_2P of the same tests: flows of 5, 25 and
    /// servers of 20, 20. In the first, a flow passes three servers; another one joins at the
    /// first and leaves after the second, a third one joins at the third. Separate flow analysis
    /// gives 280/3, pay multiplexing only once 85. In the second, the other flow leaves and comes
    /// back: 790/9 and 670/9.
    #[test]
    fn others_on_a_part_of_the_way_in_the_dnc_tests() {
        let (server, flow) =
            (ServiceCurve { rate_bps: 160, latency_ns: 20_000_000_000 }, bucket(5, 25));
        let shared = |joining_bytes| SharedLink { service: server, others_bps: 40, joining_bytes };
        let delay = |way: &[SharedLink]| {
            ServiceCurve::paying_once(way).unwrap().guarantee(0).delay_ns(flow).unwrap()
        };
        assert_eq!(delay(&[shared(25), shared(0), shared(25)]), 85_000_000_001);
        // The other flow has the whole first server, and a burst of 125 behind it.
        let between = server.guarantee(0).output(flow).unwrap();
        assert_eq!(between, bucket(5, 125));
        let left = [flow, between, flow].map(|others| server.remainder(others).unwrap());
        let separate = left[0].then(left[1], 0).then(left[2], 0).guarantee(0).delay_ns(flow);
        assert_eq!(separate, Some(93_333_333_335));
        // At s2, f0 comes from s0 with 500/3, and f1 by s1 with 800/3.
        let alone = SharedLink { service: server, others_bps: 0, joining_bytes: 0 };
        let [f0, f1] = [&[shared(25)][..], &[shared(25), alone]].map(|way| {
            ServiceCurve::paying_once(way).unwrap().guarantee(0).output(flow).unwrap().burst_bytes
        });
        assert_eq!((f0, f1), (167, 267));
        let f1_delay = delay(&[shared(25), alone, shared(f0)]);
        let f0_delay = delay(&[shared(25), shared(f1)]);
        // Bursts are whole bytes, of 1/15 s.
        assert!((87_777_777_778..87_844_444_446).contains(&f1_delay), "{f1_delay}");
        assert!((74_444_444_445..74_511_111_113).contains(&f0_delay), "{f0_delay}");
        let full = SharedLink { others_bps: 160, ..alone };
        assert_eq!(ServiceCurve::paying_once(&[alone, full]), None);
        assert_eq!(ServiceCurve::paying_once(&[]), None);
    }

    /// "Pay bursts only once", Le Boudec and Thiran 2001, section 1.4.3: b/R + T_1 + T_2 in series,
    /// b/R_1 + (b + r·T_1)/R_2 + T_1 + T_2 by the links one by one.
    #[test]
    fn a_burst_is_paid_once() {
        let (first, second, source) = (curve(3_000, 2), curve(2_000, 1), bucket(1_000, 6_000));
        assert_eq!(first.then(second, 0).delay_ns(source), Some(6_000_000_000));
        let between = first.output(source).unwrap();
        let sum = first.delay_ns(source).unwrap() + second.delay_ns(between).unwrap();
        assert_eq!(sum, 9_000_000_000);
    }

    /// Goyal, Lam and Vin 1997: σ/ρ + (K − 1)·L/ρ + Σα for K links of one rate.
    #[test]
    fn packets_are_stored_and_forwarded_at_each_link() {
        // 1,000 bytes/s, α = 0.5 s: packets of 100 bytes take 0.1 s.
        let link = LatencyRate {
            rate_bps: 8_000,
            latency_ns: 600_000_000,
            error_ns: 500_000_000,
            carried_bytes: 100,
        };
        let path = link.then(link, 100).then(link, 100);
        assert_eq!(path.error_ns, 1_700_000_000);
        assert_eq!(path.latency_ns, 1_800_000_000);
        assert_eq!(path.delay_ns(bucket(1_000, 300)), Some(2_000_000_000));
        // The packet counts twice at the higher rate.
        let fast = LatencyRate { rate_bps: 80_000, latency_ns: 520_000_000, ..link };
        assert_eq!(link.then(fast, 100).error_ns, 1_010_000_000);
        assert_eq!(fast.then(link, 100).error_ns, 1_010_000_000);
        let far = link.delayed(7);
        assert_eq!((far.latency_ns, far.error_ns), (600_000_007, 500_000_007));
    }

    #[test]
    fn a_link_with_a_delay_adds_it_to_a_series() {
        let link = curve(1_000, 1);
        let path = link.then(LatencyRate::of_delay(250, 80_000), 100);
        assert_eq!((path.rate_bps, path.latency_ns), (8_000, 1_000_000_250));
        assert_eq!(path.error_ns, 1_000_000_250);
        let never = LatencyRate::of_delay(u64::MAX, 8);
        assert_eq!(link.then(never, 100).delay_ns(bucket(1, 1)), Some(u64::MAX));
        assert_eq!(never.delayed(1).error_ns, i64::MAX);
    }

    #[test]
    fn two_buckets_bound_more_than_one() {
        // 100 + 10·t and 20 + 30·t cross at t = 4, at 140 bytes: 60 above 20·t.
        let (slow, fast) = (bucket(10, 100), bucket(30, 20));
        assert_eq!(slow.burst_of_both(fast, 160), Some(60));
        assert_eq!(fast.burst_of_both(slow, 160), Some(60));
        assert_eq!(slow.burst_of_both(fast, 80), Some(100));
        assert_eq!(slow.burst_of_both(fast, 240), Some(20));
        assert_eq!(slow.burst_of_both(fast, 400), Some(20));
        assert_eq!(slow.burst_of_both(fast, 79), None);
        assert_eq!(bucket(10, 7).burst_of_both(bucket(10, 9), 80), Some(7));
        assert_eq!(bucket(10, 7).burst_of_both(bucket(30, 9), 160), Some(7));
    }
}
