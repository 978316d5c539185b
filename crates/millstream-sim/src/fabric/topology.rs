//! Which switches there are, how they are joined, and the way of every packet.
//!
//! ```text
//! end-point ── injection link ──> switch ── links ──> switch ── last link ──> end-point
//! ```
//!
//! Routes are deterministic and by destination: at each switch a table names, for every
//! destination, one output port and the virtual layer that is used on the link behind it. What is
//! here is a graph and its routes; nothing moves.
//!
//! | generator | network | routing |
//! |---|---|---|
//! | [`folded_shuffle`] | k-ary n-tree | d-mod-k |
//! | [`shuffle`] | omega network, one-way | by the destination's digits |
//! | [`fat_tree`] | three-level data-centre fat tree | d-mod-k |
//! | [`mesh`], [`torus`] | grid of any number of dimensions | dimension order |
//! | [`dragonfly`] | groups, all joined to all | minimal: local, global, local |
//! | [`custom`] | any connected network | up\*/down\* |
//!
//! None of them can deadlock: [`Topology::dependency_cycle`] is the proof, by the theorem of
//! Dally and Seitz, *Deadlock-free message routing in multiprocessor interconnection networks*
//! (IEEE Transactions on Computers, 1987), theorem 1.

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

pub use builder::{END_POINTS_MOST, PORTS_MOST, ROUTES_MOST, SWITCHES_MOST};
pub use custom::{Cable, custom};
pub use dragonfly::dragonfly;
pub use error::TopologyError;
pub use grid::{mesh, torus};
pub use omega::shuffle;
pub use tree::{fat_tree, folded_shuffle};

use table::Table;

/// What a link begins or ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A source and destination of packets. It has one port, number 0.
    EndPoint(u32),
    /// Passes packets on.
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

/// A one-way link. A cable that carries packets both ways is two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where packets enter the link.
    pub from: Node,
    /// The output port of `from`.
    pub from_port: u16,
    /// Where packets leave the link.
    pub to: Node,
    /// The input port of `to`.
    pub to_port: u16,
}

/// Where a switch sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The output port of the switch.
    pub port: u16,
    /// The virtual layer that the packet uses on the link behind that port, from 0; a link to an
    /// end-point is used on layer 0.
    pub layer: u8,
}

/// A network of end-points and switches joined by one-way links, and the route of every packet.
#[derive(Clone, Debug)]
pub struct Topology {
    /// How many ports each switch has.
    ports: Vec<u16>,
    links: Vec<Link>,
    /// The link out of each end-point.
    injection: Vec<u32>,
    /// Where each switch's ports begin in `outputs`.
    first_output: Vec<usize>,
    /// The link out of each port of each switch, or [`builder::NO_LINK`].
    outputs: Vec<u32>,
    table: Table,
    layers: u8,
    end_point_positions: Vec<(u32, u32)>,
    switch_positions: Vec<(u32, u32)>,
}

impl Topology {
    /// How many end-points there are; they are numbered from 0.
    pub fn end_points(&self) -> u32 {
        self.table.end_points()
    }

    /// How many switches there are; they are numbered from 0.
    pub fn switches(&self) -> u32 {
        self.table.switches()
    }

    /// How many ports a switch has, with and without a link; they are numbered from 0.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn ports(&self, switch: u32) -> u16 {
        self.ports[switch as usize]
    }

    /// Every link, each one-way.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The link by which an end-point's packets enter the network, as an index in
    /// [`links`](Self::links). It is used on layer 0.
    ///
    /// # Panics
    /// If there is no such end-point.
    #[inline]
    pub fn injection_link(&self, end_point: u32) -> usize {
        self.injection[end_point as usize] as usize
    }

    /// The link out of a switch's port, as an index in [`links`](Self::links); `None` if nothing is
    /// plugged in there.
    ///
    /// # Panics
    /// If there is no such switch or port.
    #[inline]
    pub fn output_link(&self, switch: u32, port: u16) -> Option<usize> {
        assert!(port < self.ports[switch as usize], "switch {switch} has no port {port}");
        let link = self.outputs[self.first_output[switch as usize] + usize::from(port)];
        (link != builder::NO_LINK).then_some(link as usize)
    }

    /// Where a switch sends packets for a destination. In a one-way network some switches are on no
    /// route to some destinations; what they answer is meaningless.
    ///
    /// # Panics
    /// If there is no such switch or destination.
    #[inline]
    pub fn hop(&self, switch: u32, destination: u32) -> Hop {
        self.table.hop(switch, destination)
    }

    /// How many virtual layers the routes use on some link: 1, or 2.
    pub fn layers(&self) -> u8 {
        self.layers
    }

    /// The links that a packet takes, as indices in [`links`](Self::links), from the injection link
    /// to the one that ends at the destination. From an end-point to itself it is by way of its
    /// switch, or of the network if that is one-way.
    ///
    /// # Panics
    /// If there is no such source or destination.
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

    /// The same network and routes with all packets on layer 0: what the second layer is there for.
    pub fn on_one_layer(mut self) -> Topology {
        self.table.forget_layers();
        self.layers = 1;
        self
    }

    /// A cycle in the channel-dependency graph, as links (indices in [`links`](Self::links)) with
    /// their layers, each of which some packet holds while it waits for the next, the last for the
    /// first. `None` if there is none: then the routes are free of deadlock (Dally and Seitz 1987,
    /// theorem 1).
    pub fn dependency_cycle(&self) -> Option<Vec<(usize, u8)>> {
        dependency::cycle(self)
    }

    /// Where to draw a node, as column and row of a grid, both from 0, row 0 at the top. No two
    /// nodes share a place. Trees and custom networks stand on their end-points, the root above;
    /// an omega network reads from left to right; a grid is a grid; a dragonfly has a row for each
    /// group.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn position(&self, node: Node) -> (u32, u32) {
        match node {
            Node::EndPoint(number) => self.end_point_positions[number as usize],
            Node::Switch(number) => self.switch_positions[number as usize],
        }
    }
}
