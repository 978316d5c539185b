//! Sessions as session control sees them: the rows in use and their bandwidth reservations.

use millstream_sync::clock::system::now_ns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use crate::cluster::{ClusterMoves, TakeoverState};
use crate::files::library::Library;
use crate::pages::rejects::{Reason, RejectCounters, limited_address};
use crate::rtp::low_u32;
use crate::rtsp::Requester;
use crate::scheduler::admission::Admission;
use crate::shared_memory::region::{
    GlobalField, LATENESS, Region, RequestedState, Row, SessionField, State,
};
use crate::wake_socket::AsWakeSocket;

/// No connection: it was closed, its host or server is gone, or the client uses WebRTC.
const NO_CONNECTION: usize = usize::MAX;

/// The transport of a client's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// UDP to these client ports: RTP, RTCP.
    Udp(u16, u16),
    /// Interleaved in the RTSP connection, on these channels: RTP, RTCP (RFC 2326, section 10.12).
    Interleaved(u8, u8),
    /// WebRTC, by the peer at this place.
    WebRtc(usize),
    /// RTMP, of a publisher.
    Rtmp,
    /// A transport stream, of a publisher without a connection.
    MpegTs,
}

impl Transport {
    /// Returns its name in pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udp(..) => "udp",
            Self::Interleaved(..) => "interleaved",
            Self::WebRtc(_) => "webrtc",
            Self::Rtmp => "rtmp",
            Self::MpegTs => "mpeg-ts",
        }
    }
}

/// A track of a client's session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The RTSP session id, which is hard to guess; both tracks of a client have the same.
    pub(crate) id: String,
    pub(crate) title: usize,
    pub(crate) transport: Transport,
    pub(crate) peer: IpAddr,
    /// The connection that created it; the session ends with it.
    pub(crate) connection: usize,
    /// The time at which the session was admitted or adopted, ns.
    pub(crate) since_ns: u64,
    reserved_bps: u64,
    /// Whether it plays a live stream.
    live: bool,
    /// Whether it is the second track of a client, which does not count as another session.
    pub(crate) second: bool,
    stopping: bool,
}

/// All sessions; the number of a session is that of its row.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) region: Region,
    all: Vec<Option<Session>>,
    pub(crate) admission: Admission,
    /// Clients refused for lack of bandwidth.
    pub(crate) refused: u64,
    /// Clients admitted.
    pub(crate) admitted: u64,
    /// The server drains: it admits no more clients.
    pub(crate) draining: bool,
    /// Clients refused while the server drained.
    pub(crate) turned_away: u64,
    /// Connections closed because their clients read nothing for too long.
    pub(crate) stalled: u64,
    /// The frame counts of ended sessions.
    pub(crate) ended_counts: FrameCounts,
    /// The totals of ended sessions by title.
    ended_totals: BTreeMap<usize, StreamTotals>,
    /// The totals of earlier paths by title: another path has their place now.
    former_totals: BTreeMap<usize, StreamTotals>,
    /// The number of rows for tracks of video, which come first; the others are for audio.
    pub(crate) video_rows: usize,
    /// The most sessions per client address.
    pub(crate) per_address: usize,
    /// Rejects for reasons other than bandwidth.
    pub(crate) rejects: RejectCounters,
    /// The number of clients that the cluster redirected or moved.
    pub(crate) moves: ClusterMoves,
}

/// The times from release to the send of the last packet of the frames of one or more sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameDelays {
    /// Bucket n counts frames with less than 2^n µs and at least half of that.
    pub(crate) frames: [u64; LATENESS],
    /// The sum of the times, ns.
    pub(crate) sum_ns: u64,
}

impl FrameDelays {
    fn of(row: Row) -> Self {
        Self {
            frames: std::array::from_fn(|bucket| row.get_at(SessionField::Lateness, bucket)),
            sum_ns: row.get(SessionField::LatenessSumNs),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            frames: std::array::from_fn(|bucket| self.frames[bucket] + other.frames[bucket]),
            sum_ns: self.sum_ns.wrapping_add(other.sum_ns),
        }
    }
}

