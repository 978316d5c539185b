//! Placement of a chart's legend in the corner or at the side where it hides least of the lines.

use plotters::prelude::SeriesLabelPosition;

/// The positions in order of preference, with their coordinates from 0 (left, bottom) to 1.
const POSITIONS: [(SeriesLabelPosition, f64, f64); 8] = [
    (SeriesLabelPosition::UpperRight, 1.0, 1.0),
    (SeriesLabelPosition::LowerRight, 1.0, 0.0),
    (SeriesLabelPosition::UpperLeft, 0.0, 1.0),
    (SeriesLabelPosition::LowerLeft, 0.0, 0.0),
    (SeriesLabelPosition::MiddleRight, 1.0, 0.5),
    (SeriesLabelPosition::MiddleLeft, 0.0, 0.5),
    (SeriesLabelPosition::UpperMiddle, 0.5, 1.0),
    (SeriesLabelPosition::LowerMiddle, 0.5, 0.0),
];

/// The pixels outside the axes, horizontally and vertically: margins, labels and title.
const BESIDE: (f64, f64) = (98.0, 96.0);

/// The number of interpolated steps between two points of a line.
const BETWEEN: u32 = 16;

/// Returns the position of a legend with these names that hides the fewest points of the lines.
///
/// `size` is the chart's size in pixels, `frame` the range of its axes, and `drawn` the points of
/// its lines.
pub(super) fn position(
    size: (u32, u32),
    names: &[&str],
    drawn: &[Vec<(f64, f64)>],
    frame: [(f64, f64); 2],
) -> SeriesLabelPosition {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // The size of the legend is estimated generously from the font sizes.
    let pixels = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let width = (60.0 + 7.5 * pixels(longest)) / (f64::from(size.0) - BESIDE.0);
    let height = (24.0 + 16.5 * pixels(names.len())) / (f64::from(size.1) - BESIDE.1);
    let hidden = |across: f64, up: f64| {
        let (left, bottom) = (across * (1.0 - width), up * (1.0 - height));
        let inside = |(x, y): &(f64, f64)| {
            (left..=left + width).contains(x) && (bottom..=bottom + height).contains(y)
        };
        drawn.iter().flat_map(|line| within(line, frame)).filter(inside).count()
    };
    let ranked = POSITIONS.into_iter().min_by_key(|(_, across, up)| hidden(*across, *up));
    ranked.map_or(SeriesLabelPosition::UpperRight, |(position, ..)| position)
}

/// Returns interpolated points along a line, as shares of the frame.
fn within(line: &[(f64, f64)], [x, y]: [(f64, f64); 2]) -> impl Iterator<Item = (f64, f64)> {
    let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
    let at = move |point: (f64, f64)| (share(point.0, x), share(point.1, y));
    line.windows(2).flat_map(move |pair| {
        let (from, to) = (at(pair[0]), at(pair[1]));
        (0..=BETWEEN).map(move |step| {
            let part = f64::from(step) / f64::from(BETWEEN);
            (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[Vec<(f64, f64)>]) -> SeriesLabelPosition {
        position((760, 400), &["one", "two"], lines, [(0.0, 1.0), (0.0, 1.0)])
    }

    #[test]
    fn legend_avoids_the_lines() {
        assert!(matches!(of(&[]), SeriesLabelPosition::UpperRight));
        let high = vec![(0.0, 0.9), (1.0, 0.9)];
        assert!(matches!(of(std::slice::from_ref(&high)), SeriesLabelPosition::LowerRight));
        let falling = vec![(0.5, 0.6), (1.0, 0.05)];
        assert!(matches!(of(&[high, falling]), SeriesLabelPosition::LowerLeft));
    }
}
