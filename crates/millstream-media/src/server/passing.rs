//! What the processor has chosen for interleaved clients, passed on to their connections.

use super::{MediaServer, interleave};
use crate::client::{Client, Descriptor, low_bits};
use crate::dispatch::Sending;
use crate::outlet::{REPORT, write_packet, write_report};
use crate::region::Word;
use crate::session::Transport;
use crate::store::Packets;

impl MediaServer {
    /// Sends the frames of interleaved clients that the processor has chosen.
    pub(super) fn pass_on(&mut self) {
        while let Some([number, frame, sequence, ssrc]) = self.sessions.region.orders().pop() {
            let Ok(number) = usize::try_from(number) else { continue };
            let Some(session) = self.sessions.get(number) else { continue };
            let Transport::Interleaved(rtp, rtcp) = session.transport else { continue };
            let (place, title) = (session.connection, session.title);
            let row = self.sessions.region.session(number);
            let Some(Some(connection)) = self.connections.get_mut(place) else { continue };
            if row.get(Word::Ssrc) != ssrc {
                continue;
            }
            let store = &self.library.store;
            let client = Client::new(number, title, store.media()[title], row);
            if frame == REPORT {
                let mut packet = [0; 256];
                let time = low_bits(sequence);
                if let Some(length) = write_report(&mut packet, &client, time, sequence >> 32 != 0)
                    && connection.room() >= length + 4
                {
                    interleave(connection.output(), rtcp, &packet[..length]);
                }
            } else {
                let frame = Descriptor::numbered(frame);
                let live = client.ring().map(|ring| self.live.copy(ring, frame.number));
                let found = match live {
                    None if client.media.film != 0 => {
                        let record = client.frame(&frame, store);
                        self.films
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
                let Some((record, packets)) = found else {
                    row.add(Word::Slow, 1);
                    continue;
                };
                let rtp_time = client.rtp_time(&frame, &record);
                let sending = Sending { client: &client, frame, packets, rtp_time, sequence };
                let mut packet = Vec::new();
                let records = packets.records;
                for (at, record) in records.iter().enumerate() {
                    packet.clear();
                    write_packet(&mut packet, &sending, at, record, at + 1 == records.len());
                    interleave(connection.output(), rtp, &packet);
                }
            }
            // What does not go now goes when the connection has room again.
            if connection.write().is_err() {
                connection.closing = true;
            }
        }
    }
}
