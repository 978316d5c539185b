//! Errors of a topology's parameters.

use super::Node;
use thiserror::Error;

/// The reason a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// A parameter is out of its range.
    #[error("{parameter} is {value}; must be {allowed}")]
    Parameter {
        /// Name of the parameter.
        parameter: &'static str,
        /// Value of the parameter.
        value: u64,
        /// Allowed range of the parameter.
        allowed: &'static str,
    },
    /// The parameters are in range individually, but give a network that is too large.
    #[error("{parameters} give {count} {what}; at most {max} are allowed")]
    TooLarge {
        /// Names and values of the parameters.
        parameters: String,
        /// The quantity that exceeds its bound.
        what: &'static str,
        /// Value of that quantity.
        count: u64,
        /// Maximum of that quantity.
        max: u64,
    },
    /// A cable ends at a node that does not exist.
    #[error(
        "cable {cable} ends at {node}; there are {end_points} end-points and {switches} switches, \
         each numbered from 0"
    )]
    UnknownNode {
        /// Position of the cable in the list, from 0.
        cable: usize,
        /// The unknown node.
        node: Node,
        /// Number of end-points.
        end_points: u32,
        /// Number of switches.
        switches: u32,
    },
    /// A cable ends at a port that its node does not have.
    #[error("cable {cable} ends at port {port} of {node}, which has {ports} ports numbered from 0")]
    UnknownPort {
        /// Position of the cable in the list, from 0.
        cable: usize,
        /// The node at that end of the cable.
        node: Node,
        /// The unknown port.
        port: u16,
        /// Number of ports of the node.
        ports: u16,
    },
    /// Two cables end at one port.
    #[error(
        "cable {cable} ends at port {port} of {node}, which already has a cable; a port takes one"
    )]
    PortTaken {
        /// Position of the second cable in the list, from 0.
        cable: usize,
        /// The node with the shared port.
        node: Node,
        /// The shared port.
        port: u16,
    },
    /// A cable joins two end-points, or a switch to itself.
    #[error("cable {cable} joins {from} to {to}; a cable must join a switch to another node")]
    InvalidEnds {
        /// Position of the cable in the list, from 0.
        cable: usize,
        /// One end of the cable.
        from: Node,
        /// The other end of the cable.
        to: Node,
    },
    /// An end-point has no cable to a switch.
    #[error(
        "end-point {end_point} has no cable; each end-point needs one, from its port 0 to a switch"
    )]
    NoCable {
        /// The end-point without a cable.
        end_point: u32,
    },
    /// The network is not connected.
    #[error("switch {switch} is not connected to switch 0; every switch must be reachable")]
    NotConnected {
        /// The lowest switch that is not connected to switch 0.
        switch: u32,
    },
}