impl FrameDelays {
    /// Returns what was counted after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let frames = |bucket: usize| self.frames[bucket].saturating_sub(earlier.frames[bucket]);
        Self {
            frames: std::array::from_fn(frames),
            sum_ns: self.sum_ns.wrapping_sub(earlier.sum_ns),
        }
    }

    /// Returns the limit of the bucket that holds the 99th percentile, ns; `None` without frames.
    pub(crate) fn p99_ns(&self) -> Option<u64> {
        let all: u64 = self.frames.iter().sum();
        let mut below = 0;
        let bucket = self.frames.iter().position(|frames| {
            below += frames;
            all > 0 && below >= all - all / 100
        });
        bucket.map(|bucket| 1_000 << bucket)
    }
}

/// The totals of one or more sessions of a title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamTotals {
    pub(crate) frames: FrameCounts,
    /// Payload sent, bytes.
    pub(crate) sent_bytes: u64,
    pub(crate) delays: FrameDelays,
}

impl StreamTotals {
    fn of(row: Row) -> Self {
        Self {
            frames: FrameCounts::of(row),
            sent_bytes: row.get(SessionField::Octets),
            delays: FrameDelays::of(row),
        }
    }

    /// Returns the sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames.plus(other.frames),
            sent_bytes: self.sent_bytes + other.sent_bytes,
            delays: self.delays.plus(other.delays),
        }
    }
}

/// Frame counts of one or more sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Frames released.
    pub released: u64,
    /// Frames sent: I, P, B.
    pub sent: [u64; 3],
    /// Frames dropped because their deadline passed: I, P, B.
    pub late: [u64; 3],
    /// Frames dropped at a full queue: I, P, B.
    pub full: [u64; 3],
    /// Frames removed by an instruction: I, P, B.
    pub filtered: [u64; 3],
    /// Frames dropped because the media file was not read in time or could not be read: I, P, B.
    #[serde(default)]
    pub unread: [u64; 3],
    /// Frames discarded because their client left.
    pub discarded: u64,
    /// Frames lost in a crash of a data plane, or due before the next one ran.
    pub lost: u64,
    /// Frames lost beyond what the contract allows.
    pub violations: u64,
    /// Late and dropped frames of interleaved clients that read too slowly; also counted above.
    pub slow: u64,
    /// RTP packets sent.
    pub packets: u64,
}

impl FrameCounts {
    fn of(row: Row) -> Self {
        let kinds = |word| [0, 1, 2].map(|kind| row.get_at(word, kind));
        Self {
            released: row.get(SessionField::Next),
            sent: kinds(SessionField::Sent),
            late: kinds(SessionField::Late),
            full: kinds(SessionField::Full),
            filtered: kinds(SessionField::Filtered),
            unread: kinds(SessionField::Unread),
            discarded: row.get(SessionField::Discarded),
            lost: row.get(SessionField::Lost),
            violations: row.get(SessionField::Violations),
            slow: row.get(SessionField::Slow),
            packets: row.get(SessionField::Packets),
        }
    }

    /// Returns the sum of both. Sums saturate, because a damaged row can hold any value.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let add = u64::saturating_add;
        let each = |a: [u64; 3], b: [u64; 3]| [add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])];
        Self {
            released: add(self.released, other.released),
            sent: each(self.sent, other.sent),
            late: each(self.late, other.late),
            full: each(self.full, other.full),
            filtered: each(self.filtered, other.filtered),
            unread: each(self.unread, other.unread),
            discarded: add(self.discarded, other.discarded),
            lost: add(self.lost, other.lost),
            violations: add(self.violations, other.violations),
            slow: add(self.slow, other.slow),
            packets: add(self.packets, other.packets),
        }
    }

    /// Returns the number of frames sent, of all types.
    #[must_use]
    pub fn sent_frames(&self) -> u64 {
        sum(&self.sent)
    }

    /// Returns the number of frames missed: late, dropped at a full queue, unread, or lost in a
    /// crash.
    #[must_use]
    pub fn missed(&self) -> u64 {
        sum(&[sum(&self.late), sum(&self.full), sum(&self.unread), self.lost])
    }

    /// Returns the number of frames removed by an instruction, of all types.
    #[must_use]
    pub fn filtered_frames(&self) -> u64 {
        sum(&self.filtered)
    }

    /// Returns the number of released frames without an outcome: they wait.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let resolved = [self.sent_frames(), self.missed(), self.filtered_frames(), self.discarded];
        self.released.saturating_sub(sum(&resolved))
    }
}

