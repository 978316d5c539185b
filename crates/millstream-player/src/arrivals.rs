//! Packets of many sessions with their arrival times, for measurements.

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sockopt};
use nix::sys::time::TimeSpec;
use rtp_types::RtpPacket;
use std::collections::{BTreeMap, HashMap};
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The RTP clock rate of video, Hz (RFC 3551, 5).
const RTP_HZ: u128 = 90_000;

/// A received RTP packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time since the receiver's time 0.
    pub at: Duration,
    /// RTP source.
    pub source: u32,
    /// RTP sequence number.
    pub number: u16,
    /// RTP time.
    pub time: u32,
    /// UDP payload, bytes.
    pub bytes: usize,
    /// The last packet of its frame (marker bit).
    pub last: bool,
}

/// Requests real-time priority for the calling thread; returns whether the kernel grants it.
#[allow(unsafe_code)]
fn real_time() -> bool {
    let parameters = libc::sched_param { sched_priority: 2 };
    // SAFETY: the call only reads `parameters`; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Receives packets until `stop`. Returns them, and whether the thread had real-time priority, so
/// that delays of the receiver itself are short.
///
/// # Panics
/// Panics if a packet is not RTP.
pub fn receive(socket: &UdpSocket, begun: Instant, stop: &AtomicBool) -> (Vec<Arrival>, bool) {
    let permitted = real_time();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut arrivals = Vec::new();
    let mut packet = [0; 65536];
    while !stop.load(Ordering::Relaxed) {
        let Ok(bytes) = socket.recv(&mut packet) else { continue };
        let at = begun.elapsed();
        let packet = RtpPacket::parse(&packet[..bytes]).unwrap();
        let (source, number) = (packet.ssrc(), packet.sequence_number());
        let (time, last) = (packet.timestamp(), packet.marker_bit());
        arrivals.push(Arrival { at, source, number, time, bytes, last });
    }
    (arrivals, permitted)
}

/// The kernel's buffer of a [`StampedSocket`], bytes: a second of a stream of 1 Mbit/s, with the
/// kernel's overhead for each packet.
const BUFFER_BYTES: usize = 1 << 20;

/// A UDP socket on the loopback address that reports when the kernel received each datagram.
///
/// A receiver that reads late still gets the true times, so it needs no real-time priority, which
/// would take the processor from the servers that it measures.
#[derive(Debug)]
pub struct StampedSocket {
    socket: UdpSocket,
    /// Datagrams that the kernel dropped because the buffer was full.
    pub overflowed: u32,
}

/// A datagram of a [`StampedSocket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Arrival, since the Unix epoch.
    pub at: Duration,
    /// The sender.
    pub source: SocketAddr,
    /// Length, bytes.
    pub bytes: usize,
}

impl StampedSocket {
    /// Opens a socket on a free port.
    ///
    /// # Panics
    /// Panics if the kernel refuses.
    #[must_use]
    pub fn open() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Without root the default buffer remains; `overflowed` shows whether it suffices.
        let _ = nix::sys::socket::setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES);
        nix::sys::socket::setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
        nix::sys::socket::setsockopt(&socket, sockopt::RxqOvfl, &1).unwrap();
        Self { socket, overflowed: 0 }
    }

    /// Returns the socket, for sending.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns a datagram that waits, written to `buffer`; does not block.
    ///
    /// # Panics
    /// Panics if the socket fails, or the kernel gives no time.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Option<Datagram> {
        let mut space = nix::cmsg_space!(TimeSpec, u32);
        let mut parts = [IoSliceMut::new(buffer)];
        let received = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_DONTWAIT,
        );
        let message = match received {
            Err(nix::Error::EAGAIN | nix::Error::ECONNREFUSED) => return None,
            message => message.unwrap(),
        };
        let mut at = None;
        for control in message.cmsgs().unwrap() {
            match control {
                ControlMessageOwned::ScmTimestampns(time) => at = Some(Duration::from(time)),
                ControlMessageOwned::RxqOvfl(count) => self.overflowed = count,
                _ => {}
            }
        }
        let source = *message.address.unwrap().as_sockaddr_in().unwrap();
        let source = SocketAddr::new(source.ip().into(), source.port());
        Some(Datagram { at: at.unwrap(), source, bytes: message.bytes })
    }
}

