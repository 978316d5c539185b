//! Validation of sizes and their distributions.

use millstream_traffic::SizeDistribution;
use toml::Spanned;

use crate::error::Problem;
use crate::file::sizes::{DistributionName, SizesTable, SizesText};

const SHAPES: std::ops::RangeInclusive<f64> = 1.01..=10.0;
const MOST_SIGMA: f64 = 4.0;

/// Validates the value of `key`, which is sent in packets with `segment_bytes` of data.
pub(super) fn sizes(
    given: &Spanned<SizesText>,
    key: &str,
    segment_bytes: u64,
    problems: &mut Vec<Problem>,
) -> Option<SizeDistribution> {
    let refuse = |(message, help): (String, String)| Problem::new(given.span(), message).help(help);
    let sizes = match given.get_ref() {
        SizesText::Size(size) => Ok(SizeDistribution::fixed(size.0)),
        SizesText::Table(table) => distribution(table),
    };
    let sizes = sizes.map_err(|problem| problems.push(refuse(problem))).ok()?;
    if sizes.largest().div_ceil(segment_bytes.max(1)) > u64::from(u32::MAX) {
        let message = format!("a `{key}` of more than 4,294,967,295 packets");
        let help = "a smaller size; a `tcp` source without `transfer` sends until `stop`";
        problems.push(refuse((message, help.into())));
        return None;
    }
    Some(sizes)
}

/// Returns a distribution, or a message and its help.
fn distribution(keys: &SizesTable) -> Result<SizeDistribution, (String, String)> {
    const EXAMPLE: &str = "{ distribution = \"exponential\", mean = \"30 kB\" }";
    let problem = |message: String, help: &str| Err((message, help.to_owned()));
    let name = match (keys.distribution, &keys.table) {
        (Some(name), None) => name,
        (None, Some(rows)) => {
            if keys.mean.is_some() || keys.shape.is_some() || keys.sigma.is_some() {
                let message = "a `table` of sizes has no `mean`, `shape` or `sigma`";
                return problem(message.into(), "leave them out: the rows say everything");
            }
            if keys.largest.is_some() {
                let message = "a `table` of sizes has no `largest`";
                return problem(message.into(), "leave it out: the last row has the largest size");
            }
            return table(rows);
        }
        (Some(_), Some(_)) => {
            let message = "sizes with both `distribution` and `table`";
            return problem(message.into(), "leave one of them out");
        }
        (None, None) => {
            let message = "sizes with neither `distribution` nor `table`";
            return problem(message.into(), &format!("for example {EXAMPLE}"));
        }
    };
    let text = name.text();
    let (shaped, sigmated) = match name {
        DistributionName::Pareto => (true, false),
        DistributionName::Lognormal => (false, true),
        _ => (false, false),
    };
    for (key, given, has) in
        [("shape", keys.shape.is_some(), shaped), ("sigma", keys.sigma.is_some(), sigmated)]
    {
        if given && !has {
            let message = format!("the distribution `{text}` has no `{key}`");
            return problem(message, "`shape` is for pareto, `sigma` for lognormal");
        }
    }
    if matches!(name, DistributionName::WebSearch | DistributionName::DataMining) {
        if keys.mean.is_some() || keys.largest.is_some() {
            let message = format!("the sizes of {text} are published, without `mean` or `largest`");
            return problem(message, "leave them out, or give a `table`");
        }
        return Ok(match name {
            DistributionName::WebSearch => SizeDistribution::web_search(),
            _ => SizeDistribution::data_mining(),
        });
    }
    let Some(mean) = keys.mean.map(|size| size.0) else {
        let message = format!("the distribution `{text}` without `mean`");
        return problem(message, &format!("for example {EXAMPLE}"));
    };
    let largest = keys.largest.map(|size| size.0);
    let least = mean.saturating_mul(SizeDistribution::LEAST_LIMIT);
    if let Some(largest) = largest.filter(|largest| *largest < least) {
        let message = format!("a `largest` of {largest} B for a `mean` of {mean} B");
        return problem(message, &format!("at least 4 times the mean, \"{least} B\""));
    }
    match name {
        DistributionName::Pareto => match keys.shape {
            Some(shape) if SHAPES.contains(&shape) => {
                Ok(SizeDistribution::pareto(mean, shape, largest))
            }
            Some(shape) => problem(format!("a `shape` of {shape}"), "from 1.01 to 10"),
            None => problem(
                "the distribution `pareto` without `shape`".into(),
                "from 1.01 to 10, for example shape = 1.2",
            ),
        },
        DistributionName::Lognormal => match keys.sigma {
            Some(sigma) if sigma > 0.0 && sigma <= MOST_SIGMA => {
                Ok(SizeDistribution::lognormal(mean, sigma, largest))
            }
            Some(sigma) => problem(format!("a `sigma` of {sigma}"), "above 0, at most 4"),
            None => problem(
                "the distribution `lognormal` without `sigma`".into(),
                "above 0, at most 4, for example sigma = 1.3",
            ),
        },
        _ => Ok(SizeDistribution::exponential(mean, largest)),
    }
}

/// Returns the distribution of the rows, or a message and its help.
fn table(rows: &[(u64, f64)]) -> Result<SizeDistribution, (String, String)> {
    const HELP: &str = "rows of bytes and cumulative probability, both increasing, the last 1: for \
                        example table = [[1000, 0.5], [20000, 0.9], [1000000, 1.0]]";
    let problem = |message: String| Err((message, HELP.to_owned()));
    let Some((_, last)) = rows.last() else {
        return problem("a `table` of sizes without rows".into());
    };
    if let Some(row) = rows.iter().find(|row| !(0.0..=1.0).contains(&row.1)) {
        return problem(format!("the probability {} in a `table` of sizes", row.1));
    }
    let is_falling = |pair: &&[(u64, f64)]| pair[1].0 <= pair[0].0 || pair[1].1 <= pair[0].1;
    if let Some(pair) = rows.windows(2).find(is_falling) {
        let (row, before) = (pair[1], pair[0]);
        let message = format!(
            "the row [{}, {}] after [{}, {}] in a `table` of sizes",
            row.0, row.1, before.0, before.1
        );
        return problem(message);
    }
    if *last != 1.0 {
        return problem(format!("a `table` of sizes that ends with the probability {last}"));
    }
    Ok(SizeDistribution::table(rows.to_vec()))
}
