//! Paces a port's output to its link rate: when the link is free, and when it accepts packets.
//!
//! Packets are given to the link in *runs*: one packet, or as many as the link carries in its
//! `burst` time. The default of `burst` is 100 µs.
//!
//! ```text
//!  link      |-- packet --|-- packet --|-- packet --|
//!  given     ^            ^ not before 0.9 of the last run's link time has passed,
//!                           nor earlier than `burst` before the link is free
//! ```
//!
//! The scheduler decides when a packet is given to the link, so a packet of high priority waits
//! only for the last run. The link catches up after a late run: it accepts packets up to `burst`
//! ahead. Runs then follow each other at 10/9 of the link rate. A delay beyond `burst` leaves the
//! link idle, and that time is lost.

use millstream::Link;

/// The default of `burst`, ns. A sleeping thread often wakes about 60 000 ns late; the link must
/// stay busy meanwhile.
pub(crate) const BURST_NS: u64 = 100_000;
/// The delay before a port that accepted nothing is tried again, ns.
const RETRY_NS: u64 = 10_000;
/// The shortest time from one run to the next, in tenths of the first run's link time.
const CATCH_UP_TENTHS: u64 = 9;

/// A link that transmits packets at a given rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacedLink {
    link: Link,
    /// The rate at which it sends, bits/s: at most that of `link`.
    rate_bps: u64,
    burst_ns: u64,
    /// The bytes on the wire that the link carries in `burst_ns`.
    burst_bytes: u64,
    /// The time when the link has transmitted all packets given to it, ns.
    free_ns: u64,
    /// The link's total idle time before `free_ns`, ns.
    idle_ns: u64,
    /// The time when the last run began, ns.
    run_ns: u64,
    /// The link time of the last run, ns.
    run_takes_ns: u64,
    /// The bytes of the last run, on the wire.
    run_bytes: u64,
    /// The earliest time of the next run, ns.
    next_run_ns: u64,
    /// The time before `free_ns` in which `link` would be idle, since it is faster, ns.
    slower_ns: u64,
    /// The bytes of all packets, on the wire.
    sent_bytes: u64,
}

impl PacedLink {
    /// Creates an idle link.
    pub(crate) fn new(link: Link) -> Self {
        let mut paced = Self {
            link,
            rate_bps: link.rate_bps,
            burst_ns: BURST_NS,
            burst_bytes: 0,
            free_ns: 0,
            idle_ns: 0,
            run_ns: 0,
            run_takes_ns: 0,
            run_bytes: 0,
            next_run_ns: 0,
            slower_ns: 0,
            sent_bytes: 0,
        };
        paced.set_link(link);
        paced
    }

    /// Sets the link of packets given from now on.
    pub(crate) fn set_link(&mut self, link: Link) {
        self.link = link;
        self.set_rate(link.rate_bps);
    }

