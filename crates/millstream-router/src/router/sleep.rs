//! Sleeping processes and their wake-ups.

use super::{NEVER, Process, Router};
use crate::router::machine::Machine;

impl<M: Machine> Router<M> {
    /// Puts a process to sleep until `until_ns`.
    #[inline]
    pub(super) fn sleep(&mut self, number: usize, until_ns: u64) {
        let until_ns = until_ns.max(1);
        if std::mem::replace(&mut self.asleep_until_ns[number], until_ns) == 0 {
            self.sleepers.push(number);
        }
        self.next_wake_ns = self.next_wake_ns.min(until_ns);
    }

    /// Lists `path` among those whose function may become due without a packet.
    #[inline]
    pub(super) fn wants_time(&mut self, path: usize) {
        if !std::mem::replace(&mut self.paths[path].timed, true) {
            self.timed.push(path);
        }
    }

    #[cold]
    pub(super) fn wake(&mut self) {
        self.next_wake_ns = NEVER;
        let mut sleepers = std::mem::take(&mut self.sleepers);
        // Wakes in process order, which is independent of the order of sleeps.
        sleepers.sort_unstable();
        sleepers.retain(|&number| {
            let until_ns = self.asleep_until_ns[number];
            let sleeps = until_ns > self.now_ns;
            if sleeps {
                self.next_wake_ns = self.next_wake_ns.min(until_ns);
            } else {
                self.asleep_until_ns[number] = 0;
                self.refresh(number);
            }
            sleeps
        });
        self.sleepers = sleepers;
        let mut timed = std::mem::take(&mut self.timed);
        timed.sort_unstable();
        timed.retain(|&path| {
            let due_ns = self.machine.due_ns(path);
            if due_ns <= self.now_ns {
                self.refresh(self.number(Process::Forward(path)));
            } else {
                self.next_wake_ns = self.next_wake_ns.min(due_ns);
            }
            self.paths[path].timed = due_ns != NEVER;
            due_ns != NEVER
        });
        self.timed = timed;
    }

    /// Puts a process to sleep after its run, for as long as its throttle requires.
    #[inline]
    pub(super) fn rest(&mut self, process: Process, number: usize, moved: u32) {
        let throttle = match process {
            Process::Input(input) => self.inputs[input].throttle.as_mut(),
            Process::Output(output) => self.outputs[output].throttle.as_mut(),
            Process::Forward(_) => None,
        };
        let waiting = match process {
            Process::Input(input) => u32::try_from(self.machine.backlog(input)).unwrap_or(u32::MAX),
            _ => 0,
        };
        let sleep_ns = throttle.map_or(0, |throttle| throttle.ran(moved.saturating_add(waiting)));
        if sleep_ns > 0 {
            let until_ns = (self.now_ns + sleep_ns).max(self.asleep_until_ns[number]);
            self.sleep(number, until_ns);
        }
    }
}
