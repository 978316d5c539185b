//! The parser of `--seeds`: a count, a range, or a list.

use crate::error::SweepError;

/// The maximum number of seeds, so that a typing error does not start a year of runs.
const MAX_SEEDS: u64 = 1_000_000;

/// Parses seeds: `10` means 1 to 10, `5..8` means 5 to 8, `3,1,7` means these in this order.
///
/// # Errors
/// Fails if `text` has none of these forms, is empty, or repeats a seed.
pub fn parse_seeds(text: &str) -> Result<Vec<u64>, SweepError> {
    let wrong = |what: &str| {
        SweepError::invalid_argument(
            format!("`{text}`: {what}"),
            "--seeds 10 means 1 to 10, --seeds 5..8 means 5, 6, 7 and 8, --seeds 3,1,7 means these",
        )
    };
    let number =
        |text: &str| text.trim().parse::<u64>().map_err(|_| wrong("a seed is an integer from 0"));
    let range = |first: u64, last: u64| {
        if first > last {
            return Err(wrong("an empty range of seeds"));
        }
        match last - first {
            more if more >= MAX_SEEDS => Err(wrong("more than a million seeds")),
            _ => Ok((first..=last).collect()),
        }
    };
    if let Some((first, last)) = text.split_once("..") {
        return range(number(first)?, number(last)?);
    }
    if !text.contains(',') {
        return range(1, number(text)?);
    }
    let seeds = text.split(',').map(number).collect::<Result<Vec<u64>, _>>()?;
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(wrong("a seed is listed twice"));
    }
    Ok(seeds)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_count_a_range_and_a_list_are_parsed() {
        assert_eq!(parse_seeds("3").unwrap(), [1, 2, 3]);
        assert_eq!(parse_seeds("5..7").unwrap(), [5, 6, 7]);
        assert_eq!(parse_seeds("7..7").unwrap(), [7]);
        assert_eq!(parse_seeds("9,0, 4").unwrap(), [9, 0, 4]);
    }

    #[test]
    fn invalid_seeds_are_rejected() {
        for text in ["0", "", "x", "3..1", "1,", "1,1", "0..1000000", "-1", "1..x"] {
            let error = parse_seeds(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}`: ")), "{error}");
        }
    }
}
