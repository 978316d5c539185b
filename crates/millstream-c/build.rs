//! Gives the shared library its soname: `libmillstream.so.` and the major version of the ABI.

use std::fs;

fn main() {
    println!("cargo:rerun-if-changed=src/version.rs");
    let source = fs::read_to_string("src/version.rs").expect("src/version.rs");
    let prefix = "pub const MS_ABI_MAJOR: u32 = ";
    let major = source.lines().find_map(|line| line.strip_prefix(prefix)?.strip_suffix(';'));
    let major = major.expect("a line with the major version");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmillstream.so.{major}");
}
