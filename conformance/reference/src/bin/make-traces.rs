//! Writes the conformance traces, and the kill matrix into `conformance/README.md`:
//! `cargo run -p millstream-reference --bin make-traces`.

use millstream_reference::{kills, run, shares, traces};
use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = traces::all();
    let write = |name: &str, files: [(&str, String); 3]| -> io::Result<()> {
        let folder = conformance.join("traces").join(name);
        fs::create_dir_all(&folder)?;
        println!("{name}");
        files.iter().try_for_each(|(file, text)| fs::write(folder.join(file), text))
    };
    for trace in &all {
        let outcome = run(&trace.spec, &trace.arrivals, None);
        let files = [
            ("scenario.toml", trace.scenario()),
            ("arrivals.csv", trace.arrivals_csv()),
            ("departures.csv", traces::departures_csv(&outcome)),
        ];
        write(&trace.name, files)?;
    }
    for trace in shares::all() {
        let files = [
            ("scenario.toml", trace.scenario()),
            ("arrivals.csv", trace.arrivals_csv()),
            ("departures.csv", trace.departures_csv()),
        ];
        write(&trace.name, files)?;
    }
    let readme = conformance.join("README.md");
    let text = kills::replace_summary(&fs::read_to_string(&readme)?, &kills::summary(&all));
    fs::write(readme, text.ok_or_else(|| io::Error::other("README.md has no kill matrix lines"))?)
}
