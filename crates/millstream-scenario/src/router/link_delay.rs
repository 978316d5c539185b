//! The bounds on the delay of a router's paths at their links, and whether links keep deadlines.

use millstream::bounds::{
    Bounds, EdfAdmission, Gated, LatencyRate, SettingCheck, Source, StreamLimits, Theorem,
};
use millstream::catalogue::Options;

use super::{PathAction, RouterPath, RouterPort, RouterScenario};

/// The shortest packet of a path, bytes: an IPv4 header.
pub const SHORTEST_PACKET_BYTES: u32 = 20;

impl RouterScenario {
    /// Returns the longest time that a packet of each path spends in a link's queue and in
    /// transmission, ns, or why that is not known. `longest_bytes` has the longest frame of each
    /// port.
    ///
    /// The bound applies to packets that arrive within the path's token bucket, `max-rate` and
    /// `burst`. It includes the packets that a device has taken before
    /// ([`decided_ahead_ns`](RouterPort::decided_ahead_ns)). It excludes the time in which packets
    /// wait for the CPU: those that arrive up to J later leave up to J later. Source: Goyal, Lam
    /// and Vin 1997, of guaranteed-rate servers, for the disciplines that are such servers; for the
    /// path's own cap, [`Gated`].
    #[must_use]
    pub fn link_delays_ns(&self, longest_bytes: &[u32]) -> Vec<Result<u64, String>> {
        let delay = |(number, path): (usize, &RouterPath)| {
            if path.action == PathAction::Drop {
                return Err("it drops its packets".to_owned());
            }
            let longest = |is_ingress: bool| {
                let ports = (0..self.ports.len()).filter(|port| {
                    self.may_pass(path, *port) && self.ports[*port].is_ingress() == is_ingress
                });
                ports
                    .map(|port| self.delay_at(number, port, longest_bytes[port]))
                    .try_fold(0, |longest: u64, delay| Ok::<_, String>(longest.max(delay?)))
            };
            // Servers in series delay a burst once, so the sum is a bound. Rate caps after the
            // first do not add to it (Le Boudec and Thiran 2001, section 1.5.3).
            Ok(longest(true)?.saturating_add(longest(false)?))
        };
        self.paths.iter().enumerate().map(delay).collect()
    }

    /// Returns why a port may miss deadlines of its paths; `None` if it keeps them all.
    ///
    /// A packet of at most `longest_bytes` then starts within a period of its arrival at the port's
    /// queue or, if that is later, of the previous packet's deadline, however packets arrive. The
    /// criterion is that of [`EdfAdmission`]; the device takes packets ahead
    /// ([`decided_ahead_ns`](RouterPort::decided_ahead_ns)).
    #[must_use]
    pub fn deadline_obstacle(&self, port: usize, longest_bytes: u32) -> Option<String> {
        let of = &self.ports[port];
        let options = Options { link: of.slowest_link(), ..Options::default() };
        let theorem = Theorem::EdfDemand;
        let ordered = of.discipline.guarantee.deadlines().filter(|guarantee| {
            let unproved = |check: SettingCheck| check(&options, of.structure, theorem).is_some();
            guarantee.theorems.contains(&theorem) && !guarantee.settings.is_some_and(unproved)
        });
        if ordered.is_none() {
            return Some(format!(
                "{} at `{}` guarantees no deadlines",
                of.discipline.name, of.name
            ));
        }
        let mut admission = EdfAdmission::new(options.link).blocked(of.decided_ahead_ns());
        self.paths.iter().find_map(|path| {
            if path.action == PathAction::Drop || !self.may_pass(path, port) {
                return None;
            }
            if path.contract.flow_options().is_some() {
                return Some(format!("the flows of `{}` are scheduled", path.name));
            }
            let limits = StreamLimits::of(&path.contract, longest_bytes, longest_bytes);
            let refused = admission.admit(&limits).err();
            refused.map(|why| format!("with `{}` at `{}`, {why}", path.name, of.name))
        })
    }

