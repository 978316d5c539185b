//! Delays beyond a port, measured passively by TCP timestamps (RFC 7323).
//!
//! A packet that leaves by the port carries a timestamp, which the other host returns in its next
//! packet. The time between the two is the round-trip time beyond the port, without the router's
//! own queues. What exceeds the host's least round-trip time of late is the delay of queues there.
//! Source: pping (Pollere), which measures by the first packet with a timestamp.
//!
//! Tables have a fixed size and replace old entries: a flood costs samples, not memory.

use std::hash::{BuildHasher, RandomState};

use crate::net::header::{any_transport, is_v6};

/// The number of timestamps kept.
const TIMESTAMPS: usize = 1 << 12;
/// The number of hosts kept.
const HOSTS: usize = 1 << 10;
/// The most delays kept until they are taken.
const DELAYS: usize = 128;
/// A host's least round-trip time is that of this time and of the one before it, ns.
const WINDOW_NS: u64 = 30_000_000_000;
/// IP protocol number of TCP.
const TCP: u8 = 6;
/// The kind of the timestamps option of TCP, and its length.
const OPTION: (u8, u8) = (8, 10);

/// A timestamp that has left.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// The hash of host, port and timestamp; 0: none.
    key: u64,
    /// When its first packet left, ns; 0: it has been returned.
    at_ns: u64,
}

/// The least round-trip times of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    /// The hash of the address; 0: none.
    key: u64,
    /// The number of the window.
    window: u64,
    /// The least time of the window before, and of the window, ns.
    least_ns: (u64, u64),
}

/// The delays beyond a port.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    left: Box<[Left]>,
    hosts: Box<[Host]>,
    delays_ns: Vec<u64>,
    /// Hosts must not choose the places of others.
    hasher: RandomState,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            left: vec![Left::default(); TIMESTAMPS].into(),
            hosts: vec![Host::default(); HOSTS].into(),
            delays_ns: Vec::with_capacity(DELAYS),
            hasher: RandomState::new(),
        }
    }
}

impl RoundTrips {
    /// Notes a packet that leaves by the port.
    #[inline]
    pub(crate) fn left(&mut self, frame: &[u8], now_ns: u64) {
        let Some(segment) = Segment::parse(frame, false) else { return };
        let key = self.hasher.hash_one((segment.host, segment.port, segment.value)) | 1;
        let place = &mut self.left[index(key, TIMESTAMPS)];
        if place.key != key {
            *place = Left { key, at_ns: now_ns.max(1) };
        }
    }

    /// Notes a packet that arrived at the port: it may return a timestamp.
    #[inline]
    pub(crate) fn arrived(&mut self, frame: &[u8], now_ns: u64) {
        let Some(segment) = Segment::parse(frame, true) else { return };
        let key = self.hasher.hash_one((segment.host, segment.port, segment.echo)) | 1;
        let place = &mut self.left[index(key, TIMESTAMPS)];
        if place.key != key || place.at_ns == 0 {
            return;
        }
        let rtt_ns = now_ns.saturating_sub(place.at_ns);
        place.at_ns = 0;
        let host = self.hasher.hash_one(segment.host) | 1;
        let delay_ns = self.hosts[index(host, HOSTS)].delay_ns(host, rtt_ns, now_ns);
        if let Some(delay_ns) = delay_ns.filter(|_| self.delays_ns.len() < DELAYS) {
            self.delays_ns.push(delay_ns);
        }
    }

    /// Adds a delay, ns.
    #[cfg(test)]
    pub(crate) fn add_delay(&mut self, delay_ns: u64) {
        self.delays_ns.push(delay_ns);
    }

    /// Returns the median of the delays since the last call, ns; `None` without any.
    pub(crate) fn take_delay_ns(&mut self) -> Option<u64> {
        let middle = self.delays_ns.len() / 2;
        let delay_ns =
            (!self.delays_ns.is_empty()).then(|| *self.delays_ns.select_nth_unstable(middle).1);
        self.delays_ns.clear();
        delay_ns
    }
}

