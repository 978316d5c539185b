//! Clusters of media servers on several hosts: redirection of clients, and the frames lost by a
//! dead server and by a network partition.

#[cfg(feature = "webrtc")]
mod browsers;
mod relay;

use crate::audio::{LIP_SYNC, skew, start_times};
use crate::player::{self, Player, Server};
use nix::sched::{CloneFlags, setns};
use rtsp_types::headers::LOCATION;
use rtsp_types::{Method, StatusCode};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

static CREATED: AtomicU32 = AtomicU32::new(0);

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {error}", arguments.join(" "));
}

/// Hosts 1, 2, … and the players' host, as network namespaces; dropping this value removes them.
///
/// Two networks join them: 10.77.0.0 for players, and 10.78.0.0 between the servers.
struct Hosts {
    prefix: String,
    count: u8,
}

impl Hosts {
    fn new(count: u8) -> Self {
        let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        assert!(root, "this test creates network namespaces: run it as root, with iproute2");
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let hosts = Self { prefix: format!("mc{}-{number}", std::process::id()), count };
        let hub = hosts.name(0);
        ip(&["netns", "add", &hub]);
        for bridge in ["front", "back"] {
            ip(&["-n", &hub, "link", "add", bridge, "type", "bridge"]);
            ip(&["-n", &hub, "link", "set", bridge, "up"]);
        }
        ip(&["-n", &hub, "address", "add", "10.77.0.100/24", "dev", "front"]);
        ip(&["-n", &hub, "link", "set", "lo", "up"]);
        for host in 1..=count {
            let of = hosts.name(host);
            ip(&["netns", "add", &of]);
            ip(&["-n", &of, "link", "set", "lo", "up"]);
            for (bridge, network) in [("front", 77), ("back", 78)] {
                let port = format!("{bridge}{host}");
                let peer = ["type", "veth", "peer", "name", bridge, "netns", &of];
                ip(&[&["-n", &hub, "link", "add", &port][..], &peer].concat());
                ip(&["-n", &hub, "link", "set", &port, "master", bridge, "up"]);
                let address = format!("10.{network}.0.{host}/24");
                ip(&["-n", &of, "address", "add", &address, "dev", bridge]);
                ip(&["-n", &of, "link", "set", bridge, "up"]);
            }
        }
        hosts
    }

    fn name(&self, host: u8) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Sets a host's link to the other servers up or down; players always reach the host.
    fn link(&self, host: u8, state: &str) {
        ip(&["-n", &self.name(0), "link", "set", &format!("back{host}"), state]);
    }

    /// Cuts a host off from players and servers.
    #[cfg(feature = "webrtc")]
    fn cut_off(&self, host: u8) {
        for bridge in ["front", "back"] {
            ip(&["-n", &self.name(0), "link", "set", &format!("{bridge}{host}"), "down"]);
        }
    }

