//! Stop rules of a point, `METRIC=PERCENT`: the relative half-width of a confidence interval.

use crate::error::SweepError;
use crate::grid::Grid;
use crate::interval::Interval;
use crate::outcome::{Cell, Column, Kind, name_column};

/// The minimum number of runs before an interval may end a point.
pub(crate) const MIN_RUNS: usize = 3;

/// A rule that ends a point once the confidence interval of a metric is narrow enough.
#[derive(Clone, Debug, PartialEq)]
pub struct StopRule {
    /// Name of the stream that must satisfy the rule; `None` for every stream.
    stream: Option<String>,
    /// Index of the metric's column.
    column: usize,
    /// Maximum half-width of the interval, as a share of the mean.
    relative: f64,
}

impl StopRule {
    /// Parses a stop rule, `METRIC=PERCENT%` or `STREAM.METRIC=PERCENT%`.
    ///
    /// `delay_mean=2%` requires the half-width of every stream's mean delay to be at most 2 % of
    /// its mean. `NAME.delay_mean=2%` requires it of this stream only. The unit may be omitted from
    /// the metric's name.
    ///
    /// # Errors
    /// Fails if `text` does not have this form, or `grid` has no such stream or metric.
    pub fn parse(text: &str, grid: &Grid) -> Result<Self, SweepError> {
        let wrong = |what: String, help: &str| {
            SweepError::invalid_argument(format!("`--until {text}`: {what}"), help)
        };
        let form = "METRIC=PERCENT% or STREAM.METRIC=PERCENT%, such as delay_mean=2%";
        let (metric, relative) =
            text.split_once('=').ok_or_else(|| wrong("there is no `=`".into(), form))?;
        let percent =
            relative.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
        let percent: f64 = percent
            .filter(|percent: &f64| percent.is_finite() && *percent > 0.0)
            .ok_or_else(|| wrong(format!("`{relative}` is not a percentage above 0"), form))?;
        let (stream, metric) = match metric.trim().rsplit_once('.') {
            Some((stream, metric)) => (Some(stream), metric),
            None => (None, metric.trim()),
        };
        if let Some(stream) = stream
            && !grid.streams().any(|name| name == stream)
        {
            let names: Vec<String> =
                grid.streams().take(20).map(|name| format!("`{name}`")).collect();
            return Err(wrong(
                format!("there is no stream called `{stream}`"),
                &format!("streams: {}", names.join(", ")),
            ));
        }
        let column = metric_column(grid.columns(), metric).ok_or_else(|| {
            let metrics = grid.columns().iter().filter(|column| column.kind != Kind::Text);
            let names: Vec<&str> = metrics.map(|column| column.name).collect();
            let near = names
                .iter()
                .map(|name| (strsim::damerau_levenshtein(metric, without_unit(name)), *name))
                .min()
                .filter(|(distance, _)| *distance <= 3)
                .map_or(String::new(), |(_, name)| format!("did you mean `{name}`? "));
            wrong(
                format!("there is no metric `{metric}`"),
                &format!("{near}metrics: {}", names.join(", ")),
            )
        })?;
        Ok(Self { stream: stream.map(str::to_owned), column, relative: percent / 100.0 })
    }

    /// Creates a rule from a column index.
    #[cfg(test)]
    pub(crate) fn of(stream: Option<String>, column: usize, relative: f64) -> Self {
        Self { stream, column, relative }
    }

    /// Returns whether these runs of one point, in the order of seeds, satisfy the rule.
    ///
    /// A run without a value of the metric does not count: a failed run, or one in which the stream
    /// sent nothing.
    pub(crate) fn satisfied(&self, runs: &[&[Vec<Cell>]], columns: &[Column]) -> bool {
        let name = name_column(columns);
        let most = runs.iter().map(|rows| rows.len()).max().unwrap_or(0);
        let is_selected = |row: &Vec<Cell>| match (&self.stream, &row[name]) {
            (Some(wanted), Cell::Text(name)) => wanted == name,
            _ => true,
        };
        (0..most).all(|at| {
            let rows =
                || runs.iter().filter_map(|rows| rows.get(at)).filter(|row| is_selected(row));
            if rows().next().is_none() {
                return true;
            }
            let values: Vec<f64> = rows().filter_map(|row| row[self.column].number()).collect();
            Interval::of(&values).is_some_and(|interval| self.is_narrow(interval))
        })
    }

    fn is_narrow(&self, interval: Interval) -> bool {
        interval.runs >= MIN_RUNS
            && interval.half_width.is_some_and(|half| half <= self.relative * interval.mean.abs())
    }

    /// Returns the index of the metric's column.
    pub(crate) fn column(&self) -> usize {
        self.column
    }
}

/// Returns the name of a metric without its unit.
pub(crate) fn without_unit(name: &str) -> &str {
    name.strip_suffix("_ns").or_else(|| name.strip_suffix("_bps")).unwrap_or(name)
}

fn metric_column(columns: &[Column], metric: &str) -> Option<usize> {
    columns.iter().position(|column| {
        column.kind != Kind::Text && (column.name == metric || without_unit(column.name) == metric)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::outcome::{Simulated, columns};

    fn runs(values: &[Option<u64>]) -> Vec<Vec<Vec<Cell>>> {
        let columns = columns(Simulated::Link);
        let column = metric_column(&columns, "delay_mean").unwrap();
        let row = |value: &Option<u64>| {
            let mut row = vec![Cell::None; columns.len()];
            row[name_column(&columns)] = Cell::Text("a".into());
            row[column] = value.map_or(Cell::None, Cell::Count);
            vec![row]
        };
        values.iter().map(row).collect()
    }

    fn satisfied(relative: f64, values: &[Option<u64>]) -> bool {
        let columns = columns(Simulated::Link);
        let column = metric_column(&columns, "delay_mean_ns").unwrap();
        let runs = runs(values);
        let runs: Vec<&[Vec<Cell>]> = runs.iter().map(Vec::as_slice).collect();
        StopRule::of(Some("a".into()), column, relative).satisfied(&runs, &columns)
    }

    #[test]
    fn at_least_three_values_with_a_narrow_interval_satisfy() {
        assert!(!satisfied(0.5, &[Some(100), Some(100)]));
        assert!(satisfied(0.5, &[Some(100), Some(100), Some(100)]));
        // 98, 100, 102: deviation 2, half-width 4.97.
        assert!(!satisfied(0.049, &[Some(98), Some(100), Some(102)]));
        assert!(satisfied(0.050, &[Some(98), Some(100), Some(102)]));
    }

    #[test]
    fn runs_without_a_value_do_not_count() {
        assert!(!satisfied(0.5, &[Some(100), None, Some(100)]));
        assert!(satisfied(0.5, &[Some(100), None, Some(100), Some(100)]));
        assert!(!satisfied(0.5, &[None, None, None, None]));
        assert!(satisfied(0.5, &[Some(0), Some(0), Some(0)]), "the interval has a width of 0");
    }
}
