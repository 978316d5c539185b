//! The cost of a frame in the data plane, part by part and by the number of clients.
//!
//! The parts are scheduling only, scheduling with an instruction that filters every frame, writing
//! the RTP packets, and sending them. The benchmark does not wait for a clock: frames follow each
//! other, so the caches are as warm as that number of clients leaves them.
//!
//! `cargo bench -p millstream-media --bench frame`

#![allow(clippy::unwrap_used)]

mod playing;

use millstream_media::frame_cost::{Part, frame};
use playing::scenario;

/// The number of frames per measurement. The fastest of [`ROUNDS`] measurements counts.
const FRAMES: u64 = 20_000;
const ROUNDS: usize = 5;

/// The example module with its default settings, with which it passes every frame.
const FILTER: &[u8] = include_bytes!("../../../examples/media/thin.wasm");

fn main() {
    let scenario = scenario("host");
    println!(
        "| clients | scheduling (ns per frame) | with filter | with packets | with sending, \
         without kernel | kernel |"
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
