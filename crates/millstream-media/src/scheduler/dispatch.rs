//! Scheduler and dispatch: whose frame goes next, and its packets at the link's pace.
//!
//! ```text
//! release (a frame each period) ─┬─> mandatory lane ─┐ first
//!          a client's frames     └─> optional lane ──┴───────> link: packets, paced
//! ```
//! In each lane the engine's discipline chooses among the clients' heads; one whose deadline has passed
//! is dropped whole. Optional frames (see [`optional`](crate::scheduler::optional_frames)) go where no mandatory one
//! waits. A client's frames leave in order: an optional one that a later frame overtook is dropped. A
//! frame that was chosen is sent whole: the next decision is made when the link would be free of it.
//!
//! Nothing here has a clock or a socket. [`Dispatch::step`] is told the time and sends by an
//! [`PacketSender`]; events are worked on at the times that they were due, so that the schedule does not
//! depend on how late the thread was woken, up to [`SLACK_NS`].

mod reading;

use millstream::selector::{Select, Selector};
use millstream::{Contract, Heap, Late, Window};
use millstream_scenario::Link;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::files::read_ahead::frame_cache::FrameCache;
use crate::files::read_ahead::held::Held;
use crate::instruction::frame_view::FrameView;
use crate::instruction::running::{Instructions, Verdict};
use crate::live::followers::Followers;
use crate::live::frames::Copied;
use crate::scheduler::client::{Client, Descriptor, low_bits};
use crate::scheduler::lane::Lane;
use crate::scheduler::loss_sharing::{EqualLoss, LossRank};
use crate::shared_memory::region::{GlobalField, Region, SessionField, State, Want};
use crate::shared_memory::store::{FrameRecord, Packets, Store};

/// How far packets are sent ahead of their time, ns, so that several go to the kernel at once.
const AHEAD_NS: u64 = 250_000;

/// How late an event may be worked on as if it were in time, ns. A dispatcher that was stopped for
/// longer must not believe that the link was busy meanwhile.
pub(crate) const SLACK_NS: u64 = 1_000_000;

/// What becomes of packets.
pub(crate) trait PacketSender {
    /// Sends `packets` packets of a client's frame, from number `first` on. `false`: the frame was
    /// refused whole, and what becomes of it is not told.
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) -> bool;

    /// A sender report, or a goodbye if `bye`.
    fn report(&mut self, client: &Client, rtp_time: u32, bye: bool);
}

/// A frame that is being sent.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    pub(crate) client: &'a Client,
    pub(crate) frame: Descriptor,
    pub(crate) packets: Packets<'a>,
    pub(crate) rtp_time: u32,
    /// The RTP number of its first packet, sequence base not counted.
    pub(crate) sequence: u64,
}

/// A frame part of which is sent.
#[derive(Clone, Copy, Debug)]
struct InService {
    client: usize,
    frame: Descriptor,
    record: FrameRecord,
    sequence: u64,
    /// The packet that goes next.
    packet: usize,
    /// When it goes, ns.
    next_ns: u64,
}

/// The scheduler of all clients and what it sends by.
#[derive(Debug)]
pub(crate) struct Dispatch<S> {
    store: Store,
    region: Region,
    link: Link,
    mandatory: Lane<S>,
    optional: Lane<Selector<EqualLoss, Heap<LossRank>>>,
    /// Clients by slot; a slot has a stream in each lane, and is another client's once it is empty.
    clients: Vec<Client>,
    /// Slots by session.
    sessions: Vec<Option<usize>>,
    /// When each playing client's next frame is released, with its session.
    releases: BinaryHeap<Reverse<(u64, usize)>>,
    /// Sessions of live streams that wait for a frame.
    followers: Followers,
    /// Those that one has come for; kept to allocate once.
    served: Vec<usize>,
    /// The live frame that was chosen last.
    copied: Copied,
    /// Where films' frames are that are not in the store.
    shelf: Option<FrameCache>,
    /// Those that were released before they were there.
    held: Held,
    /// When they are looked at again, ns.
    again_ns: u64,
    /// What is asked of each frame that is released.
    pub(crate) instructions: Instructions,
    in_service: Option<InService>,
    /// When the link is free, ns.
    link_free_ns: u64,
    /// The time of the last event, which never goes back.
    time_ns: u64,
}

