//! Converts departures to columns: Arrow for a run, NumPy for a batch.
//!
//! A run's columns are split into record batches of 131,072 rows (45 bytes per row), so they grow
//! without copies. The Arrow C stream interface exports them without a copy, too. Names of streams
//! and events are dictionaries; their indices are signed since pandas has no unsigned ones.

use arrow_array::builder::UInt64Builder;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use millstream::{Departure, Event};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Rows of a record batch.
const BATCH: usize = 1 << 17;

/// The events in the order of their codes.
const EVENTS: [Event; 4] =
    [Event::Sent, Event::DroppedLate, Event::DroppedFull, Event::DroppedByAqm];

fn code(event: Event) -> u8 {
    match event {
        Event::Sent => 0,
        Event::DroppedLate => 1,
        Event::DroppedFull => 2,
        Event::DroppedByAqm => 3,
    }
}

/// Collects a run's departures.
pub(crate) struct Collector {
    schema: SchemaRef,
    names: ArrayRef,
    events: ArrayRef,
    batches: Vec<RecordBatch>,
    time_ns: Vec<u64>,
    stream: Vec<i32>,
    packet: Vec<u64>,
    bytes: Vec<u32>,
    arrival_ns: Vec<u64>,
    deadline_ns: UInt64Builder,
    event: Vec<i8>,
}

impl Collector {
    /// Creates a collector for streams with these names.
    pub(crate) fn new(names: &[String]) -> Self {
        let dictionary = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
        let field = |name, kind| Field::new(name, kind, false);
        let schema = Schema::new(vec![
            field("time_ns", DataType::UInt64),
            field("stream", dictionary(DataType::Int32)),
            field("packet", DataType::UInt64),
            field("bytes", DataType::UInt32),
            field("arrival_ns", DataType::UInt64),
            Field::new("deadline_ns", DataType::UInt64, true),
            field("event", dictionary(DataType::Int8)),
        ]);
        Self {
            schema: Arc::new(schema),
            names: Arc::new(StringArray::from_iter_values(names)),
            events: Arc::new(StringArray::from_iter_values(EVENTS.map(Event::name))),
            batches: Vec::new(),
            time_ns: Vec::new(),
            stream: Vec::new(),
            packet: Vec::new(),
            bytes: Vec::new(),
            arrival_ns: Vec::new(),
            deadline_ns: UInt64Builder::new(),
            event: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, departure: &Departure) -> Result<(), ArrowError> {
        self.time_ns.push(departure.time_ns);
        self.stream.push(departure.stream.0.cast_signed());
        self.packet.push(departure.packet);
        self.bytes.push(departure.bytes);
        self.arrival_ns.push(departure.arrival_ns);
        self.deadline_ns.append_option(departure.deadline_ns);
        self.event.push(code(departure.event).cast_signed());
        if self.time_ns.len() == BATCH { self.flush_batch() } else { Ok(()) }
    }

    /// Converts the collected rows into a record batch.
    fn flush_batch(&mut self) -> Result<(), ArrowError> {
        let number = |column: &mut Vec<u64>| UInt64Array::from(std::mem::take(column));
        let stream = PrimitiveArray::<Int32Type>::from(std::mem::take(&mut self.stream));
        let event = PrimitiveArray::<Int8Type>::from(std::mem::take(&mut self.event));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(number(&mut self.time_ns)),
            Arc::new(DictionaryArray::try_new(stream, Arc::clone(&self.names))?),
            Arc::new(number(&mut self.packet)),
            Arc::new(UInt32Array::from(std::mem::take(&mut self.bytes))),
            Arc::new(number(&mut self.arrival_ns)),
            Arc::new(self.deadline_ns.finish()),
            Arc::new(DictionaryArray::try_new(event, Arc::clone(&self.events))?),
        ];
        self.batches.push(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }

    /// Returns all collected rows.
    pub(crate) fn finish(mut self) -> Result<Departures, ArrowError> {
        if !self.time_ns.is_empty() {
            self.flush_batch()?;
        }
        Ok(Departures { schema: self.schema, batches: self.batches })
    }
}

/// A run's departures, readable through the Arrow `PyCapsule` interface.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Departures {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Departures {
    /// The columns as an Arrow C stream; a requested schema is ignored, as the protocol allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Departures of a batch, one NumPy array per column.
#[pyclass(frozen, get_all, module = "millstream._millstream")]
pub(crate) struct DepartureColumns {
    time_ns: Py<PyArray1<u64>>,
    stream: Py<PyArray1<u32>>,
    packet: Py<PyArray1<u64>>,
    bytes: Py<PyArray1<u32>>,
    arrival_ns: Py<PyArray1<u64>>,
    /// 2⁶⁴ − 1 without a deadline.
    deadline_ns: Py<PyArray1<u64>>,
    event: Py<PyArray1<u8>>,
    tag: Py<PyArray1<u64>>,
}

#[pymethods]
impl DepartureColumns {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.time_ns.bind(py).len()
    }
}

/// The columns of a batch under construction.
#[derive(Default)]
pub(crate) struct Rows {
    time_ns: Vec<u64>,
    stream: Vec<u32>,
    packet: Vec<u64>,
    bytes: Vec<u32>,
    arrival_ns: Vec<u64>,
    deadline_ns: Vec<u64>,
    event: Vec<u8>,
    tag: Vec<u64>,
}

impl Rows {
    /// Reserves space for `rows` rows, so that `push` allocates nothing.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            time_ns: Vec::with_capacity(rows),
            stream: Vec::with_capacity(rows),
            packet: Vec::with_capacity(rows),
            bytes: Vec::with_capacity(rows),
            arrival_ns: Vec::with_capacity(rows),
            deadline_ns: Vec::with_capacity(rows),
            event: Vec::with_capacity(rows),
            tag: Vec::with_capacity(rows),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, departure: &Departure) {
        self.time_ns.push(departure.time_ns);
        self.stream.push(departure.stream.0);
        self.packet.push(departure.packet);
        self.bytes.push(departure.bytes);
        self.arrival_ns.push(departure.arrival_ns);
        self.deadline_ns.push(departure.deadline_ns.unwrap_or(u64::MAX));
        self.event.push(code(departure.event));
        self.tag.push(departure.tag);
    }

    pub(crate) fn into_columns(self, py: Python<'_>) -> DepartureColumns {
        DepartureColumns {
            time_ns: self.time_ns.into_pyarray(py).unbind(),
            stream: self.stream.into_pyarray(py).unbind(),
            packet: self.packet.into_pyarray(py).unbind(),
            bytes: self.bytes.into_pyarray(py).unbind(),
            arrival_ns: self.arrival_ns.into_pyarray(py).unbind(),
            deadline_ns: self.deadline_ns.into_pyarray(py).unbind(),
            event: self.event.into_pyarray(py).unbind(),
            tag: self.tag.into_pyarray(py).unbind(),
        }
    }
}

/// Converts an Arrow error, which only a bug can cause.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn arrow(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