    /// Sets the rate at which packets are sent from now on, bits/s, at most that of the link.
    ///
    /// The difference to the link's rate counts as [idle time](Self::idle_ns), so that a
    /// discipline for the link's rate does not run ahead of the packets.
    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = rate_bps.min(self.link.rate_bps);
        self.set_burst(self.burst_ns);
    }

    /// Returns the bytes of all packets that it was given, on the wire.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Sets the longest link time of a run of several packets, ns.
    pub(crate) fn set_burst(&mut self, burst_ns: u64) {
        self.burst_ns = burst_ns;
        let bytes = u128::from(burst_ns) * u128::from(self.rate_bps) / 8_000_000_000;
        self.burst_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    /// Returns the length of a packet of `bytes` on the wire, bytes.
    #[inline]
    pub(crate) fn wire_bytes(&self, bytes: u32) -> u64 {
        self.link.wire_bytes(bytes)
    }

    /// Returns whether the link accepts packets at `now_ns`.
    #[inline]
    pub(crate) fn has_room(&self, now_ns: u64) -> bool {
        self.free_ns <= now_ns.saturating_add(self.burst_ns)
            && (self.next_run_ns <= now_ns || self.run_bytes < self.burst_bytes)
    }

    /// Returns how many more packets a run at `now_ns` may have, at most `most`. The run has
    /// `packets` packets of `bytes` on the wire in all; no packet is longer than `longest_bytes`.
    /// The first packet of a run always fits.
    #[inline]
    pub(crate) fn run_room(
        &self,
        now_ns: u64,
        (packets, bytes): (usize, u64),
        longest_bytes: u32,
        most: usize,
    ) -> usize {
        let begun = if now_ns < self.next_run_ns { self.run_bytes } else { 0 };
        let left = self.burst_bytes.saturating_sub(begun + bytes);
        let longest = self.wire_bytes(longest_bytes).max(1);
        // Avoids the division on fast links.
        if longest.saturating_mul(most as u64) <= left {
            return most;
        }
        let more = usize::try_from(left / longest).unwrap_or(usize::MAX);
        let first = begun == 0 && packets == 0;
        more.max(usize::from(first)).min(most)
    }

    /// Returns when to call [`has_room`](Self::has_room) again, ns.
    pub(crate) fn room_at_ns(&self, now_ns: u64) -> u64 {
        let room_ns = self.free_ns.saturating_sub(self.burst_ns).max(self.next_run_ns);
        if room_ns > now_ns { room_ns } else { now_ns + RETRY_NS }
    }

    /// Records that the last run left the device at `now_ns`; the next run keeps its distance from
    /// that time.
    pub(crate) fn run_left(&mut self, now_ns: u64) {
        self.run_ns = now_ns;
        self.next_run_ns = now_ns + self.shortest_gap_ns();
    }

    fn shortest_gap_ns(&self) -> u64 {
        (self.run_takes_ns * CATCH_UP_TENTHS).div_ceil(10)
    }

    /// Returns the link's total idle time until `now_ns`, ns.
    #[inline]
    pub(crate) fn idle_ns(&self, now_ns: u64) -> u64 {
        let idle_ns = self.idle_ns + now_ns.saturating_sub(self.free_ns);
        if self.slower_ns == 0 { idle_ns } else { idle_ns + self.slower_until_ns(now_ns) }
    }

    /// Returns the part of `slower_ns` that has passed at `now_ns`, ns: its last part is next to
    /// `free_ns`.
    fn slower_until_ns(&self, now_ns: u64) -> u64 {
        self.slower_ns.saturating_sub(self.free_ns.saturating_sub(now_ns))
    }

    /// Records that packets of these lengths, bytes, were given to the link at `now_ns`.
    #[inline]
    pub(crate) fn record_sent(&mut self, now_ns: u64, lengths: impl Iterator<Item = u32>) {
        let bytes = lengths.map(|bytes| self.wire_bytes(bytes)).sum::<u64>();
        if bytes == 0 {
            return;
        }
        let at_rate = |rate_bps: u64| bytes.saturating_mul(8_000_000_000).div_ceil(rate_bps.max(1));
        let takes_ns = at_rate(self.rate_bps);
        self.sent_bytes += bytes;
        if now_ns >= self.next_run_ns {
            (self.run_ns, self.run_takes_ns, self.run_bytes) = (now_ns, 0, 0);
        }
        self.run_takes_ns += takes_ns;
        self.run_bytes += bytes;
        self.next_run_ns = self.run_ns + self.shortest_gap_ns();
        self.idle_ns = self.idle_ns(now_ns);
        if self.slower_ns > 0 {
            self.slower_ns -= self.slower_until_ns(now_ns);
        }
        if self.rate_bps < self.link.rate_bps {
            self.slower_ns += takes_ns - at_rate(self.link.rate_bps);
        }
        self.free_ns = self.free_ns.max(now_ns) + takes_ns;
    }
}

#[cfg(test)]
mod tests;