/// Returns the saturating sum.
fn sum(counters: &[u64]) -> u64 {
    counters.iter().fold(0, |sum, counter| sum.saturating_add(*counter))
}

/// Why a session is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    /// The link lacks bandwidth: the reason, and the title of a looser window that would be
    /// admitted.
    Bandwidth(String, Option<usize>),
    /// The server drains.
    Draining,
    /// The session table is full.
    Full,
    /// The client's address has the most sessions allowed, which is this number.
    Address(usize),
    /// The system has no random numbers.
    NoRandom,
}

impl Sessions {
    pub(crate) fn new(region: Region, link_bps: u64) -> Self {
        Self {
            region,
            all: (0..region.sessions()).map(|_| None).collect(),
            admission: Admission::new(link_bps),
            refused: 0,
            admitted: 0,
            draining: false,
            turned_away: 0,
            stalled: 0,
            ended_counts: FrameCounts::default(),
            ended_totals: BTreeMap::new(),
            former_totals: BTreeMap::new(),
            video_rows: region.sessions(),
            per_address: usize::MAX,
            rejects: RejectCounters::default(),
            moves: ClusterMoves::default(),
        }
    }

    /// Admits a client and returns its session number, or why it is refused. `first` is the row of
    /// the client's first track if this is its second.
    pub(crate) fn admit(
        &mut self,
        library: &Library,
        title: usize,
        first: Option<usize>,
        transport: Transport,
        requester: Requester,
        now_ns: u64,
    ) -> Result<usize, AdmissionError> {
        let Requester { peer, mut connection, .. } = requester;
        if matches!(transport, Transport::WebRtc(_)) {
            // The session outlives the connection of its request.
            connection = NO_CONNECTION;
        }
        if self.draining {
            self.turned_away += 1;
            return Err(AdmissionError::Draining);
        }
        let here = self.iter().filter(|(_, session)| {
            let counts = !session.stopping && !session.second;
            counts && limited_address(session.peer) == limited_address(peer)
        });
        let here = here.count();
        if first.is_none() && here >= self.per_address {
            self.rejects.record(Reason::Sessions, peer, now_ns);
            return Err(AdmissionError::Address(self.per_address));
        }
        let bps = library.titles[title].reserved_bps;
        if let Err(reason) = self.admission.admits(&library.demands(), title, 1) {
            self.refused += 1;
            return Err(AdmissionError::Bandwidth(reason, self.looser(library, title)));
        }
        let number = self.free_row(library, title).ok_or(AdmissionError::Full)?;
        let mut random = [0u64; 4];
        for word in &mut random {
            *word = random_word().ok_or(AdmissionError::NoRandom)?;
        }
        let id_of = |first| self.region.session(first).get(SessionField::Id);
        let id = first.map_or(random[3].max(1), id_of);
        let row = self.region.session(number);
        row.clear();
        row.set(SessionField::Media, title as u64);
        row.set(SessionField::Ssrc, random[0] & 0xffff_ffff);
        row.set(SessionField::TimestampBase, random[1] & 0xffff_ffff);
        row.set(SessionField::SequenceBase, random[2] & 0x7fff);
        row.set(SessionField::RtspReceivedNs, now_ns);
        if let Transport::Udp(rtp, rtcp) = transport {
            row.set_address(peer, rtp, rtcp);
        }
        row.set(SessionField::IsWebRtc, matches!(transport, Transport::WebRtc(_)).into());
        row.set(SessionField::Id, id);
        if let Some(first) = first {
            self.join(first, number);
        }
        self.admission.add(title, bps);
        self.admitted += u64::from(first.is_none());
        self.all[number] = Some(Session {
            id: format!("{id:016x}"),
            title,
            transport,
            peer,
            connection,
            since_ns: now_ns,
            reserved_bps: bps,
            live: library.titles[title].live.is_some(),
            second: first.is_some(),
            stopping: false,
        });
        Ok(number)
    }

