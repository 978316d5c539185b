//! Back-off after wrong passwords and tokens, over all connections.
//!
//! Two counters exist: wrong credentials of an address, and wrong credentials of an address for one
//! user. After some free attempts, each further one doubles the time for which the next is refused
//! unread:
//!
//! | of | free | first delay | longest delay |
//! |---|--:|--:|--:|
//! | an address and a user | 4 | 1 s | 64 s |
//! | an address | 16 | 250 ms | 16 s |
//!
//! Wrong credentials are not counted by user alone: that would let an attacker lock a user out. So
//! a right password from an address that has not guessed is never refused. Behind one address
//! (NAT), guesses for one user delay the other users only after many guesses from that address.
//!
//! Users are stored as keyed hashes, in at most [`ENTRIES`] entries. A full table drops expired
//! entries first, then the entry whose delay ends first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use crate::pages::rejects::limited_address;

/// The most entries, about 64 bytes each.
const ENTRIES: usize = 4096;

/// An entry expires this long after its delay, ns.
const EXPIRY_NS: u64 = 600_000_000_000;

/// The number of free attempts, and the delays after them.
#[derive(Clone, Copy, Debug)]
struct BackOffPolicy {
    free: u32,
    first_ns: u64,
    longest_ns: u64,
}

const USER_POLICY: BackOffPolicy =
    BackOffPolicy { free: 4, first_ns: 1_000_000_000, longest_ns: 64_000_000_000 };
const ADDRESS_POLICY: BackOffPolicy =
    BackOffPolicy { free: 16, first_ns: 250_000_000, longest_ns: 16_000_000_000 };

impl BackOffPolicy {
    /// Returns the delay after `wrong` wrong credentials, ns.
    fn delay_ns(self, wrong: u32) -> u64 {
        match wrong.checked_sub(self.free) {
            None | Some(0) => 0,
            Some(beyond) => {
                let doubled = 1u64.checked_shl(beyond - 1).unwrap_or(u64::MAX);
                self.first_ns.saturating_mul(doubled).min(self.longest_ns)
            }
        }
    }
}

/// An address, or an address and the hash of a user.
type Key = (IpAddr, Option<u64>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    wrong: u32,
    /// The end of the delay, ns.
    until_ns: u64,
}

impl Entry {
    fn is_expired(&self, now_ns: u64) -> bool {
        now_ns > self.until_ns.saturating_add(EXPIRY_NS)
    }
}

/// Recent wrong credentials, by address and by address and user.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    entries: HashMap<Key, Entry>,
    hasher: RandomState,
}

impl BackOff {
    /// Returns how long credentials for `user` from `peer` are still refused, ns; `None`: they may
    /// be read.
    pub(crate) fn wait_ns(&self, peer: IpAddr, user: Option<&str>, now_ns: u64) -> Option<u64> {
        let until = |(key, _): (Key, _)| self.entries.get(&key).map(|entry| entry.until_ns);
        let until_ns = self.keys(peer, user).filter_map(until).max()?;
        until_ns.checked_sub(now_ns).filter(|wait_ns| *wait_ns > 0)
    }

    /// Counts wrong credentials for `user` from `peer`.
    pub(crate) fn wrong(&mut self, peer: IpAddr, user: Option<&str>, now_ns: u64) {
        let keys: Vec<_> = self.keys(peer, user).collect();
        for (key, policy) in keys {
            if !self.entries.contains_key(&key) {
                self.evict(now_ns);
            }
            let entry = self.entries.entry(key).or_insert(Entry { wrong: 0, until_ns: now_ns });
            if entry.is_expired(now_ns) {
                entry.wrong = 0;
            }
            entry.wrong = entry.wrong.saturating_add(1);
            entry.until_ns = now_ns.saturating_add(policy.delay_ns(entry.wrong));
        }
    }

    /// Clears the entry of `user` and `peer` after right credentials. The entry of the address
    /// still counts.
    pub(crate) fn right(&mut self, peer: IpAddr, user: &str) {
        let key = self.key(peer, user);
        self.entries.remove(&key);
    }

    fn key(&self, peer: IpAddr, user: &str) -> Key {
        (limited_address(peer), Some(self.hasher.hash_one(user)))
    }

    fn keys(&self, peer: IpAddr, user: Option<&str>) -> impl Iterator<Item = (Key, BackOffPolicy)> {
        let of_user = user.map(|user| (self.key(peer, user), USER_POLICY));
        [((limited_address(peer), None), ADDRESS_POLICY)].into_iter().chain(of_user)
    }

