//! Construction of a [`Topology`]: checks its size, adds links, then sets routes.

use super::table::Table;
use super::{Link, Node, Topology, TopologyError};

/// The maximum number of end-points of a network.
pub const MAX_END_POINTS: u32 = 16_384;
/// The maximum number of switches of a network.
pub const MAX_SWITCHES: u32 = 65_536;
/// The maximum number of ports of a switch.
pub const MAX_PORTS: u16 = 256;
/// The maximum number of routes, switches × end-points, of a network; each takes two bytes.
pub const MAX_ROUTES: u64 = 1 << 29;

/// The index of a port without a link.
pub(super) const NO_LINK: u32 = u32::MAX;

/// The size of a network before it is built.
pub(super) struct Size {
    pub(super) end_points: u64,
    pub(super) switches: u64,
    /// Number of ports of the switch with the most ports.
    pub(super) ports: u64,
}

impl Size {
    /// Returns the number of end-points and switches if all sizes are within bounds.
    ///
    /// `parameters` formats the generator's parameters for the error.
    pub(super) fn check(
        &self,
        parameters: impl FnOnce() -> String,
    ) -> Result<(u32, u32), TopologyError> {
        let routes = self.end_points.saturating_mul(self.switches);
        let bounds = [
            ("end-points", self.end_points, u64::from(MAX_END_POINTS)),
            ("switches", self.switches, u64::from(MAX_SWITCHES)),
            ("ports per switch", self.ports, u64::from(MAX_PORTS)),
            ("routes (switches × end-points)", routes, MAX_ROUTES),
        ];
        for (what, count, max) in bounds {
            if count > max {
                return Err(TopologyError::TooLarge { parameters: parameters(), what, count, max });
            }
        }
        let checked = |count| u32::try_from(count).expect("bounds are below 2³²");
        Ok((checked(self.end_points), checked(self.switches)))
    }
}

/// Checks that a parameter is within its range.
pub(super) fn check_range(
    parameter: &'static str,
    value: u32,
    range: std::ops::RangeInclusive<u32>,
    allowed: &'static str,
) -> Result<(), TopologyError> {
    if range.contains(&value) {
        Ok(())
    } else {
        Err(TopologyError::Parameter { parameter, value: u64::from(value), allowed })
    }
}

/// The links of a network under construction.
pub(super) struct Builder {
    ports: Vec<u16>,
    links: Vec<Link>,
    injection: Vec<u32>,
    first_output: Vec<usize>,
    outputs: Vec<u32>,
}

impl Builder {
    /// Creates nodes without links; `ports` is the number of ports of each switch.
    pub(super) fn new(end_points: u32, ports: Vec<u16>) -> Builder {
        let mut outputs = 0;
        let mut first_output = Vec::with_capacity(ports.len());
        for &ports in &ports {
            first_output.push(outputs);
            outputs += usize::from(ports);
        }
        Builder {
            ports,
            links: Vec::new(),
            injection: vec![NO_LINK; end_points as usize],
            first_output,
            outputs: vec![NO_LINK; outputs],
        }
    }

    /// Creates switches with equal numbers of ports.
    pub(super) fn uniform(end_points: u32, switches: u32, ports: u32) -> Builder {
        Builder::new(end_points, vec![port(ports); switches as usize])
    }

    /// Returns the index of the link out of a node's port, [`NO_LINK`] if there is none.
    fn output(&mut self, node: Node, port: u16) -> &mut u32 {
        match node {
            Node::EndPoint(number) => &mut self.injection[number as usize],
            Node::Switch(number) => {
                &mut self.outputs[self.first_output[number as usize] + usize::from(port)]
            }
        }
    }

    /// Returns whether a node's port has no outgoing link.
    pub(super) fn is_free(&mut self, node: Node, port: u16) -> bool {
        *self.output(node, port) == NO_LINK
    }

    /// Adds a one-way link.
    pub(super) fn link(&mut self, from: Node, from_port: u32, to: Node, to_port: u32) {
        let link = Link { from, from_port: port(from_port), to, to_port: port(to_port) };
        let index = u32::try_from(self.links.len()).expect("65,536 switches of 256 ports at most");
        let output = self.output(from, link.from_port);
        debug_assert_eq!(*output, NO_LINK, "{from} has two links at its port {from_port}");
        *output = index;
        self.links.push(link);
    }

    /// Adds a link in each direction.
    pub(super) fn cable(&mut self, one: Node, one_port: u32, other: Node, other_port: u32) {
        self.link(one, one_port, other, other_port);
        self.link(other, other_port, one, one_port);
    }

    /// Adds a link in each direction between an end-point and a switch's port.
    pub(super) fn attach(&mut self, end_point: u32, switch: u32, port: u32) {
        self.cable(Node::EndPoint(end_point), 0, Node::Switch(switch), port);
    }

    /// Returns the finished network with its routes and the drawing position of each node.
    pub(super) fn finish(self, table: Table, position: impl Fn(Node) -> (u32, u32)) -> Topology {
        let end_points = 0..table.end_points();
        let switches = 0..table.switches();
        Topology {
            ports: self.ports,
            links: self.links,
            injection: self.injection,
            first_output: self.first_output,
            outputs: self.outputs,
            layers: table.layers(),
            table,
            end_point_positions: end_points
                .map(|number| position(Node::EndPoint(number)))
                .collect(),
            switch_positions: switches.map(|number| position(Node::Switch(number))).collect(),
        }
    }
}

fn port(number: u32) -> u16 {
    u16::try_from(number).expect("a switch has at most 256 ports")
}
