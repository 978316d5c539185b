//! A scenario as commands of tc(8), for kernels without BPF qdiscs: HTB with fq_codel.
//!
//! A class of HTB (Linux, `sch_htb.c`) has its `rate` first. It may borrow up to `ceil` of what
//! other classes leave: by `prio` of the leaves, then in proportion to `quantum`. So a share is a
//! rate and a quantum, a priority a `prio`, and a period the rate of its packets and a `prio`.

use ipnet::IpNet;
use millstream::aqm::Aqm;
use millstream::bounds::Share;
use millstream::flow_queue::HostFairness;
use millstream::{Contract, Framing, Late};
use millstream_scenario::{
    CodePoints, Scenario, ScenarioError, SchedulerConfig, Source, Stream, StreamMatch,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::scenario::{check_kind, others};

/// The handle of the root qdisc, by which `detach` knows it: "MS" in ASCII.
pub const HANDLE: &str = "4d53:";

/// The frame length of a source that does not specify one, bytes.
const FRAME_BYTES: u32 = 1_514;

/// The greatest `quantum` that HTB takes without a warning, bytes.
const MAX_QUANTUM: u64 = 200_000;

/// The lowest `prio` of HTB; 0 is served first.
const LAST_PRIO: usize = 7;

/// The levels of classes below the link's: HTB has 8 with the leaves.
const MAX_DEPTH: usize = 6;

/// The least rate of a class, bits/s.
const MIN_RATE_BPS: u64 = 8_000;

/// The part of a link's rate that each class has under static priority: HTB has no rate of 0.
const PRIORITY_PARTS: u64 = 1_000;

/// A command: the program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it makes, if it begins a class.
    pub note: Option<String>,
    /// The program and its arguments.
    pub words: Vec<String>,
}

/// The commands that approximate a scenario, and what they do not keep.
#[derive(Clone, Debug)]
pub struct TcCommands {
    /// The commands, in order. The first two replace any root qdisc of the interface.
    pub steps: Vec<Step>,
    /// What the commands do not keep of the scenario, one sentence each.
    pub lost: Vec<String>,
}

impl TcCommands {
    /// Returns the commands that approximate `scenario` on the egress of `interface`.
    ///
    /// # Errors
    /// Returns an error with line and caret if HTB cannot approximate the scenario, or not exactly
    /// one stream has no `match`.
    pub fn of_scenario(scenario: &Scenario, interface: &str) -> Result<Self, ScenarioError> {
        check_kind(scenario)?;
        check_matches(scenario)?;
        let is_divided = !is_fifo(&scenario.scheduler) || !scenario.classes.is_empty();
        let other = if is_divided { others(scenario)? } else { 0 };
        let mut builder = Builder {
            scenario,
            interface,
            steps: Vec::new(),
            lost: Vec::new(),
            next_minor: 0x10,
            leaves: Vec::new(),
            minors: vec![0; scenario.streams.len()],
        };
        builder.lose_contracts();
        builder.add_classes()?;
        if is_divided {
            builder.add_filters();
        }
        let mut steps = builder.roots(other);
        steps.append(&mut builder.steps);
        Ok(Self { steps, lost: builder.lost })
    }

    /// Adds the command that limits packets of segmentation offload to `segments` segments.
    pub fn limit_segments(&mut self, interface: &str, segments: u32) {
        let segments = segments.to_string();
        let words = ["ip", "link", "set", "dev", interface, "gso_max_segs", &segments];
        self.steps.push(step(&words));
    }

