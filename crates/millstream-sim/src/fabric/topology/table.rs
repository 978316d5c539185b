//! The routing table: switches × destinations, two bytes per entry.

use super::Hop;

/// The bit of an entry that holds the layer; the other bits hold the port.
const LAYER: u16 = 1 << 15;

/// The next hop of each switch for each destination.
#[derive(Clone, Debug)]
pub(super) struct Table {
    switches: u32,
    end_points: u32,
    /// Entries, row by row. A row belongs to a switch, so lookups of one switch are close in
    /// memory.
    entries: Vec<u16>,
}

impl Table {
    /// Creates a table in which every hop uses port 0 and layer 0.
    pub(super) fn new(switches: u32, end_points: u32) -> Table {
        let entries = vec![0; switches as usize * end_points as usize];
        Table { switches, end_points, entries }
    }

    /// Creates a table from a rule that returns port and layer for a switch and a destination.
    pub(super) fn by_rule(
        switches: u32,
        end_points: u32,
        mut rule: impl FnMut(u32, u32) -> (u32, u8),
    ) -> Table {
        let mut table = Table::new(switches, end_points);
        for switch in 0..switches {
            for destination in 0..end_points {
                let (port, layer) = rule(switch, destination);
                table.set(switch, destination, port, layer);
            }
        }
        table
    }

    pub(super) fn set(&mut self, switch: u32, destination: u32, port: u32, layer: u8) {
        let place = self.place(switch, destination);
        let port = u16::try_from(port).expect("a switch has at most 256 ports");
        self.entries[place] = if layer == 0 { port } else { port | LAYER };
    }

    #[inline]
    pub(super) fn hop(&self, switch: u32, destination: u32) -> Hop {
        let entry = self.entries[self.place(switch, destination)];
        Hop { port: entry & !LAYER, layer: u8::from(entry & LAYER != 0) }
    }

    pub(super) fn clear_layers(&mut self) {
        for entry in &mut self.entries {
            *entry &= !LAYER;
        }
    }

    /// Returns the number of layers in use: 2 if any hop uses layer 1, else 1.
    pub(super) fn layers(&self) -> u8 {
        if self.entries.iter().any(|entry| entry & LAYER != 0) { 2 } else { 1 }
    }

    pub(super) fn switches(&self) -> u32 {
        self.switches
    }

    pub(super) fn end_points(&self) -> u32 {
        self.end_points
    }

    #[inline]
    fn place(&self, switch: u32, destination: u32) -> usize {
        // An index past the row would read the next switch's entries.
        assert!(destination < self.end_points, "end-point {destination} is out of range");
        switch as usize * self.end_points as usize + destination as usize
    }
}
