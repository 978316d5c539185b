//! The memory of a stream with flows is bounded, however many flows there are.
#![allow(clippy::unwrap_used)]

use millstream::Packet;
use millstream::aqm::cobalt::CobaltOptions;
use millstream::aqm::dual_pi2::DualPi2Options;
use millstream::aqm::pie::PieOptions;
use millstream::aqm::red::RedOptions;
use millstream::aqm::{Aqm, Ecn};
use millstream::flow_queue::{Flow, FlowOptions, FlowQueues, HostFairness};

#[path = "support/allocations.rs"]
mod allocations;

use allocations::{allocations, live_bytes};

const LIMIT_PACKETS: u32 = 5_000;
const LIMIT_BYTES: u64 = 4 << 20;

/// Offers packets of a million flows, each of its own host, at five times the rate of departures.
#[test]
fn a_million_flows_are_bounded_in_packets_bytes_and_memory() {
    for aqm in [
        Aqm::None,
        FlowOptions::default().aqm,
        Aqm::Pie(PieOptions::default()),
        Aqm::Red(RedOptions::default()),
        Aqm::Cobalt(CobaltOptions::default()),
        Aqm::DualPi2(DualPi2Options::default()),
    ] {
        let before_bytes = live_bytes();
        let mut queues = FlowQueues::new(FlowOptions {
            limit_packets: LIMIT_PACKETS,
            limit_bytes: LIMIT_BYTES,
            hosts: HostFairness::ByHost,
            aqm,
            ..FlowOptions::default()
        });
        let before = allocations();
        let (mut now_ns, mut departed) = (0, 0u64);
        for number in 0..1_000_000u32 {
            now_ns += 10_000;
            let hash = number.wrapping_mul(0x9e37_79b1);
            let flow = Flow { hash, host: hash, ecn: Ecn::NotCapable };
            let packet = Packet::new(64 + number % 1_437);
            queues.push(now_ns, flow, packet, number.into(), &mut |_, _| departed += 1);
            if number % 5 == 0 {
                let mut dropped = 0;
                let pulled = queues.pull(now_ns, &mut |_, _| dropped += 1);
                departed += dropped + u64::from(pulled.is_some());
            }
            assert!(queues.packets() <= LIMIT_PACKETS && queues.bytes() <= LIMIT_BYTES);
        }
        assert_eq!(departed + u64::from(queues.packets()), 1_000_000, "{aqm:?}");
        // The packets' memory doubles until it holds the limit.
        let grown = allocations() - before;
        assert!(grown <= 24, "{grown} allocations with {aqm:?}");
        // 48 bytes a packet, at most twice the limit; 1,024 flows and hosts.
        let bytes = live_bytes() - before_bytes;
        assert!(bytes <= 2 * 48 * u64::from(LIMIT_PACKETS) + 200_000, "{bytes} bytes, {aqm:?}");
    }
}
