//! Tests of the dispatcher on a simulated clock: sent frames, lost frames and their counters.

mod audio;
mod interleaved;
mod live;
mod media_files;
mod path;

use millstream::selector::Selector;
use millstream::{Discipline, Dwcs, EdfFirst, Heap};

use super::*;
use crate::scheduler::admission::Admission;
use crate::scheduler::demand::{Demand, FrameDemand};
use crate::shared_memory::importance::Importance::{self, B, I, P};
use crate::shared_memory::region::{Row, State};
use crate::shared_memory::store::MediaRecord;
use crate::shared_memory::store::tests::{media, store};

/// A packet sender that records time, session, frame and packet of what it gets.
#[derive(Default)]
struct Record {
    now_ns: u64,
    frames: Vec<(u64, usize, u64)>,
    packets: Vec<(u64, usize, u64, usize)>,
    byes: usize,
}

impl PacketSender for Record {
    fn packets(&mut self, of: &Sending<'_>, first: usize, packets: usize) -> bool {
        if first == 0 {
            self.frames.push((self.now_ns, of.client.session, of.frame.number));
        }
        for packet in first..first + packets {
            self.packets.push((self.now_ns, of.client.session, of.frame.number, packet));
        }
        true
    }

    fn report(&mut self, _: &Client, _: ReportTime, bye: bool) {
        self.byes += usize::from(bye);
    }
}

type DwcsOnHeap = Selector<Dwcs<EdfFirst>, Heap<<Dwcs<EdfFirst> as Discipline>::Rank>>;

/// Passes every frame.
#[derive(Debug)]
struct NoFilter;

impl FrameFilter for NoFilter {
    fn update(&mut self, _region: Region) {}

    fn filters(&self, _stream: usize) -> bool {
        false
    }

    fn verdict_on(&mut self, _stream: usize, _frame: &FrameView) -> Verdict {
        Verdict::Pass
    }
}

fn selector() -> DwcsOnHeap {
    Selector::new(Dwcs::default(), Heap::default())
}

struct TestBed {
    dispatch: Dispatch<DwcsOnHeap, NoFilter>,
    region: Region,
    record: Record,
    now_ns: u64,
}

const T: u64 = 40_000_000;
const FILE_FRAMES: [(Importance, u32); 6] = [(I, 4), (B, 1), (B, 1), (P, 2), (B, 1), (B, 1)];

impl TestBed {
    /// Creates a bench with a media file of 10 packets of 112 bytes in 6 frames, at `rate_bps`.
    fn new(media: MediaRecord, rate_bps: u64, clients: u32) -> Self {
        Self::of(&FILE_FRAMES, media, rate_bps, clients)
    }

    fn of(
        media_file: &[(Importance, u32)],
        media: MediaRecord,
        rate_bps: u64,
        clients: u32,
    ) -> Self {
        let (region, _) = Region::create(clients).unwrap();
        region.set(GlobalField::LinkRate, rate_bps);
        let dispatch = Dispatch::new(store(media, media_file), region, selector(), NoFilter, 0);
        Self { dispatch, region, record: Record::default(), now_ns: 0 }
    }

    fn want(&self, session: usize, want: RequestedState) {
        let row = self.region.session(session);
        row.set_address("127.0.0.1".parse().unwrap(), 5000, 5001);
        row.set(SessionField::RequestedState, want as u64);
        assert!(self.region.notices().push([session as u64, 0, 0, 0]));
    }

    fn until(&mut self, end_ns: u64) {
        while self.now_ns < end_ns {
            self.record.now_ns = self.now_ns;
            let next_ns = self.dispatch.step(self.now_ns, &mut self.record);
            assert!(next_ns > self.now_ns);
            self.now_ns = next_ns.min(end_ns);
        }
    }

    fn row(&self, session: usize) -> Row {
        self.region.session(session)
    }

    fn counts(&self, session: usize, word: SessionField) -> [u64; 3] {
        [0, 1, 2].map(|kind| self.row(session).get_at(word, kind))
    }

