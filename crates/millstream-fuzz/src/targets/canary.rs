//! A parser with a planted bug: a driver that does not find it tests nothing.
//!
//! The bug is behind a magic number and a checksum. A driver also fails if its mutants no longer
//! pass first parsers.

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "canary",
    first_parser: "a magic number and a checksum",
    seeds,
    words: &[b"CNRY"],
    mutate: Mutation::bytes,
    admits: Some(|input| body(input).is_some()),
    run,
};

const MAGIC: &[u8] = b"CNRY";

fn seeds() -> Vec<Vec<u8>> {
    vec![b"CNRY\x06\x01\x02\x03".to_vec()]
}

/// Returns the bytes after the magic number and the sum, if both are valid.
fn body(input: &[u8]) -> Option<&[u8]> {
    let (sum, body) = input.strip_prefix(MAGIC)?.split_first()?;
    (body.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)) == *sum).then_some(body)
}

fn run(input: &[u8]) -> bool {
    let Some(body) = body(input) else { return false };
    assert!(body.len() < 5, "the planted bug: {} bytes", body.len());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_valid_and_does_not_trigger_the_bug() {
        assert!(seeds().iter().all(|seed| run(seed)));
        assert!(!run(b"CNRY\x07\x01\x02\x03"));
    }
}
