//! The control law of `autorate`: load and delay give the next rate.
//!
//! Every [`TICK_NS`] it gets what the link carried, and the delay that packets met beyond it, over
//! the least delay of late. The delay grows if the next link is slower than this one.
//!
//! | delay | load | rate |
//! |---|---|---|
//! | above the target | the highest of the line | falls by 5 to 25 %, then waits for its effect |
//! | above the target | other | stays |
//! | below the target | high | grows by up to 2 %, less near the target |
//! | below the target | low | 1 % towards the configured rate |
//! | unknown | any | 1 % towards the configured rate |
//!
//! Source: the approach of cake-autorate (lynxthecat), which lowers CAKE's bandwidth at high delay,
//! raises it under load, and lets it drift to a base rate otherwise.

/// The time between two decisions, ns.
pub(crate) const TICK_NS: u64 = 100_000_000;
/// The load from which the rate may grow, in thousandths of the rate.
const HIGH_LOAD: u64 = 750;
/// The most that the rate grows in a tick, in thousandths.
const MOST_GROWTH: u64 = 20;
/// The change towards the configured rate in a tick, in thousandths.
const DRIFT: u64 = 10;
/// What is left of the rate after a reduction, in thousandths: the least and the most.
const REDUCED: (u64, u64) = (750, 950);
/// The least number of ticks between two reductions: the first must have an effect.
const HOLD_TICKS: u32 = 3;
/// The number of ticks for which a measured delay is used.
const MEMORY_TICKS: u32 = 5;

/// The limits of a rate that adapts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The lowest rate, bits/s.
    pub(crate) min_bps: u64,
    /// The configured rate, bits/s: the first one, and that of an idle link.
    pub(crate) base_bps: u64,
    /// The highest rate, bits/s.
    pub(crate) max_bps: u64,
    /// The target of the delay, ns.
    pub(crate) delay_ns: u64,
}

/// What happened in a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// What the link carried, bits/s.
    pub(crate) carried_bps: u64,
    /// The delay beyond the link, ns, if it was measured.
    pub(crate) delay_ns: Option<u64>,
    /// Whether no other link of the same line has a higher load.
    pub(crate) most_loaded: bool,
}

/// A rate that adapts.
#[derive(Clone, Debug)]
pub(crate) struct Autorate {
    limits: Limits,
    rate_bps: u64,
    /// The last measured delay, ns, and the ticks since.
    delay: Option<(u64, u32)>,
    /// The ticks until the next reduction may follow.
    hold: u32,
}

impl Autorate {
    /// Starts at the configured rate.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, rate_bps: limits.base_bps, delay: None, hold: 0 }
    }

    /// Replaces the limits; keeps the rate as far as they allow.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.rate_bps = self.rate_bps.clamp(limits.min_bps, limits.max_bps);
    }

    /// Returns the rate, bits/s.
    pub(crate) fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Returns the delay by which it decided last, ns.
    pub(crate) fn delay_ns(&self) -> Option<u64> {
        self.delay.map(|(delay_ns, _)| delay_ns)
    }

    /// Returns `carried_bps` in thousandths of the rate.
    pub(crate) fn load(&self, carried_bps: u64) -> u64 {
        carried_bps.saturating_mul(1_000) / self.rate_bps.max(1)
    }

    /// Decides the rate after a tick.
    pub(crate) fn tick(&mut self, observed: Observed) {
        let before_ns = self.delay_ns();
        self.delay = match (observed.delay_ns, self.delay) {
            (Some(delay_ns), _) => Some((delay_ns, 0)),
            (None, Some((delay_ns, age))) if age < MEMORY_TICKS => Some((delay_ns, age + 1)),
            (None, _) => None,
        };
        self.hold = self.hold.saturating_sub(1);
        let Limits { min_bps, max_bps, delay_ns: target_ns, .. } = self.limits;
        let load = self.load(observed.carried_bps);
        let rate_bps = match self.delay_ns() {
            Some(delay_ns) if delay_ns > target_ns => {
                // A queue that shrinks needs no further reduction.
                let falls = before_ns.is_some_and(|before_ns| delay_ns < before_ns);
                let known = observed.delay_ns.is_some();
                if !known || !observed.most_loaded || self.hold > 0 || falls {
                    self.rate_bps
                } else {
                    self.hold = HOLD_TICKS;
                    let (least, most) = REDUCED;
                    let left = (target_ns.saturating_mul(1_000) / delay_ns).clamp(least, most);
                    // A link that is far from full carries what the line can.
                    let full = load >= HIGH_LOAD;
                    let from_bps = if full { self.rate_bps } else { observed.carried_bps };
                    thousandths(from_bps, left)
                }
            }
            Some(delay_ns) if load >= HIGH_LOAD => {
                let growth = MOST_GROWTH.saturating_mul(target_ns - delay_ns) / target_ns.max(1);
                thousandths(self.rate_bps, 1_000 + growth.max(1))
            }
            _ => self.drifted_bps(),
        };
        self.rate_bps = rate_bps.clamp(min_bps, max_bps);
    }

    /// Returns the rate a step nearer to the configured rate, bits/s.
    fn drifted_bps(&self) -> u64 {
        let base_bps = self.limits.base_bps;
        if self.rate_bps > base_bps {
            thousandths(self.rate_bps, 1_000 - DRIFT).max(base_bps)
        } else {
            // At least 1 bit/s, so that it arrives.
            thousandths(self.rate_bps, 1_000 + DRIFT).max(self.rate_bps + 1).min(base_bps)
        }
    }
}

