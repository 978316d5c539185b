//! Writes the conformance traces, and the kill matrix into `conformance/README.md`:
//! `cargo run -p millstream-reference --bin make-traces`.

use millstream_reference::{kills, run, traces};
use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = traces::all();
    for trace in &all {
        let folder = conformance.join("traces").join(&trace.name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("scenario.toml"), trace.scenario())?;
        fs::write(folder.join("arrivals.csv"), trace.arrivals_csv())?;
        let outcome = run(&trace.spec, &trace.arrivals, None);
        fs::write(folder.join("departures.csv"), traces::departures_csv(&outcome))?;
        println!("{}: {} departures", trace.name, outcome.rows.len());
    }
    let readme = conformance.join("README.md");
    let text = kills::replace_summary(&fs::read_to_string(&readme)?, &kills::summary(&all));
    fs::write(readme, text.ok_or_else(|| io::Error::other("README.md has no kill matrix lines"))?)
}
