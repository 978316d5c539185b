//! The dispatcher: chooses the next frame and paces its packets to the link's rate.
//!
//! ```text
//!                                 ┌─> audio lane ─────┐ first
//! release (a frame each period) ─┼─> mandatory lane ─┤ second
//!          a client's frames     └─> optional lane ──┴───────> link: packets, paced
//! ```
//! In each lane the engine's discipline chooses among the clients' head frames. A lane drops a late
//! frame whole. The dispatcher sends mandatory frames of video only while no audio waits, and
//! optional frames (see [`optional_frames`](crate::scheduler::optional_frames)) only while no
//! other frame waits. A
//! client's frames leave in order: the dispatcher drops an optional frame if a later frame has
//! overtaken it. It sends a chosen frame whole and decides again when the link is free.
//!
//! This module has no clock and no socket. The caller of [`Dispatch::step`] passes the time and a
//! [`PacketSender`]. The dispatcher processes events at their due times, so the schedule does not
//! depend on a wake-up latency of up to [`SLACK_NS`].

mod read_ahead;

use millstream::selector::{Select, Selector};
use millstream::{Contract, Discipline, Edf, Heap, Late, Window};
use millstream_scenario::Link;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::rtp::low_u32;
use crate::scheduler::client::{Client, Descriptor, ReportTime};
use crate::scheduler::followers::Followers;
use crate::scheduler::frame_filter::{FrameFilter, Verdict};
use crate::scheduler::frame_view::FrameView;
use crate::scheduler::held_frames::HeldFrames;
use crate::scheduler::lane::Lane;
use crate::scheduler::loss_sharing::{EqualLoss, LossRank};
use crate::shared_memory::frame_cache::FrameCache;
use crate::shared_memory::live_frames::FrameBuffer;
use crate::shared_memory::region::{GlobalField, Region, RequestedState, SessionField, State};
use crate::shared_memory::store::{FrameRecord, Packets, Store};

/// The time by which packets leave early, ns, so that several share one system call.
const AHEAD_NS: u64 = 250_000;

/// The largest wake-up latency that the dispatcher compensates, ns.
///
/// A dispatcher that was stopped for longer must not assume that the link was busy meanwhile.
pub(crate) const SLACK_NS: u64 = 1_000_000;

/// The transmit side of the dispatcher.
pub(crate) trait PacketSender {
    /// Sends `packets` packets of a client's frame, starting with packet `first`.
    ///
    /// Returns `false` if it refused the whole frame; no outcome follows then.
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) -> bool;

    /// Sends an RTCP sender report about an instant, and a goodbye if `bye` is set.
    fn report(&mut self, client: &Client, at: ReportTime, bye: bool);
}

/// A frame in transmission.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    pub(crate) client: &'a Client,
    pub(crate) frame: Descriptor,
    pub(crate) packets: Packets<'a>,
    pub(crate) rtp_time: u32,
    /// The RTP sequence number of the frame's first packet, without the session's base.
    pub(crate) sequence: u64,
}

/// A frame that is partly sent.
#[derive(Clone, Copy, Debug)]
struct InService {
    client: usize,
    frame: Descriptor,
    record: FrameRecord,
    sequence: u64,
    /// The index of the next packet.
    packet: usize,
    /// When the next packet is due, ns.
    next_ns: u64,
}

/// The scheduler of all clients and its transmit state.
#[derive(Debug)]
pub(crate) struct Dispatch<S, F> {
    store: Store,
    region: Region,
    link: Link,
    audio: Lane<Selector<Edf, Heap<<Edf as Discipline>::Rank>>>,
    mandatory: Lane<S>,
    optional: Lane<Selector<EqualLoss, Heap<LossRank>>>,
    /// The clients by slot. A slot has a stream in each lane and is reused once it is empty.
    clients: Vec<Client>,
    /// The slot of each session.
    sessions: Vec<Option<usize>>,
    /// The next release time, ns, and session of each playing client.
    releases: BinaryHeap<Reverse<(u64, usize)>>,
    /// The sessions of live streams that wait for a frame.
    followers: Followers,
    /// The followers with a new frame; kept to avoid an allocation per step.
    served: Vec<usize>,
    /// The payload of the last chosen frame that is not in the store.
    copied: FrameBuffer,
    /// The cache of frames that are not in the store.
    frame_cache: Option<FrameCache>,
    /// The released frames whose payload has not been read yet.
    held: HeldFrames,
    /// When `held` frames are checked again, ns.
    next_check_ns: u64,
    /// The filter of released frames.
    pub(crate) filter: F,
    in_service: Option<InService>,
    /// When the link is free, ns.
    link_free_ns: u64,
    /// The time of the last event, ns; monotonic.
    time_ns: u64,
}