impl Host {
    /// Returns by how much `rtt_ns` exceeds the least time; `None` for the first time.
    fn delay_ns(&mut self, key: u64, rtt_ns: u64, now_ns: u64) -> Option<u64> {
        let window = now_ns / WINDOW_NS;
        let stale = window > self.window + 1;
        if self.key != key || stale {
            *self = Self { key, window, least_ns: (u64::MAX, rtt_ns) };
            return None;
        }
        if window != self.window {
            self.window = window;
            self.least_ns = (self.least_ns.1, u64::MAX);
        }
        self.least_ns.1 = self.least_ns.1.min(rtt_ns);
        Some(rtt_ns - self.least_ns.0.min(self.least_ns.1))
    }
}

/// The other host of a TCP packet, and its timestamps.
struct Segment<'a> {
    host: &'a [u8],
    port: &'a [u8],
    value: &'a [u8],
    echo: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Returns the segment of `frame`, if it has timestamps; `from_host`: the other host sent it.
    #[inline]
    fn parse(frame: &'a [u8], from_host: bool) -> Option<Self> {
        let transport = any_transport(frame).filter(|of| of.protocol == TCP && !of.fragment)?;
        let tcp = frame.get(transport.start..transport.end)?;
        let options = tcp.get(20..usize::from(*tcp.get(12)? >> 4) * 4)?;
        let (value, echo) = timestamps(options)?;
        let (size, first) = if is_v6(frame) { (16, 8) } else { (4, 12) };
        let at = transport.header + first + if from_host { 0 } else { size };
        let port = if from_host { 0 } else { 2 };
        Some(Self { host: frame.get(at..at + size)?, port: &tcp[port..port + 2], value, echo })
    }
}

/// Returns the value and the echo of the timestamps option.
#[inline]
fn timestamps(mut options: &[u8]) -> Option<(&[u8], &[u8])> {
    loop {
        match *options {
            [] | [0, ..] => return None,
            // No operation.
            [1, ref rest @ ..] => options = rest,
            [kind, length, ..] if (kind, length) == OPTION => {
                return Some((options.get(2..6)?, options.get(6..10)?));
            }
            [_, length, ..] => options = options.get(usize::from(length.max(2))..)?,
            [_] => return None,
        }
    }
}

