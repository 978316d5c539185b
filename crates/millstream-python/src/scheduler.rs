//! The engine as a Python class; the caller supplies the time.
//!
//! One thread may use it at a time: `PyO3` rejects a second one (`RuntimeError`). A batch is
//! validated before its first packet is enqueued, so an invalid number changes nothing.

use millstream::catalogue::DynScheduler;
use millstream::selector::Selector;
use millstream::{
    Contract, Framing, Heap, Late, Link, MaxRate, Observer, Packet, Scan, StreamId, Window,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

use crate::arguments;
use crate::departures::{DepartureColumns, Rows};
use crate::errors::{ContractError, contract};
use crate::prototype::{PythonDiscipline, StoredException};
use crate::scenario::Scenario;

/// The assumed number of streams for `structure = "auto"`, since the actual number is unknown.
const ASSUMED_STREAMS: usize = 1024;

/// A packet that was sent, or dropped with a reason.
#[pyclass(frozen, get_all, eq, module = "millstream")]
#[derive(PartialEq, Eq)]
pub(crate) struct Departure {
    /// Start of service or time of the drop, ns.
    time_ns: u64,
    /// The stream's number.
    stream: u32,
    /// Number among the stream's arrivals, from 0.
    packet: u64,
    /// Length, bytes.
    bytes: u32,
    /// Arrival time, ns.
    arrival_ns: u64,
    /// The deadline at service or drop, ns.
    deadline_ns: Option<u64>,
    /// `sent`, `dropped-late`, `dropped-full` or `dropped-aqm`.
    event: &'static str,
    /// The caller's number.
    tag: u64,
}

#[pymethods]
impl Departure {
    fn __repr__(&self) -> String {
        let Self { time_ns, stream, packet, bytes, arrival_ns, event, tag, .. } = self;
        let deadline_ns = self.deadline_ns.map_or("None".into(), |ns| ns.to_string());
        format!(
            "Departure(time_ns={time_ns}, stream={stream}, packet={packet}, bytes={bytes}, \
             arrival_ns={arrival_ns}, deadline_ns={deadline_ns}, event='{event}', tag={tag})"
        )
    }
}

impl From<&millstream::Departure> for Departure {
    fn from(departure: &millstream::Departure) -> Self {
        Self {
            time_ns: departure.time_ns,
            stream: departure.stream.0,
            packet: departure.packet,
            bytes: departure.bytes,
            arrival_ns: departure.arrival_ns,
            deadline_ns: departure.deadline_ns,
            event: departure.event.name(),
            tag: departure.tag,
        }
    }
}

/// The counters of one stream.
#[derive(Clone, Copy, Default)]
struct Counters {
    missed: u64,
    violations: u64,
    dropped_late: u64,
    dropped_full: u64,
}

/// Missed deadlines, one column each.
#[derive(Default)]
struct Misses {
    time_ns: Vec<u64>,
    stream: Vec<u32>,
    missed: Vec<u64>,
    violations: Vec<u64>,
}

/// Observes drops and misses: always counts them, and keeps them on request.
#[derive(Default)]
struct Log {
    counters: Vec<Counters>,
    keep_events: bool,
    drops: Rows,
    misses: Misses,
}

impl Log {
    fn count_full_drop(&mut self, departure: &millstream::Departure) {
        self.counters[departure.stream.index()].dropped_full += 1;
        if self.keep_events {
            self.drops.push(departure);
        }
    }
}

impl Observer for Log {
    #[inline]
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        let counters = &mut self.counters[stream.index()];
        counters.missed += missed;
        counters.violations += violations;
        if self.keep_events {
            self.misses.time_ns.push(now_ns);
            self.misses.stream.push(stream.0);
            self.misses.missed.push(missed);
            self.misses.violations.push(violations);
        }
    }

    #[inline]
    fn dropped(&mut self, departure: &millstream::Departure) {
        self.counters[departure.stream.index()].dropped_late += 1;
        if self.keep_events {
            self.drops.push(departure);
        }
    }
}

/// The scheduler with its records.
struct Engine {
    scheduler: Box<dyn DynScheduler + Send>,
    log: Log,
    now_ns: u64,
    /// The exception of a discipline in Python.
    raised: Option<StoredException>,
}

impl Engine {
    fn stream(&self, stream: u32) -> PyResult<StreamId> {
        let streams = self.scheduler.streams();
        if StreamId(stream).index() < streams {
            return Ok(StreamId(stream));
        }
        let message = match streams {
            0 => format!("stream {stream} is out of range: there are no streams"),
            1 => format!("stream {stream} is out of range: there is 1 stream"),
            _ => format!("stream {stream} is out of range: there are {streams} streams"),
        };
        Err(PyIndexError::new_err(message))
    }

