//! Eligibility of streams and classes: credits and rate caps.

use crate::discipline::Activation;
use crate::packet::StreamId;

use super::{Class, ClassId, Tree};

impl Tree {
    /// Advances time to `now_ns` and opens the gates that time opens, each at its time. Returns the
    /// latest time so far, to which clocks advance.
    pub(super) fn advance(&mut self, now_ns: u64) -> u64 {
        self.open_gates(now_ns);
        self.clock.reach(now_ns)
    }

    /// Advances time to `now_ns` for an event that precedes the gates which open at `now_ns`.
    pub(super) fn advance_before_gates(&mut self, now_ns: u64) -> u64 {
        if let Some(before_ns) = now_ns.checked_sub(1) {
            self.open_gates(before_ns);
        }
        self.clock.reach(now_ns)
    }

    /// Opens the gates that time opens up to `until_ns`.
    #[inline]
    fn open_gates(&mut self, until_ns: u64) {
        if self.next_eligible_ns().is_some_and(|from_ns| from_ns <= until_ns) {
            self.open_next_gates(until_ns);
        }
    }

    /// Opens gates in time order; at one instant streams precede classes.
    #[cold]
    fn open_next_gates(&mut self, until_ns: u64) {
        loop {
            let backlog = &mut self.backlog;
            let class_ns = backlog.class_gates.next_opening_ns().unwrap_or(u64::MAX);
            if let Some((from_ns, stream)) =
                backlog.stream_gates.pop_opening(class_ns.min(until_ns))
            {
                let at_ns = self.clock.reach(from_ns);
                self.update_stream_gate(stream, at_ns, from_ns);
            } else if let Some((from_ns, class)) = backlog.class_gates.pop_opening(until_ns) {
                let at_ns = self.clock.reach(from_ns);
                self.update_gates_above(ClassId(class.0), at_ns, from_ns);
            } else {
                return;
            }
        }
    }

    /// Advances a class's clock, which ends the busy period of an empty class.
    pub(super) fn advance_class(&mut self, class: ClassId, at_ns: u64) {
        let idle_ns = self.idle_ns(class, at_ns);
        let Class { node, clock, waiting, .. } = &mut self.classes[class.index()];
        let clock_ns = clock.at(&self.clock, at_ns, idle_ns);
        if waiting.packets == 0 && clock.idle_since_service(clock_ns) {
            node.idle();
        }
        node.advance(clock_ns);
    }

    /// Returns the idle time of `class`: the link's, less the time for which its cap or an
    /// ancestor's stopped it.
    pub(super) fn idle_ns(&self, class: ClassId, at_ns: u64) -> u64 {
        let Class { parent, clock, .. } = &self.classes[class.index()];
        match parent {
            Some(place) if self.backlog.class_gates.any() => {
                clock.idle_ns(self.idle_ns(place.class, at_ns))
            }
            _ => self.clock.idle_ns(at_ns),
        }
    }

    /// Records from `at_ns` on whether only its cap stops the backlogged `class`.
    pub(super) fn set_held(&mut self, class: ClassId, at_ns: u64, held: bool) {
        if !self.backlog.class_gates.any() {
            return;
        }
        if let Some(place) = self.classes[class.index()].parent {
            let above_ns = self.idle_ns(place.class, at_ns);
            self.classes[class.index()].clock.hold(held, above_ns);
        }
    }

    /// Opens or closes the gate of `stream` according to its limits.
    pub(super) fn update_stream_gate(&mut self, stream: StreamId, at_ns: u64, now_ns: u64) {
        let place = self.leaves[stream.index()];
        self.advance_class(place.class, at_ns);
        let node = &mut self.classes[place.class.index()].node;
        let Some(head) = node.head(place.child) else { return };
        if self.backlog.stream_gates.admits(stream, head, now_ns) {
            let waiting = self.backlog.queues.waiting(stream);
            node.open(place.child, Activation::Opened { waiting });
        } else {
            node.close(place.child);
        }
        self.update_gates_above(place.class, at_ns, now_ns);
    }

    /// Updates the gates of `class` and of the classes above.
    fn update_gates_above(&mut self, mut class: ClassId, at_ns: u64, now_ns: u64) {
        while let Some(place) = self.classes[class.index()].parent {
            self.advance_class(place.class, at_ns);
            self.update_gate(class, at_ns, now_ns);
            class = place.class;
        }
    }

    /// Opens or closes the gate of a backlogged class in its parent. The gate is open while a child
    /// is active and the rate cap admits the head.
    pub(super) fn update_gate(&mut self, class: ClassId, at_ns: u64, now_ns: u64) {
        let below = &self.classes[class.index()];
        let Some(place) = below.parent else { return };
        let active_below = below.node.any_active();
        let how = Activation::Opened { waiting: below.waiting };
        let node = &mut self.classes[place.class.index()].node;
        let Some(head) = node.head(place.child) else { return };
        let admitted = self.backlog.class_gates.admits(class.gate(), head, now_ns);
        if active_below && admitted {
            node.open(place.child, how);
        } else {
            node.close(place.child);
        }
        self.set_held(class, at_ns, active_below && !admitted);
    }
}
