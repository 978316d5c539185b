//! Empty: the benchmarks are `decision.rs` and `pipeline.rs`.
