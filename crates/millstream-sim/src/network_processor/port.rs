//! Gigabit ports and the transmission time of a packet.
//!
//! A wire time is not a whole number of cycles. Ports therefore count in 125ths of a cycle: a byte
//! takes 8 ns, which is exactly 232 of them.

use super::constants::{CLOCK_HZ, PORT_BITS_PER_S, WIRE_OVERHEAD_BYTES};

/// Time units per cycle, chosen so that a byte's wire time is whole.
const UNITS_PER_CYCLE: u64 = 125;
/// Wire time of a byte, in these units.
const UNITS_PER_BYTE: u64 = 8 * CLOCK_HZ * UNITS_PER_CYCLE / PORT_BITS_PER_S;
const _: () = assert!(UNITS_PER_BYTE * PORT_BITS_PER_S == 8 * CLOCK_HZ * UNITS_PER_CYCLE);

fn wire_units(bytes: u32) -> u64 {
    u64::from(bytes + WIRE_OVERHEAD_BYTES) * UNITS_PER_BYTE
}

/// Returns the cycles in which a packet of `bytes` passes a gigabit port, (bytes + 20) × 8 ns,
/// rounded up.
#[must_use]
pub fn wire_cycles(bytes: u32) -> u64 {
    wire_units(bytes).div_ceil(UNITS_PER_CYCLE)
}

/// Returns the maximum rate of a gigabit port in bits/s of packets of `bytes`, rounded down.
#[must_use]
pub fn line_rate_bits_per_s(bytes: u32) -> u64 {
    PORT_BITS_PER_S * u64::from(bytes) / u64::from(bytes + WIRE_OVERHEAD_BYTES)
}

/// One direction of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    bytes: u32,
    /// Time at which the wire is free, in [`UNITS_PER_CYCLE`] per cycle.
    free: u64,
}

impl Port {
    pub(super) fn new(bytes: u32) -> Self {
        Self { bytes, free: 0 }
    }

    /// Sends a packet at cycle `now` or as soon as the wire is free; returns the cycle at which it
    /// has passed.
    pub(super) fn transmit(&mut self, now: u64) -> u64 {
        self.free = self.free.max(now * UNITS_PER_CYCLE) + wire_units(self.bytes);
        self.free.div_ceil(UNITS_PER_CYCLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_time_is_8_ns_per_byte_with_20_bytes_overhead() {
        // 532 × 8 ns = 4,256 ns = 987.4 cycles.
        assert_eq!(wire_cycles(512), 988);
        assert_eq!(line_rate_bits_per_s(512), 962_406_015);
    }

    #[test]
    fn back_to_back_packets_accumulate_no_rounding_error() {
        let mut port = Port::new(512);
        let last = (0..1000).map(|_| port.transmit(0)).last();
        assert_eq!(last, Some(987_392));
    }
}
