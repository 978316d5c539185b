//! The time that a link's discipline is told.

use crate::router::plan::OutputPlan;

/// That time.
///
/// Fair queueing assumes that a backlogged link is busy. While the router is preempted the link is
/// idle, and virtual time would run ahead of service: backlogged flows would be owed that time and
/// delay new ones. So idle time of a backlogged link is subtracted, except with deadlines or rate
/// caps: idle time due to caps must keep passing.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTime {
    /// It passes as all time does.
    real: bool,
    /// Time in which the line lay idle though packets waited, ns.
    pub(super) lost_ns: u64,
    /// How long it had been idle in all when that was last counted, ns.
    idle_ns: u64,
}

impl LinkTime {
    /// The time of `output`, at which a path is `capped` or none is.
    pub(super) fn new(output: &OutputPlan, capped: bool) -> Self {
        let by_deadlines = output.discipline.needs.contains(&"period");
        Self { real: by_deadlines || capped, lost_ns: 0, idle_ns: 0 }
    }

    /// Updates the link's total idle time; `waiting`: packets waited since the last update.
    #[inline]
    pub(super) fn idle(&mut self, idle_ns: u64, waiting: bool) {
        if waiting && !self.real {
            self.lost_ns += idle_ns - self.idle_ns;
        }
        self.idle_ns = idle_ns;
    }

    /// The link's time at `now_ns`.
    #[inline]
    pub(super) fn at(&self, now_ns: u64) -> u64 {
        now_ns - self.lost_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_s_time_stands_still_while_its_line_is_idle_and_packets_wait() {
        let fair = LinkTime { real: false, lost_ns: 0, idle_ns: 0 };
        let mut time = fair;
        let mut told = |now_ns, idle_ns, waiting| {
            time.idle(idle_ns, waiting);
            time.at(now_ns)
        };
        assert_eq!(told(100, 100, false), 100, "nothing waits");
        assert_eq!(told(150, 100, true), 150, "the line is busy");
        assert_eq!(told(300, 200, true), 200, "idle for 100");
        assert_eq!(told(400, 300, true), 200, "for another 100");
        assert_eq!(told(450, 300, true), 250);
        assert_eq!(told(500, 350, false), 300);
        let mut time = LinkTime { real: true, ..fair };
        time.idle(100, true);
        assert_eq!(time.at(300), 300, "deadlines pass, and caps open");
    }
}
