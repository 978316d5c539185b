//! `hilq-exact` uses the memory that the documentation states, and does not allocate once warm.
#![allow(clippy::unwrap_used)]

#[path = "support/allocations.rs"]
mod allocations;

use allocations::{allocations, live_bytes};
use millstream::{Contract, DwcsOptions, Packet, Scheduler, StreamId, Window};

const STREAMS: u64 = 10_000;

/// Returns a pseudo-random number below `bound`.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % bound
}

fn stream(number: u64) -> StreamId {
    StreamId(u32::try_from(number).unwrap())
}

/// This file has one test: allocations of concurrent tests would be counted, too.
#[test]
fn memory_is_as_stated_and_no_more_once_warm() {
    let empty = live_bytes();
    let mut random = 1;
    let mut scheduler = Scheduler::hilq_exact(DwcsOptions::default());
    for number in 0..STREAMS {
        let window = Window::new(u32::try_from(number % 5).unwrap(), 7).unwrap();
        let period_ns = STREAMS * 200 + below(&mut random, STREAMS * 400);
        let contract = Contract::new().period_ns(period_ns).unwrap().window(window);
        scheduler.add_stream(contract).unwrap();
    }
    for number in 0..STREAMS {
        scheduler.enqueue(0, stream(number), Packet::new(100)).unwrap();
    }
    // Bytes: 64 of state, 32 of queue, 128 to 256 of buckets, 32 of packet; Vecs grow by doubling.
    let each = (live_bytes() - empty) / STREAMS;
    assert!((256..=520).contains(&each), "{each} bytes per stream");

    let before = live_bytes();
    for packet in 0..STREAMS * 20 {
        scheduler.enqueue(0, stream(packet % STREAMS), Packet::new(100)).unwrap();
    }
    let each = (live_bytes() - before) / (STREAMS * 20);
    assert!((16..=64).contains(&each), "{each} bytes per packet");

    let mut now_ns = 0;
    let mut run = |steps: u64, now_ns: &mut u64| {
        for _ in 0..steps {
            let sent = scheduler.decide(*now_ns, &mut ()).unwrap();
            *now_ns += 100 + below(&mut random, 300);
            scheduler.enqueue(*now_ns, sent.stream, Packet::new(100)).unwrap();
        }
    };
    run(STREAMS * 20, &mut now_ns);
    let warm = allocations();
    run(STREAMS * 100, &mut now_ns);
    assert_eq!(allocations(), warm);
}
