//! Disciplines written in Python, to prototype a rank function before writing it in Rust.
//!
//! The object's `rank(stream, head)` returns the rank of a backlogged stream: an integer, or up to
//! four in order of significance. The lowest rank is served; ties go to the lowest stream. `rank`
//! is called only after an event of that stream, so a rank must not depend on time or on other
//! streams.
//!
//! Cost: each hook is a call into Python of about 0.2 to 1 µs; a packet needs two to four. The rest
//! is the engine's cost. An exception of a hook is stored and raised by the current call.

use millstream::{ByRank, Contract, ContractError, Discipline, Head as EngineHead, Rank, StreamId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex};

/// Maximum number of integers in a rank.
const COMPONENTS: usize = 4;

/// A head-of-line packet, as visible to a discipline.
#[pyclass(frozen, get_all, module = "millstream")]
pub(crate) struct Head {
    /// Arrival time, ns.
    arrival_ns: u64,
    /// Length, bytes.
    bytes: u32,
}

#[pymethods]
impl Head {
    fn __repr__(&self) -> String {
        format!("Head(arrival_ns={}, bytes={})", self.arrival_ns, self.bytes)
    }
}

impl From<EngineHead> for Head {
    fn from(head: EngineHead) -> Self {
        Self { arrival_ns: head.arrival_ns, bytes: head.bytes }
    }
}

/// The first exception of a hook that no call has raised yet.
pub(crate) type StoredException = Arc<Mutex<Option<PyErr>>>;

/// A discipline that calls a Python object.
pub(crate) struct PythonDiscipline {
    object: Py<PyAny>,
    on_arrival: bool,
    on_served: bool,
    now_ns: u64,
    streams: u32,
    raised: StoredException,
}

/// Up to four integers in lexicographic order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TupleRank([i128; COMPONENTS]);

impl Rank for TupleRank {}

impl PythonDiscipline {
    /// Wraps `object`; its exceptions go to `raised`.
    pub(crate) fn new(object: &Bound<'_, PyAny>, raised: StoredException) -> PyResult<Self> {
        if !object.getattr("rank").is_ok_and(|rank| rank.is_callable()) {
            return Err(PyTypeError::new_err(
                "a discipline is a name or an object with a method rank(stream, head)",
            ));
        }
        Ok(Self {
            object: object.clone().unbind(),
            on_arrival: object.hasattr("on_arrival")?,
            on_served: object.hasattr("on_served")?,
            now_ns: 0,
            streams: 0,
            raised,
        })
    }

    /// Returns the result of `hook`, or `None` after storing its exception.
    fn call_hook<T>(&self, hook: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        Python::attach(|py| match hook(self.object.bind(py)) {
            Ok(answer) => Some(answer),
            Err(error) => {
                if let Ok(mut raised) = self.raised.lock() {
                    raised.get_or_insert(error);
                }
                None
            }
        })
    }
}

/// Converts a rank from Python.
fn components(rank: &Bound<'_, PyAny>) -> PyResult<TupleRank> {
    let mut components = [0; COMPONENTS];
    match rank.cast::<PyTuple>() {
        Ok(tuple) if tuple.len() <= COMPONENTS => {
            for (component, number) in components.iter_mut().zip(tuple) {
                *component = number.extract()?;
            }
        }
        Ok(tuple) => {
            let message = format!("a rank of {} integers; at most {COMPONENTS}", tuple.len());
            return Err(PyValueError::new_err(message));
        }
        Err(_) => components[0] = rank.extract()?,
    }
    Ok(TupleRank(components))
}

impl Discipline for PythonDiscipline {
    /// The stream's number; the object keeps all other state.
    type State = u32;
    type Rank = TupleRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, _: &Contract) -> Result<u32, ContractError> {
        let stream = self.streams;
        self.streams += 1;
        Ok(stream)
    }

    fn advance(&mut self, clock_ns: u64) {
        self.now_ns = clock_ns;
    }

    fn rank(&self, stream: &u32, head: EngineHead) -> TupleRank {
        let rank = |object: &Bound<'_, PyAny>| {
            components(&object.call_method1("rank", (*stream, Head::from(head)))?)
        };
        self.call_hook(rank).unwrap_or(TupleRank([i128::MAX; COMPONENTS]))
    }

    fn arrived(&mut self, _: &mut u32, stream: StreamId, bytes: u32, _: bool) {
        if self.on_arrival {
            self.call_hook(|object| {
                object.call_method1("on_arrival", (stream.0, bytes, self.now_ns)).map(drop)
            });
        }
    }

    fn served(&mut self, _: &mut u32, stream: StreamId, head: EngineHead, now_ns: u64) -> bool {
        if self.on_served {
            let arguments = (stream.0, Head::from(head), now_ns);
            self.call_hook(|object| object.call_method1("on_served", arguments).map(drop));
        }
        false
    }
}
