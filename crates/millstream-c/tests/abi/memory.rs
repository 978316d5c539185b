//! No call allocates after `ms_scheduler_new`, and freeing releases all memory.

use millstream::catalogue::DISCIPLINES;
use millstream_c::*;

use crate::allocations::allocations;
use crate::driver::{Handle, contract};

/// Returns contracts of many kinds, or equal ones for disciplines that refuse some.
fn contracts(mixed: bool) -> Vec<Contract> {
    let of = |number: u32| {
        let mut of = Contract { period_ns: 50_000, window_lost: 1, window_of: 2, ..contract() };
        match number % 6 {
            _ if !mixed => {}
            0 => of.late = MS_LATE_DROP,
            1 => (of.flows, of.flow_packets) = (16, 40),
            2 => (of.max_rate_bps, of.burst_bytes) = (10_000_000, 3_000),
            3 => (of.flows, of.flow_packets, of.aqm) = (1, 20, MS_AQM_DUALPI2),
            _ => of.weight = number + 1,
        }
        of
    };
    (0..100).map(of).collect()
}

#[test]
fn no_call_allocates_after_the_scheduler_was_made() {
    let table: Vec<_> = (0..100).collect();
    let options = Options { table: table.as_ptr(), table_entries: 100, ..Options::default() };
    let options = Options { packet_limit: 500, ..options };
    for row in DISCIPLINES {
        let scheduler = Handle::new((row.name, ""), options, &contracts(true))
            .or_else(|_| Handle::new((row.name, ""), options, &contracts(false)));
        let scheduler = scheduler.unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        let mut decisions = [Decision::default(); 32];
        let (mut now_ns, mut returned, mut refused) = (0, 0, 0);
        let before = allocations();
        for step in 0..30_000 {
            now_ns += random.u64(..2_000);
            let mut packets = [Packet::default(); 3];
            for packet in &mut packets {
                (packet.stream, packet.bytes) = (random.u32(..100), random.u32(..1500));
                (packet.flow_hash, packet.ecn) = (random.u32(..), random.u32(..4));
            }
            refused += scheduler.enqueue_burst(&mut packets, now_ns).unwrap();
            if step % 1_000 > 500 {
                returned += scheduler.dequeue_burst(now_ns, &mut decisions).unwrap();
            } else {
                returned += usize::from(scheduler.dequeue(now_ns).unwrap().is_some());
            }
            while let taken @ 1.. = scheduler.take_drops(&mut decisions) {
                returned += taken;
            }
            let stream = random.u32(..100);
            scheduler.set_eligible(stream, step % 3 > 0, now_ns);
            scheduler.add_credits(stream, 9, now_ns);
        }
        assert_eq!(allocations() - before, 0, "{}", row.name);
        let waiting = usize::try_from(scheduler.backlog()).unwrap();
        assert_eq!(returned + refused + waiting, 90_000, "{}", row.name);
        assert!(returned > 10_000, "{}: {returned}", row.name);
    }
}