    fn check_conservation(&self, sessions: usize) {
        let rows = || (0..sessions).map(|session| self.row(session));
        let released: u64 = rows().map(|row| row.get(SessionField::Next)).sum();
        let resolved: u64 = rows().map(|row| row.resolved()).sum();
        assert_eq!(released - resolved, self.dispatch.unresolved() as u64);
    }
}

/// The rate of the media file, bits/s: 10 packets of 112 bytes in 6 T (240 ms), 37,333 bits/s.
const FILE_BPS: u64 = 10 * 112 * 8 * 1_000_000_000 / (6 * T) + 1;

#[test]
fn without_overload_every_frame_is_sent_in_its_period_and_paced() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    bench.want(0, RequestedState::Play);
    bench.until(60 * T);
    assert_eq!(bench.counts(0, SessionField::Sent), [10, 10, 40]);
    for (number, (time_ns, _, frame)) in (0..).zip(&bench.record.frames) {
        assert_eq!((*frame, *time_ns), (number, number * T));
    }
    let packet_ns = 112 * 8 * 1_000_000_000 / (10 * FILE_BPS);
    let first: Vec<u64> = bench.record.packets[..4].iter().map(|packet| packet.0).collect();
    for (number, time_ns) in (0..).zip(first) {
        assert!(time_ns.abs_diff(number * packet_ns) <= AHEAD_NS, "packet {number} at {time_ns}");
    }
    bench.check_conservation(1);
}

#[test]
fn a_damaged_row_ends_its_session_and_no_other() {
    let far =
        [(SessionField::Next, u64::MAX), (SessionField::Next, 1 << 47), (SessionField::PhaseNs, 5)];
    for (word, value) in far {
        let mut bench = TestBed::new(media(T, 1, 6), 100 * FILE_BPS, 2);
        let row = bench.row(0);
        row.set(SessionField::State, State::Playing as u64);
        row.set(word, value);
        bench.want(0, RequestedState::Play);
        bench.want(1, RequestedState::Play);
        bench.until(12 * T);
        assert_eq!(row.state(), State::Ended, "{word:?} = {value}");
        assert_eq!(bench.counts(1, SessionField::Sent), [2, 2, 8], "{word:?} = {value}");
        // The host can stop the session like any other.
        bench.want(0, RequestedState::Stop);
        bench.until(13 * T);
        assert_eq!(row.state(), State::Stopped, "{word:?} = {value}");
    }
}

#[test]
fn under_overload_only_b_frames_are_lost_and_never_more_than_the_contract_allows() {
    // Two of six frames are optional: B-frames. The mandatory 8 packets of 3 clients fit the link;
    // the other packets do not.
    for (rate, lost) in [(27, true), (31, false)] {
        let mut bench = TestBed::new(media(T, 2, 6), rate * FILE_BPS / 10, 3);
        for session in 0..3 {
            bench.want(session, RequestedState::Play);
            bench.until((session as u64 + 1) * 7_000_000);
        }
        bench.until(600 * T);
        for session in 0..3 {
            let (late, row) = (bench.counts(session, SessionField::Late), bench.row(session));
            assert_eq!(late[..2], [0, 0], "session {session}");
            assert_eq!(row.get(SessionField::Violations), 0);
            assert_eq!(late[2] > 0, lost, "session {session}: {late:?}");
            assert!(late[2] <= 200);
        }
        bench.check_conservation(3);
        // All packets of a frame are sent, in order.
        let mut packets = bench.record.packets.iter();
        for (_, session, frame) in &bench.record.frames {
            let of_frame = FILE_FRAMES[usize::try_from(frame % 6).unwrap()].1 as usize;
            for packet in 0..of_frame.min(packets.len()) {
                let (_, of, number, at) = packets.next().unwrap();
                assert_eq!((of, number, *at), (session, frame, packet));
            }
        }
        // The frames of a client are sent in order.
        for session in 0..3 {
            let of = bench.record.frames.iter().filter(|frame| frame.1 == session);
            let numbers: Vec<u64> = of.map(|frame| frame.2).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b));
        }
    }
}

