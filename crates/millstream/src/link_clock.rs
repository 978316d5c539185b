//! The clocks of those who share a link: the link's own, and that of each class's share of it.
//!
//! ```text
//! link    |--a--|--b--|      |--a--|        busy: all transmissions
//! a's     0 . . . . . 1 1 1 2 . . . 3       runs while a is served and while the link is idle
//! ```
//!
//! A class's clock is the time minus what the link spent on others: t − busy(t) + own(t).

use crate::link::Link;

/// What the link has done so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkClock {
    link: Link,
    now_ns: u64,
    /// The end of the current transmission, or of the last.
    free_ns: u64,
    /// The length of all transmissions, the current one whole.
    busy_ns: u64,
    current_ns: u64,
    /// Which transmission is the current one.
    number: u64,
}

/// What one class had of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassClock {
    /// The length of its transmissions, the current one whole.
    served_ns: u64,
    /// The number of its last transmission.
    number: u64,
    /// Its clock at the end of that.
    served_until_ns: u64,
}

impl LinkClock {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, now_ns: 0, free_ns: 0, busy_ns: 0, current_ns: 0, number: 0 }
    }

    /// Time reaches `now_ns`; returns the latest time so far.
    #[inline]
    pub(crate) fn reach(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// The latest time so far.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// From when on the link is free.
    #[inline]
    pub(crate) fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// A transmission starts; the link is free.
    #[inline]
    pub(crate) fn send(&mut self, at_ns: u64, bytes: u32) {
        self.current_ns = self.link.transmission_ns(bytes);
        self.busy_ns = self.busy_ns.saturating_add(self.current_ns);
        self.free_ns = at_ns.saturating_add(self.current_ns);
        self.number += 1;
    }

    /// What is left of the current transmission at `at_ns`.
    fn left_ns(&self, at_ns: u64) -> u64 {
        self.free_ns.saturating_sub(at_ns)
    }
}

impl ClassClock {
    /// The current transmission is of this class.
    #[inline]
    pub(crate) fn serve(&mut self, link: &LinkClock) {
        self.served_ns = self.served_ns.saturating_add(link.current_ns);
        self.number = link.number;
        self.served_until_ns = self.at(link, link.free_ns);
    }

    /// The class's clock at `at_ns`.
    #[inline]
    pub(crate) fn at(&self, link: &LinkClock, at_ns: u64) -> u64 {
        let left_ns = link.left_ns(at_ns);
        let own_left_ns = if self.number == link.number { left_ns } else { 0 };
        let idle_ns = at_ns.saturating_sub(link.busy_ns - left_ns);
        idle_ns + (self.served_ns - own_left_ns)
    }

    /// Whether the class's clock has run on since its last service ended.
    #[inline]
    pub(crate) fn idle_since_service(&self, clock_ns: u64) -> bool {
        clock_ns > self.served_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_stands_still_while_others_are_served() {
        let mut link = LinkClock::new(Link { rate_bps: 8_000_000_000, overhead_bytes: 0 });
        let (mut a, mut b) = (ClassClock::default(), ClassClock::default());
        assert_eq!((a.at(&link, 5), b.at(&link, 5)), (5, 5));
        link.send(10, 100);
        a.serve(&link);
        assert_eq!((a.at(&link, 40), b.at(&link, 40)), (40, 10));
        link.send(110, 50);
        b.serve(&link);
        assert_eq!((a.at(&link, 130), b.at(&link, 130)), (110, 30));
        assert_eq!((a.at(&link, 170), b.at(&link, 170)), (120, 70));
        assert!(b.idle_since_service(b.at(&link, 161)) && !b.idle_since_service(60));
    }
}