impl<S: Select<Stamp = ()>, F: FrameFilter> Dispatch<S, F> {
    /// Creates a dispatcher that serves the files of `store` to the clients of `region`.
    ///
    /// It resumes the clients that already play. `selector` schedules the mandatory lane; `filter`
    /// sees every released frame.
    pub(crate) fn new(store: Store, region: Region, selector: S, filter: F, now_ns: u64) -> Self {
        let sessions = region.sessions();
        let mandatory = Lane::new(selector);
        let optional = Lane::new(Selector::new(EqualLoss, Heap::default()));
        region.notices().clear();
        region.outcomes().clear();
        region.webrtc_outcomes().clear();
        region.set(GlobalField::CheckAllRows, 1);
        Self {
            followers: Followers::new(&store.rings, sessions),
            served: Vec::with_capacity(sessions),
            copied: FrameBuffer::default(),
            store,
            region,
            link: Link::of(region.link()),
            audio: Lane::new(Selector::new(Edf, Heap::default())),
            mandatory,
            optional,
            clients: Vec::new(),
            sessions: vec![None; sessions],
            releases: BinaryHeap::with_capacity(sessions * 2),
            frame_cache: None,
            held: HeldFrames::default(),
            next_check_ns: u64::MAX,
            filter,
            in_service: None,
            link_free_ns: now_ns,
            time_ns: now_ns,
        }
    }

    /// Processes the events due by `now_ns`.
    ///
    /// Returns the next due time, ns, or `u64::MAX` if only an external event can create work.
    pub(crate) fn step(&mut self, now_ns: u64, sender: &mut impl PacketSender) -> u64 {
        self.apply_outcomes();
        self.apply_notices(now_ns, sender);
        self.schedule_live_frames();
        loop {
            let release_ns = self.releases.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let service_ns = match &self.in_service {
                Some(frame) => frame.next_ns,
                None if self.waiting() > 0 => self.link_free_ns,
                None => u64::MAX,
            };
            let due_ns = release_ns.min(service_ns).min(self.next_check_ns);
            if due_ns > now_ns {
                return due_ns;
            }
            self.time_ns = self.time_ns.max(due_ns).max(now_ns.saturating_sub(SLACK_NS));
            if self.next_check_ns <= due_ns {
                self.check_held_frames();
            } else if release_ns <= service_ns {
                self.release(sender);
            } else if self.in_service.is_some() {
                self.send(now_ns, sender);
            } else {
                self.decide();
            }
        }
    }

    /// Applies the session requests in the host's notices.
    fn apply_notices(&mut self, now_ns: u64, sender: &mut impl PacketSender) {
        self.filter.update(self.region);
        if self.region.take(GlobalField::CheckAllRows) != 0 {
            for session in 0..self.sessions.len() {
                self.reconcile(session, now_ns, sender);
            }
        }
        while let Some([session, ..]) = self.region.notices().pop() {
            if let Ok(session) = usize::try_from(session)
                && session < self.sessions.len()
            {
                self.reconcile(session, now_ns, sender);
            }
        }
    }

    /// Counts the outcomes that the host reported for forwarded frames.
    fn apply_outcomes(&mut self) {
        let rings = [self.region.outcomes(), self.region.webrtc_outcomes()];
        let outcomes = rings.iter().flat_map(|ring| std::iter::from_fn(move || ring.pop()));
        for [key, frame, sent_ns, _] in outcomes {
            let slot = self.sessions.get(low_u32(key) as usize).copied().flatten();
            let client = slot.map(|slot| &mut self.clients[slot]);
            if let Some(client) = client.filter(|client| client.host_key() == key) {
                client.record_outcome(frame, sent_ns);
            }
        }
    }

    /// Schedules the live frames that have arrived.
    fn schedule_live_frames(&mut self) {
        let mut served = std::mem::take(&mut self.served);
        self.followers.drain_ready(&mut served);
        for session in served.drain(..) {
            if let Some(client) = self.sessions[session]
                && self.clients[client].is_playing()
            {
                self.schedule_release(session, client);
            }
        }
        self.served = served;
    }

