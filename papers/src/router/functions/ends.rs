//! Senders and receivers of packets in memory.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpHeader, TransportSlice};
use millstream_router::PacketHandle;
use millstream_router::live::{Pool, Port, PortError};
use std::collections::VecDeque;

/// Hardware addresses of the router and of every neighbour.
pub(super) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// TCP connections between clients and the server.
const CONNECTIONS: u16 = 16;
/// The first message of a client.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
/// Every further message: the payload of a TCP frame of 60 bytes.
const MESSAGE: &[u8] = b"hello\n";
/// A window that the messages never fill.
const WINDOW: u16 = 8_000;

/// Returns a UDP frame of at least 60 bytes with these IP options.
pub(super) fn udp(to: [u8; 4], port: u16, options: &[u8]) -> Vec<u8> {
    let options = options.try_into().expect("options of whole words");
    let header = etherparse::Ipv4Header {
        protocol: etherparse::IpNumber::UDP,
        time_to_live: 64,
        source: [10, 1, 0, 1],
        destination: to,
        options,
        ..Default::default()
    };
    let ip = etherparse::IpHeaders::Ipv4(header, Default::default());
    let mut frame = Vec::new();
    let udp = PacketBuilder::ethernet2(NEIGHBOUR, MAC).ip(ip).udp(9, port);
    udp.write(&mut frame, &[0; 18]).expect("a vector takes every byte");
    frame
}

/// Both ends of all connections behind one port.
pub(super) struct Ends {
    /// Frames that are sent over and over.
    repeated: Vec<Vec<u8>>,
    next: usize,
    /// Frames that are sent once.
    queued: VecDeque<Vec<u8>>,
}

impl Ends {
    /// Returns a sender that repeats these frames.
    pub(super) fn repeating(frames: Vec<Vec<u8>>) -> Self {
        Self { repeated: frames, next: 0, queued: VecDeque::new() }
    }

    /// Returns clients that connect to a server and exchange short messages in turn.
    pub(super) fn talking() -> Self {
        let queued = (0..CONNECTIONS).map(syn).collect();
        Self { repeated: Vec::new(), next: 0, queued }
    }
}

impl Port for Ends {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let before = into.len();
        if self.repeated.is_empty() {
            let count = most.min(self.queued.len());
            into.extend(self.queued.drain(..count).filter_map(|frame| pool.copy(&frame)));
            return Ok(into.len() - before);
        }
        for _ in 0..most.min(pool.free()) {
            into.extend(pool.copy(&self.repeated[self.next]));
            self.next = (self.next + 1) % self.repeated.len();
        }
        Ok(into.len() - before)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        for packet in packets {
            if self.repeated.is_empty() {
                self.queued.extend(answer(pool.frame(*packet)));
            }
            pool.release(*packet);
        }
        Ok(packets.len())
    }
}

/// Returns the first segment of a connection.
fn syn(connection: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let to_server = PacketBuilder::ethernet2(NEIGHBOUR, MAC).ipv4([10, 1, 0, 1], [10, 2, 0, 9], 64);
    let syn = to_server.tcp(4_000 + connection, 80, 1_000, WINDOW).syn();
    syn.write(&mut frame, &[]).expect("a vector takes every byte");
    frame
}

/// Returns the segment with which an end answers a segment; `None` for a bare acknowledgement.
fn answer(of: &[u8]) -> Option<Vec<u8>> {
    let packet = SlicedPacket::from_ethernet(of).ok()?;
    let (Some(TransportSlice::Tcp(tcp)), Some(NetSlice::Ipv4(ip))) = (packet.transport, packet.net)
    else {
        return None;
    };
    let length = u32::try_from(tcp.payload().len()).ok()?;
    if length == 0 && !tcp.syn() {
        return None;
    }
    // A server starts from a sequence number of its own.
    let accepts = tcp.syn() && !tcp.ack();
    let sequence = if accepts { 77_000 } else { tcp.acknowledgment_number() };
    let (from, to) = (tcp.destination_port(), tcp.source_port());
    let mut header = TcpHeader::new(from, to, sequence, WINDOW);
    header.ack = true;
    header.syn = accepts;
    header.psh = !accepts;
    header.acknowledgment_number =
        tcp.sequence_number().wrapping_add(length + u32::from(tcp.syn()));
    let data = match (accepts, tcp.syn()) {
        (true, _) => &[],
        (false, true) => REQUEST,
        (false, false) => MESSAGE,
    };
    let ip = ip.header();
    let back = PacketBuilder::ethernet2(NEIGHBOUR, MAC).ipv4(ip.destination(), ip.source(), 64);
    let mut frame = Vec::new();
    back.tcp_header(header).write(&mut frame, data).ok()?;
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::{answer, syn, udp};

    #[test]
    fn frames_have_the_shortest_length_of_ethernet() {
        assert_eq!(udp([10, 2, 0, 1], 9, &[]).len(), 60);
        assert_eq!(udp([10, 2, 0, 1], 9, &[7, 3, 4, 0]).len(), 64);
        let accepted = answer(&syn(3)).unwrap();
        let request = answer(&accepted).unwrap();
        assert_eq!(request.len(), 54 + super::REQUEST.len());
        let message = answer(&request).unwrap();
        assert_eq!(message.len(), 60);
        // Ports 80 and 4003 in turn; the acknowledgement follows the request.
        assert_eq!(message[34..38], [0, 80, 15, 163]);
        assert_eq!(answer(&message).unwrap()[34..38], [15, 163, 0, 80]);
    }
}
