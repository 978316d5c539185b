//! The traffic of the paper's Table II.

use super::{ClassTraffic, Kind, PacketBytes};

/// Share of the link that network control injects: Table II, "1 %".
const CONTROL_LOAD: f64 = 0.01;
/// Share of the link that each of voice, video and controlled load injects: Table II, "20.3125 %".
const CONNECTIONS_LOAD: f64 = 0.203_125;
/// Bytes of a voice packet: section VI-B, "128 bytes for VO traffic".
const VOICE_BYTES: u32 = 128;
/// Interval of the packets of a 64 kB/s voice connection, ns (Table II, with kB = 1000 bytes).
const VOICE_INTERVAL_NS: u64 = 2_000_000;
/// The largest packet of Advanced Switching, 34 credits of 64 bytes: section VI-B.
const LARGEST_BYTES: u32 = 2176;
/// Interval of 2,176-byte packets at 750 kB/s (Table II), ns: 2,901,333⅓ rounded down.
const CONTROLLED_INTERVAL_NS: u64 = 2_901_333;
/// Mean rate of a video connection, bits/s: Table II, "750 KB/s MPEG-4 traces".
const VIDEO_BPS: u64 = 6_000_000;
/// Time between video frames, ns: section VI-B, "the video frame time (40 ms)".
const FRAME_NS: u64 = 40_000_000;

/// Bytes of a network control packet.
///
/// The paper says "up to 64". One size suffices: all such packets need one credit of 64 bytes.
pub const CONTROL_BYTES: u32 = 64;
/// The number of on/off sources of a self-similar class at an end-point; not from the paper.
pub const SOURCES: u32 = 16;
/// Rate of an on/off source while it is on, as a share of the link's rate; not from the paper.
///
/// 1.0, since an application hands its interface no more than the link can carry.
pub const PEAK_SHARE: f64 = 1.0;

/// Returns the seven classes NC, VO, VI, CL, EE, BE and BK (indices 0 to 6) of Table II.
///
/// `load` is the total offered load as a share of the link's data rate. As in the paper, network
/// control (1 %) and the three connection classes (20.3125 % each) inject 61.9375 % in all at every
/// load. Excellent, best and background effort share the rest equally. They get 2.7 % each at 0.7
/// (the first point of the paper's plots) and 25.4 % each at 1.381 (the last of Table II).
///
/// The paper has no point below 0.619375. There best effort sends nothing and the other classes
/// shrink in proportion, so the classes always add up to `load`.
#[must_use]
pub fn table_ii(load: f64) -> Vec<ClassTraffic> {
    let constant = CONTROL_LOAD + 3.0 * CONNECTIONS_LOAD;
    let scale = (load.max(0.0) / constant).min(1.0);
    let best_effort = (load - constant).max(0.0) / 3.0;
    let self_similar = |load, packet_bytes| ClassTraffic {
        load,
        kind: Kind::SelfSimilar { packet_bytes, sources: SOURCES, peak_share: PEAK_SHARE },
    };
    let connections = |kind| ClassTraffic { load: scale * CONNECTIONS_LOAD, kind };
    // "Up to 2176 bytes" and, for bursts, "Pareto": at least one credit, with a mean of 171 bytes.
    let sizes = PacketBytes::up_to(64, Some(LARGEST_BYTES));
    vec![
        self_similar(scale * CONTROL_LOAD, PacketBytes::Fixed(CONTROL_BYTES)),
        connections(Kind::Connections { bytes: VOICE_BYTES, interval_ns: VOICE_INTERVAL_NS }),
        connections(Kind::Video {
            mean_rate_bps: VIDEO_BPS,
            frame_ns: FRAME_NS,
            packet_bytes: LARGEST_BYTES,
        }),
        connections(Kind::Connections {
            bytes: LARGEST_BYTES,
            interval_ns: CONTROLLED_INTERVAL_NS,
        }),
        self_similar(best_effort, sizes),
        self_similar(best_effort, sizes),
        self_similar(best_effort, sizes),
    ]
}
