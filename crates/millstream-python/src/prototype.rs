//! Disciplines written in Python: to try a rank function before it is written in Rust.
//!
//! The object's `rank(stream, head)` says where a backlogged stream stands: an integer, or up to
//! four in order of significance; the least is served, among equals the lowest stream. It is asked
//! again after each event of that stream and only then, so a rank may depend on the stream's own
//! history and on nothing that changes by itself.
//!
//! Cost: each hook is a call into Python, some 0.2 to 1 µs, two to four a packet; everything else is
//! the engine as it is. What a hook raises is kept and raised by the call that led to it.

use millstream::{ByRank, Contract, ContractError, Discipline, Head as EngineHead, Rank, StreamId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex};

/// How many integers a rank may have.
const PLACES: usize = 4;

/// A head-of-line packet, as a discipline may know it.
#[pyclass(frozen, get_all, module = "millstream")]
pub(crate) struct Head {
    /// When it arrived, ns.
    arrival_ns: u64,
    /// Its length, bytes.
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

/// What a hook raised first, until somebody takes it.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// A discipline that asks a Python object.
pub(crate) struct Prototype {
    object: Py<PyAny>,
    on_arrival: bool,
    on_served: bool,
    now_ns: u64,
    streams: u32,
    raised: Raised,
}

/// Up to four integers, compared from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Places([i128; PLACES]);

impl Rank for Places {}

impl Prototype {
    /// Asks `object`; what it raises goes to `raised`.
    pub(crate) fn new(object: &Bound<'_, PyAny>, raised: Raised) -> PyResult<Self> {
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

    /// What `ask` answers; if it raises, that is kept and the answer is `None`.
    fn ask<T>(&self, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        Python::attach(|py| match ask(self.object.bind(py)) {
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

/// A rank as Python gives it.
fn places(rank: &Bound<'_, PyAny>) -> PyResult<Places> {
    let mut places = [0; PLACES];
    match rank.cast::<PyTuple>() {
        Ok(tuple) if tuple.len() <= PLACES => {
            for (place, number) in places.iter_mut().zip(tuple) {
                *place = number.extract()?;
            }
        }
        Ok(tuple) => {
            let message = format!("a rank of {} integers; at most {PLACES}", tuple.len());
            return Err(PyValueError::new_err(message));
        }
        Err(_) => places[0] = rank.extract()?,
    }
    Ok(Places(places))
}

impl Discipline for Prototype {
    /// The stream's number; all else is kept by the object.
    type State = u32;
    type Rank = Places;
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

    fn rank(&self, stream: &u32, head: EngineHead) -> Places {
        let rank = |object: &Bound<'_, PyAny>| {
            places(&object.call_method1("rank", (*stream, Head::from(head)))?)
        };
        self.ask(rank).unwrap_or(Places([i128::MAX; PLACES]))
    }

    fn arrived(&mut self, _: &mut u32, stream: StreamId, bytes: u32, _: bool) {
        if self.on_arrival {
            self.ask(|object| {
                object.call_method1("on_arrival", (stream.0, bytes, self.now_ns)).map(drop)
            });
        }
    }

    fn served(&mut self, _: &mut u32, stream: StreamId, head: EngineHead, now_ns: u64) -> bool {
        if self.on_served {
            let arguments = (stream.0, Head::from(head), now_ns);
            self.ask(|object| object.call_method1("on_served", arguments).map(drop));
        }
        false
    }
}
