//! The paper's server as a model: two processors that serve the web, and a scheduler of two films that
//! is bound to one of them or has a processor of its own.
//!
//! ```text
//!  web requests ──> at most 10 server processes ──> run queue ──> processor 0, processor 1
//!  s1, s2: circular buffers ──> DWCS, one process ──> run queue, processor 0 alone   (host)
//!                                                └──> a processor of its own         (NI)
//! ```
//! Processes are served first come first served, a quantum at a time. Frames are chosen by the engine's
//! DWCS. A producer fills a film's buffer whenever there is room, so a frame's queueing delay is the
//! time that a buffer takes to be emptied. Time is in whole nanoseconds.

use millstream::selector::Select;
use millstream::{Contract, DualHeap, Dwcs, EdfFirst, Packet, Scheduler, StreamId, Window};
use millstream_traffic::Random;
use std::collections::VecDeque;

/// A second, ns.
const SECOND: u64 = 1_000_000_000;

/// How long an experiment takes, s.
pub(super) const SECONDS: u64 = 100;

/// A frame: Table 4's.
const FRAME_BYTES: u32 = 1_000;

/// Each film is asked for at this rate, bits/s: what the NI delivers of s1 in Figure 9.
const RATE_BPS: u64 = 260_000;

/// Frames of a film's circular buffer: 10 s of film, the delay without load in Figure 8.
const BUFFER: usize = 325;

/// What a frame costs the host, ns. Two films then take 15 % of two processors, as Figure 6 says of the
/// host without load.
const HOST_FRAME_NS: u64 = 4_600_000;

/// What it costs the NI: the 94.60 µs of Table 2.
const NI_FRAME_NS: u64 = 94_600;

/// Mean processor time of a web request, ns; the times are exponential. Fitted to the 100 kb/s to which s1
/// falls at 60 % in Figure 7.
const REQUEST_NS: f64 = 12_000_000.0;

/// Apache's processes in the paper.
const SERVERS: usize = 10;

/// Connections that may wait for one: Apache's default.
const BACKLOG: usize = 511;

/// The shortest time slice of Solaris' time-sharing class, ns.
const QUANTUM_NS: u64 = 20_000_000;

/// What the web takes: from a second on, this part of all processors.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) profile: &'static [(u64, f64)],
}

/// The loads of the figures; their means with the films' own are the names. Shapes as the paper tells
/// them: a dip of bandwidth between 15 and 20 s at 45 %; more than 80 % from 40 to 80 s at 60 %.
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

/// Where the films' scheduler runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Host,
    Ni,
}

/// From when on a film's next frame may go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// One interval after the scheduler took the last one: lost time stays lost. What the paper's
    /// figures need.
    SinceLast,
    /// At its number times the interval: a scheduler that was late catches up. Millstream's.
    Absolute,
}

/// A frame that was sent.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) at_ns: u64,
    /// Since it was put into the buffer, ns.
    pub(super) delay_ns: u64,
}

/// What an experiment gives.
pub(super) struct Outcome {
    pub(super) films: [Vec<Sent>; 2],
    /// Processor time used in each second, of all the host's processors together: 1 is all of it.
    pub(super) used: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Process {
    Films,
    /// A web server's, with what is left of its request.
    Web(u64),
}

/// What a processor does until when.
#[derive(Clone, Copy)]
struct Slice {
    process: Process,
    from_ns: u64,
    to_ns: u64,
}

struct Film {
    stream: StreamId,
    /// From when on its next frame may go.
    next_ns: u64,
    /// It stands in the scheduler.
    offered: bool,
    sent: Vec<Sent>,
}

struct Host<S: Select> {
    load: Load,
    clock: Clock,
    frame_ns: u64,
    /// The host's processors, and behind them the NI's, if there is one.
    processors: Vec<Option<Slice>>,
    hosts: usize,
    ready: VecDeque<Process>,
    /// Web requests that no server process has taken.
    requests: VecDeque<u64>,
    servers: usize,
    next_request_ns: u64,
    random: Random,
    scheduler: Scheduler<S>,
    films: [Film; 2],
    /// The film whose frame is being sent.
    serving: usize,
    /// The films' process waits for its processor or has it.
    awake: bool,
    /// Processor time of the host's processors in each second, ns.
    used: Vec<u64>,
}

/// The experiment under `load`.
pub(super) fn run(load: Load, placement: Placement, clock: Clock) -> Outcome {
    // The paper's heaps: one of deadlines, one of loss-tolerances.
    let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), DualHeap::default());
    let contract = || {
        let window = Window::new(1, 2)?;
        Ok::<_, millstream::ContractError>(Contract::new().period_ns(interval_ns())?.window(window))
    };
    let mut film = |next_ns| {
        let contract = contract().expect("a valid contract");
        let stream = scheduler.add_stream(contract).expect("DWCS needs a period and a window");
        Film { stream, next_ns, offered: false, sent: Vec::new() }
    };
    // The films begin half an interval apart.
    let films = [film(0), film(interval_ns() / 2)];
    // The paper took a processor off for either experiment: the scheduler's is always the second.
    let (hosts, all, frame_ns) = match placement {
        Placement::Host => (2, 2, HOST_FRAME_NS),
        Placement::Ni => (1, 2, NI_FRAME_NS),
    };
    let seconds = usize::try_from(SECONDS).unwrap_or(0);
    let mut host = Host {
        load,
        clock,
        frame_ns,
        processors: vec![None; all],
        hosts,
        ready: VecDeque::new(),
        requests: VecDeque::new(),
        servers: 0,
        next_request_ns: 0,
        random: Random::new(1, 0),
        scheduler,
        films,
        serving: 0,
        awake: false,
        used: vec![0; seconds],
    };
    host.run(SECONDS * SECOND);
    let whole = (host.hosts as u64 * SECOND) as f64;
    let used = host.used.iter().map(|ns| *ns as f64 / whole).collect();
    Outcome { films: host.films.map(|film| film.sent), used }
}

