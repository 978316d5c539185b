//! Checks the line card's service shares against the engine.
//!
//! scripts/rtl-cards.sh provides Verilator and runs the tests with `--ignored`.
#![allow(clippy::unwrap_used)]

use millstream::StreamId;
use millstream_hw::line_card::{self, SentPacket};
use millstream_hw::{Load, Mode, Reference, Settings};

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn backlogged_streams_leave_in_engine_order_at_line_rate() {
    let settings = Settings { mode: Mode::Dwcs, lowest_denominator: false, rtas99: false };
    let loads = [(7, 8), (14, 16), (6, 8), (4, 8)].map(|(x, y)| Load {
        deadline: 0,
        period: 1,
        priority: 0,
        weight: 1,
        x,
        y,
        drop: 0,
        first: 0,
    });
    let left = line_card::backlogged(settings, &loads, 8, 4_000).unwrap();
    let mut reference = Reference::new(settings);
    for load in &loads {
        let stream = reference.load(load).unwrap();
        (0..4_000).for_each(|_| reference.enqueue(0, stream, 1));
    }
    for (now, SentPacket { stream, .. }) in (0..).zip(&left) {
        assert_eq!(reference.decide(now).map(StreamId::index), Some(*stream), "decision {now}");
    }
    // One beat a cycle: 8 cycles a packet in the steady state.
    for pair in left.windows(2) {
        assert_eq!(pair[1].cycle - pair[0].cycle, 8);
    }
}
