//! A WebRTC client for tests: str0m over a UDP socket, and requests over TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::media::{Direction, KeyframeRequestKind, MediaData, MediaKind, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends a request on a connection of its own.
pub(crate) fn request(server: SocketAddr, head: &str, headers: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{headers}Content-Length: \
         {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

/// The header of an offer.
pub(crate) const SDP: &str = "Content-Type: application/sdp\r\n";

/// A client that plays a stream.
pub(crate) struct Viewer {
    rtc: Rtc,
    socket: UdpSocket,
    video: Mid,
    /// The path of its session.
    pub(crate) session: String,
    pub(crate) frames: Vec<MediaData>,
    pub(crate) audio: Vec<MediaData>,
    /// The bytes of all datagrams.
    pub(crate) received_bytes: usize,
    pub(crate) closed: bool,
    /// The rate that its path carries, bits/s: datagrams beyond are lost. 0: any.
    pub(crate) path_bps: u64,
    credit_bits: u64,
    credited: Instant,
}

/// Returns a client's offer to play video and audio.
pub(crate) fn offer(rtc: &mut Rtc) -> (Mid, String, SdpPendingOffer) {
    let mut changes = rtc.sdp_api();
    let video = changes.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
    changes.add_media(MediaKind::Audio, Direction::RecvOnly, None, None, None);
    let (offer, pending) = changes.apply().unwrap();
    (video, offer.to_sdp_string(), pending)
}

impl Viewer {
    /// Offers to play `path`; `Err` has the server's refusal.
    pub(crate) fn open(server: SocketAddr, path: &str, headers: &str) -> Result<Self, Response> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut rtc = Rtc::builder().enable_pcmu(true, false).build(Instant::now());
        let own = Candidate::host(socket.local_addr().unwrap(), "udp").unwrap();
        rtc.add_local_candidate(own);
        let (video, offer, pending) = offer(&mut rtc);
        let response = request(server, &format!("POST {path}"), &format!("{SDP}{headers}"), &offer);
        if response.status != 201 {
            return Err(response);
        }
        let answer = SdpAnswer::from_sdp_string(&response.body).unwrap();
        rtc.sdp_api().accept_answer(pending, answer).unwrap();
        Ok(Self {
            rtc,
            socket,
            video,
            session: response.header("Location").unwrap().to_owned(),
            frames: Vec::new(),
            audio: Vec::new(),
            received_bytes: 0,
            closed: false,
            path_bps: 0,
            credit_bits: 0,
            credited: Instant::now(),
        })
    }

    /// Receives until `is_over`; fails after a minute.
    pub(crate) fn receive_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_over(self) {
            assert!(Instant::now() < end, "{} frames after a minute", self.frames.len());
            self.step();
        }
    }

    /// Receives for a time.
    pub(crate) fn receive_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.receive_until(|_| Instant::now() >= end);
    }

    /// Requests a key frame.
    pub(crate) fn request_key_frame(&mut self) {
        let mut writer = self.rtc.writer(self.video).unwrap();
        writer.request_keyframe(None, KeyframeRequestKind::Pli).unwrap();
    }

    /// Returns whether the path carries a datagram.
    fn carries(&mut self, bytes: usize) -> bool {
        if self.path_bps == 0 {
            return true;
        }
        let elapsed = u64::try_from(self.credited.elapsed().as_nanos()).unwrap();
        self.credited = Instant::now();
        let gained = self.path_bps * elapsed / 1_000_000_000;
        // A queue of 50 ms.
        self.credit_bits = (self.credit_bits + gained).min(self.path_bps / 20);
        let cost = 8 * bytes as u64;
        let carries = self.credit_bits >= cost;
        self.credit_bits -= if carries { cost } else { 0 };
        carries
    }

    fn step(&mut self) {
        let due = loop {
            match self.rtc.poll_output().unwrap() {
                Output::Timeout(due) => break due,
                Output::Transmit(packet) => {
                    self.socket.send_to(&packet.contents, packet.destination).unwrap();
                }
                Output::Event(Event::MediaData(data)) if data.mid == self.video => {
                    self.frames.push(data);
                }
                Output::Event(Event::MediaData(data)) => self.audio.push(data),
                Output::Event(Event::Closed) => self.closed = true,
                Output::Event(_) => {}
            }
        };
        let wait = due.saturating_duration_since(Instant::now());
        let wait = wait.clamp(Duration::from_millis(1), Duration::from_millis(20));
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut buffer = [0; 2_000];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, source)) if self.carries(length) => {
                self.received_bytes += length;
                let destination = self.socket.local_addr().unwrap();
                let bytes = &buffer[..length];
                let receive = Receive::new(Protocol::Udp, source, destination, bytes).unwrap();
                self.rtc.handle_input(Input::Receive(Instant::now(), receive)).unwrap();
            }
            _ => self.rtc.handle_input(Input::Timeout(Instant::now())).unwrap(),
        }
    }
}
