//! Packet classifier: finds the first path whose match accepts a packet.
//!
//! Each matched field has a table from values to a bit set of the rules that accept the value. The
//! path is that of the first rule that is in all sets and accepts the frame by its filter. Each set
//! has a summary of its non-empty words, and only words that are non-empty in all sets are read.
//!
//! The time per packet is bounded by paths / 63 × matched fields, plus the length of all filters.
//!
//! Sources: Lakshman and Stiliadis, *High-Speed Policy-based Packet Forwarding Using Efficient
//! Multi-dimensional Range Matching*; Baboescu and Varghese, *Scalable Packet Classification*.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use millstream_scenario::Match;
use prefix_trie::PrefixMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ids::{PathId, PortId};
use crate::net::filter::Filters;
use crate::net::header::Header;
use crate::net::vlan_tag::Tag;

/// Rules per word of a set.
const WORD: usize = 64;
/// Fields that rules may match.
const FIELDS: usize = 9;
/// Values of the differentiated services code point.
const CODE_POINTS: usize = 64;
/// Table index of a packet without ports: one past the last port number.
const NO_PORT: usize = 1 << 16;
/// Table indices of packets without a priority and without a VLAN.
const NO_PCP: usize = 1 << 3;
const NO_VLAN: usize = 1 << 12;

/// Exact-match table of one field: value to rule set.
#[derive(Clone, Debug)]
struct Exact {
    /// The row of `sets` by value; row 0 holds the values that no rule names.
    rows: Vec<u16>,
    sets: Vec<u64>,
}

/// Longest-prefix table of an address field. An address matches no prefix of the other family.
#[derive(Clone, Debug)]
struct Prefixes {
    v4: PrefixMap<Ipv4Net, usize>,
    v6: PrefixMap<Ipv6Net, usize>,
    sets: Vec<u64>,
}

/// The classifier of a router: one rule per path, in path order.
#[derive(Debug, Default)]
pub struct Classifier {
    rules: usize,
    filters: Filters,
    /// A field that no rule matches has no table.
    port: Option<Exact>,
    protocol: Option<Exact>,
    dscp: Option<Exact>,
    pcp: Option<Exact>,
    vlan: Option<Exact>,
    source_port: Option<Exact>,
    destination_port: Option<Exact>,
    source: Option<Prefixes>,
    destination: Option<Prefixes>,
}

impl Exact {
    /// Builds a table from the value that each rule requires, if any. Values at or above `values`
    /// share the last row.
    fn new(values: usize, wanted: &[Option<usize>]) -> Option<Self> {
        wanted.iter().flatten().next()?;
        let bits = Bits::of(wanted.len());
        let any = set(wanted.len(), |rule| wanted[rule].is_none());
        let mut exact = Self { rows: vec![0; values], sets: any };
        for value in wanted.iter().flatten() {
            let row = &mut exact.rows[(*value).min(values - 1)];
            if *row == 0 {
                *row = u16::try_from(exact.sets.len() / bits.stride()).unwrap_or(u16::MAX);
                let is = |rule: usize| wanted[rule].is_none_or(|wanted| wanted == *value);
                exact.sets.extend(set(wanted.len(), is));
            }
        }
        Some(exact)
    }

    /// Builds the table of code points. A rule may accept several code points.
    fn of_dscp(rules: &[Match]) -> Option<Self> {
        rules.iter().find_map(|rule| rule.dscp)?;
        let any = set(rules.len(), |rule| rules[rule].dscp.is_none());
        let mut exact = Self { rows: vec![0; CODE_POINTS], sets: any };
        let mut rows = 1;
        for (dscp, row) in (0..).zip(&mut exact.rows) {
            if rules.iter().filter_map(|rule| rule.dscp).any(|wanted| wanted.contains(dscp)) {
                *row = rows;
                rows += 1;
                let is = |rule: usize| rules[rule].dscp.is_none_or(|wanted| wanted.contains(dscp));
                exact.sets.extend(set(rules.len(), is));
            }
        }
        Some(exact)
    }

    #[inline]
    fn set(&self, value: usize, bits: Bits) -> &[u64] {
        let row = self.rows[value.min(self.rows.len() - 1)];
        bits.row(&self.sets, usize::from(row))
    }
}

