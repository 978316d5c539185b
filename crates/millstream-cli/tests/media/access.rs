//! Tests of access to `millstream serve`: passwords, tokens, TLS, and limits per address.

use crate::player::{self, Player, Server, is_installed};
use rtsp_types::{Method, StatusCode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const DEADLINE: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

/// The length of an RTP header, bytes (RFC 3550, 5.1).
const RTP_HEADER: u64 = 12;

/// The MD5 of `ann:millstream:open sesame`.
pub(crate) const ANN: &str = "ann:millstream:4469aedbccd71d189d4ac664f28d4985\n";

/// The SHA-256 of `letmein`.
pub(crate) const FRIENDS: &str =
    "friends:1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032\n";

/// Serves the example clip as `clip`, with `media` in `[media]` and `files` in the folder.
fn serve(media: &str, files: &[(&str, &str)]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\n{media}\n[link]\nrate = \"50 Mbps\"\n[scheduler]\n\
         discipline = \"dwcs\"\n[[stream]]\nname = \"clip\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
         first-deadline = \"2 s\"\nsource = {{ kind = \"mpeg\", file = \"{}\", repeat = true }}\n\
         [scenario]\nduration = \"1 s\"\n",
        clip.display()
    );
    std::fs::write(folder.path().join("media.toml"), text).unwrap();
    Server::serve(&folder.path().join("media.toml").clone(), folder)
}

/// Returns whether ffmpeg decodes twenty pictures of `url`.
pub(crate) fn ffmpeg_plays(url: &str, options: &[&str]) -> bool {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error"]).args(options).args(["-i", url]);
    ffmpeg.args(["-an", "-fps_mode", "passthrough", "-frames:v", "20", "-f", "framemd5", "-"]);
    let output = ffmpeg.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let pictures = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(pictures == 0 || pictures == 20, "{pictures}");
    pictures == 20
}

#[test]
fn ffmpeg_plays_with_the_password_or_a_token_and_not_without() {
    if !is_installed("ffmpeg") {
        return;
    }
    let media = "users = \"users\"\ntokens = \"tokens\"\nhttp = \"127.0.0.1:0\"";
    let server = serve(media, &[("users", ANN), ("tokens", FRIENDS)]);
    let at = server.rtsp;
    for transport in ["udp", "tcp"] {
        for (url, expected) in [
            (format!("rtsp://ann:open%20sesame@{at}/clip"), true),
            (format!("rtsp://{at}/clip?token=letmein"), true),
            (format!("rtsp://ann:guess@{at}/clip"), false),
            (format!("rtsp://{at}/clip?token=guess"), false),
            (format!("rtsp://{at}/clip"), false),
        ] {
            let played = ffmpeg_plays(&url, &["-rtsp_transport", transport]);
            assert_eq!(played, expected, "{url} by {transport}");
        }
    }
    let metrics = server.page("/metrics");
    let refusals = "millstream_media_refusals_total{reason=\"credentials\"} ";
    let refused = metrics.split(refusals).nth(1).unwrap().lines().next().unwrap();
    assert!(refused.parse::<u64>().unwrap() >= 4, "{metrics}");
    assert!(server.line().starts_with("refused: 127.0.0.1: a wrong password or token"));
    let account = server.end();
    assert_eq!(account["wrong_credentials"].to_string(), refused);
    for secret in ["sesame", "letmein", "4469ae", "1c8bfe"] {
        assert!(!metrics.contains(secret) && !account.to_string().contains(secret));
    }
}

#[test]
fn gstreamer_plays_with_the_password_and_not_without() {
    // `make soak` installs GStreamer.
    if Command::new("gst-launch-1.0").arg("--version").output().is_err() {
        return;
    }
    let server = serve("users = \"users\"", &[("users", ANN)]);
    for (password, expected) in [("open%20sesame", true), ("guess", false)] {
        let url = format!("location=rtsp://ann:{password}@{}/clip", server.rtsp);
        let packets = server.path(password);
        let mut gst = Command::new("timeout");
        gst.args(["60", "gst-launch-1.0", "-q", "rtspsrc", &url, "protocols=tcp", "!"]);
        gst.args(["identity", "eos-after=50", "!", "filesink"]);
        gst.arg(format!("location={}", packets.display()));
        // The exit status is not reliable: GStreamer sometimes closes the stream before it sends
        // PAUSE.
        let output = gst.output().unwrap();
        let bytes = std::fs::metadata(packets).map_or(0, |file| file.len());
        assert_eq!(bytes > 49 * RTP_HEADER, expected, "{password}: {bytes}, {output:?}");
    }
    server.end();
}

