//! Validation of the `[media]` section: the rules that types cannot express.

mod cluster;
mod frames;
mod hook;
mod instruction;
mod recording;

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use toml::Spanned;

use crate::error::Problem;
use crate::file::media::{MediaTable, PlacementName, TlsTable};
use crate::media::{FramePath, Media, Placement, Tls};
pub(super) use hook::check_command;
pub(super) use recording::check_recorded_streams;

/// The longest `packet-bytes` with `webrtc`. Header extensions, encryption and UDP over IPv6 take
/// up to 96 bytes more.
const MAX_WEBRTC_PACKET_BYTES: u64 = 1_404;

/// Validates the section; returns the defaults without a section.
///
/// `streams` has the names of the streams in file order.
pub(super) fn media(
    table: Option<&Spanned<MediaTable>>,
    streams: &[&str],
    problems: &mut Vec<Problem>,
) -> Media {
    let default = Media::default();
    let Some(table) = table.map(Spanned::get_ref) else { return default };
    let core = table.core.as_ref().map(|core| *core.get_ref());
    let placement = match table.placement {
        Some(PlacementName::Ni) => Placement::Ni { core },
        Some(PlacementName::Host) | None => Placement::Host,
    };
    let core_at = table.core.as_ref().map(Spanned::span);
    let socket_at = table.socket.as_ref().map(Spanned::span);
    for (key, at, why) in [
        ("core", core_at, "is pinned to a core"),
        ("socket", socket_at, "continues without the server"),
    ] {
        if let (Some(at), Placement::Host) = (at, placement) {
            let message = format!("a `{key}` without `placement = \"ni\"`");
            let help = format!("only a separate data plane process {why}; take it out");
            problems.push(Problem::new(at, message).help(help));
        }
    }
    let (frame_path, read_ahead) = frames::frames(table, placement, problems);
    let count = |value: &Option<Spanned<u32>>| value_and_span(value, |count| u64::from(*count));
    let size = |value: &Option<Spanned<crate::units::Size>>| value_and_span(value, |size| size.0);
    let sessions = check_range(count(&table.sessions), "`sessions`", 1..=65_536, "", problems);
    let connections =
        check_range(count(&table.connections), "`connections`", 1..=65_536, "", problems);
    let [connections_each, sessions_each] = [
        (&table.connections_per_address, "`connections-per-address`"),
        (&table.sessions_per_address, "`sessions-per-address`"),
    ]
    .map(|(value, what)| check_range(count(value), what, 1..=65_536, "", problems))
    .map(|value| value.and_then(|value| u32::try_from(value).ok()));
    let request =
        check_range(size(&table.request_bytes), "`request-bytes`", 256..=1 << 20, " B", problems);
    let packet =
        check_range(size(&table.packet_bytes), "`packet-bytes`", 128..=65_507, " B", problems);
    let idle = value_and_span(&table.idle_timeout, |time| time.0);
    let idle =
        check_range(idle, "`idle-timeout`", 1_000_000_000..=86_400_000_000_000, " ns", problems);
    let stall = value_and_span(&table.stall_timeout, |time| time.0);
    let stall =
        check_range(stall, "`stall-timeout`", 100_000_000..=3_600_000_000_000, " ns", problems);
    let drain = value_and_span(&table.drain_timeout, |time| time.0);
    let drain = check_range(drain, "`drain-timeout`", 0..=86_400_000_000_000, " ns", problems);
    let store = check_range(size(&table.store), "`store`", 1..=1 << 40, " B", problems);
    let bytes = |value: Option<u64>, default| {
        value.and_then(|value| usize::try_from(value).ok()).unwrap_or(default)
    };
    let whole = |value: Option<u64>, default| {
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default)
    };
    let listen = address(table.listen.as_ref(), problems).unwrap_or(default.listen);
    Media {
        listen,
        http: loopback_address(table.http.as_ref(), problems),
        webrtc: webrtc(table, packet, problems),
        hls: address(table.hls.as_ref(), problems),
        rtmp: address(table.rtmp.as_ref(), problems),
        placement,
        frame_path,
        read_ahead_ns: read_ahead.unwrap_or(default.read_ahead_ns),
        frame_folder: table
            .frame_folder
            .as_ref()
            .filter(|_| frame_path != FramePath::Host)
            .map(|folder| folder.get_ref().into()),
        socket: table.socket.as_ref().map(|path| path.get_ref().into()),
        sessions: whole(sessions, default.sessions),
        connections: whole(connections, default.connections),
        connections_per_address: connections_each,
        sessions_per_address: sessions_each,
        request_bytes: bytes(request, default.request_bytes),
        idle_timeout_ns: idle.unwrap_or(default.idle_timeout_ns),
        stall_timeout_ns: stall.unwrap_or(default.stall_timeout_ns),
        drain_timeout_ns: drain.unwrap_or(default.drain_timeout_ns),
        packet_bytes: bytes(packet, default.packet_bytes),
        store_bytes: bytes(store, default.store_bytes),
        users: table.users.as_ref().map(Into::into),
        tokens: table.tokens.as_ref().map(Into::into),
        realm: realm(table.realm.as_ref(), problems).unwrap_or(default.realm),
        tls: table.tls.as_ref().map(|table| tls(table, problems)),
        cluster: table
            .cluster
            .as_ref()
            .and_then(|cluster| cluster::cluster(cluster, table, listen, problems)),
        recording: table.recording.as_ref().map(|table| recording::recording(table, problems)),
        hooks: hook::hooks(&table.hook, streams, problems),
        instructions: instruction::instructions_over_http(table, problems),
        instruction: instruction::instructions(&table.instruction, streams, problems),
    }
}

