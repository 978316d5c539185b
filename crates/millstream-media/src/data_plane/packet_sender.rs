//! The packet sender: sends frames as datagrams, or orders the host to send them over RTSP or by
//! WebRTC.
//!
//! Due packets of one length go to the kernel in one call (UDP segmentation offload); the last of
//! them may be shorter. The kernel gathers the headers from a local buffer and the payload directly
//! from the store.

use millstream_sync::clock::system::{now_ns, ntp_at};
use rtcp_types::{Bye, Compound, RtcpPacketWriterExt, Sdes, SdesChunk, SdesItem, SenderReport};
use rtp_types::RtpPacketBuilder;
use socket2::{MsgHdr, SockAddr, SockRef};
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;

use crate::payload::marks_frames;
use crate::rtp::low_u32;
use crate::scheduler::client::{Client, ReportTime};
use crate::scheduler::dispatch::{PacketSender, Sending};
use crate::shared_memory::region::{GlobalField, Region, SessionField};
use crate::shared_memory::store::PacketRecord;
use crate::wake_socket::signal;

/// The largest number of bytes per call: the limit of a UDP datagram.
pub(crate) const MAX_CALL_BYTES: usize = 65_507;

/// The largest number of packets per call; all kernels with segmentation offload accept it.
pub(crate) const MAX_SEGMENTS: usize = 32;

/// The largest size of a packet's headers, bytes: RTP's and the payload format's.
const HEADER: usize = 16;

/// The size of the header of the control message with the segment length, bytes.
const CONTROL_HEADER: usize = size_of::<usize>() + 8;
const CONTROL: usize = CONTROL_HEADER + size_of::<usize>();

/// The frame number in an order that requests an RTCP report.
///
/// The next words of the order are the goodbye flag << 32 | RTP time, and the time of that instant.
pub(crate) const REPORT: u64 = u64::MAX;

/// The sockets for all clients, and the order queue to the host.
pub(crate) struct Network {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    region: Region,
    /// Whether one call may send several packets.
    segments: bool,
    /// The event counter of the media thread.
    media_thread: File,
    /// Whether there are new orders that session control must be woken for.
    pub(crate) ordered: bool,
    /// Whether there are new orders that the media thread must be woken for.
    ordered_webrtc: bool,
}

impl Network {
    /// Creates a packet sender on two sockets and the event counter of the media thread.
    ///
    /// # Errors
    /// Fails if a socket's blocking mode cannot be set.
    pub(crate) fn new(
        rtp: UdpSocket,
        rtcp: UdpSocket,
        media_thread: File,
        region: Region,
    ) -> io::Result<Self> {
        // Blocking mode: a full socket buffer delays dispatch as a slower link does, because a
        // frame that was begun is sent whole.
        rtp.set_nonblocking(false)?;
        rtcp.set_nonblocking(true)?;
        // Requests a buffer for a burst; a smaller buffer only costs more calls.
        let _ = SockRef::from(&rtp).set_send_buffer_size(4 << 20);
        Ok(Self {
            rtp,
            rtcp,
            region,
            segments: true,
            media_thread,
            ordered: false,
            ordered_webrtc: false,
        })
    }

    /// Wakes the media thread if it has new orders.
    pub(crate) fn wake_media_thread(&mut self) {
        if std::mem::take(&mut self.ordered_webrtc) {
            signal(&self.media_thread);
        }
    }

    /// Appends an order for a client without UDP ports. Returns `false` if the ring is full.
    fn order(&mut self, client: &Client, [frame, sequence, at_ns]: [u64; 3]) -> bool {
        let (ring, ordered) = if client.row.is_webrtc() {
            (self.region.webrtc_orders(), &mut self.ordered_webrtc)
        } else {
            (self.region.orders(), &mut self.ordered)
        };
        *ordered = true;
        let pushed = ring.push([client.host_key(), frame, sequence, at_ns]);
        self.region.add(GlobalField::SendErrors, u64::from(!pushed));
        pushed
    }

    /// Returns the RTCP socket, on which clients' reports arrive.
    pub(crate) fn rtcp(&self) -> &UdpSocket {
        &self.rtcp
    }

