//! Compiles the scheduler's C file natively, for the tests.

fn main() {
    println!("cargo::rerun-if-changed=src/c/scheduler.h");
    println!("cargo::rerun-if-changed=src/c/native.c");
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