    /// Returns the commands as a shell script with comments.
    #[must_use]
    pub fn script(&self) -> String {
        let mut text = "# Does not keep:\n".to_owned();
        for lost in &self.lost {
            let _ = writeln!(text, "# - {lost}");
        }
        for step in &self.steps {
            if let Some(note) = &step.note {
                let _ = writeln!(text, "# {}", note.replace(char::is_control, " "));
            }
            let words: Vec<String> = step.words.iter().map(|word| quoted(word)).collect();
            let _ = writeln!(text, "{}", words.join(" "));
        }
        text
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Rejects matches that tc does not have.
fn check_matches(scenario: &Scenario) -> Result<(), ScenarioError> {
    let matches = scenario
        .streams
        .iter()
        .enumerate()
        .flat_map(|(at, stream)| stream.matches.iter().map(move |of| (at, of)));
    for (at, of) in matches {
        let (key, means) = match of {
            StreamMatch { cgroup: Some(_), .. } => ("cgroup", " by `socket cgroupv2`"),
            StreamMatch { filter: Some(_), .. } => ("filter", ""),
            StreamMatch { .. } => continue,
        };
        let help = format!("let nftables set a mark{means}, and match `mark`");
        let message = format!("tc does not match `{key}`");
        return Err(scenario.error_at(("stream", at, "match"), message, help));
    }
    Ok(())
}

fn is_fifo(scheduler: &SchedulerConfig) -> bool {
    scheduler.discipline.name == "fifo"
}

/// Returns a rate in the units of tc.
fn rate(bps: u64) -> String {
    match bps {
        _ if bps.is_multiple_of(1_000_000) => format!("{}mbit", bps / 1_000_000),
        _ if bps.is_multiple_of(1_000) => format!("{}kbit", bps / 1_000),
        _ => format!("{bps}bit"),
    }
}

/// Returns `part` / `whole` of `rate_bps`.
fn part(rate_bps: u64, part: u64, whole: u64) -> u64 {
    let rate = u128::from(rate_bps) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Returns the length of a source's frames, bytes: of its largest ones, if it says so.
fn frame_bytes(source: &Source) -> u32 {
    match source {
        Source::Cbr { bytes, .. }
        | Source::Poisson { bytes, .. }
        | Source::Backlog { bytes, .. } => *bytes,
        Source::Pareto { bytes, largest, .. } => largest.unwrap_or(*bytes),
        Source::Mpeg { packet_bytes, .. } => packet_bytes.unwrap_or(FRAME_BYTES),
        Source::Generator { largest, .. } => *largest,
        _ => FRAME_BYTES,
    }
}

fn step(words: &[&str]) -> Step {
    Step { note: None, words: words.iter().map(|word| (*word).to_owned()).collect() }
}

/// A child of the root or of a class.
#[derive(Clone, Copy)]
enum Member {
    Class(usize),
    Stream(usize),
}

/// Returns the rank of each value among all, the least first.
fn ranks(values: impl Iterator<Item = u64> + Clone) -> Vec<usize> {
    let all: BTreeSet<u64> = values.clone().collect();
    values.map(|value| all.range(..value).count()).collect()
}

/// The parameters of a class of HTB.
struct HtbClass {
    rate_bps: u64,
    /// Its place in the order of its siblings.
    rank: usize,
    quantum: u64,
}

/// The class of HTB that others are below.
struct Parent {
    minor: u32,
    rate_bps: u64,
    ceil_bps: u64,
    /// The ranks of its classes, the uppermost first.
    ranks: Vec<usize>,
}

/// Returns whether an attribute of the stream is lost.
type IsLost<'a> = &'a dyn Fn(&Stream) -> bool;

struct Builder<'a> {
    scenario: &'a Scenario,
    interface: &'a str,
    steps: Vec<Step>,
    lost: Vec<String>,
    next_minor: u32,
    /// The steps that add classes of streams, and the ranks of their classes.
    leaves: Vec<(usize, Vec<usize>)>,
    /// The minor number of each stream's class.
    minors: Vec<u32>,
}

impl Builder<'_> {
    /// Returns the commands that replace the root qdisc. HTB itself cannot be changed, so that
    /// another qdisc first replaces an earlier one.
    fn roots(&self, other: usize) -> Vec<Step> {
        let replace = ["tc", "qdisc", "replace", "dev", self.interface, "root"];
        let table = self.size_table();
        let table: Vec<&str> = table.iter().map(String::as_str).collect();
        let default = format!("{:x}", self.minors[other]);
        let htb = [&["handle", HANDLE], &table[..], &["htb", "default", &default]].concat();
        [&["pfifo"][..], &htb].map(|words| step(&[&replace[..], words].concat())).into()
    }

    /// Adds the class of the link and those below.
    fn add_classes(&mut self) -> Result<(), ScenarioError> {
        let link = self.scenario.link;
        // PTM sends 64 bytes in 65; tc has no name for it.
        let bps =
            if link.framing == Framing::Ptm { part(link.rate_bps, 64, 65) } else { link.rate_bps };
        self.add_class("the link", HANDLE, 1, &["rate", &rate(bps), "quantum", "1514"]);
        let link = Parent { minor: 1, rate_bps: bps, ceil_bps: bps, ranks: Vec::new() };
        self.add_members(None, &link)?;
        self.set_prios();
        Ok(())
    }

    fn tc(&mut self, words: &[&str]) {
        self.steps.push(step(&[&["tc"], words].concat()));
    }

    /// Returns the table by which HTB counts the link's overhead.
    fn size_table(&self) -> Vec<String> {
        let link = self.scenario.link;
        let layer = if link.framing == Framing::Atm { "atm" } else { "ethernet" };
        if link.overhead == 0 && layer == "ethernet" {
            return Vec::new();
        }
        ["stab", "overhead", &link.overhead.to_string(), "linklayer", layer]
            .map(String::from)
            .into()
    }

    /// Adds the class of HTB that `name` describes, with the minor number `minor`.
    fn add_class(&mut self, name: &str, parent: &str, minor: u32, words: &[&str]) {
        let id = format!("{HANDLE}{minor:x}");
        let begin =
            ["class", "add", "dev", self.interface, "parent", parent, "classid", &id, "htb"];
        self.tc(&[&begin[..], words].concat());
        if let Some(step) = self.steps.last_mut() {
            step.note = Some(name.to_owned());
        }
    }

    /// Adds the children of a class of the scenario, or of the root.
    fn add_members(&mut self, class: Option<usize>, parent: &Parent) -> Result<(), ScenarioError> {
        let scenario = self.scenario;
        let scheduler = class.map_or(&scenario.scheduler, |at| &scenario.classes[at].scheduler);
        let classes = scenario.classes.iter().enumerate().filter(|(_, of)| of.parent == class);
        let streams = scenario.streams.iter().enumerate().filter(|(_, of)| of.class == class);
        let members: Vec<Member> = (classes.map(|(at, _)| Member::Class(at)))
            .chain(streams.map(|(at, _)| Member::Stream(at)))
            .collect();
        if parent.ranks.len() > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} levels of classes; HTB has no more");
            let place = ("class", class.unwrap_or(0), "name");
            return Err(scenario.error_at(place, message, "move the streams up"));
        }
        let Parent { rate_bps, ceil_bps, .. } = *parent;
        let parent_id = format!("{HANDLE}{:x}", parent.minor);
        if is_fifo(scheduler) && members.iter().all(|of| matches!(of, Member::Stream(_))) {
            let leaf = self.take_minor();
            let (rate, ceil) = (rate(rate_bps), rate(ceil_bps));
            let words = ["rate", &rate, "ceil", &ceil, "quantum", "1514"];
            self.add_class("all streams, first come, first served", &parent_id, leaf, &words);
            self.leaves.push((self.steps.len() - 1, parent.ranks.clone()));
            self.fq_codel(leaf, &[]);
            for member in members {
                if let Member::Stream(at) = member {
                    self.minors[at] = leaf;
                }
            }
            return Ok(());
        }
        let shares = self.divide(scheduler, class, &members, rate_bps)?;
        for (member, share) in members.iter().zip(shares) {
            let (name, contract) = self.of(*member);
            let (name, cap) = (name.to_owned(), contract.rate_cap());
            let ceil_bps = cap.map_or(ceil_bps, |cap| cap.rate_bps.get().min(ceil_bps));
            let rate_bps = share.rate_bps.clamp(MIN_RATE_BPS.min(ceil_bps), ceil_bps);
            let minor = self.take_minor();
            let [rate, ceil, quantum] =
                &[rate(rate_bps), rate(ceil_bps), share.quantum.to_string()];
            let mut words = vec!["rate", rate, "ceil", ceil, "quantum", quantum];
            let burst = cap.map(|cap| cap.burst_bytes.to_string());
            if let Some(burst) = &burst {
                words.extend(["cburst", burst]);
            }
            self.add_class(&name, &parent_id, minor, &words);
            let ranks = [&parent.ranks[..], &[share.rank]].concat();
            match *member {
                Member::Class(at) => {
                    self.add_members(Some(at), &Parent { minor, rate_bps, ceil_bps, ranks })?;
                }
                Member::Stream(at) => {
                    self.leaves.push((self.steps.len() - 1, ranks));
                    self.minors[at] = minor;
                    let words = leaf_options(&self.scenario.streams[at].contract);
                    self.fq_codel(minor, &words);
                }
            }
        }
        Ok(())
    }

    /// Gives the leaves their `prio`. HTB ignores that of other classes, so that of a leaf is its
    /// place in the order of all leaves by the ranks of its classes, the uppermost first.
    fn set_prios(&mut self) {
        let longest = self.leaves.iter().map(|(_, ranks)| ranks.len()).max().unwrap_or(0);
        let mut leaves = std::mem::take(&mut self.leaves);
        for (_, ranks) in &mut leaves {
            ranks.resize(longest, 0);
        }
        let order: BTreeSet<&[usize]> = leaves.iter().map(|(_, ranks)| &ranks[..]).collect();
        if order.len() > LAST_PRIO + 1 {
            self.lose("the order among the last priorities: HTB has eight");
        }
        for (at, ranks) in &leaves {
            let prio = order.range(..&ranks[..]).count().min(LAST_PRIO);
            self.steps[*at].words.extend(["prio".to_owned(), prio.to_string()]);
        }
    }

    fn take_minor(&mut self) -> u32 {
        self.next_minor += 1;
        self.next_minor - 1
    }

    fn fq_codel(&mut self, minor: u32, options: &[String]) {
        let parent = format!("{HANDLE}{minor:x}");
        let begin = ["qdisc", "add", "dev", self.interface, "parent", &parent, "fq_codel"];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.tc(&[&begin[..], &options[..]].concat());
    }

    fn of(&self, member: Member) -> (&str, &Contract) {
        match member {
            Member::Class(at) => {
                (&self.scenario.classes[at].name, &self.scenario.classes[at].contract)
            }
            Member::Stream(at) => {
                (&self.scenario.streams[at].name, &self.scenario.streams[at].contract)
            }
        }
    }

    /// Divides the rate of a class among its children by its discipline.
    fn divide(
        &mut self,
        scheduler: &SchedulerConfig,
        class: Option<usize>,
        members: &[Member],
        rate_bps: u64,
    ) -> Result<Vec<HtbClass>, ScenarioError> {
        let contracts: Vec<Contract> =
            members.iter().map(|member| self.of(*member).1.clone()).collect();
        match (scheduler.discipline.name, scheduler.discipline.share) {
            ("static-priority", _) => {
                let ranks = ranks(contracts.iter().map(|of| of.terms().priority.into()));
                let rate_bps = rate_bps / PRIORITY_PARTS;
                let of = |rank| HtbClass { rate_bps, rank, quantum: FRAME_BYTES.into() };
                Ok(ranks.into_iter().map(of).collect())
            }
            ("edf" | "dwcs" | "vds", _) => {
                let periods = contracts.iter().map(|of| of.terms().period_ns.unwrap_or(u64::MAX));
                let ranks = ranks(periods);
                let needed: Vec<u64> =
                    members.iter().map(|member| self.needed_bps(*member)).collect();
                let all = needed.iter().fold(0, |sum: u64, of| sum.saturating_add(*of));
                if all > rate_bps {
                    self.lose(
                        "rates: the contracts reserve more than their class has; all are reduced",
                    );
                }
                let of = |(rank, needed)| HtbClass {
                    rate_bps: if all > rate_bps { part(rate_bps, needed, all) } else { needed },
                    rank,
                    quantum: FRAME_BYTES.into(),
                };
                Ok(ranks.into_iter().zip(needed).map(of).collect())
            }
            (name, Share::Weight | Share::Packets | Share::Quantum) if name != "minbw" => {
                let is_quantum = scheduler.discipline.share == Share::Quantum;
                let weight = |of: &Contract| match of.turn_quantum_bytes() {
                    Some(quantum) if is_quantum => quantum.get().into(),
                    _ => u64::from(of.share_weight()),
                };
                let weights: Vec<u64> = contracts.iter().map(weight).collect();
                let all: u64 = weights.iter().sum();
                let least = weights.iter().copied().min().unwrap_or(1);
                let quanta = weights.iter().map(|of| part(FRAME_BYTES.into(), *of, least));
                if quanta.clone().any(|quantum| quantum > MAX_QUANTUM) {
                    self.lose("shares of free bandwidth beyond 1 to 132");
                }
                if scheduler.discipline.share == Share::Packets {
                    self.lose("shares of packets: HTB divides bytes");
                }
                let of = |(weight, quantum): (&u64, u64)| HtbClass {
                    rate_bps: part(rate_bps, *weight, all),
                    rank: 0,
                    quantum: quantum.min(MAX_QUANTUM),
                };
                Ok(weights.iter().zip(quanta).map(of).collect())
            }
            (name, _) => {
                let place = class.map_or(("scheduler", 0), |at| ("class", at));
                let message = format!("discipline {name}, which HTB cannot approximate");
                let help = "choose fifo, static-priority, edf, dwcs, vds, drr or a discipline with \
                            weights";
                Err(self.scenario.error_at((place.0, place.1, "discipline"), message, help))
            }
        }
    }

    /// Returns the rate, bits/s, that a contract with a period needs: a packet each period, less
    /// those that the window lets be lost.
    fn needed_bps(&self, member: Member) -> u64 {
        let bytes = match member {
            Member::Class(_) => FRAME_BYTES,
            Member::Stream(at) => frame_bytes(&self.scenario.streams[at].source),
        };
        let terms = self.of(member).1.terms();
        let Some(period_ns) = terms.period_ns else { return 0 };
        let bits = 8 * u128::from(self.scenario.link.wire().wire_bytes(bytes));
        let rate = bits * 1_000_000_000 / u128::from(period_ns);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let (lost, of) = (u64::from(terms.window.lost()), u64::from(terms.window.of()));
        if of == 0 { rate } else { part(rate, of - lost.min(of), of) }
    }

    fn lose(&mut self, what: &str) {
        if !self.lost.iter().any(|lost| lost == what) {
            self.lost.push(what.to_owned());
        }
    }

    /// Lists what HTB and fq_codel do not keep of the contracts.
    fn lose_contracts(&mut self) {
        self.lose("the schedule, packet for packet, and the bounds of `millstream check`");
        let scenario = self.scenario;
        let names = |is_lost: IsLost<'_>| {
            let lost = scenario.streams.iter().filter(|stream| is_lost(stream));
            lost.map(|stream| format!("`{}`", stream.name)).collect::<Vec<_>>().join(", ")
        };
        let schedulers = || {
            let of_classes = scenario.classes.iter().map(|class| &class.scheduler);
            of_classes.chain([&scenario.scheduler])
        };
        let uses = |key: &str| {
            schedulers().any(|scheduler| {
                let row = scheduler.discipline;
                row.needs.contains(&key) || row.uses.contains(&key)
            })
        };
        let rows: [(&str, IsLost<'_>); 7] = [
            ("deadlines: a period becomes a rate and a priority", &|of| {
                of.contract.terms().period_ns.is_some() && uses("period")
            }),
            ("windows: the rate is that of the packets that may not be lost", &|of| {
                of.window.1 > 0 && uses("window")
            }),
            ("late = \"drop\": late packets are sent", &|of| {
                of.contract.terms().late == Late::Drop
            }),
            ("first deadlines", &|of| of.contract.terms().first_deadline_ns.is_some()),
            ("first come, first served: fq_codel has flows, and CoDel drops packets", &|of| {
                of.contract.flow_options().is_none()
            }),
            ("queue management: fq_codel has CoDel", &|of| {
                of.contract.flow_options().is_some_and(|flows| !matches!(flows.aqm, Aqm::Codel(_)))
            }),
            ("hosts: fq_codel shares among flows", &|of| {
                of.contract.flow_options().is_some_and(|flows| flows.hosts != HostFairness::None)
            }),
        ];
        for (what, is_lost) in rows {
            let names = names(is_lost);
            if scenario.streams.iter().all(is_lost) {
                self.lose(what);
            } else if !names.is_empty() {
                self.lose(&format!("{what} ({names})"));
            }
        }
        if scenario.link.credits.is_some() {
            self.lose("credits");
        }
        if scenario.link.framing == Framing::Ptm {
            self.lose("PTM framing: the link has 64/65 of its rate");
        }
        self.lose("the counters of late packets, violations and delays");
    }

    /// Adds the filters of the streams' matches, in file order.
    fn add_filters(&mut self) {
        let mut prio = 0;
        for (at, stream) in self.scenario.streams.iter().enumerate() {
            let class = format!("{HANDLE}{:x}", self.minors[at]);
            for filter in stream.matches.iter().flat_map(filters) {
                prio += 1;
                let number = prio.to_string();
                let begin = ["filter", "add", "dev", self.interface, "parent", HANDLE];
                let begin = [&begin[..], &["protocol", filter.protocol, "prio", &number]].concat();
                let words: Vec<&str> = filter.words.iter().map(String::as_str).collect();
                self.tc(&[&begin[..], &words[..], &["classid", &class]].concat());
            }
        }
    }
}

