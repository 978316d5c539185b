//! After `preallocate`, no discipline on any structure allocates, whatever happens to its streams.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU64;

use millstream::aqm::dual_pi2::DualPi2Options;
use millstream::aqm::{Aqm, Ecn};
use millstream::catalogue::{DISCIPLINES, DwcsOrder, DynScheduler, Options};
use millstream::flow_queue::{Flow, FlowOptions};
use millstream::{Contract, Departure, Late, MaxRate, Observer, Packet, StreamId, Window};

#[path = "support/allocations.rs"]
mod allocations;

use allocations::allocations;

/// More than `hilq-exact` has without its calendar.
const STREAMS: u32 = 150;

/// The limit of the packets in all streams.
const PACKETS: u32 = 400;

/// Returns a pseudo-random number below `bound`.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % bound
}

/// Counts drops.
#[derive(Default)]
struct Drops(u64);

impl Observer for Drops {
    fn dropped(&mut self, _: &Departure) {
        self.0 += 1;
    }
}

fn contract(number: u32) -> Contract {
    let mut contract = Contract::new()
        .period_ns(u64::from(1 + number % 7) << (number % 40))
        .unwrap()
        .window(Window::new(number % 3, 3).unwrap())
        .priority(number % 4)
        .weight(1 + number % 9)
        .unwrap()
        .quantum_bytes(1_500)
        .unwrap();
    match number % 10 {
        1 => contract = contract.late(Late::Drop),
        2 => {
            let rate_bps = NonZeroU64::new(2_000_000).unwrap();
            contract = contract.max_rate(MaxRate { rate_bps, burst_bytes: 3_000 });
        }
        3 => contract = contract.credits(100),
        4 => contract = contract.queue(2),
        5 => contract = contract.flows(FlowOptions { limit_packets: 20, ..Default::default() }),
        6 => {
            let aqm = Aqm::DualPi2(DualPi2Options::default());
            let flows = FlowOptions { limit_packets: 10, aqm, ..Default::default() };
            contract = contract.flows(flows);
        }
        _ => {}
    }
    contract
}

/// Runs random events; packets are conserved and memory is not allocated.
fn run(scheduler: &mut (dyn DynScheduler + Send), name: &str) {
    let all: Vec<_> = (0..u32::try_from(scheduler.streams()).unwrap()).map(StreamId).collect();
    let streams = all.len() as u64;
    assert!(scheduler.preallocate(PACKETS), "{name}");
    let warm = allocations();
    let mut random = 1;
    let (mut now_ns, mut sent, mut arrived, mut full) = (0, 0, 0, 0);
    let mut drops = Drops::default();
    for step in 0..40_000u64 {
        // Phases of overload and of drain.
        let overload = step / 4_000 % 2 == 0;
        now_ns += below(&mut random, if overload { 1_000 } else { 1_000_000 });
        let stream = StreamId(u32::try_from(below(&mut random, streams)).unwrap());
        if overload || step % 4 == 0 {
            let packet = Packet::new(u32::try_from(below(&mut random, 1_500)).unwrap());
            let hash = u32::try_from(below(&mut random, 1 << 31)).unwrap();
            let flow = Flow { hash, host: 0, ecn: Ecn::of_traffic_class(hash.to_le_bytes()[0]) };
            arrived += 1;
            let number = scheduler.enqueue_flow(now_ns, stream, packet, flow, &mut drops);
            full += u64::from(number.is_err());
        }
        match step % 64 {
            0 => scheduler.add_credits(now_ns, stream, 30),
            1 => scheduler.set_eligible(now_ns, stream, false),
            2 => all.iter().for_each(|of| scheduler.set_eligible(now_ns, *of, true)),
            _ if overload && step % 3 != 0 => {}
            _ => sent += u64::from(scheduler.decide(now_ns, &mut drops).is_some()),
        }
    }
    assert_eq!(allocations() - warm, 0, "{name}");
    assert_eq!(arrived, sent + full + drops.0 + scheduler.total_waiting(), "{name}");
    assert!(sent > 4_000 && full + drops.0 > 1_000, "{name}: {sent} {full} {}", drops.0);
}

#[test]
fn no_discipline_allocates_after_preallocation() {
    let table: Vec<_> = (0..STREAMS).map(StreamId).collect();
    let mut runs = 0;
    for row in DISCIPLINES {
        for order in [DwcsOrder::EdfFirst, DwcsOrder::LossFirst] {
            let options = Options { order, table: table.clone(), ..Options::default() };
            for structure in row.structures(&options) {
                // A few streams, and more than `hilq-exact` has without its calendar.
                for streams in [STREAMS, 20] {
                    let mut options = options.clone();
                    options.table.truncate(streams as usize);
                    let mut scheduler = row.build(&options, structure);
                    for number in 0..streams {
                        let fmc = row.name == "minbw" && number < 2;
                        let contract = contract(number);
                        let contract = if fmc { contract.fmc() } else { contract };
                        let added = scheduler.add_stream(contract.clone());
                        // Disciplines that refuse flows or unequal periods get equal plain streams.
                        if added.is_err() {
                            let plain = Contract::new().period_ns(50_000).unwrap();
                            let plain = plain.window(Window::new(1, 2).unwrap());
                            scheduler.add_stream(plain.queue(5)).unwrap();
                        }
                    }
                    run(scheduler.as_mut(), &format!("{} on {}", row.name, structure.name()));
                    runs += 1;
                }
            }
        }
    }
    assert!(runs > 150, "{runs}");
}
