//! The link as disciplines see it: its rate, and the cost of a packet.

use crate::discipline::Waiting;

/// The division of a packet into cells or code words on a link.
///
/// The formulas are those of CAKE (Linux, `sch_cake.c`, `cake_calc_overhead`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Packets are sent as they are.
    #[default]
    None,
    /// ATM (ADSL): cells of 53 bytes for every 48 bytes, the last cell padded.
    Atm,
    /// PTM (VDSL2): a byte more for every begun 64 bytes (64b/65b encoding).
    Ptm,
}

/// A link's rate, overhead and framing.
///
/// Disciplines share the link's time, so a packet counts with all bytes that occupy the link
/// ([`wire_bytes`](Self::wire_bytes)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate, bits/s.
    pub rate_bps: u64,
    /// Bytes that a packet takes on the wire beyond its length, before framing. Negative if the
    /// link does not carry all headers that the length includes.
    pub overhead_bytes: i32,
    /// The framing.
    pub framing: Framing,
}

impl Default for Link {
    /// Returns a link of 1 Gbit/s without overhead.
    fn default() -> Self {
        Self::new(1_000_000_000, 0)
    }
}

impl Link {
    /// Returns a link of `rate_bps` bits/s on which a packet takes `overhead_bytes` more than its
    /// length, without framing.
    #[must_use]
    pub const fn new(rate_bps: u64, overhead_bytes: i32) -> Self {
        Self { rate_bps, overhead_bytes, framing: Framing::None }
    }

    /// Returns this link with `framing`.
    #[must_use]
    pub const fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Returns the length on the wire of a packet of `bytes`, bytes: its length and the overhead,
    /// at least 0, in cells or code words. A longer packet is never shorter on the wire.
    #[inline]
    #[must_use]
    pub fn wire_bytes(self, bytes: u32) -> u64 {
        let carried = (i64::from(bytes) + i64::from(self.overhead_bytes)).max(0).cast_unsigned();
        match self.framing {
            Framing::None => carried,
            Framing::Atm => carried.div_ceil(48) * 53,
            Framing::Ptm => carried + carried.div_ceil(64),
        }
    }

    /// Returns by how much a packet of `bytes` is longer on the wire than one of `estimate`, bytes.
    #[inline]
    #[must_use]
    pub(crate) fn extra_wire_bytes(self, estimate: u32, bytes: u32) -> i64 {
        self.wire_bytes(bytes).cast_signed() - self.wire_bytes(estimate).cast_signed()
    }

    /// Returns whether a packet's length on the wire is always its length plus the overhead.
    #[inline]
    #[must_use]
    pub(crate) fn is_linear(self) -> bool {
        self.framing == Framing::None && self.overhead_bytes >= 0
    }

    /// Returns what framing adds to the length and overhead of a packet of `bytes`, bytes; also
    /// what the least length of 0 adds.
    #[inline]
    #[must_use]
    pub(crate) fn framing_bytes(self, bytes: u32) -> u64 {
        let unframed = i64::from(bytes) + i64::from(self.overhead_bytes);
        (self.wire_bytes(bytes).cast_signed() - unframed).cast_unsigned()
    }

    /// Returns the length on the wire of the packets of `waiting`, bytes.
    #[inline]
    #[must_use]
    pub(crate) fn backlog_bytes(self, waiting: Waiting) -> u64 {
        let overhead = i64::from(waiting.packets) * i64::from(self.overhead_bytes);
        (waiting.bytes + waiting.framing_bytes).saturating_add_signed(overhead)
    }

    /// Returns the transmission time of a packet of `bytes`, ns: ceil(wire bytes × 8 × 10⁹ / rate),
    /// saturating.
    ///
    /// # Panics
    /// Panics if the rate is 0.
    #[inline]
    #[must_use]
    pub fn transmission_ns(self, bytes: u32) -> u64 {
        let bits = self.wire_bytes(bytes) * 8;
        match bits.checked_mul(1_000_000_000) {
            Some(scaled) => scaled.div_ceil(self.rate_bps),
            // Packets of gigabytes.
            None => u64::try_from(
                (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(self.rate_bps)),
            )
            .unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_code_words_of_known_packets() {
        let wire = |ip: u32, overhead: i32, framing| {
            // Lengths include the Ethernet header of 14 bytes; overheads are beside the IP packet.
            Link::new(1, overhead - 14).framed(framing).wire_bytes(ip + 14)
        };
        // An acknowledgement of 40 bytes: 40 + 40 = 80 bytes are 2 cells under PPPoE over LLC, 40 +
        // 8 = 48 exactly 1 under IPoA over VC-MUX, and 52 + 8 = 60 with timestamps are 2.
        assert_eq!(wire(40, 40, Framing::Atm), 2 * 53);
        assert_eq!(wire(40, 8, Framing::Atm), 53);
        assert_eq!(wire(52, 8, Framing::Atm), 2 * 53);
        // 1,500 bytes: 1,540 are 33 cells (1,584), 1,508 are 32 (1,536).
        assert_eq!(wire(1_500, 40, Framing::Atm), 33 * 53);
        assert_eq!(wire(1_500, 8, Framing::Atm), 32 * 53);
        // PPPoE over PTM: 1,530 bytes have 24 begun blocks of 64 (1,536); 64 bytes have 1, 65 two.
        assert_eq!(wire(1_500, 30, Framing::Ptm), 1_530 + 24);
        assert_eq!(wire(34, 30, Framing::Ptm), 65);
        assert_eq!(wire(35, 30, Framing::Ptm), 67);
        assert_eq!(wire(1_500, 38, Framing::None), 1_538);
    }

    #[test]
    fn a_length_below_a_negative_overhead_is_0() {
        for framing in [Framing::None, Framing::Atm, Framing::Ptm] {
            let link = Link::new(8_000_000_000, -14).framed(framing);
            assert_eq!([0, 13, 14].map(|bytes| link.wire_bytes(bytes)), [0, 0, 0]);
            assert_eq!(link.transmission_ns(14), 0);
            assert!(link.wire_bytes(15) > 0);
        }
        assert_eq!(Link::new(1, i32::MIN).wire_bytes(u32::MAX), (1 << 31) - 1);
        let longest = u64::from(u32::MAX) + (1 << 31) - 1;
        assert_eq!(Link::new(1, i32::MAX).wire_bytes(u32::MAX), longest);
    }

    #[test]
    fn backlogs_are_the_sums_of_their_packets() {
        for framing in [Framing::None, Framing::Atm, Framing::Ptm] {
            for overhead_bytes in [-20, 0, 24] {
                let link = Link::new(1, overhead_bytes).framed(framing);
                let lengths = [0, 3, 20, 21, 44, 45, 68, 69, 1_500];
                let mut waiting = Waiting::default();
                for bytes in lengths {
                    waiting.packets += 1;
                    waiting.bytes += u64::from(bytes);
                    waiting.framing_bytes += link.framing_bytes(bytes);
                }
                let sum: u64 = lengths.iter().map(|bytes| link.wire_bytes(*bytes)).sum();
                assert_eq!(link.backlog_bytes(waiting), sum, "{link:?}");
                let linear = lengths.iter().all(|bytes| link.framing_bytes(*bytes) == 0);
                assert_eq!(link.is_linear(), linear, "{link:?}");
            }
        }
    }
}
