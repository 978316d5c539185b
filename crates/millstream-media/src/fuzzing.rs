//! Entry points for fuzz targets and tests: an RTSP server without playback, and others.
//!
//! Separate modules hold the server of a cluster, a data plane that takes over shared memory, and
//! orders to the dashboard.

mod hls;
mod orders;
mod recording;
pub(crate) mod rtmp;
mod takeover;
pub(crate) mod transport;
#[cfg(feature = "webrtc")]
mod webrtc;

use millstream_scenario::Scenario;
use millstream_traffic::mpeg::{Codec, VideoPayload};
use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::OnceLock;

use crate::MediaError;
pub use crate::cluster::fuzzing::{Part, cluster, cluster_parts};
use crate::files::library::Library;
use crate::live::publishing::{Publishing, Track};
use crate::payload::mpeg_ts;
use crate::rtsp::access::{Access, AuthState};
use crate::rtsp::authentication::Authenticator;
use crate::rtsp::session::{Sessions, Transport};
use crate::rtsp::{Requester, RtspHandler};
use crate::shared_memory::live_frames::{self, FrameRing};
use crate::shared_memory::region::Region;
use crate::wake_socket::AsWakeSocket;

pub use hls::hls_requests;
pub use orders::orders;
pub use recording::{recorded, recorded_file, recorded_frames};
pub use rtmp::{rtmp, rtmp_publication};
pub use takeover::{Edit, takeover};
pub use transport::{transport_publication, transport_receiver};
#[cfg(feature = "webrtc")]
pub use webrtc::browser_requests;

struct NoWakeSocket;

impl AsWakeSocket for NoWakeSocket {
    fn wake(&self) {}
}

