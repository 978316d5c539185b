//! Serving of connections: read, answer, write and close.

use super::{MediaServer, handover};
use crate::clock::now_ns;
use crate::rtsp::connection::Connection;
use crate::rtsp::tcp;
use crate::rtsp::{Requester, RtspHandler};
use crate::shared_memory::region::Want;

impl MediaServer {
    /// Reads, answers and writes whatever is ready on a connection.
    pub(super) fn serve(&mut self, place: usize) {
        let Some(Some(mut connection)) = self.connections.get_mut(place).map(Option::take) else {
            return;
        };
        let limit = self.media.request_bytes;
        // Edge-triggered: read until the socket is empty, consuming complete messages in between.
        let open = loop {
            let open = match connection.read(limit) {
                Ok(open) => open,
                Err(error) => {
                    self.sessions.stalled += u64::from(tcp::is_stall(&error));
                    break false;
                }
            };
            let more = connection.input.len() > limit;
            if !connection.input.is_empty() {
                connection.heard_ns = now_ns();
            }
            let before = connection.input.len();
            let admitted = self.sessions.admitted;
            let answered = connection.end_of_output();
            self.understand(&mut connection, place);
            connection.answered |= connection.end_of_output() > answered;
            if self.sessions.admitted != admitted {
                let rate_bps = self.sessions.interleaved_bps(&self.library, place);
                tcp::bound(&connection.stream, rate_bps);
            }
            connection.understood(connection.input.len() < before, now_ns());
            if !open || !more || connection.closing {
                break open;
            }
        };
        let written = connection.write();
        if handover::settle(&mut connection, self.sessions.region) && !self.behind.contains(&place)
        {
            self.behind.push(place);
        }
        let done = match written {
            Ok(everything) => everything && (connection.closing || !open),
            Err(_) => true,
        };
        if done || (!open && !connection.closing) {
            self.close(connection, place);
        } else {
            self.connections[place] = Some(connection);
        }
    }

    /// Answers the complete requests of a connection.
    fn understand(&mut self, connection: &mut Connection, place: usize) {
        let secured = connection.is_secured();
        let asker = Requester { peer: connection.peer, connection: place, secured };
        let room = connection.room();
        let mut handler = RtspHandler {
            library: &self.library,
            sessions: &mut self.sessions,
            access: &self.access,
            back_off: &mut self.back_off,
            live: &mut self.live,
            cluster: self.cluster.as_mut(),
            waker: &self.waker,
            server_ports: self.server_ports,
            local: self.listeners.rtsp.address,
            idle_timeout_ns: self.media.idle_timeout_ns,
            request_bytes: self.media.request_bytes,
            now_ns: now_ns(),
        };
        let (input, output, pass) = connection.parts();
        connection.closing |= !handler.converse(input, output, pass, room, asker);
    }

    pub(super) fn close(&mut self, mut connection: Connection, place: usize) {
        connection.end();
        let _ = self.poll.registry().deregister(&mut connection.stream);
        self.live.closed(place, now_ns());
        for number in self.sessions.of_connection(place) {
            self.sessions.want(number, Want::Stop, &self.waker);
        }
    }
}