    fn delay_at(&self, path: usize, port: usize, longest_bytes: u32) -> Result<u64, String> {
        let RouterPort { name, discipline, .. } = &self.ports[port];
        let of = &self.paths[path];
        let Some(bucket) = of.contract.rate_cap() else {
            return Err("it has no `max-rate`: any burst may arrive".to_owned());
        };
        let Some(guarantee) = discipline.guarantee.rate() else {
            let other = "; \"wf2q+\" guarantees rates";
            return Err(format!("{} at `{name}` guarantees no rate{other}", discipline.name));
        };
        let sharing = self.paths.iter().enumerate().filter(|(_, of)| self.may_pass(of, port));
        let sharing: Vec<(usize, &RouterPath)> = sharing.collect();
        let capped = |(other, of): &&(usize, &RouterPath)| {
            *other != path && of.contract.is_limited() && guarantee.others_ungated
        };
        if let Some((_, other)) = sharing.iter().find(capped) {
            let because = "breaks the guarantee of the others";
            return Err(format!("the `max-rate` of `{}` {because}", other.name));
        }
        let limits: Vec<StreamLimits> = sharing
            .iter()
            .map(|(_, of)| StreamLimits::of(&of.contract, SHORTEST_PACKET_BYTES, longest_bytes))
            .collect();
        let place = sharing.iter().position(|(other, _)| *other == path).unwrap_or_default();
        let port = &self.ports[port];
        let link = port.slowest_link();
        let guaranteed = (guarantee.latency_rate)(&Bounds::new(link, &limits), place)
            .map_err(|error| format!("at `{name}`: {error}"))?;
        // A run may begin `line-burst` after a packet arrived, and charges the cap then.
        let late_ns = port.line_burst_ns;
        let guaranteed = LatencyRate {
            latency_ns: guaranteed.latency_ns.saturating_add(late_ns),
            error_ns: guaranteed.error_ns.saturating_add_unsigned(late_ns),
            ..guaranteed
        };
        let needs = bucket.rate_bps.get();
        if guaranteed.rate_bps < needs {
            let has = guaranteed.rate_bps;
            return Err(format!(
                "`{name}` guarantees it {has} bit/s, and its `max-rate` is {needs} bit/s"
            ));
        }
        let with_burst = |burst_bytes: u64| {
            let source = Source { rate_bps: needs, burst_bytes };
            // A longer packet is not within the bucket.
            let largest = longest_bytes.min(u32::try_from(burst_bytes).unwrap_or(u32::MAX));
            let cap = Some(source);
            let own = StreamLimits { cap, ..StreamLimits::new(SHORTEST_PACKET_BYTES, largest) };
            let gated = Gated::of(&own, link);
            let held = gated.guarantee(guaranteed).and_then(|rate| rate.delay_ns(source));
            [held, gated.own_bucket_delay_ns(guaranteed)].into_iter().flatten().min()
        };
        let delay_ns = with_burst(bucket.burst_bytes).ok_or_else(|| {
            let needed = least_burst(|burst_bytes| with_burst(burst_bytes).is_some());
            let remedy = needed.map_or(String::new(), |bytes| format!("; {bytes} B prevent it"));
            format!(
                "`max-rate` may hold its packets back at `{name}`, since a `burst` of {} B does \
                 not cover their waits{remedy}",
                bucket.burst_bytes
            )
        })?;
        Ok(delay_ns.saturating_add(port.decided_ahead_ns().saturating_sub(late_ns)))
    }
}

/// Returns the least burst, bytes, that `suffices`, if one does.
fn least_burst(suffices: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut less, mut enough) = (0, u64::from(u32::MAX));
    if !suffices(enough) {
        return None;
    }
    while enough - less > 1 {
        let middle = less + (enough - less) / 2;
        *(if suffices(middle) { &mut enough } else { &mut less }) = middle;
    }
    Some(enough)
}

