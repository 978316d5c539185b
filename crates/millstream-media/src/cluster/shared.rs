//! The state of a session that servers report to each other, sufficient for a takeover.
//!
//! It is a row of the shared memory region without the parts that are valid on one host only. Times
//! are ages, because the clocks of two hosts are unrelated.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

use crate::files::library::Library;
use crate::rtp::low_u32;
use crate::rtsp::LOWEST_PORT;
use crate::rtsp::session::SessionKey;
use crate::scheduler::client::Client;
use crate::shared_memory::region::{Row, SessionField, State};

/// Counters that a takeover carries over. The first [`RESOLVED`] count frames with a known
/// outcome.
const COUNTERS: [(SessionField, usize); 22] = [
    (SessionField::Sent, 0),
    (SessionField::Sent, 1),
    (SessionField::Sent, 2),
    (SessionField::Late, 0),
    (SessionField::Late, 1),
    (SessionField::Late, 2),
    (SessionField::Full, 0),
    (SessionField::Full, 1),
    (SessionField::Full, 2),
    (SessionField::Discarded, 0),
    (SessionField::Lost, 0),
    (SessionField::Filtered, 0),
    (SessionField::Filtered, 1),
    (SessionField::Filtered, 2),
    (SessionField::Unread, 0),
    (SessionField::Unread, 1),
    (SessionField::Unread, 2),
    (SessionField::Violations, 0),
    (SessionField::WorstNs, 0),
    (SessionField::Slow, 0),
    (SessionField::Packets, 0),
    (SessionField::Octets, 0),
];
const RESOLVED: usize = 17;

/// The most frames by which a session may lag behind its own clock.
const MAX_BEHIND: u64 = 10_000;

/// The reported state of a playing UDP session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakeoverState {
    pub(crate) id: u64,
    /// The number of servers that have taken it over.
    pub(crate) epoch: u64,
    pub(crate) title: u32,
    pub(crate) address: IpAddr,
    /// The client's RTP and RTCP ports.
    pub(crate) ports: (u16, u16),
    ssrc: u32,
    timestamp_base: u32,
    sequence_base: u32,
    counters: [u64; 22],
    next: u64,
    sequence: u64,
    /// The time since frame 0 was due, ns.
    since_ns: u64,
    /// The time since the client last sent something, ns.
    silent_ns: u64,
}

impl TakeoverState {
    /// Returns the state to report of a row; `None` unless it is a playing UDP session.
    pub(crate) fn of(row: Row, now_ns: u64) -> Option<Self> {
        let (rtp, rtcp) = row.destinations()?;
        let id = row.get(SessionField::Id);
        if id == 0 || row.state() != State::Playing {
            return None;
        }
        // Read before `Next`: the data plane counts a frame's outcome after its release.
        let counters = COUNTERS.map(|(word, at)| row.get_at(word, at));
        let next = row.get(SessionField::Next);
        let last_received_ns =
            row.get(SessionField::RtcpReceivedNs).max(row.get(SessionField::RtspReceivedNs));
        Some(Self {
            id,
            epoch: row.get(SessionField::Epoch),
            title: low_u32(row.get(SessionField::Media)),
            address: rtp.ip(),
            ports: (rtp.port(), rtcp.port()),
            ssrc: low_u32(row.get(SessionField::Ssrc)),
            timestamp_base: low_u32(row.get(SessionField::TimestampBase)),
            sequence_base: low_u32(row.get(SessionField::SequenceBase)),
            counters,
            next,
            sequence: row.get(SessionField::Sequence),
            since_ns: now_ns.saturating_sub(row.get(SessionField::PhaseNs)),
            silent_ns: now_ns.saturating_sub(last_received_ns),
        })
    }

