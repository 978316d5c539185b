//! The committed header equals what cbindgen writes. `MILLSTREAM_WRITE_HEADER=1` writes it.

use std::path::Path;

#[test]
fn the_header_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    // The order of the header.
    for file in ["version", "status", "packet", "contract", "options", "scheduler", "functions"] {
        builder = builder.with_src(folder.join("src").join(file).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let header = folder.join("include/millstream.h");
    if std::env::var_os("MILLSTREAM_WRITE_HEADER").is_some() {
        std::fs::write(&header, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&header).unwrap_or_default();
    let command = "MILLSTREAM_WRITE_HEADER=1 cargo test -p millstream-c header";
    assert!(committed == text, "include/millstream.h is not current; run {command}");
}
