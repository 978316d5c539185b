//! What a frame costs the processor, part by part and by clients: scheduling alone, with its RTP packets
//! written, and sent. No clock is waited for: frames follow one another, so caches are as warm as so many
//! clients leave them.
//!
//! `cargo bench -p millstream-media --bench frame`

#![allow(clippy::unwrap_used)]

mod player;

use millstream_media::measuring::{Part, frame};
use player::scenario;

/// Frames of a measurement, and how many are made: the quickest counts.
const FRAMES: u64 = 20_000;
const ROUNDS: usize = 5;

fn main() {
    let scenario = scenario("host");
    println!(
        "| clients | scheduling (ns a frame) | and packets | and sending, the kernel apart | kernel |"
    );
    println!("|--:|--:|--:|--:|--:|");
    for clients in [1, 10, 100, 1_000] {
        let periods = FRAMES / u64::from(clients);
        let best = |part| {
            let rounds = (0..ROUNDS).map(|_| frame(&scenario, clients, periods, part).unwrap());
            rounds.min_by_key(|cost| cost.frame_ns).unwrap()
        };
        let [scheduling, packets, kernel] =
            [Part::Scheduling, Part::Packets, Part::Kernel].map(best);
        println!(
            "| {clients} | {} | {} | {} | {} |",
            scheduling.frame_ns,
            packets.frame_ns,
            kernel.frame_ns - kernel.kernel_ns,
            kernel.kernel_ns,
        );
    }
}
