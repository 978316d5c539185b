//! A player that keeps the packets that it receives: RTP by datagrams or interleaved.

use rtcp_types::{Compound, Packet};
use rtp_types::RtpPacket;
use rtsp_types::headers::{CSEQ, SESSION, TRANSPORT};
use rtsp_types::{Message, Method, ParseError, Request, Response, StatusCode, Url, Version};
use std::collections::{BTreeMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// RTP time.
    pub time: u32,
    /// 1, 2, 3: I, P, B.
    pub kind: u8,
    /// The number of the frame's received packets.
    pub packets: usize,
    /// Whether no packet before the frame's last one is missing.
    pub whole: bool,
    /// Arrival of its last packet.
    pub at: Instant,
}

/// A client of an RTSP server.
#[derive(Debug)]
pub struct Player {
    control: TcpStream,
    input: Vec<u8>,
    sequence: u32,
    url: String,
    session: Option<String>,
    sockets: Option<[UdpSocket; 2]>,
    server_rtcp: Option<SocketAddr>,
    /// Packets in order of arrival, RTP and goodbye.
    packets: Vec<(Instant, Vec<u8>)>,
    /// The server sent an RTCP BYE.
    pub bye: bool,
    /// The last sender report: NTP time, 2^-32 s, and RTP time.
    pub sender_report: Option<(u64, u32)>,
}

impl Player {
    /// Starts two players of `/name`: one by datagrams, one interleaved.
    ///
    /// # Panics
    /// Panics if the server refuses.
    pub fn udp_and_interleaved(server: SocketAddr, name: &str) -> [Self; 2] {
        [false, true].map(|interleaved| {
            let mut player = Self::open(server, name);
            assert_eq!(player.set_up(interleaved).status(), StatusCode::Ok);
            player.play();
            player
        })
    }

    /// Connects to a server for `/name`.
    ///
    /// # Panics
    /// Panics if the server does not accept.
    pub fn open(server: SocketAddr, name: &str) -> Self {
        Self::over(TcpStream::connect(server).unwrap(), server, name)
    }

    /// Returns the RTSP connection.
    pub fn into_control(self) -> TcpStream {
        self.control
    }

    /// Returns a player of `/name` over an open connection.
    pub fn over(control: TcpStream, server: SocketAddr, name: &str) -> Self {
        Self {
            control,
            input: Vec::new(),
            sequence: 0,
            url: format!("rtsp://{server}/{name}"),
            session: None,
            sockets: None,
            server_rtcp: None,
            packets: Vec::new(),
            bye: false,
            sender_report: None,
        }
    }

    /// Returns a player of another track of the session, `/name`, over the same connection.
    ///
    /// Both send their requests in turn.
    ///
    /// # Panics
    /// Panics if the connection cannot be shared.
    pub fn other_track(&self, server: SocketAddr, name: &str) -> Self {
        let control = self.control.try_clone().unwrap();
        let session = self.session.clone();
        Self { session, sequence: self.sequence, ..Self::over(control, server, name) }
    }

    /// Continues the session over a new connection, possibly to another server.
    ///
    /// # Panics
    /// Panics if the server does not accept.
    pub fn reconnect(&mut self, server: SocketAddr, name: &str) {
        self.control = TcpStream::connect(server).unwrap();
        self.set_url(server, name);
    }

    /// Selects the stream of the following requests.
    pub fn set_url(&mut self, server: SocketAddr, name: &str) {
        self.url = format!("rtsp://{server}/{name}");
    }