    /// Applies the state that the host requests for a session.
    fn reconcile(&mut self, session: usize, now_ns: u64, sender: &mut impl PacketSender) {
        let row = self.region.session(session);
        match (row.requested_state(), row.state()) {
            (RequestedState::Play, State::Ready | State::Paused) => {
                let Some(client) = self.client_of(session, now_ns) else { return };
                let other = self.region.other_track(session).and_then(|other| {
                    let row = self.region.session(other);
                    let media = usize::try_from(row.get(SessionField::Media)).ok()?;
                    Some((row, self.store.media().get(media)?))
                });
                self.clients[client].play(now_ns, &self.store, other);
                self.begin_reading(client);
                self.schedule_release(session, client);
            }
            // An earlier data plane left this session playing.
            (RequestedState::Play, State::Playing) if self.sessions[session].is_none() => {
                let Some(client) = self.client_of(session, now_ns) else { return };
                self.clients[client].catch_up(now_ns, &self.store);
                self.begin_reading(client);
                self.schedule_release(session, client);
            }
            (RequestedState::Pause, State::Playing) => {
                if let Some(client) = self.client_of(session, now_ns) {
                    self.clients[client].pause();
                }
            }
            (RequestedState::Stop | RequestedState::Yield, State::Stopped) => {}
            (want @ (RequestedState::Stop | RequestedState::Yield), state) => {
                if let Some(client) = self.sessions[session].take() {
                    if state != State::Ended && want == RequestedState::Stop {
                        self.goodbye(client, sender);
                    }
                    self.clients[client].leave();
                    self.end_reading(session, client);
                } else {
                    // An earlier data plane left this session; its queued frames are lost.
                    row.add(
                        SessionField::Lost,
                        row.get(SessionField::Next).wrapping_sub(row.resolved()),
                    );
                }
                row.set(SessionField::State, State::Stopped as u64);
            }
            _ => {}
        }
    }

    /// Returns the slot of a session's client; if it has none, reuses an empty one or adds one.
    ///
    /// Returns `None` if the session's row is damaged, which ends the session.
    fn client_of(&mut self, session: usize, now_ns: u64) -> Option<usize> {
        if let Some(client) = self.sessions[session] {
            return Some(client);
        }
        let row = self.region.session(session);
        let number = usize::try_from(row.get(SessionField::Media)).ok()?;
        let media = *self.store.media().get(number)?;
        let free = (0..self.clients.len()).find(|slot| {
            let client = &self.clients[*slot];
            client.media_number == number
                && !client.is_taken()
                && self.audio.is_empty(*slot)
                && self.mandatory.is_empty(*slot)
                && self.optional.is_empty(*slot)
                && self.in_service.is_none_or(|frame| frame.client != *slot)
        });
        let mut client = Client::new(session, number, media, row);
        if let Some(what) = client.damage(now_ns, &self.store) {
            eprintln!("ending session {session}: damaged row: {what}");
            client.end();
            return None;
        }
        client.take_over(&self.store);
        let slot = match free {
            Some(slot) => {
                self.clients[slot] = client;
                slot
            }
            None => self.add_slot(client)?,
        };
        self.sessions[session] = Some(slot);
        Some(slot)
    }

    fn add_slot(&mut self, client: Client) -> Option<usize> {
        let optional = Contract::new().period_ns(client.period_ns()).ok()?.late(Late::Drop);
        let mandatory = optional.clone().window(Window::new(0, 1).ok()?);
        // A slot's queues take memory only in the lanes of its frames.
        let queue = client.media.queue;
        let [audio, video] = if client.is_audio() { [queue, 0] } else { [0, queue] };
        self.audio.add(&mandatory, audio).ok()?;
        self.mandatory.add(&mandatory, video).ok()?;
        self.optional.add(&optional, video).ok()?;
        self.clients.push(client);
        Some(self.clients.len() - 1)
    }

    fn waiting(&self) -> usize {
        self.audio.waiting() + self.mandatory.waiting() + self.optional.waiting()
    }

