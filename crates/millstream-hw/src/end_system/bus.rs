//! What a transfer between host and card costs.

/// A bus.
///
/// A transfer has an overhead and then takes its bytes' time. On a shared bus (PCI) a read holds the
/// bus until its answer is there; on a split one (PCI Express) others go meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// The name in the scenario file.
    pub name: &'static str,
    /// For a reader.
    pub title: &'static str,
    /// Time of a byte, ps.
    pub byte_ps: u64,
    /// A transfer's overhead, in bytes' times.
    pub overhead_bytes: u64,
    /// From the grant until a write's first byte is at the card, ns.
    pub write_ns: u64,
    /// From the grant until a read's first byte is there, ns.
    pub read_ns: u64,
    /// A read does not hold the bus while it waits.
    pub split: bool,
}

impl Bus {
    /// Transfers cost nothing: the card at its own speed.
    pub const NONE: Self = Self {
        name: "none",
        title: "no bus: transfers cost nothing",
        byte_ps: 0,
        overhead_bytes: 0,
        write_ns: 0,
        read_ns: 0,
        split: true,
    };

    /// PCI of 33 MHz and 32 bits, the paper's: a clock is 30 ns and moves 4 bytes, 133 MB/s. A write
    /// has an address phase, a clock for the target's answer and an idle one. The first word of a
    /// read may take 16 clocks, the most that PCI 2.1 allows a target, and one is idle.
    pub const PCI_33: Self = Self {
        name: "pci-33",
        title: "PCI, 33 MHz x 32 bits",
        byte_ps: 7_500,
        overhead_bytes: 0,
        write_ns: 3 * 30,
        read_ns: 17 * 30,
        split: false,
    };

    /// PCI Express 3.0 of four lanes: 8 GT/s, 128 of 130 bits, 3.94 GB/s each way; 24 bytes of framing,
    /// header and checksum a packet; half a microsecond for a read, the order that is measured on
    /// servers (Neugebauer and others, SIGCOMM 2018), half of that one way.
    pub const PCIE_GEN3_X4: Self = Self {
        name: "pcie-gen3-x4",
        title: "PCI Express 3.0, 4 lanes",
        byte_ps: 254,
        overhead_bytes: 24,
        write_ns: 250,
        read_ns: 500,
        split: true,
    };

    /// Every bus.
    pub const ALL: [Self; 3] = [Self::PCI_33, Self::PCIE_GEN3_X4, Self::NONE];

    /// The bus of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bus| bus.name == name)
    }

    /// How long `bytes` bytes are on the bus, ns.
    #[must_use]
    pub fn bytes_ns(&self, bytes: u64) -> u64 {
        // A 32-bit bus moves whole words, and so do registers.
        ((bytes.next_multiple_of(4) + self.overhead_bytes) * self.byte_ps).div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_moves_at_most_133_mb_a_second_and_its_bursts_are_worth_while() {
        let bus = Bus::PCI_33;
        assert_eq!(bus.bytes_ns(1_000_000), 7_500_000);
        // 64 arrivals of 16 bits, and one.
        assert_eq!(bus.read_ns + bus.bytes_ns(128), 1_470);
        assert_eq!(bus.read_ns + bus.bytes_ns(2), 540);
    }

    #[test]
    fn buses_are_found_by_name() {
        for bus in Bus::ALL {
            assert_eq!(Bus::named(bus.name), Some(bus));
        }
        assert_eq!(Bus::named("isa"), None);
    }
}
