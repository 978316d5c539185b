//! The program of `scripts/kernel.sh`: sends and receives packets in the virtual machine, and
//! compares the qdisc's log with the engine.
//!
//! ```text
//! kernel_probe log INTERFACE                   makes the attached qdisc log its events
//! kernel_probe receive PORT SECONDS NAME       prints delays of the packets to UDP port PORT
//! kernel_probe send PORT SECONDS STREAM…       STREAM: mark:bytes:interval in µs[:burst]
//! kernel_probe sink PORT                       receives TCP
//! kernel_probe tcp PORT SECONDS MARK           sends TCP
//! kernel_probe dump MAP                        writes the value of a pinned map of one element
//! kernel_probe datagrams TO FROM DSCP MARK COUNT
//! kernel_probe classes LOG                     checks the streams of the datagrams
//! kernel_probe change LOG EARLIER              checks that no packet is lost, and the shares
//! kernel_probe replay SCENARIO LOG             compares a log with the engine's decisions
//! ```

#![allow(unsafe_code, clippy::unwrap_used)]

use millstream::catalogue::DynScheduler;
use millstream::flow_queue::Flow;
use millstream::selector::Observer;
use millstream::{Departure, Event, Packet, StreamId};
use millstream_scenario::Scenario;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::mem;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The receiver's address in the virtual machine.
const RECEIVER: &str = "10.9.0.2";

/// The entries of the qdisc's log.
const LOG_ENTRIES: usize = 16_384;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["log", interface] => {
            millstream_bpf::attach::log_events(interface).map_err(io::Error::other)
        }
        ["receive", port, seconds, name] => receive(number(port), number(seconds), name),
        ["send", port, seconds, ref streams @ ..] => send(number(port), number(seconds), streams),
        ["sink", port] => sink(number(port)),
        ["tcp", port, seconds, mark] => tcp(number(port), number(seconds), number(mark)),
        ["dump", map] => dump(map),
        ["datagrams", to, from, dscp, mark, count] => {
            datagrams(to, number(from), number(dscp), number(mark), number(count));
            Ok(())
        }
        ["classes", log] => classes(log),
        ["change", log, earlier] => change(log, earlier),
        ["replay", scenario, log] => replay(scenario, log),
        _ => Err(io::Error::other("unknown arguments: see the source")),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// Sends datagrams: to an address, from a port (0: any), with a code point and a mark.
fn datagrams(to: &str, from: u16, dscp: i32, mark: i32, count: u32) {
    let to: std::net::SocketAddr = to.parse().unwrap();
    let socket = if to.is_ipv4() {
        UdpSocket::bind(("0.0.0.0", from)).unwrap()
    } else {
        UdpSocket::bind(("::", from)).unwrap()
    };
    let (level, option) = if to.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_TOS)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    };
    set_option(&socket, level, option, dscp << 2);
    set_option(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark);
    for _ in 0..count {
        socket.send_to(&[0; 58], to).unwrap();
    }
}

/// Checks the log of a change of contracts after a second, which begins with the entries of an
/// earlier log: streams 2 and 3 had 3/4 and 1/4 of their bytes before the change, and the reverse
/// afterwards.
fn change(log: &str, earlier: &str) -> io::Result<()> {
    let mut entries = entries(&std::fs::read(log)?);
    assert!(entries.len() < LOG_ENTRIES, "the log is full");
    entries.drain(..self::entries(&std::fs::read(earlier)?).len());
    let count = |event: u16| entries.iter().filter(|entry| entry.event == event).count();
    let (arrived, left) = (count(0), count(2) + count(3));
    println!("change\n  {arrived} accepted, {left} sent or late");
    assert_eq!(arrived, left);
    let began_ns = entries.iter().find(|entry| entry.event == 0).unwrap().time_ns;
    let share = |from_ns: u64, to_ns: u64| {
        let of = |stream| {
            (entries.iter())
                .filter(|entry| entry.event == 2 && entry.stream == stream)
                .filter(|entry| (from_ns..to_ns).contains(&(entry.time_ns - began_ns)))
                .count() as f64
        };
        of(2) / (of(2) + of(3))
    };
    let shares = [share(200_000_000, 800_000_000), share(1_300_000_000, 1_900_000_000)];
    println!("  shares of bulk beside the flood, before and after: {shares:.3?}");
    assert!((0.72..0.78).contains(&shares[0]) && (0.22..0.28).contains(&shares[1]));
    Ok(())
}