/// Between two frames of a film, ns.
fn interval_ns() -> u64 {
    u64::from(FRAME_BYTES) * 8 * SECOND / RATE_BPS
}

impl<S: Select> Host<S> {
    fn run(&mut self, end_ns: u64) {
        let mut now_ns = 0;
        while now_ns < end_ns {
            self.arrive(now_ns);
            self.finish(now_ns);
            if !self.awake && self.films.iter().any(|film| film.next_ns <= now_ns) {
                self.awake = true;
                self.ready.push_back(Process::Films);
            }
            self.dispatch(now_ns);
            let slices = self.processors.iter().flatten().map(|slice| slice.to_ns);
            let films = self.films.iter().map(|film| film.next_ns);
            let films = films.filter(|_| !self.awake);
            now_ns = slices.chain(films).chain([self.next_request_ns]).min().unwrap_or(end_ns);
        }
    }

    /// Takes the web's requests up to now, and has servers for as many as may be.
    fn arrive(&mut self, now_ns: u64) {
        while self.next_request_ns <= now_ns {
            let load = self.load.at(self.next_request_ns);
            if load == 0.0 {
                // Looked at again when it may be otherwise.
                self.next_request_ns += SECOND / 10;
                continue;
            }
            let work_ns = nanoseconds(self.random.exponential() * REQUEST_NS);
            if self.requests.len() < BACKLOG {
                self.requests.push_back(work_ns);
            }
            let mean_ns = REQUEST_NS / (load * self.hosts as f64);
            self.next_request_ns += nanoseconds(self.random.exponential() * mean_ns);
        }
        while self.servers < SERVERS
            && let Some(work_ns) = self.requests.pop_front()
        {
            self.servers += 1;
            self.ready.push_back(Process::Web(work_ns));
        }
    }

    /// Ends the slices that are over.
    fn finish(&mut self, now_ns: u64) {
        for at in 0..self.processors.len() {
            let Some(slice) = self.processors[at].filter(|slice| slice.to_ns <= now_ns) else {
                continue;
            };
            self.processors[at] = None;
            if at < self.hosts {
                self.account(&slice);
            }
            match slice.process {
                Process::Films => self.sent(&slice),
                Process::Web(0) => {
                    self.servers -= 1;
                    self.arrive(now_ns);
                }
                left => self.ready.push_back(left),
            }
        }
    }

    /// A frame is out; the scheduler's process goes on if there is another.
    fn sent(&mut self, slice: &Slice) {
        let film = &mut self.films[self.serving];
        let put_ns = film.sent.len().checked_sub(BUFFER).map_or(0, |at| film.sent[at].at_ns);
        film.sent.push(Sent { at_ns: slice.to_ns, delay_ns: slice.to_ns - put_ns });
        film.offered = false;
        film.next_ns = interval_ns()
            + match self.clock {
                Clock::SinceLast => slice.from_ns,
                Clock::Absolute => film.next_ns,
            };
        self.awake = false;
    }

    /// Gives idle processors what may run on them.
    fn dispatch(&mut self, now_ns: u64) {
        for at in 0..self.processors.len() {
            if self.processors[at].is_some() {
                continue;
            }
            let last = at + 1 == self.processors.len();
            let may = |process: &Process| match process {
                Process::Films => last,
                Process::Web(_) => at < self.hosts,
            };
            let Some(place) = self.ready.iter().position(may) else { continue };
            let Some(process) = self.ready.remove(place) else { continue };
            let (process, takes_ns) = match process {
                Process::Films => {
                    self.choose(now_ns);
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

    /// One decision of the engine among the films whose time has come.
    fn choose(&mut self, now_ns: u64) {
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

    /// Counts a slice of the host's into the seconds it lies in.
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
