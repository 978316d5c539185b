//! Runs other systems under an equal workload, each in its own process.
//!
//! `PROGRAM STREAMS PACKETS` dequeues PACKETS packets from STREAMS backlogged streams and enqueues
//! them again, several times. It prints one [`Measurement`] as a line of JSON. It inherits this
//! thread's core. The programs are in `benches/peers/`.

use std::path::Path;
use std::process::Command;

use crate::Measurement;

/// The number of packets of a peer's sample.
const PACKETS: u64 = 1_000_000;

/// Runs `program` with the given number of streams and returns its measurement.
///
/// # Errors
/// Returns a message with the program's standard error.
pub fn measure_peer(program: &Path, streams: u32) -> Result<Measurement, String> {
    let arguments = [streams.to_string(), PACKETS.to_string()];
    let name = program.display();
    let output = Command::new(program)
        .args(&arguments)
        .output()
        .map_err(|error| format!("cannot run the peer `{name}`: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let command = arguments.join(" ");
        return Err(format!("`{name} {command}` failed ({}): {errors}", output.status));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`{name}` did not print a measurement: {error}; {errors}"))
}