    fn evict(&mut self, now_ns: u64) {
        if self.entries.len() < ENTRIES {
            return;
        }
        self.entries.retain(|_, entry| !entry.is_expired(now_ns));
        if self.entries.len() >= ENTRIES
            && let Some(first) =
                self.entries.iter().min_by_key(|(_, entry)| entry.until_ns).map(|(key, _)| *key)
        {
            self.entries.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Returns how many guesses of one address, one per 10 ms, are read within `seconds`.
    fn read(back_off: &mut BackOff, seconds: u64, user: impl Fn(u64) -> Option<String>) -> u64 {
        let guesses = (0..seconds * 100).map(|number| number * 10_000_000);
        let is_read = |(number, now_ns): &(u64, u64)| {
            let user = user(*number);
            let read = back_off.wait_ns(address(1), user.as_deref(), *now_ns).is_none();
            if read {
                back_off.wrong(address(1), user.as_deref(), *now_ns);
            }
            read
        };
        (0..).zip(guesses).filter(is_read).count() as u64
    }

    #[test]
    fn few_of_many_guesses_are_read() {
        // Five guesses are read at once, then one after each of 1, 2, 4 … 64 s.
        let one_user = |_| Some("ann".to_owned());
        assert_eq!(read(&mut BackOff::default(), 4, one_user), 5 + 2);
        assert_eq!(read(&mut BackOff::default(), 3_600, one_user), 5 + 6 + 55);
        // Seventeen guesses are read at once, then one after each of 250 ms, 500 ms … 16 s. A new
        // user per guess, or tokens, make no difference.
        let many_users = |number| Some(format!("user{number}"));
        assert_eq!(read(&mut BackOff::default(), 4, many_users), 17 + 4);
        assert_eq!(read(&mut BackOff::default(), 3_600, many_users), 17 + 6 + 224);
        assert_eq!(read(&mut BackOff::default(), 4, |_| None), 17 + 4);
    }

    #[test]
    fn guesses_do_not_lock_a_user_out_at_other_addresses() {
        let mut back_off = BackOff::default();
        for _ in 0..1_000 {
            back_off.wrong(address(1), Some("ann"), 0);
        }
        assert_eq!(back_off.wait_ns(address(1), Some("ann"), SECOND), Some(63 * SECOND));
        assert_eq!(back_off.wait_ns(address(2), Some("ann"), SECOND), None);
        // Other users behind the address wait less, and only because it guessed often.
        assert_eq!(back_off.wait_ns(address(1), Some("bob"), SECOND), Some(15 * SECOND));
        let mut few = BackOff::default();
        (0..8).for_each(|_| few.wrong(address(1), Some("ann"), 0));
        assert_eq!(few.wait_ns(address(1), Some("bob"), 0), None);
        // An IPv6 client holds its whole /64.
        let [one, other] = ["2001:db8::1", "2001:db8::2:0:0:1"].map(|text| text.parse().unwrap());
        (0..20).for_each(|_| few.wrong(one, None, 0));
        assert!(few.wait_ns(other, None, 0).is_some());
    }

    #[test]
    fn entries_expire_or_are_cleared_by_right_credentials() {
        let mut back_off = BackOff::default();
        (0..5).for_each(|_| back_off.wrong(address(1), Some("ann"), 0));
        assert_eq!(back_off.wait_ns(address(1), Some("ann"), 0), Some(SECOND));
        back_off.right(address(1), "ann");
        assert_eq!(back_off.wait_ns(address(1), Some("ann"), 0), None);
        (0..5).for_each(|_| back_off.wrong(address(1), Some("ann"), 0));
        let later_ns = SECOND + EXPIRY_NS + 1;
        back_off.wrong(address(1), Some("ann"), later_ns);
        assert_eq!(back_off.wait_ns(address(1), Some("ann"), later_ns), None, "the first again");
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_longest_delays() {
        let mut back_off = BackOff::default();
        for _ in 0..30 {
            back_off.wrong(address(1), None, 0);
        }
        for number in 0..3 * ENTRIES as u64 {
            let peer = IpAddr::from(std::net::Ipv4Addr::from_bits(u32::try_from(number).unwrap()));
            back_off.wrong(peer, None, number);
        }
        assert_eq!(back_off.entries.len(), ENTRIES);
        assert!(back_off.wait_ns(address(1), None, 0).is_some());
    }
}
