//! Socket options of RTSP connections: what the kernel may keep for a client that does not read.
//!
//! ```text
//! output ──write──> not sent yet | in flight ──> client's kernel ──> client
//! (ours)            NOTSENT_LOWAT  SO_SNDBUF     its receive window
//! ```
//! Without these options the kernel takes megabytes for a client that has stopped reading, and a
//! frame in its buffer looks like a frame on its way. `TCP_NOTSENT_LOWAT` makes the socket
//! unwritable as soon as some kilobytes wait behind a closed window; `SO_SNDBUF` bounds what is in
//! flight; `TCP_USER_TIMEOUT` ends a connection whose bytes nobody acknowledges or whose window
//! stays closed.
//!
//! Keepalive is left off: `idle-timeout` already closes a connection that says nothing, whether or
//! not its host is still there.

use mio::net::TcpStream;
use socket2::SockRef;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How much of its streams' rate may wait in the kernel unsent before a write is refused: the delay
/// of a frame behind it, at a client that reads at that rate. One more segment may go beyond.
const UNSENT_NS: u64 = 20_000_000;

/// Its bounds, bytes. A write less often than once an acknowledgement would slow fast streams down.
const UNSENT_BYTES: RangeInclusive<u64> = 4 << 10..=64 << 10;

/// How much of its streams' rate may be in flight to a client: enough for a round trip of half a
/// second.
const IN_FLIGHT_NS: u64 = 500_000_000;

/// Its bounds, bytes: an I-frame at once, and no more than a connection may leave unread.
const IN_FLIGHT_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 20;

/// Sets the options of a new connection, which is to end when its bytes have not been acknowledged
/// for `stall_timeout_ns`. What the kernel does not grant costs precision only: a connection that
/// takes nothing is closed by session control, too.
pub(crate) fn set_up(stream: &TcpStream, stall_timeout_ns: u64) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_notsent_lowat(bytes_of(0, UNSENT_NS, UNSENT_BYTES));
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_nanos(stall_timeout_ns)));
}

/// Bounds what the kernel may hold for a client that plays streams of `rate_bps` together.
pub(crate) fn bound(stream: &TcpStream, rate_bps: u64) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_notsent_lowat(bytes_of(rate_bps, UNSENT_NS, UNSENT_BYTES));
    let in_flight = bytes_of(rate_bps, IN_FLIGHT_NS, IN_FLIGHT_BYTES);
    let _ = socket.set_send_buffer_size(in_flight as usize);
}

/// What comes at a rate in so long, within bounds.
fn bytes_of(rate_bps: u64, time_ns: u64, bounds: RangeInclusive<u64>) -> u32 {
    let bytes = u128::from(rate_bps) * u128::from(time_ns) / 8_000_000_000;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).clamp(*bounds.start(), *bounds.end());
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Ends a connection at once when it is closed next: the kernel forgets what the client has not
/// read.
pub(crate) fn abandon(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Bytes that the kernel has taken and has not sent once: `tcpi_notsent_bytes` of `TCP_INFO`. 0
/// where it does not say.
#[allow(unsafe_code)]
pub(crate) fn not_sent_bytes(stream: &TcpStream) -> u64 {
    // SAFETY: `tcp_info` is made of integers, for which all zeros are a value.
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

/// Whether an error says that the kernel gave the connection up: the client acknowledged nothing
/// for too long.
pub(crate) fn is_stall(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_kernel_holds_a_time_of_the_rate_within_bounds() {
        let in_flight = |rate_bps| bytes_of(rate_bps, IN_FLIGHT_NS, IN_FLIGHT_BYTES) >> 10;
        assert_eq!([0, 1_000_000, 8 << 20, u64::MAX].map(in_flight), [64, 64, 512, 1024]);
        let unsent = |rate_bps| bytes_of(rate_bps, UNSENT_NS, UNSENT_BYTES);
        assert_eq!([0, 8_000_000, u64::MAX].map(unsent), [4_096, 20_000, 65_536]);
    }

    #[test]
    fn the_kernel_takes_little_for_a_client_that_does_not_read() {
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