/// Prints the arrivals of each stream in a log that have 100 or 120 bytes: the datagrams.
fn classes(log: &str) -> io::Result<()> {
    let mut arrivals = [0; 9];
    for entry in entries(&std::fs::read(log)?) {
        if entry.event < 2 && matches!(entry.bytes, 100 | 120) {
            arrivals[usize::from(entry.stream)] += 1;
        }
    }
    println!("  arrivals by stream: {arrivals:?}");
    assert_eq!(arrivals, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    Ok(())
}

/// Returns the real time, ns, which the kernel's timestamps of packets also show.
fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

fn set_option(socket: &impl AsRawFd, level: i32, option: i32, value: i32) {
    let size = libc::socklen_t::try_from(size_of::<i32>()).unwrap();
    // SAFETY: the value lives during the call and has the stated size.
    let status = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size)
    };
    assert_eq!(status, 0, "{}", io::Error::last_os_error());
}

/// Gives this process priority over the others, so that its packets leave in time.
fn be_real_time() {
    // SAFETY: the parameter is initialised.
    unsafe {
        let parameter = libc::sched_param { sched_priority: 10 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter);
    }
}

/// A stream of the sender.
struct Sender {
    socket: UdpSocket,
    packet: Vec<u8>,
    interval_ns: u64,
    burst: u64,
    next_ns: u64,
    sent: u64,
}

/// Sends streams of packets; each begins with its number and the time of its sending.
fn send(port: u16, seconds: u64, streams: &[&str]) -> io::Result<()> {
    be_real_time();
    let began_ns = now_ns();
    let mut senders: Vec<Sender> = (streams.iter())
        .map(|stream| {
            let fields: Vec<u64> = stream.split(':').map(number).collect();
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect((RECEIVER, port)).unwrap();
            socket.set_nonblocking(true).unwrap();
            let mark = i32::try_from(fields[0]).unwrap();
            if mark == 1 {
                // Expedited forwarding, by which CAKE knows voice.
                set_option(&socket, libc::IPPROTO_IP, libc::IP_TOS, 46 << 2);
            }
            set_option(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark);
            set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 8 << 20);
            // The length in the qdisc includes the headers of UDP, IP and Ethernet.
            let packet = vec![0; usize::try_from(fields[1]).unwrap() - 42];
            let burst = fields.get(3).copied().unwrap_or(1);
            let interval_ns = fields[2] * 1_000;
            Sender { socket, packet, interval_ns, burst, next_ns: began_ns, sent: 0 }
        })
        .collect();
    let until_ns = began_ns + seconds * 1_000_000_000;
    loop {
        let sender = senders.iter_mut().min_by_key(|sender| sender.next_ns).unwrap();
        if sender.next_ns >= until_ns {
            break;
        }
        if let Some(left_ns) = sender.next_ns.checked_sub(now_ns()) {
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
        for _ in 0..sender.burst {
            sender.packet[..8].copy_from_slice(&sender.sent.to_ne_bytes());
            sender.packet[8..16].copy_from_slice(&now_ns().to_ne_bytes());
            sender.sent += 1;
            let _ = sender.socket.send(&sender.packet);
        }
        sender.next_ns += sender.interval_ns;
    }
    for (stream, sender) in streams.iter().zip(&senders) {
        println!("  sent {stream}: {} packets", sender.sent);
    }
    Ok(())
}

