//! Socket options of RTSP connections: they bound the data in the kernel for a client that does not
//! read.
//!
//! ```text
//! output ──write──> not sent yet | in flight ──> client's kernel ──> client
//! (ours)            NOTSENT_LOWAT  SO_SNDBUF     its receive window
//! ```
//! Without these options the kernel accepts megabytes for a client that has stopped reading, and a
//! frame in its buffer looks sent. `TCP_NOTSENT_LOWAT` makes the socket unwritable once some
//! kilobytes wait behind a closed window. `SO_SNDBUF` bounds the bytes in flight.
//! `TCP_USER_TIMEOUT` ends a connection whose bytes stay unacknowledged or whose window stays
//! closed.
//!
//! Keepalive is off: `idle-timeout` already closes a silent connection, whether or not its host
//! still exists.

use mio::net::TcpStream;
use socket2::SockRef;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The share of the streams' rate that may wait unsent in the kernel before a write is refused, ns.
/// It is the delay of a frame behind it if the client reads at that rate. One more segment may be
/// unsent.
const UNSENT_NS: u64 = 20_000_000;

/// The bounds of the unsent bytes. Writing less often than once per acknowledgement would slow fast
/// streams.
const UNSENT_BYTES: RangeInclusive<u64> = 4 << 10..=64 << 10;

/// The share of the streams' rate that may be in flight, ns: sufficient for a round trip of 0.5 s.
const IN_FLIGHT_NS: u64 = 500_000_000;

/// The bounds of the bytes in flight: room for an I-frame, and at most the unread limit of a
/// connection.
const IN_FLIGHT_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 20;

/// Sets the options of a new connection; the kernel ends it after `stall_timeout_ns` without an
/// acknowledgement. Failures cost only precision, because session control also closes a stalled
/// connection.
pub(crate) fn set_up(stream: &TcpStream, stall_timeout_ns: u64) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_notsent_lowat(bytes_of(0, UNSENT_NS, UNSENT_BYTES));
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_nanos(stall_timeout_ns)));
}

/// Bounds the bytes in the kernel for a client whose streams have a total rate of `rate_bps`.
pub(crate) fn bound(stream: &TcpStream, rate_bps: u64) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_notsent_lowat(bytes_of(rate_bps, UNSENT_NS, UNSENT_BYTES));
    let in_flight = bytes_of(rate_bps, IN_FLIGHT_NS, IN_FLIGHT_BYTES);
    let _ = socket.set_send_buffer_size(in_flight as usize);
}

/// Returns the bytes of `time_ns` at a rate, clamped to `bounds`.
fn bytes_of(rate_bps: u64, time_ns: u64, bounds: RangeInclusive<u64>) -> u32 {
    let bytes = u128::from(rate_bps) * u128::from(time_ns) / 8_000_000_000;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).clamp(*bounds.start(), *bounds.end());
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Makes the next close abort the connection: the kernel discards unread bytes.
pub(crate) fn abandon(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Returns the bytes that the kernel has accepted and never sent: `tcpi_notsent_bytes` of
/// `TCP_INFO`; 0 if it does not report them.
#[allow(unsafe_code)]
pub(crate) fn not_sent_bytes(stream: &TcpStream) -> u64 {
    // SAFETY: `tcp_info` consists of integers, for which all-zero is a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::tcp_info>();
    let mut length = libc::socklen_t::try_from(size).unwrap_or(0);
    let to = (&raw mut info).cast();
    let descriptor = stream.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`, to it; `stream` is
    // open.
    let result = unsafe {
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
    };
    if result == 0 { info.tcpi_notsent_bytes.into() } else { 0 }
}

/// Returns whether an error means that the kernel gave up the connection: the client acknowledged
/// nothing for too long.
pub(crate) fn is_stall(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn kernel_buffers_are_a_time_of_the_rate_within_bounds() {
        let in_flight = |rate_bps| bytes_of(rate_bps, IN_FLIGHT_NS, IN_FLIGHT_BYTES) >> 10;
        assert_eq!([0, 1_000_000, 8 << 20, u64::MAX].map(in_flight), [64, 64, 512, 1024]);
        let unsent = |rate_bps| bytes_of(rate_bps, UNSENT_NS, UNSENT_BYTES);
        assert_eq!([0, 8_000_000, u64::MAX].map(unsent), [4_096, 20_000, 65_536]);
    }

    #[test]
    fn the_kernel_accepts_little_for_a_client_that_does_not_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        client.set_recv_buffer_size(4 << 10).unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream);
        set_up(&stream, 10_000_000_000);
        bound(&stream, 1_000_000);
        let mut taken = 0;
        while let Ok(count) = stream.write(&[0; 1400]) {
            taken += count;
            assert!(taken < 64 << 10, "{taken} bytes");
        }
        let not_sent = not_sent_bytes(&stream);
        assert!(not_sent >= *UNSENT_BYTES.start(), "{not_sent} of {taken}");
    }
}
