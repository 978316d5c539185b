//! The recent past of a running program, in memory of a fixed size: a value a second for an hour,
//! and a value a minute for a week.

use serde::Serialize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The paths or streams with a history; further ones have none until another has been gone for the
/// whole span.
const MAX_SERIES: usize = 64;

/// A span of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A point a second.
    Hour,
    /// A point a minute.
    Week,
}

impl Span {
    /// Returns the time between two points, ns.
    #[must_use]
    pub fn step_ns(self) -> u64 {
        match self {
            Self::Hour => 1_000_000_000,
            Self::Week => 60_000_000_000,
        }
    }

    /// Returns the largest number of points.
    #[must_use]
    pub fn points(self) -> usize {
        match self {
            Self::Hour => 3_600,
            Self::Week => 7 * 24 * 60,
        }
    }
}

/// The history of named series with `N` columns, such as a rate and a delay.
#[derive(Clone, Debug)]
pub struct History<const N: usize> {
    columns: [&'static str; N],
    spans: [Ring<N>; 2],
}

/// The points of one span.
#[derive(Clone, Debug)]
struct Ring<const N: usize> {
    span: Span,
    /// The number of points so far, including overwritten ones.
    points: u64,
    /// The program's time at the newest point, ns.
    ended_ns: u64,
    series: Vec<Series<N>>,
}

#[derive(Clone, Debug)]
struct Series<const N: usize> {
    name: String,
    /// The point that was written last.
    last: u64,
    /// The points modulo the span's length; NaN: no value.
    points: Vec<[f32; N]>,
}

/// A span of the history in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryPage {
    /// The time between two points, ns.
    pub step_ns: u64,
    /// The program's time at the newest point, ns.
    pub ended_ns: u64,
    /// The values of each series at each point, in this order.
    pub columns: Vec<&'static str>,
    /// The series.
    pub series: Vec<HistorySeries>,
}

/// The history of a path or stream in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistorySeries {
    /// Its name.
    pub name: String,
    /// Each column's values, the oldest first; the newest is at the page's `ended_ns`. All columns
    /// of a page have the same length.
    pub values: Vec<Vec<Option<f32>>>,
}