    /// Sends packets `which` of a frame in one call; counts and drops those that the kernel
    /// refuses.
    fn send(&mut self, to: SocketAddr, of: &Sending<'_>, which: Range<usize>) {
        let all = of.packets.records;
        let mut headers = [[0; HEADER]; MAX_SEGMENTS];
        let mut lengths = [0; MAX_SEGMENTS];
        let packets = which.clone().zip(&all[which.clone()]);
        for ((at, packet), (header, length)) in packets.zip(headers.iter_mut().zip(&mut lengths)) {
            let (format, _) = of.packets.payload(packet);
            let last = at + 1 == all.len();
            *length = builder(of, at, last).payload(format).write_into_unchecked(header);
        }
        let mut parts = [IoSlice::new(&[]); 2 * MAX_SEGMENTS];
        let written = headers.iter().zip(lengths).zip(&all[which.clone()]);
        for (pair, ((header, length), packet)) in parts.chunks_exact_mut(2).zip(written) {
            let (_, payload) = of.packets.payload(packet);
            pair.copy_from_slice(&[IoSlice::new(&header[..length]), IoSlice::new(payload)]);
        }
        let parts = &parts[..2 * which.len()];
        let socket = SockRef::from(&self.rtp);
        let before_ns = now_ns();
        let segment = (which.len() > 1).then(|| all[which.start].length());
        let apart = parts.chunks_exact(2).map(|pair| gather(&socket, to, pair, None));
        let (refused, has_offload) = send_datagrams(&socket, to, parts, segment, apart);
        self.segments &= has_offload;
        self.region.add(GlobalField::SendErrors, refused as u64);
        self.region.add(GlobalField::SendingNs, now_ns() - before_ns);
    }

    /// Returns the number of leading `packets` that fit one call.
    ///
    /// All of them have the length of the first, except that the last may be shorter.
    fn batch_len(&self, packets: &[PacketRecord]) -> usize {
        let Some(first) = packets.first().filter(|_| self.segments) else { return 1 };
        let segment = first.length();
        let most = MAX_SEGMENTS.min(MAX_CALL_BYTES / segment.max(1) as usize).max(1);
        let full =
            packets.iter().take(most).take_while(|packet| packet.length() == segment).count();
        let shorter = packets.get(full).is_some_and(|packet| packet.length() < segment);
        full + usize::from(shorter && full < most)
    }
}

/// Sends the concatenated `parts` in one call, cut into datagrams of `segment` bytes.
///
/// # Errors
/// Fails if the kernel refuses the datagrams; [`may_leave_apart`] tells whether it may accept them
/// one by one.
pub(crate) fn gather(
    socket: &SockRef<'_>,
    to: SocketAddr,
    parts: &[IoSlice<'_>],
    segment: Option<u32>,
) -> io::Result<()> {
    let to = SockAddr::from(to);
    let mut control = [0; CONTROL];
    let mut message = MsgHdr::new().with_addr(&to).with_buffers(parts);
    if let Some(segment) = segment.and_then(|segment| u16::try_from(segment).ok()) {
        let (length, rest) = control.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&(CONTROL_HEADER + size_of::<u16>()).to_ne_bytes());
        rest[..4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        rest[4..8].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        rest[8..10].copy_from_slice(&segment.to_ne_bytes());
        message = message.with_control(&control);
    }
    loop {
        match socket.sendmsg(&message, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| ()),
        }
    }
}

/// Sends the concatenated `parts` as [`gather`] does. If the kernel cannot cut them, evaluates
/// `apart`, which sends each datagram. Returns how many datagrams the kernel refused, and whether
/// later calls may have several.
pub(crate) fn send_datagrams(
    socket: &SockRef<'_>,
    to: SocketAddr,
    parts: &[IoSlice<'_>],
    segment: Option<u32>,
    apart: impl ExactSizeIterator<Item = io::Result<()>>,
) -> (usize, bool) {
    match gather(socket, to, parts, segment) {
        Ok(()) => (0, true),
        Err(error) if segment.is_some() && may_leave_apart(&error) => send_apart(&error, apart),
        Err(_) => (apart.len(), true),
    }
}

/// Returns whether datagrams that the kernel refused in one call may leave one by one: there is no
/// segmentation offload, or they exceed the path's MTU, which forbids it.
pub(crate) fn may_leave_apart(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(number, Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE))
}

