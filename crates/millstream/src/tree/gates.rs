//! When streams and classes may send: credits and rate caps, and time, by which caps give leave.

use crate::discipline::Activation;
use crate::packet::StreamId;

use super::{Class, ClassId, Tree};

impl Tree {
    /// Time reaches `now_ns`: gates that open by time do, each at its time. Returns the time that
    /// clocks are set by, which never goes back.
    pub(super) fn advance(&mut self, now_ns: u64) -> u64 {
        self.open_gates(now_ns);
        self.clock.reach(now_ns)
    }

    /// The same for an event that at one instant goes before gates that open by time.
    pub(super) fn advance_before_gates(&mut self, now_ns: u64) -> u64 {
        if let Some(before_ns) = now_ns.checked_sub(1) {
            self.open_gates(before_ns);
        }
        self.clock.reach(now_ns)
    }

    /// Opens what opens by time until then.
    #[inline]
    fn open_gates(&mut self, until_ns: u64) {
        if self.next_eligible_ns().is_some_and(|from_ns| from_ns <= until_ns) {
            self.open_next_gates(until_ns);
        }
    }

    /// Streams go before classes.
    #[cold]
    fn open_next_gates(&mut self, until_ns: u64) {
        loop {
            let backlog = &mut self.backlog;
            let class_ns = backlog.class_gates.next_opening_ns().unwrap_or(u64::MAX);
            if let Some((from_ns, stream)) =
                backlog.stream_gates.pop_opening(class_ns.min(until_ns))
            {
                let at_ns = self.clock.reach(from_ns);
                self.regate(stream, at_ns, from_ns);
            } else if let Some((from_ns, class)) = backlog.class_gates.pop_opening(until_ns) {
                let at_ns = self.clock.reach(from_ns);
                self.match_gates_up(ClassId(class.0), at_ns, from_ns);
            } else {
                return;
            }
        }
    }

    /// Sets a class's clock; an empty class that has been idle starts afresh.
    pub(super) fn touch(&mut self, class: ClassId, at_ns: u64) {
        let idle_ns = self.idle_ns(class, at_ns);
        let Class { node, clock, waiting, .. } = &mut self.classes[class.index()];
        let clock_ns = clock.at(&self.clock, at_ns, idle_ns);
        if waiting.packets == 0 && clock.idle_since_service(clock_ns) {
            node.idle();
        }
        node.advance(clock_ns);
    }

    /// The idle time of `class`: the link's, without what its cap or one above held it back for.
    pub(super) fn idle_ns(&self, class: ClassId, at_ns: u64) -> u64 {
        let Class { parent, clock, .. } = &self.classes[class.index()];
        match parent {
            Some(place) if self.backlog.class_gates.any() => {
                clock.idle_ns(self.idle_ns(place.class, at_ns))
            }
            _ => self.clock.idle_ns(at_ns),
        }
    }

    /// Whether its cap is what keeps the backlogged `class` from sending, from `at_ns` on.
    pub(super) fn hold(&mut self, class: ClassId, at_ns: u64, held: bool) {
        if !self.backlog.class_gates.any() {
            return;
        }
        if let Some(place) = self.classes[class.index()].parent {
            let above_ns = self.idle_ns(place.class, at_ns);
            self.classes[class.index()].clock.hold(held, above_ns);
        }
    }

    /// Opens or closes the gate of `stream` as its limits now say.
    pub(super) fn regate(&mut self, stream: StreamId, at_ns: u64, now_ns: u64) {
        let place = self.leaves[stream.index()];
        self.touch(place.class, at_ns);
        let node = &mut self.classes[place.class.index()].node;
        let Some(head) = node.head(place.child) else { return };
        if self.backlog.stream_gates.admits(stream, head, now_ns) {
            let waiting = self.backlog.queues.waiting(stream);
            node.open(place.child, Activation::Opened { waiting });
        } else {
            node.close(place.child);
        }
        self.match_gates_up(place.class, at_ns, now_ns);
    }

    /// Lets the parents of `class` know whether it can send.
    fn match_gates_up(&mut self, mut class: ClassId, at_ns: u64, now_ns: u64) {
        while let Some(place) = self.classes[class.index()].parent {
            self.touch(place.class, at_ns);
            self.match_gate(class, at_ns, now_ns);
            class = place.class;
        }
    }

    /// Opens or closes a backlogged class in its parent: it is open if a child of its own is
    /// active and its rate cap allows.
    pub(super) fn match_gate(&mut self, class: ClassId, at_ns: u64, now_ns: u64) {
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
        self.hold(class, at_ns, active_below && !admitted);
    }
}