    /// Returns the rows for tracks of audio or video.
    pub(crate) fn rows(&self, is_audio: bool) -> Range<usize> {
        let first = self.video_rows.min(self.all.len());
        if is_audio { first..self.all.len() } else { 0..first }
    }

    /// Returns the number of free rows for tracks of audio or video.
    pub(crate) fn free_rows(&self, is_audio: bool) -> usize {
        self.all[self.rows(is_audio)].iter().filter(|session| session.is_none()).count()
    }

    /// Returns a free row for a track of `title`.
    fn free_row(&self, library: &Library, title: usize) -> Option<usize> {
        self.rows(library.titles[title].is_audio).find(|row| self.all[*row].is_none())
    }

    /// Makes two rows the tracks of one client.
    fn join(&self, first: usize, second: usize) {
        for (row, other) in [(first, second), (second, first)] {
            self.region.session(row).set(SessionField::OtherTrack, other as u64 + 1);
        }
    }

    /// Returns the strictest looser window of `title` under which a client would be admitted now.
    pub(crate) fn looser(&self, library: &Library, title: usize) -> Option<usize> {
        let demands = library.demands();
        let own = &library.titles[title];
        let stream = own.looser_than.unwrap_or(title);
        (0..library.titles.len()).find(|other| {
            let offer = &library.titles[*other];
            offer.looser_than == Some(stream)
                && offer.window.0 > own.window.0
                && self.admission.admits(&demands, *other, 1).is_ok()
        })
    }

    /// Adopts the sessions of a dead host that continue in the data plane. Stops those interleaved
    /// in the host's connections. Returns the number adopted.
    pub(crate) fn adopt(&mut self, library: &Library, waker: &impl AsWakeSocket) -> usize {
        let mut adopted = 0;
        for number in 0..self.all.len() {
            let row = self.region.session(number);
            let id = row.get(SessionField::Id);
            if id == 0 {
                continue;
            }
            let title = usize::try_from(row.get(SessionField::Media)).unwrap_or(usize::MAX);
            let to = row.destinations();
            let Some((bps, (rtp, rtcp))) =
                library.titles.get(title).map(|t| t.reserved_bps).zip(to)
            else {
                self.put(
                    number,
                    id,
                    0,
                    Transport::Interleaved(0, 1),
                    IpAddr::from([0; 4]),
                    (0, false),
                );
                self.request_state(number, RequestedState::Stop, waker);
                continue;
            };
            let transport = Transport::Udp(rtp.port(), rtcp.port());
            let live = library.titles[title].live.is_some();
            self.put(number, id, title, transport, rtp.ip(), (bps, live));
            if matches!(row.requested_state(), RequestedState::Stop | RequestedState::Yield) {
                self.request_state(number, row.requested_state(), waker);
                continue;
            }
            // A silent client gets the full idle timeout to send something.
            row.set(SessionField::RtspReceivedNs, now_ns());
            let other = self.region.other_track(number);
            let second = other.is_some_and(|other| self.all[other].is_some());
            if let Some(session) = &mut self.all[number] {
                session.second = second;
            }
            self.admitted += u64::from(!second);
            adopted += usize::from(!second);
        }
        adopted
    }

    /// Returns the state that another server needs to take over a session.
    pub(crate) fn shared(&self, number: usize, now_ns: u64) -> Option<TakeoverState> {
        self.all.get(number)?.as_ref().filter(|session| !session.stopping)?;
        let row = self.region.session(number);
        // The frames of a live stream arrive only at this host.
        let live = self.all.get(number)?.as_ref().is_some_and(|session| session.live);
        if row.requested_state() == RequestedState::Play && !live {
            TakeoverState::of(row, now_ns)
        } else {
            None
        }
    }

