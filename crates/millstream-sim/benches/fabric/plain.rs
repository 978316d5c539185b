//! The baseline: a minimal simulator of the same network, with one heap and two events per hop.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

const ARITY: usize = 4;
const END_POINTS: usize = 64;
const PACKET_NS: u64 = 2_048;
const LATENCY_NS: u64 = 145;
const LOAD: f64 = 0.8;
/// The number of links: 64 from end-points, then 8 per switch (4 down, 4 up) of 48 switches.
const LINKS: usize = END_POINTS + 48 * 2 * ARITY;

#[derive(Clone, Copy)]
struct Packet {
    injected_ns: u64,
    destination: usize,
}

/// A splitmix generator: uniform in (0, 1].
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[allow(clippy::cast_precision_loss)]
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    }
}

fn digit(number: usize, at: usize) -> usize {
    number / ARITY.pow(u32::try_from(at).unwrap()) % ARITY
}

/// Returns the link from switch `column` of `level` towards `destination`, and its far switch.
///
/// The far switch is `None` if the link ends at the destination. A switch's column consists of the
/// digits of its subtree's end-points, without the digit of its level.
fn hop(level: usize, column: usize, destination: usize) -> (usize, Option<(usize, usize)>) {
    let out = END_POINTS + (level * 16 + column) * 2 * ARITY;
    // A switch is above the destination if their digits above the level are equal.
    let above = (level + 1..3).all(|at| digit(column, at - 1) == digit(destination, at));
    if above {
        let port = digit(destination, level);
        let below = level.checked_sub(1).map(|below| {
            let unit = ARITY.pow(u32::try_from(below).unwrap());
            (below, column - digit(column, below) * unit + port * unit)
        });
        (out + port, below)
    } else {
        let port = digit(destination, level);
        let unit = ARITY.pow(u32::try_from(level).unwrap());
        let up = column - digit(column, level) * unit + port * unit;
        (out + ARITY + port, Some((level + 1, up)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Free(usize),
    Arrive { level: usize, column: usize, packet: usize },
    Inject(usize),
}

/// Simulates until `stop_ns`, prints the result, and returns millions of packet-hops per second.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn report(stop_ns: u64) -> f64 {
    let start = Instant::now();
    let mut random = Random(1);
    let mut events = BinaryHeap::new();
    let mut queues = vec![VecDeque::<usize>::new(); LINKS];
    let mut ends = vec![None; LINKS];
    let (mut packets, mut free) = (Vec::<Packet>::new(), Vec::new());
    let (mut hops, mut delivered, mut sum_ns) = (0_u64, 0_u64, 0_u64);
    let gap_ns = PACKET_NS as f64 / LOAD;
    let gap = |random: &mut Random| (-random.uniform().ln() * gap_ns) as u64;
    for source in 0..END_POINTS {
        events.push(Reverse((gap(&mut random), Event::Inject(source))));
    }
    while let Some(Reverse((now_ns, event))) = events.pop() {
        let (link, packet) = match event {
            Event::Inject(source) => {
                let next_ns = now_ns + gap(&mut random);
                if next_ns < stop_ns {
                    events.push(Reverse((next_ns, Event::Inject(source))));
                }
                let other = (random.next() % (END_POINTS as u64 - 1)) as usize;
                let destination = if other < source { other } else { other + 1 };
                let packet = Packet { injected_ns: now_ns, destination };
                let place = free.pop().unwrap_or_else(|| {
                    packets.push(packet);
                    packets.len() - 1
                });
                packets[place] = packet;
                ends[source] = Some((0, source / ARITY));
                (source, Some(place))
            }
            Event::Arrive { level, column, packet } => {
                let (link, to) = hop(level, column, packets[packet].destination);
                ends[link] = to;
                (link, Some(packet))
            }
            Event::Free(link) => {
                queues[link].pop_front();
                (link, None)
            }
        };
        let begins = match packet {
            Some(packet) => {
                queues[link].push_back(packet);
                queues[link].len() == 1
            }
            None => !queues[link].is_empty(),
        };
        if begins {
            hops += 1;
            let packet = queues[link][0];
            let sent_ns = now_ns + PACKET_NS;
            events.push(Reverse((sent_ns, Event::Free(link))));
            if let Some((level, column)) = ends[link] {
                let event = Event::Arrive { level, column, packet };
                events.push(Reverse((sent_ns + LATENCY_NS, event)));
            } else {
                delivered += 1;
                sum_ns += sent_ns - packets[packet].injected_ns;
                free.push(packet);
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let (rate, mean_us) = (hops as f64 / seconds / 1e6, sum_ns as f64 / delivered as f64 / 1e3);
    println!(
        "{:38} {hops:>10} hops {seconds:>6.2} s {rate:>6.2} M packet-hops/s, mean latency \
         {mean_us:.2} us",
        "plain, 64"
    );
    rate
}