const SCENARIO: &str = "
[media]
[link]
rate = \"20 Mbit/s\"
[scheduler]
discipline = \"dwcs\"
[[stream]]
name = \"film\"
period = \"40 ms\"
late = \"drop\"
source = { kind = \"mpeg\", file = \"clip.mpg\" }
[[stream]]
name = \"live\"
period = \"40 ms\"
late = \"drop\"
source = { kind = \"live\", rate = \"2 Mbit/s\", audio = \"aac\" }
[[stream]]
name = \"tone\"
period = \"40 ms\"
late = \"drop\"
source = { kind = \"mpeg\", file = \"tone.ts\", repeat = true }
[[stream]]
name = \"cam\"
period = \"40 ms\"
first-deadline = \"200 ms\"
late = \"drop\"
source = { kind = \"live\", rate = \"1 Mbit/s\", paths = 2, on-demand = [\"publish\"] }
[scenario]
duration = \"1 s\"
";

/// A server with the streams of [`SCENARIO`]: maps the bytes received from an address to its
/// answer.
pub(crate) type SendRequest<'a> = dyn FnMut(IpAddr, &[u8]) -> Vec<u8> + 'a;

/// Returns the answers of a server to the bytes of a client. Its streams are `film`, `live` and
/// `tone` with audio, and two paths `cam/NAME` that a command publishes on demand.
///
/// # Panics
/// Panics if the repository's example clips are missing.
#[must_use]
pub fn requests(bytes: &[u8]) -> Vec<u8> {
    with_server(|talk| talk(IpAddr::V4(Ipv4Addr::LOCALHOST), bytes))
}

/// Returns the answers of a server that authenticates clients but has no users and no tokens.
///
/// # Panics
/// Panics if the repository's example clip is missing.
#[must_use]
pub fn guarded_requests(bytes: &[u8]) -> Vec<u8> {
    static DENY_ALL: OnceLock<Access> = OnceLock::new();
    let access = DENY_ALL.get_or_init(Access::deny_all);
    with_guarded_server(access, |talk| talk(IpAddr::V4(Ipv4Addr::LOCALHOST), bytes))
}

/// Wraps the video of a file in a transport stream; `None` if the file holds no video.
#[must_use]
pub fn transport_stream(file: &[u8]) -> Option<Vec<u8>> {
    let video = VideoPayload::read(Cursor::new(file), 1 << 20).ok()?;
    mpeg_ts::wrap(&video, 200_000_000, 1 << 22).ok().map(|wrapped| wrapped.bytes)
}

/// Reads a file of users of the realm `realm`, and a file of tokens.
///
/// Returns the number of users and tokens.
///
/// # Errors
/// Fails if a file is refused; the error is the message for the user.
pub fn access_files(
    users: Option<&Path>,
    tokens: Option<&Path>,
    realm: &str,
) -> Result<usize, MediaError> {
    Access::read(users, tokens, realm).map(|access| access.len())
}

/// Publishes the packets in `bytes`, one per ms, as video of this codec, and checks that every
/// frame is accounted for.
///
/// Each packet is a byte of length and that number of bytes. Returns whether any packet was RTP of
/// the stream.
///
/// # Panics
/// Panics if a frame is not accounted for.
#[must_use]
pub fn published(codec: Codec, bytes: &[u8]) -> bool {
    let mut live = live_of(codec);
    let track = Track { payload_type: 96, clock_rate: 90_000, ..Track::default() };
    live.announce(0, (0, IpAddr::V4(Ipv4Addr::LOCALHOST)), track, 1);
    if let Some(publisher) = &mut live.streams[0].publisher {
        publisher.transport = Some(Transport::Interleaved(0, 1));
    }
    live.record(0, 1);
    let (mut rest, mut now_ns) = (bytes, 1);
    while let Some((length, more)) = rest.split_first() {
        let (packet, more) = more.split_at(usize::from(*length).min(more.len()));
        now_ns += 1_000_000;
        live.interleaved(0, 0, packet, now_ns);
        rest = more;
    }
    live.leave(0, now_ns);
    let of = live.total();
    let released: u64 = of.released.iter().sum();
    assert_eq!(of.frames, released + of.incomplete + of.before_entry + of.beyond);
    of.packets > 0
}

/// The number of clients of a server.
const CLIENTS: u32 = 4;

/// Returns the server's resources: the library of [`SCENARIO`], and rows for [`CLIENTS`] clients.
pub(crate) fn resources() -> &'static (Library, Region) {
    static SHARED: OnceLock<(Library, Region)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
        let scenario = Scenario::parse("fuzz.toml", SCENARIO, &folder).expect("a valid scenario");
        let library = Library::open(&scenario).expect("the example clip");
        let region = Region::create(library.rows(CLIENTS)).expect("shared memory").0;
        (library, region)
    })
}

thread_local! {
    /// The rows and rings of this thread: targets run concurrently.
    static REGION: Region =
        Region::create(resources().0.rows(CLIENTS)).expect("shared memory").0;
    static RINGS: Vec<FrameRing> = {
        let shapes: Vec<_> = resources().0.live.iter().map(|live| live.shape).collect();
        live_frames::write(&live_frames::create(&shapes).expect("memory")).expect("rings")
    };
}

/// Returns this thread's own region of rows for [`CLIENTS`] clients.
pub(crate) fn own_region() -> Region {
    REGION.with(|region| *region)
}

/// Returns the live stream of a new server, without a publisher.
pub(crate) fn live() -> Publishing {
    live_of(Codec::H264)
}

/// Returns the live stream with video of this codec.
fn live_of(codec: Codec) -> Publishing {
    let mut specs = resources().0.live.clone();
    specs[0].codec = codec;
    Publishing::of(&specs, RINGS.with(Clone::clone), 60_000_000_000, None)
}

/// Runs `what` with a new server; each call of its argument is a separate connection.
pub(crate) fn with_server<T>(what: impl FnOnce(&mut SendRequest<'_>) -> T) -> T {
    with_guarded_server(&Access::open(), what)
}

/// Runs `what` with a new server that authenticates clients by `access`.
pub(crate) fn with_guarded_server<T>(
    access: &Access,
    what: impl FnOnce(&mut SendRequest<'_>) -> T,
) -> T {
    with_handler(access, |serve| {
        what(&mut |peer, bytes| {
            let (mut output, mut pass) = (Vec::new(), AuthState::default());
            serve(peer, &mut |handler, requester| {
                let input = &mut bytes.to_vec();
                loop {
                    handler.process_input(input, &mut output, &mut pass, 1 << 20, requester);
                    // A request that is held is answered at the end of its wait.
                    let due = handler.live.tick_on_demand(|_| false, false, u64::MAX);
                    if !due.contains(&requester.connection) {
                        break;
                    }
                }
            });
            output
        })
    })
}

/// Serves one connection of an address by a function.
type Serve<'a> =
    dyn FnMut(IpAddr, &mut dyn FnMut(&mut RtspHandler<'_, NoWakeSocket>, Requester)) + 'a;

/// Runs `what` with a new server that authenticates clients by `access`.
fn with_handler<T>(access: &Access, what: impl FnOnce(&mut Serve<'_>) -> T) -> T {
    let (library, region) = (&resources().0, own_region());
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 554);
    let mut sessions = Sessions::new(region, 20_000_000);
    sessions.video_rows = CLIENTS as usize;
    let mut live = live();
    let mut connection = 0;
    let mut authenticator = Authenticator::new(access.clone());
    what(&mut |peer, serve| {
        let mut handler = RtspHandler {
            library,
            sessions: &mut sessions,
            authenticator: &mut authenticator,
            live: &mut live,
            cluster: None,
            waker: &NoWakeSocket,
            server_ports: (6_000, 6_001),
            local,
            idle_timeout_ns: 60_000_000_000,
            request_bytes: 8 << 10,
            now_ns: 0,
        };
        let requester = Requester { peer, connection, secured: false };
        connection += 1;
        serve(&mut handler, requester);
    })
}
