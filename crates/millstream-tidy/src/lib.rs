//! Has no code: `tests/tidy.rs` checks the form of the tree.
