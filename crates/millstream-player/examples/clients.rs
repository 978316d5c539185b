//! Clients of any media server: plays a stream many times and judges every frame.
//!
//! Usage: `clients rtsp|whep ADDRESS PATH CLIENTS SETTLED-MS MEASURED-MS`. PATH is `clip/TRACK` by
//! RTSP, and the path of the request by WHEP. Prints `playing` when all clients play, so that a
//! load can start, `measuring` after SETTLED-MS, `measured` after MEASURED-MS more, and one line of
//! results:
//!
//! ```text
//! frames,lost,on_time,p50_us,p99_us,max_us,bytes_per_s,used_percent,steal_percent,overflowed
//! ```
//! A frame is on time if the last of its packets arrives within a period of its due time, which
//! follows from its RTP time. Arrivals are the kernel's times. A lost frame is as late as the end
//! of the measurement. *Used* is CPU time of the whole machine without steal time; *overflowed*
//! counts datagrams that the clients read too late.
//!
//! The rule is the same by RTSP and by WHEP: what a server paces is late. WHEP clients send the
//! feedback of browsers (NACK, TWCC). A frame with a packet that is sent again arrives with that
//! one; if it is sent by RTX, which encrypts the number that it repeats, the frame is lost.
//!
//! `benches/peers/media_servers.py` calls it.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use millstream_player::{Arrival, Player, StampedSocket, delays};
use rtp_types::RtpPacket;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use str0m::change::SdpAnswer;
use str0m::media::{Direction, MediaKind};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Input, Output, Rtc};

/// The period of the film.
const PERIOD: Duration = Duration::from_millis(40);

/// The time after all clients play whose frames are ignored: servers send the first ones early.
const STARTING: Duration = Duration::from_millis(400);

/// The time after the measurement in which late frames still arrive.
const LATE: Duration = Duration::from_millis(500);

/// The interval at which the sockets are read.
const READ_EVERY: Duration = Duration::from_millis(10);

/// The time that the clients have to begin to play.
const START_WITHIN: Duration = Duration::from_secs(60);

/// WHEP clients that may be connecting at once; `millstream serve` permits 16.
const CONNECTING: usize = 8;

/// A client.
struct Client {
    socket: StampedSocket,
    arrivals: Vec<Arrival>,
    /// The WebRTC session of a WHEP client, and its time: the library's times must not decrease.
    rtc: Option<(Rtc, Instant)>,
    /// The RTSP connection, which stays open while the client plays, and the RTCP socket.
    _rtsp: Option<(Player, UdpSocket)>,
}

impl Client {
    /// Plays `path` of an RTSP server.
    fn rtsp(server: SocketAddr, path: &str) -> Self {
        // Some servers refuse two sessions with the same ports.
        let (socket, rtcp) = (StampedSocket::open(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        let mut player = Player::open(server, path);
        let set_up = player.set_up_to(&format!("{}-{}", port(socket.socket()), port(&rtcp)));
        assert!(set_up.status().is_success(), "{set_up:?}");
        player.set_url(server, path.split('/').next().unwrap());
        player.play();
        Self { socket, arrivals: Vec::new(), rtc: None, _rtsp: Some((player, rtcp)) }
    }

    /// Plays `path` of a WHEP server.
    fn whep(server: SocketAddr, path: &str) -> Self {
        let socket = StampedSocket::open();
        let own = socket.socket().local_addr().unwrap();
        let mut rtc = Rtc::builder().clear_codecs().enable_h264(true).build(Instant::now());
        rtc.add_local_candidate(Candidate::host(own, "udp").unwrap());
        let mut changes = rtc.sdp_api();
        changes.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
        let (offer, pending) = changes.apply().unwrap();
        let offer = offer.to_sdp_string();
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Type: \
             application/sdp\r\nContent-Length: {}\r\n\r\n{offer}",
            offer.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 201 "), "{response}");
        rtc.sdp_api().accept_answer(pending, SdpAnswer::from_sdp_string(body).unwrap()).unwrap();
        Self { socket, arrivals: Vec::new(), rtc: Some((rtc, Instant::now())), _rtsp: None }
    }

    /// Reads what waits, and sends what is due.
    fn step(&mut self, begun: Duration, buffer: &mut [u8]) {
        let own = self.socket.socket().local_addr().unwrap();
        while let Some(datagram) = self.socket.receive(buffer) {
            let bytes = &buffer[..datagram.bytes];
            if let Some(packet) = rtp(bytes) {
                self.arrivals.push(Arrival {
                    at: datagram.at - begun,
                    source: packet.ssrc(),
                    number: packet.sequence_number(),
                    time: packet.timestamp(),
                    bytes: datagram.bytes,
                    last: packet.marker_bit(),
                });
            }
            if let Some((rtc, time)) = &mut self.rtc
                && let Ok(receive) = Receive::new(Protocol::Udp, datagram.source, own, bytes)
            {
                // Feedback with the time of the read would tell the server of a path of bursts.
                let waited = SystemTime::now().duration_since(UNIX_EPOCH + datagram.at);
                let at = Instant::now() - waited.unwrap_or_default();
                *time = at.max(*time);
                rtc.handle_input(Input::Receive(*time, receive)).unwrap();
                send(rtc, self.socket.socket());
            }
        }
        if let Some((rtc, time)) = &mut self.rtc {
            *time = Instant::now();
            rtc.handle_input(Input::Timeout(*time)).unwrap();
            send(rtc, self.socket.socket());
        }
    }

    /// Returns the arrivals of the video: of the source with the most bytes. The others are
    /// repeated packets and probes.
    fn video(&self) -> Vec<Arrival> {
        let mut bytes: HashMap<u32, usize> = HashMap::new();
        for arrival in &self.arrivals {
            *bytes.entry(arrival.source).or_default() += arrival.bytes;
        }
        let most = bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(source, _)| source);
        self.arrivals.iter().filter(|arrival| Some(arrival.source) == most).copied().collect()
    }
}

/// Sends a session's output.
fn send(rtc: &mut Rtc, socket: &UdpSocket) {
    loop {
        match rtc.poll_output().unwrap() {
            Output::Timeout(_) => return,
            Output::Transmit(packet) => {
                socket.send_to(&packet.contents, packet.destination).unwrap();
            }
            Output::Event(_) => {}
        }
    }
}

/// Returns a datagram as RTP, unless it is RTCP, STUN or DTLS (RFC 5761, 4; RFC 7983, 7). SRTP
/// leaves the header readable.
fn rtp(bytes: &[u8]) -> Option<RtpPacket<'_>> {
    let is_rtp = matches!(bytes, [128..=191, kind, ..] if !(64..=95).contains(&(kind & 0x7f)));
    is_rtp.then(|| RtpPacket::parse(bytes).ok()).flatten()
}

