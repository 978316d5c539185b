//! The cost of a decision of each scheduler: one link with seven backlogged channels.
//!
//! A cycle is the work of a packet at an egress: arrival, decision, and credit return. Six channels
//! have two packets each; each departure is followed by an arrival. The management channel has a
//! packet every hundredth cycle. Credits return four packets later: a channel with large packets
//! runs out of them when it is served often. Lengths are those of Table II.

use miette::{IntoDiagnostic, miette};
use millstream::{CREDIT_BYTES, Packet, StreamId};
use std::collections::VecDeque;
use std::time::Instant;

use super::network::{BUFFER_CREDITS, CLASSES, LARGEST_BYTES, LINK, SCHEDULERS, egress};

/// Packets whose credits have not returned.
const OUTSTANDING: usize = 4;
/// Cycles between packets of the management channel.
const CONTROL: u64 = 100;
/// Lengths of best-effort packets, in rotation, bytes.
const MIXED: [u32; 5] = [64, 576, 64, LARGEST_BYTES, 320];

/// Runs `count` cycles of the scheduler called `name`; returns the time of one, ns.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn cycles(name: Option<&str>, count: Option<&str>) -> miette::Result<f64> {
    let usage = || {
        let schedulers = SCHEDULERS.join(", ");
        miette!("usage: --minbw-cycles SCHEDULER COUNT; schedulers: {schedulers}")
    };
    let subject = SCHEDULERS.iter().position(|subject| Some(*subject) == name).ok_or_else(usage)?;
    let count = count.and_then(|count| count.parse::<u64>().ok()).filter(|count| *count > 0);
    let count = count.ok_or_else(usage)?;
    let layers = 1;
    let mut scheduler =
        egress(subject)?.scheduler(&LINK, layers, Some(BUFFER_CREDITS)).into_diagnostic()?;
    let mut turn = 0;
    let mut packet = |channel: usize| {
        turn = (turn + 1) % MIXED.len();
        Packet::new(match CLASSES[channel] {
            "NC" => 64,
            "VO" => 128,
            "VI" | "CL" => LARGEST_BYTES,
            _ => MIXED[turn],
        })
    };
    let channel = |number: usize| StreamId(u32::try_from(number).unwrap_or(u32::MAX));
    let refused = |_| miette!("an unlimited queue rejected a packet");
    for number in (1..CLASSES.len()).chain(1..CLASSES.len()) {
        scheduler.enqueue(0, channel(number), packet(number)).map_err(refused)?;
    }
    let mut outstanding = VecDeque::with_capacity(OUTSTANDING + 1);
    let mut now_ns = 0;
    let mut idle = 0;
    let start = Instant::now();
    for cycle in 1..=count {
        if cycle % CONTROL == 0 {
            scheduler.enqueue(now_ns, channel(0), packet(0)).map_err(refused)?;
        }
        if let Some(departure) = scheduler.decide(now_ns, &mut ()) {
            // At 2 Gbit/s a byte takes 4 ns.
            now_ns += u64::from(departure.bytes) * 4;
            outstanding.push_back(departure);
            if departure.stream.index() > 0 {
                let next = packet(departure.stream.index());
                scheduler.enqueue(now_ns, departure.stream, next).map_err(refused)?;
            }
        } else {
            idle += 1;
            now_ns += 64;
        }
        if outstanding.len() > OUTSTANDING
            && let Some(back) = outstanding.pop_front()
        {
            let credits = u64::from(back.bytes.div_ceil(CREDIT_BYTES));
            scheduler.add_credits(now_ns, back.stream, credits);
        }
    }
    let took_ns = start.elapsed().as_nanos() as f64 / count as f64;
    if idle > 0 {
        return Err(miette!("{idle} of {count} decisions found no packet"));
    }
    Ok(took_ns)
}
