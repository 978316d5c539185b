//! What a frame costs and how late it arrives: clients by clients, unloaded and with a busy loop for
//! each core, scheduler and dispatch in the host or in a process of their own.
//!
//! All clients are one receiver, told apart by their RTP source; it has real-time priority where that
//! is permitted, so that what is late is the server. Lateness is the time of a frame's last packet
//! after its number × the period, the client's best one being 0.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, unsafe_code)]

use millstream_media::{MediaServer, Report, network_interface_processor};
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
use std::thread;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(40);
const MEASURED: Duration = Duration::from_secs(6);

fn scenario(placement: &str) -> Scenario {
    let text = format!(
        "[scenario]\nduration = \"1 min\"\n[media]\nlisten = \"127.0.0.1:0\"\n\
         placement = \"{placement}\"\n[link]\nrate = \"1 Gbps\"\noverhead = 28\n\
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

fn client(address: SocketAddr, ports: &str) -> TcpStream {
    let mut control = TcpStream::connect(address).unwrap();
    let url = format!("rtsp://{address}/clip");
    let transport = format!("RTP/AVP;unicast;client_port={ports}");
    let set_up = ask(&mut control, Method::Setup, &url, &[("Transport", &transport)]);
    assert!(set_up.status().is_success(), "{set_up:?}");
    let session = set_up.header(&SESSION).unwrap().as_str().split(';').next().unwrap().to_owned();
    let played = ask(&mut control, Method::Play, &url, &[("Session", &session)]);
    assert!(played.status().is_success(), "{played:?}");
    control
}

/// Real-time priority for this thread; whether it was given.
fn real_time() -> bool {
    let parameters = libc::sched_param { sched_priority: 2 };
    // SAFETY: the call reads `parameters` and nothing else; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Lateness of every frame, µs, until `stop`.
fn receive(socket: &UdpSocket, stop: &AtomicBool) -> (Vec<u64>, bool) {
    let permitted = real_time();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let start = Instant::now();
    let mut arrivals: HashMap<u32, Vec<Duration>> = HashMap::new();
    let mut packet = [0; 65536];
    while !stop.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut packet) else { continue };
        let at = start.elapsed();
        let packet = RtpPacket::parse(&packet[..length]).unwrap();
        if packet.marker_bit() {
            arrivals.entry(packet.ssrc()).or_default().push(at);
        }
    }
    let mut late = Vec::new();
    for frames in arrivals.values() {
        let offsets: Vec<i128> = (0i128..)
            .zip(frames)
            .map(|(number, at)| at.as_nanos() as i128 - number * PERIOD.as_nanos() as i128)
            .collect();
        let best = offsets.iter().min().copied().unwrap_or(0);
        late.extend(offsets.iter().map(|offset| u64::try_from((offset - best) / 1000).unwrap()));
    }
    (late, permitted)
}

/// Serves `clients` for a while; lateness sorted, what the server says, whether time is to be trusted.
fn measure(placement: &str, clients: usize, busy: usize) -> (Vec<u64>, Report, bool) {
    let stop = Arc::new(AtomicBool::new(false));
    let (to, address) = channel();
    let scenario = scenario(placement);
    let over = Arc::clone(&stop);
    let server = thread::spawn(move || {
        let server = MediaServer::open(&scenario).unwrap();
        to.send(server.rtsp_address()).unwrap();
        server.run(&mut || over.load(Ordering::Relaxed)).unwrap()
    });
    let address = address.recv().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rtcp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ports = [&socket, &rtcp].map(|socket| socket.local_addr().unwrap().port().to_string());
    let over = Arc::clone(&stop);
    let receiver = thread::spawn(move || receive(&socket, &over));
    let loops: Vec<_> = (0..busy)
        .map(|_| {
            let over = Arc::clone(&stop);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let playing: Vec<TcpStream> = (0..clients)
        .map(|_| {
            // Clients do not all begin at one instant.
            thread::sleep(PERIOD * 7 / 5 / 10);
            client(address, &ports.join("-"))
        })
        .collect();
    thread::sleep(MEASURED);
    stop.store(true, Ordering::Relaxed);
    let (mut late, permitted) = receiver.join().unwrap();
    let report = server.join().unwrap();
    loops.into_iter().for_each(|busy| busy.join().unwrap());
    drop(playing);
    late.sort_unstable();
    (late, report, permitted)
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("ni") {
        return network_interface_processor().unwrap();
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "| placement | clients | busy loops | frames | lost | ns a frame | kernel, ns a frame | p50 late (µs) | p99 | worst |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut trusted = true;
    for clients in [10, 50] {
        for busy in [0, cores] {
            for placement in ["host", "ni"] {
                let (late, report, permitted) = measure(placement, clients, busy);
                trusted &= permitted;
                let account = report.account;
                let sent: u64 = account.sent.iter().sum();
                let lost: u64 =
                    account.late.iter().chain(&account.full).sum::<u64>() + account.lost;
                let at = |part: usize| late.get(late.len() * part / 100).copied().unwrap_or(0);
                println!(
                    "| {placement} | {clients} | {busy} | {sent} | {lost} | {} | {} | {} | {} | {} |",
                    report.scheduling_ns / sent.max(1),
                    report.sending_ns / sent.max(1),
                    at(50),
                    at(99),
                    late.last().copied().unwrap_or(0),
                );
            }
        }
    }
    if !trusted {
        println!("\nThe receiver had no real-time priority: lateness is the receiver's, too.");
    }
}