/// Reads the sockets of all clients until `stop`; returns the clients. `playing` counts those that
/// have received a packet.
fn read_all(
    incoming: &Receiver<Client>,
    begun: Duration,
    playing: &AtomicUsize,
    stop: &AtomicBool,
) -> Vec<Client> {
    let mut clients: Vec<Client> = Vec::new();
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        clients.extend(incoming.try_iter());
        for client in &mut clients {
            client.step(begun, &mut buffer);
        }
        let receiving = clients.iter().filter(|client| !client.arrivals.is_empty()).count();
        playing.store(receiving, Ordering::Relaxed);
        thread::sleep(READ_EVERY);
    }
    clients
}

/// Opens the clients one after another, and returns once all play.
fn open_all(
    count: usize,
    open: impl Fn() -> Client,
    connecting: usize,
    to: &Sender<Client>,
    playing: &AtomicUsize,
) {
    let end = Instant::now() + START_WITHIN;
    let wait_for = |wanted: usize| {
        while playing.load(Ordering::Relaxed) < wanted {
            let found = playing.load(Ordering::Relaxed);
            assert!(Instant::now() < end, "{found} of {count} clients play");
            thread::sleep(Duration::from_millis(1));
        }
    };
    for opened in 1..=count {
        // Staggers the clients' start times.
        thread::sleep(PERIOD * 7 / 5 / 10);
        to.send(open()).unwrap();
        wait_for(opened.saturating_sub(connecting));
    }
    wait_for(count);
}

/// Returns the machine's CPU time of all cores in ticks: used by this machine, taken from it by its
/// host (steal), and all.
fn processor_ticks() -> [u64; 3] {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let first = stat.lines().next().unwrap();
    let fields: Vec<u64> =
        first.split_whitespace().skip(1).take(8).map(|n| n.parse().unwrap()).collect();
    let all: u64 = fields.iter().sum();
    let [idle, steal] = [fields[3] + fields[4], fields[7]];
    [all - idle - steal, steal, all]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, address, path, clients, settled, measured] = &arguments[..] else {
        println!("run by benches/peers/media_servers.py");
        return;
    };
    let address: SocketAddr = address.parse().unwrap();
    let count: usize = clients.parse().unwrap();
    let [settled, measured] =
        [settled, measured].map(|ms| Duration::from_millis(ms.parse().unwrap()));
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - begun;
    let (to, incoming) = channel();
    let (stop, playing) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (over, receiving) = (Arc::clone(&stop), Arc::clone(&playing));
    let reader = thread::spawn(move || read_all(&incoming, begun, &receiving, &over));
    match protocol.as_str() {
        "rtsp" => open_all(count, || Client::rtsp(address, path), count, &to, &playing),
        "whep" => open_all(count, || Client::whep(address, path), CONNECTING, &to, &playing),
        other => panic!("unknown protocol `{other}`: rtsp or whep"),
    }
    println!("playing");
    let started = now() + STARTING;
    thread::sleep(settled);
    println!("measuring");
    let (from, before) = (now(), processor_ticks());
    thread::sleep(measured);
    let (end, after) = (now(), processor_ticks());
    println!("measured");
    thread::sleep(LATE);
    let over = now();
    stop.store(true, Ordering::Relaxed);
    let (mut bytes, mut overflowed, mut frames) = (0, 0, Vec::new());
    for client in reader.join().unwrap() {
        let mut arrivals = client.video();
        arrivals.retain(|arrival| arrival.at >= started);
        assert!(!arrivals.is_empty(), "a client received nothing");
        let inside = arrivals.iter().filter(|arrival| (from..end).contains(&arrival.at));
        bytes += inside.map(|arrival| arrival.bytes).sum::<usize>();
        overflowed += client.socket.overflowed;
        frames.extend(delays(&arrivals, PERIOD, from..end));
    }
    let lost = frames.iter().filter(|late| late.is_none()).count();
    let on_time = frames.iter().flatten().filter(|late| **late <= PERIOD).count();
    let mut late: Vec<u128> =
        frames.iter().map(|late| late.unwrap_or(over - from).as_micros()).collect();
    late.sort_unstable();
    let at = |part: usize| late[(late.len() - 1) * part / 100];
    let part = |of: usize| (after[of] - before[of]) as f64 * 100.0 / (after[2] - before[2]) as f64;
    println!(
        "{},{lost},{on_time},{},{},{},{:.0},{:.1},{:.2},{overflowed}",
        frames.len(),
        at(50),
        at(99),
        at(100),
        bytes as f64 / (end - from).as_secs_f64(),
        part(0),
        part(1),
    );
}
