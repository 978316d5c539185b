//! Network topologies: switches, links, and the route of every packet.
//!
//! ```text
//! end-point ── injection link ──> switch ── links ──> switch ── last link ──> end-point
//! ```
//!
//! Routes are deterministic and depend on the destination only. At each switch a table names one
//! output port per destination, and the virtual layer to use on the link behind it. This module
//! holds only the graph and its routes; it simulates nothing.
//!
//! | generator | network | routing |
//! |---|---|---|
//! | [`folded_shuffle`] | k-ary n-tree | d-mod-k |
//! | [`shuffle`] | omega network, one-way | by the destination's digits |
//! | [`fat_tree`] | three-level data-centre fat tree | d-mod-k |
//! | [`mesh`], [`torus`] | grid of any number of dimensions | dimension order |
//! | [`dragonfly`] | fully connected groups | minimal: local, global, local |
//! | [`custom`] | any connected network | up\*/down\* |
//!
//! None of them can deadlock. [`Topology::dependency_cycle`] proves it by theorem 1 of Dally and
//! Seitz, *Deadlock-free message routing in multiprocessor interconnection networks* (IEEE
//! Transactions on Computers, 1987).

mod builder;
mod custom;
mod dependency;
mod dragonfly;
mod error;
mod grid;
mod omega;
mod table;
mod tree;

use std::fmt;
use std::iter;

pub use builder::{MAX_END_POINTS, MAX_PORTS, MAX_ROUTES, MAX_SWITCHES};
pub use custom::{Cable, custom};
pub use dragonfly::dragonfly;
pub use error::TopologyError;
pub use grid::{mesh, torus};
pub use omega::shuffle;
pub use tree::{fat_tree, folded_shuffle};

use table::Table;

/// Deprecated alias of [`MAX_END_POINTS`].
#[deprecated(note = "renamed to `MAX_END_POINTS`")]
pub const END_POINTS_MOST: u32 = MAX_END_POINTS;

/// Deprecated alias of [`MAX_PORTS`].
#[deprecated(note = "renamed to `MAX_PORTS`")]
pub const PORTS_MOST: u16 = MAX_PORTS;

/// Deprecated alias of [`MAX_ROUTES`].
#[deprecated(note = "renamed to `MAX_ROUTES`")]
pub const ROUTES_MOST: u64 = MAX_ROUTES;

/// Deprecated alias of [`MAX_SWITCHES`].
#[deprecated(note = "renamed to `MAX_SWITCHES`")]
pub const SWITCHES_MOST: u32 = MAX_SWITCHES;

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A source and destination of packets. It has one port, number 0.
    EndPoint(u32),
    /// A switch, which forwards packets.
    Switch(u32),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::EndPoint(number) => write!(f, "end-point {number}"),
            Node::Switch(number) => write!(f, "switch {number}"),
        }
    }
}

/// A one-way link. A bidirectional cable consists of two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node that sends into the link.
    pub from: Node,
    /// The output port of `from`.
    pub from_port: u16,
    /// The node that receives from the link.
    pub to: Node,
    /// The input port of `to`.
    pub to_port: u16,
}

/// The next hop of a packet at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The output port of the switch.
    pub port: u16,
    /// The virtual layer that the packet uses on the link behind that port, from 0. A link to an
    /// end-point always uses layer 0.
    pub layer: u8,
}

/// A network of end-points and switches joined by one-way links, and the route of every packet.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Number of ports of each switch.
    ports: Vec<u16>,
    links: Vec<Link>,
    /// The link out of each end-point.
    injection: Vec<u32>,
    /// Index of each switch's first port in `outputs`.
    first_output: Vec<usize>,
    /// The link out of each port of each switch, or [`builder::NO_LINK`].
    outputs: Vec<u32>,
    table: Table,
    layers: u8,
    end_point_positions: Vec<(u32, u32)>,
    switch_positions: Vec<(u32, u32)>,
}

