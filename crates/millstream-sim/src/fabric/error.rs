//! Why a fabric cannot be simulated.

use millstream::ContractError;

use super::parameters::PORTS_MOST;

/// Why a fabric cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// A contract lacks what the discipline needs.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A switch is too large.
    #[error("switch {switch} has {ports} ports; a simulated switch has at most {PORTS_MOST}")]
    Ports {
        /// The switch.
        switch: u32,
        /// Its ports.
        ports: u16,
    },
    /// More channels than an arbiter's word holds.
    #[error("{classes} classes on {layers} layers are more than 64 virtual channels")]
    Channels {
        /// Service classes.
        classes: usize,
        /// Layers of the routes.
        layers: u8,
    },
    /// A packet could leave a switch before it came.
    #[error("latency of the switches and delay of the links are both 0; one must be 1 ns at least")]
    NoLatency,
    /// The crossbar could not keep a transmission fed.
    #[error("a crossbar of {crossbar_bps} bits/s is slower than a link of {link_bps} bits/s")]
    SlowCrossbar {
        /// The crossbar's rate, bits/s.
        crossbar_bps: u64,
        /// The link's rate, bits/s.
        link_bps: u64,
    },
    /// A buffer that the largest packet does not fit into would stop its channel for ever.
    #[error("a buffer of {credits} credits holds no packet of {bytes} bytes, which needs {needed}")]
    SmallBuffer {
        /// The buffer's size, credits.
        credits: u32,
        /// The largest packet, bytes.
        bytes: u32,
        /// The credits that it needs.
        needed: u32,
    },
    /// Packets wait for one another in a ring.
    #[error("deadlock at {time_ns} ns: packets wait for one another along {cycle}")]
    Deadlock {
        /// When nothing moved any more, ns.
        time_ns: u64,
        /// The links of the ring, or what is known of it.
        cycle: String,
    },
}