impl RouterPort {
    /// Returns how long before its transmission a packet may be chosen, ns.
    ///
    /// A run begins up to `line-burst` before the link is free, and takes as long: so twice that,
    /// less the packet itself.
    #[must_use]
    pub fn decided_ahead_ns(&self) -> u64 {
        let shortest_ns = self.fastest_link().transmission_ns(SHORTEST_PACKET_BYTES);
        self.line_burst_ns.saturating_add(self.line_burst_ns.saturating_sub(shortest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the link delays of a router with a port of 10 Mbit/s and another of 1 Gbit/s.
    fn delays(discipline: &str, paths: &str) -> Vec<Result<u64, String>> {
        let text = format!(
            "[router]\nname = \"r\"\n\
             [[port]]\nname = \"lan\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
             [[port]]\nname = \"wan\"\nkind = \"tap\"\nrate = \"10 Mbit/s\"\n\
             discipline = \"{discipline}\"\nline-burst = \"100 us\"\n\
             [[route]]\nprefix = \"10.0.0.0/8\"\nport = \"wan\"\n\
             neighbour = \"02:00:00:00:00:01\"\n{paths}"
        );
        let scenario = RouterScenario::parse("test.toml", &text, Path::new("")).unwrap();
        scenario.link_delays_ns(&[1_500, 1_500])
    }

    const VOICE: &str = "[[path]]\nname = \"voice\"\nto = \"wan\"\nmax-rate = \"1 Mbit/s\"\n\
                         burst = \"3000 B\"\nmatch = { protocol = \"udp\" }\n";
    const BULK: &str = "[[path]]\nname = \"bulk\"\nweight = 3\n";

    #[test]
    fn a_path_within_its_share_waits_for_its_burst_a_packet_and_the_device() {
        let both = delays("wf2q+", &format!("{VOICE}{BULK}"));
        // Its share is 2.5 Mbit/s: 3000 bytes take 9.6 ms. A packet of 1500 bytes takes 1.2 ms at
        // the link's rate, and a run may begin 100 µs later. The cap may hold a packet back as
        // long, less one of 20 bytes. The device has a run less such a packet ahead. Rounding adds
        // 5 ns.
        let bound_ns = 2 * (9_600_000 + 1_200_000 + 100_000) - 16_000 + 84_000 + 5;
        assert_eq!(both[0], Ok(bound_ns));
        assert_eq!(both[1], Err("it has no `max-rate`: any burst may arrive".to_owned()));
    }

    #[test]
    fn the_bounds_of_an_ingress_link_and_of_the_egress_add_up() {
        let text = |port: &str| {
            format!(
                "[router]\n[[port]]\nname = \"lan\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                 address = \"10.1.0.1/24\"\n\
                 [[port]]\nname = \"wan\"\nkind = \"tap\"\nrate = \"1 Gbit/s\"\n\
                 [[port]]\nname = \"down\"\nkind = \"ingress\"\nof = \"wan\"\n\
                 rate = \"10 Mbit/s\"\n\
                 [[path]]\nname = \"voice\"\nmatch = {{ port = \"{port}\" }}\n\
                 max-rate = \"1 Mbit/s\"\nburst = \"3000 B\"\n\
                 [[path]]\nname = \"bulk\"\nweight = 3\n"
            )
        };
        let bound = |port: &str| {
            let scenario = RouterScenario::parse("test.toml", &text(port), Path::new("")).unwrap();
            scenario.link_delays_ns(&[1_500; 3])[0].clone()
        };
        // At 1 Gbit/s: twice 3000 bytes at a quarter of the rate, a packet of 1500 bytes and 100 µs
        // until a run begins; a run ahead; less 20 bytes twice, and 5 ns. At 10 Mbit/s packets take
        // a hundred times as long.
        let egress_ns = 2 * (96_000 + 12_000 + 100_000) + 100_000 - 2 * 160 + 5;
        assert_eq!(bound("lan"), Ok(egress_ns));
        let ingress_ns = 2 * (9_600_000 + 1_200_000 + 100_000) + 100_000 - 2 * 16_000 + 5;
        assert_eq!(bound("wan"), Ok(egress_ns + ingress_ns));
    }

    #[test]
    fn a_bound_that_is_not_known_names_the_reason() {
        let first = |discipline: &str, paths: &str| delays(discipline, paths)[0].clone();
        let fifo = first("fifo", &format!("{VOICE}{BULK}"));
        assert_eq!(
            fifo.unwrap_err(),
            "fifo at `wan` guarantees no rate; \"wf2q+\" guarantees rates"
        );
        let heavy = BULK.replace("weight = 3", "weight = 30");
        let share = first("wf2q+", &format!("{VOICE}{heavy}")).unwrap_err();
        assert!(share.starts_with("`wan` guarantees it 32"), "{share}");
        assert!(share.ends_with("bit/s, and its `max-rate` is 1000000 bit/s"), "{share}");
        let capped = BULK.replace("weight = 3", "max-rate = \"1 Mbit/s\"\nburst = \"2 kB\"");
        let wfq = first("wfq", &format!("{VOICE}{capped}")).unwrap_err();
        assert_eq!(wfq, "the `max-rate` of `bulk` breaks the guarantee of the others");
        let small = format!("{}{BULK}", VOICE.replace("3000 B", "1000 B"));
        assert_eq!(
            first("wf2q+", &small).unwrap_err(),
            "`max-rate` may hold its packets back at `wan`, since a `burst` of 1000 B does not \
             cover their waits; 2113 B prevent it"
        );
        assert!(first("wf2q+", &small.replace("1000 B", "2113 B")).is_ok());
        let drops = "[[path]]\nname = \"no\"\naction = \"drop\"\n";
        assert_eq!(first("wf2q+", drops).unwrap_err(), "it drops its packets");
    }

    #[test]
    fn a_path_to_any_port_has_the_longest_bound_of_its_ports() {
        let any = VOICE.replace("to = \"wan\"\n", "");
        let to_lan = VOICE.replace("\"wan\"", "\"lan\"");
        let bound = |path: &str| delays("wf2q+", &format!("{path}{BULK}"))[0].clone().unwrap();
        assert_eq!(bound(&any), bound(VOICE));
        assert!(bound(&to_lan) < bound(VOICE));
    }
}