/// A frame whose last packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameArrival {
    /// The frame's number in coding order, from the session's first frame.
    pub number: u64,
    /// Arrival of its last packet.
    pub at: Duration,
    /// Delay after its period, relative to the source's earliest frame.
    pub late: Duration,
}

/// Returns each source's frames with their lateness.
///
/// RTP time numbers a frame, so a lost frame does not shift those after it. RTP time is in display
/// order and frames are sent in coding order: `display` holds the display index of each frame of
/// the file in coding order. The first packet of a source must belong to the file's first frame.
/// Frames before `settled` are left out, and so are sources without later ones.
///
/// # Panics
/// Panics if the numbers of a source do not increase, as when its first frame was lost.
pub fn lateness(
    arrivals: &[Arrival],
    display: &[u32],
    period: Duration,
    settled: Duration,
) -> HashMap<u32, Vec<FrameArrival>> {
    let mut sources: HashMap<u32, Vec<&Arrival>> = HashMap::new();
    for arrival in arrivals {
        sources.entry(arrival.source).or_default().push(arrival);
    }
    let mut coding = vec![0; display.len()];
    for (number, shown) in display.iter().enumerate() {
        coding[*shown as usize] = number as u64;
    }
    let ticks = u32::try_from(period.as_nanos() * RTP_HZ / 1_000_000_000).unwrap();
    let frames_of = |packets: Vec<&Arrival>| {
        let base = packets[0].time.wrapping_sub(display[0] * ticks);
        let number = |time: u32| {
            let shown = time.wrapping_sub(base) / ticks;
            let (round, within) = (shown as usize / coding.len(), shown as usize % coding.len());
            (round * coding.len()) as u64 + coding[within]
        };
        let ends: Vec<(u64, Duration)> =
            packets.iter().filter(|p| p.last).map(|p| (number(p.time), p.at)).collect();
        assert!(ends.windows(2).all(|pair| pair[0].0 < pair[1].0), "frame numbers do not increase");
        let offset = |(number, at): (u64, Duration)| {
            at.as_nanos() as i128 - i128::from(number) * period.as_nanos() as i128
        };
        let ends: Vec<_> = ends.into_iter().filter(|(_, at)| *at >= settled).collect();
        let best = ends.iter().copied().map(offset).min().unwrap_or(0);
        let late = |end| Duration::from_nanos(u64::try_from(offset(end) - best).unwrap());
        ends.iter()
            .map(|end| FrameArrival { number: end.0, at: end.1, late: late(*end) })
            .collect::<Vec<_>>()
    };
    let frames = sources.into_iter().map(|(source, packets)| (source, frames_of(packets)));
    frames.filter(|(_, frames)| !frames.is_empty()).collect()
}

/// Returns the RTP time and the arrival of each frame of one source that is complete, in order.
///
/// A frame is complete with the last of its packets to arrive, which need not be the marked one. A
/// packet that arrives twice counts once. A missing packet between two frames may be of either, so
/// the later one is not complete.
fn complete_frames(arrivals: &[Arrival]) -> Vec<(u32, Duration)> {
    let mut packets: BTreeMap<i64, &Arrival> = BTreeMap::new();
    let mut last = 0_i64;
    for arrival in arrivals {
        // The low bits are the sequence number.
        let low = u16::try_from(last.rem_euclid(1 << 16)).unwrap();
        last += i64::from(arrival.number.wrapping_sub(low).cast_signed());
        packets.entry(last).or_insert(arrival);
    }
    let mut frames = Vec::new();
    let mut frame: Option<(u32, Duration, bool)> = None;
    let mut before = None;
    for (number, packet) in packets {
        let follows = before.is_none_or(|before: i64| before + 1 == number);
        let (at, whole) = match frame {
            Some((time, at, whole)) if time == packet.time => (at.max(packet.at), whole && follows),
            _ => (packet.at, follows),
        };
        if packet.last && whole {
            frames.push((packet.time, at));
        }
        (frame, before) = (Some((packet.time, at, whole)), Some(number));
    }
    frames
}

