//! Integer arguments of methods.
//!
//! `PyO3` reports a wrong integer without its value, and one out of range without the name of its
//! argument. These functions name the argument, its value and the range.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;

macro_rules! integers {
    ($($name:ident: $integer:ty),*) => {
        $(
            /// Reads the argument of this name.
            pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$integer> {
                integer(value, stringify!($name), <$integer>::MAX.into())
            }
        )*
    };
}

integers!(now_ns: u64, stream: u32, bytes: u32, tag: u64, credits: u64);

/// Reads the argument `seed`, which may be None.
pub(crate) fn seed(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { integer(value, "seed", u64::MAX).map(Some) }
}

/// Reads the argument `stream`, which may be None.
pub(crate) fn optional_stream(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    if value.is_none() { Ok(None) } else { stream(value).map(Some) }
}

fn integer<T: TryFrom<u64>>(value: &Bound<'_, PyAny>, name: &str, largest: u64) -> PyResult<T> {
    let number = match value.extract::<u64>() {
        Ok(number) => T::try_from(number).map_err(|_| None),
        Err(error) => Err(Some(error)),
    };
    number.map_err(|error| {
        let shown = value.repr().map_or_else(|_| String::new(), |repr| repr.to_string());
        let message = format!("{name} = {shown}; must be an integer from 0 to {largest}");
        match error {
            Some(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
                PyTypeError::new_err(message)
            }
            _ => PyOverflowError::new_err(message),
        }
    })
}
