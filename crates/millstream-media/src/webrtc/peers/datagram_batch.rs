//! Datagrams to one address that leave in one call (UDP segmentation offload).

use socket2::SockRef;
use std::io::IoSlice;
use std::net::SocketAddr;

use crate::data_plane::packet_sender::{MAX_CALL_BYTES, MAX_SEGMENTS, gather, is_offload_missing};

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
        let sent = gather(&socket, to, &[IoSlice::new(&self.bytes)], segment);
        let refused = match sent {
            Ok(()) => 0,
            Err(error) if segment.is_some() && is_offload_missing(&error) => {
                self.segments = false;
                let each = self.bytes.chunks(self.segment.max(1));
                let is_refused =
                    |one: &&[u8]| gather(&socket, to, &[IoSlice::new(one)], None).is_err();
                each.filter(is_refused).count()
            }
            Err(_) => self.count,
        };
        self.bytes.clear();
        self.count = 0;
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

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
        // Segments above the MTU of the loopback interface: the kernel refuses the call.
        for number in [1, 2] {
            assert_eq!(batch.push(SockRef::from(&sender), to, &[number; 65_000 / 2]), 0);
        }
        let nowhere = "[::1]:9".parse().unwrap();
        assert_eq!(batch.push(SockRef::from(&sender), nowhere, &[3; 10]), 0);
        batch.segments = false;
        assert_eq!(batch.push(SockRef::from(&sender), nowhere, &[3; 10]), 1, "the family");
        assert_eq!(batch.flush(SockRef::from(&sender)), 1);
        assert_eq!(received(&receiver).len(), 2);
    }
}
