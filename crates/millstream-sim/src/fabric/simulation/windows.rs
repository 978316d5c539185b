//! A run of several partitions on threads, by time windows.
//!
//! ```text
//! next event       + lookahead
//!     |  window ──────> |  window ──────> |
//!     partitions in any order, then all wait; messages are for later windows
//! ```
//!
//! An event causes none in another partition within the lookahead. Partitions thus process a
//! window independently. A window has a task for each partition, and one that replays the calls of
//! the listener of the window before. Whichever thread is free takes the next task. The thread that
//! finishes the last one plans the next window. A thread without a task is not waited for, so a
//! thread that the system does not run, or that sleeps because windows are short, delays nothing.
//!
//! Source: Nicol, *The cost of conservative synchronization in parallel discrete event simulations*
//! (Journal of the ACM, 1993).

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::log::{Calls, Log, Logger, replay};
use super::partition::{Message, Partition};

/// Spins of a waiting thread before it offers its processor to others, and offers before it sleeps.
const SPINS: u32 = 2_000;
const YIELDS: u32 = 50;
const STOP_YIELDING: u32 = SPINS + YIELDS;
const SLEEP: Duration = Duration::from_micros(50);

/// Returns the exclusive end, ns, of the window that begins with an event at `first_ns`.
pub(super) fn end_ns(first_ns: u64, lookahead_ns: u64, until_ns: u64) -> u64 {
    first_ns.saturating_add(lookahead_ns).min(until_ns.saturating_add(1))
}

/// Runs all partitions until `until_ns`. Returns whether the fabric is deadlocked.
pub(super) fn run<const STEPS: bool>(
    partitions: &mut [Partition],
    workers: usize,
    until_ns: u64,
    lookahead_ns: u64,
    listener: &mut (dyn Calls + Send),
) -> bool {
    let first_ns = partitions.iter().filter_map(|partition| partition.event_queue.next_ns()).min();
    let Some(first_ns) = first_ns.filter(|first_ns| *first_ns <= until_ns) else { return false };
    let count = partitions.len();
    let workers = workers.min(count);
    let places = partitions.iter_mut().map(|partition| Place {
        partition: Mutex::new(partition),
        inbox: Mutex::default(),
        logs: <[Mutex<Log>; 2]>::default(),
    });
    let run = Run::<STEPS> {
        places: places.collect(),
        listener: Mutex::new(listener),
        until_ns,
        lookahead_ns,
        ticket: AtomicU64::new(0),
        end_ns: AtomicU64::new(end_ns(first_ns, lookahead_ns, until_ns)),
        finished: AtomicUsize::new(0),
        next_ns: AtomicU64::new(u64::MAX),
        moving: AtomicUsize::new(0),
        packets_in_switches: AtomicI64::new(0),
        stopped: AtomicBool::new(false),
        deadlocked: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| run.work());
        }
        run.work();
    });
    run.replay(window(run.ticket.load(Ordering::Relaxed)));
    for place in &run.places {
        let mut partition = lock(&place.partition);
        for message in lock(&place.inbox).drain(..) {
            partition.receive(message);
        }
    }
    run.deadlocked.load(Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A partition and what other threads leave there.
struct Place<'a> {
    partition: Mutex<&'a mut Partition>,
    inbox: Mutex<Vec<Message>>,
    /// Calls of the listener in windows of even and odd number.
    logs: [Mutex<Log>; 2],
}

struct Run<'a, const STEPS: bool> {
    places: Vec<Place<'a>>,
    listener: Mutex<&'a mut (dyn Calls + Send)>,
    until_ns: u64,
    lookahead_ns: u64,
    /// Number of the current window in the upper half, of its next task in the lower half: 0 is the
    /// replay, n + 1 is partition n.
    ticket: AtomicU64,
    /// End of the current window, ns.
    end_ns: AtomicU64,
    /// Finished tasks of the window.
    finished: AtomicUsize,
    /// Time of the first event after the window, ns.
    next_ns: AtomicU64,
    /// Events after the window other than injections.
    moving: AtomicUsize,
    packets_in_switches: AtomicI64,
    stopped: AtomicBool,
    deadlocked: AtomicBool,
}