    /// Returns what identifies the track among all servers.
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey { id: self.id, title: self.title }
    }

    /// Returns whether a server of `library` can take over this session.
    pub(crate) fn is_valid(&self, library: &Library) -> bool {
        let title = usize::try_from(self.title).unwrap_or(usize::MAX);
        let Some(media) = library.store.media().get(title) else { return false };
        let resolved =
            self.counters[..RESOLVED].iter().fold(0, |sum, n| u64::saturating_add(sum, *n));
        self.id != 0
            && media.live == 0
            && self.ports.0 >= LOWEST_PORT
            && self.ports.1 >= LOWEST_PORT
            && !self.address.is_unspecified()
            && !self.address.is_multicast()
            && self.next < 1 << 48
            && (media.repeat != 0 || self.next <= media.frames)
            && self.epoch < 1 << 48
            && resolved <= self.next
            && media.released_by(self.since_ns) <= self.next.saturating_add(MAX_BEHIND + 1)
    }

    /// Returns the time since frame 0 was due at the time of the report, ns.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Returns the time since the client last sent something, for a report of age `ago_ns`, ns.
    pub(crate) fn silent_ns(&self, ago_ns: u64) -> u64 {
        self.silent_ns.saturating_add(ago_ns)
    }

    /// Takes over the session in a free row; its report arrived at `reported_ns`. Frames due since
    /// then count as lost. Their RTP sequence numbers are skipped because the dead server may have
    /// used them.
    pub(crate) fn resume_in(
        &self,
        row: Row,
        number: usize,
        library: &Library,
        reported_ns: u64,
        now_ns: u64,
    ) {
        row.clear();
        let title = usize::try_from(self.title).unwrap_or(usize::MAX);
        row.set_address(self.address, self.ports.0, self.ports.1);
        for (word, value) in [
            (SessionField::Media, u64::from(self.title)),
            (SessionField::Ssrc, u64::from(self.ssrc)),
            (SessionField::TimestampBase, u64::from(self.timestamp_base)),
            (SessionField::SequenceBase, u64::from(self.sequence_base)),
            (SessionField::Epoch, self.epoch + 1),
            (SessionField::Next, self.next),
            (SessionField::PhaseNs, reported_ns.wrapping_sub(self.since_ns)),
            // A silent client gets the full idle timeout to send something.
            (SessionField::RtspReceivedNs, now_ns),
            (SessionField::RtcpReceivedNs, now_ns),
            (SessionField::ReportNs, 0),
        ] {
            row.set(word, value);
        }
        for ((word, at), value) in COUNTERS.into_iter().zip(self.counters) {
            row.add_at(word, at, value);
        }
        let store = &library.store;
        let media = store.media()[title];
        let waiting = self.next - row.resolved();
        Client::new(number, title, media, row).catch_up(now_ns, store);
        let frames = store.frames(&media);
        let packets = |number: u64| {
            let at = usize::try_from(number % frames.len() as u64).unwrap_or(0);
            u64::from(frames[at].packets)
        };
        let most = frames.iter().map(|frame| u64::from(frame.packets)).max().unwrap_or(0);
        let meanwhile: u64 = (self.next..row.get(SessionField::Next)).map(packets).sum();
        let used = meanwhile + waiting.saturating_mul(most);
        row.set(SessionField::Sequence, self.sequence.wrapping_add(used));
        row.set(SessionField::State, State::Playing as u64);
        row.set(SessionField::Id, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::resources;
    use crate::shared_memory::region::Region;

    const PERIOD_NS: u64 = 40_000_000;

    /// Returns a row at `now_ns` that has released 100 frames; 3 of them wait.
    fn played(now_ns: u64) -> Row {
        let row = Region::create(1).unwrap().0.session(0);
        row.set_address("10.1.2.3".parse().unwrap(), 5_000, 5_001);
        for (word, value) in [
            (SessionField::Id, 77),
            (SessionField::Ssrc, 5),
            (SessionField::SequenceBase, 1_000),
            (SessionField::Sequence, 480),
            (SessionField::Next, 100),
            (SessionField::PhaseNs, now_ns - 99 * PERIOD_NS),
            (SessionField::RtcpReceivedNs, now_ns - 5),
            (SessionField::State, State::Playing as u64),
            (SessionField::Lost, 2),
            (SessionField::Epoch, 4),
        ] {
            row.set(word, value);
        }
        row.add_at(SessionField::Sent, 2, 95);
        row
    }

    #[test]
    fn a_takeover_continues_at_the_current_frame() {
        let (library, _) = resources();
        // The clocks of two hosts.
        let (there_ns, here_ns) = (1_000_000_000_000, 7_000_000_000);
        let reported = TakeoverState::of(played(there_ns), there_ns).unwrap();
        assert!(reported.is_valid(library));
        assert_eq!((reported.silent_ns(10), reported.since_ns()), (15, 99 * PERIOD_NS));
        let row = Region::create(1).unwrap().0.session(0);
        reported.resume_in(row, 0, library, here_ns, here_ns + 25 * PERIOD_NS);
        assert_eq!(row.destinations().unwrap().0, "10.1.2.3:5000".parse().unwrap());
        assert_eq!(
            (row.get(SessionField::Id), row.get(SessionField::Ssrc), row.get(SessionField::Epoch)),
            (77, 5, 5)
        );
        assert_eq!(row.state(), State::Playing);
        // Frames 100 to 124 were due since and three waited: exactly these are lost.
        assert_eq!((row.get(SessionField::Next), row.get(SessionField::Lost)), (125, 2 + 25 + 3));
        assert_eq!(row.resolved(), 125);
        let frames = library.store.frames(&library.store.media()[0]);
        let packets = |range: std::ops::Range<usize>| -> u64 {
            frames[range].iter().map(|frame| u64::from(frame.packets)).sum()
        };
        let used = row.get(SessionField::Sequence) - 480;
        assert!(used >= packets(97..125), "{used}");
        assert!(used < packets(100..125) + 3 * 100, "{used}");
    }

    #[test]
    fn unsound_sessions_are_rejected() {
        let (library, _) = resources();
        let sound = TakeoverState::of(played(1 << 50), 1 << 50).unwrap();
        let change = |what: &dyn Fn(&mut TakeoverState)| {
            let mut changed = sound.clone();
            what(&mut changed);
            changed.is_valid(library)
        };
        assert!(change(&|_| {}));
        assert!(!change(&|reported| reported.id = 0));
        assert!(!change(&|reported| reported.title = 1));
        assert!(!change(&|reported| reported.ports.0 = 53));
        assert!(!change(&|reported| reported.address = "224.0.0.1".parse().unwrap()));
        assert!(!change(&|reported| reported.next = u64::MAX));
        assert!(!change(&|reported| reported.counters[0] = u64::MAX));
        assert!(!change(&|reported| reported.counters[0] = 4));
        assert!(!change(&|reported| reported.since_ns = u64::MAX));
        let row = played(1 << 50);
        row.set(SessionField::State, State::Paused as u64);
        assert_eq!(TakeoverState::of(row, 1 << 50), None);
        row.set(SessionField::State, State::Playing as u64);
        row.set(SessionField::Ports, 0);
        assert_eq!(TakeoverState::of(row, 1 << 50), None);
    }

    proptest::proptest! {
        #[test]
        fn every_sound_report_can_be_taken_over(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            id in 1u64.., since_ns: u64, next: u64, counters: [u64; 22], sequence: u64,
        ) {
            let (library, _) = resources();
            let _ = postcard::from_bytes::<TakeoverState>(&bytes);
            let mut reported = TakeoverState::of(played(1 << 50), 1 << 50).unwrap();
            (reported.id, reported.sequence) = (id, sequence);
            reported.counters = counters.map(|n| n % 3);
            reported.next = next % (1 << 20);
            reported.since_ns = since_ns % (1 << 45);
            if reported.is_valid(library) {
                let row = Region::create(1).unwrap().0.session(0);
                reported.resume_in(row, 0, library, 0, 60_000_000_000);
                proptest::prop_assert_eq!(row.get(SessionField::Next), row.resolved());
            }
        }
    }
}