    /// Moves this thread to the players' host; its child threads and processes inherit the host.
    fn enter(&self) {
        let file = File::open(format!("/run/netns/{}", self.name(0))).unwrap();
        setns(file, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// Starts a server on each host with these link rates; `media` is added to the first file.
    fn serve(&self, rates: &[&str], media: &str) -> Vec<Server> {
        let servers: Vec<Server> = (1..)
            .zip(rates)
            .map(|(host, rate)| self.server(host, rate, if host == 1 { media } else { "" }, 7))
            .collect();
        for server in &servers {
            await_metric(server, "cluster_members", u64::from(self.count) - 1);
        }
        servers
    }

    fn server(&self, host: u8, rate: &str, media: &str, secret: u8) -> Server {
        self.server_with(host, rate, secret, Additions { media, ..Additions::default() })
    }

    fn server_with(&self, host: u8, rate: &str, secret: u8, additions: Additions<'_>) -> Server {
        let Additions { media, cluster, streams, listens_anywhere } = additions;
        let rtsp = format!("10.77.0.{host}:8554");
        let listen = if listens_anywhere { "0.0.0.0:8554" } else { &rtsp };
        let bytes = [secret; 32];
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(folder.path().join("film.m1v"), player::test_video(60)).unwrap();
        std::fs::write(&secret, bytes).unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        let members: Vec<String> =
            (1..=self.count).map(|host| format!("\"10.78.0.{host}:7946\"")).collect();
        let text = format!(
            "[scenario]\nduration = \"1 min\"\n[media]\nlisten = \"{listen}\"\nhttp \
             = \"127.0.0.1:8580\"\n{media}\n\
             [media.cluster]\n{cluster}\naddress = \"{rtsp}\"\nlisten = \"10.78.0.{host}:7946\"\n\
             members = [{}]\nsecret = \"secret\"\n\
             dead-after = \"2 s\"\n[link]\nrate = \"{rate}\"\noverhead = 28\n[scheduler]\n\
             discipline = \"dwcs\"\n\
             [[stream]]\nname = \"film\"\nlate = \"drop\"\nperiod = \"16.666666 ms\"\n\
             first-deadline = \"2 s\"\nwindow = \"2/6\"\n\
             source = {{ kind = \"mpeg\", file = \"film.m1v\", repeat = true }}\n\
             [[stream]]\nname = \"tone\"\nlate = \"drop\"\nperiod = \"40 ms\"\n\
             first-deadline = \"2 s\"\n\
             source = {{ kind = \"mpeg\", file = \"{}/../../examples/data/tone.ts\", \
             repeat = true }}\n{streams}",
            members.join(", "),
            env!("CARGO_MANIFEST_DIR")
        );
        let file = folder.path().join("media.toml");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), env!("CARGO_BIN_EXE_millstream")]);
        Server::serve_by(command, &file, folder)
    }
}

/// What a server's file has besides that of every test.
#[derive(Clone, Copy, Default)]
struct Additions<'a> {
    /// Keys of `[media]`.
    media: &'a str,
    /// Keys of `[media.cluster]`.
    cluster: &'a str,
    streams: &'a str,
    /// Whether it also has RTSP clients on its own host.
    listens_anywhere: bool,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..=self.count {
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).output();
        }
    }
}

