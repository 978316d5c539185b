//! The scenario and router files: parsing, validation and explanation.
//!
//! The crate defines every key that a user can write. A file passes these stages:
//!
//! ```text
//! text ─ file (serde types, spans) ─ validate ─> Scenario ─ feeds ─> arrivals
//!                                        └─> ScenarioError: line, caret, suggestion
//! ```
//!
//! The entry points are [`Scenario::load`] and [`Scenario::parse`]; every [`Scenario`] value can
//! be run. [`schema`] returns the file format as a JSON Schema, derived from the types that parse
//! it.

mod dscp;
mod error;
mod explain;
mod fabric;
mod feeds;
mod file;
mod flow_hash;
mod mark;
mod media;
mod network;
mod origin;
mod overhead;
mod parse;
mod router;
mod scenario;
mod source;
mod units;
mod validate;

pub use dscp::CodePoints;
pub use error::{Problem, ScenarioError};
#[doc(hidden)]
pub use explain::explain_assuming;
pub use explain::{
    Answer, Explanation, HopBounds, PremiseCheck, StreamBounds, StreamExplanation, Verdict,
    explain, guarantees_shares,
};
pub use fabric::{CableEnd, Fabric, FabricCrossbar, FabricTopology};
pub use feeds::{CaptureInput, Input, open};
pub use file::schema;
pub use flow_hash::{FlowFields, FlowHasher};
pub use mark::Mark;
pub use media::{
    Allowance, Cluster, FramePath, Hook, HookEvent, Instruction, Media, Placement, Recording, Tls,
};
pub use millstream_traffic::{Filter, FilterError, FilterInstruction};
pub use network::{
    Adaptive, CongestionControl, Direction, Echo, Hop, LossRecovery, Network, Tcp, Web,
};
pub use origin::is_origin;
pub use overhead::parse_overhead;
pub use router::{
    FlowBy, HostBy, HostPattern, InputMode, InterfaceIo, MAX_IPV6_ADDRESSES, Match, NextHop,
    PathAction, PathExtension, PathProxy, PcpSource, PortAutorate, PortForward, PortKind, PortNat,
    ProxyKind, Reservation, Route, RouterPath, RouterPort, RouterScenario, SHORTEST_PACKET_BYTES,
    router_schema,
};
pub use scenario::{
    Class, EndSystem, Link, LinkCredits, Scenario, SchedulerConfig, Stream, StreamMatch,
    max_file_bytes,
};
pub use source::{
    Live, LiveAudio, LiveAudioCodec, LivePath, OnDemand, Pace, Source, SourceKind, SrtInput,
    UdpInput, VideoInput, VideoPayloadFormat,
};
pub use units::{
    ReservationText, parse_duration_ns, parse_rate_bps, parse_reservation, parse_size_bytes,
};

/// Deprecated alias of [`MAX_IPV6_ADDRESSES`].
#[deprecated(note = "renamed to `MAX_IPV6_ADDRESSES`")]
pub const MOST_IPV6: usize = MAX_IPV6_ADDRESSES;

/// Deprecated alias of [`StreamBounds`].
#[deprecated(note = "renamed to `StreamBounds`")]
pub type Promise = StreamBounds;

/// Deprecated alias of [`SchedulerConfig`].
#[deprecated(note = "renamed to `SchedulerConfig`")]
pub type Sharing = SchedulerConfig;

/// Deprecated alias of [`VideoPayloadFormat`].
#[deprecated(note = "renamed to `VideoPayloadFormat`")]
pub type VideoCarrier = VideoPayloadFormat;

/// Deprecated alias of [`max_file_bytes`].
#[deprecated(note = "renamed to `max_file_bytes`")]
#[must_use]
pub const fn largest_file_bytes() -> u64 {
    max_file_bytes()
}