/// Returns the numbers of a client's frames past their deadline that were not sent.
fn missing(bench: &TestBed, session: usize) -> Vec<u64> {
    let of_client = |frame: &&(u64, usize, u64)| frame.1 == session;
    let sent: std::collections::HashSet<u64> =
        bench.record.frames.iter().filter(of_client).map(|frame| frame.2).collect();
    // A frame is sent or dropped by its deadline.
    let settled = bench.row(session).get(SessionField::Next).saturating_sub(6);
    (0..settled).filter(|number| !sent.contains(number)).collect()
}

/// The missing frames of a block are among its x least important; of equals, the later ones.
///
/// All x are missing if the mandatory frames take all of the link's time.
#[test]
fn under_overload_exactly_the_frames_that_the_contract_allows_are_missing() {
    // The rate for a number of packets per round of 6 T. By window, each of 3 clients has 10 - x or
    // fewer mandatory packets.
    let packets_bps = |packets: u64| packets * 112 * 8 * 1_000_000_000 / (6 * T);
    let with_reference = [I, B, B, P, Importance::ReferencedB, B];
    for (window, importance, optional, mandatory) in [
        ((2, 6), FILE_FRAMES.map(|frame| frame.0), vec![4, 5], 24),
        ((2, 6), with_reference, vec![2, 5], 24),
        ((4, 6), FILE_FRAMES.map(|frame| frame.0), vec![1, 2, 4, 5], 18),
        ((5, 6), FILE_FRAMES.map(|frame| frame.0), vec![1, 2, 3, 4, 5], 12),
    ] {
        let media_file = [0, 1, 2, 3, 4, 5].map(|at| (importance[at], FILE_FRAMES[at].1));
        for (packets, expected) in [(mandatory, "all"), (27, "some"), (36, "none")] {
            let mut bench =
                TestBed::of(&media_file, media(T, window.0, window.1), packets_bps(packets), 3);
            for session in 0..3 {
                bench.want(session, RequestedState::Play);
            }
            bench.until(600 * T);
            let mut total = 0;
            for session in 0..3 {
                let missing = missing(&bench, session);
                total += missing.len();
                let case =
                    format!("{window:?}, {packets} packets a round, client {session}: {missing:?}");
                assert_eq!(bench.row(session).get(SessionField::Violations), 0, "{case}");
                assert!(missing.iter().all(|number| optional.contains(&(number % 6))), "{case}");
                // No I- or P-frame is missing while enough B-frames are optional.
                let kinds = [0, 1].map(|kind| bench.counts(session, SessionField::Late)[kind]);
                assert!(kinds == [0, 0] || window.0 > 4, "{case}");
                if expected == "all" {
                    let settled = bench.row(session).get(SessionField::Next) - 6;
                    let all = (0..settled).filter(|number| optional.contains(&(number % 6)));
                    assert!(missing.iter().copied().eq(all), "{case}");
                }
            }
            assert_eq!(total == 0, expected == "none", "{window:?}, {packets}: {total} missing");
        }
    }
}

#[test]
fn clients_share_the_link_time_left_for_optional_frames() {
    let mut bench = TestBed::new(media(T, 2, 6), 36 * FILE_BPS / 10, 4);
    for session in 0..4 {
        bench.want(session, RequestedState::Play);
    }
    bench.until(3_000 * T);
    let late: Vec<u64> =
        (0..4).map(|session| bench.counts(session, SessionField::Late)[2]).collect();
    let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
    assert!(*least > 0 && most - least <= most / 4, "{late:?}");
}

