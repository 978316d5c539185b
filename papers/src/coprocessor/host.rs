//! A model of the paper's server: two CPUs that serve web requests, and a scheduler of two films.
//!
//! The scheduler is bound to one of the CPUs (host) or has its own processor (NI).
//!
//! ```text
//!  web requests ──> at most 10 server processes ──> run queue ──> CPU 0, CPU 1
//!  s1, s2: circular buffers ──> DWCS, one process ──> run queue, CPU 0 alone   (host)
//!                                                └──> its own processor        (NI)
//! ```
//! Processes run in FIFO order, a quantum at a time. The engine's DWCS selects frames. A producer
//! keeps each film's buffer full, so a frame's queueing delay is the time in which a full buffer
//! drains. Time is in whole nanoseconds.

use millstream::selector::Select;
use millstream::{Contract, DualHeap, Dwcs, EdfFirst, Packet, Scheduler, StreamId, Window};
use millstream_traffic::Random;
use std::collections::VecDeque;

/// A second, ns.
const SECOND: u64 = 1_000_000_000;

/// Duration of an experiment, s.
pub(super) const SECONDS: u64 = 100;

/// Length of a frame of Table 4, bytes.
const FRAME_BYTES: u32 = 1_000;

/// Requested rate of each film, bits/s: the NI's rate of s1 in Figure 9.
const RATE_BPS: u64 = 260_000;

/// Frames of a film's circular buffer: 10 s of film, the delay without load in Figure 8.
const BUFFER: usize = 325;

/// Cost of a frame on the host, ns. Two films then take 15 % of two CPUs, the paper's host without
/// load in Figure 6.
const HOST_FRAME_NS: u64 = 4_600_000;

/// Cost of a frame on the NI: the 94.60 µs of Table 2.
const NI_FRAME_NS: u64 = 94_600;

/// Mean CPU time of a web request, ns, exponentially distributed. Fitted to 100 kb/s, the rate of
/// s1 at 60 % in Figure 7.
const REQUEST_NS: f64 = 12_000_000.0;

/// Apache's processes in the paper.
const SERVERS: usize = 10;

/// Length of the listen queue: Apache's default.
const BACKLOG: usize = 511;

/// The shortest time slice of Solaris' time-sharing class, ns.
const QUANTUM_NS: u64 = 20_000_000;

/// The web load: fractions of all CPUs, each from a second on.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) profile: &'static [(u64, f64)],
}

/// The loads of the figures, named by their mean utilisation including the films.
///
/// Shapes follow the paper: a dip of bandwidth between 15 and 20 s at 45 %; more than 80 % from 40
/// to 80 s at 60 %.
pub(super) const LOADS: [Load; 4] = [
    Load { name: "no load", profile: &[] },
    Load { name: "45 %", profile: &[(10, 0.3), (15, 0.55), (20, 0.32)] },
    Load { name: "60 %", profile: &[(10, 0.4), (40, 0.76), (80, 0.35)] },
    Load { name: "> 90 %", profile: &[(10, 0.96)] },
];

impl Load {
    fn at(&self, now_ns: u64) -> f64 {
        let since = self.profile.iter().rev().find(|(from, _)| from * SECOND <= now_ns);
        since.map_or(0.0, |(_, part)| *part)
    }
}

/// The processor on which the films' scheduler runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Host,
    Ni,
}

/// The earliest time of a film's next frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// One interval after the scheduler took the previous frame, so lost time is never regained.
    /// The paper's figures require it.
    SinceLast,
    /// The frame's number times the interval, so a late scheduler catches up, like Millstream's.
    Absolute,
}

/// A sent frame.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) at_ns: u64,
    /// Time since it was put into the buffer, ns.
    pub(super) delay_ns: u64,
}

