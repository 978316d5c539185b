//! The time and the memory that a scenario of many streams takes while its file is read.
//!
//! `cargo bench -p millstream-benches --bench scenario [-- STREAMS]`; default: a million streams.
//! The peak is the process's, with the file's text.

use millstream_scenario::{Scenario, Stream};
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// Writes a scenario of `streams` streams, each with the keys of a DWCS stream at a constant rate.
fn write(path: &Path, streams: u32) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "[scenario]\nduration = \"1 s\"\n[link]\nrate = \"100 Gbit/s\"")?;
    writeln!(file, "[scheduler]\ndiscipline = \"dwcs\"")?;
    for stream in 0..streams {
        let (lost, of) = (stream % 4, 4 + stream % 5);
        writeln!(file, "[[stream]]\nname = \"s{stream}\"\nperiod = \"1 ms\"")?;
        writeln!(file, "window = \"{lost}/{of}\"")?;
        writeln!(file, "source = {{ kind = \"cbr\", bytes = 200, rate = \"1 Mbit/s\" }}")?;
    }
    file.flush()
}

/// Returns the processor time of this thread so far, s.
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let times = fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = times.split_whitespace().next().unwrap_or("0").parse()?;
    Ok(ns / 1e9)
}

/// Returns the largest resident set of this process so far, bytes.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()).unwrap_or("0").parse()?;
    Ok(kib << 10)
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let streams: u32 = given.unwrap_or(1_000_000);
    let path = std::env::temp_dir().join(format!("millstream-bench-{}.toml", std::process::id()));
    write(&path, streams)?;
    let (before, busy) = (peak_bytes()?, processor_s()?);
    let start = Instant::now();
    let scenario = Scenario::load(&path);
    let seconds = start.elapsed().as_secs_f64();
    let busy = processor_s()? - busy;
    let peak = (peak_bytes()? - before) / u64::from(streams);
    let text = fs::metadata(&path)?.len() / u64::from(streams);
    fs::remove_file(&path)?;
    let read = scenario?.streams.len();
    println!("{read} streams: {seconds:.2} s, {busy:.2} of them on the processor");
    let size = size_of::<Stream>();
    println!(
        "at most {peak} bytes a stream ({text} of text); afterwards {size}, with its name apart"
    );
    Ok(())
}
