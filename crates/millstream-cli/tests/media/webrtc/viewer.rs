//! A WebRTC client for tests: str0m over a UDP socket, and requests over TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::format::{Codec, PayloadParams};
use str0m::media::{Direction, KeyframeRequestKind, MediaData, MediaKind, MediaTime, Mid};
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
    /// The response to its offer.
    pub(crate) response: Response,
    pub(crate) frames: Vec<MediaData>,
    pub(crate) audio: Vec<MediaData>,
    /// The bytes of all datagrams.
    pub(crate) received_bytes: usize,
    pub(crate) closed: bool,
    /// The rate that its path carries, bits/s: datagrams beyond are lost. 0: any.
    pub(crate) path_bps: u64,
    /// Every datagram with a number that this divides is lost. 0: none.
    pub(crate) lost: usize,
    datagrams: usize,
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
        let socket = UdpSocket::bind((server.ip(), 0)).unwrap();
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
            response,
            frames: Vec::new(),
            audio: Vec::new(),
            received_bytes: 0,
            closed: false,
            path_bps: 0,
            lost: 0,
            datagrams: 0,
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
        self.datagrams += 1;
        if self.lost > 0 && self.datagrams.is_multiple_of(self.lost) {
            return false;
        }
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

    /// Sends what is due, and receives for at most 10 ms.
    pub(crate) fn step(&mut self) {
        let mut events = Vec::new();
        let due = drain(&mut self.rtc, &self.socket, &mut events);
        for event in events {
            match event {
                Event::MediaData(data) if data.mid == self.video => self.frames.push(data),
                Event::MediaData(data) => self.audio.push(data),
                Event::Closed => self.closed = true,
                _ => {}
            }
        }
        let mut buffer = [0; 2_000];
        match receive(&self.socket, due, &mut buffer) {
            Some((length, source)) if self.carries(length) => {
                self.received_bytes += length;
                input(&mut self.rtc, &self.socket, source, &buffer[..length]);
            }
            _ => self.rtc.handle_input(Input::Timeout(Instant::now())).unwrap(),
        }
    }
}

/// Sends an `Rtc`'s output; returns when it is due.
fn drain(rtc: &mut Rtc, socket: &UdpSocket, events: &mut Vec<Event>) -> Instant {
    loop {
        match rtc.poll_output().unwrap() {
            Output::Timeout(due) => return due,
            Output::Transmit(packet) => {
                socket.send_to(&packet.contents, packet.destination).unwrap();
            }
            Output::Event(event) => events.push(event),
        }
    }
}

/// Receives a datagram within at most 10 ms.
fn receive(socket: &UdpSocket, due: Instant, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    let wait = due.saturating_duration_since(Instant::now());
    let wait = wait.clamp(Duration::from_millis(1), Duration::from_millis(10));
    socket.set_read_timeout(Some(wait)).unwrap();
    socket.recv_from(buffer).ok()
}

fn input(rtc: &mut Rtc, socket: &UdpSocket, source: SocketAddr, bytes: &[u8]) {
    let destination = socket.local_addr().unwrap();
    let receive = Receive::new(Protocol::Udp, source, destination, bytes).unwrap();
    rtc.handle_input(Input::Receive(Instant::now(), receive)).unwrap();
}

/// The interval between the frames of a publisher.
const PERIOD: Duration = Duration::from_millis(40);

/// A client that publishes frames of a codec.
pub(crate) struct Publisher {
    rtc: Rtc,
    socket: UdpSocket,
    video: Mid,
    codec: Codec,
    frames: Vec<Vec<u8>>,
    /// The number of frames sent.
    pub(crate) sent: usize,
    /// When the next frame is due, once the client is connected.
    next: Option<Instant>,
    pub(crate) key_frames_requested: usize,
    /// The server's answer.
    pub(crate) answer: String,
    /// The path of its session.
    pub(crate) session: String,
}

impl Publisher {
    /// Offers to publish `frames` of H.264 at `path`; `Err` has the server's refusal.
    pub(crate) fn open(
        server: SocketAddr,
        path: &str,
        frames: Vec<Vec<u8>>,
    ) -> Result<Self, Response> {
        Self::open_codec(server, path, frames, Codec::H264)
    }

    /// Offers to publish `frames` of any codec at `path`.
    pub(crate) fn open_codec(
        server: SocketAddr,
        path: &str,
        frames: Vec<Vec<u8>>,
        codec: Codec,
    ) -> Result<Self, Response> {
        let socket = UdpSocket::bind((server.ip(), 0)).unwrap();
        let mut rtc = Rtc::builder().build(Instant::now());
        rtc.add_local_candidate(Candidate::host(socket.local_addr().unwrap(), "udp").unwrap());
        let mut changes = rtc.sdp_api();
        let video = changes.add_media(MediaKind::Video, Direction::SendOnly, None, None, None);
        let (offer, pending) = changes.apply().unwrap();
        let response = request(server, &format!("POST {path}"), SDP, &offer.to_sdp_string());
        if response.status != 201 {
            return Err(response);
        }
        let answer = SdpAnswer::from_sdp_string(&response.body).unwrap();
        rtc.sdp_api().accept_answer(pending, answer).unwrap();
        let (sent, next, key_frames_requested) = (0, None, 0);
        let session = response.header("Location").unwrap().to_owned();
        let answer = response.body;
        Ok(Self {
            rtc,
            socket,
            video,
            codec,
            frames,
            sent,
            next,
            key_frames_requested,
            answer,
            session,
        })
    }

    /// Returns whether all frames are sent.
    pub(crate) fn is_over(&self) -> bool {
        self.sent == self.frames.len()
    }

    /// Sends what is due, and receives feedback for at most 10 ms.
    pub(crate) fn step(&mut self) {
        let mut events = Vec::new();
        let due = drain(&mut self.rtc, &self.socket, &mut events);
        for event in events {
            match event {
                Event::Connected => self.next = Some(Instant::now()),
                Event::KeyframeRequest(_) => self.key_frames_requested += 1,
                _ => {}
            }
        }
        if let Some(next) = self.next
            && next <= Instant::now()
            && let Some(frame) = self.frames.get(self.sent)
        {
            let time = MediaTime::from_90khz(self.sent as u64 * 3_600);
            let writer = self.rtc.writer(self.video).unwrap();
            let mode = |params: &&PayloadParams| {
                let spec = params.spec();
                let is_h264 = self.codec == Codec::H264;
                spec.codec == self.codec && (!is_h264 || spec.format.packetization_mode == Some(1))
            };
            let payload_type = writer.payload_params().find(mode).unwrap().pt();
            writer.write(payload_type, next, time, frame.clone()).unwrap();
            (self.sent, self.next) = (self.sent + 1, Some(next + PERIOD));
            return;
        }
        let mut buffer = [0; 2_000];
        match receive(&self.socket, due, &mut buffer) {
            Some((length, source)) => {
                input(&mut self.rtc, &self.socket, source, &buffer[..length]);
            }
            None => self.rtc.handle_input(Input::Timeout(Instant::now())).unwrap(),
        }
    }
}
