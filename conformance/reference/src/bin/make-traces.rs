//! Writes the conformance traces, `conformance/DIGESTS`, and the kill matrix of
//! `conformance/README.md`: `cargo run -p millstream-reference --bin make-traces`.
//!
//! Generated traces go to `target/traces`. With `--generated FOLDER` it writes only these, to
//! FOLDER.

use millstream_reference::files::TraceFiles;
use millstream_reference::{files, kills, traces};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [option, folder] = &arguments[..]
        && option == "--generated"
    {
        return files::generated().iter().try_for_each(|trace| trace.write(Path::new(folder)));
    }
    if !arguments.is_empty() {
        return Err(io::Error::other("usage: make-traces [--generated FOLDER]"));
    }
    let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (generated, committed): (Vec<_>, Vec<_>) =
        files::all().into_iter().partition(TraceFiles::is_generated);
    for (traces, folder) in [
        (&committed, conformance.join("traces")),
        (&generated, conformance.join("../target/traces")),
    ] {
        for trace in traces {
            println!("{}", trace.name);
            trace.write(&folder)?;
        }
    }
    fs::write(conformance.join("DIGESTS"), files::digests(&generated))?;
    let readme = conformance.join("README.md");
    let summary = kills::summary(&traces::all());
    let text = kills::replace_summary(&fs::read_to_string(&readme)?, &summary);
    fs::write(readme, text.ok_or_else(|| io::Error::other("README.md has no kill matrix lines"))?)
}
