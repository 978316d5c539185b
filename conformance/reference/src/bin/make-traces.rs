//! Writes the conformance traces: `cargo run -p millstream-reference --bin make-traces`.

use millstream_reference::{run, traces};
use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    for trace in traces::all() {
        let folder = folder.join(trace.name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("scenario.toml"), trace.scenario())?;
        fs::write(folder.join("arrivals.csv"), trace.arrivals_csv())?;
        let outcome = run(&trace.spec, &trace.arrivals, None);
        fs::write(folder.join("departures.csv"), traces::departures_csv(&outcome))?;
        println!("{}: {} departures", trace.name, outcome.rows.len());
    }
    Ok(())
}