/// Receives packets of one stream; prints their number, losses and delays.
fn receive(port: u16, seconds: u64, name: &str) -> io::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", port))?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20);
    set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut delays, mut last) = (Vec::new(), 0);
    while Instant::now() < until {
        let Some((number, sent_ns, received_ns)) = receive_one(&socket) else { continue };
        delays.push(received_ns.saturating_sub(sent_ns));
        last = last.max(number + 1);
    }
    delays.sort_unstable();
    let at = |thousandths: usize| {
        let at = (delays.len() * thousandths).div_ceil(1_000).saturating_sub(1);
        delays.get(at).map_or(0, |delay| delay / 1_000)
    };
    let (received, lost) = (delays.len(), last.saturating_sub(delays.len() as u64));
    println!(
        "  {name}: received {received}, lost {lost}; delay in µs: p50 {} p99 {} p99.9 {} max {}",
        at(500),
        at(990),
        at(999),
        at(1_000)
    );
    Ok(())
}

/// Returns a packet's number, the time of its sending and the kernel's time of its arrival.
fn receive_one(socket: &UdpSocket) -> Option<(u64, u64, u64)> {
    let mut bytes = [0u8; 2_048];
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all pointers are to buffers that live during the calls, with their sizes; the
    // timestamp is read from a control message of that type.
    let received_ns = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) < 16 {
            return None;
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_TIMESTAMPNS {
            return None;
        }
        let time: libc::timespec =
            libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
        u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?
    };
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    Some((word(0), word(8), received_ns))
}

fn sink(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    for connection in listener.incoming() {
        let mut connection = connection?;
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while connection.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
    }
    Ok(())
}

fn tcp(port: u16, seconds: u64, mark: i32) -> io::Result<()> {
    let mut connection = TcpStream::connect((RECEIVER, port))?;
    set_option(&connection, libc::SOL_SOCKET, libc::SO_MARK, mark);
    connection.set_write_timeout(Some(Duration::from_millis(200)))?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let (bytes, mut sent) = (vec![0; 1 << 14], 0);
    while Instant::now() < until {
        sent += connection.write(&bytes).unwrap_or(0);
    }
    println!("  TCP: sent {:.2} Mbit/s", sent as f64 * 8e-6 / seconds as f64);
    Ok(())
}

/// Calls bpf(2).
fn bpf(command: libc::c_int, attributes: &[u64; 4]) -> io::Result<libc::c_long> {
    // SAFETY: the callers' attributes point to buffers that live during the call.
    let status = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes))
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}

/// Writes the value of the log's map, pinned at `path`.
fn dump(path: &str) -> io::Result<()> {
    const MAP_LOOKUP_ELEM: libc::c_int = 1;
    const OBJ_GET: libc::c_int = 7;
    let path = std::ffi::CString::new(path).unwrap();
    let file = bpf(OBJ_GET, &[path.as_ptr() as u64, 0, 0, 0])?;
    let (key, mut value) = (0u32, vec![0u8; 8 + 16 * LOG_ENTRIES]);
    let (key, address) = (&raw const key as u64, value.as_mut_ptr() as u64);
    bpf(MAP_LOOKUP_ELEM, &[u64::try_from(file).unwrap(), key, address, 0])?;
    let count = usize::try_from(u64::from_ne_bytes(value[..8].try_into().unwrap())).unwrap();
    io::stdout().write_all(&value[..8 + 16 * count])
}

/// The packets that the engine drops: stream, length and reason.
#[derive(Default)]
struct Dropped(VecDeque<(u32, u32, Event)>);

impl Observer for Dropped {
    fn dropped(&mut self, departure: &Departure) {
        self.0.push_back((departure.stream.0, departure.bytes, departure.event));
    }
}

/// An entry of the qdisc's log.
struct Entry {
    time_ns: u64,
    bytes: u32,
    stream: u16,
    event: u16,
}

