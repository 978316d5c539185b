//! Clients of a live stream on the simulated clock: their entry frames and counters.

use super::*;
use crate::shared_memory::live_frames::tests::{pair, put};
use crate::shared_memory::live_frames::{FrameRing, Shape};
use crate::shared_memory::store::StoreBuilder;

/// Creates a bench with one live stream, and the ring that the test publishes into.
pub(super) fn bench(clients: u32, rate_bps: u64) -> (TestBed, FrameRing) {
    let (region, _) = Region::create(clients).unwrap();
    region.set(GlobalField::LinkRate, rate_bps);
    let (writers, readers) = pair(&[Shape::new(T, 1_000_000, 10_000, 20 * T)]);
    let dispatch = Dispatch::new(live_store(readers), region, selector(), NoFilter, 0);
    (TestBed { dispatch, region, record: Record::default(), now_ns: 0 }, writers[0])
}

fn live_store(rings: Vec<FrameRing>) -> Store {
    let mut builder = StoreBuilder::default();
    builder.add(MediaRecord { live: 1, ..media(T, 1, 6) }, &[], &[]);
    let mut store = Store::open(&builder.seal().unwrap()).unwrap();
    store.rings = rings;
    store
}

/// Starts a client and lets the dispatcher process the request.
pub(super) fn play(bench: &mut TestBed, session: usize) {
    bench.want(session, RequestedState::Play);
    bench.dispatch.step(bench.now_ns, &mut bench.record);
}

/// Publishes a frame every T until the clock is at `end_ns`; every sixth is an entry frame.
fn publish(bench: &mut TestBed, ring: &FrameRing, end_ns: u64) {
    while bench.now_ns < end_ns {
        let number = ring.head();
        put(ring, bench.now_ns, number.is_multiple_of(6), 2, u8::try_from(number % 200).unwrap());
        bench.until((bench.now_ns + T).min(end_ns));
    }
}

fn frames_of(bench: &TestBed, session: usize) -> Vec<u64> {
    let of = bench.record.frames.iter().filter(|frame| frame.1 == session);
    of.map(|frame| frame.2).collect()
}

#[test]
fn each_client_gets_every_frame_from_the_next_entry_frame_on() {
    let (mut bench, ring) = bench(2, 1_000_000);
    play(&mut bench, 0);
    publish(&mut bench, &ring, 8 * T);
    play(&mut bench, 1);
    publish(&mut bench, &ring, 40 * T);
    assert_eq!(
        (bench.row(0).get(SessionField::Offset), bench.row(1).get(SessionField::Offset)),
        (0, 12)
    );
    assert_eq!(frames_of(&bench, 0), (0..40).collect::<Vec<_>>());
    assert_eq!(frames_of(&bench, 1), (0..28).collect::<Vec<_>>());
    for (time_ns, session, number) in &bench.record.frames {
        let released_ns = (number + bench.row(*session).get(SessionField::Offset)) * T;
        assert!(time_ns - released_ns < T, "frame {number} of {session}");
    }
    bench.check_conservation(2);
}

#[test]
fn a_client_waits_for_a_silent_publisher_and_restarts_after_a_pause() {
    let (mut bench, ring) = bench(1, 1_000_000);
    play(&mut bench, 0);
    publish(&mut bench, &ring, 9 * T);
    bench.until(30 * T);
    assert_eq!(frames_of(&bench, 0).len(), 9);
    publish(&mut bench, &ring, 33 * T);
    assert_eq!(frames_of(&bench, 0).len(), 12);
    bench.want(0, RequestedState::Pause);
    publish(&mut bench, &ring, 35 * T);
    play(&mut bench, 0);
    publish(&mut bench, &ring, 45 * T);
    // Frames 12 and 13 fell into the pause; 14 to 17 are no entry frames.
    assert_eq!(bench.row(0).get(SessionField::Offset), 6);
    assert_eq!(frames_of(&bench, 0), (0..18).collect::<Vec<_>>());
    assert_eq!(bench.row(0).get(SessionField::Lost), 0);
    bench.check_conservation(1);
}

#[test]
fn frames_missed_by_a_stopped_or_dead_dispatcher_are_lost() {
    let (mut bench, ring) = bench(1, 1_000_000);
    play(&mut bench, 0);
    publish(&mut bench, &ring, 5 * T);
    // Stops the dispatcher for longer than the ring holds frames.
    for number in 5..200u8 {
        put(&ring, u64::from(number) * T, number % 6 == 0, 2, number);
    }
    bench.now_ns = 200 * T;
    publish(&mut bench, &ring, 220 * T);
    let lost = bench.row(0).get(SessionField::Lost);
    assert!((100..195).contains(&lost), "{lost}");
    bench.check_conservation(1);
    // A new dispatcher replaces the old one.
    for number in 0..7 {
        put(&ring, (220 + number) * T, false, 2, 1);
    }
    let rings = live_store(bench.dispatch.store.rings.clone());
    bench.dispatch = Dispatch::new(rings, bench.region, selector(), NoFilter, 227 * T);
    bench.now_ns = 227 * T;
    bench.dispatch.step(bench.now_ns, &mut bench.record);
    publish(&mut bench, &ring, 230 * T);
    assert_eq!(bench.row(0).get(SessionField::Lost), lost + 7);
    assert_eq!(bench.row(0).get(SessionField::Next), 230);
    bench.check_conservation(1);
}