/// Returns the options of a stream's fq_codel.
fn leaf_options(contract: &Contract) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |key: &str, value: String| words.extend([key.to_owned(), value]);
    let Some(flows) = contract.flow_options() else {
        if let Some(limit) = contract.queue_limit() {
            add("limit", limit.to_string());
        }
        return words;
    };
    add("limit", flows.limit_packets.to_string());
    add("flows", flows.buckets.min(65_536).to_string());
    add("quantum", flows.quantum_bytes.to_string());
    if let Aqm::Codel(codel) = flows.aqm {
        add("target", format!("{}us", codel.target_ns.div_ceil(1_000)));
        add("interval", format!("{}us", codel.interval_ns.div_ceil(1_000)));
        words.push(if codel.ecn { "ecn" } else { "noecn" }.to_owned());
    }
    words
}

/// A filter without its place and class.
struct Filter {
    protocol: &'static str,
    words: Vec<String>,
}

/// The versions of the Internet Protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

/// Returns the filters of a match. A packet that satisfies one of them satisfies the match.
///
/// flower reads headers and does not see marks; u32 sees marks, and finds ports behind IPv4 headers
/// without options only.
fn filters(of: &StreamMatch) -> Vec<Filter> {
    let fields = &of.fields;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let has_ports = fields.source_port.is_some() || fields.destination_port.is_some();
    let has_addresses = fields.source.is_some() || fields.destination.is_some();
    let mark = of.mark.map(|mark| {
        ["match".into(), "mark".into(), format!("{:#x}", mark.value), format!("{:#x}", mark.mask)]
    });
    if !has_ports && !has_addresses && fields.protocol.is_none() && fields.dscp.is_none() {
        let all = || words(&["match", "u32", "0", "0"]);
        let matches = mark.map_or_else(all, Vec::from);
        let words = ["u32".to_owned()].into_iter().chain(matches).collect();
        return vec![Filter { protocol: "all", words }];
    }
    // Only TCP and UDP have ports, as the qdisc sees them.
    let protocols: Vec<Option<u8>> = match fields.protocol {
        None if has_ports => vec![Some(6), Some(17)],
        Some(protocol) if has_ports && ![6, 17].contains(&protocol) => Vec::new(),
        protocol => vec![protocol],
    };
    let points: Vec<Option<u8>> = match fields.dscp {
        None => vec![None],
        Some(points) => CodePoints::iter(points).map(Some).collect(),
    };
    let mut found = Vec::new();
    for version in [Version::V4, Version::V6] {
        let is_of_version = |prefix: Option<IpNet>| {
            prefix.is_none_or(|prefix| matches!(prefix, IpNet::V4(_)) == (version == Version::V4))
        };
        if !is_of_version(fields.source) || !is_of_version(fields.destination) {
            continue;
        }
        for protocol in &protocols {
            // ICMP is a protocol of one version.
            let other = if version == Version::V4 { 58 } else { 1 };
            if *protocol == Some(other) {
                continue;
            }
            for point in &points {
                let words = match &mark {
                    None => flower(of, *protocol, *point),
                    Some(mark) => u32_filter(of, mark, version, *protocol, *point),
                };
                let protocol = if version == Version::V4 { "ip" } else { "ipv6" };
                found.push(Filter { protocol, words });
            }
        }
    }
    found
}

