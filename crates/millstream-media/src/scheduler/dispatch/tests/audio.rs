//! Clients with audio and video on the simulated clock: one clock for both, and audio first.

use super::*;
use crate::shared_memory::store::StoreBuilder;
use crate::shared_memory::store::tests::media;

const MS: u64 = 1_000_000;

/// The clock rate of audio, Hz, and the samples of a frame of 25 ms.
const AUDIO_RATE: (u32, u32) = (8_000, 200);

/// Returns the record of audio: frames of `period_ms` that begin 10 ms after the video.
fn audio(period_ms: u64) -> MediaRecord {
    MediaRecord {
        offset_ns: 10 * MS,
        round_ns: 6 * T,
        clock_rate: AUDIO_RATE.0,
        audio: 1,
        rate_frames: AUDIO_RATE.0,
        rate_seconds: AUDIO_RATE.1,
        deadline_ns: 5 * T,
        ..media(period_ms * MS, 0, 1)
    }
}

fn audio_store(video: MediaRecord, audio: MediaRecord, packets: u32) -> Store {
    let mut builder = StoreBuilder::default();
    builder.add_plain(video, &FILE_FRAMES);
    let frames = usize::try_from(audio.round_ns / audio.period_ns).unwrap();
    builder.add_plain(audio, &vec![(I, packets); frames]);
    Store::open(&builder.seal().unwrap()).unwrap()
}

/// Creates a bench of `clients` clients; rows with even numbers are video, the next ones audio.
fn bench(clients: u32, store: Store, rate_bps: u64) -> TestBed {
    let (region, _) = Region::create(2 * clients).unwrap();
    region.set(GlobalField::LinkRate, rate_bps);
    for row in 0..u64::from(2 * clients) {
        let session = region.session(usize::try_from(row).unwrap());
        session.set(SessionField::Media, row % 2);
        session.set(SessionField::Id, 1 + row / 2);
        session.set(SessionField::OtherTrack, (row ^ 1) + 1);
    }
    let dispatch = Dispatch::new(store, region, selector(), NoFilter, 0);
    TestBed { dispatch, region, record: Record::default(), now_ns: 0 }
}

impl TestBed {
    /// Requests a state of both tracks, of row `first` first.
    fn want_both(&self, first: usize, want: RequestedState) {
        self.want(first, want);
        self.want(first ^ 1, want);
    }

    /// Asserts that every frame of rows 0 and 1 from `from_ns` on is sent within a millisecond of
    /// its time in the file, which begins at `start_ns`.
    fn assert_in_time(&self, from_ns: u64, start_ns: u64) {
        let frames = self.record.frames.iter().filter(|frame| frame.0 >= from_ns);
        for (at_ns, session, number) in frames {
            let due_ns = match session {
                0 => number * T,
                _ => number / 9 * 6 * T + 10 * MS + number % 9 * 25 * MS,
            };
            let late_ns = at_ns.abs_diff(start_ns + due_ns);
            assert!(late_ns <= MS, "frame {number} of {session}: {late_ns} ns");
        }
    }
}

#[test]
fn both_tracks_share_a_clock_over_repeats_and_pauses() {
    for first in [0, 1] {
        let store = audio_store(media(T, 1, 6), audio(25), 1);
        let mut bench = bench(1, store, 1_000 * FILE_BPS);
        bench.want_both(first, RequestedState::Play);
        bench.until(305 * MS);
        bench.assert_in_time(0, 0);
        bench.want_both(first, RequestedState::Pause);
        bench.until(500 * MS);
        // Frames 0 to 7 and 0 to 11; the next ones are due at 320 and 325 ms.
        let next = |bench: &TestBed| [0, 1].map(|row| bench.row(row).get(SessionField::Next));
        assert_eq!(next(&bench), [8, 12]);
        bench.want_both(first, RequestedState::Play);
        bench.until(2_000 * MS);
        bench.assert_in_time(500 * MS, 180 * MS);
        assert_eq!(next(&bench), [46, 69]);
        bench.check_conservation(2);
    }
}

