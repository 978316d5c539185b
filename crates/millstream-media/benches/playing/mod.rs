//! Millstream's server and its clients: one socket receives all packets with their arrival times.

#![allow(dead_code)]

use millstream_media::{MediaServer, Report, ShutdownMode};
use millstream_player::{Arrival, FrameArrival, Player, receive};
use millstream_scenario::Scenario;
use millstream_traffic::mpeg::VideoPayload;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The period of the example clip.
pub(crate) const PERIOD: Duration = Duration::from_millis(40);

/// Returns a scenario of the example clip on a link that fits all clients.
pub(crate) fn scenario(placement: &str) -> Scenario {
    scenario_by(placement, "host")
}

/// Returns that scenario with the frame path `path`.
fn scenario_by(placement: &str, path: &str) -> Scenario {
    let text = format!(
        "[scenario]\nduration = \"1 min\"\n[media]\nlisten = \"127.0.0.1:0\"\n\
         placement = \"{placement}\"\nframe-path = \"{path}\"\n\
         sessions-per-address = 256\nconnections-per-address = 512\n[link]\nrate = \"1 Gbps\"\n\
         overhead = 28\n\
         [scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"clip\"\nperiod = \"40 ms\"\n\
         window = \"2/12\"\nfirst-deadline = \"200 ms\"\nlate = \"drop\"\n\
         source = {{ kind = \"mpeg\", file = \"clip.mpg\", repeat = true }}\n"
    );
    Scenario::parse("bench.toml", &text, &data()).unwrap()
}

/// Returns the directory of the example clip.
fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data")
}

/// Plays the video of a server's `/clip`; RTP and RTCP go to `ports`.
fn client(address: SocketAddr, ports: &str) -> Player {
    let mut player = Player::open(address, "clip/video");
    let set_up = player.set_up_to(ports);
    assert!(set_up.status().is_success(), "{set_up:?}");
    player.set_url(address, "clip");
    player.play();
    player
}

/// Returns the frames of our own server's clients, by source.
pub(crate) fn lateness(arrivals: &[Arrival], settled: Duration) -> HashMap<u32, Vec<FrameArrival>> {
    let clip = VideoPayload::open(&data().join("clip.mpg"), usize::MAX).unwrap();
    let display: Vec<u32> = clip.frames.iter().map(|frame| frame.display).collect();
    millstream_player::lateness(arrivals, &display, PERIOD, settled)
}

/// A running server with playing clients.
pub(crate) struct Playing {
    stop: Arc<AtomicBool>,
    server: JoinHandle<Report>,
    receiver: JoinHandle<(Vec<Arrival>, bool)>,
    /// The process identifiers of data plane and producer, if they are separate processes.
    pub(crate) processes: [Option<u32>; 2],
    _clients: Vec<Player>,
}

impl Playing {
    /// Starts a server with `clients` clients; `begun` is the receiver's time 0.
    pub(crate) fn start(placement: &str, clients: usize, begun: Instant) -> Self {
        Self::of(scenario(placement), clients, begun)
    }

    /// Starts a server with a separate data plane and the frame path `path`.
    pub(crate) fn by(path: &str, clients: usize, begun: Instant) -> Self {
        Self::of(scenario_by("ni", path), clients, begun)
    }

    fn of(scenario: Scenario, clients: usize, begun: Instant) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (to, address) = channel();
        let over = Arc::clone(&stop);
        let server = thread::spawn(move || {
            let server = MediaServer::open(&scenario).unwrap();
            let processes = [server.data_plane_id(), server.producer_id()];
            to.send((server.rtsp_address(), processes)).unwrap();
            let mode = |over| if over { ShutdownMode::End } else { ShutdownMode::Serve };
            server.run(&mut || mode(over.load(Ordering::Relaxed))).unwrap()
        });
        let (address, processes) = address.recv().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let rtcp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = [&socket, &rtcp].map(|socket| socket.local_addr().unwrap().port().to_string());
        let over = Arc::clone(&stop);
        let receiver = thread::spawn(move || receive(&socket, begun, &over));
        let clients = (0..clients).map(|_| {
            // Staggers the clients' start times.
            thread::sleep(PERIOD * 7 / 5 / 10);
            client(address, &ports.join("-"))
        });
        let clients = clients.collect();
        Self { stop, server, receiver, processes, _clients: clients }
    }

    /// Ends server and receiver.
    ///
    /// Returns the received packets, the server's report, and whether the receiver had real-time
    /// priority.
    pub(crate) fn end(self) -> (Vec<Arrival>, Report, bool) {
        self.stop.store(true, Ordering::Relaxed);
        let (arrivals, permitted) = self.receiver.join().unwrap();
        (arrivals, self.server.join().unwrap(), permitted)
    }
}
