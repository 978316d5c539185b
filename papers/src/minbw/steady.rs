//! Detection of the steady state of a run: MSER-5, and the drift between halves of a window.
//!
//! Source: White, Cobb and Spratt, *A comparison of five steady-state truncation heuristics for
//! simulation* (Winter Simulation Conference, 2000).

/// Observations per batch of MSER-5.
const BATCH: usize = 5;

/// Returns the number of leading observations that MSER-5 removes from `series`.
///
/// Means of five successive observations form batches. The result removes the d first of k batches,
/// where d minimizes the sum of squared deviations of the others over (k − d)². `None` if the
/// minimum lies in the second half of the series: the series has no visible steady state. An
/// incomplete last batch is ignored.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mser5(series: &[f64]) -> Option<usize> {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|of| of.iter().sum::<f64>() / BATCH as f64).collect();
    // Two batches at least remain: one alone deviates from nothing.
    let candidates = 0..batches.len().saturating_sub(1);
    let error = |removed: usize| {
        let rest = &batches[removed..];
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        rest.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / count.powi(2)
    };
    // The first minimum wins: a constant series loses nothing.
    let best = candidates
        .map(|removed| (removed, error(removed)))
        .reduce(|best, next| if next.1 < best.1 { next } else { best })?;
    (best.0 * 2 < batches.len()).then_some(best.0 * BATCH)
}

#[cfg(test)]
mod tests {
    use super::mser5;

    /// Returns a pseudo-random series in −0.5 to 0.5.
    fn noise(count: usize) -> Vec<f64> {
        let mut state = 12_345_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1_u32 << 24) - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_constant_series_loses_nothing() {
        assert_eq!(mser5(&[3.0; 50]), Some(0));
    }

    #[test]
    fn a_step_is_removed_to_the_batch() {
        let truncated = |at: usize| {
            let series: Vec<f64> = (0..100).map(|i| if i < at { 9.0 } else { 1.0 }).collect();
            mser5(&series)
        };
        assert_eq!(truncated(20), Some(20));
        // The batch of observations 20 to 24 still has two of the transient.
        assert_eq!(truncated(22), Some(25));
        assert_eq!(truncated(45), Some(45));
        // A transient of more than half of the series leaves no steady state to see.
        assert_eq!(truncated(60), None);
    }

    #[test]
    fn an_exponential_transient_under_noise_is_removed() {
        // Time constant of 20 observations, amplitude 20 times that of the noise.
        let series: Vec<f64> = (0_u32..400)
            .zip(noise(400))
            .map(|(at, noise)| 10.0 * (-f64::from(at) / 20.0).exp() + noise)
            .collect();
        let removed = mser5(&series).expect("the transient ends");
        // The transient is 5 % of its start after three time constants, and below the noise.
        assert!((50..=120).contains(&removed), "{removed}");
    }

    #[test]
    fn a_series_that_grows_has_no_steady_state() {
        let series: Vec<f64> = (0_u32..200).map(f64::from).collect();
        assert_eq!(mser5(&series), None);
    }

    #[test]
    fn a_series_without_two_batches_has_no_result() {
        assert_eq!(mser5(&[1.0; 9]), None);
        assert_eq!(mser5(&[]), None);
    }
}
