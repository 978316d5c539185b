//! Congestion controls: how a connection's window grows and shrinks.
//!
//! Windows are in 2^-16 packets.

use millstream_scenario::CongestionControl;

use super::bbr::Bbr;

/// A packet, in the unit of windows.
pub(super) const PACKET: u64 = 1 << 16;

/// The state of a connection's congestion control.
#[derive(Clone, Debug)]
pub(super) enum Control {
    Reno,
    Cubic(Cubic),
    /// DCTCP and Prague.
    Scalable(Scalable),
    /// A model of the path, which decides the window and the pace.
    Bbr(Box<Bbr>),
}

impl Control {
    /// Returns the state of a new connection; `seed` is that of its random times.
    pub(super) fn new(name: CongestionControl, initial_window: u32, seed: u64) -> Self {
        match name {
            CongestionControl::Bbr => Self::Bbr(Box::new(Bbr::new(initial_window, seed))),
            CongestionControl::Reno => Self::Reno,
            CongestionControl::Cubic => Self::Cubic(Cubic::default()),
            CongestionControl::Dctcp => Self::Scalable(Scalable::new(None)),
            CongestionControl::Prague => Self::Scalable(Scalable::new(Some(OWN_ROUNDS))),
        }
    }

    /// Returns the model of the path, if it has one.
    pub(super) fn model(&mut self) -> Option<&mut Bbr> {
        if let Self::Bbr(bbr) = self { Some(bbr) } else { None }
    }

    /// Returns the window after `acked` packets were acknowledged in congestion avoidance.
    pub(super) fn grown(&mut self, window: u64, acked: u64, now_ns: u64, rtt_ns: u64) -> u64 {
        match self {
            // A packet for each window of acknowledged packets (RFC 5681, section 3.1; RFC 3465).
            Self::Reno => window + acked * PACKET * PACKET / window.max(1),
            Self::Scalable(of) => {
                let growth = acked * PACKET * PACKET / window.max(1);
                // (RTT / virtual RTT)² of a packet in a round trip.
                let (rtt_us, virtual_us) = (rtt_ns / 1_000, of.virtual_rtt_ns(rtt_ns) / 1_000);
                window + growth * rtt_us * rtt_us / (virtual_us * virtual_us).max(1)
            }
            Self::Cubic(cubic) => cubic.grown(window, acked, now_ns, rtt_ns),
            Self::Bbr(bbr) => bbr.window(),
        }
    }

    /// Returns the window after a loss, at least 2 packets.
    pub(super) fn after_loss(&mut self, window: u64) -> u64 {
        let reduced = match self {
            Self::Reno | Self::Scalable(_) => window / 2,
            Self::Cubic(cubic) => cubic.reduced(window),
            Self::Bbr(bbr) => bbr.window(),
        };
        reduced.max(2 * PACKET)
    }

    /// Returns the slow start threshold after a timeout. The congestion avoidance that follows
    /// forgets earlier windows: its W_max is its first window, and K is 0 (RFC 9438, section 4.8).
    pub(super) fn after_timeout(&mut self, window: u64) -> u64 {
        let threshold = self.after_loss(window);
        if let Self::Cubic(cubic) = self {
            cubic.w_max = 0;
        }
        threshold
    }

    /// Returns the window after marks, at least 2 packets. Called at most once per round trip.
    pub(super) fn after_marks(&mut self, window: u64) -> u64 {
        match self {
            Self::Scalable(of) => (window - window * of.alpha / (2 * ALPHA_ONE)).max(2 * PACKET),
            Self::Reno | Self::Cubic(_) | Self::Bbr(_) => self.after_loss(window),
        }
    }

    /// Returns the least time between two reactions to marks, ns, beside a round trip of `rtt_ns`.
    pub(super) fn least_round_ns(&self, rtt_ns: u64) -> u64 {
        if let Self::Scalable(of) = self { of.virtual_rtt_ns(rtt_ns) } else { rtt_ns }
    }

    /// Notes packets that were acknowledged in a round trip, and how many of them were marked.
    pub(super) fn round_ended(&mut self, acked: u64, marked: u64, in_slow_start: bool) {
        if let Self::Scalable(of) = self {
            if !in_slow_start {
                of.own_rounds = of.own_rounds.map(|rounds| rounds.saturating_sub(1));
            }
            let share = marked * ALPHA_ONE / acked.max(1);
            of.alpha = of.alpha - of.alpha / GAIN_DIVISOR + share.min(ALPHA_ONE) / GAIN_DIVISOR;
        }
    }
}

/// The state of DCTCP and Prague.
#[derive(Clone, Debug)]
pub(super) struct Scalable {
    /// The estimated share of marked packets, α (RFC 8257, section 3.3), in 2^-20.
    alpha: u64,
    /// The round trips until it reacts as with a virtual one; `None`: never (DCTCP).
    own_rounds: Option<u32>,
}

