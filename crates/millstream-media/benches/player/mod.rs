//! Players for the benchmarks: RTSP to the server, and everything that arrives, with the time.

#![allow(dead_code)]

use millstream_media::{MediaServer, Report, ShutdownMode};
use millstream_scenario::Scenario;
use rtp_types::RtpPacket;
use rtsp_types::headers::{CSEQ, SESSION};
use rtsp_types::{Message, Method, ParseError, Request, Response, Url, Version};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The example clip's.
pub(crate) const PERIOD: Duration = Duration::from_millis(40);

/// The example clip on a link with room for everybody.
pub(crate) fn scenario(placement: &str) -> Scenario {
    scenario_by(placement, "host")
}

/// The same, its frames coming to the processor by `path`.
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
    Scenario::parse("bench.toml", &text, &folder).unwrap()
}

/// One request and its answer.
fn ask(
    control: &mut TcpStream,
    method: Method,
    url: &str,
    more: &[(&str, &str)],
) -> Response<Vec<u8>> {
    let mut request = Request::builder(method, Version::V1_0)
        .request_uri(Url::parse(url).unwrap())
        .header(CSEQ, "1");
    for (name, value) in more {
        request = request.header(rtsp_types::HeaderName::try_from(*name).unwrap(), *value);
    }
    let mut bytes = Vec::new();
    request.empty().write(&mut bytes).unwrap();
    control.write_all(&bytes).unwrap();
    let mut input = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = control.read(&mut chunk).unwrap();
        assert!(count > 0, "the server closed");
        input.extend_from_slice(&chunk[..count]);
        match Message::<Vec<u8>>::parse(&input) {
            Ok((Message::Response(response), _)) => return response,
            Err(ParseError::Incomplete(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A client of our own server.
pub(crate) fn client(address: SocketAddr, ports: &str) -> TcpStream {
    client_of(address, "/video", ports)
}

/// A client of any server's `/clip`, whose track is called `track`.
pub(crate) fn client_of(address: SocketAddr, track: &str, ports: &str) -> TcpStream {
    let mut control = TcpStream::connect(address).unwrap();
    let url = format!("rtsp://{address}/clip");
    let transport = format!("RTP/AVP;unicast;client_port={ports}");
    let of_track = format!("{url}{track}");
    let set_up = ask(&mut control, Method::Setup, &of_track, &[("Transport", &transport)]);
    assert!(set_up.status().is_success(), "{set_up:?}");
    let session = set_up.header(&SESSION).unwrap().as_str().split(';').next().unwrap().to_owned();
    let played = ask(&mut control, Method::Play, &url, &[("Session", &session)]);
    assert!(played.status().is_success(), "{played:?}");
    control
}

/// Real-time priority for this thread; whether it was given.
#[allow(unsafe_code)]
fn real_time() -> bool {
    let parameters = libc::sched_param { sched_priority: 2 };
    // SAFETY: the call reads `parameters` and nothing else; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Since the receiver began.
    pub(crate) at: Duration,
    /// Whose: the RTP source.
    pub(crate) source: u32,
    /// RTP time.
    pub(crate) time: u32,
    pub(crate) bytes: usize,
    /// The last of its frame.
    pub(crate) last: bool,
}

/// Everything that arrives until `stop`, and whether the times are to be trusted.
pub(crate) fn receive(
    socket: &UdpSocket,
    begun: Instant,
    stop: &AtomicBool,
) -> (Vec<Arrival>, bool) {
    let permitted = real_time();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut arrivals = Vec::new();
    let mut packet = [0; 65536];
    while !stop.load(Ordering::Relaxed) {
        let Ok(bytes) = socket.recv(&mut packet) else { continue };
        let at = begun.elapsed();
        let packet = RtpPacket::parse(&packet[..bytes]).unwrap();
        let (source, time, last) = (packet.ssrc(), packet.timestamp(), packet.marker_bit());
        arrivals.push(Arrival { at, source, time, bytes, last });
    }
    (arrivals, permitted)
}

/// When each frame of each source had come, and how long after its place in the period, the
/// source's best one being 0.
pub(crate) fn lateness(arrivals: &[Arrival]) -> HashMap<u32, Vec<(Duration, Duration)>> {
    let mut frames: HashMap<u32, Vec<Duration>> = HashMap::new();
    for arrival in arrivals.iter().filter(|arrival| arrival.last) {
        frames.entry(arrival.source).or_default().push(arrival.at);
    }
    let late = |came: Vec<Duration>| {
        let offset = |(number, at): (i128, &Duration)| {
            at.as_nanos() as i128 - number * PERIOD.as_nanos() as i128
        };
        let offsets: Vec<i128> = (0i128..).zip(&came).map(offset).collect();
        let best = offsets.iter().min().copied().unwrap_or(0);
        let late = |offset: i128| Duration::from_nanos(u64::try_from(offset - best).unwrap());
        came.into_iter().zip(offsets.into_iter().map(late)).collect()
    };
    frames.into_iter().map(|(source, came)| (source, late(came))).collect()
}

/// A server with clients that play.
pub(crate) struct Playing {
    stop: Arc<AtomicBool>,
    server: JoinHandle<Report>,
    receiver: JoinHandle<(Vec<Arrival>, bool)>,
    /// The processes of processor and producer, where there are any.
    pub(crate) apart: [Option<u32>; 2],
    _clients: Vec<TcpStream>,
}

impl Playing {
    /// Serves `clients`; `begun` is the receiver's time 0.
    pub(crate) fn start(placement: &str, clients: usize, begun: Instant) -> Self {
        Self::of(scenario(placement), clients, begun)
    }

    /// The same, with a processor of its own to which frames come by `path`.
    pub(crate) fn by(path: &str, clients: usize, begun: Instant) -> Self {
        Self::of(scenario_by("ni", path), clients, begun)
    }

    fn of(scenario: Scenario, clients: usize, begun: Instant) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (to, address) = channel();
        let over = Arc::clone(&stop);
        let server = thread::spawn(move || {
            let server = MediaServer::open(&scenario).unwrap();
            let apart = [server.processor_id(), server.producer_id()];
            to.send((server.rtsp_address(), apart)).unwrap();
            let course = |over| if over { ShutdownMode::End } else { ShutdownMode::Serve };
            server.run(&mut || course(over.load(Ordering::Relaxed))).unwrap()
        });
        let (address, apart) = address.recv().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let rtcp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = [&socket, &rtcp].map(|socket| socket.local_addr().unwrap().port().to_string());
        let over = Arc::clone(&stop);
        let receiver = thread::spawn(move || receive(&socket, begun, &over));
        let clients = (0..clients).map(|_| {
            // Clients do not all begin at one instant.
            thread::sleep(PERIOD * 7 / 5 / 10);
            client(address, &ports.join("-"))
        });
        let clients = clients.collect();
        Self { stop, server, receiver, apart, _clients: clients }
    }

    /// Ends it: what arrived, what the server says, whether the times are to be trusted.
    pub(crate) fn end(self) -> (Vec<Arrival>, Report, bool) {
        self.stop.store(true, Ordering::Relaxed);
        let (arrivals, permitted) = self.receiver.join().unwrap();
        (arrivals, self.server.join().unwrap(), permitted)
    }
}
