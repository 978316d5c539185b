//! The time that a link's discipline is told.

use crate::router::plan::OutputPlan;

/// That time.
///
/// The clocks of fair queueing take it that a link on which packets wait carries them. When the router is
/// kept from its work the line lies idle meanwhile, and such a clock would run ahead of what was sent: who
/// waited all the time would be owed it, and be served before whoever comes. So that time does not pass.
/// Where deadlines count it does, and where a path has a rate cap: a line that lies idle because of caps would keep
/// them from ever being used.
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

    /// The line has been idle for `idle_ns` in all; since that was last said, packets waited or not.
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
