//! The classification of packets: the first rule that matches a packet gives its stream.
//!
//! The layouts are those of `struct ms_rule` and `struct ms_rules` in `src/c/qdisc.bpf.c`.

use ipnet::IpNet;
use millstream_scenario::Match;
use std::net::IpAddr;

use crate::MAX_STREAMS;

/// The maximum number of rules.
pub const MAX_RULES: usize = 64;

/// The reason why the qdisc cannot classify by a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedMatch {
    /// A field that the qdisc does not see.
    #[error("the qdisc does not match {0}")]
    Field(&'static str),
    /// A stream that the qdisc does not have.
    #[error("stream {0}; the qdisc has at most {MAX_STREAMS}")]
    Stream(u32),
    /// More rules than the qdisc holds.
    #[error("more than {MAX_RULES} rules")]
    Rules,
}

/// An IPv6 address, or an IPv4 address mapped to IPv6, in network order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Address([u8; 16]);

impl Address {
    fn of(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }

    /// Returns the address and the mask of a prefix.
    fn of_prefix(prefix: Option<IpNet>) -> (Self, Self) {
        let Some(prefix) = prefix else { return Default::default() };
        let mapped = if matches!(prefix, IpNet::V4(_)) { 96 } else { 0 };
        let ones = mapped + u32::from(prefix.prefix_len());
        let mask = u128::MAX.checked_shl(128 - ones).unwrap_or(0);
        (Self::of(prefix.network()), Self(mask.to_be_bytes()))
    }
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Rule {
    mark: u32,
    mark_mask: u32,
    dscp: u64,
    source: Address,
    source_mask: Address,
    destination: Address,
    destination_mask: Address,
    source_port: [u16; 2],
    destination_port: [u16; 2],
    protocol: u32,
    stream: u32,
}

/// The rules of the qdisc, in order, and the streams of packets without a match.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Rules {
    count: u32,
    by_priority: [u32; 16],
    unused: u32,
    rules: [Rule; MAX_RULES],
}

impl Rules {
    /// Returns no rules. All packets belong to `stream`.
    #[must_use]
    pub fn new(stream: u32) -> Self {
        let rules = [Rule::default(); MAX_RULES];
        Self { count: 0, by_priority: [stream; 16], unused: 0, rules }
    }

    /// Gives packets without a match, with `skb->priority` (modulo 16), to `stream`.
    #[must_use]
    pub fn priority(mut self, priority: u32, stream: u32) -> Self {
        self.by_priority[priority as usize % 16] = stream;
        self
    }

    /// Adds a rule: packets whose mark equals `mark` under `mask` belong to `stream`.
    ///
    /// # Errors
    /// Fails if there are too many rules, or there is no such stream.
    pub fn mark(&mut self, mark: u32, mask: u32, stream: u32) -> Result<(), UnsupportedMatch> {
        self.add(Rule { mark, mark_mask: mask, stream, ..Rule::default() })
    }

    /// Adds a rule: packets that satisfy `of` belong to `stream`.
    ///
    /// # Errors
    /// Fails if a field is not supported, there are too many rules, or there is no such stream.
    pub fn fields(&mut self, of: &Match, stream: u32) -> Result<(), UnsupportedMatch> {
        // The first three belong to the ingress port; zeros match all packets in C.
        let unsupported = [
            ("port", of.port.is_some()),
            ("pcp", of.pcp.is_some()),
            ("vlan", of.vlan.is_some()),
            ("protocol 0", of.protocol == Some(0)),
            ("source-port 0", of.source_port == Some(0)),
            ("destination-port 0", of.destination_port == Some(0)),
        ];
        if let Some((field, _)) = unsupported.iter().find(|(_, is_given)| *is_given) {
            return Err(UnsupportedMatch::Field(field));
        }
        let (source, source_mask) = Address::of_prefix(of.source);
        let (destination, destination_mask) = Address::of_prefix(of.destination);
        let port = |port: Option<u16>| port.map_or([0, 0], |port| [port, port]);
        self.add(Rule {
            mark: 0,
            mark_mask: 0,
            dscp: of.dscp.map_or(0, |points| points.iter().fold(0, |set, point| set | 1 << point)),
            source,
            source_mask,
            destination,
            destination_mask,
            source_port: port(of.source_port),
            destination_port: port(of.destination_port),
            protocol: of.protocol.map_or(0, u32::from),
            stream,
        })
    }

    fn add(&mut self, rule: Rule) -> Result<(), UnsupportedMatch> {
        if rule.stream as usize >= MAX_STREAMS {
            return Err(UnsupportedMatch::Stream(rule.stream));
        }
        let place = self.rules.get_mut(self.count as usize).ok_or(UnsupportedMatch::Rules)?;
        *place = rule;
        self.count += 1;
        Ok(())
    }

    /// Returns the rules as the map of the qdisc holds them.
    #[must_use]
    #[allow(unsafe_code)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the type is `repr(C)` of integers and has no padding, which a test checks.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_have_no_padding() {
        assert_eq!(size_of::<Rule>(), 2 * 4 + 8 + 4 * 16 + 4 * 2 + 2 * 4);
        assert_eq!(size_of::<Rules>(), 18 * 4 + MAX_RULES * size_of::<Rule>());
    }

    #[test]
    fn prefixes_are_addresses_and_masks() {
        let (address, mask) = Address::of_prefix(Some("10.9.0.0/16".parse().unwrap()));
        assert_eq!(address.0[10..], [0xff, 0xff, 10, 9, 0, 0]);
        assert_eq!(mask.0, (u128::MAX << 16).to_be_bytes());
        let (_, mask) = Address::of_prefix(Some("::/0".parse().unwrap()));
        assert_eq!(mask, Address::default());
        let (_, mask) = Address::of_prefix(Some("fd00::1/128".parse().unwrap()));
        assert_eq!(mask.0, [0xff; 16]);
    }

    #[test]
    fn fields_that_the_qdisc_does_not_see_are_errors() {
        let of = Match { vlan: Some(3), ..Match::default() };
        let error = Rules::new(0).fields(&of, 0).unwrap_err();
        assert_eq!(error, UnsupportedMatch::Field("vlan"));
    }
}