impl Prefixes {
    fn new(wanted: &[Option<IpNet>]) -> Option<Self> {
        wanted.iter().flatten().next()?;
        let bits = Bits::of(wanted.len());
        let mut prefixes = Self { v4: PrefixMap::new(), v6: PrefixMap::new(), sets: Vec::new() };
        // The default prefixes cover addresses outside every prefix that a rule names.
        let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        for net in wanted.iter().flatten().map(IpNet::trunc).chain(all) {
            let row = prefixes.sets.len() / bits.stride();
            match net {
                IpNet::V4(net) => prefixes.v4.insert(net, row),
                IpNet::V6(net) => prefixes.v6.insert(net, row),
            };
            let holds = |rule: usize| wanted[rule].is_none_or(|wanted| wanted.contains(&net));
            prefixes.sets.extend(set(wanted.len(), holds));
        }
        Some(prefixes)
    }

    #[inline]
    fn row(&self, address: Ipv4Addr) -> usize {
        self.v4.get_lpm(&Ipv4Net::from(address)).map_or(0, |(_, row)| *row)
    }

    #[inline]
    fn row_v6(&self, address: Ipv6Addr) -> usize {
        self.v6.get_lpm(&Ipv6Net::from(address)).map_or(0, |(_, row)| *row)
    }
}

/// Layout of a rule set: one bit per rule, then a summary with one bit per word.
#[derive(Clone, Copy, Debug)]
struct Bits {
    words: usize,
}

impl Bits {
    fn of(rules: usize) -> Self {
        Self { words: rules.div_ceil(WORD) }
    }

    fn stride(self) -> usize {
        self.words + self.words.div_ceil(WORD)
    }

    /// Returns set number `row` of a table.
    #[inline]
    fn row(self, sets: &[u64], row: usize) -> &[u64] {
        &sets[row * self.stride()..][..self.stride()]
    }
}

/// Returns the set of the rules for which `holds` is true.
fn set(rules: usize, holds: impl Fn(usize) -> bool) -> Vec<u64> {
    let bits = Bits::of(rules);
    let mut set = vec![0; bits.stride()];
    for rule in (0..rules).filter(|rule| holds(*rule)) {
        let word = rule / WORD;
        set[word] |= 1 << (rule % WORD);
        set[bits.words + word / WORD] |= 1 << (word % WORD);
    }
    set
}

/// The rule sets of one packet, one per table.
struct Sets<'a> {
    sets: [&'a [u64]; FIELDS],
    count: usize,
}

impl<'a> Sets<'a> {
    #[inline]
    fn add(&mut self, set: Option<&'a [u64]>) {
        if let Some(set) = set {
            self.sets[self.count] = set;
            self.count += 1;
        }
    }

    /// Returns the intersection of all sets at word `at`.
    #[inline]
    fn common(&self, at: usize) -> u64 {
        self.sets[..self.count].iter().fold(u64::MAX, |common, set| common & set[at])
    }
}

impl Classifier {
    /// Builds a classifier from `rules`, one per path.
    #[must_use]
    pub fn new(rules: Vec<Match>) -> Self {
        let exact = |values: usize, of: &dyn Fn(&Match) -> Option<usize>| {
            Exact::new(values, &rules.iter().map(of).collect::<Vec<_>>())
        };
        let prefixes = |of: &dyn Fn(&Match) -> Option<IpNet>| {
            Prefixes::new(&rules.iter().map(of).collect::<Vec<_>>())
        };
        let ports = rules.iter().filter_map(|rule| rule.port).max().map_or(0, |port| port + 2);
        Self {
            rules: rules.len(),
            filters: Filters::default(),
            port: exact(ports, &|rule| rule.port),
            protocol: exact(256, &|rule| rule.protocol.map(usize::from)),
            dscp: Exact::of_dscp(&rules),
            pcp: exact(NO_PCP + 1, &|rule| rule.pcp.map(usize::from)),
            vlan: exact(NO_VLAN + 1, &|rule| rule.vlan.map(usize::from)),
            source_port: exact(NO_PORT + 1, &|rule| rule.source_port.map(usize::from)),
            destination_port: exact(NO_PORT + 1, &|rule| rule.destination_port.map(usize::from)),
            source: prefixes(&|rule| rule.source),
            destination: prefixes(&|rule| rule.destination),
        }
    }

    /// Adds filters: a path matches only if its filter accepts the frame, too.
    #[must_use]
    pub fn with_filters(self, filters: Filters) -> Self {
        Self { filters, ..self }
    }