/// The result of an experiment.
pub(super) struct Outcome {
    pub(super) films: [Vec<Sent>; 2],
    /// CPU time used in each second, as a fraction of all host CPUs.
    pub(super) used: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Process {
    Films,
    /// A web server process with the remaining work of its request, ns.
    Web(u64),
}

/// The current process of a CPU.
#[derive(Clone, Copy)]
struct Slice {
    process: Process,
    from_ns: u64,
    to_ns: u64,
}

struct ModelFilm {
    stream: StreamId,
    /// Earliest time of its next frame.
    next_ns: u64,
    /// Whether a frame is queued in the scheduler.
    offered: bool,
    sent: Vec<Sent>,
}

struct Host<S: Select> {
    load: Load,
    clock: Clock,
    frame_ns: u64,
    /// The host's CPUs, followed by the NI's, if any.
    processors: Vec<Option<Slice>>,
    host_cpus: usize,
    ready: VecDeque<Process>,
    /// Web requests waiting for a server process.
    requests: VecDeque<u64>,
    servers: usize,
    next_request_ns: u64,
    random: Random,
    scheduler: Scheduler<S>,
    films: [ModelFilm; 2],
    /// The film of the frame in transmission.
    serving: usize,
    /// Whether the films' process is runnable or running.
    runnable: bool,
    /// CPU time of the host in each second, ns.
    used: Vec<u64>,
}

/// Runs the experiment under `load`; `seed` draws the web requests.
pub(super) fn run(load: Load, placement: Placement, clock: Clock, seed: u64) -> Outcome {
    // The paper's heaps: one of deadlines, one of loss-tolerances.
    let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), DualHeap::default());
    let contract = || {
        let window = Window::new(1, 2)?;
        Ok::<_, millstream::ContractError>(Contract::new().period_ns(interval_ns())?.window(window))
    };
    let mut film = |next_ns| {
        let contract = contract().expect("a valid contract");
        let stream = scheduler.add_stream(contract).expect("DWCS needs a period and a window");
        ModelFilm { stream, next_ns, offered: false, sent: Vec::new() }
    };
    // The films start half an interval apart.
    let films = [film(0), film(interval_ns() / 2)];
    // The paper dedicates a CPU to the scheduler in both experiments; it is always the last one.
    let (host_cpus, all, frame_ns) = match placement {
        Placement::Host => (2, 2, HOST_FRAME_NS),
        Placement::Ni => (1, 2, NI_FRAME_NS),
    };
    let seconds = usize::try_from(SECONDS).unwrap_or(0);
    let mut host = Host {
        load,
        clock,
        frame_ns,
        processors: vec![None; all],
        host_cpus,
        ready: VecDeque::new(),
        requests: VecDeque::new(),
        servers: 0,
        next_request_ns: 0,
        random: Random::new(seed, 0),
        scheduler,
        films,
        serving: 0,
        runnable: false,
        used: vec![0; seconds],
    };
    host.run(SECONDS * SECOND);
    let whole = (host.host_cpus as u64 * SECOND) as f64;
    let used = host.used.iter().map(|ns| *ns as f64 / whole).collect();
    Outcome { films: host.films.map(|film| film.sent), used }
}

/// Returns the interval between two frames of a film, ns.
fn interval_ns() -> u64 {
    u64::from(FRAME_BYTES) * 8 * SECOND / RATE_BPS
}

impl<S: Select> Host<S> {
    fn run(&mut self, end_ns: u64) {
        let mut now_ns = 0;
        while now_ns < end_ns {
            self.arrive(now_ns);
            self.finish(now_ns);
            if !self.runnable && self.films.iter().any(|film| film.next_ns <= now_ns) {
                self.runnable = true;
                self.ready.push_back(Process::Films);
            }
            self.dispatch(now_ns);
            let slices = self.processors.iter().flatten().map(|slice| slice.to_ns);
            let films = self.films.iter().map(|film| film.next_ns);
            let films = films.filter(|_| !self.runnable);
            now_ns = slices.chain(films).chain([self.next_request_ns]).min().unwrap_or(end_ns);
        }
    }

