//! Streams that a command publishes while clients play: requests are held after authentication
//! until it publishes, and it ends with its players and with the server.

use crate::access::{ANN, FRIENDS, TLS, certificate, ffmpeg_plays};
use crate::player::{Player, Server, is_installed};
use crate::test_clips::TestClips;
use rtsp_types::StatusCode;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Serves streams on demand: ffmpeg publishes `cam` and two paths `gate/NAME` from `clip` in the
/// folder; the command of `broken` exits at once, and that of `mute` publishes nothing.
///
/// The command of `cam` and `gate` appends to `log` when it begins and ends, and writes the process
/// id of ffmpeg to `log.id`.
pub(crate) fn serve(folder: &Path, clip: &str, media: &str, user: &str) -> Server {
    let log = folder.join("log");
    let clip = folder.join(clip);
    let script = format!(
        "trap \"echo end >> $0; exit\" TERM; ffmpeg -v error \
         -re -stream_loop -1 -i {} -c copy -f rtsp -rtsp_transport tcp \
         rtsp://{user}127.0.0.1:$MILLSTREAM_RTSP_PORT/$MILLSTREAM_STREAM & echo $! > $0.id; \
         echo begin $MILLSTREAM_EVENT >> $0; wait",
        clip.display()
    );
    let stream = |name: &str, keys: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\nperiod = \"40 ms\"\nlate = \"drop\"\n\
             first-deadline = \"2 s\"\nsource = {{ kind = \"live\", rate = \"2 Mbps\", {keys} }}\n"
        )
    };
    let log = log.display();
    let publishes = format!(
        "on-demand = [\"sh\", \"-c\", '{script}', \"{log}\"], on-demand-start = \"60 s\", \
         on-demand-close = \"1 s\""
    );
    let text = format!(
        "[media]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n{media}\n\
         [link]\nrate = \"50 Mbps\"\noverhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n\
         [scenario]\nduration = \"1 s\"\n{}{}{}{}",
        stream("cam", &publishes),
        stream("broken", "on-demand = [\"false\"], on-demand-start = \"1 s\""),
        stream("mute", "on-demand = [\"sleep\", \"1000\"], on-demand-start = \"60 s\""),
        stream("gate", &format!("{publishes}, paths = 2")),
    );
    let file = folder.join("media.toml");
    std::fs::write(&file, text).unwrap();
    Server::serve(&file, tempfile::tempdir().unwrap())
}

