//! What can be wrong with a network that is asked for.

use super::Node;
use thiserror::Error;

/// Why there is no such network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// A parameter is out of its range.
    #[error("{parameter} is {value}; allowed is {allowed}")]
    Parameter {
        /// Its name.
        parameter: &'static str,
        /// What was given.
        value: u64,
        /// What would be right.
        allowed: &'static str,
    },
    /// The parameters are each in range, but together make a network that is too large.
    #[error("{parameters} make {count} {what}; at most {most} are allowed")]
    TooLarge {
        /// Their names and values.
        parameters: String,
        /// What there is too much of.
        what: &'static str,
        /// How much of it there would be.
        count: u64,
        /// How much is allowed.
        most: u64,
    },
    /// A cable ends at a node that does not exist.
    #[error(
        "cable {cable} ends at {node}; there are {end_points} end-points and {switches} switches, \
         each numbered from 0"
    )]
    UnknownNode {
        /// The cable's place in the list, from 0.
        cable: usize,
        /// The node that it names.
        node: Node,
        /// How many end-points there are.
        end_points: u32,
        /// How many switches there are.
        switches: u32,
    },
    /// A cable ends at a port that its node does not have.
    #[error("cable {cable} ends at port {port} of {node}, which has {ports} ports numbered from 0")]
    UnknownPort {
        /// The cable's place in the list, from 0.
        cable: usize,
        /// The node.
        node: Node,
        /// The port that it names.
        port: u16,
        /// How many ports the node has.
        ports: u16,
    },
    /// Two cables end at one port.
    #[error(
        "cable {cable} ends at port {port} of {node}, which has a cable; allowed is one a port"
    )]
    PortTaken {
        /// The second cable's place in the list, from 0.
        cable: usize,
        /// The node.
        node: Node,
        /// The port.
        port: u16,
    },
    /// A cable joins two end-points, or a switch to itself.
    #[error("cable {cable} joins {from} to {to}; allowed is a switch and another node")]
    Pointless {
        /// The cable's place in the list, from 0.
        cable: usize,
        /// Its one end.
        from: Node,
        /// Its other end.
        to: Node,
    },
    /// An end-point is not joined to any switch.
    #[error(
        "end-point {end_point} has no cable; each end-point needs one, from its port 0 to a switch"
    )]
    NoCable {
        /// The end-point.
        end_point: u32,
    },
    /// The network falls into parts.
    #[error("no cables lead from switch 0 to switch {switch}; every switch must be reached")]
    NotConnected {
        /// The lowest switch that is not reached.
        switch: u32,
    },
}
