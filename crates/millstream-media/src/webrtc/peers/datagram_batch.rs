//! Datagrams to one address that leave in one call (UDP segmentation offload).

use socket2::SockRef;
use std::io::IoSlice;
use std::net::SocketAddr;

use crate::data_plane::packet_sender::{MAX_CALL_BYTES, MAX_SEGMENTS, gather, send_datagrams};

/// Datagrams of one length that have not been sent; the last of them may be shorter.
#[derive(Debug)]
pub(super) struct DatagramBatch {
    to: Option<SocketAddr>,
    /// The length of each datagram but the last, bytes.
    segment: usize,
    count: usize,
    bytes: Vec<u8>,
    /// Whether one call may send several datagrams.
    segments: bool,
}

impl DatagramBatch {
    /// Creates an empty batch. It never takes more memory than a call can send.
    pub(super) fn new() -> Self {
        let bytes = Vec::with_capacity(MAX_CALL_BYTES);
        Self { to: None, segment: 0, count: 0, bytes, segments: true }
    }

    /// Adds a datagram. Sends the others first if it does not fit their call. Returns the number of
    /// datagrams that the kernel refused.
    pub(super) fn push(&mut self, socket: SockRef<'_>, to: SocketAddr, datagram: &[u8]) -> usize {
        let fits = self.segments
            && self.to == Some(to)
            && datagram.len() <= self.segment
            && self.bytes.len() == self.count * self.segment
            && self.count < MAX_SEGMENTS
            && self.bytes.len() + datagram.len() <= MAX_CALL_BYTES;
        let refused = if fits { 0 } else { self.flush(socket) };
        if self.count == 0 {
            (self.to, self.segment) = (Some(to), datagram.len());
        }
        self.bytes.extend_from_slice(datagram);
        self.count += 1;
        refused
    }

    /// Sends all datagrams. Returns the number of those that the kernel refused.
    pub(super) fn flush(&mut self, socket: SockRef<'_>) -> usize {
        let Some(to) = self.to.take() else { return 0 };
        let segment = u32::try_from(self.segment).ok().filter(|_| self.count > 1);
        let all = [IoSlice::new(&self.bytes)];
        let apart = self.bytes.chunks(self.segment.max(1));
        let apart = apart.map(|one| gather(&socket, to, &[IoSlice::new(one)], None));
        let (refused, has_offload) = send_datagrams(&socket, to, &all, segment, apart);
        self.segments &= has_offload;
        self.bytes.clear();
        self.count = 0;
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_plane::packet_sender::{may_leave_apart, send_apart};
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn socket() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    /// Returns the first byte and the length of each datagram that waits.
    fn received(socket: &UdpSocket) -> Vec<(u8, usize)> {
        let mut buffer = [0; 2_000];
        let next = || socket.recv(&mut buffer).ok().map(|length| (buffer[0], length));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn datagrams_of_one_length_leave_together_and_arrive_apart() {
        let (sender, _) = socket();
        let [(first, to_first), (second, to_second)] = [(); 2].map(|()| socket());
        let mut batch = DatagramBatch::new();
        let mut push = |to, number: u8, length: usize| {
            assert_eq!(batch.push(SockRef::from(&sender), to, &vec![number; length]), 0);
            received(&first)
        };
        assert_eq!(push(to_first, 1, 1_200), []);
        assert_eq!(push(to_first, 2, 1_200), []);
        assert_eq!(push(to_first, 3, 70), []);
        // The shorter one was the last of its call.
        assert_eq!(push(to_first, 4, 70), [(1, 1_200), (2, 1_200), (3, 70)]);
        assert_eq!(push(to_first, 5, 71), [(4, 70)], "a longer one");
        assert_eq!(push(to_second, 6, 71), [(5, 71)], "another address");
        assert_eq!(batch.flush(SockRef::from(&sender)), 0);
        assert_eq!((received(&first), received(&second)), (vec![], vec![(6, 71)]));
        assert_eq!(batch.flush(SockRef::from(&sender)), 0, "empty");
    }

    #[test]
    fn a_call_and_the_memory_are_bounded() {
        let ((sender, _), (receiver, to)) = (socket(), socket());
        let mut batch = DatagramBatch::new();
        for length in [1_400, 40_000] {
            for _ in 0..100 {
                batch.push(SockRef::from(&sender), to, &vec![7; length]);
                assert!(batch.count <= MAX_SEGMENTS && batch.bytes.capacity() <= MAX_CALL_BYTES);
                received(&receiver);
            }
        }
    }

    #[test]
    fn refused_datagrams_are_counted_and_without_offload_each_is_sent() {
        let ((sender, _), (receiver, to)) = (socket(), socket());
        let mut batch = DatagramBatch::new();
        let mut send_two = |to: SocketAddr| {
            let socket = || SockRef::from(&sender);
            let pushed = batch.push(socket(), to, &[1; 10]) + batch.push(socket(), to, &[2; 10]);
            (pushed + batch.flush(socket()), batch.segments)
        };
        // Invalid with and without offload: the fault of the address.
        assert_eq!(send_two("127.0.0.1:0".parse().unwrap()), (2, true));
        assert_eq!(send_two(to), (0, true));
        // The kernel cuts no datagrams without checksums.
        disable_checksums(&sender);
        assert_eq!(send_two(to), (0, false));
        assert_eq!(received(&receiver), [(1, 10), (2, 10), (1, 10), (2, 10)]);
    }

    #[allow(unsafe_code)]
    fn disable_checksums(socket: &UdpSocket) {
        let (one, length) = (1i32, 4);
        // SAFETY: the call reads the four bytes of `one`.
        let set = unsafe {
            let (level, option) = (libc::SOL_SOCKET, libc::SO_NO_CHECK);
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const one).cast(), length)
        };
        assert_eq!(set, 0);
    }

    #[test]
    fn a_path_with_a_small_mtu_does_not_end_the_offload() {
        let too_long = std::io::Error::from_raw_os_error(libc::EMSGSIZE);
        let missing = std::io::Error::from_raw_os_error(libc::EINVAL);
        assert!(may_leave_apart(&too_long) && may_leave_apart(&missing));
        let sent = || [true, true].into_iter().map(|_| Ok(()));
        assert_eq!(send_apart(&too_long, sent()), (0, true));
        assert_eq!(send_apart(&missing, sent()), (0, false));
    }
}