    /// Returns whether headers alone decide: no path has a filter.
    #[inline]
    pub(crate) fn uses_headers_only(&self) -> bool {
        self.filters.none()
    }

    /// Returns the path of an IPv4 packet received on `port`; `header` is the header of `frame`.
    #[inline]
    #[must_use]
    pub fn path(&self, port: PortId, header: &Header, frame: &[u8]) -> Option<PathId> {
        let source = self.source.as_ref().map(|table| (table, table.row(header.source)));
        let destination = self.destination.as_ref();
        let destination = destination.map(|table| (table, table.row(header.destination)));
        self.first(port, (header, frame), source, destination)
    }

    /// Returns the path of an IPv6 packet received on `port`; `header` is the header of `frame`.
    #[inline]
    #[must_use]
    pub fn path_v6(&self, port: PortId, header: &Header<Ipv6Addr>, frame: &[u8]) -> Option<PathId> {
        let source = self.source.as_ref().map(|table| (table, table.row_v6(header.source)));
        let destination = self.destination.as_ref();
        let destination = destination.map(|table| (table, table.row_v6(header.destination)));
        self.first(port, (header, frame), source, destination)
    }

    /// Returns the first rule that accepts the packet, given the rows of its addresses.
    #[inline]
    fn first<A>(
        &self,
        port: PortId,
        (header, frame): (&Header<A>, &[u8]),
        source: Option<(&Prefixes, usize)>,
        destination: Option<(&Prefixes, usize)>,
    ) -> Option<PathId> {
        let bits = Bits::of(self.rules);
        let ports = header.ports;
        let source_port = ports.map_or(NO_PORT, |ports| usize::from(ports.0));
        let destination_port = ports.map_or(NO_PORT, |ports| usize::from(ports.1));
        let pcp = header.tag.map_or(NO_PCP, |tag| usize::from(tag.pcp()));
        let vlan = header.tag.and_then(Tag::vlan).map_or(NO_VLAN, usize::from);
        let mut sets = Sets { sets: [&[]; FIELDS], count: 0 };
        for (table, value) in [
            (&self.port, port.0),
            (&self.protocol, usize::from(header.protocol)),
            (&self.dscp, usize::from(header.dscp)),
            (&self.pcp, pcp),
            (&self.vlan, vlan),
            (&self.source_port, source_port),
            (&self.destination_port, destination_port),
        ] {
            sets.add(table.as_ref().map(|table| table.set(value, bits)));
        }
        for found in [source, destination] {
            sets.add(found.map(|(table, row)| bits.row(&table.sets, row)));
        }
        if bits.words == 1 {
            return self.first_of(0, &sets, frame);
        }
        (bits.words..bits.stride()).find_map(|summary| {
            let mut left = sets.common(summary);
            while left != 0 {
                let word = (summary - bits.words) * WORD + left.trailing_zeros() as usize;
                if word >= bits.words {
                    return None;
                }
                let path = self.first_of(word, &sets, frame);
                if path.is_some() {
                    return path;
                }
                left &= left - 1;
            }
            None
        })
    }

    /// Returns the first accepting rule within one word of `sets`.
    #[inline]
    fn first_of(&self, word: usize, sets: &Sets<'_>, frame: &[u8]) -> Option<PathId> {
        let mut left = sets.common(word);
        if (word + 1) * WORD > self.rules {
            left &= (1 << (self.rules % WORD)) - 1;
        }
        while left != 0 {
            let path = PathId(word * WORD + left.trailing_zeros() as usize);
            if self.filters.accepts(path, frame) {
                return Some(path);
            }
            left &= left - 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// Reference implementation: tests one rule directly.
    fn holds<A: Copy + Into<IpAddr>>(rule: &Match, port: usize, header: &Header<A>) -> bool {
        let (source, destination) = (header.source.into(), header.destination.into());
        rule.port.is_none_or(|wanted| wanted == port)
            && rule.protocol.is_none_or(|wanted| wanted == header.protocol)
            && rule.dscp.is_none_or(|wanted| wanted.contains(header.dscp))
            && rule.pcp.is_none_or(|wanted| header.tag.is_some_and(|tag| tag.pcp() == wanted))
            && rule.vlan.is_none_or(|wanted| header.tag.and_then(Tag::vlan) == Some(wanted))
            && rule.source.is_none_or(|net| net.contains(&source))
            && rule.destination.is_none_or(|net| net.contains(&destination))
            && rule.source_port.is_none_or(|is| header.ports.is_some_and(|ports| ports.0 == is))
            && (rule.destination_port)
                .is_none_or(|is| header.ports.is_some_and(|ports| ports.1 == is))
    }

    fn v6(a: u8, d: u8) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, a.into(), 0, 0, 0, 0, d.into())
    }

