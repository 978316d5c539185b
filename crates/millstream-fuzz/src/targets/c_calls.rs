//! For any sequence of calls of the C functions, no packet is lost and no call panics.

// Test code of the library, which has more calls.
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../../../millstream-c/tests/abi/driver.rs"]
mod driver;
#[path = "../../../millstream-c/tests/abi/random_calls.rs"]
mod random_calls;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "c_calls",
    first_parser: "the contracts of a scheduler",
    seeds,
    words: &[],
    mutate: Mutation::bytes,
    admits: None,
    run: random_calls::run,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut input = || (0..600).map(|_| random.u8(..)).collect::<Vec<_>>();
    // Of random bytes, some describe contracts that are refused.
    std::iter::repeat_with(&mut input).filter(|input| random_calls::run(input)).take(8).collect()
}
