//! Viewers by WebRTC: the estimate of their path, and their requests for key frames.

use super::live::{bench, play};
use super::*;
use crate::shared_memory::live_frames::tests::put;

#[test]
fn a_path_without_room_for_optional_frames_drops_them_and_keeps_the_contract() {
    // Two of six frames are optional: B-frames, two of ten packets.
    for (tenths, dropped) in [(0, 0..=0), (10, 0..=0), (9, 80..=100), (8, 180..=200)] {
        let mut bench = TestBed::new(media(T, 2, 6), 10 * FILE_BPS, 1);
        bench.row(0).set(SessionField::PathBps, FILE_BPS * tenths / 10);
        // The burst accumulates.
        bench.until(25 * T);
        bench.want(0, RequestedState::Play);
        bench.until(625 * T);
        let row = bench.row(0);
        let full = bench.counts(0, SessionField::Full);
        assert!(full[..2] == [0, 0] && dropped.contains(&full[2]), "{tenths}: {full:?}");
        assert_eq!(bench.counts(0, SessionField::Sent), [100, 100, 400 - full[2]]);
        assert_eq!((row.get(SessionField::Slow), row.get(SessionField::Violations)), (full[2], 0));
        bench.check_conservation(1);
    }
}

#[test]
fn a_requested_key_frame_is_not_optional() {
    // The path has no room for any optional frame, which is the last one of six. A mandatory frame
    // answers a request, too.
    for (wanted, dropped) in [(11, vec![5, 17]), (8, vec![5, 11, 17])] {
        let (mut bench, ring) = bench(1, 1_000_000);
        bench.row(0).set(SessionField::PathBps, 1);
        play(&mut bench, 0);
        for number in 0..18 {
            if number == wanted {
                bench.row(0).set(SessionField::KeyFramesWanted, 1);
            }
            put(&ring, bench.now_ns, true, 2, 1);
            bench.until(bench.now_ns + T);
        }
        let sent: Vec<u64> = bench.record.frames.iter().map(|frame| frame.2).collect();
        let expected = (0..18).filter(|number| !dropped.contains(number));
        assert_eq!(sent, expected.collect::<Vec<_>>(), "a request at frame {wanted}");
    }
}
