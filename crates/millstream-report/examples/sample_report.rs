//! Writes a report of synthetic traffic, to inspect the page without a simulation.
//!
//! Streams of known shapes share a link for some seconds: steady, bursty, late, starting half-way,
//! and one with a hostile name. Nothing is scheduled. A small generator with a fixed seed computes
//! the delays, so equal arguments give equal bytes.
//!
//! ```text
//! cargo run -p millstream-report --example sample_report -- /tmp/report.html [streams] [ms]
//! ```
//!
//! The table goes to standard output. `0` streams or milliseconds give the empty reports.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

use millstream::{Departure, Event, StreamId};
use millstream_report::{Recorder, RecorderOptions, ReportInput, Results, table, write_report};

/// The names of the streams; one tests the escaping of the report.
const NAMES: [&str; 5] =
    ["video", "voice", "backup", "<script>alert('größe')</script> & \"quotes\"", "sensors"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "/tmp/report.html".into());
    let streams: u32 = arguments.next().unwrap_or_else(|| "5".into()).parse()?;
    let milliseconds: u64 = arguments.next().unwrap_or_else(|| "10000".into()).parse()?;
    let results = synthetic_run(streams, milliseconds * 1_000_000);
    print!("{}", table(&results, None));
    let input = ReportInput {
        results: &results,
        scenario_name: "sample",
        scenario_text: "[scenario]\nname = \"sample\"\n\n[link]\nrate = \"100 Mbps\" # </pre>\n",
        discipline: "dwcs",
        structure: "heap",
        link_rate_bps: 100_000_000,
        notes: &["synthetic traffic: nothing was scheduled".to_owned()],
    };
    let mut file = BufWriter::new(File::create(path)?);
    write_report(&mut file, &input)?;
    file.flush()?;
    Ok(())
}

/// Returns the results of a run of `end_ns` with one packet per stream and millisecond.
fn synthetic_run(streams: u32, end_ns: u64) -> Results {
    let name = |stream: u32| {
        let extra = || format!("stream {stream} {}", "x".repeat(300));
        NAMES.get(stream as usize).map_or_else(extra, |name| (*name).to_owned())
    };
    let options = RecorderOptions { series: true };
    let mut recorder = Recorder::new((0..streams).map(name).collect(), options);
    let mut random = 1u64;
    for millisecond in 0..end_ns / 1_000_000 {
        let arrival_ns = millisecond * 1_000_000;
        for stream in 0..streams {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if stream % 5 == 4 && arrival_ns < end_ns / 2 {
                continue;
            }
            let bursting = millisecond % 1000 < 300;
            let bytes = match stream % 5 {
                0 => 1316,
                1 => 200,
                2 if bursting => 9000,
                2 => 1500,
                _ => 600,
            };
            let id = StreamId(stream);
            recorder.arrived(id, arrival_ns, bytes);
            let longest_ns = 30_000 << (stream % 5 * 2);
            let time_ns = arrival_ns + random % longest_ns;
            let late = stream % 5 == 3 && bursting && random.is_multiple_of(3);
            if late {
                recorder.missed(id, time_ns, 1, u64::from(random.is_multiple_of(2)));
            }
            let event = match (late, bursting) {
                (true, _) => Event::DroppedLate,
                (_, true) if stream % 5 == 2 && random.is_multiple_of(7) => Event::DroppedFull,
                _ => Event::Sent,
            };
            if event == Event::Sent {
                recorder.busy(time_ns, time_ns + u64::from(bytes) * 40);
            }
            recorder.departed(&Departure {
                time_ns,
                stream: id,
                packet: millisecond,
                bytes,
                arrival_ns,
                deadline_ns: None,
                event,
                tag: 0,
            });
        }
    }
    recorder.finish(end_ns)
}
