//! The C scheduler, compiled natively, with packet queues: a scheduler for tests.

#![allow(unsafe_code)]

use millstream::catalogue::DynScheduler;
use millstream::flow_queue::Flow;
use millstream::selector::Observer;
use millstream::{Contract, ContractError, Departure, Event, Packet, StreamId};
use millstream_scenario::FilterInstruction;
use std::collections::VecDeque;
use std::mem;

use crate::{Config, MAX_FLOWS};

/// `MS_NONE`: no stream.
const NONE: u32 = u32::MAX;

/// `MS_NEVER`: no time.
const NEVER: u64 = u64::MAX;

/// `MS_MARK` and `MS_DROP`.
const MARK: u32 = 1;
const DROP: u32 = 2;

#[repr(C)]
#[derive(Default)]
struct View {
    deadline_ns: u64,
    missed: u64,
    violations: u64,
}

unsafe extern "C" {
    fn ms_native_filter(
        program: *const FilterInstruction,
        count: u32,
        bytes: *const u8,
        length: u32,
    ) -> i32;
    fn ms_native_config_bytes() -> usize;
    fn ms_native_state_bytes() -> usize;
    fn ms_native_reset(config: *const Config, state: *mut u64);
    fn ms_native_arrive(c: *const Config, state: *mut u64, now: u64, i: u32, bytes: u32) -> i32;
    fn ms_native_begin(config: *const Config, state: *mut u64, now_ns: u64) -> i32;
    fn ms_native_late(config: *const Config, state: *mut u64, now_ns: u64, from: u32) -> u32;
    fn ms_native_select(config: *const Config, state: *mut u64) -> u32;
    fn ms_native_departed(
        config: *const Config,
        state: *mut u64,
        now_ns: u64,
        i: u32,
        sent: i32,
        arrival_ns: u64,
        bytes: u32,
    );
    fn ms_native_arrive_in_flow(
        config: *const Config,
        state: *mut u64,
        now_ns: u64,
        i: u32,
        hash: u32,
        bytes: u32,
        can_mark: u32,
    ) -> u32;
    fn ms_native_overflow(c: *const Config, state: *mut u64, i: u32, count: *mut u32) -> u32;
    fn ms_native_left_flow(
        config: *const Config,
        state: *mut u64,
        i: u32,
        flow: u32,
        full: i32,
        arrival_ns: u64,
        bytes: u32,
        can_mark: u32,
    );
    fn ms_native_needs_head(config: *const Config, state: *mut u64, now_ns: u64, i: u32) -> i32;
    fn ms_native_pull(
        config: *const Config,
        state: *mut u64,
        now_ns: u64,
        i: u32,
        action: *mut u32,
    ) -> u32;
    fn ms_native_join(
        config: *const Config,
        state: *mut u64,
        now_ns: u64,
        i: u32,
        arrival_ns: u64,
        bytes: u32,
    );
    fn ms_native_reconfigure(
        config: *const Config,
        state: *mut u64,
        old: *const Config,
        now_ns: u64,
    );
    fn ms_native_next_opening_ns(config: *const Config, state: *mut u64) -> u64;
    fn ms_native_transmission_ns(config: *const Config, bytes: u32) -> u64;
    fn ms_native_view(config: *const Config, state: *mut u64, i: u32, view: *mut View);
}

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: Packet,
    number: u64,
    arrival_ns: u64,
    can_mark: bool,
}

/// The packets of a stream.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// With flows, the head, and its successor when the head leaves.
    packets: VecDeque<Waiting>,
    /// The packets in flows.
    in_flows: usize,
    arrivals: u64,
    missed: u64,
    violations: u64,
}

impl Queue {
    fn waiting(&self) -> usize {
        self.packets.len() + self.in_flows
    }
}