    /// Sends a request and returns its response.
    ///
    /// # Panics
    /// Panics if the server closes the connection or answers something else.
    pub fn ask(&mut self, method: Method, headers: &[(&str, String)]) -> Response<Vec<u8>> {
        self.sequence += 1;
        let mut request = Request::builder(method, Version::V1_0)
            .request_uri(Url::parse(&self.url).unwrap())
            .header(CSEQ, self.sequence.to_string());
        if let Some(session) = &self.session {
            request = request.header(SESSION, session.as_str());
        }
        for (name, value) in headers {
            let name = rtsp_types::HeaderName::try_from(*name).unwrap();
            request = request.header(name, value.as_str());
        }
        let mut bytes = Vec::new();
        request.empty().write(&mut bytes).unwrap();
        self.control.write_all(&bytes).unwrap();
        self.control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        loop {
            if let Some(response) = self.parse_response() {
                assert_eq!(response.header(&CSEQ).unwrap().as_str(), self.sequence.to_string());
                return response;
            }
            assert!(self.read(), "the server closed the connection");
        }
    }

    fn read(&mut self) -> bool {
        let mut chunk = [0; 65536];
        match self.control.read(&mut chunk) {
            Ok(0) => false,
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
                true
            }
        }
    }

    /// Parses the complete messages received so far; returns the first response.
    fn parse_response(&mut self) -> Option<Response<Vec<u8>>> {
        loop {
            match Message::<Vec<u8>>::parse(&self.input) {
                Ok((message, length)) => {
                    self.input.drain(..length);
                    match message {
                        Message::Response(response) => return Some(response),
                        Message::Data(data) if data.channel_id() == 0 => {
                            self.packets.push((Instant::now(), data.into_body()));
                        }
                        Message::Data(data) => self.control_packet(&data.into_body()),
                        Message::Request(request) => panic!("{request:?}"),
                    }
                }
                Err(ParseError::Incomplete(_)) => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn control_packet(&mut self, packet: &[u8]) {
        let compound = Compound::parse(packet).expect("RTCP");
        for packet in compound {
            match packet {
                Ok(Packet::Bye(_)) => self.bye = true,
                Ok(Packet::Sr(report)) => {
                    self.sender_report = Some((report.ntp_timestamp(), report.rtp_timestamp()));
                }
                _ => {}
            }
        }
    }

    /// Sets up a session and returns the response.
    ///
    /// # Panics
    /// Panics if there are no sockets, or the response lacks a header.
    pub fn set_up(&mut self, interleaved: bool) -> Response<Vec<u8>> {
        let transport = if interleaved {
            "RTP/AVP/TCP;unicast;interleaved=0-1".to_owned()
        } else {
            let local = self.control.local_addr().unwrap().ip();
            let sockets = [(); 2].map(|()| UdpSocket::bind((local, 0)).unwrap());
            let [rtp, rtcp] = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap().port());
            self.sockets = Some(sockets);
            format!("RTP/AVP;unicast;client_port={rtp}-{rtcp}")
        };
        self.set_up_with(transport)
    }

    /// Sets up a session whose RTP and RTCP go to a socket of the caller: `ports` is
    /// `RTP-RTCP`.
    ///
    /// # Panics
    /// See [`set_up`](Self::set_up).
    pub fn set_up_to(&mut self, ports: &str) -> Response<Vec<u8>> {
        self.set_up_with(format!("RTP/AVP;unicast;client_port={ports}"))
    }

    fn set_up_with(&mut self, transport: String) -> Response<Vec<u8>> {
        let response = self.ask(Method::Setup, &[("Transport", transport)]);
        if response.status() == StatusCode::Ok {
            let session = response.header(&SESSION).unwrap().as_str();
            self.session = Some(session.split(';').next().unwrap().to_owned());
            let transport = response.header(&TRANSPORT).unwrap().as_str();
            if let Some((_, ports)) = transport.split_once("server_port=") {
                let rtcp = ports.split(['-', ';']).nth(1).unwrap().parse().unwrap();
                let server = self.control.peer_addr().unwrap();
                self.server_rtcp = Some(SocketAddr::new(server.ip(), rtcp));
            }
        }
        response
    }

    /// Starts playback.
    ///
    /// # Panics
    /// Panics if the server refuses.
    pub fn play(&mut self) {
        assert_eq!(self.ask(Method::Play, &[]).status(), StatusCode::Ok);
    }

    /// Sends an empty RTCP receiver report.
    ///
    /// # Panics
    /// Panics if the session is interleaved or not set up.
    pub fn report(&self) {
        let [_, rtcp] = self.sockets.as_ref().unwrap();
        let empty_receiver_report = [0x80, 201, 0, 1, 0, 0, 0, 7];
        rtcp.send_to(&empty_receiver_report, self.server_rtcp.unwrap()).unwrap();
    }

    /// Receives packets for `time`, or until the server's RTCP BYE.
    ///
    /// # Panics
    /// Panics if the connection fails, or packets are malformed.
    pub fn watch(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while !self.bye && Instant::now() < end {
            let Some([rtp, rtcp]) = self.sockets.take() else {
                self.control.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                self.read();
                assert!(self.parse_response().is_none());
                continue;
            };
            let mut packet = [0; 65536];
            rtp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            if let Ok(length) = rtp.recv(&mut packet) {
                self.packets.push((Instant::now(), packet[..length].to_vec()));
            }
            rtcp.set_nonblocking(true).unwrap();
            if let Ok(length) = rtcp.recv(&mut packet) {
                self.control_packet(&packet[..length]);
            }
            // RTP that the server sent before its BYE.
            if self.bye {
                rtp.set_nonblocking(true).unwrap();
                while let Ok(length) = rtp.recv(&mut packet) {
                    self.packets.push((Instant::now(), packet[..length].to_vec()));
                }
            }
            self.sockets = Some([rtp, rtcp]);
        }
    }

    /// Receives packets until they complete the given number of frames.
    ///
    /// # Panics
    /// Panics if that takes half a minute.
    pub fn receive_frames(&mut self, frames: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        let times = |packets: &[(Instant, Vec<u8>)]| {
            let time =
                |packet: &(Instant, Vec<u8>)| RtpPacket::parse(&packet.1).unwrap().timestamp();
            packets.iter().map(time).collect::<HashSet<_>>().len()
        };
        while times(&self.packets) < frames {
            assert!(Instant::now() < end, "{} of {frames} frames", times(&self.packets));
            self.watch(Duration::from_millis(50));
        }
    }

    /// Returns the source and the sequence number of each packet received since
    /// [`frames`](Self::frames).
    ///
    /// # Panics
    /// Panics if a packet is malformed.
    pub fn sources(&self) -> Vec<(u32, u16)> {
        let parsed = self.packets.iter().map(|(_, packet)| RtpPacket::parse(packet).unwrap());
        parsed.map(|packet| (packet.ssrc(), packet.sequence_number())).collect()
    }

    /// Returns the frames received since the last call.
    ///
    /// # Panics
    /// Panics if a packet is malformed.
    pub fn frames(&mut self) -> Vec<ReceivedFrame> {
        let mut frames: Vec<ReceivedFrame> = Vec::new();
        let mut last_number: Option<u16> = None;
        for (at, packet) in self.packets.drain(..) {
            let packet = RtpPacket::parse(&packet).expect("RTP");
            let number = packet.sequence_number();
            let follows = last_number.is_none_or(|last| last.wrapping_add(1) == number);
            last_number = Some(number);
            let time = packet.timestamp();
            if frames.last().is_none_or(|frame| frame.time != time) {
                let kind = packet.payload()[2] & 7;
                frames.push(ReceivedFrame { time, kind, packets: 0, whole: true, at });
            }
            let frame = frames.last_mut().unwrap();
            frame.packets += 1;
            frame.at = at;
            frame.whole &= follows;
        }
        frames
    }

    /// Counts the I, P and B frames among `frames`.
    pub fn kinds(frames: &[ReceivedFrame]) -> [u64; 3] {
        let mut counts = BTreeMap::new();
        for frame in frames {
            *counts.entry(frame.kind).or_insert(0) += 1;
        }
        [1, 2, 3].map(|kind| counts.get(&kind).copied().unwrap_or(0))
    }
}
