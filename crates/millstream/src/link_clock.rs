//! Clocks of a shared link: the link's own, and one for each class's share of it.
//!
//! ```text
//! link    |--a--|--b--|      |--a--|        busy: all transmissions
//! a's     0 . . . . . 1 1 1 2 . . . 3       runs while a is served and while the link is idle
//! ```
//!
//! A class's clock is the time minus the transmissions of other classes: t − busy(t) + own(t). It
//! also stops while the link is idle and only a rate cap, the class's own or an ancestor's, holds
//! back its packets. For the streams below, a cap acts as a slower link.

use crate::link::Link;

/// The link's transmissions so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkClock {
    link: Link,
    now_ns: u64,
    /// The end of the current or last transmission.
    free_ns: u64,
    /// The duration of all transmissions, including all of the current one.
    busy_ns: u64,
    current_ns: u64,
    /// The number of the current transmission.
    number: u64,
}

/// The clock of one class. Its *idle time* is the link's idle time, less the time for which caps
/// stopped its ancestors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassClock {
    /// The idle time during earlier stops of the class by its cap.
    held_ns: u64,
    /// The idle time at which the current stop began, if there is one.
    held_from_ns: Option<u64>,
    /// The duration of its transmissions, including all of the current one.
    served_ns: u64,
    /// The number of its last transmission.
    number: u64,
    /// The class's clock at the end of that transmission.
    served_until_ns: u64,
}

impl LinkClock {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, now_ns: 0, free_ns: 0, busy_ns: 0, current_ns: 0, number: 0 }
    }

    /// Returns the link.
    #[inline]
    pub(crate) fn link(&self) -> Link {
        self.link
    }

    /// Advances time to `now_ns`; returns the latest time so far.
    #[inline]
    pub(crate) fn reach(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// Returns the latest time so far.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the time from which the link is free.
    #[inline]
    pub(crate) fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// Starts a transmission on the free link.
    #[inline]
    pub(crate) fn send(&mut self, at_ns: u64, bytes: u32) {
        self.free_ns = at_ns.saturating_add(self.link.transmission_ns(bytes));
        // Ends with time at the latest: a longer one would reduce the idle time.
        self.current_ns = self.free_ns - at_ns;
        self.busy_ns += self.current_ns;
        self.number += 1;
    }

    /// Returns the total idle time of the link up to `at_ns`.
    #[inline]
    pub(crate) fn idle_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.busy_ns - self.left_ns(at_ns))
    }

    /// Returns the remaining time of the current transmission at `at_ns`.
    #[inline]
    fn left_ns(&self, at_ns: u64) -> u64 {
        self.free_ns.saturating_sub(at_ns)
    }
}

impl ClassClock {
    /// Assigns the current transmission to this class; `idle_ns` is the class's idle time.
    #[inline]
    pub(crate) fn serve(&mut self, link: &LinkClock, idle_ns: u64) {
        self.served_ns = self.served_ns.saturating_add(link.current_ns);
        self.number = link.number;
        self.served_until_ns = idle_ns + self.served_ns;
    }

    /// Returns the class's clock at `at_ns`, when its idle time is `idle_ns`.
    #[inline]
    pub(crate) fn at(&self, link: &LinkClock, at_ns: u64, idle_ns: u64) -> u64 {
        let own_left_ns = if self.number == link.number { link.left_ns(at_ns) } else { 0 };
        idle_ns + (self.served_ns - own_left_ns)
    }

    /// Returns its idle time, given that of its parent.
    #[inline]
    pub(crate) fn idle_ns(&self, above_ns: u64) -> u64 {
        self.held_from_ns.unwrap_or(above_ns) - self.held_ns
    }

    /// Starts or ends a stop by the cap when the idle time of the parent is `above_ns`.
    #[inline]
    pub(crate) fn hold(&mut self, held: bool, above_ns: u64) {
        match self.held_from_ns {
            None if held => self.held_from_ns = Some(above_ns),
            Some(from_ns) if !held => {
                self.held_ns += above_ns - from_ns;
                self.held_from_ns = None;
            }
            _ => {}
        }
    }

    /// Returns whether the class's clock has advanced since its last service ended.
    #[inline]
    pub(crate) fn idle_since_service(&self, clock_ns: u64) -> bool {
        clock_ns > self.served_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_stops_while_other_classes_are_served() {
        let mut link = LinkClock::new(Link::new(8_000_000_000, 0));
        let (mut a, mut b) = (ClassClock::default(), ClassClock::default());
        let at = |class: &ClassClock, link: &LinkClock, at_ns| {
            class.at(link, at_ns, class.idle_ns(link.idle_ns(at_ns)))
        };
        assert_eq!((at(&a, &link, 5), at(&b, &link, 5)), (5, 5));
        link.send(10, 100);
        a.serve(&link, link.idle_ns(10));
        assert_eq!((at(&a, &link, 40), at(&b, &link, 40)), (40, 10));
        link.send(110, 50);
        b.serve(&link, link.idle_ns(110));
        assert_eq!((at(&a, &link, 130), at(&b, &link, 130)), (110, 30));
        assert_eq!((at(&a, &link, 170), at(&b, &link, 170)), (120, 70));
        assert!(b.idle_since_service(at(&b, &link, 161)) && !b.idle_since_service(60));
    }

    #[test]
    fn transmissions_end_at_the_last_instant() {
        let mut link = LinkClock::new(Link::new(8_000_000_000, 0));
        let mut class = ClassClock::default();
        for at_ns in [u64::MAX - 50, u64::MAX, u64::MAX] {
            link.send(at_ns, 100);
            class.serve(&link, link.idle_ns(at_ns));
            assert_eq!(link.idle_ns(u64::MAX), u64::MAX - 50);
            assert_eq!(class.at(&link, u64::MAX, u64::MAX - 50), u64::MAX);
        }
    }

    #[test]
    fn a_clock_stops_while_the_class_is_held_back() {
        let link = LinkClock::new(Link::default());
        let (mut above, mut below) = (ClassClock::default(), ClassClock::default());
        above.hold(true, 10);
        assert_eq!(above.idle_ns(30), 10);
        // Time in which caps stop both classes counts once.
        below.hold(true, above.idle_ns(20));
        above.hold(false, 40);
        assert_eq!((above.idle_ns(45), below.idle_ns(above.idle_ns(45))), (15, 10));
        below.hold(true, above.idle_ns(50));
        below.hold(false, above.idle_ns(60));
        assert_eq!((above.idle_ns(70), below.idle_ns(above.idle_ns(70))), (40, 20));
        assert_eq!(below.at(&link, 70, 20), 20);
    }
}
