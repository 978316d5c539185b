//! Which path a packet takes: the first whose match holds.
//!
//! Every rule is looked at in turn, so the time is bounded by the number of paths.

use millstream_scenario::Match;

use crate::live::header::Header;

/// The rules of all paths, in their order.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    rules: Vec<Match>,
}

impl Classifier {
    /// A classifier by these rules, one a path.
    #[must_use]
    pub fn new(rules: Vec<Match>) -> Self {
        Self { rules }
    }

    /// The path of a packet that came in by `port`.
    #[inline]
    #[must_use]
    pub fn path(&self, port: usize, header: &Header) -> Option<usize> {
        self.rules.iter().position(|rule| holds(rule, port, header))
    }
}

#[inline]
fn holds(rule: &Match, port: usize, header: &Header) -> bool {
    let is = |wanted: Option<u8>, found: u8| wanted.is_none_or(|wanted| wanted == found);
    let of = |wanted: Option<u16>, found: Option<u16>| wanted.is_none() || wanted == found;
    rule.port.is_none_or(|wanted| wanted == port)
        && is(rule.protocol, header.protocol)
        && is(rule.dscp, header.dscp)
        && rule.source.is_none_or(|net| net.contains(&header.source))
        && rule.destination.is_none_or(|net| net.contains(&header.destination))
        && of(rule.source_port, header.ports.map(|ports| ports.0))
        && of(rule.destination_port, header.ports.map(|ports| ports.1))
}