/// Returns the delay of each frame of a source that is due in `window`; `None` if a packet of the
/// frame did not arrive.
///
/// RTP time numbers a frame; display order must be coding order. A frame is due a whole number of
/// periods after the source's earliest frame. That one may arrive before the window, so a source
/// that is late in all of the window shows it. The last frames of a source that ended are missing.
///
/// # Panics
/// Panics if no frame is complete, or one is due before the source's time 0.
pub fn delays(
    arrivals: &[Arrival],
    period: Duration,
    window: Range<Duration>,
) -> Vec<Option<Duration>> {
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap();
    let period_ns = nanos(period);
    let ticks = i64::try_from(period.as_nanos() * RTP_HZ / 1_000_000_000).unwrap();
    let first = arrivals[0].time;
    let number = |time: u32| {
        let since = i64::from(time.wrapping_sub(first).cast_signed());
        // Rounded: servers derive RTP time from clocks of other units.
        (since + ticks / 2).div_euclid(ticks)
    };
    let frames = complete_frames(arrivals).into_iter();
    let ends: BTreeMap<i64, i128> = frames.map(|(time, at)| (number(time), nanos(at))).collect();
    let offset = |(number, at): (&i64, &i128)| at - i128::from(*number) * period_ns;
    let best = ends.iter().map(offset).min().unwrap();
    let due = |number: i64| best + i128::from(number) * period_ns;
    let (from, to) = (nanos(window.start), nanos(window.end));
    let first_due = i64::try_from((from - best).div_euclid(period_ns)).unwrap();
    (first_due..)
        .skip_while(|number| due(*number) < from)
        .take_while(|number| due(*number) < to)
        .map(|number| {
            let late = ends.get(&number).map(|at| at - due(number));
            late.map(|ns| Duration::from_nanos(u64::try_from(ns).unwrap()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    const PERIOD: Duration = Duration::from_millis(40);
    /// I P B B, as MPEG-1 sends them.
    const DISPLAY: [u32; 4] = [0, 3, 1, 2];

    /// Returns the frames of one source by number, of two packets each; `late_us` delays each.
    fn arrivals(numbers: &[u32], first: u32, late_us: impl Fn(u32) -> u64) -> Vec<Arrival> {
        let frame = |number: &u32| {
            let shown = number / 4 * 4 + DISPLAY[*number as usize % 4];
            let time = first.wrapping_add(shown * 3_600);
            let at = PERIOD * (number + 5) + Duration::from_micros(late_us(*number));
            let packet = |last| Arrival { at, source: 7, number: 0, time, bytes: 100, last };
            [false, true].map(packet)
        };
        numbers.iter().flat_map(frame).collect()
    }

    fn late_us(arrivals: &[Arrival], settled: Duration) -> Vec<(u64, u128)> {
        let frames = &lateness(arrivals, &DISPLAY, PERIOD, settled)[&7];
        frames.iter().map(|frame| (frame.number, frame.late.as_micros())).collect()
    }

    #[test]
    fn a_lost_frame_does_not_delay_those_after_it() {
        // RTP time wraps between frames 1 and 2.
        let all = arrivals(&[0, 1, 3, 4, 6, 7, 9], u32::MAX - 4_000, |n| 10 + u64::from(n == 6));
        let expected = [(0, 0), (1, 0), (3, 0), (4, 0), (6, 1), (7, 0), (9, 0)];
        assert_eq!(late_us(&all, Duration::ZERO), expected);
    }

    #[test]
    fn a_frame_without_its_last_packet_is_not_counted() {
        let mut all = arrivals(&[0, 1, 2, 3], 0, |_| 0);
        all.remove(3);
        assert_eq!(late_us(&all, Duration::ZERO), [(0, 0), (2, 0), (3, 0)]);
    }

    #[test]
    fn frames_before_the_settled_time_do_not_set_the_best() {
        let all = arrivals(&[0, 1, 2, 3], 9, |n| [0, 0, 30, 50][n as usize]);
        assert_eq!(late_us(&all, PERIOD * 7), [(2, 0), (3, 20)]);
        assert!(lateness(&all, &DISPLAY, PERIOD, PERIOD * 9).is_empty());
    }

    #[test]
    #[should_panic(expected = "frame numbers do not increase")]
    fn a_lost_first_frame_is_noticed() {
        late_us(&arrivals(&[1, 2, 3, 4], 0, |_| 0), Duration::ZERO);
    }

    #[test]
    fn the_kernel_stamps_datagrams_that_are_read_late() {
        let mut receiver = StampedSocket::open();
        let to = receiver.socket().local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(receiver.receive(&mut buffer), None);
        let mut is_stamped = || {
            let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            sender.send_to(b"seven B", to).unwrap();
            let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let datagram = receiver.receive(&mut buffer).unwrap();
            assert_eq!((&buffer[..7], datagram.bytes), (&b"seven B"[..], 7));
            assert_eq!(datagram.source, sender.local_addr().unwrap());
            (before..=after).contains(&datagram.at)
        };
        // The kernel begins to stamp arrivals some time after a socket asks for it.
        assert!((0..250).any(|_| is_stamped()), "no datagram has the time of its arrival");
        assert_eq!(receiver.overflowed, 0);
    }

    /// Frames in display order, of three packets each; `late_ms` delays each, and `None` is a frame
    /// that the server dropped. Sequence numbers wrap.
    fn in_order(first: u32, late_ms: &[Option<u64>]) -> Vec<Arrival> {
        let frame = |(number, late): (u32, &Option<u64>)| {
            let at = PERIOD * (number + 2) + Duration::from_millis((*late)?);
            let time = first.wrapping_add(number * 3_600);
            let packet = |last| Arrival { at, source: 7, number: 0, time, bytes: 100, last };
            Some([false, false, true].map(packet))
        };
        let mut all: Vec<Arrival> = (0..).zip(late_ms).filter_map(frame).flatten().collect();
        for (number, arrival) in (u16::MAX - 3..=u16::MAX).chain(0..).zip(&mut all) {
            arrival.number = number;
        }
        all
    }

    fn delays_ms(arrivals: &[Arrival], from: u32, to: u32) -> Vec<Option<u128>> {
        let delays = delays(arrivals, PERIOD, PERIOD * from..PERIOD * to);
        delays.into_iter().map(|late| Some(late?.as_millis())).collect()
    }

    #[test]
    fn a_source_that_is_late_in_all_of_the_window_is_late() {
        let all = in_order(u32::MAX - 5_000, &[Some(0), Some(50), Some(50), Some(50)]);
        assert_eq!(delays_ms(&all, 3, 6), [Some(50), Some(50), Some(50)]);
    }

    #[test]
    fn a_frame_that_did_not_arrive_is_counted() {
        let all = in_order(0, &[Some(3), None, Some(10), Some(3)]);
        assert_eq!(delays_ms(&all, 2, 7), [Some(0), None, Some(7), Some(0), None]);
    }

    #[test]
    fn a_frame_arrives_with_the_last_of_its_packets_that_arrives_first() {
        let mut all = in_order(0, &[Some(0), Some(0), Some(0), Some(0)]);
        // A packet of frame 1 is sent again, and arrives after frame 2. Of frame 3 one comes twice.
        let mut again = all.remove(4);
        again.at += PERIOD * 3 / 2;
        all.insert(8, again);
        let mut twice = all[10];
        twice.at += PERIOD;
        all.push(twice);
        assert_eq!(delays_ms(&all, 2, 6), [Some(0), Some(60), Some(0), Some(0)]);
    }

    #[test]
    fn a_frame_of_which_a_packet_is_missing_is_lost() {
        let whole = in_order(0, &[Some(0), Some(0), Some(0), Some(0)]);
        let without = |packet: usize| {
            let mut all = whole.clone();
            all.remove(packet);
            let delays = delays_ms(&all, 2, 6).into_iter();
            delays.map(|late| late.map_or('-', |_| '+')).collect::<String>()
        };
        assert_eq!([3, 4, 5].map(without), ["+-++", "+-++", "+--+"]);
    }

    #[test]
    fn rtp_times_are_rounded_to_frames() {
        let mut all = in_order(100, &[Some(0), Some(0), Some(0)]);
        for at in 3..6 {
            all[at].time -= 1;
            all[at + 3].time += 1;
        }
        assert_eq!(delays_ms(&all, 2, 5), [Some(0), Some(0), Some(0)]);
    }
}
