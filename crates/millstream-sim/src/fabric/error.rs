//! Errors of a fabric simulation.

use millstream::ContractError;

use super::parameters::MAX_PORTS;

/// The reason a fabric cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// A contract lacks a field that the discipline needs.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A switch has more than [`MAX_PORTS`] ports.
    #[error("switch {switch} has {ports} ports; a simulated switch has at most {MAX_PORTS}")]
    Ports {
        /// Number of the switch.
        switch: u32,
        /// Number of ports of the switch.
        ports: u16,
    },
    /// More virtual channels than the 64 bits of an arbiter's word.
    #[error("{classes} classes on {layers} layers need more than 64 virtual channels")]
    Channels {
        /// Number of service classes.
        classes: usize,
        /// Number of layers of the routes.
        layers: u8,
    },
    /// Switch latency and link delay are both 0: a packet could leave a switch before it arrived.
    #[error("the switches' latency and the links' delay are both 0; one must be at least 1 ns")]
    NoLatency,
    /// The crossbar is slower than the link, so it cannot keep a transmission fed.
    #[error("a crossbar of {crossbar_bps} bits/s is slower than a link of {link_bps} bits/s")]
    SlowCrossbar {
        /// The crossbar's rate, bits/s.
        crossbar_bps: u64,
        /// The link's rate, bits/s.
        link_bps: u64,
    },
    /// A buffer is smaller than the largest packet, which would block its channel for ever.
    #[error("a buffer of {credits} credits is too small: a packet of {bytes} bytes needs {needed}")]
    SmallBuffer {
        /// The buffer's size, credits.
        credits: u32,
        /// The largest packet, bytes.
        bytes: u32,
        /// The credits that the largest packet needs.
        needed: u32,
    },
    /// Packets wait for one another in a cycle.
    #[error("deadlock at {time_ns} ns: packets wait for one another along {cycle}")]
    Deadlock {
        /// Time of the last event, ns.
        time_ns: u64,
        /// The links of the cycle, or a note that there is none.
        cycle: String,
    },
}
