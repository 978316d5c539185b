//! Gigabit ports: how long a packet is on the wire.
//!
//! A wire time is not a whole number of cycles, so ports count in 125ths of a cycle, in which it
//! is: a byte takes 8 ns, or 232 of them.

use super::constants::{CLOCK_HZ, PORT_BITS_PER_S, WIRE_OVERHEAD_BYTES};

/// Parts of a cycle in which a byte's wire time is whole.
const PARTS: u64 = 125;
/// Those parts that a byte takes on the wire.
const PARTS_PER_BYTE: u64 = 8 * CLOCK_HZ * PARTS / PORT_BITS_PER_S;
const _: () = assert!(PARTS_PER_BYTE * PORT_BITS_PER_S == 8 * CLOCK_HZ * PARTS);

fn wire_parts(bytes: u32) -> u64 {
    u64::from(bytes + WIRE_OVERHEAD_BYTES) * PARTS_PER_BYTE
}

/// The cycles in which a packet of so many bytes passes a gigabit port, rounded up: (bytes + 20) ×
/// 8 ns.
#[must_use]
pub fn wire_cycles(bytes: u32) -> u64 {
    wire_parts(bytes).div_ceil(PARTS)
}

/// What a gigabit port carries at most, in bits/s of packets of so many bytes, rounded down.
#[must_use]
pub fn line_rate_bits_per_s(bytes: u32) -> u64 {
    PORT_BITS_PER_S * u64::from(bytes) / u64::from(bytes + WIRE_OVERHEAD_BYTES)
}

/// One direction of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    bytes: u32,
    /// When the wire is free, in parts.
    free: u64,
}

impl Port {
    pub(super) fn new(bytes: u32) -> Self {
        Self { bytes, free: 0 }
    }

    /// Puts a packet on the wire at cycle `now` or when the wire is free; the cycle at which it
    /// has passed.
    pub(super) fn pass(&mut self, now: u64) -> u64 {
        self.free = self.free.max(now * PARTS) + wire_parts(self.bytes);
        self.free.div_ceil(PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_its_bytes_and_twenty_more_at_8_ns() {
        // 532 × 8 ns = 4,256 ns = 987.4 cycles.
        assert_eq!(wire_cycles(512), 988);
        assert_eq!(line_rate_bits_per_s(512), 962_406_015);
    }

    #[test]
    fn back_to_back_packets_lose_nothing_to_rounding() {
        let mut port = Port::new(512);
        let last = (0..1000).map(|_| port.pass(0)).last();
        assert_eq!(last, Some(987_392));
    }
}