    /// Returns the sessions that are not stopping: number, key and the number of takeovers.
    pub(crate) fn playing(&self) -> impl Iterator<Item = (usize, SessionKey, u64)> {
        self.iter().filter(|(_, session)| !session.stopping).map(|(number, _)| {
            let row = self.region.session(number);
            (number, SessionKey::of(row), row.get(SessionField::Epoch))
        })
    }

    /// Returns whether a session has this key, including one that is stopping.
    pub(crate) fn has_key(&self, key: SessionKey) -> bool {
        self.iter().any(|(number, _)| SessionKey::of(self.region.session(number)) == key)
    }

    /// Returns a session of the client at `peer` that was taken over from a dead server before
    /// `by_ns`, if the client has been silent since.
    pub(crate) fn silent_since_takeover(
        &self,
        peer: IpAddr,
        title: usize,
        by_ns: u64,
    ) -> Option<usize> {
        let of = |session: &Session| {
            let nobodys = session.connection == NO_CONNECTION && !session.stopping;
            nobodys && session.peer == peer && session.title == title
        };
        let mut found = self.iter().filter(|(number, session)| {
            let row = self.region.session(*number);
            // Both fields hold the time of the takeover until the client sends something.
            let since_ns = row.get(SessionField::RtspReceivedNs);
            let heard = row.get(SessionField::RtcpReceivedNs) != since_ns;
            of(session) && row.get(SessionField::Epoch) > 0 && !heard && since_ns < by_ns
        });
        found.next().map(|(number, _)| number)
    }

    /// Takes over a session of a dead server, reported at `reported_ns`. Returns whether a row is
    /// free and admission allows it.
    pub(crate) fn take_over(
        &mut self,
        library: &Library,
        shared: &TakeoverState,
        reported_ns: u64,
        now_ns: u64,
        waker: &impl AsWakeSocket,
    ) -> bool {
        let title = usize::try_from(shared.title).unwrap_or(usize::MAX);
        let Some(bps) = library.titles.get(title).map(|title| title.reserved_bps) else {
            return false;
        };
        let free = self.free_row(library, title);
        let Some(number) = free.filter(|_| !self.draining) else { return false };
        if self.admission.admits(&library.demands(), title, 1).is_err() {
            return false;
        }
        let id_of = |row: usize| self.region.session(row).get(SessionField::Id);
        let tracks = {
            let mut tracks = self.iter().filter(|(row, _)| id_of(*row) == shared.id);
            (tracks.next(), tracks.next())
        };
        let first = match tracks {
            (None, _) => None,
            (Some((row, session)), None) if library.is_pair(session.title, title) => Some(row),
            _ => return false,
        };
        shared.resume_in(self.region.session(number), number, library, reported_ns, now_ns);
        let transport = Transport::Udp(shared.ports.0, shared.ports.1);
        self.put(number, shared.id, title, transport, shared.address, (bps, false));
        if let Some(first) = first {
            self.join(first, number);
            if let Some(session) = &mut self.all[number] {
                session.second = true;
            }
        }
        self.request_state(number, RequestedState::Play, waker);
        true
    }

    /// Enters a session of an earlier host or of another server.
    fn put(
        &mut self,
        number: usize,
        id: u64,
        title: usize,
        transport: Transport,
        peer: IpAddr,
        (reserved_bps, live): (u64, bool),
    ) {
        let (id, connection) = (format!("{id:016x}"), NO_CONNECTION);
        self.admission.add(title, reserved_bps);
        self.all[number] = Some(Session {
            id,
            title,
            transport,
            peer,
            connection,
            since_ns: now_ns(),
            reserved_bps,
            live,
            second: false,
            stopping: false,
        });
    }

    /// Binds a client without a connection to the connection that names it.
    pub(crate) fn attach(&mut self, number: usize, connection: usize) {
        for number in self.tracks(number) {
            if let Some(session) = &mut self.all[number]
                && session.connection == NO_CONNECTION
            {
                session.connection = connection;
            }
        }
    }