/// Returns the optional losses of three clients with equal contracts and these start times, ms.
fn losses(tenths: u64, deadline: u64, phases: [u64; 3]) -> [u64; 3] {
    let record = MediaRecord { deadline_ns: deadline * T, ..media(T, 2, 6) };
    let mut bench = TestBed::new(record, tenths * FILE_BPS / 10, 3);
    for (session, phase) in phases.into_iter().enumerate() {
        bench.until(phase * 1_000_000 + 1);
        bench.want(session, RequestedState::Play);
    }
    bench.until(3_000 * T);
    assert!((0..3).all(|session| bench.row(session).get(SessionField::Violations) == 0));
    bench.check_conservation(3);
    [0, 1, 2].map(|session| bench.counts(session, SessionField::Late)[2])
}

/// Earliest deadline first alone gives all losses to the last client at 2.9 × the rate: 0, 0, 498.
#[test]
fn clients_with_different_start_times_share_optional_losses() {
    for phases in [[0, 0, 0], [0, 3, 7], [0, 13, 26], [0, 1, 20], [0, 5, 5]] {
        for deadline in [3, 5] {
            assert_eq!(losses(25, deadline, phases), [831, 831, 832], "{phases:?}");
            assert_eq!(losses(27, deadline, phases), [498, 499, 499], "{phases:?}");
            assert_eq!(losses(29, deadline, phases), [166, 166, 166], "{phases:?}");
        }
    }
    // With a deadline of one period, two optional frames rarely wait at once: there is no choice.
    assert_eq!(losses(29, 1, [0, 0, 0]), [0, 500, 0]);
}

#[test]
fn mandatory_overload_is_counted_as_violations() {
    let mut bench = TestBed::new(media(T, 1, 6), FILE_BPS, 3);
    for session in 0..3 {
        bench.want(session, RequestedState::Play);
    }
    bench.until(300 * T);
    let violations: u64 = (0..3).map(|s| bench.row(s).get(SessionField::Violations)).sum();
    assert!(violations > 0);
    bench.check_conservation(3);
}

#[test]
fn a_file_without_repeat_ends_with_a_goodbye_after_its_last_frame() {
    let once = MediaRecord { repeat: 0, ..media(T, 1, 6) };
    let mut bench = TestBed::new(once, 10 * FILE_BPS, 1);
    bench.want(0, RequestedState::Play);
    bench.until(20 * T);
    assert_eq!(bench.row(0).state(), State::Ended);
    assert_eq!((bench.record.frames.len(), bench.record.byes), (6, 1));
    bench.want(0, RequestedState::Stop);
    bench.until(21 * T);
    assert_eq!((bench.row(0).state(), bench.record.byes), (State::Stopped, 1));
}

#[test]
fn a_paused_client_resumes_at_its_position() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    bench.want(0, RequestedState::Play);
    bench.until(3 * T + T / 2);
    bench.want(0, RequestedState::Pause);
    bench.until(10 * T);
    assert_eq!(bench.record.frames.len(), 4);
    bench.want(0, RequestedState::Play);
    bench.until(11 * T + T / 2);
    let frames: Vec<u64> = bench.record.frames.iter().map(|frame| frame.2).collect();
    assert_eq!(frames, [0, 1, 2, 3, 4, 5]);
    bench.check_conservation(1);
}

#[test]
fn a_row_can_be_reused_and_its_waiting_frames_are_discarded() {
    let mut bench = TestBed::new(media(T, 1, 6), FILE_BPS / 2, 1);
    bench.want(0, RequestedState::Play);
    bench.until(9 * T + T / 2);
    assert!(bench.dispatch.unresolved() > 0);
    bench.want(0, RequestedState::Stop);
    bench.until(10 * T);
    let row = bench.row(0);
    assert_eq!((row.state(), row.resolved()), (State::Stopped, row.get(SessionField::Next)));
    assert!(row.get(SessionField::Discarded) > 0);
    row.clear();
    bench.want(0, RequestedState::Play);
    bench.until(40 * T);
    assert!(bench.row(0).get_at(SessionField::Sent, 0) > 0);
    bench.check_conservation(1);
}