fn entries(log: &[u8]) -> Vec<Entry> {
    let count = u64::from_ne_bytes(log[..8].try_into().unwrap());
    (log[8..].chunks_exact(16).take(usize::try_from(count).unwrap()))
        .map(|entry| Entry {
            time_ns: u64::from_ne_bytes(entry[..8].try_into().unwrap()),
            bytes: u32::from_ne_bytes(entry[8..12].try_into().unwrap()),
            stream: u16::from_ne_bytes(entry[12..14].try_into().unwrap()),
            event: u16::from_ne_bytes(entry[14..16].try_into().unwrap()),
        })
        .collect()
}

/// An arrival of a log.
#[derive(Clone, Copy)]
struct Arrival {
    time_ns: u64,
    stream: StreamId,
    packet: Packet,
    flow: Flow,
    is_queued: bool,
}

/// Returns the arrivals of a log. Their flows' hashes precede them.
fn arrivals(entries: &[Entry]) -> Vec<Arrival> {
    let (mut arrivals, mut flow) = (Vec::new(), Flow::default());
    for Entry { time_ns, bytes, stream, event } in entries {
        match event {
            0 | 1 => arrivals.push(Arrival {
                time_ns: *time_ns,
                stream: StreamId((*stream).into()),
                packet: Packet::new(*bytes),
                flow,
                is_queued: *event == 0,
            }),
            5 => flow.hash = *bytes,
            _ => {}
        }
    }
    arrivals
}

/// Repeats the events of a log on the engine, and its arrivals on the simulated link.
fn replay(scenario: &str, log: &str) -> io::Result<()> {
    let scenario = Scenario::load(Path::new(scenario)).unwrap();
    let entries = entries(&std::fs::read(log)?);
    let arrivals = arrivals(&entries);
    let mut engine = scenario.scheduler();
    // Drops precede their decision, or follow their arrival.
    let (mut by_qdisc, mut by_engine) = (VecDeque::new(), Dropped::default());
    let (mut next, mut decisions, mut drops) = (arrivals.iter(), 0, [0; 3]);
    let (mut sent, mut times_ns) = (Vec::new(), Vec::new());
    for Entry { time_ns, bytes, stream, event } in &entries {
        let stream = u32::from(*stream);
        match event {
            0 | 1 => {
                assert!(by_engine.0.is_empty(), "drops before {time_ns}: {:?}", by_engine.0);
                let Arrival { stream, packet, flow, is_queued, .. } = *next.next().unwrap();
                let queued = engine.enqueue_flow(*time_ns, stream, packet, flow, &mut by_engine);
                assert_eq!(queued.is_ok(), is_queued, "arrival in {stream} at {time_ns}");
            }
            3 | 7 => {
                let reason = if *event == 3 { Event::DroppedLate } else { Event::DroppedByAqm };
                by_qdisc.push_back((stream, *bytes, reason));
                drops[usize::from(*event == 7)] += 1;
            }
            5 => {}
            6 => {
                let dropped = Some((stream, *bytes, Event::DroppedFull));
                assert_eq!(dropped, by_engine.0.pop_front(), "drop at {time_ns}");
                drops[2] += 1;
            }
            _ => {
                let engine = engine.decide(*time_ns, &mut by_engine);
                let qdisc = (*event == 2).then_some((stream, *bytes));
                let engine = engine.map(|departure| (departure.stream.0, departure.bytes));
                assert_eq!(qdisc, engine, "decision at {time_ns}");
                assert_eq!(by_qdisc, by_engine.0, "drops at {time_ns}");
                decisions += 1;
                by_qdisc.clear();
                by_engine.0.clear();
                sent.extend(qdisc);
                times_ns.extend(qdisc.map(|_| *time_ns));
            }
        }
    }
    let full = if entries.len() == LOG_ENTRIES { " (the log was full)" } else { "" };
    let [late, by_aqm, from_longest] = drops;
    println!("  log: {} arrivals, {decisions} decisions, {late} late drops{full}", arrivals.len());
    if by_aqm + from_longest > 0 {
        println!("  drops of flows: {by_aqm} by CoDel, {from_longest} at the limit");
    }
    println!("  all equal to the engine");
    compare_with_simulation(&scenario, &arrivals, &sent, &times_ns);
    Ok(())
}

