//! The link as disciplines see it: its rate, and the cost of a packet.

/// A link's rate and overhead.
///
/// Disciplines share the link's time, so a packet counts with all bytes that occupy the link: its
/// length and the link's overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate, bits/s.
    pub rate_bps: u64,
    /// Bytes that a packet takes on the wire beyond its length.
    pub overhead_bytes: u32,
}

impl Default for Link {
    /// Returns a link of 1 Gbit/s without overhead.
    fn default() -> Self {
        Self::new(1_000_000_000, 0)
    }
}

impl Link {
    /// Returns a link of `rate_bps` bits/s on which a packet takes `overhead_bytes` more than its
    /// length.
    #[must_use]
    pub const fn new(rate_bps: u64, overhead_bytes: u32) -> Self {
        Self { rate_bps, overhead_bytes }
    }

    /// Returns the length on the wire of a packet of `bytes`, bytes.
    #[inline]
    #[must_use]
    pub fn wire_bytes(self, bytes: u32) -> u64 {
        u64::from(bytes) + u64::from(self.overhead_bytes)
    }

    /// Returns by how much a packet of `bytes` is longer on the wire than one of `estimate`, bytes.
    #[inline]
    #[must_use]
    pub(crate) fn extra_wire_bytes(self, estimate: u32, bytes: u32) -> i64 {
        self.wire_bytes(bytes).cast_signed() - self.wire_bytes(estimate).cast_signed()
    }

    /// Returns the transmission time of a packet of `bytes`, ns: ceil((bytes + overhead) × 8 × 10⁹
    /// / rate), saturating.
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
