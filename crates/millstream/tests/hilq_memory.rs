//! HILQ does not allocate after its streams are added.
#![allow(clippy::unwrap_used)]

use millstream::catalogue::DynScheduler;
use millstream::{Contract, DwcsOptions, Hilq, Late, Packet, Sizes, StreamId, Window};

#[path = "support/allocations.rs"]
mod allocations;

use allocations::allocations;

#[test]
fn nothing_is_allocated_after_the_last_stream_is_added() {
    const STREAMS: u32 = 300;
    let mut scheduler = Hilq::new(DwcsOptions::default(), Sizes::PAPER);
    for stream in 0..STREAMS {
        let window = Window::new(stream % 5, 7).unwrap();
        let period_ns = 1_000_000 * (1 + u64::from(stream) % 40);
        let contract = Contract::new().period_ns(period_ns).unwrap().window(window);
        scheduler.add_stream(contract.late(Late::Drop)).unwrap();
    }
    let before = allocations();
    let (mut random, mut now_ns, mut sent, mut rejected) = (1u64, 0, 0, 0);
    for _ in 0..300_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let stream = StreamId(u32::try_from((random >> 33) % u64::from(STREAMS)).unwrap());
        for _ in 0..random >> 62 {
            rejected += u64::from(scheduler.enqueue(now_ns, stream, Packet::new(100)).is_err());
        }
        sent += u64::from(scheduler.decide(now_ns, &mut ()).is_some());
        now_ns += random >> 44 & 0x1_ffff;
    }
    assert_eq!(allocations(), before);
    assert!(sent > 100_000 && rejected > 1_000, "{sent} sent, {rejected} rejected");
}