impl<S: Select<Stamp = ()>> Dispatch<S> {
    /// A dispatcher of `store`'s files to the clients of `region`, those that play already included;
    /// `selector` schedules the mandatory lane.
    pub(crate) fn new(store: Store, region: Region, selector: S, now_ns: u64) -> Self {
        let overhead = u32::try_from(region.get(GlobalField::LinkOverhead)).unwrap_or(0);
        let rate_bps = region.get(GlobalField::LinkRate).max(1);
        let sessions = region.sessions();
        let mandatory = Lane::new(selector);
        let optional = Lane::new(Selector::new(EqualLoss, Heap::default()));
        region.notices().clear();
        region.outcomes().clear();
        region.set(GlobalField::LookAtAll, 1);
        Self {
            followers: Followers::new(&store.rings, sessions),
            served: Vec::with_capacity(sessions),
            copied: Copied::default(),
            store,
            region,
            link: Link { rate_bps, overhead, credits: None },
            mandatory,
            optional,
            clients: Vec::new(),
            sessions: vec![None; sessions],
            releases: BinaryHeap::with_capacity(sessions * 2),
            shelf: None,
            held: Held::default(),
            again_ns: u64::MAX,
            instructions: Instructions::default(),
            in_service: None,
            link_free_ns: now_ns,
            time_ns: now_ns,
        }
    }

    /// Does what is due by `now_ns`. Returns when there is more to do, ns; `u64::MAX` if that depends
    /// on others.
    pub(crate) fn step(&mut self, now_ns: u64, outlet: &mut impl PacketSender) -> u64 {
        self.take_outcomes();
        self.take_notices(now_ns, outlet);
        self.take_frames();
        loop {
            let release_ns = self.releases.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let service_ns = match &self.in_service {
                Some(frame) => frame.next_ns,
                None if self.waiting() > 0 => self.link_free_ns,
                None => u64::MAX,
            };
            let due_ns = release_ns.min(service_ns).min(self.again_ns);
            if due_ns > now_ns {
                return due_ns;
            }
            self.time_ns = self.time_ns.max(due_ns).max(now_ns.saturating_sub(SLACK_NS));
            if self.again_ns <= due_ns {
                self.look_again();
            } else if release_ns <= service_ns {
                self.release(outlet);
            } else if self.in_service.is_some() {
                self.send(now_ns, outlet);
            } else {
                self.decide();
            }
        }
    }

    /// Looks at the sessions that the host wants something of.
    fn take_notices(&mut self, now_ns: u64, outlet: &mut impl PacketSender) {
        if self.instructions.is_open() && self.region.take(GlobalField::LookAtBoard) != 0 {
            self.instructions.attend();
        }
        if self.region.take(GlobalField::LookAtAll) != 0 {
            for session in 0..self.sessions.len() {
                self.reconcile(session, now_ns, outlet);
            }
        }
        while let Some([session, ..]) = self.region.notices().pop() {
            if let Ok(session) = usize::try_from(session)
                && session < self.sessions.len()
            {
                self.reconcile(session, now_ns, outlet);
            }
        }
    }

    /// Counts what became of the frames that the host passed on.
    fn take_outcomes(&mut self) {
        while let Some([who, frame, sent_ns, _]) = self.region.outcomes().pop() {
            let slot = self.sessions.get(low_bits(who) as usize).copied().flatten();
            let client = slot.map(|slot| &mut self.clients[slot]);
            if let Some(client) = client.filter(|client| client.called() == who) {
                client.settled(frame, sent_ns);
            }
        }
    }

    /// Looks at the live frames that have come.
    fn take_frames(&mut self) {
        let mut served = std::mem::take(&mut self.served);
        self.followers.come(&mut served);
        for session in served.drain(..) {
            if let Some(client) = self.sessions[session]
                && self.clients[client].is_playing()
            {
                self.schedule_release(session, client);
            }
        }
        self.served = served;
    }