/// Parses the address of WebRTC. Checks that its packets fit: encryption and header extensions make
/// them longer.
fn webrtc(
    table: &MediaTable,
    packet_bytes: Option<u64>,
    problems: &mut Vec<Problem>,
) -> Option<SocketAddr> {
    let found = address(table.webrtc.as_ref(), problems)?;
    let size = table.packet_bytes.as_ref().map(Spanned::span);
    if let Some((bytes, at)) = packet_bytes.zip(size)
        && bytes > MAX_WEBRTC_PACKET_BYTES
    {
        let message = format!("`packet-bytes` of {bytes} B with `webrtc`");
        let help = format!("at most {MAX_WEBRTC_PACKET_BYTES} B, which fit Ethernet encrypted");
        problems.push(Problem::new(at, message).help(help));
    }
    Some(found)
}

fn tls(table: &TlsTable, problems: &mut Vec<Problem>) -> Tls {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8322));
    Tls {
        listen: address(table.listen.as_ref(), problems).unwrap_or(default),
        certificate: (&table.certificate).into(),
        key: (&table.key).into(),
    }
}

/// Validates the realm, which headers quote and the file of users delimits with colons.
fn realm(text: Option<&Spanned<String>>, problems: &mut Vec<Problem>) -> Option<String> {
    let text = text?;
    let plain =
        |letter: char| (letter.is_ascii_graphic() || letter == ' ') && !"\"\\:".contains(letter);
    let realm = text.get_ref();
    if realm.is_empty() || realm.len() > 100 || !realm.chars().all(plain) {
        let message = format!("`realm` of {realm:?}");
        let help = "1 to 100 printable ASCII characters without \", \\ and :";
        problems.push(Problem::new(text.span(), message).help(help));
    }
    Some(realm.clone())
}

fn value_and_span<T>(
    value: &Option<Spanned<T>>,
    of: impl Fn(&T) -> u64,
) -> Option<(u64, std::ops::Range<usize>)> {
    value.as_ref().map(|value| (of(value.get_ref()), value.span()))
}

fn check_range(
    given: Option<(u64, std::ops::Range<usize>)>,
    what: &str,
    range: RangeInclusive<u64>,
    unit: &str,
    problems: &mut Vec<Problem>,
) -> Option<u64> {
    let (value, span) = given?;
    if range.contains(&value) {
        return Some(value);
    }
    let help = format!("from {} to {}{unit}", range.start(), range.end());
    problems.push(Problem::new(span, format!("{what} of {value}{unit}")).help(help));
    None
}

pub(super) fn address(
    text: Option<&Spanned<String>>,
    problems: &mut Vec<Problem>,
) -> Option<SocketAddr> {
    let text = text?;
    let address = text.get_ref().parse().ok();
    if address.is_none() {
        let message = format!("`{}` is not an address and a port", text.get_ref());
        let help = "for example \"127.0.0.1:8554\", or \"127.0.0.1:0\" for any free port";
        problems.push(Problem::new(text.span(), message).help(help));
    }
    address
}