/// The C scheduler with packet queues. Its streams are those of its configuration; it has neither
/// credits nor gates of the caller.
#[derive(Debug)]
pub struct NativeScheduler {
    config: Box<Config>,
    /// `struct ms_state`, whose alignment is that of a u64.
    state: Box<[u64]>,
    queues: Vec<Queue>,
    /// The packets of the flows of all streams.
    flows: Vec<VecDeque<Waiting>>,
    has_deadlines: bool,
}

impl NativeScheduler {
    /// Returns a scheduler of the streams of `config`.
    ///
    /// # Panics
    /// Panics if the C and Rust types of the configuration differ in size.
    #[must_use]
    pub fn new(config: Config) -> Self {
        // SAFETY: these functions have no arguments and only return constants.
        let (config_bytes, state_bytes) =
            unsafe { (ms_native_config_bytes(), ms_native_state_bytes()) };
        assert_eq!(config_bytes, size_of::<Config>(), "the layouts differ");
        let (streams, has_deadlines) = (config.streams(), config.has_deadlines());
        let config = Box::new(config);
        let mut state = vec![0; state_bytes.div_ceil(8)].into_boxed_slice();
        // SAFETY: both point to initialised objects of the C types' sizes.
        unsafe { ms_native_reset(&raw const *config, state.as_mut_ptr()) };
        let (queues, flows) = (vec![Queue::default(); streams], vec![VecDeque::new(); MAX_FLOWS]);
        Self { config, state, queues, flows, has_deadlines }
    }

    /// Continues under another configuration; no packet is lost.
    ///
    /// # Panics
    /// Panics if the disciplines differ, `config` has fewer streams, or other flows.
    pub fn reconfigure(&mut self, config: Config, now_ns: u64) {
        assert!(self.config.may_become(&config), "the discipline or the streams differ");
        self.queues.resize(config.streams(), Queue::default());
        let old = mem::replace(&mut self.config, Box::new(config));
        let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
        // SAFETY: as in `new`.
        unsafe { ms_native_reconfigure(config, state, &raw const *old, now_ns) };
    }

    /// Returns the transmission time of a packet of `bytes` on the link, ns.
    #[must_use]
    pub fn transmission_ns(&self, bytes: u32) -> u64 {
        // SAFETY: the configuration is initialised.
        unsafe { ms_native_transmission_ns(&raw const *self.config, bytes) }
    }

    fn view(&self, stream: u32) -> View {
        let mut view = View::default();
        let state = self.state.as_ptr().cast_mut();
        // SAFETY: as in `new`; the function only reads the state.
        unsafe { ms_native_view(&raw const *self.config, state, stream, &raw mut view) };
        view
    }

    /// Removes the head of a stream: it was sent, or dropped because it is late.
    fn depart(&mut self, now_ns: u64, stream: u32, event: Event) -> Departure {
        let deadline_ns = self.has_deadlines.then(|| self.view(stream).deadline_ns);
        let queue = &mut self.queues[stream as usize];
        let Waiting { packet, number, arrival_ns, .. } =
            queue.packets.pop_front().expect("the scheduler selects a backlogged stream");
        let next = queue.packets.front();
        let (next_ns, next_bytes) =
            next.map_or((0, 0), |next| (next.arrival_ns, next.packet.bytes));
        let sent = i32::from(event == Event::Sent);
        let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
        // SAFETY: as in `new`.
        unsafe { ms_native_departed(config, state, now_ns, stream, sent, next_ns, next_bytes) };
        Departure {
            time_ns: now_ns,
            stream: StreamId(stream),
            packet: number,
            bytes: packet.bytes,
            arrival_ns,
            deadline_ns,
            event,
            tag: packet.tag,
        }
    }

