//! What the router remembers of a connection that was only begun: nothing. The sequence number that it tells the client
//! says all, and only who got it can say it again.
//!
//! ```text
//! 31                      8 7     5 4     1    0
//! [ keyed hash of the rest ][ length ][ scale ][ selective ]
//! ```
//!
//! Source: RFC 4987, section 3.6 (SYN cookies).

use std::hash::{BuildHasher, RandomState};

use super::outgoing_segment::SynOptions;
use super::segment::Tuple;

/// How long a number is good for, at least, ns; twice as long at most.
const PERIOD_NS: u64 = 64_000_000_000;
/// Lengths of segments that are told apart; a client's is taken for the next below it.
const LENGTHS: [u16; 8] = [536, 1_200, 1_300, 1_360, 1_400, 1_420, 1_440, 1_460];
/// In place of a scale: none.
const NO_SCALE: u32 = 15;

/// A key for numbers.
#[derive(Debug, Default)]
pub(super) struct Cookies(RandomState);

impl Cookies {
    /// The number for a client that begins a connection by `tuple` with the number `sequence`.
    pub(super) fn number(
        &self,
        tuple: Tuple,
        sequence: u32,
        options: SynOptions,
        now_ns: u64,
    ) -> u32 {
        let length = LENGTHS.iter().rposition(|length| *length <= options.length).unwrap_or(0);
        let length = u32::try_from(length).unwrap_or(0);
        let scale = options.scale.map_or(NO_SCALE, u32::from);
        let said = length << 5 | scale << 1 | u32::from(options.selective);
        self.whole(tuple, sequence, said, now_ns / PERIOD_NS)
    }

    /// What the client said that was given `number`; `None` if it was not.
    pub(super) fn options(
        &self,
        tuple: Tuple,
        sequence: u32,
        number: u32,
        now_ns: u64,
    ) -> Option<SynOptions> {
        let said = number & 0xff;
        let period = now_ns / PERIOD_NS;
        let is_ours = |period| self.whole(tuple, sequence, said, period) == number;
        if !(is_ours(period) || period > 0 && is_ours(period - 1)) {
            return None;
        }
        let scale = u8::try_from(said >> 1 & 15).ok().filter(|scale| u32::from(*scale) != NO_SCALE);
        let length = LENGTHS[(said >> 5 & 7) as usize];
        Some(SynOptions { length, scale, selective: said & 1 == 1 })
    }

    fn whole(&self, tuple: Tuple, sequence: u32, said: u32, period: u64) -> u32 {
        let hash = self.0.hash_one((tuple, sequence, said, period)).to_be_bytes();
        u32::from_be_bytes([hash[0], hash[1], hash[2], 0]) | said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    proptest! {
        #[test]
        fn only_what_was_given_is_believed_and_not_for_ever(
            port in any::<u16>(), sequence in any::<u32>(), length in 536..9_000u16,
            scale in proptest::option::of(0..15u8), selective in any::<bool>(), now_ns in 0..1u64 << 50,
            later_ns in 0..4 * PERIOD_NS, flip in 0..32u32,
        ) {
            let cookies = Cookies::default();
            let tuple = Tuple {
                source: SocketAddr::from(([10, 1, 0, 2], port)),
                destination: SocketAddr::from(([10, 2, 0, 2], 80)),
            };
            let options = SynOptions { length, scale, selective };
            let number = cookies.number(tuple, sequence, options, now_ns);
            let back = cookies.options(tuple, sequence, number, now_ns + later_ns);
            if later_ns <= PERIOD_NS {
                let known = back.unwrap();
                prop_assert_eq!((known.scale, known.selective), (scale, selective));
                prop_assert!(known.length <= length && LENGTHS.contains(&known.length));
            } else if later_ns > 2 * PERIOD_NS {
                // One of 2^23 or so is right by chance.
                prop_assert_eq!(back, None);
            }
            prop_assert_eq!(cookies.options(tuple, sequence, number ^ 1 << flip, now_ns), None);
            prop_assert_eq!(cookies.options(tuple.reversed(), sequence, number, now_ns), None);
            prop_assert_eq!(Cookies::default().options(tuple, sequence, number, now_ns), None);
        }
    }
}
