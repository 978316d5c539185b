//! The dataset as Parquet: one row group, Snappy compression, every column optional.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;
use toml::Value;

use crate::grid::Grid;
use crate::outcome::{Cell, Kind};
use crate::run::CompletedRun;
use crate::setting::display_value;

/// The values of a column; `None` is null.
enum Values {
    Integers(Vec<Option<i64>>),
    Counts(Vec<Option<u64>>),
    Numbers(Vec<Option<f64>>),
    Booleans(Vec<Option<bool>>),
    Texts(Vec<Option<String>>),
}

/// Writes the columns `point`, the settings, `seed`, then the metrics of each run.
pub(crate) fn write_parquet(
    file: &mut (impl Write + Send),
    grid: &Grid,
    runs: &[CompletedRun],
) -> io::Result<()> {
    write(file, &columns(grid, runs)).map_err(io::Error::other)
}

fn write(file: &mut (impl Write + Send), columns: &[(&str, Values)]) -> Result<()> {
    let fields = columns.iter().map(|(name, values)| values.field(name).map(Arc::new));
    let schema = Type::group_type_builder("schema").with_fields(fields.collect::<Result<_>>()?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema.build()?), Arc::new(properties))?;
    let mut rows = writer.next_row_group()?;
    for (_, values) in columns {
        values.write(&mut rows)?;
    }
    rows.close()?;
    writer.close()?;
    Ok(())
}

fn columns<'a>(grid: &'a Grid, runs: &[CompletedRun]) -> Vec<(&'a str, Values)> {
    let runs_by_row = || runs.iter().flat_map(|run| run.rows.iter().map(move |row| (run, row)));
    let points = runs_by_row().map(|(run, _)| i64::try_from(run.point).ok());
    let mut columns = vec![("point", Values::Integers(points.collect()))];
    for (axis, setting) in grid.settings().iter().enumerate() {
        let values = runs_by_row().map(|(run, _)| grid.values(run.point)[axis]);
        columns.push((&setting.place, settings(&setting.values, values)));
    }
    columns.push(("seed", Values::Counts(runs_by_row().map(|(run, _)| Some(run.seed)).collect())));
    for (at, column) in grid.columns().iter().enumerate() {
        let cells = runs_by_row().map(|(_, row)| &row[at]);
        let values = match column.kind {
            Kind::Count => Values::Counts(
                cells
                    .map(|cell| match cell {
                        Cell::Count(count) => Some(*count),
                        _ => None,
                    })
                    .collect(),
            ),
            Kind::Share => Values::Numbers(cells.map(Cell::number).collect()),
            Kind::Text => Values::Texts(
                cells
                    .map(|cell| match cell {
                        Cell::Text(text) => Some(text.clone()),
                        _ => None,
                    })
                    .collect(),
            ),
        };
        columns.push((column.name, values));
    }
    columns
}

/// Returns a setting's column with the common type of all its values, or text for mixed types.
#[allow(clippy::cast_precision_loss)]
fn settings<'a>(all: &[Value], values: impl Iterator<Item = &'a Value>) -> Values {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    if all.iter().all(Value::is_integer) {
        Values::Integers(values.map(Value::as_integer).collect())
    } else if all.iter().all(|value| number(value).is_some()) {
        Values::Numbers(values.map(number).collect())
    } else if all.iter().all(Value::is_bool) {
        Values::Booleans(values.map(Value::as_bool).collect())
    } else {
        Values::Texts(values.map(|value| Some(display_value(value))).collect())
    }
}

impl Values {
    fn field(&self, name: &str) -> Result<Type> {
        let (physical, logical) = match self {
            Self::Integers(_) => (Physical::INT64, None),
            Self::Counts(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Self::Numbers(_) => (Physical::DOUBLE, None),
            Self::Booleans(_) => (Physical::BOOLEAN, None),
            Self::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()
    }

    fn write<W: Write + Send>(&self, rows: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        match self {
            Self::Integers(values) => column::<Int64Type, _, _>(rows, values, |value| *value),
            // Parquet stores an unsigned count as a signed integer with equal bits.
            Self::Counts(values) => column::<Int64Type, _, _>(rows, values, |v| v.cast_signed()),
            Self::Numbers(values) => column::<DoubleType, _, _>(rows, values, |value| *value),
            Self::Booleans(values) => column::<BoolType, _, _>(rows, values, |value| *value),
            Self::Texts(values) => column::<ByteArrayType, _, _>(rows, values, |value| {
                ByteArray::from(value.as_bytes().to_vec())
            }),
        }
    }
}

fn column<D: DataType, T, W: Write + Send>(
    rows: &mut SerializedRowGroupWriter<'_, W>,
    values: &[Option<T>],
    stored: impl Fn(&T) -> D::T,
) -> Result<()> {
    let Some(mut column) = rows.next_column()? else { return Ok(()) };
    let present: Vec<D::T> = values.iter().flatten().map(stored).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    column.typed::<D>().write_batch(&present, Some(&levels), None)?;
    column.close()
}
