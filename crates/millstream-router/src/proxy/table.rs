//! Connection table of a proxy, bounded in all and per client, indexed by the tuples of both
//! directions.

use std::collections::HashMap;
use std::net::IpAddr;

use super::segment::Tuple;

/// Connection numbers: free ones, and the index of those in use.
#[derive(Debug)]
pub(super) struct Table {
    free: Vec<u32>,
    numbers: HashMap<Tuple, u32>,
    clients: HashMap<IpAddr, u32>,
    max_per_client: u32,
}

impl Table {
    /// Creates a table for `connections` connections, and `of_client` per client.
    pub(super) fn new(connections: u32, of_client: u32) -> Self {
        let count = connections as usize;
        // Twice the capacity prevents rehashing. Each connection has two tuples.
        Self {
            free: (0..connections).rev().collect(),
            numbers: HashMap::with_capacity(4 * count),
            clients: HashMap::with_capacity(2 * count),
            max_per_client: of_client,
        }
    }

    /// Returns the connection of `tuple`.
    #[inline]
    pub(super) fn find(&self, tuple: &Tuple) -> Option<u32> {
        self.numbers.get(tuple).copied()
    }

    /// Allocates a connection opened by `tuple`; `None` if the table or the client's share is full.
    pub(super) fn open(&mut self, tuple: Tuple) -> Option<u32> {
        let of_client = self.clients.get(&tuple.source.ip()).copied().unwrap_or(0);
        if of_client >= self.max_per_client {
            return None;
        }
        let number = self.free.pop()?;
        *self.clients.entry(tuple.source.ip()).or_default() += 1;
        self.numbers.insert(tuple, number);
        Some(number)
    }

    /// Adds the server's `tuple` to connection `number`; returns `false` if the tuple is in use.
    pub(super) fn join(&mut self, tuple: Tuple, number: u32) -> bool {
        let fits = !self.numbers.contains_key(&tuple);
        if fits {
            self.numbers.insert(tuple, number);
        }
        fits
    }

    /// Uncounts a connection opened by `tuple` from its client. Call once, before
    /// [`close`](Self::close).
    pub(super) fn release_client(&mut self, tuple: &Tuple) {
        if let Some(count) = self.clients.get_mut(&tuple.source.ip()) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&tuple.source.ip());
            }
        }
    }

    /// Frees connection `number`, opened by `tuple` and with the server's tuple `other`.
    pub(super) fn close(&mut self, number: u32, tuple: &Tuple, other: Option<&Tuple>) {
        self.numbers.remove(tuple);
        if let Some(other) = other {
            self.numbers.remove(other);
        }
        self.free.push(number);
    }

    /// Returns whether no number is free.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Sets the connections per client, at most.
    pub(super) fn set_max_per_client(&mut self, of_client: u32) {
        self.max_per_client = of_client;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn tuple(client: u8, port: u16) -> Tuple {
        Tuple {
            source: SocketAddr::from(([10, 1, 0, client], port)),
            destination: SocketAddr::from(([10, 2, 0, 9], 80)),
        }
    }

    #[test]
    fn connections_are_bounded_in_all_and_per_client() {
        let mut table = Table::new(5, 3);
        let first: Vec<_> = (0..5).filter_map(|port| table.open(tuple(1, port))).collect();
        assert_eq!(first, [0, 1, 2]);
        assert!(table.join(tuple(1, 0).reversed(), 0));
        assert!(!table.join(tuple(1, 1), 0), "another connection has it");
        assert_eq!(table.find(&tuple(1, 0).reversed()), Some(0));
        assert_eq!(table.open(tuple(2, 0)).zip(table.open(tuple(3, 0))), Some((3, 4)));
        assert_eq!(table.open(tuple(4, 0)), None);
        assert!(table.is_full());
        table.release_client(&tuple(1, 0));
        table.close(0, &tuple(1, 0), Some(&tuple(1, 0).reversed()));
        assert_eq!(table.find(&tuple(1, 0)).or(table.find(&tuple(1, 0).reversed())), None);
        assert_eq!(table.open(tuple(1, 9)), Some(0));
        for (number, of) in [(0, tuple(1, 9)), (1, tuple(1, 1)), (2, tuple(1, 2))] {
            table.release_client(&of);
            table.close(number, &of, None);
        }
        assert!(table.clients.keys().all(|client| *client != tuple(1, 0).source.ip()));
    }
}
