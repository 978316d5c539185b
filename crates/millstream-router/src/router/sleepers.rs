//! Sleeping processes, and paths whose function becomes due without a packet.

use super::NEVER;
use crate::ids::{IdVec, PathId, ProcessId};
use crate::router::process::{Process, ProcessNumbers};

/// The processes that sleep, and the paths to run at a time of their function.
#[derive(Debug)]
pub(super) struct Sleepers {
    numbers: ProcessNumbers,
    /// The time until which each process sleeps, ns; 0 if it does not sleep.
    until_ns: IdVec<ProcessId, u64>,
    /// The processes that sleep.
    asleep: Vec<ProcessId>,
    /// The earliest time in `until_ns`, and of the times at which a watched path's function is due.
    next_ns: u64,
    /// The paths whose function may become due without a packet.
    watched: Vec<PathId>,
    /// Whether `watched` lists each path.
    is_watched: IdVec<PathId, bool>,
}

impl Sleepers {
    /// Creates the sleepers of these processes: all are awake.
    pub(super) fn new(numbers: ProcessNumbers) -> Self {
        let (_, paths, _) = numbers.sizes();
        Self {
            numbers,
            until_ns: IdVec::repeat(0, numbers.count()),
            asleep: Vec::with_capacity(numbers.count()),
            next_ns: NEVER,
            watched: Vec::with_capacity(paths),
            is_watched: IdVec::repeat(false, paths),
        }
    }

    /// Returns when to call [`wake`](Self::wake) next, ns.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns the time until which a process sleeps, ns; 0 if it does not sleep.
    #[inline]
    pub(super) fn until_ns(&self, process: ProcessId) -> u64 {
        self.until_ns[process]
    }

    /// Returns whether a process sleeps.
    #[inline]
    pub(super) fn is_asleep(&self, process: ProcessId) -> bool {
        self.until_ns[process] != 0
    }

    /// Puts a process to sleep until `until_ns`.
    #[inline]
    pub(super) fn sleep(&mut self, process: ProcessId, until_ns: u64) {
        let until_ns = until_ns.max(1);
        if std::mem::replace(&mut self.until_ns[process], until_ns) == 0 {
            self.asleep.push(process);
        }
        self.next_ns = self.next_ns.min(until_ns);
    }

    /// Ends the sleep of a sleeping process at the next [`wake`](Self::wake), which is due now.
    #[inline]
    pub(super) fn end_sleep(&mut self, process: ProcessId) {
        (self.until_ns[process], self.next_ns) = (1, 0);
    }

    /// Lists `path` among those whose function may become due without a packet.
    #[inline]
    pub(super) fn watch(&mut self, path: PathId) {
        if !std::mem::replace(&mut self.is_watched[path], true) {
            self.watched.push(path);
        }
    }

    /// Lists all paths; the next [`wake`](Self::wake) is due now.
    pub(super) fn watch_all(&mut self) {
        self.is_watched.ids().for_each(|path| self.watch(path));
        self.next_ns = 0;
    }

    /// Makes the next [`wake`](Self::wake) due at `due_ns` at the latest.
    #[inline]
    pub(super) fn wake_by(&mut self, due_ns: u64) {
        self.next_ns = self.next_ns.min(due_ns);
    }

    /// Wakes processes at `now_ns`; `due_ns` returns when a path's function is due. Appends to
    /// `woken` the processes that may have become eligible: sleepers that wake, then the forwarding
    /// processes of functions that are due.
    pub(super) fn wake(
        &mut self,
        now_ns: u64,
        due_ns: impl Fn(PathId) -> u64,
        woken: &mut Vec<ProcessId>,
    ) {
        let mut next_ns = NEVER;
        // Wakes in process order, which is independent of the order of sleeps.
        self.asleep.sort_unstable();
        self.asleep.retain(|&process| {
            let until_ns = self.until_ns[process];
            let sleeps = until_ns > now_ns;
            if sleeps {
                next_ns = next_ns.min(until_ns);
            } else {
                self.until_ns[process] = 0;
                woken.push(process);
            }
            sleeps
        });
        self.watched.sort_unstable();
        self.watched.retain(|&path| {
            let due_ns = due_ns(path);
            if due_ns <= now_ns {
                woken.push(self.numbers.id(Process::Forward(path)));
            } else {
                next_ns = next_ns.min(due_ns);
            }
            self.is_watched[path] = due_ns != NEVER;
            due_ns != NEVER
        });
        self.next_ns = next_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(sleepers: &mut Sleepers, now_ns: u64, due_ns: impl Fn(PathId) -> u64) -> Vec<usize> {
        let mut woken = Vec::new();
        sleepers.wake(now_ns, due_ns, &mut woken);
        woken.into_iter().map(|process| process.0).collect()
    }

    #[test]
    fn processes_wake_in_their_order_once_their_sleep_ends() {
        let mut sleepers = Sleepers::new(ProcessNumbers::of_sizes(2, 1, 1));
        sleepers.sleep(ProcessId(3), 100);
        sleepers.sleep(ProcessId(0), 100);
        sleepers.sleep(ProcessId(1), 200);
        assert_eq!(sleepers.next_ns(), 100);
        assert_eq!(woken(&mut sleepers, 100, |_| NEVER), [0, 3]);
        assert_eq!(
            (sleepers.is_asleep(ProcessId(0)), sleepers.is_asleep(ProcessId(1))),
            (false, true)
        );
        assert_eq!(sleepers.next_ns(), 200);
        sleepers.sleep(ProcessId(1), 300);
        assert_eq!(woken(&mut sleepers, 200, |_| NEVER), [0; 0], "the sleep was extended");
        sleepers.end_sleep(ProcessId(1));
        assert_eq!(sleepers.next_ns(), 0);
        assert_eq!(woken(&mut sleepers, 201, |_| NEVER), [1]);
        assert_eq!(sleepers.next_ns(), NEVER);
    }

    #[test]
    fn a_path_is_watched_until_its_function_has_no_due_time() {
        let mut sleepers = Sleepers::new(ProcessNumbers::of_sizes(1, 2, 1));
        sleepers.watch(PathId(1));
        sleepers.watch(PathId(1));
        sleepers.wake_by(50);
        assert_eq!(sleepers.next_ns(), 50);
        assert_eq!(woken(&mut sleepers, 50, |_| 50), [2], "listed once");
        assert_eq!(woken(&mut sleepers, 60, |_| 90), [0; 0]);
        assert_eq!(sleepers.next_ns(), 90);
        assert_eq!(woken(&mut sleepers, 90, |_| NEVER), [0; 0]);
        assert_eq!(woken(&mut sleepers, 99, |_| 0), [0; 0], "not watched any more");
        sleepers.watch_all();
        assert_eq!(woken(&mut sleepers, 99, |_| 0), [1, 2]);
    }
}
