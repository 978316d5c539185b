//! Handover of frames for interleaved clients: from the data plane to their connections, and the
//! outcomes back.

use std::time::Duration;

use super::{MediaServer, interleave};
use crate::clock::now_ns;
use crate::data_plane::packet_sender::{REPORT, write_packet, write_report};
use crate::rtsp::connection::Connection;
use crate::rtsp::connection::transit::Outcome;
use crate::rtsp::session::Transport;
use crate::rtsp::tcp;
use crate::scheduler::client::{Client, Descriptor, low_bits};
use crate::scheduler::dispatch::Sending;
use crate::shared_memory::region::{Region, SessionField};
use crate::shared_memory::store::Packets;

/// The interval between polls of connections that are behind; each poll is one system call.
const LOOK: Duration = Duration::from_millis(10);

impl MediaServer {
    /// Writes the frames that the data plane scheduled for interleaved clients to their
    /// connections.
    pub(super) fn pass_on(&mut self) {
        while let Some([who, frame, sequence, deadline_ns]) = self.sessions.region.orders().pop() {
            let number = low_bits(who) as usize;
            let Some(session) = self.sessions.get(number) else { continue };
            let Transport::Interleaved(rtp, rtcp) = session.transport else { continue };
            let (place, title) = (session.connection, session.title);
            let row = self.sessions.region.session(number);
            let Some(Some(connection)) = self.connections.get_mut(place) else { continue };
            if row.get(SessionField::Ssrc) != who >> 32 {
                continue;
            }
            let store = &self.library.store;
            let client = Client::new(number, title, store.media()[title], row);
            let now_ns = now_ns();
            if frame == REPORT {
                let mut packet = [0; 256];
                let time = low_bits(sequence);
                if let Some(length) = write_report(&mut packet, &client, time, sequence >> 32 != 0)
                    && connection.room() >= length + 4
                {
                    interleave(connection.output(), rtcp, &packet[..length]);
                }
            } else {
                let which = (who, frame);
                let frame = Descriptor::numbered(frame);
                let live = client.ring().map(|ring| self.live.copy(ring, frame.number));
                let found = match live {
                    None if client.media.media_file != 0 => {
                        let record = client.frame(&frame, store);
                        self.media_files
                            .copy(number, frame.number, &record)
                            .map(|bytes| (record, Packets { bytes, ..store.packets(&record) }))
                    }
                    None => {
                        let record = client.frame(&frame, store);
                        Some((record, store.packets(&record)))
                    }
                    Some(found) => found,
                };
                let found = found.filter(|(record, packets)| {
                    connection.room() >= record.bytes as usize + 4 * packets.records.len()
                });
                if let Some((record, packets)) = found {
                    let rtp_time = client.rtp_time(&frame, &record);
                    let sending = Sending { client: &client, frame, packets, rtp_time, sequence };
                    let first = connection.end_of_output();
                    let mut packet = Vec::new();
                    let records = packets.records;
                    for (at, record) in records.iter().enumerate() {
                        packet.clear();
                        write_packet(&mut packet, &sending, at, record, at + 1 == records.len());
                        interleave(connection.output(), rtp, &packet);
                    }
                    let range = (first, connection.end_of_output());
                    connection.transit().push(which, range, deadline_ns, now_ns);
                } else {
                    connection.transit().refuse(which);
                }
            }
            // Unsent bytes follow when the connection becomes writable.
            if let Err(error) = connection.write() {
                connection.closing = true;
                self.sessions.stalled += u64::from(tcp::is_stall(&error));
            }
            if settle(connection, self.sessions.region) && !self.behind.contains(&place) {
                self.behind.push(place);
            }
        }
    }

    /// Polls connections whose clients are behind. Returns the time until the next poll, at most
    /// `pause`.
    pub(super) fn attend_behind(&mut self, pause: Duration) -> Duration {
        let (connections, region) = (&mut self.connections, self.sessions.region);
        self.behind.retain(|place| match &mut connections[*place] {
            Some(connection) => settle(connection, region),
            None => false,
        });
        if self.behind.is_empty() { pause } else { pause.min(LOOK) }
    }

    /// Discards frames without an outcome after the data plane's end; the next one counts them as
    /// lost.
    pub(super) fn forget_frames(&mut self) {
        for connection in self.connections.iter_mut().flatten() {
            connection.transit().clear();
        }
    }
}

/// Reports a connection's frame outcomes to the data plane. Returns whether it needs another poll.
pub(super) fn settle(connection: &mut Connection, region: Region) -> bool {
    connection.settle(now_ns(), |frame, outcome| {
        let sent_ns = match outcome {
            Outcome::Sent(at_ns) => at_ns.max(1),
            Outcome::Late => 0,
        };
        region.outcomes().push([frame.session, frame.number, sent_ns, 0])
    });
    connection.needs_care()
}
