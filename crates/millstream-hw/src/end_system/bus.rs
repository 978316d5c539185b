//! The cost of a transfer between host and card.

/// A bus model.
///
/// A transfer takes an overhead and the time of its bytes. On a shared bus (PCI) a read holds the
/// bus until its data arrives. On a split-transaction bus (PCI Express) other transfers proceed
/// meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// The name in the scenario file.
    pub name: &'static str,
    /// Description for reports.
    pub title: &'static str,
    /// Time of a byte, ps.
    pub byte_ps: u64,
    /// Overhead of a transfer, in byte times.
    pub overhead_bytes: u64,
    /// Latency of a write: from the grant until its first byte is at the card, ns.
    pub write_ns: u64,
    /// Latency of a read: from the grant until its first byte is at the host, ns.
    pub read_ns: u64,
    /// Whether the bus is free while a read waits.
    pub split: bool,
}

impl Bus {
    /// A bus without cost: the card at full speed.
    pub const NONE: Self = Self {
        name: "none",
        title: "no bus: transfers cost nothing",
        byte_ps: 0,
        overhead_bytes: 0,
        write_ns: 0,
        read_ns: 0,
        split: true,
    };

    /// The paper's PCI bus of 33 MHz and 32 bits: a clock of 30 ns, 4 bytes per clock, 133 MB/s.
    ///
    /// A write has an address phase, a target response and an idle clock. The first word of a read
    /// may take 16 clocks, the limit of PCI 2.1; one more clock is idle.
    pub const PCI_33: Self = Self {
        name: "pci-33",
        title: "PCI, 33 MHz x 32 bits",
        byte_ps: 7_500,
        overhead_bytes: 0,
        write_ns: 3 * 30,
        read_ns: 17 * 30,
        split: false,
    };

    /// PCI Express 3.0 x4: 8 GT/s with 128b/130b coding, 3.94 GB/s in each direction.
    ///
    /// Each packet has 24 bytes of framing, header and checksum. A read takes 500 ns, as measured
    /// on servers (Neugebauer et al., SIGCOMM 2018); one direction is half of it.
    pub const PCIE_GEN3_X4: Self = Self {
        name: "pcie-gen3-x4",
        title: "PCI Express 3.0, 4 lanes",
        byte_ps: 254,
        overhead_bytes: 24,
        write_ns: 250,
        read_ns: 500,
        split: true,
    };

    /// All buses.
    pub const ALL: [Self; 3] = [Self::PCI_33, Self::PCIE_GEN3_X4, Self::NONE];

    /// Returns the bus called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bus| bus.name == name)
    }

    /// Returns the time of `bytes` bytes on the bus, ns.
    #[must_use]
    pub fn bytes_ns(&self, bytes: u64) -> u64 {
        // A 32-bit bus and registers transfer whole words.
        ((bytes.next_multiple_of(4) + self.overhead_bytes) * self.byte_ps).div_ceil(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_moves_133_mb_a_second_and_bursts_amortise_latency() {
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