impl Topology {
    /// Returns the number of end-points; they are numbered from 0.
    pub fn end_points(&self) -> u32 {
        self.table.end_points()
    }

    /// Returns the number of switches; they are numbered from 0.
    pub fn switches(&self) -> u32 {
        self.table.switches()
    }

    /// Returns the number of ports of a switch, with and without a link; they are numbered from 0.
    ///
    /// # Panics
    /// Panics if `switch` is out of range.
    pub fn ports(&self, switch: u32) -> u16 {
        self.ports[switch as usize]
    }

    /// Returns all links; each is one-way.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the link on which an end-point's packets enter the network.
    ///
    /// The result is an index in [`links`](Self::links). The link uses layer 0.
    ///
    /// # Panics
    /// Panics if `end_point` is out of range.
    #[inline]
    pub fn injection_link(&self, end_point: u32) -> usize {
        self.injection[end_point as usize] as usize
    }

    /// Returns the link out of a switch's port, as an index in [`links`](Self::links).
    ///
    /// Returns `None` if the port has no cable.
    ///
    /// # Panics
    /// Panics if `switch` or `port` is out of range.
    #[inline]
    pub fn output_link(&self, switch: u32, port: u16) -> Option<usize> {
        assert!(port < self.ports[switch as usize], "switch {switch} has no port {port}");
        let link = self.outputs[self.first_output[switch as usize] + usize::from(port)];
        (link != builder::NO_LINK).then_some(link as usize)
    }

    /// Returns the next hop of packets for a destination at a switch.
    ///
    /// In a one-way network, a switch may be on no route to a destination; the result is then
    /// meaningless.
    ///
    /// # Panics
    /// Panics if `switch` or `destination` is out of range.
    #[inline]
    pub fn hop(&self, switch: u32, destination: u32) -> Hop {
        self.table.hop(switch, destination)
    }

    /// Returns the number of virtual layers that the routes use: 1 or 2.
    pub fn layers(&self) -> u8 {
        self.layers
    }

    /// Returns the links of a packet's path, as indices in [`links`](Self::links).
    ///
    /// The path runs from the injection link to the link that ends at the destination. The path
    /// from an end-point to itself passes its switch, or the whole network if that is one-way.
    ///
    /// # Panics
    /// Panics if `source` or `destination` is out of range.
    pub fn path(&self, source: u32, destination: u32) -> impl Iterator<Item = usize> {
        iter::successors(Some(self.injection_link(source)), move |&link| {
            match self.links[link].to {
                Node::Switch(switch) => {
                    self.output_link(switch, self.hop(switch, destination).port)
                }
                Node::EndPoint(_) => None,
            }
        })
    }

    /// Returns this network and its routes with all packets on layer 0.
    ///
    /// The result shows the deadlocks that the second layer prevents.
    pub fn on_one_layer(mut self) -> Topology {
        self.table.clear_layers();
        self.layers = 1;
        self
    }

    /// Returns a cycle in the channel-dependency graph, as links with their layers.
    ///
    /// Links are indices in [`links`](Self::links). Some packet holds each link while it waits for
    /// the next; the last waits for the first. `None` means that the routes are free of deadlock
    /// (Dally and Seitz 1987, theorem 1).
    pub fn dependency_cycle(&self) -> Option<Vec<(usize, u8)>> {
        dependency::cycle(self)
    }

    /// Returns the position of a node in a drawing, as column and row of a grid.
    ///
    /// Both count from 0; row 0 is at the top. No two nodes share a position. Trees and custom
    /// networks have their end-points at the bottom and the root at the top. An omega network reads
    /// from left to right. A grid is drawn as a grid; a dragonfly has a row for each group.
    ///
    /// # Panics
    /// Panics if `node` is out of range.
    pub fn position(&self, node: Node) -> (u32, u32) {
        match node {
            Node::EndPoint(number) => self.end_point_positions[number as usize],
            Node::Switch(number) => self.switch_positions[number as usize],
        }
    }
}
