//! Where frames go: datagrams to a client's ports, or an order to the host that has its connection.
//!
//! Packets of one length that are due together go to the kernel in one call (UDP segmentation
//! offload), the last of them may be shorter.

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use rtcp_types::{Bye, Compound, RtcpPacketWriterExt, Sdes, SdesChunk, SdesItem, SenderReport};
use rtp_types::RtpPacketBuilder;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use crate::client::{Client, low_bits};
use crate::clock::{now_ns, ntp_now};
use crate::dispatch::{Outlet, Sending};
use crate::region::{Region, Setting, Word};
use crate::store::PacketRecord;

/// The most that goes to the kernel in one call: a datagram's limit.
const LARGEST_CALL: usize = 65_507;

/// In an order, in a frame's place: a report; the next word is whether it is a goodbye << 32 | RTP time.
pub(crate) const REPORT: u64 = u64::MAX;

/// The sockets of all clients, and the way to the host.
pub(crate) struct Network {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    state: UdpSocketState,
    region: Region,
    /// Packets of one call, one behind the other.
    buffer: Vec<u8>,
    /// Orders were given that the host is to be told of.
    pub(crate) ordered: bool,
}

impl Network {
    /// Sends by these two sockets.
    ///
    /// # Errors
    /// If the sockets cannot be set up.
    pub(crate) fn new(rtp: UdpSocket, rtcp: UdpSocket, region: Region) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&rtp))?;
        // A kernel without room holds dispatch up, as a link does that is slower than was said: a
        // frame that was begun is sent whole.
        rtp.set_nonblocking(false)?;
        rtcp.set_nonblocking(true)?;
        // Room for a burst; what the kernel does not grant costs only more calls.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&rtp), 4 << 20);
        let buffer = Vec::with_capacity(LARGEST_CALL);
        Ok(Self { rtp, rtcp, state, region, buffer, ordered: false })
    }

    /// The RTCP socket, to hear from clients.
    pub(crate) fn rtcp(&self) -> &UdpSocket {
        &self.rtcp
    }

    /// Sends what is in the buffer; packets that the kernel refuses are counted and given up.
    fn send(&mut self, destination: SocketAddr, segment: usize) {
        if self.buffer.is_empty() {
            return;
        }
        let segment_size = (segment < self.buffer.len()).then_some(segment);
        let contents = &self.buffer[..];
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        let before_ns = now_ns();
        if self.state.try_send(UdpSockRef::from(&self.rtp), &transmit).is_err() {
            self.region.add(Setting::SendErrors, 1);
        }
        self.region.add(Setting::SendingNs, now_ns() - before_ns);
        self.buffer.clear();
    }

    /// Whether one more packet of `length` fits behind what is in the buffer.
    fn fits(&self, segment: usize, length: usize) -> bool {
        let packets = self.buffer.len() / segment.max(1);
        length <= segment
            && self.buffer.len() == packets * segment
            && packets < self.state.max_gso_segments()
            && self.buffer.len() + length <= LARGEST_CALL
    }
}

/// Writes packet `at` of a frame to the end of `buffer`; `last` marks the end of the frame.
pub(crate) fn write_packet(
    buffer: &mut Vec<u8>,
    of: &Sending<'_>,
    rtp_time: u32,
    at: usize,
    packet: &PacketRecord,
    last: bool,
) {
    let row = of.client.row;
    let number = row.get(Word::SequenceBase).wrapping_add(of.sequence).wrapping_add(at as u64);
    let (header, payload) = of.store.payload(packet);
    let builder = RtpPacketBuilder::<&[u8], &[u8]>::new()
        .payload_type(u8::try_from(of.client.media.payload_type & 127).unwrap_or(0))
        .marker_bit(last)
        .sequence_number(u16::try_from(number & 0xffff).unwrap_or(0))
        .timestamp(rtp_time)
        .ssrc(low_bits(row.get(Word::Ssrc)))
        .payload(header)
        .payload(payload);
    builder.write_into_vec_unchecked(buffer);
}

impl Outlet for Network {
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) {
        let Some((destination, _)) = of.client.row.destinations() else {
            if first == 0 {
                let numbers = of.sequence;
                let order = [of.client.session as u64, of.frame.number, numbers, of.client.ssrc()];
                if !self.region.orders().push(order) {
                    self.region.add(Setting::SendErrors, 1);
                }
                self.ordered = true;
            }
            return;
        };
        let record = of.client.frame(&of.frame, of.store);
        let all = of.store.packets(&record);
        let rtp_time = of.client.rtp_time(&of.frame, of.store);
        let mut segment = 0;
        for (at, packet) in all.iter().enumerate().skip(first).take(packets) {
            let length = packet.length() as usize;
            if !self.buffer.is_empty() && !self.fits(segment, length) {
                self.send(destination, segment);
            }
            if self.buffer.is_empty() {
                segment = length;
            }
            write_packet(&mut self.buffer, of, rtp_time, at, packet, at + 1 == all.len());
        }
        self.send(destination, segment);
    }

    fn report(&mut self, client: &Client, rtp_time: u32, bye: bool) {
        let Some((_, destination)) = client.row.destinations() else {
            let what = u64::from(bye) << 32 | u64::from(rtp_time);
            if !self.region.orders().push([client.session as u64, REPORT, what, client.ssrc()]) {
                self.region.add(Setting::SendErrors, 1);
            }
            self.ordered = true;
            return;
        };
        let mut packet = [0; 256];
        let sent = write_report(&mut packet, client, rtp_time, bye)
            .is_some_and(|length| self.rtcp.send_to(&packet[..length], destination).is_ok());
        if !sent {
            self.region.add(Setting::SendErrors, 1);
        }
    }
}

/// A compound RTCP packet: sender report, canonical name, and goodbye at the end (RFC 3550, 6.1).
pub(crate) fn write_report(
    buffer: &mut [u8],
    client: &Client,
    rtp_time: u32,
    bye: bool,
) -> Option<usize> {
    let row = client.row;
    let ssrc = low_bits(row.get(Word::Ssrc));
    let report = SenderReport::builder(ssrc)
        .ntp_timestamp(ntp_now())
        .rtp_timestamp(rtp_time)
        .packet_count(low_bits(row.get(Word::Packets)))
        .octet_count(low_bits(row.get(Word::Octets)));
    let name = SdesChunk::builder(ssrc).add_item(SdesItem::builder(SdesItem::CNAME, "millstream"));
    let mut compound =
        Compound::builder().add_packet(report).add_packet(Sdes::builder().add_chunk(name));
    if bye {
        compound = compound.add_packet(Bye::builder().add_source(ssrc));
    }
    compound.write_into(buffer).ok()
}