impl<const STEPS: bool> Run<'_, STEPS> {
    /// Takes tasks until the run stops.
    fn work(&self) {
        // A thread that panics must not leave the others waiting.
        let stop = StopOnPanic(&self.stopped);
        while !self.stopped.load(Ordering::Acquire) {
            let ticket = self.ticket.fetch_add(1, Ordering::AcqRel);
            let task = usize::try_from(ticket & u64::from(u32::MAX)).unwrap_or(usize::MAX);
            if task > self.places.len() {
                self.wait(window(ticket));
                continue;
            }
            match task.checked_sub(1) {
                None => self.replay(window(ticket).wrapping_sub(1)),
                Some(number) => self.advance(number, window(ticket)),
            }
            if self.finished.fetch_add(1, Ordering::AcqRel) == self.places.len() {
                self.plan(window(ticket));
            }
        }
        drop(stop);
    }

    /// Waits for the end of a window.
    fn wait(&self, ended: u32) {
        let mut waits = 0;
        while window(self.ticket.load(Ordering::Acquire)) == ended
            && !self.stopped.load(Ordering::Acquire)
        {
            match waits {
                0..SPINS => hint::spin_loop(),
                SPINS..STOP_YIELDING => thread::yield_now(),
                _ => thread::sleep(SLEEP),
            }
            waits = STOP_YIELDING.min(waits + 1);
        }
    }

    /// Replays the calls of a window.
    fn replay(&self, window: u32) {
        let mut logs: Vec<_> =
            self.places.iter().map(|place| lock(&place.logs[window as usize % 2])).collect();
        replay(logs.iter_mut().map(|log| &mut **log), &mut **lock(&self.listener));
    }

    /// Processes a partition's events of the current window.
    fn advance(&self, number: usize, window: u32) {
        let place = &self.places[number];
        let mut partition = lock(&place.partition);
        // Messages of this window may be among them: their times lie after it.
        for message in lock(&place.inbox).drain(..) {
            partition.receive(message);
        }
        let mut log = lock(&place.logs[window as usize % 2]);
        let mut logger = Logger::<STEPS>::new(&mut log);
        partition.run_until(self.end_ns.load(Ordering::Relaxed), &mut logger);
        let mut next_ns = partition.event_queue.next_ns().unwrap_or(u64::MAX);
        let mut moving = partition.moving();
        for (to, messages) in self.places.iter().zip(&mut partition.outgoing) {
            if messages.is_empty() {
                continue;
            }
            moving += messages.len();
            next_ns = messages.iter().map(Message::time_ns).fold(next_ns, u64::min);
            lock(&to.inbox).append(messages);
        }
        self.next_ns.fetch_min(next_ns, Ordering::Relaxed);
        self.moving.fetch_add(moving, Ordering::Relaxed);
        self.packets_in_switches.fetch_add(partition.packets_in_switches, Ordering::Relaxed);
    }

    /// Plans the window after `window`, or stops the run. No other thread has a task.
    fn plan(&self, window: u32) {
        let next_ns = self.next_ns.swap(u64::MAX, Ordering::Relaxed);
        let moving = self.moving.swap(0, Ordering::Relaxed);
        let packets_in_switches = self.packets_in_switches.swap(0, Ordering::Relaxed);
        self.finished.store(0, Ordering::Relaxed);
        if packets_in_switches > 0 && moving == 0 {
            self.deadlocked.store(true, Ordering::Relaxed);
            self.stopped.store(true, Ordering::Release);
        } else if next_ns == u64::MAX || next_ns > self.until_ns {
            self.stopped.store(true, Ordering::Release);
        } else {
            let end_ns = end_ns(next_ns, self.lookahead_ns, self.until_ns);
            self.end_ns.store(end_ns, Ordering::Relaxed);
            self.ticket.store(u64::from(window.wrapping_add(1)) << 32, Ordering::Release);
        }
    }
}

/// Returns the window of a ticket.
#[allow(clippy::cast_possible_truncation)]
fn window(ticket: u64) -> u32 {
    (ticket >> 32) as u32
}

/// Stops all threads of a run if this one panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}
