//! Counts and costs of transfers on the bus.

use super::Bus;

/// Transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Number of transfers.
    pub count: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Time on the bus, ns.
    pub busy_ns: u64,
}

/// The cost of a run.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The bus.
    pub bus: Bus,
    /// The card's clock, Hz.
    pub clock_hz: u64,
    /// Packets sent or dropped late.
    pub packets: u64,
    /// Decisions, including those without a winner.
    pub decisions: u64,
    /// Most frequent interval between decisions in cycles, without waits; 0 after fewer than two
    /// decisions.
    pub decision_cycles: u64,
    /// Time from the first arrival to the last read of a winner, ns.
    pub span_ns: u64,
    /// Pushed arrivals, and offers of arrivals to pull.
    pub writes: Transfers,
    /// Arrivals pulled by the card.
    pub pulls: Transfers,
    /// Winners read.
    pub winners: Transfers,
    /// Counters read.
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

    /// Returns the packets per second at which the bus saturates; `None` if it is unused.
    #[must_use]
    pub fn bus_limit(&self) -> Option<u64> {
        rate(self.packets, self.busy_ns())
    }

    /// Returns the decisions per second at which the card saturates.
    #[must_use]
    pub fn card_limit(&self) -> Option<u64> {
        self.clock_hz.checked_div(self.decision_cycles)
    }

    /// Returns the measured packets per second.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        rate(self.packets, self.span_ns)
    }

    /// Returns the total time on the bus, ns.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        [self.writes, self.pulls, self.winners, self.counters].iter().map(|t| t.busy_ns).sum()
    }
}

fn rate(packets: u64, ns: u64) -> Option<u64> {
    let per_second = (u128::from(packets) * 1_000_000_000).checked_div(u128::from(ns))?;
    u64::try_from(per_second).ok()
}
