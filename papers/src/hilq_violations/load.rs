//! Offered traffic of Figure 9: 200 streams of random windows, a packet a period each.

pub(super) const STREAMS: usize = 200;
pub(super) const MS: u64 = 1_000_000;
/// Period of all streams where periods are equal, ms: 50 packets/s, within the paper's 20 to 60.
const PERIOD_MS: u64 = 20;
/// Periods of streams where they are mixed, ms.
const MIXED_MS: [u64; 4] = [10, 20, 30, 40];

/// The periods of the streams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Periods {
    Equal,
    Mixed,
}

/// The deadlines of packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deadlines {
    /// Arrivals and deadlines at whole milliseconds; a deadline is the arrival of the next packet.
    AsTheyFall,
    /// Like [`AsTheyFall`](Self::AsTheyFall), but a stream begins at a random nanosecond of its
    /// period.
    RandomPhases,
    /// The last nanosecond of the millisecond before the next arrival: the ends of HILQ's segments.
    Aligned,
    /// Aligned, and 0 to 9 ms before the next arrival, random for each stream.
    Apart,
}

/// The offered traffic.
pub(super) struct Load {
    pub(super) windows: Vec<(u32, u32)>,
    pub(super) periods_ms: Vec<u64>,
    /// First arrivals, ns.
    pub(super) phases_ns: Vec<u64>,
    /// Times from a deadline to the next arrival, ns.
    pub(super) gaps_ns: Vec<u64>,
    pub(super) packet_ns: u32,
}

impl Load {
    /// Draws the load of a seed. Its utilisation is within 1 % of `nominal`, on the same side of 1.
    ///
    /// Equal periods are multiples of the packet time, as DWCS's guarantee requires.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)]
    pub(super) fn draw(seed: u64, periods: Periods, deadlines: Deadlines, nominal: f64) -> Self {
        let mut below = random(seed);
        let windows = windows(STREAMS, &mut below);
        let mixed: Vec<u64> = (0..STREAMS).map(|_| MIXED_MS[below(4) as usize]).collect();
        let periods_ms = match periods {
            Periods::Equal => vec![PERIOD_MS; STREAMS],
            Periods::Mixed => mixed,
        };
        let phase = |period_ms: &u64| u64::from(below(u32::try_from(period_ms * MS).unwrap_or(1)));
        let phases_ns = match deadlines {
            Deadlines::RandomPhases => periods_ms.iter().map(phase).collect(),
            _ => vec![0; STREAMS],
        };
        let gaps_ns = match deadlines {
            Deadlines::AsTheyFall | Deadlines::RandomPhases => vec![0; STREAMS],
            Deadlines::Aligned => vec![1; STREAMS],
            Deadlines::Apart => (0..STREAMS).map(|_| u64::from(below(10)) * MS + 1).collect(),
        };
        let mut load = Self { windows, periods_ms, phases_ns, gaps_ns, packet_ns: 1 };
        let per_ns = load.utilisation();
        let packet_ns = match periods {
            // Packets of a period, rounded away from the capacity of 1.
            Periods::Equal => {
                let period_ns = (PERIOD_MS * MS) as f64;
                let packets = per_ns * period_ns / nominal;
                let packets = if nominal < 1.0 { packets.ceil() } else { packets.floor() };
                (period_ns / packets).floor()
            }
            Periods::Mixed => (nominal / per_ns).floor() + f64::from(u8::from(nominal > 1.0)),
        };
        load.packet_ns = packet_ns as u32;
        load
    }

    /// Returns U = Σ (1 − x/y)·C/T.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn utilisation(&self) -> f64 {
        let share = |(x, y): &(u32, u32)| 1.0 - f64::from(*x) / f64::from(*y);
        let streams = self.windows.iter().zip(&self.periods_ms);
        let rates = streams.map(|(window, period_ms)| share(window) / (*period_ms * MS) as f64);
        rates.sum::<f64>() * f64::from(self.packet_ns)
    }

    /// Returns the request period of a stream, ns: the time from an arrival to its deadline.
    pub(super) fn request_period_ns(&self, stream: usize) -> u64 {
        self.periods_ms[stream] * MS - self.gaps_ns[stream]
    }

    /// Returns the arrivals before `until_ms` by time, then by stream: time in ns and stream.
    pub(super) fn arrivals(&self, until_ms: u64) -> Vec<(u64, u32)> {
        let mut arrivals = Vec::new();
        for (stream, (period_ms, phase_ns)) in
            (0..).zip(self.periods_ms.iter().zip(&self.phases_ns))
        {
            let step = usize::try_from(period_ms * MS).unwrap_or(usize::MAX);
            let times = (*phase_ns..until_ms * MS).step_by(step);
            arrivals.extend(times.map(|time_ns| (time_ns, stream)));
        }
        arrivals.sort_unstable();
        arrivals
    }
}

/// Returns a reproducible generator of random numbers below a bound.
pub(crate) fn random(seed: u64) -> impl FnMut(u32) -> u32 {
    // The mixing step of SplitMix64, so that consecutive seeds give unrelated sequences.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^= state >> 31;
    move |end| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        u32::try_from((state >> 33) % u64::from(end)).unwrap_or(0)
    }
}

/// Returns random windows of 0.2 to 0.8, x up to 19 and y up to 29.
pub(crate) fn windows(streams: usize, below: &mut impl FnMut(u32) -> u32) -> Vec<(u32, u32)> {
    let mut windows = Vec::with_capacity(streams);
    while windows.len() < streams {
        let (x, y) = (below(20), 1 + below(29));
        if 5 * x >= y && 5 * x <= 4 * y {
            windows.push((x, y));
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_the_utilisation_of_its_name_on_the_same_side_of_one() {
        for seed in 1..=10 {
            for periods in [Periods::Equal, Periods::Mixed] {
                for nominal in [0.8, 0.99, 1.01, 1.5] {
                    let load = Load::draw(seed, periods, Deadlines::AsTheyFall, nominal);
                    let utilisation = load.utilisation();
                    assert!((utilisation / nominal - 1.0).abs() < 0.015, "{utilisation}");
                    assert_eq!(utilisation < 1.0, nominal < 1.0, "{utilisation}");
                }
            }
        }
    }

    #[test]
    fn deadlines_are_at_the_next_arrival_or_before_it() {
        let draw = |deadlines| Load::draw(3, Periods::Equal, deadlines, 0.9);
        let plain = draw(Deadlines::AsTheyFall);
        assert_eq!((plain.request_period_ns(7), plain.phases_ns[7]), (20 * MS, 0));
        assert_eq!(plain.arrivals(40)[..2], [(0, 0), (0, 1)]);
        assert_eq!(plain.arrivals(40).len(), 2 * STREAMS);
        assert_eq!(draw(Deadlines::Aligned).request_period_ns(7), 20 * MS - 1);
        let apart = draw(Deadlines::Apart);
        let before: Vec<u64> =
            (0..STREAMS).map(|of| 20 * MS - apart.request_period_ns(of)).collect();
        assert!(before.iter().all(|ns| ns % MS == 1 && *ns < 10 * MS), "{before:?}");
        assert!(before.contains(&1) && before.contains(&(9 * MS + 1)));
        let phases = draw(Deadlines::RandomPhases);
        assert!(phases.phases_ns.iter().any(|ns| ns % MS != 0));
        assert_eq!(phases.windows, plain.windows);
    }
}
