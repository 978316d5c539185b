//! SYN cookies: the sequence number that the router sends encodes the client's SYN, so a half-open
//! connection needs no state. Only a client that received the number can echo it.
//!
//! ```text
//! 31                      8 7     5 4     1    0
//! [ keyed hash of the rest ][ MSS    ][ scale ][ SACK ]
//! ```
//!
//! Source: RFC 4987, section 3.6 (SYN cookies).

use std::hash::{BuildHasher, RandomState};

use super::outgoing_segment::SynOptions;
use super::segment::Tuple;

/// Minimum lifetime of a cookie, ns; the maximum is twice that.
const PERIOD_NS: u64 = 64_000_000_000;
/// The MSS values that a cookie can encode; others round down.
const MSS_VALUES: [u16; 8] = [536, 1_200, 1_300, 1_360, 1_400, 1_420, 1_440, 1_460];
/// Encodes the absence of a window scale.
const NO_SCALE: u32 = 15;

/// The secret key of the cookies.
#[derive(Debug, Default)]
pub(super) struct Cookies(RandomState);

impl Cookies {
    /// Returns the cookie for a SYN of `tuple` with sequence number `sequence`.
    pub(super) fn number(
        &self,
        tuple: Tuple,
        sequence: u32,
        options: SynOptions,
        now_ns: u64,
    ) -> u32 {
        let length = MSS_VALUES.iter().rposition(|length| *length <= options.mss).unwrap_or(0);
        let length = u32::try_from(length).unwrap_or(0);
        let scale = options.scale.map_or(NO_SCALE, u32::from);
        let encoded = length << 5 | scale << 1 | u32::from(options.sack);
        self.cookie(tuple, sequence, encoded, now_ns / PERIOD_NS)
    }

    /// Returns the SYN options encoded in the cookie `number`; `None` if the cookie is invalid or
    /// expired.
    pub(super) fn options(
        &self,
        tuple: Tuple,
        sequence: u32,
        number: u32,
        now_ns: u64,
    ) -> Option<SynOptions> {
        let encoded = number & 0xff;
        let period = now_ns / PERIOD_NS;
        let is_ours = |period| self.cookie(tuple, sequence, encoded, period) == number;
        if !(is_ours(period) || period > 0 && is_ours(period - 1)) {
            return None;
        }
        let scale =
            u8::try_from(encoded >> 1 & 15).ok().filter(|scale| u32::from(*scale) != NO_SCALE);
        let mss = MSS_VALUES[(encoded >> 5 & 7) as usize];
        Some(SynOptions { mss, scale, sack: encoded & 1 == 1 })
    }

    fn cookie(&self, tuple: Tuple, sequence: u32, encoded: u32, period: u64) -> u32 {
        let hash = self.0.hash_one((tuple, sequence, encoded, period)).to_be_bytes();
        u32::from_be_bytes([hash[0], hash[1], hash[2], 0]) | encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    proptest! {
        #[test]
        fn only_issued_cookies_are_valid_until_they_expire(
            port in any::<u16>(), sequence in any::<u32>(), mss in 536..9_000u16,
            scale in proptest::option::of(0..15u8), sack in any::<bool>(),
            now_ns in 0..1u64 << 50,
            later_ns in 0..4 * PERIOD_NS, flip in 0..32u32,
        ) {
            let cookies = Cookies::default();
            let tuple = Tuple {
                source: SocketAddr::from(([10, 1, 0, 2], port)),
                destination: SocketAddr::from(([10, 2, 0, 2], 80)),
            };
            let options = SynOptions { mss, scale, sack };
            let number = cookies.number(tuple, sequence, options, now_ns);
            let back = cookies.options(tuple, sequence, number, now_ns + later_ns);
            if later_ns <= PERIOD_NS {
                let known = back.unwrap();
                prop_assert_eq!((known.scale, known.sack), (scale, sack));
                prop_assert!(known.mss <= mss && MSS_VALUES.contains(&known.mss));
            } else if later_ns > 2 * PERIOD_NS {
                // A cookie is valid by chance with a probability of about 2^-23.
                prop_assert_eq!(back, None);
            }
            prop_assert_eq!(cookies.options(tuple, sequence, number ^ 1 << flip, now_ns), None);
            prop_assert_eq!(cookies.options(tuple.reversed(), sequence, number, now_ns), None);
            prop_assert_eq!(Cookies::default().options(tuple, sequence, number, now_ns), None);
        }
    }
}
