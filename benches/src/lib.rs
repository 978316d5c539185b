//! Empty: the benchmarks are the other files.
