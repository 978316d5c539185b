//! Has no code: the benchmarks are `decision.rs` and `pipeline.rs`.
