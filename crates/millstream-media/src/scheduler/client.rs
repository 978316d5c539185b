//! A client of the dispatcher: its position in its file and its frame counters.
//!
//! Frame n of a client is frame n modulo the file's length. Frames are released one period apart.
//! The two tracks of a client, video and audio, share one clock: the same instant is the start of
//! the file for both.
//! The session's [`Row`] holds the state that must survive the dispatcher. The dispatcher reserves
//! a frame's RTP sequence numbers there before it sends the frame's first packet, so a restart
//! after a crash never reuses one.

mod host_frames;
mod live;
mod path;

use self::host_frames::HostFrames;
use self::path::PathBucket;
use crate::rtp::{RTP_HEADER, low_u32};
use crate::scheduler::online_choice::OnlineChoice;
use crate::scheduler::optional_frames::Choice;
use crate::shared_memory::importance::Importance;
use crate::shared_memory::live_frames::FrameRing;
use crate::shared_memory::region::{LATENESS, Row, SessionField, State};
use crate::shared_memory::store::{FrameRecord, MediaRecord, Store};

/// The interval between sender reports, ns (RFC 3550, section 6.2: at least 5 s).
const REPORT_NS: u64 = 5_000_000_000;

/// The delay of the RTCP goodbye after a file's last period, ns.
///
/// Players stop at the goodbye and discard unread frames.
const READING_NS: u64 = 500_000_000;

/// The upper limit of released frames in a valid row: 89,000 years at 100 frames/s.
const MAX_FRAMES: u64 = 1 << 48;

/// The upper limit of elapsed time in a valid row, ns: 146 years.
const MAX_NS: u64 = 1 << 62;

/// A queued frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The frame's number within the client's frames.
    pub(crate) number: u64,
    /// The [`Importance`] as a number.
    importance: u32,
    /// The bytes of the frame's RTP packets.
    pub(crate) bytes: u32,
    /// The release time, ns.
    pub(crate) release_ns: u64,
    /// The deadline, ns; the frame is late from then on.
    pub(crate) deadline_ns: u64,
}

impl Descriptor {
    /// Returns the frame type as an index: I, P, B.
    pub(crate) fn kind(&self) -> usize {
        Importance::from_number(self.importance).kind()
    }

    /// Creates a descriptor that has only a number.
    pub(crate) fn numbered(number: u64) -> Self {
        Self { number, importance: 0, bytes: 0, release_ns: 0, deadline_ns: 0 }
    }
}

/// An instant as RTP timestamp and as time of the machine's clock, for sender reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportTime {
    pub(crate) rtp_time: u32,
    pub(crate) at_ns: u64,
}

/// A client and its release state.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) session: usize,
    pub(crate) media_number: usize,
    pub(crate) media: MediaRecord,
    pub(crate) row: Row,
    /// The instant of the last chosen frame of a live stream.
    live_instant: ReportTime,
    /// The number after the last chosen frame; frames with lower numbers are not sent.
    in_order_from: u64,
    choice: Choice,
    /// The choice of optional frames of a live stream, in place of `choice`.
    online: OnlineChoice,
    taken: bool,
    /// Whether the client's frames are read ahead from a file.
    pub(crate) reads: bool,
    /// When the dispatcher checks the client again, ns; set at a file's end and for live streams.
    waits_until_ns: Option<u64>,
    /// The losses in the last two blocks of y frames: block number and count.
    losses: [(u64, u64); 2],
    /// Interleaved transport: the frames without an outcome from the host.
    in_host: HostFrames,
    path: PathBucket,
    /// The requests for a key frame that a key frame has answered.
    key_frames_answered: u64,
}

impl Client {
    pub(crate) fn new(session: usize, media_number: usize, media: MediaRecord, row: Row) -> Self {
        Self {
            session,
            media_number,
            media,
            row,
            live_instant: ReportTime::default(),
            in_order_from: 0,
            choice: Choice::new(media.lost, media.of),
            online: OnlineChoice::new(media.lost, media.of),
            taken: true,
            reads: false,
            waits_until_ns: None,
            losses: [(0, 0), (1, 0)],
            in_host: HostFrames::default(),
            path: PathBucket::default(),
            key_frames_answered: 0,
        }
    }