    fn net() -> impl Strategy<Value = IpNet> {
        let four = (0..4u8, 0..4u8, 0..=32u8)
            .prop_map(|(a, d, length)| Ipv4Net::new([10, a, 0, d].into(), length).unwrap().into());
        let six = (0..4u8, 0..4u8, 0..=128u8)
            .prop_map(|(a, d, length)| Ipv6Net::new(v6(a, d), length).unwrap().into());
        prop_oneof![four, six]
    }

    fn rule() -> impl Strategy<Value = Match> {
        let port = || of(prop_oneof![0..3u16, Just(u16::MAX)]);
        let vlan = prop_oneof![1..3u16, Just(4_094)];
        let dscp = vec(0..4u8, 1..3).prop_map(|points| points.into_iter().collect());
        let link = (of(0..3usize), of(prop_oneof![0..2u8, Just(7)]), of(vlan));
        (link, of(5..8u8), of(dscp), of(net()), of(net()), port(), port()).prop_map(
            |(
                (port, pcp, vlan),
                protocol,
                dscp,
                source,
                destination,
                source_port,
                destination_port,
            )| Match {
                port,
                protocol,
                dscp,
                pcp,
                vlan,
                source,
                destination,
                source_port,
                destination_port,
            },
        )
    }

    /// Uses more summary bits than one word holds.
    #[test]
    fn the_first_of_thousands_of_matching_rules_is_found() {
        let rule = |k: u16| Match {
            protocol: Some(if k.is_multiple_of(3) { 6 } else { 17 }),
            destination_port: (k % 5 != 4).then_some(k / 2),
            source_port: (k % 7 == 6 || k % 5 == 4).then_some(k % 64),
            ..Match::default()
        };
        let rules: Vec<Match> = (0..9_001).map(rule).collect();
        let classifier = Classifier::new(rules.clone());
        for k in 0..5_000 {
            let (source, destination) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
            let protocol = if k % 2 == 0 { 6 } else { 17 };
            let ports = Some((k % 130, k));
            let header =
                Header { to: [0; 6], tag: None, dscp: 0, protocol, source, destination, ports };
            let first = rules.iter().position(|rule| holds(rule, 0, &header));
            assert_eq!(classifier.path(PortId(0), &header, &[]), first.map(PathId), "{k}");
        }
    }

    proptest! {
        #[test]
        fn the_first_matching_rule_is_found(
            rules in vec(rule(), 0..150), port in 0..5usize, dscp in 0..6u8, protocol in 4..9u8,
            low in any::<[bool; 4]>(), ports in of((0..4u16, prop_oneof![0..4u16, Just(u16::MAX)])),
            tag in of((prop_oneof![0..3u8, Just(7)], prop_oneof![0..4u16, Just(4_094)])),
        ) {
            let tag = tag.map(|(pcp, vlan)| Tag::default().with_pcp(pcp).with_vlan(vlan));
            let address = |a: bool, d: bool| Ipv4Addr::new(10, a.into(), 0, d.into());
            let (source, destination) = (address(low[0], low[1]), address(low[2], low[3]));
            let header = Header { to: [0; 6], tag, dscp, protocol, source, destination, ports };
            let first = rules.iter().position(|rule| holds(rule, port, &header));
            let address = |a: bool, d: bool| v6(a.into(), d.into());
            let (source, destination) = (address(low[0], low[1]), address(low[2], low[3]));
            let six = Header { to: [0; 6], tag, dscp, protocol, source, destination, ports };
            let first_v6 = rules.iter().position(|rule| holds(rule, port, &six));
            let classifier = Classifier::new(rules);
            let port = PortId(port);
            prop_assert_eq!(classifier.path(port, &header, &[]), first.map(PathId));
            prop_assert_eq!(classifier.path_v6(port, &six, &[]), first_v6.map(PathId));
        }
    }
}
