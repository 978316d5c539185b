//! Registers of msr_line_card: written by rtl/cards/registers/registers.py from its msr_line_card.rdl.
//!
//! Line card. Addresses are bytes; a `Field` is where a value stands in its register.

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
/// What this is. 0x5353: a ShareStreams core.
pub const ID_MAGIC: Field = Field { low: 16, width: 16 };

/// The card as a whole.
pub const CONTROL: u32 = 0x04;
/// The card as a whole. Decisions are made and packets leave.
pub const CONTROL_ENABLE: Field = Field { low: 0, width: 1 };
/// The card as a whole. A packet for which there is no room waits at the input, and all behind it; else it is dropped and counted.
pub const CONTROL_HOLD: Field = Field { low: 1, width: 1 };
/// The card as a whole. Of two zero window-constraints the lowest y' first.
pub const CONTROL_LOWEST_DENOMINATOR: Field = Field { low: 4, width: 1 };
/// The card as a whole. The 1999 attribute updates.
pub const CONTROL_RTAS99: Field = Field { low: 5, width: 1 };
/// The card as a whole. 0 DWCS, 1 EDF, 2 static priority.
pub const CONTROL_MODE: Field = Field { low: 8, width: 2 };

/// Time of an idle card.
pub const IDLE: u32 = 0x08;
/// Time of an idle card. Clock cycles after which time moves on by a tick though nothing waits; 0: it stands still.
pub const IDLE_CYCLES: Field = Field { low: 0, width: 16 };

/// Contract: the window-constraint.
pub const WINDOW: u32 = 0x0c;
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
pub const TIME: u32 = 0x10;
/// Contract: times. Request period, packet-times, 1 to 16383.
pub const TIME_PERIOD: Field = Field { low: 0, width: 16 };
/// Contract: times. Deadline, packet-times; in static mode the priority.
pub const TIME_DEADLINE: Field = Field { low: 16, width: 16 };

/// Load a contract.
pub const LOAD: u32 = 0x14;
/// Load a contract. The stream.
pub const LOAD_STREAM: Field = Field { low: 0, width: 6 };

/// Whose counters are read.
pub const SELECT: u32 = 0x18;
/// Whose counters are read. The stream.
pub const SELECT_STREAM: Field = Field { low: 0, width: 6 };

/// Time.
pub const NOW: u32 = 0x1c;
/// Time. The decision that is being made, or the next one, packet-times; wraps.
pub const NOW_NOW: Field = Field { low: 0, width: 16 };

/// Packets arrived whole, dropped ones included.
pub const ARRIVED: u32 = 0x20;
/// Packets arrived whole, dropped ones included. Count, wraps.
pub const ARRIVED_COUNT: Field = Field { low: 0, width: 32 };

/// Packets dropped for lack of room.
pub const DROPPED_FULL: u32 = 0x24;
/// Packets dropped for lack of room. Count, wraps.
pub const DROPPED_FULL_COUNT: Field = Field { low: 0, width: 32 };

/// Packets dropped because they were late, or by LOAD.
pub const DROPPED_LATE: u32 = 0x28;
/// Packets dropped because they were late, or by LOAD. Count, wraps.
pub const DROPPED_LATE_COUNT: Field = Field { low: 0, width: 32 };

/// Packets sent.
pub const SENT: u32 = 0x2c;
/// Packets sent. Count, wraps.
pub const SENT_COUNT: Field = Field { low: 0, width: 16 };

/// Deadlines missed.
pub const MISSED: u32 = 0x30;
/// Deadlines missed. Count, wraps.
pub const MISSED_COUNT: Field = Field { low: 0, width: 16 };

/// Misses that the window did not allow.
pub const VIOLATIONS: u32 = 0x34;
/// Misses that the window did not allow. Count, wraps.
pub const VIOLATIONS_COUNT: Field = Field { low: 0, width: 16 };

/// The stream's state.
pub const STATE: u32 = 0x38;
/// The stream's state. Packets that the core has not taken yet.
pub const STATE_WAITING: Field = Field { low: 0, width: 16 };
/// The stream's state. Its head's deadline left the wrap-around window.
pub const STATE_RANGE: Field = Field { low: 16, width: 1 };
/// The stream's state. Its last charge was a violation.
pub const STATE_VIOLATION: Field = Field { low: 17, width: 1 };

/// Packets for streams that do not exist, dropped.
pub const UNKNOWN: u32 = 0x3c;
/// Packets for streams that do not exist, dropped. Count, wraps.
pub const UNKNOWN_COUNT: Field = Field { low: 0, width: 32 };