/// Returns a certificate for 127.0.0.1 and its key.
pub(crate) fn certificate() -> [(&'static str, String); 2] {
    let folder = tempfile::tempdir().unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    openssl.args(["-keyout", "key.pem", "-out", "certificate.pem", "-days", "2"]);
    openssl.args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
    assert!(openssl.current_dir(&folder).output().unwrap().status.success());
    ["certificate.pem", "key.pem"]
        .map(|name| (name, std::fs::read_to_string(folder.path().join(name)).unwrap()))
}

/// Returns the answer to a TLS client that trusts the certificate in `file` of the server's folder.
fn ask_over_tls(server: &Server, file: &str, request: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-verify_return_error", "-verify_ip", "127.0.0.1"]);
    openssl.args(["-connect", &server.rtsps.unwrap().to_string(), "-CAfile"]);
    openssl.arg(server.path(file)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = openssl.stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let _ = input.write_all(request.as_bytes());
    let mut answer = [0; 400];
    let length = child.stdout.take().unwrap().read(&mut answer).unwrap();
    let _ = child.kill();
    child.wait().unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

pub(crate) const TLS: &str =
    "tls = { listen = \"127.0.0.1:0\", certificate = \"certificate.pem\", key = \"key.pem\" }";

#[test]
fn ffmpeg_plays_over_tls_and_the_server_presents_its_certificate() {
    if !is_installed("ffmpeg") || !is_installed("openssl") {
        return;
    }
    let [certificate, key] = certificate();
    let [(_, other), _] = self::certificate();
    let files = [
        ("users", ANN),
        ("tokens", FRIENDS),
        (certificate.0, &certificate.1),
        (key.0, &key.1),
        ("other", &other),
    ];
    let server = serve(
        &format!("users = \"users\"\ntokens = \"tokens\"\nidle-timeout = \"2 s\"\n{TLS}"),
        &files,
    );
    let url = format!("rtsps://ann:open%20sesame@{}/clip", server.rtsps.unwrap());
    assert!(ffmpeg_plays(&url, &[]));
    // ffmpeg has no option for trusted certificates; openssl has one.
    for (file, expected) in [("certificate.pem", true), ("other", false)] {
        let answer = ask_over_tls(&server, file, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        assert_eq!(answer.starts_with("RTSP/1.0 200"), expected, "{file}: {answer}");
    }
    // UDP transport would not be encrypted.
    for (transport, status) in [
        ("RTP/AVP;unicast;client_port=5000-5001", "RTSP/1.0 461"),
        ("RTP/AVP/TCP;unicast;interleaved=0-1", "RTSP/1.0 200"),
    ] {
        let set_up = format!(
            "SETUP rtsp://h/clip/video?token=letmein RTSP/1.0\r\nCSeq: 1\r\nTransport: {transport}\r\n\r\n"
        );
        let answer = ask_over_tls(&server, "certificate.pem", &set_up);
        assert!(answer.starts_with(status), "{transport}: {answer}");
    }
    // A client without TLS gets no answer, and its connection times out.
    let mut plain = TcpStream::connect(server.rtsps.unwrap()).unwrap();
    plain.write_all(b"DESCRIBE rtsp://h/clip RTSP/1.0\r\nCSeq: 1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("RTSP"), "{answer:?}");
    let mut silent = TcpStream::connect(server.rtsps.unwrap()).unwrap();
    let mut goodbye = Vec::new();
    silent.read_to_end(&mut goodbye).unwrap();
    assert!(goodbye.len() < 10, "{goodbye:?}");
    server.end();
}

#[test]
fn mangled_credentials_and_tls_hellos_are_refused_and_valid_clients_served() {
    if !is_installed("openssl") || !is_installed("ffmpeg") {
        return;
    }
    let [certificate, key] = certificate();
    let files =
        [("users", ANN), ("tokens", FRIENDS), (certificate.0, &certificate.1), (key.0, &key.1)];
    let server = serve(&format!("users = \"users\"\ntokens = \"tokens\"\n{TLS}"), &files);
    let credentials: [&[u8]; 3] = [
        b"DESCRIBE rtsp://h/clip RTSP/1.0\r\nCSeq: 1\r\nAuthorization: Digest username=\"ann\", realm=\"millstream\", \
          nonce=\"0\", uri=\"rtsp://h/clip\", response=\"00000000000000000000000000000000\", qop=auth, nc=00000001, \
          cnonce=\"c\"\r\n\r\n",
        b"SETUP rtsp://h/clip/video?token=guess RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n",
        b"DESCRIBE rtsp://h/clip RTSP/1.0\r\nCSeq: 1\r\nAuthorization: Basic YW5uOg==\r\n\r\n",
    ];
    // A hand-made TLS ClientHello that offers two cipher suites.
    let mut hello = vec![22, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0x13, 1, 0xc0, 0x2b, 1, 0]);
    let hellos: [&[u8]; 2] = [&hello, &hello[..20]];
    let to_rtsp = player::mangled(&credentials, 300).into_iter().map(|bytes| (server.rtsp, bytes));
    let to_tls = player::mangled(&hellos, 300);
    let to_tls = to_tls.into_iter().map(|bytes| (server.rtsps.unwrap(), bytes));
    for (to, bytes) in to_rtsp.chain(to_tls) {
        // Wrong passwords cause a back-off of their address, so the player uses another one.
        let mut stream = player::connect_from("127.0.0.2", to);
        let _ = stream.write_all(&bytes);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // RTSP refuses. TLS sends an alert, or a ServerHello if the mutated bytes are valid.
        let plain = to == server.rtsp;
        let refused =
            if plain { answer.starts_with(b"RTSP/1.0 ") } else { answer.starts_with(&[21, 3]) };
        assert!(
            refused || answer.is_empty() || (!plain && answer.starts_with(&[22, 3])),
            "{answer:?}"
        );
        assert!(!answer.starts_with(b"RTSP/1.0 2") || !bytes.starts_with(b"SETUP"), "{answer:?}");
        assert!(answer.len() < 2_000, "{} bytes to {}", answer.len(), bytes.len());
    }
    let url = format!("rtsps://ann:open%20sesame@{}/clip", server.rtsps.unwrap());
    assert!(ffmpeg_plays(&url, &[]));
    let account = server.end();
    let [wrong, unread] =
        ["wrong_credentials", "backed_off"].map(|of| account[of].as_u64().unwrap());
    assert!(wrong < 40 && unread > 40, "{account}");
}

#[test]
fn connections_and_sessions_per_address_are_limited() {
    let media = "connections-per-address = 3\nsessions-per-address = 2\nhttp = \"127.0.0.1:0\"";
    let server = Server::start(60, "50 Mbps", media, DEADLINE, "");
    let mut players: Vec<Player> = (0..3).map(|_| Player::open(server.rtsp, "film")).collect();
    for player in &mut players[..2] {
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    }
    let refused = players[2].set_up(false);
    assert_eq!(refused.status(), StatusCode::ServiceUnavailable);
    let why = String::from_utf8(refused.body().clone()).unwrap();
    assert!(why.starts_with("your address has 2 sessions"), "{why}");
    assert_eq!(server.line(), "refused: 127.0.0.1: too many sessions from this address");
    // All three connections are open: the next one is closed immediately.
    let mut beyond = TcpStream::connect(server.rtsp).unwrap();
    assert_eq!(beyond.read(&mut [0; 10]).unwrap(), 0);
    assert_eq!(server.line(), "refused: 127.0.0.1: too many connections from this address");
    // A closed session frees its slot.
    assert_eq!(players[0].ask(Method::Teardown, &[]).status(), StatusCode::Ok);
    assert_eq!(players[2].set_up(false).status(), StatusCode::Ok);
    drop(players);
    let end = Instant::now() + TIMEOUT;
    let mut answered = false;
    while !answered {
        assert!(Instant::now() < end);
        let mut next = TcpStream::connect(server.rtsp).unwrap();
        let _ = next.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        answered = next.read(&mut [0; 12]).is_ok_and(|count| count > 0);
    }
    let account = server.end();
    assert_eq!(account["too_many_sessions"], 1, "{account}");
    assert!(account["too_many_connections"].as_u64().unwrap() >= 1, "{account}");
}

#[test]
fn a_world_readable_or_invalid_key_is_an_error() {
    if !is_installed("openssl") {
        return;
    }
    let [(_, certificate), (_, key)] = certificate();
    let [_, (_, other)] = self::certificate();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), player::test_video(12)).unwrap();
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\n{TLS}\n[link]\nrate = \"1 Gbps\"\n[scheduler]\n\
         discipline = \"dwcs\"\n[[stream]]\nname = \"film\"\nlate = \"drop\"\n{DEADLINE}\n\
         source = {{ kind = \"mpeg\", file = \"film.m1v\" }}\n"
    );
    std::fs::write(folder.path().join("media.toml"), text).unwrap();
    std::fs::write(folder.path().join("certificate.pem"), &certificate).unwrap();
    for (key, mode, expected) in [
        (&key, 0o644, "mode 644"),
        (&certificate, 0o600, "private key"),
        (&other, 0o600, "private key of the certificate"),
    ] {
        let file = folder.path().join("key.pem");
        std::fs::write(&file, key).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        let command = command.args(["serve", "--for", "1 s", "media.toml"]);
        let output = command.current_dir(&folder).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap().replace("\n  │ ", " ");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("key.pem") && error.contains(expected), "{error}");
        assert!(!error.contains("BEGIN"), "{error}");
    }
}