    /// Accepts the web's requests up to now, and assigns them to free servers.
    fn arrive(&mut self, now_ns: u64) {
        while self.next_request_ns <= now_ns {
            let load = self.load.at(self.next_request_ns);
            if load == 0.0 {
                // Sampled again when the load may have changed.
                self.next_request_ns += SECOND / 10;
                continue;
            }
            let work_ns = nanoseconds(self.random.exponential() * REQUEST_NS);
            if self.requests.len() < BACKLOG {
                self.requests.push_back(work_ns);
            }
            let mean_ns = REQUEST_NS / (load * self.host_cpus as f64);
            self.next_request_ns += nanoseconds(self.random.exponential() * mean_ns);
        }
        while self.servers < SERVERS
            && let Some(work_ns) = self.requests.pop_front()
        {
            self.servers += 1;
            self.ready.push_back(Process::Web(work_ns));
        }
    }

    /// Ends the slices that are complete.
    fn finish(&mut self, now_ns: u64) {
        for at in 0..self.processors.len() {
            let Some(slice) = self.processors[at].filter(|slice| slice.to_ns <= now_ns) else {
                continue;
            };
            self.processors[at] = None;
            if at < self.host_cpus {
                self.account(&slice);
            }
            match slice.process {
                Process::Films => self.complete_frame(&slice),
                Process::Web(0) => {
                    self.servers -= 1;
                    self.arrive(now_ns);
                }
                rest => self.ready.push_back(rest),
            }
        }
    }

    /// Completes a frame; the scheduler's process continues if there is another.
    fn complete_frame(&mut self, slice: &Slice) {
        let film = &mut self.films[self.serving];
        let put_ns = film.sent.len().checked_sub(BUFFER).map_or(0, |at| film.sent[at].at_ns);
        film.sent.push(Sent { at_ns: slice.to_ns, delay_ns: slice.to_ns - put_ns });
        film.offered = false;
        film.next_ns = interval_ns()
            + match self.clock {
                Clock::SinceLast => slice.from_ns,
                Clock::Absolute => film.next_ns,
            };
        self.runnable = false;
    }

    /// Assigns runnable processes to idle CPUs.
    fn dispatch(&mut self, now_ns: u64) {
        for at in 0..self.processors.len() {
            if self.processors[at].is_some() {
                continue;
            }
            let last = at + 1 == self.processors.len();
            let may = |process: &Process| match process {
                Process::Films => last,
                Process::Web(_) => at < self.host_cpus,
            };
            let Some(place) = self.ready.iter().position(may) else { continue };
            let Some(process) = self.ready.remove(place) else { continue };
            let (process, takes_ns) = match process {
                Process::Films => {
                    self.select_frame(now_ns);
                    (process, self.frame_ns)
                }
                Process::Web(work_ns) => {
                    let takes_ns = work_ns.min(QUANTUM_NS);
                    (Process::Web(work_ns - takes_ns), takes_ns)
                }
            };
            let to_ns = now_ns + takes_ns.max(1);
            self.processors[at] = Some(Slice { process, from_ns: now_ns, to_ns });
        }
    }

    /// Makes one decision of the engine among the films that are due.
    fn select_frame(&mut self, now_ns: u64) {
        for film in &mut self.films {
            if film.next_ns <= now_ns && !std::mem::replace(&mut film.offered, true) {
                let packet = Packet::new(FRAME_BYTES);
                self.scheduler.enqueue(now_ns, film.stream, packet).expect("an unbounded queue");
            }
        }
        if let Some(departure) = self.scheduler.decide(now_ns, &mut ()) {
            self.serving = departure.stream.index();
        }
    }

    /// Adds a slice of the host to the seconds that it covers.
    fn account(&mut self, slice: &Slice) {
        let mut from_ns = slice.from_ns;
        while from_ns < slice.to_ns {
            let second = from_ns / SECOND;
            let to_ns = slice.to_ns.min((second + 1) * SECOND);
            if let Some(used) = usize::try_from(second).ok().and_then(|at| self.used.get_mut(at)) {
                *used += to_ns - from_ns;
            }
            from_ns = to_ns;
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanoseconds(value: f64) -> u64 {
    value.max(1.0) as u64
}
