//! Packets as bytes: headers, checksums, VLAN tags, ARP and neighbour discovery, NAT, segmentation,
//! classification and the FIB. No scheduling, no I/O, no clock of its own.

pub(crate) mod address;
pub(crate) mod checksum;
pub(crate) mod classifier;
pub(crate) mod ecn;
pub(crate) mod fib;
pub(crate) mod filter;
pub(crate) mod flow_cache;
pub(crate) mod flow_hash;
pub(crate) mod forwarder;
pub(crate) mod handshakes;
pub(crate) mod header;
pub(crate) mod icmpv6;
pub(crate) mod ipv4_control;
pub(crate) mod nat;
pub(crate) mod ndp;
pub(crate) mod neighbours;
pub(crate) mod pending_neighbours;
pub(crate) mod pool;
pub(crate) mod round_trips;
pub(crate) mod segmentation;
pub(crate) mod vlan_tag;