    /// Returns the request period T, ns.
    pub(crate) fn period_ns(&self) -> u64 {
        self.media.period_ns
    }

    /// Returns whether a session uses this slot.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    pub(crate) fn is_playing(&self) -> bool {
        self.taken && self.row.state() == State::Playing
    }

    /// Starts or resumes the client at `now_ns`.
    ///
    /// The next frame of a file is released at once, or that of the `other` track if it is earlier.
    /// A live stream starts at its next entry frame.
    pub(crate) fn play(&mut self, now_ns: u64, store: &Store, other: Option<(Row, &MediaRecord)>) {
        if let Some(ring) = self.ring().and_then(|ring| store.rings.get(ring)) {
            self.join(ring);
        }
        let own_ns = self.next_ns();
        let phase_ns = match other {
            Some((row, _)) if row.state() == State::Playing => row.get(SessionField::PhaseNs),
            Some((row, media)) if row.state() != State::Ended => {
                let other_ns = media.release_ns(row.get(SessionField::Next));
                now_ns.wrapping_sub(own_ns.min(other_ns))
            }
            _ => now_ns.wrapping_sub(own_ns),
        };
        self.row.set(SessionField::PhaseNs, phase_ns);
        self.row.set(SessionField::RtcpReceivedNs, now_ns);
        // A report precedes the next frame: its RTP time may have another NTP time than before.
        self.row.set(SessionField::ReportNs, 0);
        self.row.set(SessionField::State, State::Playing as u64);
    }

    /// Returns a description of the damage in the row of an earlier dispatcher, if there is any.
    ///
    /// A release time beyond the clock's range would be due in an endless loop.
    pub(crate) fn damage(&self, now_ns: u64, store: &Store) -> Option<String> {
        let (row, next) = (self.row, self.row.get(SessionField::Next));
        let out_of_range = |name: &str, value: u64| Some(format!("{name} = {value}"));
        if next >= MAX_FRAMES || (self.next_ns() >= MAX_NS && self.ring().is_none()) {
            return out_of_range("frames released", next);
        }
        if row.state() != State::Playing {
            return None;
        }
        let Some(number) = self.ring() else {
            let phase_ns = row.get(SessionField::PhaseNs);
            let is_out = now_ns.wrapping_sub(phase_ns) >= MAX_NS;
            return if is_out { out_of_range("first release, ns", phase_ns) } else { None };
        };
        let offset = row.get(SessionField::Offset);
        let head = store.rings.get(number).map_or(0, FrameRing::head);
        let is_out = row.get(SessionField::From) == 0 && head.wrapping_sub(offset) >= MAX_FRAMES;
        if is_out { out_of_range("first live frame", offset) } else { None }
    }

    /// Continues from the row; frames queued in an earlier dispatcher are lost.
    pub(crate) fn take_over(&mut self, store: &Store) {
        let (row, next) = (self.row, self.row.get(SessionField::Next));
        row.add(SessionField::Lost, next.saturating_sub(row.resolved()));
        self.in_order_from = next;
        if self.ring().is_some() {
            return self.online.skip();
        }
        let frames = store.frames(&self.media);
        self.choice.resume(next, |number| importance(frames, number));
    }

    /// Resumes a client of an earlier dispatcher; frames due since then are lost.
    pub(crate) fn catch_up(&mut self, now_ns: u64, store: &Store) {
        if let Some(ring) = self.ring() {
            if let Some(ring) = store.rings.get(ring) {
                self.catch_up_live(ring);
            }
            return self.take_over(store);
        }
        let since_ns = now_ns.wrapping_sub(self.row.get(SessionField::PhaseNs));
        let mut next = self.media.released_by(since_ns).max(self.row.get(SessionField::Next));
        if self.media.repeat == 0 {
            next = next.min(self.media.frames);
        }
        self.row.set(SessionField::Next, next);
        self.take_over(store);
    }

    pub(crate) fn pause(&mut self) {
        self.row.set(SessionField::State, State::Paused as u64);
    }

    pub(crate) fn end(&mut self) {
        self.row.set(SessionField::State, State::Ended as u64);
    }

    /// Frees the slot and counts the waiting frames as discarded.
    ///
    /// These frames leave the queue later, when they reach its head.
    pub(crate) fn leave(&mut self) {
        self.row.add(
            SessionField::Discarded,
            self.row.get(SessionField::Next).wrapping_sub(self.row.resolved()),
        );
        self.taken = false;
        self.in_host.clear();
    }

    /// Returns the time of the next frame since the start of the file, ns.
    fn next_ns(&self) -> u64 {
        self.media.release_ns(self.row.get(SessionField::Next))
    }

    /// Returns the time of the next release or check, ns.
    pub(crate) fn next_release_ns(&self) -> u64 {
        self.waits_until_ns
            .unwrap_or_else(|| self.row.get(SessionField::PhaseNs).wrapping_add(self.next_ns()))
    }

    /// Sets the time of the next check, ns: at the file's end, or a live stream's next release.
    pub(crate) fn wait_until(&mut self, at_ns: u64) {
        self.waits_until_ns = Some(at_ns);
    }

    /// Returns whether a client that is at its file's end has finished at `at_ns`.
    ///
    /// The client has finished once every frame is counted and it has had time to read the last
    /// one.
    pub(crate) fn is_over(&self, at_ns: u64) -> bool {
        let next = self.row.get(SessionField::Next);
        let end_ns = self.row.get(SessionField::PhaseNs).wrapping_add(self.next_ns());
        self.row.resolved() >= next && at_ns >= end_ns.saturating_add(READING_NS)
    }

    /// Releases the next frame of a file at `at_ns`.
    ///
    /// Returns the frame and whether it is optional, or `None` at the file's end.
    pub(crate) fn release(&mut self, at_ns: u64, store: &Store) -> Option<(Descriptor, bool)> {
        let number = self.row.get(SessionField::Next);
        if self.media.repeat == 0 && number >= self.media.frames {
            return None;
        }
        let frames = store.frames(&self.media);
        let optional = self.choice.is_optional(number, |number| importance(frames, number));
        let record = at(frames, number);
        let descriptor = Descriptor {
            number,
            importance: record.importance,
            bytes: record.bytes,
            release_ns: at_ns,
            deadline_ns: at_ns.saturating_add(self.media.deadline_ns),
        };
        self.row.set(SessionField::Next, number + 1);
        Some((descriptor, optional))
    }

    /// Returns the record of a media file's frame.
    pub(crate) fn frame(&self, frame: &Descriptor, store: &Store) -> FrameRecord {
        *at(store.frames(&self.media), frame.number)
    }

    /// Returns the RTP timestamp of a frame.
    pub(crate) fn rtp_time(&self, frame: &Descriptor, record: &FrameRecord) -> u32 {
        let base = low_u32(self.row.get(SessionField::TimestampBase));
        if self.ring().is_some() {
            return base.wrapping_add(record.display);
        }
        let (display, round) = (u64::from(record.display), frame.number / self.media.frames);
        if self.is_audio() {
            let start_ns = self.media.round_ns.saturating_mul(round) + self.media.offset_ns;
            let start = ns_ticks(start_ns, self.media.clock_rate);
            return base.wrapping_add(start).wrapping_add(self.ticks(display));
        }
        base.wrapping_add(self.ticks(round * self.media.frames + display))
    }

    /// Returns an instant for a sender report at `now_ns`. A file's is now; a live stream's is that
    /// of the last chosen frame.
    pub(crate) fn instant(&self, now_ns: u64) -> ReportTime {
        match self.ring() {
            None => ReportTime { rtp_time: self.rtp_time_at(now_ns), at_ns: now_ns },
            Some(_) => self.live_instant,
        }
    }

    /// Returns the RTP timestamp of the instant `now_ns` of a client that plays a file.
    pub(crate) fn rtp_time_at(&self, now_ns: u64) -> u32 {
        let base = low_u32(self.row.get(SessionField::TimestampBase));
        let since_ns = now_ns.wrapping_sub(self.row.get(SessionField::PhaseNs));
        let (period_ns, rate) = (self.media.period_ns, self.media.clock_rate);
        let ticks = if self.is_audio() {
            ns_ticks(since_ns, rate)
        } else {
            // The period is rounded to whole nanoseconds; the frame rate is exact.
            self.ticks(since_ns / period_ns).wrapping_add(ns_ticks(since_ns % period_ns, rate))
        };
        base.wrapping_add(ticks)
    }

    /// Returns the duration of `frames` frames in ticks of the RTP clock, modulo 2^32.
    fn ticks(&self, frames: u64) -> u32 {
        rtp_ticks(frames, (self.media.rate_frames, self.media.rate_seconds), self.media.clock_rate)
    }

    /// Returns whether a frame is the first I-frame after a request for a key frame. Then it is not
    /// optional.
    pub(crate) fn answers_request(&mut self, frame: &Descriptor) -> bool {
        if frame.kind() != 0 {
            return false;
        }
        let wanted = self.row.get(SessionField::KeyFramesWanted);
        std::mem::replace(&mut self.key_frames_answered, wanted) != wanted
    }

    /// Returns whether the client's path admits a frame released at `at_ns`; drops the frame
    /// otherwise.
    pub(crate) fn path_admits(&mut self, frame: &Descriptor, optional: bool, at_ns: u64) -> bool {
        let rate_bps = self.row.get(SessionField::PathBps);
        let admitted = self.path.admits(rate_bps, frame.bytes, optional, at_ns);
        if !admitted {
            self.row.add(SessionField::Slow, 1);
            self.dropped(frame, SessionField::Full);
        }
        admitted
    }

    /// Returns whether the client's frames are audio.
    pub(crate) fn is_audio(&self) -> bool {
        self.media.audio != 0
    }

    /// Returns whether a later frame of the client has already been chosen.
    pub(crate) fn is_overtaken(&self, frame: &Descriptor) -> bool {
        frame.number < self.in_order_from
    }

    /// Reserves RTP sequence numbers for a chosen frame. Returns the first one.
    pub(crate) fn reserve(&mut self, frame: &Descriptor, record: &FrameRecord) -> u64 {
        self.in_order_from = frame.number + 1;
        let sequence = self.row.get(SessionField::Sequence);
        self.row.set(SessionField::Sequence, sequence.wrapping_add(record.packets.into()));
        sequence
    }

    /// Records that a frame was sent whole or handed to the host.
    pub(crate) fn sent(&mut self, frame: &Descriptor, record: &FrameRecord, now_ns: u64) {
        let row = self.row;
        if !self.taken {
            return;
        }
        row.add(SessionField::Packets, record.packets.into());
        // Counts payload octets only (RFC 3550, section 6.4.1).
        let headers = u64::from(record.packets) * RTP_HEADER as u64;
        row.add(SessionField::Octets, u64::from(record.bytes).saturating_sub(headers));
        if !self.is_interleaved() {
            self.count_sent(frame, now_ns);
        }
    }

    /// Counts a frame that was sent whole, and its lateness.
    fn count_sent(&self, frame: &Descriptor, now_ns: u64) {
        let row = self.row;
        row.add_at(SessionField::Sent, frame.kind(), 1);
        let took_ns = now_ns.saturating_sub(frame.release_ns);
        row.set(SessionField::WorstNs, row.get(SessionField::WorstNs).max(took_ns));
        let bucket = (64 - (took_ns / 1_000).leading_zeros()) as usize;
        row.add_at(SessionField::Lateness, bucket.min(LATENESS - 1), 1);
        row.add(SessionField::LatenessSumNs, took_ns);
    }

    /// Records a dropped frame under the counter `how` and as a loss of its block.
    pub(crate) fn dropped(&mut self, frame: &Descriptor, how: SessionField) {
        if !self.taken {
            return;
        }
        self.row.add_at(how, frame.kind(), 1);
        let of = u64::from(self.media.of);
        if of == 0 {
            return;
        }
        let block = frame.number / of;
        let parity = usize::from(block % 2 == 1);
        let entry = &mut self.losses[parity];
        if entry.0 != block {
            *entry = (block, 0);
        }
        entry.1 += 1;
        self.row.set_at(SessionField::Blocks, parity, block << 32 | entry.1);
        if entry.1 > u64::from(self.media.lost) {
            self.row.add(SessionField::Violations, 1);
        }
    }

    /// Counts a frame that an instruction filtered. It is no loss, because it need not be sent.
    pub(crate) fn filtered(&mut self, frame: &Descriptor) {
        self.row.add_at(SessionField::Filtered, frame.kind(), 1);
    }

    /// Returns a frame's position in its block of y frames, and the losses of the block so far.
    pub(crate) fn in_block(&self, number: u64) -> (u64, u64) {
        let of = u64::from(self.media.of.max(1));
        let (block, place) = (number / of, number % of);
        let (of_entry, lost) = self.losses[usize::from(block % 2 == 1)];
        (place, if of_entry == block { lost } else { 0 })
    }

    /// Returns whether the packets use the client's RTSP connection.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.row.is_interleaved()
    }

    /// Returns whether the host has the maximum number of frames of this client.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.in_host.is_full(self.media.queue as usize)
    }

    /// Records that a frame was handed to the host.
    pub(crate) fn forwarded(&mut self, frame: &Descriptor) {
        if self.taken {
            let stream_number = self.stream_number(frame);
            self.in_host.push(stream_number, *frame);
        }
    }

    /// Records the outcome of the oldest frame in the host: sent at `sent_ns`, or late if 0.
    pub(crate) fn record_outcome(&mut self, stream_number: u64, sent_ns: u64) {
        let Some(frame) = self.in_host.take(stream_number) else { return };
        if sent_ns > 0 {
            return self.count_sent(&frame, sent_ns);
        }
        self.row.add(SessionField::Slow, 1);
        self.dropped(&frame, SessionField::Late);
    }

    /// Returns the client's key in messages between host and data plane.
    ///
    /// The key is RTP source << 32 | session.
    pub(crate) fn host_key(&self) -> u64 {
        self.ssrc() << 32 | self.session as u64
    }

    /// Returns the client's RTP source (SSRC).
    pub(crate) fn ssrc(&self) -> u64 {
        self.row.get(SessionField::Ssrc)
    }

    /// Returns whether a sender report is due: before the first frame, and then at intervals.
    pub(crate) fn is_report_due(&self, now_ns: u64) -> bool {
        let reported_ns = self.row.get(SessionField::ReportNs);
        let due = reported_ns == 0 || now_ns.saturating_sub(reported_ns) >= REPORT_NS;
        self.taken && due
    }

    pub(crate) fn reported(&self, now_ns: u64) {
        self.row.set(SessionField::ReportNs, now_ns);
    }
}