const ALPHA_ONE: u64 = 1 << 20;
/// 1/g (RFC 8257, section 4.2).
const GAIN_DIVISOR: u64 = 16;
/// Prague's shortest virtual round trip, ns, and the round trips after slow start without it
/// (draft-briscoe-iccrg-prague-congestion-control; `prague_rtt_target` and `prague_rtt_transition`
/// of Linux).
const VIRTUAL_RTT_NS: u64 = 25_000_000;
const OWN_ROUNDS: u32 = 500;

impl Scalable {
    /// Takes all packets for marked, so that the first reaction is as to a loss.
    fn new(own_rounds: Option<u32>) -> Self {
        Self { alpha: ALPHA_ONE, own_rounds }
    }

    /// Returns the round-trip time that it reacts as, ns.
    fn virtual_rtt_ns(&self, rtt_ns: u64) -> u64 {
        if self.own_rounds == Some(0) { rtt_ns.max(VIRTUAL_RTT_NS) } else { rtt_ns }
    }
}

/// CUBIC (RFC 9438): C = 0.4, β = 0.7, with fast convergence.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// W_max.
    w_max: u64,
    /// The window before the last reduction.
    prior: u64,
    /// The present congestion avoidance, once it has begun.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start_ns: u64,
    /// K: the time until the window is W_max again, µs.
    k_us: i64,
    /// The window of Reno, W_est.
    reno: u64,
}

impl Cubic {
    fn grown(&mut self, window: u64, acked: u64, now_ns: u64, rtt_ns: u64) -> u64 {
        let window = window.max(PACKET);
        let w_max = &mut self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            if *w_max < window {
                *w_max = window;
            }
            // K³ = (W_max - window) / C, in s³ = 10^18 µs³.
            let cube = u128::from(*w_max - window) * 10_000_000_000_000_000_000 / (4 * 65_536);
            Epoch { start_ns: now_ns, k_us: cube_root(cube), reno: window }
        });
        // α is 3 (1 - β) / (1 + β) = 9/17, and 1 once the window is that before the reduction
        // (section 4.3).
        let (alpha, of) = if epoch.reno >= self.prior { (1, 1) } else { (9, 17) };
        epoch.reno += acked * PACKET * PACKET * alpha / (of * window);
        let since_us = i64::try_from((now_ns - epoch.start_ns) / 1_000).unwrap_or(i64::MAX / 2);
        let rtt_us = i64::try_from(rtt_ns / 1_000).unwrap_or(0);
        let at = |time_us: i64| -> u64 {
            let off = i128::from(time_us - epoch.k_us).clamp(-10_000_000_000, 10_000_000_000);
            let change = off * off * off * 262_144 / 10_000_000_000_000_000_000;
            u64::try_from(i128::from(*w_max) + change).unwrap_or(0)
        };
        if at(since_us) < epoch.reno {
            return epoch.reno.max(window);
        }
        let target = at(since_us + rtt_us).clamp(window, window + window / 2);
        window + acked * PACKET * (target - window) / window
    }

    fn reduced(&mut self, window: u64) -> u64 {
        self.epoch = None;
        self.prior = window;
        // Fast convergence: a window that was reduced earlier than the last time makes room
        // (section 4.7): W_max is window × (1 + β) / 2.
        self.w_max = if window < self.w_max { window * 17 / 20 } else { window };
        window * 7 / 10
    }
}