    /// Checks that time does not decrease.
    fn advance(&mut self, now_ns: u64) -> PyResult<()> {
        if now_ns < self.now_ns {
            let before = self.now_ns;
            let message = format!("time goes back from {before} ns to {now_ns} ns");
            return Err(PyValueError::new_err(message));
        }
        self.now_ns = now_ns;
        Ok(())
    }

    /// Checks that times do not decrease.
    fn advance_through(&mut self, times: &[u64]) -> PyResult<()> {
        if let Some(pair) = times.windows(2).find(|pair| pair[0] > pair[1]) {
            let message = format!("time goes back from {} ns to {} ns", pair[0], pair[1]);
            return Err(PyValueError::new_err(message));
        }
        let Some((first, last)) = times.first().zip(times.last()) else { return Ok(()) };
        self.advance(*first)?;
        self.now_ns = *last;
        Ok(())
    }

    /// Raises the stored exception of a discipline in Python.
    #[inline]
    fn raise_stored(&self) -> PyResult<()> {
        let raised = self.raised.as_ref().and_then(|raised| raised.lock().ok()?.take());
        raised.map_or(Ok(()), Err)
    }

    #[inline]
    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Option<u64> {
        let admitted = self.scheduler.enqueue(now_ns, stream, packet);
        admitted.map_err(|departure| self.log.count_full_drop(&departure)).ok()
    }
}

/// The columns of a batch of arrivals.
struct Arrivals<'a> {
    times: &'a [u64],
    streams: &'a [u32],
    bytes: &'a [u32],
    tags: Option<&'a [u64]>,
}

impl Arrivals<'_> {
    /// Returns the number of admitted packets.
    fn enqueue_all(&self, engine: &mut Engine) -> usize {
        let columns = self.times.iter().zip(self.streams).zip(self.bytes);
        let mut admitted = 0;
        for (at, ((&now_ns, &stream), &bytes)) in columns.enumerate() {
            let packet = Packet { bytes, tag: self.tags.map_or(0, |tags| tags[at]) };
            admitted += usize::from(engine.enqueue(now_ns, StreamId(stream), packet).is_some());
        }
        admitted
    }
}

/// The engine: a discipline on a structure over the streams' queues.
#[pyclass(subclass, module = "millstream._millstream")]
pub(crate) struct Scheduler {
    /// A mutex because Python objects must be `Sync`; it is never contended.
    engine: Mutex<Engine>,
    structure: &'static str,
}

