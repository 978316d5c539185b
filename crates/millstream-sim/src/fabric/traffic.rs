//! The traffic of a switched network: what each end-point's application hands to its interface.
//!
//! ```text
//! ClassTraffic ── Admission::admit ──> Admitted      who talks to whom, once for the network
//!      │                                   │
//!      └──────> EndPointTraffic::new <─────┘         one for each end-point
//!                      │
//!                      └──> Injection, Injection, …  in time order
//! ```
//!
//! Source: *Evaluating several implementations for the AS minimum bandwidth egress link scheduler*
//! (Martínez, Alfaro and Sánchez), section VI-B and Table II, which [`table_ii`] builds. What that
//! paper leaves open, and what is done here:
//!
//! | open | here |
//! |---|---|
//! | shapes of the two Pareto laws | 1.4 on, 1.2 off ([`millstream_traffic::OnOff`]) |
//! | sources of a class, their peak rate | [`SOURCES`] of the link's rate ([`PEAK_SHARE`]) |
//! | sizes up to a maximum | control: [`CONTROL_BYTES`]; others: Pareto ([`PacketBytes::up_to`]) |
//! | where a burst goes | one end-point for a whole on period, uniform over the others |
//! | the video traces | a model of one ([`millstream_traffic::mpeg::Mpeg4Model`]) |
//! | the ends of connections | uniform over the other end-points ([`Admission`]) |
//! | the order of admission | all end-points and classes keep pace ([`Admission`]) |
//! | when connections begin | all run from before time 0, each at a random phase |
//!
//! Every source runs as seen at a random instant, so that a class has its mean rate from time 0 on.
//! Every connection, and every class without connections, has its own sequence of random numbers
//! at each end-point: traffic changes only with the seed, with its own class's description, and
//! with the connections that admission refused it.

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

/// One packet that an end-point's application hands to its network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// When, ns.
    pub time_ns: u64,
    /// Index of its service class.
    pub class: u8,
    /// The end-point it is for, never the sender.
    pub destination: u32,
    /// Its bytes, headers included.
    pub bytes: u32,
    /// Its connection's number within the end-point; see [`EndPointTraffic::connections`].
    pub connection: u32,
}

/// What a service class sends from each end-point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassTraffic {
    /// Mean rate of the class as a share of the link's data rate, from 0 on.
    pub load: f64,
    /// What makes up that rate.
    pub kind: Kind,
}

/// How a service class sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Constant-bit-rate connections, each to one destination: packet k of a connection comes at
    /// phase + k × interval, the phase uniform within an interval.
    Connections {
        /// Bytes of each packet, not 0.
        bytes: u32,
        /// Time between packets, ns, not 0.
        interval_ns: u64,
    },
    /// Video connections, each to one destination: frames of the MPEG-4 model, each cut into full
    /// packets and a last one, spread evenly over the frame's time. Time 0 falls inside a frame,
    /// whose earlier packets are left out.
    Video {
        /// Mean rate of a connection, bits/s, not 0.
        mean_rate_bps: u64,
        /// Time between frames, ns, not 0.
        frame_ns: u64,
        /// Bytes of the largest packet, not 0.
        packet_bytes: u32,
    },
    /// Superposed on/off sources of bounded Pareto periods ([`millstream_traffic::OnOff`]). The
    /// packets of an on period all go to one end-point, drawn uniformly for each period.
    SelfSimilar {
        /// How large packets are.
        packet_bytes: PacketBytes,
        /// How many sources share the load.
        sources: u32,
        /// A source's rate while it is on, as a share of the link's. A load that is not below
        /// `sources` × `peak_share` is cut to about that.
        peak_share: f64,
    },
    /// Poisson arrivals, each to an end-point of its own: the yardstick of queueing theory.
    Poisson {
        /// Bytes of each packet, not 0.
        bytes: u32,
    },
}

impl Kind {
    /// The mean rate in bits/s of one connection; `None` for classes that set up none.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn connection_rate_bps(&self) -> Option<f64> {
        match *self {
            Self::Connections { bytes, interval_ns } => {
                Some(f64::from(bytes.max(1)) * 8e9 / interval_ns.max(1) as f64)
            }
            Self::Video { mean_rate_bps, .. } => Some(mean_rate_bps.max(1) as f64),
            Self::SelfSimilar { .. } | Self::Poisson { .. } => None,
        }
    }
}

/// The traffic of every end-point of `topology`, whose links all have a data rate of `link_bps`,
/// and what was admitted of its connections; as [`Admission::admit`] and [`EndPointTraffic::new`],
/// in order of end-points.
pub fn everywhere(
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
