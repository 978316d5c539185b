//! The streams of a measurement and their load.

use millstream::{Contract, ContractError, Window};

/// Transmission time of a packet, ns.
pub(crate) const SLOT_NS: u64 = 1000;

/// The step that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A decision and all attribute updates. No packets are moved; every stream is backlogged.
    Decision,
    /// One dequeue and one enqueue through the whole scheduler; every stream is backlogged.
    Packet,
    /// Like [`Packet`](Self::Packet), with one queued packet for every sixteen streams.
    Sparse,
}

/// The distribution of deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deadlines {
    /// Random periods and phases: equal deadlines are rare.
    #[default]
    Spread,
    /// A thousand different periods with a common start: with many streams, many deadlines are
    /// equal.
    Tied,
}

/// Different periods of [`Deadlines::Tied`].
const PERIODS: u64 = 1000;

/// A set of streams and their load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The step that is measured.
    pub work: Work,
    /// Number of streams.
    pub streams: u32,
    /// The distribution of deadlines.
    pub deadlines: Deadlines,
    /// Missed request periods in percent, where every stream is backlogged; 0…99. A step has one
    /// service and p/(100 − p) misses. The windows' utilisation is 0.95 of the link, or the whole
    /// demand if that is less.
    pub missed_percent: u32,
}

/// SplitMix64 (Steele, Lea and Flood 2014): runs are reproducible.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The high half of the product is below `bound`.
        u64::try_from((u128::from(mixed) * u128::from(bound)) >> 64).unwrap_or(0)
    }
}

/// The contract of one stream.
pub(crate) struct Stream {
    pub(crate) period_ns: u64,
    pub(crate) first_ns: u64,
    window: (u32, u32),
}

impl Workload {
    /// Returns the streams' contracts: periods within ±50 % of their mean, window denominators up
    /// to 19.
    ///
    /// # Errors
    /// Never fails: every period is positive and x is at most y.
    pub fn contracts(&self) -> Result<Vec<Contract>, ContractError> {
        let contract = |stream: Stream| {
            let window = Window::new(stream.window.0, stream.window.1)?;
            let contract = Contract::new().period_ns(stream.period_ns)?.window(window);
            Ok(contract.first_deadline_ns(stream.first_ns))
        };
        self.all().map(contract).collect()
    }

    /// Returns the contracts of all streams.
    pub(crate) fn all(&self) -> impl Iterator<Item = Stream> {
        let mut random = Random(1);
        // Request periods per thousand slots; without misses the link has slack.
        let missed = u64::from(self.missed_percent.min(99));
        let demand = if missed == 0 { 900 } else { 100_000 / (100 - missed) };
        let loss = 1000 - (950 * 1000 / demand).min(1000);
        // A period uniform in 0.5…1.5 of m means 1/m · ln 3 requests a nanosecond.
        let mean_ns = u64::from(self.streams) * SLOT_NS * 1_098_612 / 1000 / demand;
        let deadlines = self.deadlines;
        (0..self.streams).map(move |_| {
            let more_ns = match deadlines {
                Deadlines::Spread => random.below(mean_ns.max(1)),
                Deadlines::Tied => mean_ns * random.below(PERIODS) / PERIODS,
            };
            let period_ns = (mean_ns / 2 + more_ns).max(1);
            let of = 2 + random.below(18);
            let lost = ((of * loss + random.below(1000)) / 1000).min(of - 1);
            let first_ns = match deadlines {
                Deadlines::Spread => 1 + random.below(period_ns),
                Deadlines::Tied => period_ns,
            };
            let saturated = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            Stream { period_ns, first_ns, window: (saturated(lost), saturated(of)) }
        })
    }
}
