//! Tests of data plane instructions: loaded, called, replaced and removed during playback, and
//! malicious modules. Instructions affect only their own streams, and every frame is accounted for.

use crate::player::{
    self, PATTERN, Player, ReceivedFrame, Server, assert_conserved, await_open_files,
    count_open_files,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rtsp_types::StatusCode;
use serde_json::Value;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const STREAM: &str = "period = \"16.666666 ms\"\nfirst-deadline = \"2 s\"";

/// Starts a server with two streams, `film` and `other`, of equal frames.
fn serve(placement: &str, media: &str) -> Server {
    let media = format!("placement = \"{placement}\"\nhttp = \"127.0.0.1:0\"\n{media}");
    let other = format!(
        ", repeat = true }}\n[[stream]]\nname = \"other\"\nlate = \"drop\"\n{STREAM}\n\
         source = {{ kind = \"mpeg\", file = \"film.m1v\", repeat = true"
    );
    Server::start(60, "50 Mbps", &media, STREAM, &other)
}

/// Returns a module with these bodies of `filter` and `call`.
fn module(filter: &str, call: &str) -> Vec<u8> {
    let text = format!(
        "(module (memory (export \"memory\") 1)
           (global (export \"frame\") i32 (i32.const 64))
           (global (export \"message\") i32 (i32.const 1024))
           (func (export \"filter\") (param $length i32) (result i32) {filter})
           (func (export \"call\") (param $length i32) (result i32) {call}))"
    );
    wat::parse_str(text).unwrap()
}

const PASS: &str = "(i32.const 1)";
const LOOPS: &str = "(loop $again (br $again)) (i32.const 1)";
const GROWS: &str = "(loop $again (drop (memory.grow (i32.const 1))) (br $again)) (i32.const 1)";
const TRAPS: &str = "(i32.load (i32.const -1))";
const WASM: &str = "application/wasm";
const BYTES: &str = "application/octet-stream";

fn thin() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/media/thin.wasm"))
        .unwrap()
}

/// Sends an HTTP request; returns status and body.
fn order(server: &Server, verb: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let address = server.http.unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    let header = format!(
        "{verb} /instructions/{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    // The server may refuse before it has read the body.
    let _ = stream.write_all(header.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").expect("a header") + 4;
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, answer.split_off(end))
}

fn put(server: &Server, path: &str, module: &[u8]) {
    let (status, answer) = order(server, "PUT", path, WASM, module);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let loaded: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(loaded["state"], "running", "{loaded}");
}

fn remove(server: &Server, name: &str) {
    assert_eq!(order(server, "DELETE", name, "", &[]).0, 200);
}

/// Returns the instruction `name`, if it exists.
fn instruction(server: &Server, name: &str) -> Option<Value> {
    let page = server.page("/instructions");
    let all: Vec<Value> = serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap();
    all.into_iter().find(|one| one["name"] == name)
}

/// Waits until `right` holds for an instruction; returns the instruction.
fn await_instruction(server: &Server, name: &str, right: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        let is = instruction(server, name).unwrap();
        if right(&is) {
            return is;
        }
        assert!(Instant::now() < end, "{is}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn at_least(what: &'static str, least: u64) -> impl Fn(&Value) -> bool {
    move |is| is[what].as_u64().unwrap() >= least
}

/// Returns a playing client of each stream.
fn play(server: &Server) -> [Player; 2] {
    ["film", "other"].map(|name| {
        let mut player = Player::open(server.rtsp, name);
        assert_eq!(player.set_up(false).status(), StatusCode::Ok);
        player.play();
        player
    })
}

/// Receives packets during `what` and 300 ms after it; returns the received frames.
fn watch_while(players: &mut [Player; 2], what: impl FnOnce()) -> [Vec<ReceivedFrame>; 2] {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for player in players.iter_mut() {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    player.watch(Duration::from_millis(20));
                }
                player.watch(Duration::from_millis(300));
            });
        }
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&over);
        what();
    });
    players.each_mut().map(Player::frames)
}

/// Returns the types (1 I, 2 P, 3 B) of missing frames before the last received one. Asserts that
/// received frames are complete.
fn missing(seen: &[ReceivedFrame]) -> Vec<u8> {
    assert!(seen.iter().all(|frame| frame.whole));
    let numbers: HashSet<u32> = player::coding_numbers(seen);
    let last = *numbers.iter().max().unwrap();
    (0..last).filter(|n| !numbers.contains(n)).map(|n| PATTERN[n as usize % 6].0).collect()
}

#[test]
fn a_program_thins_a_stream_during_playback() {
    for placement in ["host", "ni"] {
        let server = serve(placement, "instructions = true");
        let mut players = play(&server);
        let set_level = |byte: u8| order(&server, "POST", "thin", BYTES, &[byte]);
        let [film, other] = watch_while(&mut players, || {
            put(&server, "thin?streams=film", &thin());
            await_instruction(&server, "thin", at_least("frames", 10));
            assert_eq!(set_level(1), (200, vec![0]));
            await_instruction(&server, "thin", at_least("dropped", 20));
            assert_eq!(set_level(2), (200, vec![1]));
            let dropped = instruction(&server, "thin").unwrap()["dropped"].as_u64().unwrap();
            await_instruction(&server, "thin", at_least("dropped", dropped + 20));
            assert_eq!(set_level(3), (200, vec![]), "not a valid level");
            assert_eq!(set_level(0), (200, vec![2]));
            let before = instruction(&server, "thin").unwrap();
            assert_eq!(before["calls"], 4);
            let frames = before["frames"].as_u64().unwrap();
            let now = await_instruction(&server, "thin", at_least("frames", frames + 12));
            assert_eq!(now["dropped"], before["dropped"]);
            remove(&server, "thin");
            assert_eq!(instruction(&server, "thin"), None);
            assert_eq!(set_level(1).0, 404);
        });
        assert!(missing(&other).is_empty());
        let missing = missing(&film);
        let of = |kind| missing.iter().filter(|is| **is == kind).count();
        assert!(of(1) == 0 && of(2) > 0 && of(3) > of(2), "{missing:?}");
        let metrics = server.page("/metrics");
        let filtered = |kind: &str, count: usize| {
            let labels =
                format!("stream=\"film\",client=\"0\",frame=\"{kind}\",event=\"filtered\"");
            let line = format!("millstream_media_frames_total{{{labels}}} {count}\n");
            assert!(metrics.contains(&line), "{line}");
        };
        filtered("P", of(2));
        filtered("B", of(3));
        let status = server.status();
        assert_eq!(
            status["clients"][0]["frames"]["filtered"],
            serde_json::json!([0, of(2), of(3)])
        );
        drop(players);
        let account = server.end();
        assert_conserved(&account);
        assert_eq!(account["frames"]["violations"], 0);
    }
}

#[test]
fn failing_modules_are_stopped_and_lose_no_frame() {
    for placement in ["host", "ni"] {
        let server = serve(placement, "instructions = true");
        let mut players = play(&server);
        let seen = watch_while(&mut players, || {
            for (name, body, counter) in [
                ("loops", LOOPS, "out_of_fuel"),
                ("grows", GROWS, "over_memory"),
                ("traps", TRAPS, "trapped"),
                ("lies", "(i32.const 7)", "bad_answer"),
            ] {
                let path = format!("{name}?streams=film&faults=3&memory=131072&fuel=10000");
                put(&server, &path, &module(body, PASS));
                let is = await_instruction(&server, name, |is| is["state"] == "stopped");
                let counts = [&is["frames"], &is[counter], &is["dropped"]];
                assert_eq!(counts, [3, 3, 0], "{is}");
                assert!(!is["why"].as_str().unwrap().is_empty());
                assert_eq!(order(&server, "POST", name, BYTES, &[]).0, 409, "stopped");
                // Calls only, without streams: an accepted frame between them would reset the count
                // of faults.
                let call = module(PASS, if name == "lies" { "(i32.const 4097)" } else { body });
                put(&server, &format!("{name}?streams="), &call);
                for _ in 0..3 {
                    assert_eq!(order(&server, "POST", name, BYTES, &[1; 4096]).0, 500);
                }
                assert_eq!(instruction(&server, name).unwrap()["state"], "stopped");
            }
        });
        assert!(seen.iter().all(|seen| missing(seen).is_empty()));
        let top = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"))
            .args(["top", &server.http.unwrap().to_string(), "--interval", "20 ms", "--count", "1"])
            .output();
        let top = String::from_utf8(top.unwrap().stdout).unwrap();
        assert!(top.contains("instruction loops: stopped (") && top.contains("filtered"), "{top}");
        drop(players);
        let account = server.end();
        assert_conserved(&account);
        for what in ["lost", "violations", "unaccounted"] {
            assert_eq!(account["frames"][what], 0, "{account}");
        }
        assert_eq!(account["processors"], 1);
    }
}

#[test]
fn invalid_requests_are_errors_and_change_nothing() {
    let server = serve("host", "instructions = true");
    let good = module(PASS, "(local.get $length)");
    put(&server, "good?fuel=5000", &good);
    let imports = wat::parse_str("(module (import \"a\" \"b\" (func)))").unwrap();
    let large = vec![0; (256 << 10) + 1];
    for (verb, path, kind, body, status, part) in [
        ("PUT", "good", WASM, &imports[..], 422, "not a usable module"),
        ("PUT", "good", WASM, b"\0asm", 422, "not a usable module"),
        ("PUT", "good", WASM, &large, 413, "262144"),
        ("PUT", "good", "text/plain", &good, 415, "application/wasm"),
        ("PUT", "good", "", &good, 415, "application/wasm"),
        ("PUT", "a%20b", WASM, &good, 400, "not a valid name"),
        ("PUT", "good?streams=none", WASM, &good, 400, "film, other"),
        ("PUT", "good?fuel=0", WASM, &good, 400, "from 1 to 10000000"),
        ("PUT", "good?memory=1", WASM, &good, 400, "from 65536"),
        ("PUT", "good?colour=red", WASM, &good, 400, "`colour`"),
        ("POST", "good", "text/plain", b"a", 415, "octet-stream"),
        ("POST", "good", BYTES, &large[..4097], 413, "4096"),
        ("POST", "none", BYTES, b"a", 404, "`none`"),
        ("DELETE", "none", "", b"", 404, "`none`"),
    ] {
        let (got, why) = order(&server, verb, path, kind, body);
        let why = String::from_utf8(why).unwrap();
        assert!(got == status && why.contains(part), "{verb} {path}: {got} {why}");
    }
    let is = instruction(&server, "good").unwrap();
    assert_eq!([&is["state"], &is["fuel"]], [&Value::from("running"), &Value::from(5000)]);
    assert_eq!(is["streams"], serde_json::json!(["film", "other"]));
    assert_eq!(order(&server, "POST", "good", BYTES, &[9; 4096]), (200, vec![9; 4096]));
    for at in 1..16 {
        put(&server, &at.to_string(), &good);
    }
    assert_eq!(order(&server, "PUT", "16", WASM, &good).0, 409);
    assert_conserved(&server.end());
    let server = serve("host", "");
    let (status, why) = order(&server, "PUT", "good", WASM, &good);
    assert_eq!(status, 403, "{}", String::from_utf8_lossy(&why));
    assert!(String::from_utf8(why).unwrap().contains("instructions = true"));
    assert!(instruction(&server, "good").is_none());
}

/// Kills the data plane, then the server; the instruction of the file continues after both.
#[test]
fn instructions_survive_crashes_of_data_plane_and_server() {
    let folder = tempfile::tempdir().unwrap();
    // The filter drops B-frames.
    let filter = "(i32.ne (i32.load (i32.const 68)) (i32.const 2))";
    std::fs::write(folder.path().join("filter.wasm"), module(filter, "(local.get $length)"))
        .unwrap();
    let file = folder.path().join("filter.wasm");
    let socket = folder.path().join("socket");
    let media = format!(
        "instructions = true\nsocket = {socket:?}\nidle-timeout = \"60 s\"\n[[media.instruction]]\n\
         name = \"filter\"\nmodule = {file:?}\nstreams = [\"film\"]\n"
    );
    let mut server = serve("ni", &media);
    let mut players = play(&server);
    let dropped =
        |server: &Server| instruction(server, "filter").unwrap()["dropped"].as_u64().unwrap();
    let still_there = |server: &Server, before: u64| {
        await_instruction(server, "filter", at_least("dropped", before + 20));
        let answer = order(server, "POST", "filter", BYTES, b"there?");
        assert_eq!(answer, (200, b"there?".to_vec()));
        // A stopped instruction stays stopped after a restart.
        assert_eq!(instruction(server, "stopped").unwrap()["state"], "stopped");
    };
    put(&server, "stopped?streams=&faults=1", &module(PASS, TRAPS));
    assert_eq!(order(&server, "POST", "stopped", BYTES, &[]).0, 500);
    let [film, other] = watch_while(&mut players, || {
        still_there(&server, 0);
        let before = dropped(&server);
        let data_plane = Pid::from_raw(server.data_plane.unwrap().try_into().unwrap());
        kill(data_plane, Signal::SIGKILL).unwrap();
        let end = Instant::now() + TIMEOUT;
        while server.status()["processors"] != 2 {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(10));
        }
        still_there(&server, before);
    });
    assert!(film.iter().all(|frame| frame.kind != 3) && other.iter().any(|frame| frame.kind == 3));
    let before = dropped(&server);
    server.crash();
    let server = server.restart();
    let [film, _] = watch_while(&mut players, || still_there(&server, before));
    assert!(film.len() > 10 && film.iter().all(|frame| frame.kind != 3));
    let [film, _] = watch_while(&mut players, || {
        remove(&server, "filter");
        std::thread::sleep(Duration::from_secs(1));
    });
    assert!(film.iter().any(|frame| frame.kind == 3));
    drop(players);
    assert_conserved(&server.end());
}

#[test]
fn a_hundred_changes_lose_no_frame_and_leak_no_file() {
    for placement in ["host", "ni"] {
        let server = serve(placement, "instructions = true");
        let mut players = play(&server);
        let seen = watch_while(&mut players, || {
            put(&server, "first", &thin());
            remove(&server, "first");
            let ids: Vec<u32> =
                [Some(server.child.id()), server.data_plane].into_iter().flatten().collect();
            let before: Vec<usize> = ids.iter().map(|id| count_open_files(*id)).collect();
            for round in 0..100usize {
                put(&server, "a", &module(PASS, &format!("(i32.const {})", round % 7)));
                put(&server, "b?streams=film", &thin());
                let answer = order(&server, "POST", "a", BYTES, &[5; 7]);
                assert_eq!(answer, (200, vec![5; round % 7]));
                put(&server, "a?streams=other", &thin());
                remove(&server, "a");
                remove(&server, "b");
            }
            for (id, before) in ids.into_iter().zip(before) {
                await_open_files(id, before);
            }
        });
        assert!(seen.iter().all(|seen| missing(seen).is_empty()));
        drop(players);
        let account = server.end();
        assert_conserved(&account);
        assert_eq!([&account["frames"]["violations"], &account["frames"]["lost"]], [0, 0]);
    }
}

#[test]
fn the_example_module_matches_its_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/media");
    assert_eq!(wat::parse_file(folder.join("thin.wat")).unwrap(), thin());
}
