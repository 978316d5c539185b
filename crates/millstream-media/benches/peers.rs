//! Compares the media server, host and NI, with a peer: one media file and one receiver.
//!
//! Each server is measured without load and with a busy loop per core. It is a separate process, so
//! the system accounts for its CPU time. Lateness is the arrival time of a frame's last packet
//! minus its RTP time, relative to the client's best frame. A frame is lost if its last packet did
//! not arrive, but those of earlier and later frames did.
//!
//! `benches/peers/media.sh` calls it: `MILLSTREAM MEDIA-FILE PEER [ARGUMENT...] CLIENTS...`.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

mod load;
mod playing;

use load::{BusyLoops, ticks};
use millstream_player::{Arrival, receive};
use playing::{PERIOD, client};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_secs(10);

/// The time before the measurement, in which clients start and pipelines are built.
const SETTLED: Duration = Duration::from_secs(3);

/// The RTP time between two frames, 1/90,000 s.
const FRAME: u32 = 3_600;

/// A running server.
struct Server {
    child: Child,
    address: SocketAddr,
    processes: Vec<u32>,
    track: &'static str,
}

impl Server {
    /// Starts Millstream's media server.
    fn ours(program: &str, media_file: &Path, placement: &str) -> Self {
        let scenario = media_file.with_file_name(format!("{placement}.toml"));
        let text = format!(
            "[media]\nlisten = \"127.0.0.1:0\"\nplacement = \"{placement}\"\n\
             sessions-per-address = 256\nconnections-per-address = 512\n[link]\nrate = \"1 Gbps\"\n\
             overhead = 28\n[scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\nname = \"clip\"\n\
             period = \"40 ms\"\nwindow = \"2/12\"\nfirst-deadline = \"200 ms\"\nlate = \"drop\"\n\
             source = {{ kind = \"mpeg\", file = \"{}\" }}\n",
            media_file.display()
        );
        std::fs::write(&scenario, text).unwrap();
        let mut command = Command::new(program);
        let child = command.args(["serve", "--json"]).arg(&scenario).stderr(Stdio::piped());
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = address(&lines.next().unwrap().unwrap());
        let mut processes = vec![child.id()];
        if placement == "ni" {
            let line = lines.find_map(|line| Some(line.ok()?.split_once("process ")?.1.to_owned()));
            processes.push(line.unwrap().parse().unwrap());
        }
        Self { child, address, processes, track: "/video" }
    }

    fn peer(program: &[String], media_file: &Path) -> Self {
        let mut command = Command::new(&program[0]);
        let child = command.args(&program[1..]).arg(media_file).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let processes = vec![child.id()];
        Self { child, address: address(&line), processes, track: "/stream=0" }
    }

    /// Returns the CPU time of all its processes so far, in ticks of 10 ms.
    fn used(&self) -> u64 {
        let of = |id: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        self.processes.iter().map(of).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        let _ = self.child.wait();
    }
}

fn address(line: &str) -> SocketAddr {
    let rest = line.trim().strip_prefix("rtsp://").expect("the server's rtsp:// address");
    rest.split('/').next().unwrap().parse().unwrap()
}

/// The results of a measurement.
struct Outcome {
    frames: usize,
    lost: usize,
    /// The sorted lateness, µs.
    late: Vec<u128>,
    /// The server's CPU use, in cores.
    share: f64,
    busy_percent: f64,
    trusted: bool,
}

/// Returns the number of frames, the losses and the lateness, µs, from one client's packets.
fn frames(arrivals: &[Arrival]) -> (usize, usize, Vec<u128>) {
    let first = arrivals[0].time;
    let number = |arrival: &Arrival| arrival.time.wrapping_sub(first) / FRAME;
    let whole: HashMap<u32, Duration> =
        arrivals.iter().filter(|a| a.last).map(|a| (number(a), a.at)).collect();
    let (from, to) = (whole.keys().min().unwrap(), whole.keys().max().unwrap());
    let due = |number: u32| PERIOD * number;
    let offsets = whole.iter().map(|(n, at)| at.as_nanos() as i128 - due(*n).as_nanos() as i128);
    let offsets: Vec<i128> = offsets.collect();
    let best = offsets.iter().min().copied().unwrap();
    let late = offsets.iter().map(|offset| (offset - best).unsigned_abs() / 1_000).collect();
    (whole.len(), (to - from + 1) as usize - whole.len(), late)
}

fn measure(server: &Server, clients: usize, loops: usize) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rtcp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ports = [&socket, &rtcp].map(|socket| socket.local_addr().unwrap().port().to_string());
    let over = Arc::clone(&stop);
    let receiver = thread::spawn(move || receive(&socket, begun, &over));
    let ports = ports.join("-");
    let controls: Vec<_> = (0..clients)
        .map(|_| {
            // Staggers the clients' start times.
            thread::sleep(PERIOD * 7 / 5 / 10);
            client(server.address, server.track, &ports)
        })
        .collect();
    let busy = BusyLoops::start(loops);
    thread::sleep(SETTLED);
    let (from, used, before) = (begun.elapsed(), server.used(), ticks());
    thread::sleep(MEASURED);
    let (to, used, after) = (begun.elapsed(), server.used() - used, ticks());
    stop.store(true, Ordering::Relaxed);
    let (arrivals, trusted) = receiver.join().unwrap();
    busy.stop();
    drop(controls);
    let mut of: HashMap<u32, Vec<Arrival>> = HashMap::new();
    for arrival in arrivals.into_iter().filter(|arrival| (from..to).contains(&arrival.at)) {
        of.entry(arrival.source).or_default().push(arrival);
    }
    assert_eq!(of.len(), clients, "packets from every client's session");
    let mut outcome = Outcome {
        frames: 0,
        lost: 0,
        late: Vec::new(),
        share: used as f64 / 100.0 / (to - from).as_secs_f64(),
        busy_percent: (after.0 - before.0) as f64 * 100.0 / (after.1 - before.1).max(1) as f64,
        trusted,
    };
    for arrivals in of.values() {
        let (frames, lost, late) = frames(arrivals);
        outcome.frames += frames;
        outcome.lost += lost;
        outcome.late.extend(late);
    }
    outcome.late.sort_unstable();
    outcome
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [millstream, media_file, rest @ ..] = &arguments[..] else {
        println!("run by benches/peers/media.sh");
        return;
    };
    let media_file = PathBuf::from(media_file);
    let split = rest.iter().position(|argument| argument.parse::<usize>().is_ok());
    let (peer, clients) = rest.split_at(split.expect("a number of clients"));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "| server | clients | host load (%) | frames | lost | p50 late (µs) | p99 | max | \
         streams per core |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut trusted = true;
    for clients in clients.iter().map(|clients| clients.parse::<usize>().unwrap()) {
        for loops in [0, cores] {
            for name in ["millstream, host", "millstream, ni", "GStreamer"] {
                let server = match name.split_once(", ") {
                    Some((_, placement)) => Server::ours(millstream, &media_file, placement),
                    None => Server::peer(peer, &media_file),
                };
                let outcome = measure(&server, clients, loops);
                trusted &= outcome.trusted;
                let at = |part: usize| outcome.late[(outcome.late.len() - 1) * part / 100];
                println!(
                    "| {name} | {clients} | {:.0} | {} | {} | {} | {} | {} | {:.0} |",
                    outcome.busy_percent,
                    outcome.frames,
                    outcome.lost,
                    at(50),
                    at(99),
                    at(100),
                    clients as f64 / outcome.share.max(1e-4),
                );
            }
        }
    }
    if !trusted {
        println!("\nThe receiver had no real-time priority: the lateness includes its own delays.");
    }
}
