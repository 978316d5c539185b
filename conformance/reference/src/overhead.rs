//! The bytes of a packet on the wire.

use std::fmt;

/// How a link divides packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Not at all.
    #[default]
    None,
    /// Into ATM cells: 53 bytes carry 48, and the last one is filled up.
    Atm,
    /// Into PTM code words: a sync byte precedes every 64 bytes, also the last ones.
    Ptm,
}

/// The bytes on the wire beyond a packet's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// A constant for each packet, which may be negative.
    pub bytes: i32,
    /// The framing of length and constant together.
    pub framing: Framing,
}

impl From<i32> for Overhead {
    fn from(bytes: i32) -> Self {
        Self { bytes, framing: Framing::None }
    }
}

impl Overhead {
    /// Returns the length on the wire of a packet of `bytes` bytes.
    #[must_use]
    pub fn length(self, bytes: u32) -> u64 {
        let framed = u64::try_from(i64::from(bytes) + i64::from(self.bytes)).unwrap_or(0);
        match self.framing {
            Framing::None => framed,
            Framing::Atm => {
                let (full, rest) = (framed / 48, framed % 48);
                53 * (full + u64::from(rest > 0))
            }
            Framing::Ptm => {
                let (full, rest) = (framed / 64, framed % 64);
                65 * full + if rest > 0 { rest + 1 } else { 0 }
            }
        }
    }

    /// Returns the duration of a packet of `bytes` bytes at `rate_bps`, rounded up, ns.
    #[must_use]
    pub fn transmission_ns(self, bytes: u32, rate_bps: u64) -> u64 {
        let bits = u128::from(self.length(bytes)) * 8 * 1_000_000_000;
        u64::try_from(bits.div_ceil(u128::from(rate_bps))).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Overhead {
    /// Writes the lines of a scenario file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overhead = {}", self.bytes)?;
        match self.framing {
            Framing::None => Ok(()),
            Framing::Atm => f.write_str("\nframing = \"atm\""),
            Framing::Ptm => f.write_str("\nframing = \"ptm\""),
        }
    }
}
