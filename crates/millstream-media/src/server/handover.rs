//! Handover of frames for interleaved clients: from the data plane to their connections, and the
//! outcomes back.

use millstream_sync::clock::system::now_ns;
use std::time::Duration;

use super::read_ahead::ReadAhead;
use crate::data_plane::packet_sender::{REPORT, write_packet, write_report};
use crate::files::library::Library;
use crate::live::publishing::Publishing;
use crate::rtp::low_u32;
use crate::rtsp::connection::Connection;
use crate::rtsp::connection::transit::Outcome;
use crate::rtsp::session::{Sessions, Transport};
use crate::rtsp::tcp;
use crate::scheduler::client::{Client, Descriptor, ReportTime};
use crate::scheduler::dispatch::Sending;
use crate::shared_memory::region::{Region, SessionField};
use crate::shared_memory::store::{FrameRecord, Packets};

/// The interval between polls of connections that are behind; each poll is one system call.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The sources of frames: the store, the frame cache and the rings of live streams.
pub(super) struct FrameSources<'a> {
    pub(super) library: &'a Library,
    pub(super) read_ahead: &'a mut ReadAhead,
    pub(super) live: &'a mut Publishing,
}

impl FrameSources<'_> {
    /// Returns a frame's record and packets; `None` if it was overwritten.
    fn frame(&mut self, client: &Client, frame: &Descriptor) -> Option<(FrameRecord, Packets<'_>)> {
        if let Some(ring) = client.ring() {
            return self.live.copy(ring, frame.number);
        }
        let store = &self.library.store;
        let record = client.frame(frame, store);
        let packets = store.packets(&record);
        if client.media.media_file == 0 {
            return Some((record, packets));
        }
        let bytes = self.read_ahead.copy(client.session, frame.number, &record)?;
        Some((record, Packets { bytes, ..packets }))
    }
}

/// The handover's own state.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// The places of the connections of slow clients.
    slow: Vec<usize>,
}

impl Handover {
    /// Writes the frames that the data plane scheduled for interleaved clients to `places`.
    pub(super) fn forward(
        &mut self,
        places: &mut [Option<Connection>],
        sessions: &mut Sessions,
        from: &mut FrameSources<'_>,
    ) {
        while let Some([session_key, frame, sequence, deadline_ns]) = sessions.region.orders().pop()
        {
            let number = low_u32(session_key) as usize;
            let Some(session) = sessions.get(number) else { continue };
            let (transport, place, title) = (session.transport, session.connection, session.title);
            let row = sessions.region.session(number);
            if row.get(SessionField::Ssrc) != session_key >> 32 {
                continue;
            }
            let Transport::Interleaved(rtp, rtcp) = transport else { continue };
            let Some(Some(connection)) = places.get_mut(place) else { continue };
            let client = Client::new(number, title, from.library.store.media()[title], row);
            let now_ns = now_ns();
            if frame == REPORT {
                let mut packet = [0; 256];
                let at = ReportTime { rtp_time: low_u32(sequence), at_ns: deadline_ns };
                if let Some(length) = write_report(&mut packet, &client, at, sequence >> 32 != 0)
                    && connection.room() >= length + 4
                {
                    interleave(connection.output(), rtcp, &packet[..length]);
                }
            } else {
                let frame_key = (session_key, frame);
                let frame = Descriptor::numbered(frame);
                let found = from.frame(&client, &frame).filter(|(record, packets)| {
                    connection.room() >= record.bytes as usize + 4 * packets.records.len()
                });
                if let Some((record, packets)) = found {
                    let rtp_time = client.rtp_time(&frame, &record);
                    let sending = Sending { client: &client, frame, packets, rtp_time, sequence };
                    let first = connection.end_of_output();
                    write_frame(connection.output(), rtp, &sending);
                    let range = (first, connection.end_of_output());
                    connection.transit().push(frame_key, range, deadline_ns, now_ns);
                } else {
                    connection.transit().refuse(frame_key);
                }
            }
            // Unsent bytes follow when the connection becomes writable.
            if let Err(error) = connection.write(&mut 0) {
                connection.closing = true;
                sessions.stalled += u64::from(tcp::is_stall(&error));
            }
            self.report(connection, place, sessions.region);
        }
    }

    /// Reports a connection's frame outcomes to the data plane, and polls the connection from then
    /// on if more outcomes may follow without other events.
    pub(super) fn report(&mut self, connection: &mut Connection, place: usize, region: Region) {
        if report_outcomes(connection, region) && !self.slow.contains(&place) {
            self.slow.push(place);
        }
    }

    /// Polls the connections of slow clients. Returns the time until the next poll, at most
    /// `pause`.
    pub(super) fn poll(
        &mut self,
        places: &mut [Option<Connection>],
        region: Region,
        pause: Duration,
    ) -> Duration {
        self.slow.retain(|place| match &mut places[*place] {
            Some(connection) => report_outcomes(connection, region),
            None => false,
        });
        if self.slow.is_empty() { pause } else { pause.min(POLL_INTERVAL) }
    }
}

/// Reports a connection's frame outcomes to the data plane. Returns whether it needs another poll.
fn report_outcomes(connection: &mut Connection, region: Region) -> bool {
    connection.report_outcomes(now_ns(), |frame, outcome| {
        let sent_ns = match outcome {
            Outcome::Sent(at_ns) => at_ns.max(1),
            Outcome::Late => 0,
        };
        region.outcomes().push([frame.session, frame.number, sent_ns, 0])
    });
    connection.needs_polling()
}

/// Appends the packets of a frame on an interleaved channel.
fn write_frame(output: &mut Vec<u8>, channel: u8, sending: &Sending<'_>) {
    let mut packet = Vec::new();
    let records = sending.packets.records;
    for (at, record) in records.iter().enumerate() {
        packet.clear();
        write_packet(&mut packet, sending, at, record, at + 1 == records.len());
        interleave(output, channel, &packet);
    }
}

/// Appends a packet in interleaved framing: `$`, channel, length, packet (RFC 2326, section 10.12).
/// Packets are shorter than 64 KiB.
fn interleave(output: &mut Vec<u8>, channel: u8, packet: &[u8]) {
    let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&[b'$', channel]);
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(packet);
}