/// Returns the time of the frame displayed at place `shown`, in ticks of an RTP clock of
/// `clock_rate` Hz, modulo 2^32. The rate is a number of frames and the seconds that they take.
fn rtp_ticks(shown: u64, (frames, seconds): (u32, u32), clock_rate: u32) -> u32 {
    let ticks = u128::from(shown) * u128::from(clock_rate) * u128::from(seconds);
    low_u32(u64::try_from(ticks / u128::from(frames) % (1 << 32)).unwrap_or(0))
}

/// Returns a time of `ns` in ticks of an RTP clock of `clock_rate` Hz, modulo 2^32.
fn ns_ticks(ns: u64, clock_rate: u32) -> u32 {
    let ticks = u128::from(ns) * u128::from(clock_rate) / 1_000_000_000;
    low_u32(u64::try_from(ticks % (1 << 32)).unwrap_or(0))
}

fn at(frames: &[FrameRecord], number: u64) -> &FrameRecord {
    &frames[usize::try_from(number % frames.len() as u64).unwrap_or(0)]
}

fn importance(frames: &[FrameRecord], number: u64) -> Importance {
    Importance::from_number(at(frames, number).importance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtp_times_follow_the_frame_rate_and_wrap() {
        assert_eq!(rtp_ticks(1, (25, 1), 90_000), 3_600);
        assert_eq!(rtp_ticks(1, (30_000, 1_001), 90_000), 3_003);
        assert_eq!(rtp_ticks(100_000, (30_000, 1_001), 90_000), 300_300_000);
        // A frame takes 1,501.5 ticks.
        assert_eq!(
            [1, 2, 3].map(|shown| rtp_ticks(shown, (60_000, 1_001), 90_000)),
            [1_501, 3_003, 4_504]
        );
        let day = 25 * 86_400;
        assert_eq!(u64::from(rtp_ticks(day, (25, 1), 90_000)), day * 3_600 % (1 << 32));
    }
}