/// Runs `test` in its own thread on the players' host.
fn on(hosts: u8, test: impl FnOnce(&Hosts) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hosts = Hosts::new(hosts);
            hosts.enter();
            test(&hosts);
        });
    });
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = server.page("/metrics");
    let prefix = format!("millstream_media_{name} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

fn await_metric(server: &Server, name: &str, value: u64) {
    let end = Instant::now() + TIMEOUT;
    while metric(server, name) != value {
        assert!(Instant::now() < end, "{name}: {} instead of {value}", metric(server, name));
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns a player that plays at this server without redirection.
fn play_without_redirect(server: &Server) -> Player {
    let mut player = Player::open(server.rtsp, "placed/film");
    assert_eq!(player.set_up(false).status(), StatusCode::Ok);
    player.play();
    player
}

/// Returns the location to which the server redirects `player`, if any.
fn redirect_location(player: &mut Player, method: Method) -> Option<String> {
    let answer = player.ask(method, &[]);
    let location = answer.header(&LOCATION).map(|location| location.as_str().to_owned());
    assert_eq!(answer.status() == StatusCode::Found, location.is_some());
    location
}

/// Watches all players in turn for `time`.
fn watch(players: &mut [Player], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for player in &mut *players {
            player.watch(Duration::from_millis(20));
        }
    }
}

/// Watches until each player has received `packets` more packets.
fn watch_more(players: &mut [Player], packets: usize) {
    let enough: Vec<usize> =
        players.iter().map(|player| player.sources().len() + packets).collect();
    let limit = Instant::now() + TIMEOUT;
    while players.iter().zip(&enough).any(|(player, enough)| player.sources().len() < *enough) {
        assert!(Instant::now() < limit, "fewer than {packets} packets");
        watch(players, POLL_INTERVAL);
    }
}

fn numbers(account: &serde_json::Value) -> u64 {
    let frames = &account["frames"];
    let kinds = ["sent", "dropped_late", "dropped_full"];
    let kinds = kinds.map(|what| frames[what].as_array().unwrap().clone()).concat();
    let others = ["discarded", "lost"].map(|what| frames[what].clone());
    kinds.iter().chain(&others).map(|count| count.as_u64().unwrap()).sum()
}

/// Ends the server; returns its account, in which every frame is counted once.
fn end(server: Server) -> serde_json::Value {
    let account = server.end();
    assert_eq!(account["frames"]["released"], numbers(&account), "{account}");
    account
}

#[test]
fn clients_are_redirected_to_the_server_with_the_most_capacity() {
    on(2, |hosts| {
        // A client needs at least 0.95 Mbit/s: two and three clients fit.
        let servers = hosts.serve(&["2.2 Mbps", "3.1 Mbps"], "");
        let mut players = Vec::new();
        for number in 0..5 {
            // The servers exchange their loads before the next client.
            std::thread::sleep(3 * POLL_INTERVAL);
            let mut player = Player::open(servers[0].rtsp, "film");
            let location = redirect_location(&mut player, Method::Describe);
            if let Some(location) = &location {
                assert_eq!(location, "rtsp://10.77.0.2:8554/placed/film");
                player = Player::open(servers[1].rtsp, "placed/film");
                // A redirected client is not redirected again.
                assert_eq!(redirect_location(&mut player, Method::Describe), None);
            }
            let answer = player.set_up(false);
            assert_eq!(answer.status(), StatusCode::Ok, "player {number}, sent to {location:?}");
            players.push(player);
        }
        std::thread::sleep(3 * POLL_INTERVAL);
        for server in &servers {
            let mut player = Player::open(server.rtsp, "film");
            assert_eq!(redirect_location(&mut player, Method::Describe), None);
            assert_eq!(player.set_up(false).status(), StatusCode::NotEnoughBandwidth);
        }
        // A full server also redirects a SETUP without DESCRIBE.
        assert_eq!(players[4].ask(Method::Teardown, &[]).status(), StatusCode::Ok);
        drop(players.remove(1));
        await_metric(&servers[0], "sessions", 1);
        await_metric(&servers[1], "sessions", 2);
        std::thread::sleep(3 * POLL_INTERVAL);
        let _filled = [0, 1].map(|_| {
            let mut player = Player::open(servers[0].rtsp, "placed/film");
            (player.set_up(false).status(), player)
        });
        let mut player = Player::open(servers[0].rtsp, "film");
        let answer = player.set_up(false);
        assert_eq!(answer.status(), StatusCode::Found);
        assert_eq!(answer.header(&LOCATION).unwrap().as_str(), "rtsp://10.77.0.2:8554/placed/film");
        let admitted: Vec<u64> =
            servers.into_iter().map(|server| end(server)["admitted"].as_u64().unwrap()).collect();
        assert_eq!(admitted, [3, 3]);
    });
}

/// Kills a server and asserts that its players continue at the other servers: with an equal source,
/// without duplicate sequence numbers, and with complete accounts.
fn assert_takeover_after_crash(media: &str) {
    on(3, |hosts| {
        let mut servers = hosts.serve(&["50 Mbps"; 3], media);
        let mut players: Vec<Player> = (0..4).map(|_| play_without_redirect(&servers[0])).collect();
        watch_more(&mut players, 100);
        let before: Vec<_> = players.iter().map(Player::sources).collect();
        servers[0].crash();
        let taken = |servers: &[Server]| -> u64 {
            servers.iter().map(|server| metric(server, "cluster_taken_in_total")).sum()
        };
        let limit = Instant::now() + TIMEOUT;
        while taken(&servers[1..]) < 4 {
            watch(&mut players, POLL_INTERVAL);
            assert!(Instant::now() < limit, "{} sessions are taken over", taken(&servers[1..]));
        }
        watch_more(&mut players, 100);
        for (player, before) in players.iter().zip(before) {
            let packets = player.sources();
            assert!(packets.len() >= before.len() + 100);
            let sources: HashSet<u32> = packets.iter().map(|(source, _)| *source).collect();
            let numbers: HashSet<u16> = packets.iter().map(|(_, number)| *number).collect();
            assert_eq!((sources.len(), numbers.len()), (1, packets.len()));
        }
        assert_eq!(taken(&servers[1..]), 4);
        // A request at either server finds the session.
        let player = &mut players[0];
        player.reconnect(servers[1].rtsp, "film");
        let answer = player.ask(Method::GetParameter, &[]);
        if let Some(location) = answer.header(&LOCATION) {
            assert_eq!(location.as_str(), "rtsp://10.77.0.3:8554/placed/film");
            player.reconnect(servers[2].rtsp, "film");
        }
        assert_eq!(player.ask(Method::Teardown, &[]).status(), StatusCode::Ok);
        // The session ends at every server.
        let left = Instant::now() + TIMEOUT;
        let sessions = |servers: &[Server]| -> u64 {
            servers.iter().map(|server| metric(server, "sessions")).sum()
        };
        while sessions(&servers[1..]) != 3 {
            assert!(Instant::now() < left, "{} sessions", sessions(&servers[1..]));
            std::thread::sleep(POLL_INTERVAL);
        }
        let accounts: Vec<_> = servers.drain(1..).map(end).collect();
        let lost = accounts.iter().map(|account| account["frames"]["lost"].as_u64().unwrap());
        // About one second of four clients at 60 frames/s.
        assert!((100..2_000).contains(&lost.sum::<u64>()), "{accounts:?}");
    });
}

#[test]
fn other_servers_take_over_the_clients_of_a_killed_server() {
    assert_takeover_after_crash("");
}

#[test]
fn other_servers_take_over_the_clients_of_a_data_plane_without_its_host() {
    assert_takeover_after_crash("placement = \"ni\"");
}

#[test]
fn another_server_takes_over_both_tracks_of_a_client() {
    on(3, |hosts| {
        let mut servers = hosts.serve(&["50 Mbps"; 3], "");
        let from = servers[0].rtsp;
        let mut video = Player::open(from, "placed/tone/video");
        assert_eq!(video.set_up(false).status(), StatusCode::Ok);
        let mut audio = video.other_track(from, "placed/tone/audio");
        assert_eq!(audio.set_up(false).status(), StatusCode::Ok);
        video.set_url(from, "placed/tone");
        let answer = video.ask(Method::Play, &[]);
        assert_eq!(answer.status(), StatusCode::Ok);
        let start = start_times(&answer);
        let mut players = [video, audio];
        assert!(skew(&mut players, start, 16_000.0) < LIP_SYNC);
        watch_more(&mut players, 20);
        servers[0].crash();
        let taken =
            || [1, 2].map(|server: usize| metric(&servers[server], "cluster_taken_in_total"));
        let limit = Instant::now() + TIMEOUT;
        while taken().iter().sum::<u64>() < 2 {
            watch(&mut players, POLL_INTERVAL);
            assert!(Instant::now() < limit, "{:?} tracks are taken over", taken());
        }
        assert!(taken().contains(&2), "both by one server: {:?}", taken());
        assert!(skew(&mut players, start, 16_000.0) < LIP_SYNC);
        watch_more(&mut players, 20);
        servers.drain(1..).map(end).for_each(drop);
    });
}

#[test]
fn a_client_that_reconnects_has_no_second_session() {
    on(3, |hosts| {
        let mut servers = hosts.serve(&["50 Mbps"; 3], "");
        let mut players: Vec<Player> = (0..3).map(|_| play_without_redirect(&servers[0])).collect();
        watch(&mut players, Duration::from_millis(500));
        servers[0].crash();
        // One client reconnects before the takeover, and one after it, at a server that may not
        // have its session.
        let mut again = vec![play_without_redirect(&servers[1])];
        let limit = Instant::now() + TIMEOUT;
        let taken = || -> u64 {
            servers[1..].iter().map(|server| metric(server, "cluster_taken_in_total")).sum()
        };
        while taken() < 2 {
            watch(&mut again, POLL_INTERVAL);
            assert!(Instant::now() < limit, "{} sessions are taken over", taken());
        }
        again.push(play_without_redirect(&servers[2]));
        let sessions =
            || -> u64 { servers[1..].iter().map(|server| metric(server, "sessions")).sum() };
        // The sessions of the two reconnected clients, and the adopted session of the third.
        while sessions() != 3 {
            watch(&mut again, POLL_INTERVAL);
            assert!(Instant::now() < limit, "{} sessions", sessions());
        }
        watch_more(&mut again, 100);
        assert_eq!((sessions(), taken()), (3, 2));
        servers.drain(1..).for_each(|server| drop(end(server)));
    });
}

#[test]
fn the_first_server_keeps_its_session_after_a_partition() {
    on(2, |hosts| {
        let servers = hosts.serve(&["50 Mbps"; 2], "");
        let mut players = [play_without_redirect(&servers[0])];
        watch(&mut players, Duration::from_millis(500));
        hosts.link(1, "down");
        await_metric(&servers[1], "cluster_taken_in_total", 1);
        // One session on each side of the partition.
        assert_eq!(metric(&servers[0], "sessions") + metric(&servers[1], "sessions"), 2);
        hosts.link(1, "up");
        await_metric(&servers[1], "cluster_yielded_total", 1);
        await_metric(&servers[1], "sessions", 0);
        watch(&mut players, POLL_INTERVAL);
        players[0].frames();
        watch_more(&mut players, 100);
        assert!(!players[0].bye, "a yielded session sends no BYE");
        let packets = players[0].sources();
        let numbers: HashSet<u16> = packets.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers.len(), packets.len());
        let accounts: Vec<_> = servers.into_iter().map(end).collect();
        assert_eq!(accounts[0]["cluster"]["yielded"], 0);
        assert_eq!(accounts[1]["cluster"]["taken_in"], 1);
    });
}

#[test]
fn a_server_with_another_secret_is_not_a_member() {
    on(2, |hosts| {
        let servers = [7, 8].map(|secret| hosts.server(secret - 6, "50 Mbps", "", secret));
        std::thread::sleep(Duration::from_secs(2));
        for server in servers {
            assert_eq!(metric(&server, "cluster_members"), 0);
            end(server);
        }
    });
}

#[test]
fn a_world_readable_secret_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.m1v"), player::test_video(12)).unwrap();
    std::fs::write(folder.path().join("secret"), [7; 32]).unwrap();
    std::fs::set_permissions(folder.path().join("secret"), PermissionsExt::from_mode(0o644))
        .unwrap();
    let text = "[media]\nlisten = \"127.0.0.1:0\"\n[media.cluster]\nlisten = \"127.0.0.1:7946\"\n\
                members = [\"127.0.0.2:7946\"]\nsecret = \"secret\"\n[link]\nrate = \"9 Mbps\"\n\
                [scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"film\"\nlate = \"drop\"\n\
                period = \"16.666666 ms\"\nsource = { kind = \"mpeg\", file = \"film.m1v\" }\n";
    std::fs::write(folder.path().join("media.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    let command = command.args(["serve", "--for", "1 s", "media.toml"]).current_dir(&folder);
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap().replace("\n  │ ", " ");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("mode 644") && error.contains("chmod 600"), "{error}");
}
