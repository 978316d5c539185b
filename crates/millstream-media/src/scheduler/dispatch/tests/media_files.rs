//! Films that are read while they play: clients of one whose disk is slow lose its frames, others
//! none.

use super::*;
use crate::files::read_ahead::frame_cache::{FrameCache, Shape, create};
use crate::files::read_ahead::reader::Readers;
use crate::files::read_ahead::reader::tests::{Slow, await_done, film};
use crate::shared_memory::store::StoreBuilder;

fn shelf(places: u32) -> FrameCache {
    FrameCache::open(&create(places, Shape::new(16, 16 * 50 + 50)).unwrap()).unwrap()
}

/// A dispatcher of two films in files, and its readers' store.
fn bench(shelf: FrameCache) -> (Bench, [Vec<u8>; 2], Store) {
    let mut builder = StoreBuilder::default();
    let bytes = [1, 2].map(|number| film(&mut builder, number, 12, 1));
    let file = builder.seal().unwrap();
    let (region, _) = Region::create(2).unwrap();
    region.set(GlobalField::LinkRate, 10_000_000);
    let mut dispatch = Dispatch::new(Store::open(&file).unwrap(), region, selector(), 0);
    dispatch.take_from(shelf);
    let bench = Bench { dispatch, region, record: Record::default(), now_ns: 0 };
    for session in 0..2 {
        bench.row(session).set(SessionField::Media, session as u64);
        bench.want(session, Want::Play);
    }
    (bench, bytes, Store::open(&file).unwrap())
}

/// One period after the other, once what `session` plays in it was read.
fn play(bench: &mut Bench, shelf: FrameCache, session: usize, periods: std::ops::Range<u64>) {
    for period in periods {
        bench.until(period * T + 1);
        await_done(shelf, session, period);
        bench.until((period + 1) * T);
    }
}

#[test]
fn a_slow_disk_harms_the_clients_of_its_film_alone() {
    let shelf = shelf(2);
    let (mut bench, [fast, slow], store) = bench(shelf);
    let (slow, answer) = Slow::gated(&slow);
    let _readers = Readers::of(store, shelf, vec![Slow::of(&fast), slow]).unwrap();
    play(&mut bench, shelf, 0, 0..40);
    assert_eq!(bench.counts(0, SessionField::Sent), [0, 40, 0]);
    assert_eq!(bench.counts(0, SessionField::Unread), [0; 3]);
    // Five periods until the deadline: the others have passed it, whole.
    assert_eq!(bench.counts(1, SessionField::Unread), [0, 35, 0]);
    assert_eq!(bench.counts(1, SessionField::Sent), [0; 3]);
    assert!(
        bench.row(1).get(SessionField::Violations) > 0,
        "what is unread is lost by the contract, too"
    );
    bench.check_conservation(2);
    // The disk answers again: so does the film.
    for _ in 0..1_000 {
        let _ = answer.send(());
    }
    play(&mut bench, shelf, 1, 40..60);
    assert!(
        bench.counts(1, SessionField::Sent)[1] >= 20,
        "{:?}",
        bench.counts(1, SessionField::Sent)
    );
    bench.check_conservation(2);
    drop(answer);
}

#[test]
fn what_a_reader_that_dies_has_not_read_the_next_one_reads() {
    let shelf = shelf(2);
    let (mut bench, [first, second], store) = bench(shelf);
    let file = store;
    let readers = Readers::of(file, shelf, vec![Slow::of(&first), Slow::of(&second)]).unwrap();
    play(&mut bench, shelf, 0, 0..20);
    drop(readers);
    let mut builder = StoreBuilder::default();
    for number in [1, 2] {
        film(&mut builder, number, 12, 1);
    }
    let again = Store::open(&builder.seal().unwrap()).unwrap();
    let films = vec![Slow::of(&first), Slow::of(&second)];
    let _readers = Readers::of(again, shelf, films).unwrap();
    play(&mut bench, shelf, 0, 20..40);
    assert_eq!(bench.counts(0, SessionField::Sent), [0, 40, 0]);
    bench.check_conservation(2);
}

#[test]
fn a_client_that_leaves_while_its_frames_are_held_leaves_nothing_behind() {
    let shelf = shelf(2);
    let (mut bench, [first, second], store) = bench(shelf);
    let (slow, answer) = Slow::gated(&second);
    let _readers = Readers::of(store, shelf, vec![Slow::of(&first), slow]).unwrap();
    play(&mut bench, shelf, 0, 0..3);
    assert_eq!(bench.dispatch.unresolved(), 3);
    bench.want(1, Want::Stop);
    play(&mut bench, shelf, 0, 3..6);
    assert_eq!((bench.dispatch.unresolved(), bench.row(1).get(SessionField::Discarded)), (0, 3));
    assert_eq!(shelf.wanted(1), None);
    bench.check_conservation(2);
    drop(answer);
}
