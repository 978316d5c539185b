//! Random calls of the C functions, from any bytes. Panics if a packet is lost or returned twice,
//! if counters do not add up, or if the library reports a defect. The fuzz target runs it too.

use millstream::catalogue::DISCIPLINES;
use millstream_c::*;
use std::collections::HashMap;

use super::driver::{Handle, contract};

/// The highest rate of the link. A run takes less than 1,000 s: while packets wait, the link could
/// not send the 10^14 bytes by which tags of fair queueing may differ.
const MOST_RATE_BPS: u64 = 100_000_000_000;

/// Draws choices from bytes; zeros when they are used up.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: u32) -> u32 {
        u32::from(self.byte()) % bound
    }

    /// Returns a number of any magnitude, often an extreme one.
    fn number(&mut self) -> u64 {
        match self.byte() {
            0..16 => u64::MAX,
            byte => u64::from(byte) << (self.byte() % 64),
        }
    }

    fn number32(&mut self) -> u32 {
        u32::try_from(self.number() & u64::from(u32::MAX)).unwrap_or(u32::MAX)
    }

    fn contract(&mut self) -> Contract {
        let mut of = contract();
        of.weight = 1 + self.below(9);
        of.period_ns = 1 + u64::from(self.byte()) * 100;
        of.window_of = self.below(4);
        of.window_lost = self.below(of.window_of + 1);
        of.priority = self.below(3);
        match self.below(12) {
            0 => of.late = MS_LATE_DROP,
            1 => (of.max_rate_bps, of.burst_bytes) = (self.number(), self.number()),
            2 => of.credits = self.number(),
            3 => of.queue_packets = self.below(4),
            4 => (of.flows, of.flow_packets, of.aqm) = (1 + self.below(20), 9, self.below(7)),
            5 => of.management = 1,
            // Contracts that are mostly refused.
            6 => of.late = self.number32(),
            7 => of.weight = self.number32(),
            8 => of.first_deadline_ns = self.number(),
            9 => of.period_ns = self.number(),
            _ => {}
        }
        of
    }
}

/// The packets that the scheduler has.
#[derive(Default)]
struct Kept {
    handles: HashMap<u64, u32>,
    next_handle: u64,
}

impl Kept {
    fn packet(&mut self, stream: u32, choices: &mut Choices<'_>) -> Packet {
        self.next_handle += 1;
        Packet {
            // Any value may be a handle.
            handle: self.next_handle.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            stream,
            bytes: choices.number32() % 70_000,
            flow_hash: choices.below(5),
            host_hash: choices.below(3),
            ecn: choices.below(4),
            reserved: 0,
        }
    }

    fn keep(&mut self, packet: &Packet) {
        assert_eq!(self.handles.insert(packet.handle, packet.bytes), None);
    }

    fn give_back(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let bytes = self.handles.remove(&decision.handle);
            assert_eq!(bytes, Some(decision.bytes), "a packet that the scheduler did not have");
        }
    }
}

/// Runs the calls; returns whether a scheduler was made.
pub(crate) fn run(input: &[u8]) -> bool {
    let mut choices = Choices(input);
    let row = &DISCIPLINES[choices.below(40) as usize % DISCIPLINES.len()];
    let contracts: Vec<_> = (0..1 + choices.below(6)).map(|_| choices.contract()).collect();
    let streams = u32::try_from(contracts.len()).unwrap_or(0);
    let table: Vec<_> = (0..streams).collect();
    let options = Options {
        packet_limit: 1 + choices.below(20),
        link_rate_bps: 1 + choices.number() % MOST_RATE_BPS,
        link_overhead_bytes: i32::try_from(choices.below(30)).unwrap_or(0) - 10,
        link_framing: choices.below(3),
        dwcs_order: choices.below(2),
        dwcs_rules: choices.below(2),
        table: table.as_ptr(),
        table_entries: table.len(),
        ..Options::default()
    };
    let scheduler = match Handle::new((row.name, ""), options, &contracts) {
        Ok(scheduler) => scheduler,
        Err((status, text)) => {
            assert!((MS_ERROR_CONTRACT..=MS_ERROR_SIZE).contains(&status), "{status} {text}");
            return false;
        }
    };
    let (mut kept, mut now_ns) = (Kept::default(), 0u64);
    let mut decisions = [Decision::default(); 8];
    while !choices.0.is_empty() {
        let stream = choices.below(streams + 1);
        let is_stream = stream < streams;
        let checked = |status: Status| {
            assert!(status != MS_ERROR_INTERNAL, "a defect");
            assert!(is_stream == (status != MS_ERROR_STREAM), "{status}");
            status
        };
        match choices.below(16) {
            0..5 => {
                let packet = kept.packet(stream, &mut choices);
                if checked(scheduler.enqueue_packet(&packet, now_ns)) == MS_OK {
                    kept.keep(&packet);
                }
            }
            5 => {
                let mut packets = [(); 5].map(|()| kept.packet(stream, &mut choices));
                let offered = packets;
                match scheduler.enqueue_burst(&mut packets, now_ns) {
                    Ok(refused) => {
                        let refused = &packets[..refused];
                        let accepted = offered.iter().filter(|of| !refused.contains(of));
                        accepted.for_each(|of| kept.keep(of));
                    }
                    Err(error) => assert!([MS_ERROR_STREAM, MS_ERROR_DROPS].contains(&error)),
                }
            }
            6..9 => match scheduler.dequeue(now_ns) {
                Ok(made) => kept.give_back(made.as_slice()),
                Err(error) => panic!("{error}"),
            },
            9 => match scheduler.dequeue_burst(now_ns, &mut decisions) {
                Ok(made) => kept.give_back(&decisions[..made]),
                Err(error) => panic!("{error}"),
            },
            10 => {
                let taken = scheduler.take_drops(&mut decisions);
                kept.give_back(&decisions[..taken]);
            }
            11 => drop(checked(scheduler.set_eligible(stream, choices.below(2) == 0, now_ns))),
            12 => drop(checked(scheduler.add_credits(stream, choices.number(), now_ns))),
            13 => {
                let extra = i64::from(choices.byte()) * 100 - 5_000;
                checked(scheduler.charge(stream, extra, now_ns));
            }
            14 => now_ns = now_ns.saturating_add(choices.number() % (1 << 30)),
            _ => now_ns = scheduler.next_eligible_ns().map_or(now_ns, |at| at.max(now_ns)),
        }
        let waiting: u64 = (0..streams)
            .filter_map(|stream| scheduler.counters(stream).ok())
            .map(|of| {
                let dropped = of.dropped_late + of.dropped_full + of.dropped_aqm;
                assert_eq!(of.arrived, of.sent + dropped + of.waiting);
                let bytes = of.sent_bytes + of.dropped_bytes + of.waiting_bytes;
                assert_eq!(of.arrived_bytes, bytes);
                of.waiting
            })
            .sum();
        assert_eq!(waiting, scheduler.backlog());
        let held = waiting + scheduler.pending_drops() as u64;
        assert_eq!(held, kept.handles.len() as u64, "a packet was lost");
    }
    true
}