impl<const N: usize> History<N> {
    /// Creates an empty history of values with these names.
    #[must_use]
    pub fn new(columns: [&'static str; N]) -> Self {
        let ring = |span| Ring { span, points: 0, ended_ns: 0, series: Vec::new() };
        Self { columns, spans: [ring(Span::Hour), ring(Span::Week)] }
    }

    /// Appends a point at `now_ns`. Series without values in `rows`, and points missed since the
    /// last call, are gaps. Time that goes back starts the span anew: the program was restarted.
    pub fn push<'a>(
        &mut self,
        span: Span,
        now_ns: u64,
        rows: impl IntoIterator<Item = (&'a str, [f64; N])>,
    ) {
        self.ring_mut(span).push(now_ns, rows);
    }

    /// Returns a span as JSON.
    #[must_use]
    pub fn page(&self, span: Span) -> HistoryPage {
        let ring = &self.spans[usize::from(span == Span::Week)];
        HistoryPage {
            step_ns: span.step_ns(),
            ended_ns: ring.ended_ns,
            columns: self.columns.to_vec(),
            series: ring.series.iter().filter_map(|series| ring.page(series)).collect(),
        }
    }

    fn ring_mut(&mut self, span: Span) -> &mut Ring<N> {
        &mut self.spans[usize::from(span == Span::Week)]
    }
}

/// Builds a history from samples of a program's counters, `T`.
#[derive(Debug)]
pub struct Sampler<T, const N: usize> {
    history: History<N>,
    /// The last sample of each span that has become a point, and its time, ns.
    last: [Option<(u64, Arc<T>)>; 2],
}

impl<T, const N: usize> Sampler<T, N> {
    /// Creates an empty history of values with these names.
    #[must_use]
    pub fn new(columns: [&'static str; N]) -> Self {
        Self { history: History::new(columns), last: [None, None] }
    }

    /// Adds the counters at `now_ns`. If a point of a span is due, `rows` computes its values: from
    /// the counters of the last point and now, and the time between, ns.
    pub fn add(
        &mut self,
        now_ns: u64,
        now: T,
        mut rows: impl FnMut(Span, &T, &T, u64) -> Vec<(String, [f64; N])>,
    ) {
        let now = Arc::new(now);
        for span in [Span::Hour, Span::Week] {
            let last = &mut self.last[usize::from(span == Span::Week)];
            if let Some((last_ns, before)) = last {
                let elapsed_ns = now_ns.saturating_sub(*last_ns);
                // Samples may be some milliseconds early.
                if elapsed_ns < span.step_ns() - Span::Hour.step_ns() / 2 {
                    continue;
                }
                let rows = rows(span, before, &now, elapsed_ns);
                let rows = rows.iter().map(|(name, values)| (name.as_str(), *values));
                self.history.push(span, now_ns, rows);
            }
            *last = Some((now_ns, Arc::clone(&now)));
        }
    }

    /// Returns a span as JSON.
    #[must_use]
    pub fn page(&self, span: Span) -> HistoryPage {
        self.history.page(span)
    }
}

/// Calls `sample` once a second until it returns false. A late sample does not shift later ones.
pub fn sample_each_second(mut sample: impl FnMut() -> bool) {
    let step = Duration::from_nanos(Span::Hour.step_ns());
    let mut due = Instant::now();
    while sample() {
        due = (due + step).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Returns the rate at which a counter grew from `before` to `now` in `elapsed_ns`, per second.
#[must_use]
pub fn rate(before: u64, now: u64, elapsed_ns: u64) -> f64 {
    now.saturating_sub(before) as f64 * 1e9 / elapsed_ns.max(1) as f64
}

impl<const N: usize> Ring<N> {
    fn push<'a>(&mut self, now_ns: u64, rows: impl IntoIterator<Item = (&'a str, [f64; N])>) {
        let (capacity, step_ns) = (self.span.points() as u64, self.span.step_ns());
        if now_ns < self.ended_ns {
            (self.points, self.ended_ns) = (0, 0);
            self.series.clear();
        }
        let steps = (now_ns - self.ended_ns + step_ns / 2) / step_ns;
        let steps = if self.points == 0 { 1 } else { steps.clamp(1, capacity) };
        for _ in 0..steps {
            let at = self.at(self.points);
            self.series.iter_mut().for_each(|series| series.points[at] = [f32::NAN; N]);
            self.points += 1;
        }
        self.ended_ns = now_ns;
        let (point, at) = (self.points - 1, self.at(self.points - 1));
        for (name, row) in rows {
            if let Some(series) = self.series_mut(name) {
                // 24 bits of a value are enough for a chart.
                #[allow(clippy::cast_possible_truncation)]
                let row = row.map(|value| value as f32);
                (series.last, series.points[at]) = (point, row);
            }
        }
    }

    fn at(&self, point: u64) -> usize {
        let points = self.span.points();
        usize::try_from(point % points as u64).unwrap_or_default()
    }

    /// Returns the series of a name, which may be new; `None` if there are too many.
    fn series_mut(&mut self, name: &str) -> Option<&mut Series<N>> {
        let (newest, capacity) = (self.points - 1, self.span.points());
        let found = self.series.iter().position(|series| series.name == name);
        let found = found.or_else(|| {
            let empty = Series {
                name: name.to_owned(),
                last: newest,
                points: vec![[f32::NAN; N]; capacity],
            };
            if self.series.len() < MAX_SERIES {
                self.series.push(empty);
                return Some(self.series.len() - 1);
            }
            let expired = |series: &Series<N>| newest - series.last >= capacity as u64;
            let place = self.series.iter().position(expired)?;
            self.series[place] = empty;
            Some(place)
        });
        self.series.get_mut(found?)
    }

    /// Returns a series as JSON; `None` if all its points are older than the span.
    fn page(&self, series: &Series<N>) -> Option<HistorySeries> {
        let kept = self.points.min(self.span.points() as u64);
        if self.points - 1 - series.last >= kept {
            return None;
        }
        // One decimal is enough for small rates, and shortens the page.
        let shown = |value: f32| value.is_finite().then_some((value * 10.0).round() / 10.0);
        let column = |column: usize| {
            let points = self.points - kept..self.points;
            points.map(|point| shown(series.points[self.at(point)][column])).collect()
        };
        Some(HistorySeries { name: series.name.clone(), values: (0..N).map(column).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn values(history: &History<1>, span: Span, name: &str) -> Option<Vec<Option<f32>>> {
        let page = history.page(span);
        page.series.iter().find(|series| series.name == name).map(|of| of.values[0].clone())
    }

    #[test]
    fn points_that_were_missed_are_gaps() {
        let mut history = History::new(["rate"]);
        history.push(Span::Hour, 7 * SECOND, [("a", [1.04])]);
        history.push(Span::Hour, 8 * SECOND + 400_000_000, [("a", [2.0]), ("b", [5.0])]);
        history.push(Span::Hour, 11 * SECOND, [("b", [6.0])]);
        let page = history.page(Span::Hour);
        assert_eq!(
            (page.step_ns, page.ended_ns, page.columns),
            (SECOND, 11 * SECOND, vec!["rate"])
        );
        let a = [Some(1.0), Some(2.0), None, None, None];
        assert_eq!(values(&history, Span::Hour, "a").unwrap(), a);
        assert_eq!(
            values(&history, Span::Hour, "b").unwrap(),
            [None, Some(5.0), None, None, Some(6.0)]
        );
        assert!(history.page(Span::Week).series.is_empty());
    }

    #[test]
    fn an_hour_is_kept_and_a_series_ends_with_its_last_point() {
        let mut history = History::new(["rate"]);
        history.push(Span::Hour, SECOND, [("gone", [9.0])]);
        for second in 2..=3_600 {
            history.push(Span::Hour, second * SECOND, [("a", [second as f64])]);
        }
        assert!(values(&history, Span::Hour, "gone").is_some());
        history.push(Span::Hour, 3_601 * SECOND, [("a", [1.0])]);
        assert_eq!(values(&history, Span::Hour, "gone"), None);
        let a = values(&history, Span::Hour, "a").unwrap();
        assert_eq!((a.len(), a[0], a[3_599]), (3_600, Some(2.0), Some(1.0)));
    }

    #[test]
    fn a_week_has_a_point_a_minute_and_a_gap_may_be_longer_than_it() {
        let mut history = History::new(["rate"]);
        history.push(Span::Week, 60 * SECOND, [("a", [1.0])]);
        history.push(Span::Week, 120 * SECOND, [("a", [2.0])]);
        assert_eq!(values(&history, Span::Week, "a").unwrap(), [Some(1.0), Some(2.0)]);
        history.push(Span::Week, 60 * SECOND * 100_000, [("b", [3.0])]);
        assert_eq!(values(&history, Span::Week, "a"), None);
        let b = values(&history, Span::Week, "b").unwrap();
        assert_eq!((b.len(), b.iter().flatten().count()), (7 * 24 * 60, 1));
    }

    #[test]
    fn the_number_of_series_is_limited_and_expired_ones_make_room() {
        let mut history = History::new(["rate"]);
        let names: Vec<String> = (0..=MAX_SERIES).map(|n| n.to_string()).collect();
        history.push(Span::Hour, SECOND, names.iter().map(|name| (name.as_str(), [1.0])));
        assert_eq!(history.page(Span::Hour).series.len(), MAX_SERIES);
        let last = names[MAX_SERIES].as_str();
        history.push(Span::Hour, 3_600 * SECOND, [(last, [1.0])]);
        assert_eq!(values(&history, Span::Hour, last), None);
        history.push(Span::Hour, 3_601 * SECOND, [(last, [1.0])]);
        assert!(values(&history, Span::Hour, last).is_some());
        assert_eq!(history.spans[0].series.len(), MAX_SERIES);
    }

    #[test]
    fn a_clock_that_goes_back_starts_the_history_anew() {
        let mut history = History::new(["rate"]);
        history.push(Span::Hour, 50 * SECOND, [("a", [1.0])]);
        history.push(Span::Hour, SECOND, [("b", [2.0])]);
        assert_eq!(values(&history, Span::Hour, "a"), None);
        assert_eq!(values(&history, Span::Hour, "b").unwrap(), [Some(2.0)]);
    }
}
