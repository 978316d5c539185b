//! Media files that are read during playback: a slow disk affects only the clients of its file.

use super::*;
use crate::files::read_ahead::reader::Readers;
use crate::files::read_ahead::reader::tests::{GatedFile, await_done, media_file};
use crate::shared_memory::frame_cache::{FrameCache, Shape, create};
use crate::shared_memory::store::StoreBuilder;

fn frame_cache(places: u32) -> FrameCache {
    FrameCache::open(&create(places, Shape::new(16, 16 * 50 + 50)).unwrap()).unwrap()
}

/// Creates a dispatcher of two media files, their bytes, and a store for their readers.
fn bench(cache: FrameCache) -> (TestBed, [Vec<u8>; 2], Store) {
    let mut builder = StoreBuilder::default();
    let bytes = [1, 2].map(|number| media_file(&mut builder, number, 12, 1));
    let file = builder.seal().unwrap();
    let (region, _) = Region::create(2).unwrap();
    region.set(GlobalField::LinkRate, 10_000_000);
    let mut dispatch = Dispatch::new(Store::open(&file).unwrap(), region, selector(), NoFilter, 0);
    dispatch.set_frame_cache(cache);
    let bench = TestBed { dispatch, region, record: Record::default(), now_ns: 0 };
    for session in 0..2 {
        bench.row(session).set(SessionField::Media, session as u64);
        bench.want(session, RequestedState::Play);
    }
    (bench, bytes, Store::open(&file).unwrap())
}

/// Runs period by period; waits in each for the read of the frame that `session` plays.
fn play(bench: &mut TestBed, cache: FrameCache, session: usize, periods: std::ops::Range<u64>) {
    for period in periods {
        bench.until(period * T + 1);
        await_done(cache, session, period);
        bench.until((period + 1) * T);
    }
}

#[test]
fn a_slow_disk_affects_only_the_clients_of_its_file() {
    let cache = frame_cache(2);
    let (mut bench, [fast, slow], store) = bench(cache);
    let (slow, answer) = GatedFile::gated(&slow);
    let _readers = Readers::of(store, cache, vec![GatedFile::of(&fast), slow]).unwrap();
    play(&mut bench, cache, 0, 0..40);
    assert_eq!(bench.counts(0, SessionField::Sent), [0, 40, 0]);
    assert_eq!(bench.counts(0, SessionField::Unread), [0; 3]);
    // The deadline is five periods: of 40 released frames, 35 have passed it.
    assert_eq!(bench.counts(1, SessionField::Unread), [0, 35, 0]);
    assert_eq!(bench.counts(1, SessionField::Sent), [0; 3]);
    assert!(
        bench.row(1).get(SessionField::Violations) > 0,
        "unread frames count as losses of the contract"
    );
    bench.check_conservation(2);
    // The disk recovers, and the client's frames with it.
    for _ in 0..1_000 {
        let _ = answer.send(());
    }
    play(&mut bench, cache, 1, 40..60);
    assert!(
        bench.counts(1, SessionField::Sent)[1] >= 20,
        "{:?}",
        bench.counts(1, SessionField::Sent)
    );
    bench.check_conservation(2);
    drop(answer);
}

#[test]
fn a_new_reader_reads_the_frames_that_a_dead_one_has_not() {
    let cache = frame_cache(2);
    let (mut bench, [first, second], store) = bench(cache);
    let file = store;
    let readers =
        Readers::of(file, cache, vec![GatedFile::of(&first), GatedFile::of(&second)]).unwrap();
    play(&mut bench, cache, 0, 0..20);
    drop(readers);
    let mut builder = StoreBuilder::default();
    for number in [1, 2] {
        media_file(&mut builder, number, 12, 1);
    }
    let again = Store::open(&builder.seal().unwrap()).unwrap();
    let media_files = vec![GatedFile::of(&first), GatedFile::of(&second)];
    let _readers = Readers::of(again, cache, media_files).unwrap();
    play(&mut bench, cache, 0, 20..40);
    assert_eq!(bench.counts(0, SessionField::Sent), [0, 40, 0]);
    bench.check_conservation(2);
}

#[test]
fn a_client_that_leaves_releases_its_held_frames_and_its_place() {
    let cache = frame_cache(2);
    let (mut bench, [first, second], store) = bench(cache);
    let (slow, answer) = GatedFile::gated(&second);
    let _readers = Readers::of(store, cache, vec![GatedFile::of(&first), slow]).unwrap();
    play(&mut bench, cache, 0, 0..3);
    assert_eq!(bench.dispatch.unresolved(), 3);
    bench.want(1, RequestedState::Stop);
    play(&mut bench, cache, 0, 3..6);
    assert_eq!((bench.dispatch.unresolved(), bench.row(1).get(SessionField::Discarded)), (0, 3));
    assert_eq!(cache.wanted(1), None);
    bench.check_conservation(2);
    drop(answer);
}
