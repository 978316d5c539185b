//! `hilq-exact` is `scan`, packet for packet: overload, drops, sparse arrivals, huge gaps, ties, closed
//! gates, and time near its end.

#[path = "support/duel.rs"]
mod duel;

use duel::{Choose, duel};

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Choose for Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[test]
fn a_hundred_thousand_random_lives_equal_those_of_a_scan() {
    for seed in 0..100_000 {
        duel(&mut Random(seed), 60);
    }
}

/// Long enough for the ring to be rearranged, to grow and to be left behind.
#[test]
fn long_lives_equal_those_of_a_scan() {
    for seed in 0..200 {
        duel(&mut Random(1 << 40 | seed), 20_000);
    }
}
