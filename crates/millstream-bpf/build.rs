//! Compiles the scheduler's C files natively, for the tests.

fn main() {
    println!("cargo::rerun-if-changed=src/c");
    cc::Build::new()
        .file("src/c/native.c")
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag("-Wno-unused-function")
        .flag("-Wno-sign-compare")
        .compile("millstream_scheduler");
}
