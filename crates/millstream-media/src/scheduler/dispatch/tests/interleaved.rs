//! Interleaved and WebRTC clients: the dispatcher counts the outcomes that the host reports.

use super::*;

/// Starts a client without UDP ports: its packets use its RTSP connection.
fn play(bench: &TestBed, session: usize) {
    bench.row(session).set(SessionField::Ssrc, 7);
    bench.row(session).set(SessionField::RequestedState, RequestedState::Play as u64);
    assert!(bench.region.notices().push([session as u64, 0, 0, 0]));
}

/// Reports the outcome of a frame as the host does.
fn report_outcome(bench: &TestBed, session: usize, frame: u64, sent_ns: u64) {
    assert!(bench.region.outcomes().push([7 << 32 | session as u64, frame, sent_ns, 0]));
}

fn all(bench: &TestBed, word: SessionField) -> u64 {
    bench.counts(0, word).iter().sum()
}

#[test]
fn a_frame_counts_as_sent_or_late_when_the_host_reports_it() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    play(&bench, 0);
    bench.until(6 * T);
    assert_eq!((bench.record.frames.len(), bench.row(0).resolved()), (6, 0));
    report_outcome(&bench, 0, 0, 3_000_000);
    report_outcome(&bench, 0, 1, 0);
    report_outcome(&bench, 0, 2, 0);
    // Ignored: a frame out of order, and a frame of an earlier client of the row.
    report_outcome(&bench, 0, 5, 0);
    assert!(bench.region.outcomes().push([8 << 32, 3, 0, 0]));
    bench.until(6 * T + 1);
    assert_eq!(bench.counts(0, SessionField::Sent), [1, 0, 0]);
    assert_eq!(bench.counts(0, SessionField::Late), [0, 0, 2]);
    // The contract allows one loss of six.
    let row = bench.row(0);
    assert_eq!((row.get(SessionField::Slow), row.get(SessionField::Violations)), (2, 1));
    assert_eq!(row.get(SessionField::WorstNs), 3_000_000);
    for frame in 3..6 {
        report_outcome(&bench, 0, frame, 7 * T);
    }
    bench.until(6 * T + 2);
    assert_eq!((all(&bench, SessionField::Sent), row.resolved()), (4, 6));
}

#[test]
fn a_frame_counts_when_the_media_thread_reports_it() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    play(&bench, 0);
    bench.until(2 * T);
    assert!(bench.region.webrtc_outcomes().push([7 << 32, 0, 3_000_000, 0]));
    assert!(bench.region.webrtc_outcomes().push([7 << 32, 1, 0, 0]));
    bench.until(2 * T + 1);
    assert_eq!([SessionField::Sent, SessionField::Late].map(|of| all(&bench, of)), [1, 1]);
}

#[test]
fn the_number_of_frames_in_the_host_is_bounded() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    play(&bench, 0);
    bench.until(100 * T);
    let row = bench.row(0);
    assert_eq!(bench.record.frames.len(), 64);
    assert_eq!((all(&bench, SessionField::Full), row.get(SessionField::Slow)), (36, 36));
    // Frames that were not handed to the host take no RTP numbers. A round has ten packets in six
    // frames.
    assert_eq!(row.get(SessionField::Sequence), 10 * 10 + 4 + 1 + 1 + 2);
    for frame in 0..64 {
        report_outcome(&bench, 0, frame, 0);
    }
    bench.until(101 * T);
    assert_eq!((all(&bench, SessionField::Late), bench.record.frames.len()), (64, 65));
    bench.want_stop();
    assert_eq!(
        (row.resolved(), row.get(SessionField::Discarded)),
        (row.get(SessionField::Next), 1)
    );
    // Later outcomes belong to no session and are ignored.
    report_outcome(&bench, 0, 100, 0);
    bench.until(103 * T);
    assert_eq!(row.resolved(), row.get(SessionField::Next));
}

#[test]
fn frames_in_the_host_are_lost_once_when_the_data_plane_dies() {
    let mut bench = TestBed::new(media(T, 1, 6), 10 * FILE_BPS, 1);
    play(&bench, 0);
    bench.until(4 * T);
    report_outcome(&bench, 0, 0, T);
    bench.until(4 * T + 1);
    let (region, now_ns) = (bench.region, bench.now_ns);
    bench.dispatch =
        Dispatch::new(store(media(T, 1, 6), &FILE_FRAMES), region, selector(), NoFilter, now_ns);
    // The host does not know about the new dispatcher yet.
    report_outcome(&bench, 0, 1, 2 * T);
    bench.until(6 * T);
    assert_eq!((all(&bench, SessionField::Sent), bench.row(0).get(SessionField::Lost)), (1, 4));
    report_outcome(&bench, 0, 5, 6 * T);
    bench.until(6 * T + 1);
    assert_eq!((all(&bench, SessionField::Sent), bench.row(0).resolved()), (2, 6));
}

impl TestBed {
    fn want_stop(&mut self) {
        self.row(0).set(SessionField::RequestedState, RequestedState::Stop as u64);
        assert!(self.region.notices().push([0; 4]));
        self.until(self.now_ns + T);
    }
}