/// Parses the address of the HTTP pages, which must be a loopback address.
///
/// The pages show the clients and their streams without authentication.
fn loopback_address(
    text: Option<&Spanned<String>>,
    problems: &mut Vec<Problem>,
) -> Option<SocketAddr> {
    let found = address(text, problems)?;
    if !found.ip().is_loopback() {
        let message = format!("`http` of {found}, which other machines can reach");
        let help = "the pages have no authentication: use a loopback address such as 127.0.0.1, \
         and an authenticating proxy for other machines";
        problems.push(Problem::new(text?.span(), message).help(help));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use crate::media::Tls;
    use crate::{Media, Placement, Scenario};
    use std::path::Path;

    pub(super) fn parse(section: &str) -> Result<Media, String> {
        let text = format!(
            "{section}\n[link]\nrate = \"1 Mbit/s\"\n[scheduler]\ndiscipline = \"fifo\"\n\
             [[stream]]\nname = \"a\"\nsource = {{ kind = \"mpeg\", file = \"a.mpg\" }}\n"
        );
        Scenario::parse("a.toml", &text, Path::new("")).map(|scenario| scenario.media).map_err(
            |error| {
                let problems = error.problems.iter();
                problems.map(|p| format!("{p}; {}", p.help.clone().unwrap_or_default())).collect()
            },
        )
    }

    #[test]
    fn defaults_listen_on_loopback() {
        let media = parse("").unwrap();
        assert_eq!(media, Media::default());
        assert!(media.listen.ip().is_loopback() && media.http.is_none());
    }

    #[test]
    fn every_key_is_parsed() {
        let media = parse(
            "[media]\nlisten = \"[::1]:5\"\nhttp = \"127.0.0.1:6\"\nwebrtc = \
             \"0.0.0.0:7\"\nhls = \"127.0.0.1:9\"\n\
             rtmp = \"127.0.0.1:8\"\nplacement = \"ni\"\ncore = 3\n\
             frame-path = \"producer\"\nread-ahead = \"500 ms\"\nframe-folder = \"spool\"\n\
             socket = \"run/s\"\nsessions = 7\nconnections = 8\nrequest-bytes = \"1 KiB\"\n\
             idle-timeout = \"2 s\"\n\
             stall-timeout = \"4 s\"\ndrain-timeout = \"3 s\"\npacket-bytes = \"500 B\"\nstore \
             = \"1 MB\"\n\
             users = \"users\"\ntokens = \"tokens\"\nrealm = \"films\"\nconnections-per-address = \
             4\n\
             sessions-per-address = 2\ninstructions = true\ntls = { certificate = \"c\", key \
             = \"k\" }\nrecording = { folder = \"videos\", size = \"5 GB\", keep = \"1 h\", \
             segment = \"10 s\" }",
        );
        let expected = Media {
            listen: "[::1]:5".parse().unwrap(),
            http: Some("127.0.0.1:6".parse().unwrap()),
            webrtc: Some("0.0.0.0:7".parse().unwrap()),
            hls: Some("127.0.0.1:9".parse().unwrap()),
            rtmp: Some("127.0.0.1:8".parse().unwrap()),
            placement: Placement::Ni { core: Some(3) },
            frame_path: crate::FramePath::Producer,
            read_ahead_ns: 500_000_000,
            frame_folder: Some("spool".into()),
            socket: Some("run/s".into()),
            sessions: 7,
            connections: 8,
            request_bytes: 1024,
            idle_timeout_ns: 2_000_000_000,
            stall_timeout_ns: 4_000_000_000,
            drain_timeout_ns: 3_000_000_000,
            packet_bytes: 500,
            store_bytes: 1_000_000,
            users: Some("users".into()),
            tokens: Some("tokens".into()),
            realm: "films".to_owned(),
            connections_per_address: Some(4),
            sessions_per_address: Some(2),
            tls: Some(Tls {
                listen: "127.0.0.1:8322".parse().unwrap(),
                certificate: "c".into(),
                key: "k".into(),
            }),
            cluster: None,
            recording: Some(crate::Recording {
                folder: "videos".into(),
                max_bytes: 5_000_000_000,
                max_age_ns: Some(3_600_000_000_000),
                segment_ns: 10_000_000_000,
                players: 4,
            }),
            hooks: Vec::new(),
            instructions: true,
            instruction: Vec::new(),
        };
        assert_eq!(media, Ok(expected));
    }

    #[test]
    fn payload_is_parsed_for_files_and_refused_for_models() {
        use crate::{Source, VideoInput, VideoPayloadFormat};
        let carrier = |source: &str| {
            let text = format!(
                "[link]\nrate = \"1 Mbit/s\"\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\n\
                 name = \"a\"\nsource = {{ kind = \"mpeg\", {source}, stop = \"1 s\" }}\n"
            );
            let scenario = Scenario::parse("a.toml", &text, Path::new(""));
            let scenario = scenario.map_err(|error| error.problems[0].to_string())?;
            match &scenario.streams[0].source {
                Source::Mpeg { input: VideoInput::File { payload, .. }, .. } => Ok(*payload),
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(carrier("file = \"a.mpg\""), Ok(VideoPayloadFormat::Elementary));
        assert_eq!(
            carrier("file = \"a.mpg\", payload = \"elementary\""),
            Ok(VideoPayloadFormat::Elementary)
        );
        assert_eq!(
            carrier("file = \"a.mpg\", payload = \"mpeg-ts\""),
            Ok(VideoPayloadFormat::MpegTs)
        );
        let error = carrier("file = \"a.mpg\", payload = \"avi\"").unwrap_err();
        assert!(error.contains("avi") && error.contains("mpeg-ts"), "{error}");
        let model = "model = \"mpeg4\", rate = \"1 Mbit/s\", payload = \"mpeg-ts\"";
        assert!(carrier(model).unwrap_err().contains("`payload` is for files"));
    }

    #[test]
    fn errors_contain_the_value_and_a_correction() {
        for (section, parts) in [
            ("[media]\nlisten = \"here\"", ["`here`", "127.0.0.1:8554"]),
            ("[media]\nplacement = \"dvcm\"", ["dvcm", "host"]),
            ("[media]\ncore = 1", ["`core`", "placement"]),
            ("[media]\nsocket = \"s\"", ["`socket`", "placement"]),
            ("[media]\nframe-path = \"ni\"", ["`frame-path = ", "placement"]),
            ("[media]\nframe-path = \"nfs\"", ["nfs", "producer"]),
            ("[media]\nread-ahead = \"1 s\"", ["`read-ahead`", "frame-path"]),
            (
                "[media]\nplacement = \"ni\"\nframe-path = \"ni\"\nread-ahead = \"1 ms\"",
                ["1000000 ns", "from 50000000"],
            ),
            ("[media]\nsessions = 0", ["`sessions` of 0", "from 1"]),
            ("[media]\npacket-bytes = \"99 KB\"", ["99000", "to 65507"]),
            ("[media]\nidle-timeout = \"1 ms\"", ["1000000 ns", "from 1000000000"]),
            ("[media]\nstall-timeout = \"10 ms\"", ["10000000 ns", "from 100000000"]),
            ("[media]\nhttp = \"0.0.0.0:80\"", ["0.0.0.0:80", "127.0.0.1"]),
            ("[media]\nhls = \"8888\"", ["`8888`", "127.0.0.1:8554"]),
            ("[media]\nwebrtc = \"8889\"", ["`8889`", "127.0.0.1:8554"]),
            (
                "[media]\nwebrtc = \"127.0.0.1:8889\"\npacket-bytes = \"1500 B\"",
                ["1500 B with `webrtc`", "1404 B"],
            ),
            ("[media]\nsessions-per-address = 0", ["`sessions-per-address` of 0", "from 1"]),
            ("[media]\ntls = { certificate = \"c\" }", ["key", "missing"]),
            ("[media]\nrealm = \"a:b\"", ["`realm`", "without"]),
            ("[media]\nport = 5", ["port", "listen"]),
            ("[media]\nrecording = { folder = \"a\" }", ["size", "missing"]),
            ("[media]\nrecording = { folder = \"\", size = \"1 GB\" }", ["folder", "directory"]),
            (
                "[media]\nrecording = { folder = \"a\", size = \"1 MB\" }",
                ["`size` of 1000000 B", "from 16000000"],
            ),
            (
                "[media]\nrecording = { folder = \"a\", size = \"1 GB\", segment = \"1 ms\" }",
                ["`segment` of 1000000 ns", "from 1000000000"],
            ),
            (
                "[media]\nrecording = { folder = \"a\", size = \"1 GB\", keep = \"1 s\" }",
                ["`keep` of 1000000000 ns", "from 60000000000"],
            ),
        ] {
            let error = parse(section).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        }
    }
}