fn flower(of: &StreamMatch, protocol: Option<u8>, point: Option<u8>) -> Vec<String> {
    let fields = &of.fields;
    let name = |number| match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        _ => format!("{number:#x}"),
    };
    let pairs = [
        ("ip_proto", protocol.map(name)),
        ("ip_tos", point.map(|point| format!("{:#x}/0xfc", point << 2))),
        ("src_ip", fields.source.map(|prefix| prefix.to_string())),
        ("dst_ip", fields.destination.map(|prefix| prefix.to_string())),
        ("src_port", fields.source_port.map(|port| port.to_string())),
        ("dst_port", fields.destination_port.map(|port| port.to_string())),
    ];
    let mut words = vec!["flower".to_owned()];
    for (key, value) in pairs {
        words.extend(value.into_iter().flat_map(|value| [key.to_owned(), value]));
    }
    words
}

fn u32_filter(
    of: &StreamMatch,
    mark: &[String; 4],
    version: Version,
    protocol: Option<u8>,
    point: Option<u8>,
) -> Vec<String> {
    let fields = &of.fields;
    let (ip, class) = if version == Version::V4 { ("ip", "dsfield") } else { ("ip6", "priority") };
    let pairs = [
        ("protocol", protocol.map(|number| format!("{number} 0xff"))),
        (class, point.map(|point| format!("{:#x} 0xfc", point << 2))),
        ("src", fields.source.map(|prefix| prefix.to_string())),
        ("dst", fields.destination.map(|prefix| prefix.to_string())),
        ("sport", fields.source_port.map(|port| format!("{port} 0xffff"))),
        ("dport", fields.destination_port.map(|port| format!("{port} 0xffff"))),
    ];
    let mut words = vec!["u32".to_owned()];
    words.extend(mark.iter().cloned());
    for (key, value) in pairs {
        let Some(value) = value else { continue };
        words.extend(["match", ip, key].map(str::to_owned));
        words.extend(value.split(' ').map(str::to_owned));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const LINK: &str = r#"
[scenario]
duration = "1 s"

[link]
rate = "10 Mbit/s"

[scheduler]
discipline = "wf2q+"

[[stream]]
name = "voice"
weight = 3
match = [{ dscp = "EF", protocol = "udp" }]
source = { kind = "cbr", bytes = 214, interval = "20 ms" }

[[stream]]
name = "others"
source = { kind = "cbr", bytes = 1514, interval = "1 ms" }
"#;

    fn of(text: &str) -> Result<TcCommands, ScenarioError> {
        let scenario = Scenario::parse("link.toml", text, Path::new("")).unwrap();
        TcCommands::of_scenario(&scenario, "eth0")
    }

    /// Returns the arguments of the filters of voice with this match.
    fn filters_of(table: &str) -> Vec<String> {
        let commands = of(&LINK.replace("{ dscp = \"EF\", protocol = \"udp\" }", table)).unwrap();
        let words = commands.steps.iter().map(|step| step.words.join(" "));
        let begin = "tc filter add dev eth0 parent 4d53: protocol ";
        words.filter_map(|line| line.strip_prefix(begin).map(str::to_owned)).collect()
    }

    #[test]
    fn shares_are_rates_and_quanta() {
        let script = of(LINK).unwrap().script();
        for line in [
            "tc qdisc replace dev eth0 root pfifo\ntc qdisc replace dev eth0 root handle 4d53: htb \
             default 11\n# the link\n",
            "# voice\ntc class add dev eth0 parent 4d53:1 classid 4d53:10 htb rate 7500kbit ceil \
             10mbit quantum 4542 prio 0\ntc qdisc add dev eth0 parent 4d53:10 fq_codel\n",
            "classid 4d53:11 htb rate 2500kbit ceil 10mbit quantum 1514 prio 0\n",
        ] {
            assert!(script.contains(line), "{line} is not in\n{script}");
        }
    }

    #[test]
    fn deadlines_are_the_rates_of_their_packets_and_priorities() {
        let text = LINK
            .replace("\"wf2q+\"", "\"dwcs\"")
            .replace("weight = 3", "period = \"10 ms\"\nwindow = \"1/4\"")
            .replace("\"others\"", "\"others\"\nperiod = \"1 ms\"\nwindow = \"1/2\"");
        let script = of(&text).unwrap().script();
        // 214 bytes each 10 ms, 3 of 4; and 1,514 bytes each ms, a half, with the shorter period.
        assert!(
            script.contains("htb rate 128400bit ceil 10mbit quantum 1514 prio 1\n"),
            "{script}"
        );
        assert!(script.contains("htb rate 6056kbit ceil 10mbit quantum 1514 prio 0\n"), "{script}");
    }

    #[test]
    fn a_leaf_has_the_priority_of_its_class_then_its_own() {
        let class = |name, priority| {
            format!(
                "[[class]]\nname = \"{name}\"\ndiscipline = \"static-priority\"\npriority = \
                 {priority}\n"
            )
        };
        let stream = |class, name, priority| {
            let source = "source = { kind = \"cbr\", bytes = 100, interval = \"1 ms\" }";
            format!(
                "[[stream]]\nname = \"{name}\"\nclass = \"{class}\"\npriority = {priority}\n\
                 match = [{{ mark = 1 }}]\n{source}\n"
            )
        };
        let text = "scenario.duration = \"1 s\"\nlink.rate = \"10 Mbit/s\"\nscheduler.discipline = \
                    \"static-priority\"\n"
            .to_owned()
            + &[class("last", 7), class("first", 3)].concat()
            + &[stream("last", "a", 0), stream("last", "b", 1), stream("first", "c", 5)].concat()
            + &stream("first", "d", 9).replace("match = [{ mark = 1 }]\n", "");
        let script = of(&text).unwrap().script();
        for (name, prio) in [("a", 2), ("b", 3), ("c", 0), ("d", 1)] {
            let found = script.split(&format!("\n# {name}\n")).nth(1).unwrap();
            assert!(found.lines().next().unwrap().ends_with(&format!(" prio {prio}")), "{script}");
        }
    }

    #[test]
    fn a_match_is_a_filter_for_each_version_protocol_and_code_point() {
        assert_eq!(
            filters_of("{ dscp = [\"EF\", 4], source = \"10.0.0.0/8\" }"),
            [
                "ip prio 1 flower ip_tos 0x10/0xfc src_ip 10.0.0.0/8 classid 4d53:10",
                "ip prio 2 flower ip_tos 0xb8/0xfc src_ip 10.0.0.0/8 classid 4d53:10",
            ]
        );
        assert_eq!(
            filters_of("{ destination-port = 53, destination = \"fd00::/8\" }"),
            [
                "ipv6 prio 1 flower ip_proto tcp dst_ip fd00::/8 dst_port 53 classid 4d53:10",
                "ipv6 prio 2 flower ip_proto udp dst_ip fd00::/8 dst_port 53 classid 4d53:10",
            ]
        );
        assert_eq!(
            filters_of("{ protocol = \"icmpv6\" }"),
            ["ipv6 prio 1 flower ip_proto icmpv6 classid 4d53:10"]
        );
        assert_eq!(
            filters_of("{ mark = \"0x100/0xff00\" }"),
            ["all prio 1 u32 match mark 0x100 0xff00 classid 4d53:10"]
        );
        assert_eq!(
            filters_of("{ mark = 3, protocol = \"udp\", source = \"10.0.0.1/32\" }"),
            ["ip prio 1 u32 match mark 0x3 0xffffffff match ip protocol 17 0xff match ip src \
              10.0.0.1/32 classid 4d53:10"]
        );
    }

    #[test]
    fn what_htb_cannot_approximate_is_an_error_at_its_key() {
        let text = LINK.replace("\"wf2q+\"", "\"lqf\"").replace("weight = 3\n", "");
        let error = of(&text).unwrap_err();
        let message = error.problems[0].to_string();
        assert_eq!(message, "discipline lqf, which HTB cannot approximate");
        let text = LINK.replace("dscp = \"EF\"", "cgroup = \"/a.slice\"");
        let message = of(&text).unwrap_err().problems[0].to_string();
        assert_eq!(message, "tc does not match `cgroup`");
        let text = LINK.replace("dscp = \"EF\"", "filter = \"udp\"");
        let message = of(&text).unwrap_err().problems[0].to_string();
        assert_eq!(message, "tc does not match `filter`");
        let text = LINK.replace("\"wf2q+\"", "\"minbw\"");
        let message = of(&text).unwrap_err().problems[0].to_string();
        assert_eq!(message, "discipline minbw, which HTB cannot approximate");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("4d53:10"), "4d53:10");
        assert_eq!(quoted("a'b c"), r"'a'\''b c'");
        assert_eq!(quoted(""), "''");
    }
}