#[test]
fn a_new_data_plane_resumes_the_clients_of_a_dead_one() {
    let mut bench = TestBed::new(media(T, 1, 6), FILE_BPS * 3 / 2, 2);
    bench.want(0, RequestedState::Play);
    bench.want(1, RequestedState::Play);
    bench.until(20 * T + T / 2);
    let numbers = bench.row(0).get(SessionField::Sequence);
    let later_ns = 25 * T + T / 2;
    bench.dispatch = Dispatch::new(
        store(media(T, 1, 6), &FILE_FRAMES),
        bench.region,
        selector(),
        NoFilter,
        later_ns,
    );
    bench.now_ns = later_ns;
    bench.record = Record::default();
    bench.until(30 * T + T / 2);
    for session in 0..2 {
        assert!(bench.row(session).get(SessionField::Lost) >= 5, "frames 21 to 25 at least");
    }
    assert!(bench.record.frames.iter().all(|frame| frame.2 >= 26), "{:?}", bench.record.frames);
    assert!(bench.row(0).get(SessionField::Sequence) > numbers);
    bench.check_conservation(2);
}

#[test]
fn frames_queued_in_a_dead_data_plane_are_lost_after_pause_or_stop() {
    for want in [RequestedState::Pause, RequestedState::Stop] {
        let mut bench = TestBed::new(media(T, 1, 6), FILE_BPS / 2, 1);
        bench.want(0, RequestedState::Play);
        bench.until(9 * T + T / 2);
        assert!(bench.dispatch.unresolved() > 0);
        let (region, now_ns) = (bench.region, bench.now_ns);
        bench.want(0, want);
        bench.dispatch = Dispatch::new(
            store(media(T, 1, 6), &FILE_FRAMES),
            region,
            selector(),
            NoFilter,
            now_ns,
        );
        bench.until(10 * T);
        let row = bench.row(0);
        assert_eq!(row.resolved(), row.get(SessionField::Next), "{want:?}");
        assert!(row.get(SessionField::Lost) > 0);
    }
}

#[test]
fn a_dispatcher_that_was_stopped_drops_late_frames() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    bench.want(0, RequestedState::Play);
    bench.until(T / 2);
    bench.now_ns = 10 * T + T / 2;
    bench.until(20 * T + T / 2);
    let late: u64 = bench.counts(0, SessionField::Late).iter().sum();
    let full: u64 = bench.counts(0, SessionField::Full).iter().sum();
    assert!(late + full >= 4, "{late} late, {full} full");
    assert!(bench.row(0).get(SessionField::Violations) > 0);
    bench.check_conservation(1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]

    #[test]
    fn an_admitted_client_loses_no_mandatory_frame(
        tenths in 12u64..90, deadline in 1u64..5, window in 0u32..4,
        starts in proptest::collection::vec(0u64..3 * T, 12),
    ) {
        let rate_bps = tenths * FILE_BPS / 10;
        let record = MediaRecord { deadline_ns: deadline * T, ..media(T, window, 6) };
        let link = Link::of(millstream::Link::new(rate_bps, 0));
        let media_file = FILE_FRAMES.map(|(importance, packets)| FrameDemand {
            work_ns: u64::from(packets) * link.transmission_ns(112),
            importance,
        });
        let demand = Demand::new(&media_file, (window, 6), true, T, record.deadline_ns);
        let admitted = Admission::new(rate_bps).room(&[&demand], 0, starts.len() as u64);
        let admitted = usize::try_from(admitted).unwrap();
        let mut bench = TestBed::new(record, rate_bps, u32::try_from(starts.len()).unwrap());
        let mut order: Vec<usize> = (0..admitted).collect();
        order.sort_by_key(|session| starts[*session]);
        for session in order {
            bench.until(starts[session]);
            bench.want(session, RequestedState::Play);
        }
        bench.until(100 * T);
        for session in 0..admitted {
            let (sent, row) = (bench.counts(session, SessionField::Sent), bench.row(session));
            proptest::prop_assert!(sent[0] > 0);
            proptest::prop_assert_eq!(row.get(SessionField::Violations), 0, "{} of {} \
             clients", session, admitted);
        }
    }
}
