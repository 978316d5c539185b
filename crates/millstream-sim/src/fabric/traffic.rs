//! The traffic of a switched network: the packets of each end-point's application.
//!
//! ```text
//! ClassTraffic ── Admission::admit ──> Admitted      connections, once per network
//!      │                                   │
//!      └──────> EndPointTraffic::new <─────┘         one per end-point
//!                      │
//!                      └──> Injection, Injection, …  in time order
//! ```
//!
//! Source: *Evaluating several implementations for the AS minimum bandwidth egress link scheduler*
//! (Martínez, Alfaro and Sánchez), section VI-B and Table II, which [`table_ii`] builds. This table
//! lists the choices that the paper leaves open and those of this module:
//!
//! | left open by the paper | this module |
//! |---|---|
//! | shapes of the two Pareto distributions | 1.4 on, 1.2 off ([`millstream_traffic::OnOff`]) |
//! | number and peak rate of a class's sources | [`SOURCES`] at the link's rate ([`PEAK_SHARE`]) |
//! | lengths up to a maximum | control: [`CONTROL_BYTES`]; else Pareto ([`PacketBytes::up_to`]) |
//! | destination of a burst | one per on period, uniform over the other end-points |
//! | the video traces | a model of one ([`millstream_traffic::mpeg::Mpeg4Model`]) |
//! | destinations of connections | uniform over the other end-points ([`Admission`]) |
//! | the order of admission | interleaved over end-points and classes ([`Admission`]) |
//! | when connections begin | all run from before time 0, each at a random phase |
//!
//! Every source starts in its steady state, so a class has its mean rate from time 0 on. Every
//! connection, and every class without connections, has its own random sequence at each end-point.
//! A class's traffic therefore changes only with the seed, with the class's own description, and
//! with the connections that admission refused.

mod admission;
mod connections;
mod end_point;
mod self_similar;
mod sequence;
mod table;
mod video;

use super::topology::Topology;

pub use admission::{Admission, Admitted, ClassCount, Reservable};
pub use end_point::EndPointTraffic;
pub use millstream_traffic::PacketBytes;
pub use table::{CONTROL_BYTES, PEAK_SHARE, SOURCES, table_ii};

/// A packet that an end-point's application hands to its network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Time of the injection, ns.
    pub time_ns: u64,
    /// Index of its service class.
    pub class: u8,
    /// Destination end-point, never the sender.
    pub destination: u32,
    /// Length in bytes, headers included.
    pub bytes: u32,
    /// Number of its connection within the end-point; see [`EndPointTraffic::connections`].
    pub connection: u32,
}

/// The traffic of a service class from each end-point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassTraffic {
    /// Mean rate of the class as a share of the link's data rate, 0 or more.
    pub load: f64,
    /// The kind of sources that produce this rate.
    pub kind: Kind,
}

/// The kind of sources of a service class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Constant-bit-rate connections, each to one destination.
    ///
    /// Packet k of a connection arrives at phase + k × interval; the phase is uniform within an
    /// interval.
    Connections {
        /// Bytes of each packet, not 0.
        bytes: u32,
        /// Time between packets, ns, not 0.
        interval_ns: u64,
    },
    /// One constant-bit-rate connection between two end-points, like a virtual link of AFDX.
    ///
    /// Packet k arrives at start + k × interval. The load is that of the end-point that sends.
    VirtualLink {
        /// Bytes of each packet, not 0.
        bytes: u32,
        /// Time between packets, ns, not 0.
        interval_ns: u64,
        /// Time of the first packet, ns.
        start_ns: u64,
        /// The end-point that sends.
        from: u32,
        /// The end-point that receives, another one.
        to: u32,
    },
    /// Video connections, each to one destination, with frames of the MPEG-4 model.
    ///
    /// A frame is cut into full packets and a last one, spread evenly over the frame's time. Time 0
    /// falls inside a frame; the packets before it are left out.
    Video {
        /// Mean rate of a connection, bits/s, not 0.
        mean_rate_bps: u64,
        /// Time between frames, ns, not 0.
        frame_ns: u64,
        /// Bytes of the largest packet, not 0.
        packet_bytes: u32,
    },
    /// Superposed on/off sources of bounded Pareto periods ([`millstream_traffic::OnOff`]).
    ///
    /// All packets of an on period go to one end-point, drawn uniformly for each period.
    SelfSimilar {
        /// Distribution of packet lengths.
        packet_bytes: PacketBytes,
        /// Number of sources that share the load.
        sources: u32,
        /// Rate of a source while it is on, as a share of the link's rate. A load of `sources` ×
        /// `peak_share` or more is limited to about that.
        peak_share: f64,
    },
    /// Poisson arrivals, each to an independently drawn end-point: the model of queueing theory.
    Poisson {
        /// Bytes of each packet, not 0.
        bytes: u32,
    },
}

impl Kind {
    /// Returns the mean rate of one connection, bits/s; `None` for classes without connections.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn connection_rate_bps(&self) -> Option<f64> {
        match *self {
            Self::Connections { bytes, interval_ns }
            | Self::VirtualLink { bytes, interval_ns, .. } => {
                Some(f64::from(bytes.max(1)) * 8e9 / interval_ns.max(1) as f64)
            }
            Self::Video { mean_rate_bps, .. } => Some(mean_rate_bps.max(1) as f64),
            Self::SelfSimilar { .. } | Self::Poisson { .. } => None,
        }
    }
}

/// Creates the traffic of every end-point of `topology`, and the admitted connections.
///
/// All links have a data rate of `link_bps` bits/s. The result is in order of end-points; see
/// [`Admission::admit`] and [`EndPointTraffic::new`].
pub fn end_point_traffic(
    topology: &Topology,
    link_bps: u64,
    reservable: impl Into<Reservable>,
    classes: &[ClassTraffic],
    seed: u64,
    stop_ns: u64,
) -> (Vec<EndPointTraffic>, Admitted) {
    let end_points = topology.end_points();
    let route = |source, destination, path: &mut Vec<usize>| {
        path.extend(topology.path(source, destination));
    };
    let links = topology.links().len();
    let admitted = Admission::admit(end_points, link_bps, reservable, classes, seed, route, links);
    let of = |end_point| {
        EndPointTraffic::new(end_point, end_points, link_bps, classes, &admitted, seed, stop_ns)
    };
    ((0..end_points).map(of).collect(), admitted)
}

/// Deprecated alias of [`end_point_traffic`].
#[deprecated(note = "renamed to `end_point_traffic`")]
pub fn everywhere(
    topology: &Topology,
    link_bps: u64,
    reservable: impl Into<Reservable>,
    classes: &[ClassTraffic],
    seed: u64,
    stop_ns: u64,
) -> (Vec<EndPointTraffic>, Admitted) {
    end_point_traffic(topology, link_bps, reservable, classes, seed, stop_ns)
}