impl Scheduler {
    fn engine(&mut self) -> &mut Engine {
        self.engine.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Scheduler {
    /// Creates a scheduler without streams.
    ///
    /// `discipline` is a scenario whose `[scheduler]` is used, or an object with `rank`. The other
    /// arguments apply to the object.
    #[new]
    #[pyo3(signature = (discipline, structure, link_rate_bps, overhead_bytes, framing, events))]
    fn new(
        discipline: &Bound<'_, PyAny>,
        structure: &str,
        link_rate_bps: u64,
        overhead_bytes: i32,
        framing: &str,
        events: bool,
    ) -> PyResult<Self> {
        let (scheduler, structure, raised): (Box<dyn DynScheduler + Send>, _, _) =
            if let Ok(scenario) = discipline.cast::<Scenario>() {
                let settings = &scenario.get().parsed().scheduler;
                let row = settings.discipline;
                let structure = match structure {
                    "auto" => row.auto_structure(&settings.options, ASSUMED_STREAMS),
                    _ => settings.structure,
                };
                (row.build(&settings.options, structure), structure.name(), None)
            } else {
                let raised = StoredException::default();
                let prototype = PythonDiscipline::new(discipline, StoredException::clone(&raised))?;
                let link = Link::new(link_rate_bps, overhead_bytes).framed(self::framing(framing)?);
                let (scheduler, structure): (Box<dyn DynScheduler + Send>, _) = match structure {
                    "auto" | "heap" => {
                        let selector = Selector::new(prototype, Heap::default());
                        (Box::new(millstream::Scheduler::over(selector).on_link(link)), "heap")
                    }
                    "scan" => {
                        let selector = Selector::new(prototype, Scan::default());
                        (Box::new(millstream::Scheduler::over(selector).on_link(link)), "scan")
                    }
                    other => {
                        return Err(PyValueError::new_err(format!(
                            "structure `{other}` does not support a discipline in Python; \
                             structures: auto, heap, scan"
                        )));
                    }
                };
                (scheduler, structure, Some(raised))
            };
        let log = Log { keep_events: events, ..Log::default() };
        let engine = Mutex::new(Engine { scheduler, log, now_ns: 0, raised });
        Ok(Self { engine, structure })
    }

    /// The data structure that finds the first stream.
    #[getter]
    fn structure(&self) -> &'static str {
        self.structure
    }

    /// Adds a stream and returns its number.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        *, period_ns, window, first_deadline_ns, late, weight, quantum_bytes, priority, queue,
        max_rate_bps, burst_bytes, credits, fmc
    ))]
    fn _add_stream(
        &mut self,
        period_ns: Option<u64>,
        window: (u32, u32),
        first_deadline_ns: Option<u64>,
        late: &str,
        weight: u32,
        quantum_bytes: Option<u32>,
        priority: u32,
        queue: Option<u32>,
        max_rate_bps: Option<u64>,
        burst_bytes: Option<u64>,
        credits: Option<u64>,
        fmc: bool,
    ) -> PyResult<u32> {
        let window = Window::new(window.0, window.1).map_err(contract)?;
        let mut terms = Contract::new().window(window).priority(priority);
        terms = terms.weight(weight).map_err(contract)?;
        terms = terms.late(match late {
            "send" => Late::Send,
            "drop" => Late::Drop,
            other => {
                let message = format!("late = `{other}`; must be `send` or `drop`");
                return Err(ContractError::new_err(message));
            }
        });
        if let Some(period_ns) = period_ns {
            terms = terms.period_ns(period_ns).map_err(contract)?;
        }
        if let Some(deadline_ns) = first_deadline_ns {
            terms = terms.first_deadline_ns(deadline_ns);
        }
        if let Some(bytes) = quantum_bytes {
            terms = terms.quantum_bytes(bytes).map_err(contract)?;
        }
        if let Some(packets) = queue {
            terms = terms.queue(packets);
        }
        match (max_rate_bps.map(NonZeroU64::new), burst_bytes) {
            (None, None) => {}
            (Some(Some(rate_bps)), Some(burst_bytes)) => {
                terms = terms.max_rate(MaxRate { rate_bps, burst_bytes });
            }
            _ => {
                return Err(ContractError::new_err(
                    "a rate cap needs both `max_rate_bps`, at least 1, and `burst_bytes`",
                ));
            }
        }
        if let Some(credits) = credits {
            terms = terms.credits(credits);
        }
        if fmc {
            terms = terms.fmc();
        }
        let engine = self.engine();
        let stream = engine.scheduler.add_stream(terms).map_err(contract)?;
        engine.log.counters.push(Counters::default());
        Ok(stream.0)
    }

    /// Enqueues a packet. Returns its number among the stream's arrivals; None if the queue was
    /// full.
    #[pyo3(signature = (now_ns, stream, bytes, tag=0))]
    fn enqueue(
        &mut self,
        #[pyo3(from_py_with = arguments::now_ns)] now_ns: u64,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
        #[pyo3(from_py_with = arguments::bytes)] bytes: u32,
        #[pyo3(from_py_with = arguments::tag)] tag: u64,
    ) -> PyResult<Option<u64>> {
        let engine = self.engine();
        let stream = engine.stream(stream)?;
        engine.advance(now_ns)?;
        let number = engine.enqueue(now_ns, stream, Packet { bytes, tag });
        engine.raise_stored()?;
        Ok(number)
    }

    /// Makes a decision: the packet to send now, or None if no stream is eligible.
    fn dequeue(
        &mut self,
        #[pyo3(from_py_with = arguments::now_ns)] now_ns: u64,
    ) -> PyResult<Option<Departure>> {
        let engine = self.engine();
        engine.advance(now_ns)?;
        let departure = engine.scheduler.decide(now_ns, &mut engine.log);
        engine.raise_stored()?;
        Ok(departure.as_ref().map(Departure::from))
    }

    /// Enqueues arrivals in time order. Returns the number of admitted packets.
    #[pyo3(signature = (times, streams, bytes, tags=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn _enqueue_batch(
        &mut self,
        py: Python<'_>,
        times: PyReadonlyArray1<'_, u64>,
        streams: PyReadonlyArray1<'_, u32>,
        bytes: PyReadonlyArray1<'_, u32>,
        tags: Option<PyReadonlyArray1<'_, u64>>,
    ) -> PyResult<usize> {
        let arrivals = Arrivals {
            times: times.as_slice()?,
            streams: streams.as_slice()?,
            bytes: bytes.as_slice()?,
            tags: tags.as_ref().map(PyReadonlyArray1::as_slice).transpose()?,
        };
        let engine = self.engine();
        if let Some(greatest) = arrivals.streams.iter().max() {
            engine.stream(*greatest)?;
        }
        engine.advance_through(arrivals.times)?;
        let admitted = py.detach(|| arrivals.enqueue_all(engine));
        engine.raise_stored()?;
        Ok(admitted)
    }

    /// Makes up to `count` decisions at one instant.
    fn _dequeue_at(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        count: usize,
    ) -> PyResult<DepartureColumns> {
        let engine = self.engine();
        engine.advance(now_ns)?;
        let sent = py.detach(|| {
            let waiting = usize::try_from(engine.scheduler.total_waiting()).unwrap_or(usize::MAX);
            let mut sent = Rows::with_capacity(count.min(waiting));
            for _ in 0..count {
                match engine.scheduler.decide(now_ns, &mut engine.log) {
                    Some(departure) => sent.push(&departure),
                    None => break,
                }
            }
            sent
        });
        engine.raise_stored()?;
        Ok(sent.into_columns(py))
    }

    /// Makes one decision at each of `times`.
    #[allow(clippy::needless_pass_by_value)]
    fn _dequeue_times(
        &mut self,
        py: Python<'_>,
        times: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<DepartureColumns> {
        let times = times.as_slice()?;
        let engine = self.engine();
        engine.advance_through(times)?;
        let sent = py.detach(|| {
            let mut sent = Rows::with_capacity(times.len());
            for &now_ns in times {
                if let Some(departure) = engine.scheduler.decide(now_ns, &mut engine.log) {
                    sent.push(&departure);
                }
            }
            sent
        });
        engine.raise_stored()?;
        Ok(sent.into_columns(py))
    }

    /// Opens or closes the gate of a stream.
    fn set_eligible(
        &mut self,
        #[pyo3(from_py_with = arguments::now_ns)] now_ns: u64,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
        eligible: bool,
    ) -> PyResult<()> {
        if self.structure == "hilq" && !eligible {
            return Err(PyValueError::new_err("structure `hilq` does not support gates"));
        }
        let engine = self.engine();
        let stream = engine.stream(stream)?;
        engine.advance(now_ns)?;
        engine.scheduler.set_eligible(now_ns, stream, eligible);
        engine.raise_stored()
    }

    /// Returns credits to a stream.
    fn add_credits(
        &mut self,
        #[pyo3(from_py_with = arguments::now_ns)] now_ns: u64,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
        #[pyo3(from_py_with = arguments::credits)] credits: u64,
    ) -> PyResult<()> {
        let engine = self.engine();
        let stream = engine.stream(stream)?;
        engine.advance(now_ns)?;
        engine.scheduler.add_credits(now_ns, stream, credits);
        engine.raise_stored()
    }

    /// The time at which the next stream becomes eligible under its rate cap, ns.
    fn next_eligible_ns(&mut self) -> Option<u64> {
        self.engine().scheduler.next_eligible_ns()
    }

    /// Packets waiting in a stream, or in all.
    #[pyo3(signature = (stream=None))]
    fn waiting(
        &mut self,
        #[pyo3(from_py_with = arguments::optional_stream)] stream: Option<u32>,
    ) -> PyResult<u64> {
        let engine = self.engine();
        match stream {
            Some(stream) => Ok(engine.scheduler.waiting(engine.stream(stream)?).into()),
            None => Ok(engine.scheduler.total_waiting()),
        }
    }

    fn __len__(&mut self) -> usize {
        self.engine().scheduler.streams()
    }

    /// By stream: missed, violations, dropped late, dropped full.
    #[allow(clippy::type_complexity)]
    fn _counters<'py>(&mut self, py: Python<'py>) -> [Bound<'py, PyArray1<u64>>; 4] {
        let counters = &self.engine().log.counters;
        let column =
            |of: fn(&Counters) -> u64| counters.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
        [
            column(|counters| counters.missed),
            column(|counters| counters.violations),
            column(|counters| counters.dropped_late),
            column(|counters| counters.dropped_full),
        ]
    }

    /// Returns the drops since the last call, if events are kept.
    fn take_drops(&mut self, py: Python<'_>) -> DepartureColumns {
        std::mem::take(&mut self.engine().log.drops).into_columns(py)
    }

    /// Returns the misses since the last call: time, stream, missed, violations.
    #[allow(clippy::type_complexity)]
    fn _take_misses<'py>(
        &mut self,
        py: Python<'py>,
    ) -> (
        Bound<'py, PyArray1<u64>>,
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<u64>>,
        Bound<'py, PyArray1<u64>>,
    ) {
        let misses = std::mem::take(&mut self.engine().log.misses);
        (
            misses.time_ns.into_pyarray(py),
            misses.stream.into_pyarray(py),
            misses.missed.into_pyarray(py),
            misses.violations.into_pyarray(py),
        )
    }
}

/// Returns the framing of this name.
fn framing(name: &str) -> PyResult<Framing> {
    match name {
        "none" => Ok(Framing::None),
        "atm" => Ok(Framing::Atm),
        "ptm" => Ok(Framing::Ptm),
        other => {
            let message = format!("framing {other:?}; expected \"none\", \"atm\" or \"ptm\"");
            Err(PyValueError::new_err(message))
        }
    }
}