/// Returns the integer cube root.
fn cube_root(value: u128) -> i64 {
    let (mut low, mut high) = (0_u128, 1 << 40);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle * middle <= value {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    i64::try_from(low).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn reno_grows_by_a_packet_per_window() {
        let mut reno = Control::new(CongestionControl::Reno, 10, 1);
        let mut window = 10 * PACKET;
        for _ in 0..10 {
            window = reno.grown(window, 1, 0, 100 * MS);
        }
        assert!((window - 10 * PACKET).abs_diff(PACKET) < PACKET / 20, "{window}");
        assert_eq!(reno.after_loss(20 * PACKET), 10 * PACKET);
        assert_eq!(reno.after_loss(3 * PACKET), 2 * PACKET);
    }

    /// RFC 9438, figure 1 and section 4.2: after a reduction from 100 packets, K is
    /// ∛(100 × 0.3 / 0.4) = 4.217 s, and the window at K is W_max.
    #[test]
    fn cubic_returns_to_its_window_after_k() {
        let mut cubic = Cubic::default();
        let mut window = cubic.reduced(100 * PACKET);
        assert_eq!(window, 70 * PACKET);
        // 100 ms per round trip; every packet of the window is acknowledged in it.
        let mut at_ms = 0;
        while at_ms <= 4_200 {
            let packets = window / PACKET;
            for _ in 0..packets {
                window = cubic.grown(window, 1, at_ms * MS, 100 * MS);
            }
            at_ms += 100;
        }
        assert_eq!(cubic.epoch.unwrap().k_us, 4_217_163);
        assert!(window.abs_diff(100 * PACKET) < PACKET, "{}", window / PACKET);
        // A second later it is above W_max by 0.4 × 1³ packets.
        let later = cubic.grown(window, 1_000, 5_217 * MS, 0);
        assert!(later > 100 * PACKET);
    }

    /// RFC 9438, section 4.8: after a timeout, the window grows by 0.4 t³ from that at the end of
    /// slow start, in 6 s by 86.4 packets. From W_max = 100 it would be 102 then.
    #[test]
    fn cubic_forgets_its_window_at_a_timeout() {
        let mut control = Control::new(CongestionControl::Cubic, 10, 1);
        assert_eq!(control.after_timeout(100 * PACKET), 70 * PACKET);
        let mut window = 70 * PACKET;
        for at_ms in (0..6_000).step_by(100) {
            for _ in 0..window / PACKET {
                window = control.grown(window, 1, at_ms * MS, 100 * MS);
            }
        }
        // It follows its target by less than a round trip, 4.3 packets.
        assert!((152..=156).contains(&(window / PACKET)), "{}", window / PACKET);
        let Control::Cubic(cubic) = control else { unreachable!() };
        assert_eq!((cubic.w_max, cubic.epoch.unwrap().k_us), (70 * PACKET, 0));
    }

    #[test]
    fn cubic_is_at_least_as_fast_as_reno_at_short_round_trips() {
        let mut cubic = Cubic::default();
        let mut window = cubic.reduced(10 * PACKET);
        for at in 0..100 {
            for _ in 0..window / PACKET {
                window = cubic.grown(window, 1, at * MS, MS);
            }
        }
        // 0.1 s: the cubic function is below W_max, Reno's window has grown by 9/17 of a packet per
        // round trip up to the prior window, and by one after it.
        assert!(window > 80 * PACKET, "{}", window / PACKET);
    }

    #[test]
    fn fast_convergence_lowers_the_target() {
        let mut cubic = Cubic::default();
        cubic.reduced(100 * PACKET);
        assert_eq!(cubic.w_max, 100 * PACKET);
        cubic.reduced(80 * PACKET);
        assert_eq!(cubic.w_max, 68 * PACKET);
        assert_eq!(cubic.prior, 80 * PACKET);
    }

    /// RFC 8257, section 3.3: α moves by a sixteenth of the share of marked packets.
    #[test]
    fn dctcp_reduces_by_half_of_the_marked_share() {
        let mut control = Control::new(CongestionControl::Dctcp, 10, 1);
        assert_eq!(control.after_marks(100 * PACKET), 50 * PACKET);
        for _ in 0..400 {
            control.round_ended(100, 25, false);
        }
        let window = control.after_marks(100 * PACKET);
        assert!(window.abs_diff(87 * PACKET + PACKET / 2) < PACKET / 50, "{window}");
        assert_eq!(control.after_loss(100 * PACKET), 50 * PACKET);
    }

    /// 500 round trips after slow start, Prague with a round trip of 5 ms grows as with 25 ms: by
    /// 1/25 of a packet in 5 ms, since there are 5 of its round trips in one of 25 ms, and its rate
    /// is that of a window 5 times as large.
    #[test]
    fn prague_grows_as_with_a_round_trip_of_25_ms() {
        let mut prague = Control::new(CongestionControl::Prague, 10, 1);
        let growth = |control: &mut Control, rtt_ns| {
            (
                control.grown(10 * PACKET, 10, 0, rtt_ns) - 10 * PACKET,
                control.least_round_ns(rtt_ns),
            )
        };
        prague.round_ended(10, 0, true);
        (0..499).for_each(|_| prague.round_ended(10, 0, false));
        assert_eq!(growth(&mut prague, 5 * MS), (PACKET, 5 * MS));
        prague.round_ended(10, 0, false);
        assert_eq!(growth(&mut prague, 5 * MS), (PACKET / 25, 25 * MS));
        assert_eq!(growth(&mut prague, 40 * MS), (PACKET, 40 * MS));
        let mut dctcp = Control::new(CongestionControl::Dctcp, 10, 1);
        (0..600).for_each(|_| dctcp.round_ended(10, 0, false));
        assert_eq!(growth(&mut dctcp, 5 * MS), (PACKET, 5 * MS));
    }

    #[test]
    fn cube_roots_are_floors() {
        let cases = [(0, 0), (7, 1), (8, 2), (26, 2), (27, 3), (10_u128.pow(18), 1_000_000)];
        for (value, root) in cases {
            assert_eq!(cube_root(value), root);
        }
    }
}