    fn schedule_release(&mut self, session: usize, slot: usize) {
        let client = &mut self.clients[slot];
        if let Some(number) = client.ring() {
            let Some(ring) = self.store.rings.get(number) else { return };
            let next_ns = client.next_live_ns(ring);
            client.wait_until(next_ns.unwrap_or(u64::MAX));
            if next_ns.is_none() {
                return self.followers.wait(number, session);
            }
        }
        self.releases.push(Reverse((client.next_release_ns(), session)));
    }

    /// Releases the frame of the earliest due client.
    fn release(&mut self, sender: &mut impl PacketSender) {
        let Some(Reverse((at_ns, session))) = self.releases.pop() else { return };
        let Some(slot) = self.sessions[session] else { return };
        let client = &mut self.clients[slot];
        // Skips a release that was scheduled before a pause.
        if !client.is_playing() || client.next_release_ns() != at_ns {
            return;
        }
        let live = client.ring().map(|number| self.store.rings.get(number));
        let released = match live {
            Some(ring) => ring.and_then(|ring| client.release_live(at_ns, ring)),
            None => client.release(at_ns, &self.store),
        };
        let Some((frame, optional)) = released else {
            if live.is_some() {
                self.schedule_release(session, slot);
            } else if client.is_over(at_ns) {
                client.end();
                self.goodbye(slot, sender);
            } else {
                // Checks again until the client has sent and played the last frame.
                let next_check_ns = at_ns + client.period_ns();
                client.wait_until(next_check_ns);
                self.releases.push(Reverse((next_check_ns, session)));
            }
            return;
        };
        self.schedule_release(session, slot);
        let optional = match self.verdict_on(slot, &frame, optional) {
            Verdict::Drop => return self.clients[slot].filtered(&frame),
            Verdict::Pass => optional,
            Verdict::Loosen => true,
        };
        let client = &mut self.clients[slot];
        let answers = client.answers_request(&frame);
        let optional = optional && !answers;
        if !client.path_admits(&frame, optional, at_ns) {
            return;
        }
        if self.is_unread(slot, &frame) {
            return self.hold(slot, frame, optional);
        }
        self.enqueue(slot, frame, optional);
        self.update_wanted(slot);
    }

    /// Queues a frame in its lane.
    fn enqueue(&mut self, slot: usize, frame: Descriptor, optional: bool) {
        if self.clients[slot].is_audio() {
            self.audio.push(self.time_ns, slot, frame, &mut self.clients);
        } else if optional {
            self.optional.push(self.time_ns, slot, frame, &mut self.clients);
        } else {
            self.mandatory.push(self.time_ns, slot, frame, &mut self.clients);
        }
    }

    /// Returns the filter's verdict on a frame.
    fn verdict_on(&mut self, slot: usize, frame: &Descriptor, optional: bool) -> Verdict {
        let client = &self.clients[slot];
        let stream = client.media.stream as usize;
        if client.is_audio() || !self.filter.filters(stream) {
            return Verdict::Pass;
        }
        let waiting = self.mandatory.queued(slot) + self.optional.queued(slot) + self.held.of(slot);
        let view = FrameView::new(client, frame, optional, waiting, self.time_ns);
        self.filter.verdict_on(stream, &view)
    }

    /// Chooses the next frame, if any, and puts it in service.
    fn decide(&mut self) {
        self.region.add(GlobalField::Decisions, 1);
        let audio = if self.audio.waiting() > 0 {
            self.audio.decide(self.time_ns, &mut self.clients)
        } else {
            None
        };
        let next = audio
            .or_else(|| self.mandatory.decide(self.time_ns, &mut self.clients))
            .or_else(|| self.optional.decide(self.time_ns, &mut self.clients));
        let Some((slot, frame)) = next else { return };
        let client = &mut self.clients[slot];
        if !client.is_taken() {
            return;
        }
        if client.is_overtaken(&frame) {
            return client.dropped(&frame, SessionField::Late);
        }
        if client.is_backlogged() {
            // Reserves no RTP numbers: the client sees a gap in time, not in sequence numbers.
            client.row.add(SessionField::Slow, 1);
            return client.dropped(&frame, SessionField::Full);
        }
        let record = match client.ring() {
            None if client.media.media_file != 0 => self.copy_cached(slot, &frame),
            None => Some(client.frame(&frame, &self.store)),
            Some(number) => {
                let ring = self.store.rings.get(number);
                ring.and_then(|ring| client.take_live(&frame, ring, &mut self.copied))
            }
        };
        let Some(record) = record else { return };
        let sequence = self.clients[slot].reserve(&frame, &record);
        let next_ns = self.time_ns;
        self.in_service =
            Some(InService { client: slot, frame, record, sequence, packet: 0, next_ns });
    }

