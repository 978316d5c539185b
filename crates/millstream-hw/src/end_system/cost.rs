//! What crossed the bus, and what that cost.

use super::Bus;

/// Transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// How many.
    pub count: u64,
    /// Bytes, as software sees them.
    pub bytes: u64,
    /// Time on the bus, ns.
    pub busy_ns: u64,
}

/// What a run cost.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The bus.
    pub bus: Bus,
    /// The card's clock, Hz.
    pub clock_hz: u64,
    /// Packets that left, sent or dropped late.
    pub packets: u64,
    /// Decisions, those without a winner included.
    pub decisions: u64,
    /// How many cycles it usually is from one to the next, where nothing was waited for; 0 if there
    /// were not two.
    pub decision_cycles: u64,
    /// From the first arrival until the last winner was read, ns.
    pub span_ns: u64,
    /// Arrivals that were pushed, and offers of arrivals to be pulled.
    pub writes: Transfers,
    /// Arrivals that the card pulled.
    pub pulls: Transfers,
    /// Winners that were read.
    pub winners: Transfers,
    /// Counters that were read.
    pub counters: Transfers,
}

impl Cost {
    pub(crate) fn new(bus: Bus, clock_hz: u64) -> Self {
        let none = Transfers::default();
        Self {
            bus,
            clock_hz,
            packets: 0,
            decisions: 0,
            decision_cycles: 0,
            span_ns: 0,
            writes: none,
            pulls: none,
            winners: none,
            counters: none,
        }
    }

    /// Packets a second that the bus could carry, if it did nothing else; `None` if it is not used.
    #[must_use]
    pub fn bus_limit(&self) -> Option<u64> {
        rate(self.packets, self.busy_ns())
    }

    /// Decisions a second that the card could make.
    #[must_use]
    pub fn card_limit(&self) -> Option<u64> {
        self.clock_hz.checked_div(self.decision_cycles)
    }

    /// Packets a second that left.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        rate(self.packets, self.span_ns)
    }

    /// Time on the bus, ns.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        [self.writes, self.pulls, self.winners, self.counters].iter().map(|t| t.busy_ns).sum()
    }
}

fn rate(packets: u64, ns: u64) -> Option<u64> {
    let per_second = (u128::from(packets) * 1_000_000_000).checked_div(u128::from(ns))?;
    u64::try_from(per_second).ok()
}
