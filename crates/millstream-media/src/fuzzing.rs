//! What fuzz targets and tests call: the reader of requests with a server behind it that plays nothing.

use millstream_scenario::Scenario;
use millstream_traffic::mpeg::VideoPayload;
use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::OnceLock;

use crate::access::{Access, Pass};
use crate::library::Library;
use crate::packets::mpeg_ts;
use crate::region::Region;
use crate::rtsp::{Asker, Desk};
use crate::session::{AsBell, Sessions};

struct NoBell;

impl AsBell for NoBell {
    fn ring(&self) {}
}

const SCENARIO: &str = "
[link]
rate = \"20 Mbps\"
[scheduler]
discipline = \"dwcs\"
[[stream]]
name = \"film\"
period = \"40 ms\"
late = \"drop\"
source = { kind = \"mpeg\", file = \"clip.mpg\" }
";

/// What a server with one stream, `film`, answers to what comes from an address.
pub(crate) type Talk<'a> = dyn FnMut(IpAddr, &[u8]) -> Vec<u8> + 'a;

/// The answers to what a client of a server with one stream, `film`, may have sent.
///
/// # Panics
/// If the repository's example clip is not there.
#[must_use]
pub fn requests(bytes: &[u8]) -> Vec<u8> {
    with_server(|talk| talk(IpAddr::V4(Ipv4Addr::LOCALHOST), bytes))
}

/// The same of a server that asks everybody who he is: nobody, as it knows no user and no token.
///
/// # Panics
/// If the repository's example clip is not there.
#[must_use]
pub fn guarded_requests(bytes: &[u8]) -> Vec<u8> {
    static NOBODY: OnceLock<Access> = OnceLock::new();
    let access = NOBODY.get_or_init(Access::nobody);
    with_guarded_server(access, |talk| talk(IpAddr::V4(Ipv4Addr::LOCALHOST), bytes))
}

/// The video of a file, whatever it holds, in a transport stream; `None` if there is none.
#[must_use]
pub fn transport_stream(file: &[u8]) -> Option<Vec<u8>> {
    let video = VideoPayload::read(Cursor::new(file), 1 << 20).ok()?;
    mpeg_ts::wrap(&video, 200_000_000, 1 << 22).ok().map(|wrapped| wrapped.bytes)
}

/// What the server has: `film`, and rows for four clients.
pub(crate) fn estate() -> &'static (Library, Region) {
    static SHARED: OnceLock<(Library, Region)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
        let scenario = Scenario::parse("fuzz.toml", SCENARIO, &folder).expect("a valid scenario");
        let library = Library::open(&scenario).expect("the example clip");
        (library, Region::create(4).expect("shared memory").0)
    })
}

/// Talks to a new server; each call is a connection of its own.
pub(crate) fn with_server<T>(what: impl FnOnce(&mut Talk<'_>) -> T) -> T {
    with_guarded_server(&Access::open(), what)
}

/// The same, with a server that asks who it is.
pub(crate) fn with_guarded_server<T>(access: &Access, what: impl FnOnce(&mut Talk<'_>) -> T) -> T {
    let (library, region) = estate();
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 554);
    let mut sessions = Sessions::new(*region, 20_000_000);
    let mut connection = 0;
    what(&mut |peer, bytes| {
        let mut output = Vec::new();
        let mut desk = Desk {
            library,
            sessions: &mut sessions,
            access,
            cluster: None,
            bell: &NoBell,
            server_ports: (6_000, 6_001),
            local,
            idle_timeout_ns: 60_000_000_000,
            request_bytes: 8 << 10,
            now_ns: 0,
        };
        let asker = Asker { peer, connection, secured: false };
        connection += 1;
        let mut pass = Pass::default();
        desk.converse(&mut bytes.to_vec(), &mut output, &mut pass, 1 << 20, asker);
        output
    })
}