    /// Sends the due packets of the frame in service.
    fn send(&mut self, now_ns: u64, sender: &mut impl PacketSender) {
        let Some(mut service) = self.in_service else { return };
        let client = &self.clients[service.client];
        let record = service.record;
        let packets = match client.ring() {
            None if client.media.media_file != 0 => {
                Packets { bytes: &self.copied.bytes, ..self.store.packets(&record) }
            }
            None => self.store.packets(&record),
            Some(_) => Packets { records: &self.copied.packets, bytes: &self.copied.bytes },
        };
        // Players that know the clock from the first packet on need not correct it later.
        if service.packet == 0 && client.is_report_due(now_ns) {
            client.reported(now_ns);
            sender.report(client, client.instant(now_ns), false);
        }
        let rtp_time = client.rtp_time(&service.frame, &record);
        let mut next_ns = service.next_ns;
        let mut count = 0;
        for packet in &packets.records[service.packet..] {
            if next_ns > now_ns + AHEAD_NS {
                break;
            }
            next_ns += self.link.transmission_ns(packet.length());
            count += 1;
        }
        let sending =
            Sending { client, frame: service.frame, packets, rtp_time, sequence: service.sequence };
        let passed = sender.packets(&sending, service.packet, count);
        if service.packet == 0 && client.is_interleaved() {
            let client = &mut self.clients[service.client];
            if passed {
                client.forwarded(&service.frame);
            } else {
                client.dropped(&service.frame, SessionField::Full);
            }
        }
        service.packet += count;
        service.next_ns = next_ns;
        if service.packet < packets.records.len() {
            self.in_service = Some(service);
            return;
        }
        self.in_service = None;
        self.link_free_ns = next_ns;
        let client = &mut self.clients[service.client];
        client.sent(&service.frame, &record, now_ns);
    }

    fn goodbye(&mut self, client: usize, sender: &mut impl PacketSender) {
        let client = &self.clients[client];
        sender.report(client, client.instant(self.time_ns), true);
    }

    /// Returns the number of frames that wait, are held or are in service.
    pub(crate) fn unresolved(&self) -> usize {
        self.waiting() + self.held.len() + usize::from(self.in_service.is_some())
    }

    /// Returns the active clients, for the RTCP receiver.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.is_taken())
    }

    /// Stops every client that was silent for more than `timeout_ns`; used when the host is gone.
    pub(crate) fn end_silent_clients(&mut self, now_ns: u64, timeout_ns: u64) {
        for session in 0..self.sessions.len() {
            let row = self.region.session(session);
            let last_received_ns = self.region.last_received_ns(session);
            if self.sessions[session].is_some()
                && now_ns.saturating_sub(last_received_ns) > timeout_ns
            {
                row.set(SessionField::RequestedState, RequestedState::Stop as u64);
                self.region.set(GlobalField::CheckAllRows, 1);
            }
        }
    }

    /// Hands every client over to the other servers of the cluster; used when the host is gone.
    pub(crate) fn hand_over(&self) {
        for session in 0..self.sessions.len() {
            let row = self.region.session(session);
            if self.sessions[session].is_some() && row.requested_state() != RequestedState::Stop {
                row.set(SessionField::RequestedState, RequestedState::Yield as u64);
            }
        }
        self.region.set(GlobalField::CheckAllRows, 1);
    }

    /// Stops the clients of live streams; used when the host, their source of frames, is gone.
    pub(crate) fn end_live(&self) {
        for session in 0..self.sessions.len() {
            let client = self.sessions[session].map(|client| &self.clients[client]);
            if client.is_some_and(|client| client.ring().is_some()) {
                self.region
                    .session(session)
                    .set(SessionField::RequestedState, RequestedState::Stop as u64);
                self.region.set(GlobalField::CheckAllRows, 1);
            }
        }
    }

    /// Returns whether any client is playing.
    pub(crate) fn is_playing(&self) -> bool {
        self.clients.iter().any(Client::is_playing)
    }
}

#[cfg(test)]
mod tests;