    /// Removes the first packet of a flow; `full`: it is dropped at a limit.
    fn pop_flow(&mut self, stream: u32, flow: u32, full: bool) -> Waiting {
        self.queues[stream as usize].in_flows -= 1;
        let packets = &mut self.flows[flow as usize];
        let popped = packets.pop_front().expect("the scheduler selects a flow with packets");
        let next = packets.front().map_or((0, 0, 0), |next| {
            (next.arrival_ns, next.packet.bytes, u32::from(next.can_mark))
        });
        let (next_ns, bytes, can_mark) = next;
        let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
        // SAFETY: as in `new`.
        unsafe {
            ms_native_left_flow(config, state, stream, flow, full.into(), next_ns, bytes, can_mark);
        };
        popped
    }

    /// Drops packets of the longest flows until the limits of the stream's flows hold.
    fn drop_overflow(&mut self, now_ns: u64, stream: u32, observer: &mut dyn Observer) {
        loop {
            let mut count = 0;
            let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
            // SAFETY: as in `new`; `count` lives during the call.
            let flow = unsafe { ms_native_overflow(config, state, stream, &raw mut count) };
            if flow == NONE {
                return;
            }
            for _ in 0..count {
                let waiting = self.pop_flow(stream, flow, true);
                observer.dropped(&drop_of(&waiting, now_ns, stream, Event::DroppedFull));
            }
        }
    }

    /// Moves the next packet of the stream's flows, if any, to the end of its queue.
    fn pull(&mut self, now_ns: u64, stream: u32, observer: &mut dyn Observer) {
        let mut action = DROP;
        while action == DROP {
            let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
            // SAFETY: as in `new`; `action` lives during the call.
            let flow = unsafe { ms_native_pull(config, state, now_ns, stream, &raw mut action) };
            if flow == NONE {
                return;
            }
            let waiting = self.pop_flow(stream, flow, false);
            if action == DROP {
                observer.dropped(&drop_of(&waiting, now_ns, stream, Event::DroppedByAqm));
                continue;
            }
            if action == MARK {
                observer.marked(StreamId(stream), waiting.number, waiting.packet.tag);
            }
            let (arrival_ns, bytes) = (waiting.arrival_ns, waiting.packet.bytes);
            let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
            // SAFETY: as in `new`.
            unsafe { ms_native_join(config, state, now_ns, stream, arrival_ns, bytes) };
            self.queues[stream as usize].packets.push_back(waiting);
        }
    }

    /// Reports the misses since the last report.
    fn report_misses(&mut self, now_ns: u64, observer: &mut dyn Observer) {
        for stream in 0..u32::try_from(self.queues.len()).unwrap_or(0) {
            let View { missed, violations, .. } = self.view(stream);
            let queue = &mut self.queues[stream as usize];
            if (missed, violations) != (queue.missed, queue.violations) {
                let (more, beyond) = (missed - queue.missed, violations - queue.violations);
                (queue.missed, queue.violations) = (missed, violations);
                observer.missed(StreamId(stream), now_ns, more, beyond);
            }
        }
    }
}

/// Returns the departure of a packet that is dropped from a flow.
fn drop_of(waiting: &Waiting, now_ns: u64, stream: u32, event: Event) -> Departure {
    let Waiting { packet, number, arrival_ns, .. } = *waiting;
    Departure {
        time_ns: now_ns,
        stream: StreamId(stream),
        packet: number,
        bytes: packet.bytes,
        arrival_ns,
        deadline_ns: None,
        event,
        tag: packet.tag,
    }
}

impl DynScheduler for NativeScheduler {
    fn add_stream(&mut self, _: Contract) -> Result<StreamId, ContractError> {
        Err(ContractError::TooManyStreams)
    }

    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure> {
        let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
        // SAFETY: as in `new`.
        let fits = unsafe { ms_native_arrive(config, state, now_ns, stream.0, packet.bytes) };
        let queue = &mut self.queues[stream.index()];
        let number = queue.arrivals;
        queue.arrivals += 1;
        if fits == 0 {
            return Err(Departure {
                time_ns: now_ns,
                stream,
                packet: number,
                bytes: packet.bytes,
                arrival_ns: now_ns,
                deadline_ns: None,
                event: Event::DroppedFull,
                tag: packet.tag,
            });
        }
        queue.packets.push_back(Waiting { packet, number, arrival_ns: now_ns, can_mark: false });
        Ok(number)
    }

    fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut dyn Observer,
    ) -> Result<u64, Departure> {
        if self.config.flows(stream.index()) == 0 {
            return self.enqueue(now_ns, stream, packet);
        }
        let Flow { hash, ecn, .. } = flow;
        let (i, bytes, can_mark) = (stream.0, packet.bytes, u32::from(ecn.is_capable()));
        let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
        // SAFETY: as in `new`.
        let flow =
            unsafe { ms_native_arrive_in_flow(config, state, now_ns, i, hash, bytes, can_mark) };
        let queue = &mut self.queues[stream.index()];
        let number = queue.arrivals;
        queue.arrivals += 1;
        queue.in_flows += 1;
        let waiting = Waiting { packet, number, arrival_ns: now_ns, can_mark: can_mark != 0 };
        self.flows[flow as usize].push_back(waiting);
        self.drop_overflow(now_ns, i, observer);
        // SAFETY: as in `new`.
        if unsafe { ms_native_needs_head(config, self.state.as_mut_ptr(), now_ns, i) } != 0 {
            self.pull(now_ns, i, observer);
        }
        Ok(number)
    }

    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure> {
        let (config, state) = (&raw const *self.config, self.state.as_mut_ptr());
        // SAFETY: as in `new`.
        if unsafe { ms_native_begin(config, state, now_ns) } == 0 {
            return None;
        }
        let mut stream = 0;
        loop {
            // SAFETY: as in `new`.
            stream = unsafe { ms_native_late(config, self.state.as_mut_ptr(), now_ns, stream) };
            if stream == NONE {
                break;
            }
            observer.dropped(&self.depart(now_ns, stream, Event::DroppedLate));
        }
        // SAFETY: as in `new`.
        let selected = unsafe { ms_native_select(config, self.state.as_mut_ptr()) };
        if selected != NONE && self.config.flows(selected as usize) > 0 {
            self.pull(now_ns, selected, observer);
        }
        let departure = (selected != NONE).then(|| self.depart(now_ns, selected, Event::Sent));
        self.report_misses(now_ns, observer);
        departure
    }

    /// Not supported: no effect.
    fn set_eligible(&mut self, _: u64, _: StreamId, _: bool) {}

    /// Not supported: no effect.
    fn add_credits(&mut self, _: u64, _: StreamId, _: u64) {}

    fn next_eligible_ns(&self) -> Option<u64> {
        let state = self.state.as_ptr().cast_mut();
        // SAFETY: as in `new`; the function only reads the state.
        let next_ns = unsafe { ms_native_next_opening_ns(&raw const *self.config, state) };
        (next_ns != NEVER).then_some(next_ns)
    }

    fn charge(&mut self, _: u64, _: StreamId, _: i64) -> bool {
        false
    }

    fn streams(&self) -> usize {
        self.queues.len()
    }

    fn waiting(&self, stream: StreamId) -> u32 {
        u32::try_from(self.queues[stream.index()].waiting()).unwrap_or(u32::MAX)
    }

    fn total_waiting(&self) -> u64 {
        self.queues.iter().map(|queue| queue.waiting() as u64).sum()
    }
}

/// Returns whether a [compiled filter](crate::compile_filter) accepts a frame; the qdisc's C code
/// decides.
#[must_use]
pub fn native_filter(program: &[FilterInstruction], frame: &[u8]) -> bool {
    let [count, length] = [program.len(), frame.len()];
    let [count, length] = [count, length].map(|of| u32::try_from(of).unwrap_or(u32::MAX));
    // SAFETY: both pointers are valid for the numbers of elements given. The C code reads the frame
    // within its length, and instructions while it is inside the program.
    unsafe { ms_native_filter(program.as_ptr(), count, frame.as_ptr(), length) != 0 }
}