/// Waits until the log of the command has these words.
fn wait_for(folder: &Path, expected: &str) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.join(" ") == expected {
            return;
        }
        assert!(Instant::now() < end, "{words:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a request for the description of a stream.
fn describe(name: &str) -> String {
    format!("DESCRIBE rtsp://h/{name} RTSP/1.0\r\nCSeq: 1\r\n\r\n")
}

const OPTIONS: &str = "OPTIONS rtsp://h/cam RTSP/1.0\r\nCSeq: 2\r\n\r\n";

/// Sends requests on a connection of their own.
fn send(server: SocketAddr, requests: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Returns the next answer on a connection, with its body.
fn answer(from: &mut impl BufRead) -> String {
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        assert!(from.read_line(&mut line).unwrap() > 0, "closed after {text:?}");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text += &line;
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

#[test]
fn a_command_publishes_while_clients_play() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(50, "300k", "25");
    let folder = clips.folder.path();
    for (name, text) in [("users", ANN), ("tokens", FRIENDS)] {
        std::fs::write(folder.join(name), text).unwrap();
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let user = "ann:open%20sesame@";
    let media = "users = \"users\"\ntokens = \"tokens\"";
    let mut server = serve(folder, "clip.mp4", media, user);
    let rtsp = server.rtsp;
    let send = |requests: &str| send(rtsp, requests);
    // Without credentials no command runs.
    assert!(answer(&mut send(&describe("cam"))).starts_with("RTSP/1.0 401"));
    assert_eq!(server.status()["hooks"][0]["started"], 0);
    // A held request delays those after it, and is refused when its command does not publish.
    let mut client = send(&(describe("broken?token=letmein") + OPTIONS));
    let refused = answer(&mut client);
    assert!(refused.starts_with("RTSP/1.0 404") && refused.contains("within 1 s"), "{refused}");
    assert!(answer(&mut client).contains("CSeq: 2\r\n"));
    let mut client = send(&(describe("cam?token=letmein") + OPTIONS));
    let described = answer(&mut client);
    assert!(described.starts_with("RTSP/1.0 200") && described.contains("H264"), "{described}");
    assert!(answer(&mut client).contains("CSeq: 2\r\n"));
    // Without players the command ends. The next player starts it again; its request, which was
    // held, is not refused as a replay of its Digest.
    wait_for(folder, "begin demand end");
    assert!(ffmpeg_plays(&format!("rtsp://{user}{}/cam", server.rtsp), &[]));
    wait_for(folder, "begin demand end begin demand end");
    // It is started again if it fails while a client plays.
    let mut player = Player::open(server.rtsp, "cam?token=letmein");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    // The request may have been answered by the publisher that was just ending.
    wait_for(folder, "begin demand end begin demand end begin demand");
    let id = std::fs::read_to_string(folder.join("log.id")).unwrap();
    let id = nix::unistd::Pid::from_raw(id.trim().parse().unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).unwrap();
    let begun = "begin demand end begin demand end begin demand begin demand";
    wait_for(folder, begun);
    let end = Instant::now() + TIMEOUT;
    let hooks = loop {
        // The server learns of starts after the log.
        let hooks = server.status()["hooks"].clone();
        if hooks[0]["started"] == 4 {
            break hooks;
        }
        assert!(Instant::now() < end, "{hooks}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((&hooks[0]["event"], &hooks[0]["program"]), (&"demand".into(), &"sh".into()));
    assert!(hooks[1]["failed"].as_u64().unwrap() > 0, "{hooks}");
    // It ends with a server that is killed.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    wait_for(folder, &format!("{begun} end"));
}

#[test]
fn a_drain_answers_held_requests_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), "clip.mp4", "", "");
    let mut client = send(server.rtsp, &(describe("mute") + OPTIONS));
    crate::live::wait_for(&server, "a held request", |status| status["hooks"][2]["started"] == 1);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let refused = answer(&mut client);
    assert!(refused.starts_with("RTSP/1.0 503") && refused.contains("draining"), "{refused}");
    assert!(answer(&mut client).starts_with("RTSP/1.0 200"));
    // Its runner has ended the command: the server waits for the runner.
    let account = server.wait_for_exit();
    assert_eq!(account["admitted"], 0, "{account}");
}

#[test]
fn a_request_over_tls_waits_for_the_command_that_publishes() {
    if !is_installed("ffmpeg") || !is_installed("openssl") {
        return;
    }
    let clips = TestClips::make(50, "300k", "25");
    let folder = clips.folder.path();
    for (name, text) in certificate() {
        std::fs::write(folder.join(name), text).unwrap();
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let server = serve(folder, "clip.mp4", TLS, "");
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-connect", &server.rtsps.unwrap().to_string()]);
    openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = openssl.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    input.write_all((describe("cam") + OPTIONS).as_bytes()).unwrap();
    let mut output = BufReader::new(client.stdout.take().unwrap());
    let described = answer(&mut output);
    assert!(described.starts_with("RTSP/1.0 200") && described.contains("H264"), "{described}");
    assert!(answer(&mut output).contains("CSeq: 2\r\n"));
    client.kill().unwrap();
    client.wait().unwrap();
    wait_for(folder, "begin demand end");
    assert!(ffmpeg_plays(&format!("rtsps://{}/cam", server.rtsps.unwrap()), &[]));
    server.end();
}

#[test]
fn players_of_a_crashed_server_have_the_command_again_once() {
    if !is_installed("ffmpeg") {
        return;
    }
    let clips = TestClips::make(50, "300k", "25");
    let folder = clips.folder.path();
    let socket = folder.join("data-plane");
    let media = format!("placement = \"ni\"\nsocket = \"{}\"", socket.display());
    let mut server = serve(folder, "clip.mp4", &media, "");
    let mut player = Player::open(server.rtsp, "gate/front");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    let sent = |server: &Server| {
        let client = server.status()["clients"][0].clone();
        (0..3).map(|kind| client["frames"]["sent"][kind].as_u64().unwrap_or(0)).sum::<u64>()
    };
    // The player's reports tell the data plane that it is there.
    let mut watch_until = |holds: &dyn Fn() -> bool| {
        let end = Instant::now() + TIMEOUT;
        while !holds() {
            assert!(Instant::now() < end);
            player.watch(Duration::from_millis(50));
        }
    };
    watch_until(&|| sent(&server) > 10);
    wait_for(folder, "begin demand");
    server.crash();
    wait_for(folder, "begin demand end");
    let server = Server::serve(&folder.join("media.toml"), tempfile::tempdir().unwrap());
    let before = sent(&server);
    watch_until(&|| sent(&server) > before + 10);
    wait_for(folder, "begin demand end begin demand");
    let status = server.status();
    assert_eq!(status["clients"][0]["stream"], "gate/front", "{status}");
    let started = status["hooks"].as_array().unwrap().iter().map(|hook| &hook["started"]);
    assert_eq!(started.collect::<Vec<_>>(), [0, 0, 0, 1, 0], "{status}");
    server.end();
    wait_for(folder, "begin demand end begin demand end");
}