    /// Makes of a session what the host wants.
    fn reconcile(&mut self, session: usize, now_ns: u64, outlet: &mut impl PacketSender) {
        let row = self.region.session(session);
        match (row.want(), row.state()) {
            (Want::Play, State::Ready | State::Paused) => {
                let Some(client) = self.client_of(session, now_ns) else { return };
                self.clients[client].play(now_ns, &self.store);
                self.begin_reading(client);
                self.schedule_release(session, client);
            }
            // Played by an NI that is no more.
            (Want::Play, State::Playing) if self.sessions[session].is_none() => {
                let Some(client) = self.client_of(session, now_ns) else { return };
                self.clients[client].catch_up(now_ns, &self.store);
                self.begin_reading(client);
                self.schedule_release(session, client);
            }
            (Want::Pause, State::Playing) => {
                if let Some(client) = self.client_of(session, now_ns) {
                    self.clients[client].pause();
                }
            }
            (Want::Stop | Want::Yield, State::Stopped) => {}
            (want @ (Want::Stop | Want::Yield), state) => {
                if let Some(client) = self.sessions[session].take() {
                    if state != State::Ended && want == Want::Stop {
                        self.goodbye(client, outlet);
                    }
                    self.clients[client].leave();
                    self.end_reading(session, client);
                } else {
                    // Played by an NI that is no more: so are the frames that waited in it.
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

    /// The client slot of a session, one that nothing waits in being taken if it has none; `None` if the
    /// session's row is damaged, which ends the session.
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
                && self.mandatory.is_empty(*slot)
                && self.optional.is_empty(*slot)
                && self.in_service.is_none_or(|frame| frame.client != *slot)
        });
        let mut client = Client::new(session, number, media, row);
        if let Some(what) = client.damage(now_ns, &self.store) {
            eprintln!("session {session} ends, its row is damaged: {what}");
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
        self.mandatory.add(&mandatory, client.media.queue).ok()?;
        self.optional.add(&optional, client.media.queue).ok()?;
        self.clients.push(client);
        Some(self.clients.len() - 1)
    }

    fn waiting(&self) -> usize {
        self.mandatory.waiting() + self.optional.waiting()
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

    /// The next frame of the client whose turn it is becomes one that may be sent.
    fn release(&mut self, outlet: &mut impl PacketSender) {
        let Some(Reverse((at_ns, session))) = self.releases.pop() else { return };
        let Some(slot) = self.sessions[session] else { return };
        let client = &mut self.clients[slot];
        // A release from before a pause.
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
                self.goodbye(slot, outlet);
            } else {
                // Looked at again until the last frame is gone and was read.
                let again_ns = at_ns + client.period_ns();
                client.wait_until(again_ns);
                self.releases.push(Reverse((again_ns, session)));
            }
            return;
        };
        self.schedule_release(session, slot);
        let optional = match self.judge(slot, &frame, optional) {
            Verdict::Drop => return self.clients[slot].filtered(&frame),
            Verdict::Pass => optional,
            Verdict::Loosen => true,
        };
        if self.is_away(slot, &frame) {
            return self.hold(slot, frame, optional);
        }
        self.enqueue(slot, frame, optional);
        self.tell_wanted(slot);
    }

    /// Puts a frame into its lane.
    fn enqueue(&mut self, slot: usize, frame: Descriptor, optional: bool) {
        if optional {
            self.optional.push(self.time_ns, slot, frame, &mut self.clients);
        } else {
            self.mandatory.push(self.time_ns, slot, frame, &mut self.clients);
        }
    }

    /// What the instructions of its stream say of a frame.
    fn judge(&mut self, slot: usize, frame: &Descriptor, optional: bool) -> Verdict {
        let client = &self.clients[slot];
        let stream = client.media.stream as usize;
        if !self.instructions.see(stream) {
            return Verdict::Pass;
        }
        let waiting = self.mandatory.queued(slot) + self.optional.queued(slot) + self.held.of(slot);
        let look = FrameView::new(client, frame, optional, waiting, self.time_ns);
        self.instructions.judge(stream, &look)
    }

    /// One decision: the frame that goes next, if any.
    fn decide(&mut self) {
        self.region.add(GlobalField::Decisions, 1);
        let mandatory = self.mandatory.decide(self.time_ns, &mut self.clients);
        let next = mandatory.or_else(|| self.optional.decide(self.time_ns, &mut self.clients));
        let Some((slot, frame)) = next else { return };
        let client = &mut self.clients[slot];
        if !client.is_taken() {
            return;
        }
        if client.is_overtaken(&frame) {
            return client.dropped(&frame, SessionField::Late);
        }
        if client.is_choked() {
            // Without RTP numbers: the client sees a gap in time, not in them.
            client.row.add(SessionField::Slow, 1);
            return client.dropped(&frame, SessionField::Full);
        }
        let record = match client.ring() {
            None if client.media.film != 0 => self.take_read(slot, &frame),
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

    /// Sends the packets of the frame in service that are due.
    fn send(&mut self, now_ns: u64, outlet: &mut impl PacketSender) {
        let Some(mut service) = self.in_service else { return };
        let client = &self.clients[service.client];
        let record = service.record;
        let packets = match client.ring() {
            None if client.media.film != 0 => {
                Packets { bytes: &self.copied.bytes, ..self.store.packets(&record) }
            }
            None => self.store.packets(&record),
            Some(_) => Packets { records: &self.copied.packets, bytes: &self.copied.bytes },
        };
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
        let passed = outlet.packets(&sending, service.packet, count);
        if service.packet == 0 && client.is_interleaved() {
            let client = &mut self.clients[service.client];
            if passed {
                client.passed_on(&service.frame);
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
        client.last_rtp_time = rtp_time;
        let first = client.sent(&service.frame, &record, now_ns);
        if first || client.is_report_due(now_ns) {
            client.reported(now_ns);
            outlet.report(&self.clients[service.client], rtp_time, false);
        }
    }

    fn goodbye(&mut self, client: usize, outlet: &mut impl PacketSender) {
        let client = &self.clients[client];
        outlet.report(client, client.last_rtp_time, true);
    }

    /// Frames that wait or are being sent.
    pub(crate) fn unresolved(&self) -> usize {
        self.waiting() + self.held.len() + usize::from(self.in_service.is_some())
    }

    /// The clients, for whoever hears from one.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.is_taken())
    }

    /// Stops every client that was heard of by nobody for `timeout_ns`. For an NI whose host is gone.
    pub(crate) fn end_unheard(&mut self, now_ns: u64, timeout_ns: u64) {
        for session in 0..self.sessions.len() {
            let row = self.region.session(session);
            let heard_ns = row.get(SessionField::HeardNs).max(row.get(SessionField::HostHeardNs));
            if self.sessions[session].is_some() && now_ns.saturating_sub(heard_ns) > timeout_ns {
                row.set(SessionField::Want, Want::Stop as u64);
                self.region.set(GlobalField::LookAtAll, 1);
            }
        }
    }

    /// Leaves every client to other servers. For an NI whose host is gone, in a cluster.
    pub(crate) fn hand_over(&self) {
        for session in 0..self.sessions.len() {
            let row = self.region.session(session);
            if self.sessions[session].is_some() && row.want() != Want::Stop {
                row.set(SessionField::Want, Want::Yield as u64);
            }
        }
        self.region.set(GlobalField::LookAtAll, 1);
    }

    /// Ends the clients of live streams. For an NI whose host is gone for good, and their frames with it.
    pub(crate) fn end_live(&self) {
        for session in 0..self.sessions.len() {
            let client = self.sessions[session].map(|client| &self.clients[client]);
            if client.is_some_and(|client| client.ring().is_some()) {
                self.region.session(session).set(SessionField::Want, Want::Stop as u64);
                self.region.set(GlobalField::LookAtAll, 1);
            }
        }
    }

    /// Whether any client plays.
    pub(crate) fn is_playing(&self) -> bool {
        self.clients.iter().any(Client::is_playing)
    }
}

#[cfg(test)]
mod tests;