/// Returns `part` thousandths of a rate.
fn thousandths(rate_bps: u64, part: u64) -> u64 {
    u64::try_from(u128::from(rate_bps) * u128::from(part) / 1_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBPS: u64 = 1_000_000;
    const MS: u64 = 1_000_000;
    const LIMITS: Limits =
        Limits { min_bps: 5 * MBPS, base_bps: 20 * MBPS, max_bps: 50 * MBPS, delay_ns: 30 * MS };

    /// Returns the rates after ticks with these loads, thousandths, and delays, ms.
    fn rates(of: &mut Autorate, ticks: &[(u64, Option<u64>)]) -> Vec<u64> {
        let mut rate = |(load, delay_ms): &(u64, Option<u64>)| {
            let carried_bps = thousandths(of.rate_bps(), *load);
            let delay_ns = delay_ms.map(|ms| ms * MS);
            of.tick(Observed { carried_bps, delay_ns, most_loaded: true });
            of.rate_bps()
        };
        ticks.iter().map(&mut rate).collect()
    }

    #[test]
    fn a_loaded_link_grows_until_the_delay_is_near_the_target() {
        let mut of = Autorate::new(LIMITS);
        let seen = rates(&mut of, &[(1_000, Some(0)), (800, Some(15)), (750, Some(30))]);
        assert_eq!(seen, [20_400_000, 20_604_000, 20_624_604]);
        for _ in 0..60 {
            rates(&mut of, &[(900, Some(1))]);
        }
        assert_eq!(of.rate_bps(), LIMITS.max_bps);
    }

    #[test]
    fn delay_above_the_target_lowers_the_rate_once_until_the_delay_grows_again() {
        let mut of = Autorate::new(LIMITS);
        // 30/40 of the rate is left; then it waits three ticks, and while the delay falls.
        let series = [
            (1_000, Some(40)),
            (1_000, Some(40)),
            (1_000, Some(50)),
            (1_000, Some(50)),
            (1_000, Some(45)),
            (1_000, Some(45)),
        ];
        let (first, second, third) = (15_000_000, 11_250_000, 8_437_500);
        assert_eq!(rates(&mut of, &series), [first, first, first, second, second, second]);
        assert_eq!(rates(&mut of, &[(1_000, Some(60))]), [third]);
        // 31 ms is hardly above the target: 95 % is left. 3 s: not less than three quarters.
        let reduced = |ms| rates(&mut Autorate::new(LIMITS), &[(1_000, Some(ms))])[0];
        assert_eq!([reduced(31), reduced(3_000)], [19_000_000, 15_000_000]);
        for _ in 0..99 {
            rates(&mut of, &[(1_000, Some(900))]);
        }
        assert_eq!(of.rate_bps(), LIMITS.min_bps);
    }

    #[test]
    fn a_link_that_is_far_from_full_falls_below_what_it_carried() {
        let mut of = Autorate::new(LIMITS);
        assert_eq!(rates(&mut of, &[(400, Some(40))]), [6_000_000]);
    }

    #[test]
    fn another_link_of_the_line_with_more_load_is_blamed() {
        let mut of = Autorate::new(LIMITS);
        of.tick(Observed { carried_bps: 8 * MBPS, delay_ns: Some(90 * MS), most_loaded: false });
        assert_eq!(of.rate_bps(), LIMITS.base_bps);
    }

    #[test]
    fn without_load_or_measurement_it_drifts_to_the_configured_rate() {
        let mut of = Autorate::new(LIMITS);
        for _ in 0..20 {
            rates(&mut of, &[(1_000, Some(0))]);
        }
        assert!(of.rate_bps() > 29 * MBPS);
        let high = of.rate_bps();
        assert_eq!(rates(&mut of, &[(749, Some(0))]), [high * 99 / 100]);
        // A delay counts for five ticks after it was measured.
        let seen = rates(&mut of, &[(1_000, None); 7]);
        assert!(seen[..5].is_sorted() && seen[4] > seen[0], "{seen:?}");
        assert!(seen[5] < seen[4] && seen[6] < seen[5], "{seen:?}");
        for _ in 0..99 {
            rates(&mut of, &[(0, None)]);
        }
        assert_eq!(of.rate_bps(), LIMITS.base_bps);
        let mut of = Autorate::new(Limits { min_bps: 10, base_bps: 20, ..LIMITS });
        of.rate_bps = 10;
        assert_eq!(rates(&mut of, &[(0, None); 12]).last(), Some(&20));
    }

    /// A queue in front of a line of 20 Mbit/s, then 8, then 40, that a full link feeds.
    #[test]
    fn the_rate_follows_a_line_that_changes() {
        let mut of = Autorate::new(Limits { base_bps: 30 * MBPS, ..LIMITS });
        let mut queue_bits = 0;
        for line_bps in [20 * MBPS, 8 * MBPS, 40 * MBPS] {
            let (mut carried, mut delays) = (0, Vec::new());
            for tick in 0..200_u64 {
                let (arrived, left) = (of.rate_bps() / 10, line_bps / 10);
                let sent = (queue_bits + arrived).min(left);
                queue_bits = queue_bits + arrived - sent;
                let delay_ns = queue_bits * 1_000_000_000 / line_bps;
                if tick >= 50 {
                    carried += sent;
                    delays.push(delay_ns / MS);
                }
                of.tick(Observed {
                    carried_bps: of.rate_bps(),
                    delay_ns: Some(delay_ns),
                    most_loaded: true,
                });
            }
            delays.sort_unstable();
            let (median, carried_bps) = (delays[75], carried / 15);
            assert!(median <= 30, "{median} ms at {line_bps}");
            assert!(carried_bps >= line_bps * 85 / 100, "{carried_bps} of {line_bps}");
        }
    }
}
