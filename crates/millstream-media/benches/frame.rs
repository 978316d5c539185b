//! What a frame costs the processor, part by part and by clients: scheduling alone, the same with
//! an instruction that looks at every frame, with its RTP packets written, and sent. No clock is
//! waited for: frames follow one another, so caches are as warm as so many clients leave them.
//!
//! `cargo bench -p millstream-media --bench frame`

#![allow(clippy::unwrap_used)]

mod player;

use millstream_media::measuring::{Part, frame};
use player::scenario;

/// Frames of a measurement, and how many are made: the quickest counts.
const FRAMES: u64 = 20_000;
const ROUNDS: usize = 5;

/// The example, as it is loaded: it lets every frame go.
const FILTER: &[u8] = include_bytes!("../../../examples/media/thin.wasm");

fn main() {
    let scenario = scenario("host");
    println!(
        "| clients | scheduling (ns a frame) | with a filter | and packets | and sending, the \
         kernel apart | kernel |"
    );
    println!("|--:|--:|--:|--:|--:|--:|");
    for clients in [1, 10, 100, 1_000] {
        let periods = FRAMES / u64::from(clients);
        let best = |(part, filter)| {
            let round = |_| frame(&scenario, clients, periods, part, filter).unwrap();
            (0..ROUNDS).map(round).min_by_key(|cost| cost.frame_ns).unwrap()
        };
        let [scheduling, filtered, packets, kernel] = [
            (Part::Scheduling, None),
            (Part::Scheduling, Some(FILTER)),
            (Part::Packets, None),
            (Part::Kernel, None),
        ]
        .map(best);
        println!(
            "| {clients} | {} | {} | {} | {} | {} |",
            scheduling.frame_ns,
            filtered.frame_ns,
            packets.frame_ns,
            kernel.frame_ns - kernel.kernel_ns,
            kernel.kernel_ns,
        );
    }
}