#[test]
fn rtp_times_of_both_tracks_are_those_of_one_instant() {
    let store = audio_store(media(T, 1, 6), audio(25), 1);
    let mut bench = bench(1, store, 1_000 * FILE_BPS);
    for (row, base) in [(0, u64::from(u32::MAX)), (1, 5)] {
        bench.row(row).set(SessionField::TimestampBase, base);
    }
    bench.want_both(0, RequestedState::Play);
    bench.until(3_000 * MS);
    let clients: Vec<&Client> = bench.dispatch.clients().collect();
    let frame_time = |client: &Client, number| {
        let frame = Descriptor::numbered(number);
        client.rtp_time(&frame, &client.frame(&frame, &bench.dispatch.store))
    };
    // Frame 10 of the audio is the second one of the second round: 240 + 10 + 25 ms.
    assert_eq!(frame_time(clients[1], 10), 5 + 275 * 8);
    assert_eq!(clients[1].rtp_time_at(275 * MS), 5 + 275 * 8);
    assert_eq!(frame_time(clients[0], 60), (60 * 3_600) - 1);
    assert_eq!(clients[0].rtp_time_at(60 * T + 5 * MS), (60 * 3_600 + 450) - 1);
}

#[test]
fn audio_is_sent_before_video_that_waits() {
    // The audio leaves less than two thirds of the link that the video needs.
    let store = audio_store(media(T, 0, 1), audio(25), 1);
    let rate_bps = 16 * FILE_BPS / 10;
    let mut bench = bench(1, store, rate_bps);
    bench.want_both(0, RequestedState::Play);
    bench.until(100 * T);
    let unsent = bench.row(1).get(SessionField::Next) - bench.counts(1, SessionField::Sent)[0];
    assert!(unsent <= 3, "{unsent}");
    assert!(bench.counts(0, SessionField::Late).iter().sum::<u64>() > 20);
    // Each waits for at most the video frame in transmission, of 4 packets.
    let packet_ns = 112 * 8 * 1_000_000_000 / rate_bps;
    assert!(bench.row(1).get(SessionField::WorstNs) < 6 * packet_ns);
    assert_eq!(bench.row(1).get(SessionField::Violations), 0);
}

#[test]
fn a_track_whose_partner_has_ended_plays_on() {
    let video = MediaRecord { repeat: 0, ..media(T, 0, 1) };
    let audio = MediaRecord { repeat: 0, offset_ns: 20 * T, ..audio(25) };
    let mut bench = bench(1, audio_store(video, audio, 1), 1_000 * FILE_BPS);
    bench.want_both(0, RequestedState::Play);
    bench.until(20 * T);
    let ended = |bench: &TestBed| [0, 1].map(|row| bench.row(row).state() == State::Ended);
    assert_eq!(ended(&bench), [true, false]);
    bench.until(60 * T);
    assert_eq!((ended(&bench), bench.record.byes), ([true; 2], 2));
    assert_eq!(bench.counts(1, SessionField::Sent), [9, 0, 0]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]

    #[test]
    fn an_admitted_client_loses_no_mandatory_frame_and_no_audio(
        tenths in 12u64..90, deadline in 1u64..5, window in 0u32..4,
        period_ms in 4u64..60, packets in 1u32..4,
        starts in proptest::collection::vec(0u64..3 * T, 6),
    ) {
        let rate_bps = tenths * FILE_BPS / 10;
        let deadline_ns = deadline * T;
        let video = MediaRecord { deadline_ns, ..media(T, window, 6) };
        let audio = MediaRecord { deadline_ns, ..audio(period_ms) };
        let link = Link::of(millstream::Link::new(rate_bps, 0));
        let work = |(importance, packets)| FrameDemand {
            work_ns: u64::from(packets) * link.transmission_ns(112),
            importance,
        };
        let frames = FILE_FRAMES.map(work);
        let of_video = Demand::new(&frames, (window, 6), true, T, deadline_ns);
        let of_audio = [work((I, packets))];
        let of_audio =
            Demand::new(&of_audio, (0, 1), true, audio.period_ns, deadline_ns).served_first();
        let demands = [&of_video, &of_audio];
        let mut admission = Admission::new(rate_bps);
        let mut tracks = 0;
        while tracks < 2 * starts.len() && admission.admits(&demands, tracks % 2, 1).is_ok() {
            admission.add(tracks % 2, 0);
            tracks += 1;
        }
        let clients = tracks / 2;
        let store = audio_store(video, audio, packets);
        let mut bench = bench(u32::try_from(starts.len()).unwrap(), store, rate_bps);
        let mut order: Vec<usize> = (0..clients).collect();
        order.sort_by_key(|client| starts[*client]);
        for client in order {
            bench.until(starts[client]);
            bench.want_both(2 * client, RequestedState::Play);
        }
        bench.until(100 * T);
        for row in 0..2 * clients {
            proptest::prop_assert!(bench.counts(row, SessionField::Sent)[0] > 0);
            let violations = bench.row(row).get(SessionField::Violations);
            proptest::prop_assert_eq!(violations, 0, "row {} of {} clients", row, clients);
        }
    }
}