/// Sends datagrams one by one after one call for all failed. Returns how many the kernel refused,
/// and whether later calls may have several.
pub(crate) fn send_apart(
    error: &io::Error,
    datagrams: impl ExactSizeIterator<Item = io::Result<()>>,
) -> (usize, bool) {
    let count = datagrams.len();
    let refused = datagrams.filter(Result::is_err).count();
    // The path or the address of one client does not end the offload for all.
    let of_this_client = error.raw_os_error() == Some(libc::EMSGSIZE) || refused == count;
    (refused, of_this_client)
}

/// Returns a builder of the RTP header of packet `at`; `last` marks the end of the frame.
fn builder<'a>(of: &Sending<'_>, at: usize, last: bool) -> RtpPacketBuilder<&'a [u8], &'a [u8]> {
    let row = of.client.row;
    let payload_type = u8::try_from(of.client.media.payload_type & 127).unwrap_or(0);
    let number =
        row.get(SessionField::SequenceBase).wrapping_add(of.sequence).wrapping_add(at as u64);
    RtpPacketBuilder::new()
        .payload_type(payload_type)
        .marker_bit(last && marks_frames(payload_type))
        .sequence_number(u16::try_from(number & 0xffff).unwrap_or(0))
        .timestamp(of.rtp_time)
        .ssrc(low_u32(row.get(SessionField::Ssrc)))
}

/// Appends packet `at` of a frame to `buffer`; `last` marks the end of the frame.
pub(crate) fn write_packet(
    buffer: &mut Vec<u8>,
    of: &Sending<'_>,
    at: usize,
    packet: &PacketRecord,
    last: bool,
) {
    let (header, payload) = of.packets.payload(packet);
    let builder = builder(of, at, last).payload(header).payload(payload);
    builder.write_into_vec_unchecked(buffer);
}

impl PacketSender for Network {
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) -> bool {
        let Some((destination, _)) = of.client.row.destinations() else {
            if first > 0 {
                return true;
            }
            let frame = of.client.stream_number(&of.frame);
            return self.order(of.client, [frame, of.sequence, of.frame.deadline_ns]);
        };
        let all = of.packets.records;
        let end = all.len().min(first + packets);
        let mut next = first;
        while next < end {
            let count = self.batch_len(&all[next..end]);
            self.send(destination, of, next..next + count);
            next += count;
        }
        true
    }

    fn report(&mut self, client: &Client, at: ReportTime, bye: bool) {
        let Some((_, destination)) = client.row.destinations() else {
            let what = u64::from(bye) << 32 | u64::from(at.rtp_time);
            self.order(client, [REPORT, what, at.at_ns]);
            return;
        };
        let mut packet = [0; 256];
        let sent = write_report(&mut packet, client, at, bye)
            .is_some_and(|length| self.rtcp.send_to(&packet[..length], destination).is_ok());
        if !sent {
            self.region.add(GlobalField::SendErrors, 1);
        }
    }
}

/// Writes a compound RTCP packet: sender report, canonical name, and a goodbye if `bye`.
///
/// The report relates the NTP time of an instant to its RTP time; so players synchronise the tracks
/// of a client. Returns its length in bytes, or `None` if `buffer` is too small. Source: RFC 3550,
/// 6.1.
pub(crate) fn write_report(
    buffer: &mut [u8],
    client: &Client,
    at: ReportTime,
    bye: bool,
) -> Option<usize> {
    let row = client.row;
    let ssrc = low_u32(row.get(SessionField::Ssrc));
    let report = SenderReport::builder(ssrc)
        .ntp_timestamp(ntp_at(at.at_ns))
        .rtp_timestamp(at.rtp_time)
        .packet_count(low_u32(row.get(SessionField::Packets)))
        .octet_count(low_u32(row.get(SessionField::Octets)));
    let name = SdesChunk::builder(ssrc).add_item(SdesItem::builder(SdesItem::CNAME, "millstream"));
    let mut compound =
        Compound::builder().add_packet(report).add_packet(Sdes::builder().add_chunk(name));
    if bye {
        compound = compound.add_packet(Bye::builder().add_source(ssrc));
    }
    compound.write_into(buffer).ok()
}