/// Returns, after each departure, the largest difference between the numbers of packets that a
/// stream has sent in the two orders.
fn lags(order: &[(u32, u32)], other: &[(u32, u32)]) -> Vec<u64> {
    let mut lead: HashMap<u32, i64> = HashMap::new();
    (order.iter().zip(other))
        .map(|((stream, _), (other, _))| {
            *lead.entry(*stream).or_default() += 1;
            *lead.entry(*other).or_default() -= 1;
            lead.values().map(|lead| lead.unsigned_abs()).max().unwrap_or(0)
        })
        .collect()
}

/// Simulates the link with the log's arrivals; prints how the order and the shares differ.
fn compare_with_simulation(
    scenario: &Scenario,
    arrivals: &[Arrival],
    sent: &[(u32, u32)],
    times_ns: &[u64],
) {
    let mut scheduler: Box<dyn DynScheduler + Send> = scenario.scheduler();
    let mut arrivals = arrivals.iter().peekable();
    let (mut now_ns, mut simulated, mut simulated_ns) = (0u64, Vec::new(), Vec::new());
    while simulated.len() < sent.len() {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns <= now_ns) {
            let Arrival { time_ns, stream, packet, flow, .. } = *arrival;
            let _ = scheduler.enqueue_flow(time_ns, stream, packet, flow, &mut ());
        }
        let next_ns = arrivals.peek().map(|arrival| arrival.time_ns);
        now_ns = match scheduler.decide(now_ns, &mut ()) {
            Some(departure) => {
                simulated.push((departure.stream.0, departure.bytes));
                simulated_ns.push(now_ns);
                now_ns + scenario.link.transmission_ns(departure.bytes)
            }
            None => match [scheduler.next_eligible_ns(), next_ns].into_iter().flatten().min() {
                Some(next_ns) => next_ns.max(now_ns),
                None => break,
            },
        };
    }
    assert_eq!(sent.len(), simulated.len(), "departures");
    let same = sent.iter().zip(&simulated).filter(|(sent, simulated)| sent == simulated).count();
    // A decision that is late by microseconds can exchange two packets, and another stream then
    // leads until the next such exchange.
    let lags = lags(sent, &simulated);
    let within_one = lags.iter().filter(|lag| **lag <= 1).count();
    let longest = sent.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let longest_ns = scenario.link.transmission_ns(longest);
    let differences_ns: Vec<u64> =
        times_ns.iter().zip(&simulated_ns).map(|(time, other)| time.abs_diff(*other)).collect();
    let on_time = differences_ns.iter().filter(|ns| **ns < longest_ns).count();
    let share = |of: &[(u32, u32)], stream: usize| {
        let bytes = |all: bool| -> u64 {
            of.iter().filter(|p| all || p.0 as usize == stream).map(|p| u64::from(p.1)).sum()
        };
        100.0 * bytes(false) as f64 / bytes(true).max(1) as f64
    };
    let shares: Vec<String> = (scenario.streams.iter().enumerate())
        .map(|(at, stream)| {
            format!("{} {:.1}/{:.1}", stream.name, share(sent, at), share(&simulated, at))
        })
        .collect();
    println!(
        "  simulation of its arrivals: of {} departures {same} are the same, {on_time} within a \
         packet's transmission (all within {} µs); after {within_one} of them every stream has \
         the same number of packets within 1, after all within {}; shares in %, \
         qdisc/simulation: {}",
        sent.len(),
        differences_ns.iter().max().unwrap_or(&0) / 1000,
        lags.iter().max().unwrap_or(&0),
        shares.join(", ")
    );
    assert!(within_one * 100 >= sent.len() * 95, "the order differs from the simulation's");
    assert!(on_time * 100 >= sent.len() * 95, "the times differ from the simulation's");
    for stream in 0..scenario.streams.len() {
        assert!((share(sent, stream) - share(&simulated, stream)).abs() < 0.5, "{stream}");
    }
}