/// Returns the place of a hash in a table of `places` places, a power of two.
fn index(key: u64, places: usize) -> usize {
    // The lowest bit is always set.
    usize::try_from(key >> 1).unwrap_or(0) & (places - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, TcpOptionElement};

    const MS: u64 = 1_000_000;
    const OURS: ([u8; 4], u16) = ([10, 1, 0, 5], 40_000);
    const SERVER: ([u8; 4], u16) = ([10, 2, 0, 9], 80);

    fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), value: u32, echo: u32) -> Vec<u8> {
        let options = [TcpOptionElement::Noop, TcpOptionElement::Timestamp(value, echo)];
        let packet = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from.0, to.0, 64);
        let packet = packet.tcp(from.1, to.1, 7, 1_000).options(&options).unwrap();
        let mut frame = Vec::new();
        packet.write(&mut frame, &[0; 100]).unwrap();
        frame
    }

    /// Sends timestamp `value` at `at_ns`, which the server returns `rtt_ns` later.
    fn round_trip(
        of: &mut RoundTrips,
        server: ([u8; 4], u16),
        value: u32,
        at_ns: u64,
        rtt_ns: u64,
    ) {
        of.left(&packet(OURS, server, value, 3), at_ns);
        of.arrived(&packet(server, OURS, 900 + value, value), at_ns + rtt_ns);
    }

    #[test]
    fn the_delay_is_what_exceeds_the_least_time_of_the_host() {
        let mut of = RoundTrips::default();
        round_trip(&mut of, SERVER, 1, MS, 20 * MS);
        assert_eq!(of.take_delay_ns(), None, "the first time of a host");
        round_trip(&mut of, SERVER, 2, 50 * MS, 65 * MS);
        assert_eq!(of.take_delay_ns(), Some(45 * MS));
        assert_eq!(of.take_delay_ns(), None);
        // Another host is further away.
        let far = ([10, 9, 0, 9], 80);
        round_trip(&mut of, far, 2, 200 * MS, 180 * MS);
        round_trip(&mut of, far, 3, 400 * MS, 190 * MS);
        assert_eq!(of.take_delay_ns(), Some(10 * MS));
        for (value, rtt_ms) in [(4, 30), (5, 24), (6, 90)] {
            round_trip(&mut of, SERVER, value, 900 * MS, rtt_ms * MS);
        }
        assert_eq!(of.take_delay_ns(), Some(10 * MS), "the median of 10, 4 and 70 ms");
    }

    #[test]
    fn the_first_packet_with_a_timestamp_and_its_first_return_count() {
        let mut of = RoundTrips::default();
        round_trip(&mut of, SERVER, 1, MS, 20 * MS);
        of.left(&packet(OURS, SERVER, 2, 3), 100 * MS);
        of.left(&packet(OURS, SERVER, 2, 3), 109 * MS);
        of.arrived(&packet(SERVER, OURS, 950, 2), 130 * MS);
        of.left(&packet(OURS, SERVER, 2, 3), 131 * MS);
        of.arrived(&packet(SERVER, OURS, 951, 2), 139 * MS);
        assert_eq!(of.delays_ns, [10 * MS]);
        // A timestamp that did not leave, and that of another port.
        of.arrived(&packet(SERVER, OURS, 952, 77), 140 * MS);
        of.left(&packet(OURS, SERVER, 9, 3), 150 * MS);
        of.arrived(&packet((SERVER.0, 81), OURS, 952, 9), 190 * MS);
        assert_eq!(of.delays_ns, [10 * MS]);
    }

    #[test]
    fn a_least_time_ends_after_two_windows() {
        let mut of = RoundTrips::default();
        round_trip(&mut of, SERVER, 1, WINDOW_NS - 40 * MS, 20 * MS);
        // The route is longer now.
        round_trip(&mut of, SERVER, 2, WINDOW_NS + MS, 70 * MS);
        assert_eq!(of.take_delay_ns(), Some(50 * MS));
        round_trip(&mut of, SERVER, 3, 2 * WINDOW_NS + MS, 75 * MS);
        assert_eq!(of.take_delay_ns(), Some(5 * MS));
        round_trip(&mut of, SERVER, 4, 5 * WINDOW_NS, 90 * MS);
        assert_eq!(of.take_delay_ns(), None, "too long ago");
    }

    #[test]
    fn a_flood_of_hosts_and_of_delays_needs_no_more_memory() {
        let mut of = RoundTrips::default();
        for host in 0..20_000_u32 {
            let [_, _, high, low] = host.to_be_bytes();
            let server = ([10, 2, high, low], 80);
            round_trip(&mut of, server, host, u64::from(host) * MS, MS);
            round_trip(&mut of, server, host + 1, u64::from(host) * MS, MS);
        }
        assert_eq!((of.delays_ns.len(), of.delays_ns.capacity()), (DELAYS, DELAYS));
    }

    #[test]
    fn packets_without_timestamps_are_ignored() {
        for options in [&[][..], &[1, 1, 8], &[8, 10, 0, 0], &[0, 8, 10, 0], &[5, 0, 8], &[3]] {
            assert_eq!(timestamps(options), None, "{options:?}");
        }
        let option = [2, 4, 5, 180, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        assert_eq!(timestamps(&option), Some((&[0, 0, 0, 7][..], &[0, 0, 0, 9][..])));
        let frame = packet(OURS, SERVER, 1, 2);
        for end in 0..frame.len() {
            assert!(Segment::parse(&frame[..end], true).is_none(), "{end}");
        }
    }
}