    /// Returns the rows of the client of a session that are not stopping: one for each track.
    pub(crate) fn tracks(&self, number: usize) -> Vec<usize> {
        let Some(session) = self.get(number) else { return Vec::new() };
        let of = |row: &usize| {
            self.get(*row).is_some_and(|other| other.id == session.id && !other.stopping)
        };
        std::iter::once(number).chain(self.region.other_track(number)).filter(of).collect()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Session> {
        self.all.get(number)?.as_ref()
    }

    /// Returns the RTSP session with this id, if it belongs to `peer` and is not stopping.
    pub(crate) fn find(&self, id: &str, peer: IpAddr) -> Option<usize> {
        self.find_by(id, peer, false)
    }

    /// Returns the WebRTC session with this id, if it belongs to `peer` and is not stopping.
    pub(crate) fn find_webrtc(&self, id: &str, peer: IpAddr) -> Option<usize> {
        self.find_by(id, peer, true)
    }

    fn find_by(&self, id: &str, peer: IpAddr, webrtc: bool) -> Option<usize> {
        let is = |session: &Session| {
            let own = session.id == id && session.peer == peer && !session.stopping;
            own && matches!(session.transport, Transport::WebRtc(_)) == webrtc
        };
        self.iter().find(|(_, session)| is(session)).map(|(number, _)| number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Session)> {
        self.all.iter().enumerate().filter_map(|(n, session)| Some((n, session.as_ref()?)))
    }

    /// Returns the sessions of a connection.
    pub(crate) fn of_connection(&self, connection: usize) -> Vec<usize> {
        let of = self.iter().filter(|(_, s)| s.connection == connection && !s.stopping);
        of.map(|(number, _)| number).collect()
    }

    /// Stops the sessions of a closed connection.
    ///
    /// The data plane may still order packets for these sessions when another client's connection
    /// has the same place. So they forget the place, those that were stopping before as well.
    pub(crate) fn disconnect(&mut self, connection: usize, waker: &impl AsWakeSocket) {
        for number in self.of_connection(connection) {
            self.request_state(number, RequestedState::Stop, waker);
        }
        for session in self.all.iter_mut().flatten() {
            if session.connection == connection {
                session.connection = NO_CONNECTION;
            }
        }
    }

    /// Returns the total rate of the streams interleaved in a connection, bits/s.
    pub(crate) fn interleaved_bps(&self, library: &Library, connection: usize) -> u64 {
        let of_it = self.iter().filter(|(_, session)| {
            session.connection == connection
                && !session.stopping
                && matches!(session.transport, Transport::Interleaved(..))
        });
        of_it.map(|(_, session)| library.titles[session.title].mean_bps).sum()
    }

    /// Requests a state of a session from the data plane.
    pub(crate) fn request_state(
        &mut self,
        number: usize,
        state: RequestedState,
        waker: &impl AsWakeSocket,
    ) {
        self.region.session(number).set(SessionField::RequestedState, state as u64);
        if matches!(state, RequestedState::Stop | RequestedState::Yield)
            && let Some(session) = &mut self.all[number]
            && !std::mem::replace(&mut session.stopping, true)
        {
            self.admission.remove(session.title, session.reserved_bps);
        }
        if !self.region.notices().push([number as u64, 0, 0, 0]) {
            self.region.set(GlobalField::CheckAllRows, 1);
        }
        waker.wake();
    }

    /// Stops the sessions that are silent for more than `timeout_ns`. `last_received_ns` returns
    /// when a connection last received something, ns, if it exists.
    pub(crate) fn stop_silent(
        &mut self,
        now_ns: u64,
        timeout_ns: u64,
        waker: &impl AsWakeSocket,
        last_received_ns: impl Fn(usize) -> Option<u64>,
    ) {
        let mut silent = Vec::new();
        for (number, session) in self.iter() {
            let row = self.region.session(number);
            if let Some(at_ns) = last_received_ns(session.connection) {
                row.set(SessionField::RtspReceivedNs, at_ns);
            }
            let last_ns = self.region.last_received_ns(number);
            if now_ns.saturating_sub(last_ns) > timeout_ns
                && row.requested_state() != RequestedState::Stop
            {
                silent.push(number);
            }
        }
        for number in silent {
            self.request_state(number, RequestedState::Stop, waker);
        }
    }

    /// Stops all sessions of a title.
    pub(crate) fn stop_title(&mut self, title: usize, waker: &impl AsWakeSocket) {
        let of_title = self.iter().filter(|(_, session)| session.title == title);
        let numbers: Vec<usize> = of_title.map(|(number, _)| number).collect();
        for number in numbers {
            self.request_state(number, RequestedState::Stop, waker);
        }
    }

    /// Stops all sessions.
    pub(crate) fn stop_all(&mut self, waker: &impl AsWakeSocket) {
        let numbers: Vec<usize> = self.iter().map(|(number, _)| number).collect();
        for number in numbers {
            self.request_state(number, RequestedState::Stop, waker);
        }
    }

    /// Returns the sessions that have stopped. The data plane has issued its last orders for them.
    pub(crate) fn stopped(&self) -> Vec<usize> {
        let stopped = |number: usize| self.region.session(number).state() == State::Stopped;
        let sessions = self.iter().filter(|(number, s)| s.stopping && stopped(*number));
        sessions.map(|(number, _)| number).collect()
    }

    /// Frees the rows of stopped sessions and keeps their counts.
    pub(crate) fn sweep(&mut self, stopped: &[usize]) {
        for number in stopped {
            let row = self.region.session(*number);
            self.ended_counts = self.ended_counts.plus(FrameCounts::of(row));
            if let Some(session) = &self.all[*number] {
                let ended = self.ended_totals.entry(session.title).or_default();
                *ended = ended.plus(StreamTotals::of(row));
            }
            row.set(SessionField::Id, 0);
            self.all[*number] = None;
        }
    }

    /// Returns the frame counts of one session.
    pub(crate) fn account(&self, number: usize) -> FrameCounts {
        FrameCounts::of(self.region.session(number))
    }

    /// Returns the frame counts of all sessions, current and ended.
    pub(crate) fn total(&self) -> FrameCounts {
        self.iter().fold(self.ended_counts, |sum, (number, _)| sum.plus(self.account(number)))
    }

    /// Returns the totals of all sessions, current and ended, by title.
    pub(crate) fn totals(&self) -> BTreeMap<usize, StreamTotals> {
        let mut totals = self.ended_totals.clone();
        for (number, session) in self.iter() {
            let row = self.region.session(number);
            let of_title: &mut StreamTotals = totals.entry(session.title).or_default();
            *of_title = of_title.plus(StreamTotals::of(row));
        }
        totals
    }

    /// Sets the totals of a title without sessions to 0: its place has another path.
    pub(crate) fn begin_totals(&mut self, title: usize) {
        if let Some(ended) = self.ended_totals.remove(&title) {
            let former = self.former_totals.entry(title).or_default();
            *former = former.plus(ended);
        }
    }

    /// Returns the totals of all sessions by title, those of former paths included.
    pub(crate) fn totals_of_places(&self) -> BTreeMap<usize, StreamTotals> {
        let mut totals = self.totals();
        for (title, former) in &self.former_totals {
            let of_title = totals.entry(*title).or_default();
            *of_title = of_title.plus(*former);
        }
        totals
    }

    /// Returns whether every row is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }
}

/// What identifies a track among all servers: the session's id and the number of the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    pub(crate) id: u64,
    pub(crate) title: u32,
}

impl SessionKey {
    fn of(row: Row) -> Self {
        Self { id: row.get(SessionField::Id), title: low_u32(row.get(SessionField::Media)) }
    }
}

/// Returns an unpredictable random number from the system; `None` if there is none.
pub(crate) fn random_word() -> Option<u64> {
    let mut bytes = [0u8; 8];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    (count == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::resources;

    /// The titles of `tone` and its audio.
    const TONE: [usize; 2] = [3, 4];

    #[test]
    fn both_tracks_of_a_client_are_taken_over_as_one_session() {
        const S: u64 = 1_000_000_000;
        let (library, _) = resources();
        let (waker, _other) = mio::net::UnixStream::pair().unwrap();
        let sessions = || {
            let region = Region::create(library.rows(4)).unwrap().0;
            let mut sessions = Sessions::new(region, 20_000_000);
            sessions.video_rows = 4;
            sessions
        };
        let mut there = sessions();
        let peer = IpAddr::from([10, 1, 2, 3]);
        let by = Requester { peer, connection: 0, secured: false };
        let udp = |port| Transport::Udp(port, port + 1);
        let [video, audio] = TONE;
        let first = there.admit(library, video, None, udp(5_000), by, S).unwrap();
        let second = there.admit(library, audio, Some(first), udp(5_002), by, S).unwrap();
        assert_eq!((first, second, there.admitted), (0, 4, 1));
        for row in [first, second] {
            let row = there.region.session(row);
            row.set(SessionField::PhaseNs, 3 * S);
            row.set(SessionField::RequestedState, RequestedState::Play as u64);
            row.set(SessionField::State, State::Playing as u64);
        }
        // In 2.1 s: 53 frames of video, and two rounds of 15 frames of audio and two more.
        let reports = [second, first].map(|row| there.shared(row, 5 * S).unwrap());
        assert!(reports.iter().all(|report| report.is_valid(library)));
        let mut here = sessions();
        let [reported_ns, now_ns] = [7 * S, 7 * S + 100_000_000];
        for report in &reports {
            assert!(here.take_over(library, report, reported_ns, now_ns, &waker));
            assert!(!here.take_over(library, report, reported_ns, now_ns, &waker), "twice");
        }
        let taken = here.find(&there.get(first).unwrap().id, peer).unwrap();
        assert_eq!(here.tracks(taken), [0, 4]);
        let region = here.region;
        let row = |row: usize| region.session(row);
        assert_eq!([0, 4].map(|track| row(track).get(SessionField::PhaseNs)), [5 * S; 2]);
        assert_eq!([0, 4].map(|track| row(track).get(SessionField::Next)), [53, 32]);
        // A session of another stream with the same id is no track of it.
        let mut other = reports[1].clone();
        other.title = 0;
        assert!(!here.take_over(library, &other, reported_ns, now_ns, &waker));
        // Either track keeps the other one alive.
        let silent_ns = now_ns + 50 * S;
        row(0).set(SessionField::RtcpReceivedNs, silent_ns);
        here.stop_silent(silent_ns + S, 10 * S, &waker, |_| None);
        assert_eq!(here.tracks(taken).len(), 2);
        here.stop_silent(silent_ns + 11 * S, 10 * S, &waker, |_| None);
        assert_eq!(here.tracks(taken).len(), 0);
    }

    #[test]
    fn no_session_names_the_place_of_a_closed_connection() {
        let (library, _) = resources();
        let (waker, _other) = mio::net::UnixStream::pair().unwrap();
        let region = Region::create(library.rows(4)).unwrap().0;
        let mut sessions = Sessions::new(region, 20_000_000);
        sessions.video_rows = 4;
        let peer = IpAddr::from([10, 1, 2, 3]);
        let mut admit = |connection| {
            let by = Requester { peer, connection, secured: false };
            sessions.admit(library, TONE[0], None, Transport::Interleaved(0, 1), by, 1).unwrap()
        };
        let [playing, torn_down, other] = [7, 7, 8].map(&mut admit);
        sessions.request_state(torn_down, RequestedState::Stop, &waker);
        sessions.disconnect(7, &waker);
        let connections =
            [playing, torn_down, other].map(|row| sessions.get(row).unwrap().connection);
        assert_eq!(connections, [NO_CONNECTION, NO_CONNECTION, 8]);
        let requested = [playing, torn_down, other]
            .map(|row| sessions.region.session(row).requested_state() == RequestedState::Stop);
        assert_eq!(requested, [true, true, false]);
    }

    #[test]
    fn sums_over_damaged_rows_saturate() {
        let most = [u64::MAX; 3];
        let damaged = FrameCounts { sent: most, late: most, released: 9, ..FrameCounts::default() };
        let both = damaged.plus(damaged);
        assert_eq!((both.sent, both.released), (most, 18));
        assert_eq!((both.sent_frames(), both.missed(), both.waiting()), (u64::MAX, u64::MAX, 0));
    }
}
