//! The sizes of transfers and objects: one size, or a distribution.

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use std::fmt;

use crate::units::{Size, parse_size_bytes};

/// A size such as "30 kB", or a table of a distribution of sizes.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum SizesText {
    /// One size.
    Size(Size),
    /// A distribution.
    Table(Box<SizesTable>),
}

// Not derived: the errors of an untagged enum would not name the unit that a size lacks.
impl<'de> Deserialize<'de> for SizesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = SizesText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a size such as \"30 kB\", or a table such as { distribution = \
                     \"exponential\", mean = \"30 kB\" }",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SizesText, E> {
                parse_size_bytes(text).map(|bytes| SizesText::Size(Size(bytes))).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SizesText, A::Error> {
                let table = SizesTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SizesText::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// A distribution of sizes.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SizesTable {
    /// The distribution; or give a `table`.
    pub(crate) distribution: Option<DistributionName>,
    /// exponential, pareto, lognormal: the mean.
    pub(crate) mean: Option<Size>,
    /// pareto: the exponent of the tail, from 1.01 to 10; below 2 the variance grows with the
    /// limit.
    pub(crate) shape: Option<f64>,
    /// lognormal: the standard deviation of the logarithm, above 0, at most 4.
    pub(crate) sigma: Option<f64>,
    /// exponential, pareto, lognormal: the largest size, at least 4 times the mean, which stays the
    /// mean. Default: none; pareto: 1,000 times the smallest size.
    pub(crate) largest: Option<Size>,
    /// A distribution of one's own: rows `[bytes, probability]` of the size and the probability
    /// that a size is at most that, both increasing, the last probability 1. Sizes between two rows
    /// are equally likely.
    pub(crate) table: Option<Vec<(u64, f64)>>,
}

/// The name of a distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DistributionName {
    /// Exponential.
    Exponential,
    /// Pareto, bounded.
    Pareto,
    /// Lognormal.
    Lognormal,
    /// Flows of a web search cluster (DCTCP, SIGCOMM 2010, figure 4).
    WebSearch,
    /// Flows of a data mining cluster (VL2, SIGCOMM 2009, figure 2).
    DataMining,
}

impl DistributionName {
    /// Returns the name in a file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Pareto => "pareto",
            Self::Lognormal => "lognormal",
            Self::WebSearch => "web-search",
            Self::DataMining => "data-mining",
        }
    }
}
