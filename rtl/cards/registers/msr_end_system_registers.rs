//! Registers of msr_end_system: written by rtl/cards/registers/registers.py from its msr_end_system.rdl.
//!
//! End-system card. Addresses are bytes; a `Field` is where a value stands in its register.

/// Where a value stands in a 32-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its lowest bit.
    pub low: u32,
    /// Its width, bits.
    pub width: u32,
}

impl Field {
    /// The register's bits for `value`; what does not fit is cut off.
    #[must_use]
    pub const fn put(self, value: u32) -> u32 {
        (value & self.mask()) << self.low
    }

    /// The field's value in a register.
    #[must_use]
    pub const fn get(self, register: u32) -> u32 {
        register >> self.low & self.mask()
    }

    const fn mask(self) -> u32 {
        u32::MAX >> (32 - self.width)
    }
}

/// What this is.
pub const ID: u32 = 0x00;
/// What this is. Streams, N.
pub const ID_STREAMS: Field = Field { low: 0, width: 7 };
/// What this is. 0x5345: an end-system card.
pub const ID_MAGIC: Field = Field { low: 16, width: 16 };

/// The card as a whole.
pub const CONTROL: u32 = 0x04;
/// The card as a whole. Decisions are made while arrivals wait and winners have room.
pub const CONTROL_ENABLE: Field = Field { low: 0, width: 1 };
/// The card as a whole. Of two zero window-constraints the lowest y' first.
pub const CONTROL_LOWEST_DENOMINATOR: Field = Field { low: 4, width: 1 };
/// The card as a whole. The 1999 attribute updates.
pub const CONTROL_RTAS99: Field = Field { low: 5, width: 1 };
/// The card as a whole. 0 DWCS, 1 EDF, 2 static priority.
pub const CONTROL_MODE: Field = Field { low: 8, width: 2 };

/// Contract: the window-constraint.
pub const WINDOW: u32 = 0x08;
/// Contract: the window-constraint. x: so many late or lost packets are allowed of any y.
pub const WINDOW_X: Field = Field { low: 0, width: 8 };
/// Contract: the window-constraint. y: at least x.
pub const WINDOW_Y: Field = Field { low: 8, width: 8 };
/// Contract: the window-constraint. What a violation adds to y': 1; under the 1999 updates ceil((y - x) / x), y if x = 0.
pub const WINDOW_GROWTH: Field = Field { low: 16, width: 8 };
/// Contract: the window-constraint. Late packets are dropped.
pub const WINDOW_DROP: Field = Field { low: 24, width: 1 };
/// Contract: the window-constraint. TIME.deadline is the first packet's, rather than what its deadline is reckoned from.
pub const WINDOW_FIRST: Field = Field { low: 25, width: 1 };

/// Contract: times.
pub const TIME: u32 = 0x0c;
/// Contract: times. Request period, packet-times, 1 to 16383.
pub const TIME_PERIOD: Field = Field { low: 0, width: 16 };
/// Contract: times. Deadline, packet-times; in static mode the priority.
pub const TIME_DEADLINE: Field = Field { low: 16, width: 16 };

/// Load a contract.
pub const LOAD: u32 = 0x10;
/// Load a contract. The stream.
pub const LOAD_STREAM: Field = Field { low: 0, width: 6 };

/// Push an arrival.
pub const PUSH: u32 = 0x14;
/// Push an arrival. The stream.
pub const PUSH_STREAM: Field = Field { low: 0, width: 6 };
/// Push an arrival. When the packet arrived, packet-times.
pub const PUSH_ARRIVAL: Field = Field { low: 16, width: 16 };

/// Offer arrivals to be pulled.
pub const PULL: u32 = 0x18;
/// Offer arrivals to be pulled. The stream.
pub const PULL_STREAM: Field = Field { low: 0, width: 6 };
/// Offer arrivals to be pulled. So many more than were offered before; at most 65535 may be outstanding.
pub const PULL_COUNT: Field = Field { low: 16, width: 16 };

/// The next packet that leaves its queue.
pub const WINNER: u32 = 0x1c;
/// The next packet that leaves its queue. Whose first packet.
pub const WINNER_STREAM: Field = Field { low: 0, width: 6 };
/// The next packet that leaves its queue. It is dropped because it was late, rather than sent.
pub const WINNER_DROPPED: Field = Field { low: 6, width: 1 };
/// The next packet that leaves its queue. There is one.
pub const WINNER_VALID: Field = Field { low: 7, width: 1 };
/// The next packet that leaves its queue. When that was decided, packet-times.
pub const WINNER_TIME: Field = Field { low: 16, width: 16 };

/// How much is there.
pub const LEVEL: u32 = 0x20;
/// How much is there. Packets to be read at WINNER.
pub const LEVEL_WINNERS: Field = Field { low: 0, width: 16 };
/// How much is there. The decision that is being made, or the next one, packet-times; wraps.
pub const LEVEL_NOW: Field = Field { low: 16, width: 16 };

/// Whose counters are read.
pub const SELECT: u32 = 0x24;
/// Whose counters are read. The stream.
pub const SELECT_STREAM: Field = Field { low: 0, width: 6 };

/// Deadlines missed.
pub const MISSED: u32 = 0x28;
/// Deadlines missed. Count, wraps.
pub const MISSED_COUNT: Field = Field { low: 0, width: 16 };

/// Misses that the window did not allow.
pub const VIOLATIONS: u32 = 0x2c;
/// Misses that the window did not allow. Count, wraps.
pub const VIOLATIONS_COUNT: Field = Field { low: 0, width: 16 };

/// The stream's state.
pub const STATE: u32 = 0x30;
/// The stream's state. Arrivals in SRAM.
pub const STATE_WAITING: Field = Field { low: 0, width: 16 };
/// The stream's state. Its head's deadline left the wrap-around window.
pub const STATE_RANGE: Field = Field { low: 16, width: 1 };
/// The stream's state. Its last charge was a violation.
pub const STATE_VIOLATION: Field = Field { low: 17, width: 1 };
