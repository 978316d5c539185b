//! The clock of a link's discipline: real time without the lost idle time of the link.

use crate::router::plan::OutputPlan;

/// The clock of a link's discipline.
///
/// Fair queueing assumes that a backlogged link is busy. While the router is preempted, the link is
/// idle and virtual time would run ahead of service. Backlogged flows would be owed that time and
/// delay new flows. So the clock stops while a backlogged link is idle. It does not stop with
/// deadlines or rate caps: caps open by the passage of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTime {
    /// Whether the clock never stops.
    real: bool,
    /// The total time in which the link was idle while packets waited, ns.
    pub(super) lost_ns: u64,
    /// The link's total idle time at the last update, ns.
    idle_ns: u64,
}

impl LinkTime {
    /// Creates the clock of `output`; `capped`: some path has a rate cap there.
    pub(super) fn new(output: &OutputPlan, capped: bool) -> Self {
        let by_deadlines = output.discipline.needs.contains(&"period");
        Self { real: by_deadlines || capped, lost_ns: 0, idle_ns: 0 }
    }

    /// Updates the link's total idle time; `waiting`: packets have waited since the last update.
    #[inline]
    pub(super) fn idle(&mut self, idle_ns: u64, waiting: bool) {
        if waiting && !self.real {
            self.lost_ns += idle_ns - self.idle_ns;
        }
        self.idle_ns = idle_ns;
    }

    /// Returns the link time at `now_ns`, ns.
    #[inline]
    pub(super) fn at(&self, now_ns: u64) -> u64 {
        now_ns - self.lost_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_time_stops_while_a_backlogged_link_is_idle() {
        let fair = LinkTime { real: false, lost_ns: 0, idle_ns: 0 };
        let mut time = fair;
        let mut link_ns = |now_ns, idle_ns, waiting| {
            time.idle(idle_ns, waiting);
            time.at(now_ns)
        };
        assert_eq!(link_ns(100, 100, false), 100, "no packet waits");
        assert_eq!(link_ns(150, 100, true), 150, "the link is busy");
        assert_eq!(link_ns(300, 200, true), 200, "idle for 100");
        assert_eq!(link_ns(400, 300, true), 200, "for another 100");
        assert_eq!(link_ns(450, 300, true), 250);
        assert_eq!(link_ns(500, 350, false), 300);
        let mut time = LinkTime { real: true, ..fair };
        time.idle(100, true);
        assert_eq!(time.at(300), 300, "deadlines and caps need real time");
    }
}
