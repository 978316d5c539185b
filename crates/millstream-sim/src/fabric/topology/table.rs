//! The routing table: switches × destinations, two bytes per entry. That of a k-ary n-tree is
//! computed instead: in a large network, an entry of a table is a cache miss for each hop.

use super::Hop;

/// The bit of an entry that holds the layer; the other bits hold the port.
const LAYER: u16 = 1 << 15;

/// The next hop of each switch for each destination.
#[derive(Clone, Debug)]
pub(super) struct Table {
    switches: u32,
    end_points: u32,
    routes: Routes,
}

#[derive(Clone, Debug)]
enum Routes {
    /// Entries, row by row. A row belongs to a switch, so lookups of one switch are close in
    /// memory.
    Listed(Vec<u16>),
    ByDigits(Digits),
}

/// The d-mod-k routes of a k-ary n-tree. Its switches are numbered level by level.
#[derive(Clone, Debug)]
struct Digits {
    arity: Divisor,
    /// Switches of a level.
    across: Divisor,
    /// Weight of the digit of each level.
    weights: Vec<Divisor>,
}

impl Digits {
    /// Returns the output port of a switch: down if the destination is below it, otherwise up.
    #[inline]
    fn port(&self, switch: u32, destination: u32) -> u32 {
        let level = self.across.divide(switch);
        let place = switch - level * self.across.divisor;
        let weight = &self.weights[level as usize];
        let rest = weight.divide(destination);
        let above = self.arity.divide(rest);
        let digit = rest - above * self.arity.divisor;
        if weight.divide(place) == above { digit } else { self.arity.divisor + digit }
    }
}

/// A divisor of numbers up to 65,535, as a multiplication.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    divisor: u32,
    /// 2³² over the divisor, rounded up. The error of a quotient is below 1 over the divisor, since
    /// divisor and number are below 2¹⁶.
    reciprocal: u64,
}

impl Divisor {
    fn new(divisor: u32) -> Self {
        assert!((1..1 << 16).contains(&divisor), "a divisor of {divisor}");
        Self { divisor, reciprocal: (1_u64 << 32).div_ceil(u64::from(divisor)) }
    }

    #[allow(clippy::cast_possible_truncation)]
    #[inline]
    fn divide(self, number: u32) -> u32 {
        debug_assert!(number < 1 << 16, "{number} is not below 65,536");
        ((u64::from(number) * self.reciprocal) >> 32) as u32
    }
}

impl Table {
    /// Creates a table in which every hop uses port 0 and layer 0.
    pub(super) fn new(switches: u32, end_points: u32) -> Table {
        let entries = vec![0; switches as usize * end_points as usize];
        Table { switches, end_points, routes: Routes::Listed(entries) }
    }

    /// Creates the d-mod-k routes of a k-ary n-tree with `arity`^`levels` end-points and
    /// `arity`^(`levels` − 1) switches at each level.
    pub(super) fn by_digits(arity: u32, levels: u32) -> Table {
        let across = arity.pow(levels - 1);
        let digits = Digits {
            arity: Divisor::new(arity),
            across: Divisor::new(across),
            weights: (0..levels).map(|level| Divisor::new(arity.pow(level))).collect(),
        };
        Table {
            switches: across * levels,
            end_points: across * arity,
            routes: Routes::ByDigits(digits),
        }
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
        let Routes::Listed(entries) = &mut self.routes else {
            unreachable!("computed routes are not set");
        };
        entries[place] = if layer == 0 { port } else { port | LAYER };
    }

    #[allow(clippy::cast_possible_truncation)]
    #[inline]
    pub(super) fn hop(&self, switch: u32, destination: u32) -> Hop {
        let place = self.place(switch, destination);
        match &self.routes {
            Routes::Listed(entries) => {
                let entry = entries[place];
                Hop { port: entry & !LAYER, layer: u8::from(entry & LAYER != 0) }
            }
            // A switch has at most 256 ports.
            Routes::ByDigits(digits) => {
                Hop { port: digits.port(switch, destination) as u16, layer: 0 }
            }
        }
    }

    pub(super) fn clear_layers(&mut self) {
        if let Routes::Listed(entries) = &mut self.routes {
            entries.iter_mut().for_each(|entry| *entry &= !LAYER);
        }
    }

    /// Returns the number of layers in use: 2 if any hop uses layer 1, else 1.
    pub(super) fn layers(&self) -> u8 {
        let Routes::Listed(entries) = &self.routes else { return 1 };
        if entries.iter().any(|entry| entry & LAYER != 0) { 2 } else { 1 }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_exact() {
        for divisor in (1..=300).chain([1 << 14, 12_345, 65_535]) {
            for number in (0..1 << 16).step_by(if divisor < 300 { 1 } else { 7 }) {
                assert_eq!(Divisor::new(divisor).divide(number), number / divisor);
            }
        }
    }

    #[test]
    fn digits_route_by_the_rule_of_trees() {
        for (arity, levels) in [(2, 1), (2, 5), (3, 4), (4, 3), (7, 3), (128, 2), (2, 12)] {
            let table = Table::by_digits(arity, levels);
            let across = arity.pow(levels - 1);
            for switch in (0..table.switches()).step_by(5) {
                let (level, place) = (switch / across, switch % across);
                for destination in (0..table.end_points()).step_by(3) {
                    let weight = arity.pow(level);
                    let digit = destination / weight % arity;
                    let is_below = place / weight == destination / weight / arity;
                    let port = if is_below { digit } else { arity + digit };
                    assert_eq!(u32::from(table.hop(switch, destination).port), port);
                }
            }
        }
    }
}
