//! The classification of packets: the first rule that matches a packet gives its stream.
//!
//! The layouts are those of `struct ms_rule` and `struct ms_rules` in `src/c/qdisc.bpf.c`.

use ipnet::IpNet;
use millstream_scenario::{CodePoints, FilterInstruction, StreamMatch};
use std::net::IpAddr;

use crate::{Cgroup, MAX_INSTRUCTIONS, MAX_STREAMS};

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
    /// More instructions of filters than the qdisc holds.
    #[error("filters of more than {MAX_INSTRUCTIONS} instructions in all")]
    Instructions,
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
    cgroup: u64,
    cgroup_level: u32,
    /// The first instruction of the filter, plus 1; 0 without one.
    filter: u32,
    source: Address,
    source_mask: Address,
    destination: Address,
    destination_mask: Address,
    source_port: [u16; 2],
    destination_port: [u16; 2],
    protocol: u32,
    stream: u32,
}

/// The rules of the qdisc, in order, and the stream of packets without a match.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Rules {
    count: u32,
    others: u32,
    has_cgroups: u32,
    /// The number of instructions of all filters.
    used: u32,
    rules: [Rule; MAX_RULES],
    instructions: [FilterInstruction; MAX_INSTRUCTIONS],
}

impl Rules {
    /// Returns no rules. All packets belong to the stream `others`.
    #[must_use]
    pub fn new(others: u32) -> Self {
        let rules = [Rule::default(); MAX_RULES];
        let instructions = [FilterInstruction::default(); MAX_INSTRUCTIONS];
        Self { count: 0, others, has_cgroups: 0, used: 0, rules, instructions }
    }

    /// Adds a rule: packets that satisfy `of` belong to `stream`. `cgroup` and `filter` are those
    /// of `of`, found on this system, and compiled.
    ///
    /// # Errors
    /// Fails if a field is not supported, there are too many rules, or there is no such stream.
    pub fn add(
        &mut self,
        of: &StreamMatch,
        cgroup: Option<Cgroup>,
        filter: &[FilterInstruction],
        stream: u32,
    ) -> Result<(), UnsupportedMatch> {
        let fields = &of.fields;
        // The first three belong to the ingress port; zeros match all packets in C.
        let unsupported = [
            ("port", fields.port.is_some()),
            ("pcp", fields.pcp.is_some()),
            ("vlan", fields.vlan.is_some()),
            ("protocol 0", fields.protocol == Some(0)),
            ("source-port 0", fields.source_port == Some(0)),
            ("destination-port 0", fields.destination_port == Some(0)),
        ];
        if let Some((field, _)) = unsupported.iter().find(|(_, is_given)| *is_given) {
            return Err(UnsupportedMatch::Field(field));
        }
        if stream as usize >= MAX_STREAMS {
            return Err(UnsupportedMatch::Stream(stream));
        }
        let place = self.rules.get_mut(self.count as usize).ok_or(UnsupportedMatch::Rules)?;
        let program = (self.instructions.get_mut(self.used as usize..))
            .and_then(|free| free.get_mut(..filter.len()))
            .ok_or(UnsupportedMatch::Instructions)?;
        program.copy_from_slice(filter);
        let (source, source_mask) = Address::of_prefix(fields.source);
        let (destination, destination_mask) = Address::of_prefix(fields.destination);
        let port = |port: Option<u16>| port.map_or([0, 0], |port| [port, port]);
        let points = fields.dscp.into_iter().flat_map(CodePoints::iter);
        *place = Rule {
            mark: of.mark.map_or(0, |mark| mark.value),
            mark_mask: of.mark.map_or(0, |mark| mark.mask),
            dscp: points.fold(0, |set, point| set | 1 << point),
            cgroup: cgroup.map_or(0, |cgroup| cgroup.id),
            cgroup_level: cgroup.map_or(0, |cgroup| cgroup.level),
            filter: if filter.is_empty() { 0 } else { self.used + 1 },
            source,
            source_mask,
            destination,
            destination_mask,
            source_port: port(fields.source_port),
            destination_port: port(fields.destination_port),
            protocol: fields.protocol.map_or(0, u32::from),
            stream,
        };
        self.count += 1;
        // At most 1,024.
        self.used += u32::try_from(filter.len()).unwrap_or(0);
        self.has_cgroups |= u32::from(cgroup.is_some());
        Ok(())
    }

    /// Returns whether a rule has a filter.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.used > 0
    }

    /// Returns the stream of each rule, and the stream of packets without a match.
    #[must_use]
    pub fn streams(&self) -> (Vec<u32>, u32) {
        let rules = self.rules.iter().take(self.count as usize);
        (rules.map(|rule| rule.stream).collect(), self.others)
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
    use millstream_scenario::{Mark, Match};

    #[test]
    fn the_rules_have_no_padding() {
        assert_eq!(size_of::<Rule>(), 2 * 4 + 2 * 8 + 2 * 4 + 4 * 16 + 4 * 2 + 2 * 4);
        assert_eq!(size_of::<FilterInstruction>(), 8);
        let rules = MAX_RULES * size_of::<Rule>();
        assert_eq!(size_of::<Rules>(), 4 * 4 + rules + MAX_INSTRUCTIONS * 8);
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
        let of = |fields| StreamMatch { fields, ..StreamMatch::default() };
        let vlan = of(Match { vlan: Some(3), ..Match::default() });
        assert_eq!(Rules::new(0).add(&vlan, None, &[], 0), Err(UnsupportedMatch::Field("vlan")));
        let port = of(Match { source_port: Some(0), ..Match::default() });
        assert_eq!(
            Rules::new(0).add(&port, None, &[], 0),
            Err(UnsupportedMatch::Field("source-port 0"))
        );
    }
    #[test]
    fn a_rule_has_the_fields_the_mark_and_the_cgroup_of_a_match() {
        let fields = Match {
            protocol: Some(17),
            dscp: Some([46, 10].into_iter().collect()),
            destination: Some("10.9.0.128/25".parse().unwrap()),
            destination_port: Some(53),
            ..Match::default()
        };
        let mark = Some(Mark { value: 0x100, mask: 0xff00 });
        let mut rules = Rules::new(3);
        let of = StreamMatch { fields, mark, cgroup: Some("/a/b".into()), filter: None };
        let program = crate::compile_filter("udp").unwrap();
        rules.add(&of, Some(Cgroup { id: 77, level: 2 }), &program, 2).unwrap();
        assert_eq!((rules.count, rules.others, rules.has_cgroups), (1, 3, 1));
        let rule = rules.rules[0];
        assert_eq!((rule.cgroup, rule.cgroup_level), (77, 2));
        assert_eq!((rule.filter, rules.used as usize), (1, program.len()));
        assert_eq!(rules.instructions[..program.len()], program);
        // The next one begins behind it, until there is no room.
        rules.add(&of, None, &program, 2).unwrap();
        assert_eq!(rules.rules[1].filter as usize, program.len() + 1);
        let full = (0..MAX_RULES).find_map(|_| rules.add(&of, None, &[program[0]; 99], 2).err());
        assert_eq!(full, Some(UnsupportedMatch::Instructions));
        assert_eq!((rule.mark, rule.mark_mask, rule.stream), (0x100, 0xff00, 2));
        assert_eq!((rule.protocol, rule.dscp), (17, 1 << 46 | 1 << 10));
        assert_eq!((rule.source_port, rule.destination_port), ([0, 0], [53, 53]));
        assert_eq!(rule.destination.0[12..], [10, 9, 0, 128]);
        assert_eq!(rule.source_mask, Address::default());
    }
}
