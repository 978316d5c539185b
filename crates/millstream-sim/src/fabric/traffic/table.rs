//! The traffic of the paper's Table II.

use super::{ClassTraffic, Kind, PacketBytes};

/// Share of the link that network control injects: Table II, "1 %".
const CONTROL_LOAD: f64 = 0.01;
/// Share of the link that each of voice, video and controlled load injects: Table II, "20.3125 %".
const CONNECTIONS_LOAD: f64 = 0.203_125;
/// Voice packets: section VI-B, "128 bytes for VO traffic" …
const VOICE_BYTES: u32 = 128;
/// … which a 64 kB/s connection (Table II, with kB = 1000 bytes) sends every 2 ms.
const VOICE_INTERVAL_NS: u64 = 2_000_000;
/// The largest packet of Advanced Switching, 34 credits of 64 bytes: section VI-B.
const LARGEST_BYTES: u32 = 2176;
/// 750 kB/s (Table II) in packets of 2,176 bytes: one every 2,901,333⅓ ns.
const CONTROLLED_INTERVAL_NS: u64 = 2_901_333;
/// A video connection's mean rate: Table II, "750 KB/s MPEG-4 traces".
const VIDEO_BPS: u64 = 6_000_000;
/// Section VI-B: "the video frame time (40 ms)".
const FRAME_NS: u64 = 40_000_000;

/// Bytes of a network control packet. The paper says "up to 64"; one size is taken, since all such
/// packets need one credit of 64 bytes.
pub const CONTROL_BYTES: u32 = 64;
/// On/off sources of a self-similar class at an end-point. The paper gives no number.
pub const SOURCES: u32 = 16;
/// Rate of an on/off source while it is on, as a share of the link's: no application hands its
/// interface more than the link takes. The paper gives no number.
pub const PEAK_SHARE: f64 = 1.0;

/// The seven classes NC, VO, VI, CL, EE, BE and BK (indices 0 to 6) at a total offered `load`, as a
/// share of the link's data rate.
///
/// As in the paper, network control (1 %) and the three connection classes (20.3125 % each) inject
/// the same at every load, 61.9375 % in all, and excellent, best and background effort share the
/// rest alike: 2.7 % each at 0.7, where the paper's plots of them begin, and 25.4 % each at 1.381,
/// where its Table II ends. Below 0.619375, where the paper has no point, best effort is silent and
/// the others shrink in proportion, so that the classes always add up to `load`.
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
    // "Up to 2176 bytes", and of bursts "Pareto": from a credit on, with a mean of 171 bytes.
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
