//! Background load and CPU accounting during the measurement of a server.

#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Threads that spin without useful work.
pub(crate) struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    pub(crate) fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count)
            .map(|_| {
                let over = Arc::clone(&stop);
                thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self { stop, threads }
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Returns the machine's CPU time of all cores in ticks: busy, and total.
pub(crate) fn ticks() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let first = stat.lines().next().unwrap();
    let fields: Vec<u64> =
        first.split_whitespace().skip(1).take(8).map(|n| n.parse().unwrap()).collect();
    let all: u64 = fields.iter().sum();
    (all - fields[3] - fields[4], all)
}
