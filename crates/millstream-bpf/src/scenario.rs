//! The qdisc of a scenario: its contracts, and its rules from the streams' `match`.

use millstream::catalogue::StructureName;
use millstream_scenario::{FilterError, FlowBy, Scenario, ScenarioError};

use crate::{
    Cgroup, CgroupError, Config, MAX_FILTER_INSTRUCTIONS, MAX_FLOWS, MAX_RULES, MAX_STREAMS, Rules,
    Unsupported, UnsupportedMatch, compile_filter, tc::TcCommands,
};

/// The qdisc of a scenario.
#[derive(Clone, Debug)]
pub struct Qdisc {
    /// The contracts and the link.
    pub config: Config,
    /// The classification.
    pub rules: Rules,
    /// The streams' names, in the order of their numbers.
    pub names: Vec<String>,
    /// Bounds on the streams' delays to the end of transmission, ns, shown with the counters.
    /// `None`, or no element, if unknown.
    pub delay_bounds_ns: Vec<Option<u64>>,
}

impl Qdisc {
    /// Returns the qdisc of a scenario. Its sources, the link's `delay` and `loss`, and the
    /// settings of the run are for simulations.
    ///
    /// # Errors
    /// Returns an error with line and caret if the qdisc does not support the scenario, or not
    /// exactly one stream has no `match`.
    pub fn of_scenario(scenario: &Scenario) -> Result<Self, ScenarioError> {
        check_kind(scenario)?;
        let config = Config::of_scenario(scenario)
            .map_err(|unsupported| unsupported_error(scenario, &unsupported))?;
        let rules = rules(scenario)?;
        let names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
        Ok(Self { config, rules, names, delay_bounds_ns: Vec::new() })
    }
}

/// Rejects scenarios that do not describe one link with its streams.
pub(crate) fn check_kind(scenario: &Scenario) -> Result<(), ScenarioError> {
    let run = format!("use `millstream run {}`", scenario.file);
    let hops = scenario.network.as_ref().map_or(&[][..], |network| &network.hops);
    if scenario.has_media {
        let message = "this is the scenario of a media server, not of a link";
        let help = format!("use `millstream serve {}`", scenario.file);
        return Err(scenario.error_at(("media", 0, ""), message, help));
    }
    if scenario.fabric.is_some() {
        let message = "this is the scenario of a fabric, not of a link";
        return Err(scenario.error_at(("fabric", 0, ""), message, run));
    }
    if hops.len() > 1 {
        let message = "this is the scenario of a network, not of a link";
        return Err(scenario.error_at(("hop", 0, "name"), message, run));
    }
    if hops.iter().any(|hop| hop.queue.is_some()) {
        let message = "`queue` of the link, which the qdisc does not support";
        let help = "give each stream a `queue`";
        return Err(scenario.error_at(("link", 0, "queue"), message, help));
    }
    if scenario.scheduler.structure == StructureName::Hilq {
        let message = "structure hilq, which schedules otherwise than its discipline";
        let help = "take `structure` out";
        return Err(scenario.error_at(("scheduler", 0, "structure"), message, help));
    }
    if let Some(at) = scenario.streams.iter().position(|stream| stream.shares.is_some()) {
        let message = "`shares`, which the qdisc does not support";
        let help = "take the stream out, and add its `match` to that of the other stream";
        return Err(scenario.error_at(("stream", at, "shares"), message, help));
    }
    if let Some(at) = scenario.streams.iter().position(|stream| stream.flow_by != FlowBy::FiveTuple)
    {
        let name = &scenario.streams[at].name;
        let message = format!("`by` of the flows of stream `{name}`; the qdisc has \"5-tuple\"");
        let help = "take it out, or write a router file: the paths of `millstream route` have it";
        return Err(scenario.error_at(("stream", at, "flows"), message, help));
    }
    Ok(())
}

fn unsupported_error(scenario: &Scenario, unsupported: &Unsupported) -> ScenarioError {
    let elsewhere = elsewhere(scenario, unsupported);
    match *unsupported {
        Unsupported::Discipline(_) => {
            let help = format!("choose another discipline; {elsewhere}");
            scenario.error_at(("scheduler", 0, "discipline"), unsupported.to_string(), help)
        }
        Unsupported::Dwcs(option) => {
            let key = option.split(' ').next().unwrap_or(option);
            let help = format!("take `{key}` out; {elsewhere}");
            scenario.error_at(("scheduler", 0, key), unsupported.to_string(), help)
        }
        Unsupported::Streams(_) => {
            let place = ("stream", MAX_STREAMS, "name");
            let help = format!("combine streams; {elsewhere}");
            scenario.error_at(place, unsupported.to_string(), help)
        }
        Unsupported::Credits(_) => {
            let message = "`credits` of the link, which the qdisc does not support";
            let help = "take it out: the qdisc has no flow control";
            scenario.error_at(("link", 0, "credits"), message, help)
        }
        Unsupported::Aqm { stream, aqm } => {
            let name = &scenario.streams[stream].name;
            let message = format!(
                "queue management {aqm} of stream `{name}`; the qdisc has \"codel\" and \"none\""
            );
            let help = "use one of them, or write a router file: the paths of `millstream route` \
                        have all kinds";
            scenario.error_at(("stream", stream, "aqm"), message, help)
        }
        Unsupported::Hosts(stream) => {
            let name = &scenario.streams[stream].name;
            let message = format!(
                "`hosts` of the flows of stream `{name}`, which the qdisc does not support"
            );
            let help = "take it out, or write a router file: the paths of `millstream route` have \
                        it";
            scenario.error_at(("stream", stream, "flows"), message, help)
        }
        Unsupported::Flows { stream, flows } => {
            let message = format!(
                "{flows} flows of the streams up to `{}`; the qdisc has at most {MAX_FLOWS} in all",
                scenario.streams[stream].name
            );
            let help = "give fewer `buckets`, for example flows = { buckets = 256 }";
            scenario.error_at(("stream", stream, "flows"), message, help)
        }
        Unsupported::TooGreat { stream, key } => {
            let place = stream.map_or(("link", 0, key), |stream| ("stream", stream, key));
            scenario.error_at(place, unsupported.to_string(), "give a smaller value")
        }
        Unsupported::Framing | Unsupported::Overhead(_) => {
            let help =
                format!("give `overhead` in bytes, 0 or more, and take `framing` out; {elsewhere}");
            let at = |key| scenario.error_at(("link", 0, key), unsupported.to_string(), &*help);
            // The name in `overhead` may set the framing, too.
            let is_at_framing = *unsupported == Unsupported::Framing;
            let framing = is_at_framing.then(|| at("framing"));
            framing
                .filter(|error| error.problems[0].span.is_some())
                .unwrap_or_else(|| at("overhead"))
        }
        Unsupported::Classes => {
            let help =
                format!("move their streams to the root, with weights of their own; {elsewhere}");
            scenario.error_at(("class", 0, "name"), unsupported.to_string(), help)
        }
    }
}

/// Returns the commands that have what the qdisc lacks, or approximate it.
fn elsewhere(scenario: &Scenario, unsupported: &Unsupported) -> String {
    let file = &scenario.file;
    let route = match unsupported {
        Unsupported::Discipline("table" | "minbw") => None,
        Unsupported::Discipline(_) => Some("the ports of `millstream route` have it"),
        Unsupported::Streams(_) => Some("`millstream route` has more paths"),
        Unsupported::Framing | Unsupported::Overhead(_) => {
            Some("the ports of `millstream route` have it")
        }
        _ => None,
    };
    let htb = TcCommands::of_scenario(scenario, "").ok().map(|_| {
        format!("`millstream attach INTERFACE {file} --via tc` approximates the scenario by HTB")
    });
    let simulation = format!("`millstream run {file}` simulates it");
    let all = [route.map(str::to_owned), htb, Some(simulation)];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns the only stream without a `match`, which takes all other packets.
pub(crate) fn others(scenario: &Scenario) -> Result<usize, ScenarioError> {
    let streams = scenario.streams.iter().enumerate();
    let mut others = streams.filter(|(_, stream)| stream.matches.is_empty());
    let Some((other, of_others)) = others.next() else {
        let place = ("stream", scenario.streams.len() - 1, "match");
        let message = "every stream has a `match`, so that some packets have no stream";
        let help = "add a stream without `match`: it takes all other packets";
        return Err(scenario.error_at(place, message, help));
    };
    if let Some((second, stream)) = others.next() {
        let message = format!("streams `{}` and `{}` have no `match`", of_others.name, stream.name);
        let help = "give all streams but one a `match`, for example match = [{ dscp = \"EF\" }]; \
                    the one without takes all other packets";
        return Err(scenario.error_at(("stream", second, "name"), message, help));
    }
    Ok(other)
}

/// Returns the rules of the streams' matches, in file order.
fn rules(scenario: &Scenario) -> Result<Rules, ScenarioError> {
    let other = others(scenario)?;
    let mut rules = Rules::new(number(other));
    for (at, stream) in scenario.streams.iter().enumerate() {
        for of in &stream.matches {
            let cgroup = of.cgroup.as_deref().map(Cgroup::find).transpose();
            let cgroup = cgroup.map_err(|error| cgroup_error(scenario, at, &error))?;
            let filter = of.filter.as_deref().map(compile_filter).transpose();
            let filter = filter.map_err(|error| filter_error(scenario, at, &error))?;
            let added = rules.add(of, cgroup, &filter.unwrap_or_default(), number(at));
            added.map_err(|reason| rule_error(scenario, at, reason))?;
        }
    }
    Ok(rules)
}

fn rule_error(scenario: &Scenario, stream: usize, reason: UnsupportedMatch) -> ScenarioError {
    let help = match reason {
        UnsupportedMatch::Field(field) => format!("take `{field}` out"),
        UnsupportedMatch::Instructions => {
            "use other keys than `filter`, or let nftables set a mark, and match `mark`".to_owned()
        }
        UnsupportedMatch::Stream(_) | UnsupportedMatch::Rules => format!(
            "all streams together have at most {MAX_RULES} tables; a list of code points or a \
             mask of marks is one"
        ),
    };
    scenario.error_at(("stream", stream, "match"), reason.to_string(), help)
}

fn filter_error(scenario: &Scenario, stream: usize, error: &FilterError) -> ScenarioError {
    let help = match error {
        FilterError::Expression(_) => {
            "a pcap-filter expression, as for tcpdump: man pcap-filter".to_owned()
        }
        FilterError::Loop => {
            "an expression without `protochain`: a filter must run in bounded time".to_owned()
        }
        FilterError::Long(_) => {
            format!(
                "at most {MAX_FILTER_INSTRUCTIONS}; or let nftables set a mark, and match `mark`"
            )
        }
        FilterError::Metadata | FilterError::Unknown => {
            "another expression; or let nftables set a mark, and match `mark`".to_owned()
        }
    };
    let message = format!("`match`, `filter`: {error}");
    scenario.error_at(("stream", stream, "match"), message, help)
}

fn cgroup_error(scenario: &Scenario, stream: usize, error: &CgroupError) -> ScenarioError {
    let help = "the cgroup must exist: start its service first; `systemd-cgls` shows the paths";
    scenario.error_at(("stream", stream, "match"), error.to_string(), help)
}

/// Returns a stream's number, which [`Config`] has limited.
fn number(stream: usize) -> u32 {
    u32::try_from(stream).unwrap_or(u32::MAX)
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
discipline = "dwcs"

[[stream]]
name = "voice"
period = "20 ms"
match = [{ dscp = "EF" }, { mark = "0x100/0xff00" }]
source = { kind = "cbr", bytes = 200, interval = "20 ms" }

[[stream]]
name = "web"
period = "10 ms"
source = { kind = "poisson", bytes = 1500, rate = "4 Mbit/s" }

[[stream]]
name = "games"
period = "10 ms"
match = [{ protocol = "udp", destination-port = 27015 }]
source = { kind = "poisson", bytes = 200, rate = "1 Mbit/s" }
"#;

    /// A text of the scenario and its replacement.
    type Edit = (&'static str, &'static str);

    fn of(text: &str) -> Result<Qdisc, ScenarioError> {
        let scenario = Scenario::parse("link.toml", text, Path::new(""));
        Qdisc::of_scenario(&scenario.unwrap())
    }

    /// Returns the only problem of the scenario with these replacements, and the text at its place.
    fn problem(replacements: &[Edit]) -> (String, String) {
        let mut text = LINK.to_owned();
        for (old, new) in replacements {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        let error = of(&text).unwrap_err();
        let [problem] = &error.problems[..] else { panic!("{:?}", error.problems) };
        assert!(problem.help.is_some());
        (problem.to_string(), text[problem.span.unwrap().offset()..].to_owned())
    }

    #[test]
    fn the_rules_are_the_matches_in_file_order() {
        let qdisc = of(LINK).unwrap();
        assert_eq!(qdisc.names, ["voice", "web", "games"]);
        assert_eq!(qdisc.config.streams(), 3);
        assert_eq!(qdisc.rules.streams(), ([0, 0, 2].to_vec(), 1));
    }

    #[test]
    fn one_stream_takes_the_packets_without_a_match() {
        let (message, at) = problem(&[("match = [{ protocol", "# [{ protocol")]);
        assert_eq!(message, "streams `web` and `games` have no `match`");
        assert!(at.starts_with("\"games\""), "{at}");
        let (message, at) = problem(&[("\"web\"", "\"web\"\nmatch = [{ mark = 1 }]")]);
        assert_eq!(message, "every stream has a `match`, so that some packets have no stream");
        assert!(at.starts_with("[{ protocol"), "{at}");
    }

    #[test]
    fn what_the_qdisc_lacks_is_an_error_at_its_key() {
        let tcp = ("\"poisson\", bytes = 1500, rate = \"4 Mbit/s\"", "\"tcp\", rtt = \"20 ms\"");
        let cases: [(&[Edit], &str, &str); 15] = [
            (&[("\"dwcs\"", "\"fifo\"")], "discipline fifo", "\"fifo\""),
            (
                &[("\"dwcs\"", "\"dwcs\"\norder = \"loss-first\"")],
                "order loss-first",
                "\"loss-first\"",
            ),
            (
                &[
                    ("\"dwcs\"", "\"dwcs\"\nstructure = \"hilq\""),
                    ("period", "late = \"drop\"\nperiod"),
                ],
                "structure hilq",
                "\"hilq\"",
            ),
            (
                &[("\"web\"", "\"web\"\nflows = {}\naqm = \"pie\"")],
                "queue management pie of stream `web`",
                "\"pie\"",
            ),
            (
                &[("\"web\"", "\"web\"\nflows = { hosts = \"source\" }")],
                "`hosts` of the flows of stream `web`",
                "{ hosts",
            ),
            (
                &[("\"web\"", "\"web\"\nflows = { by = \"source\" }")],
                "`by` of the flows of stream `web`",
                "{ by",
            ),
            (
                &[("\"web\"", "\"web\"\nflows = { buckets = 4097 }")],
                "4104 flows of the streams up to `web`",
                "{ buckets",
            ),
            (
                &[("\"web\"\nperiod = \"10 ms\"", "\"web\"\nshares = \"games\""), tcp],
                "`shares`",
                "\"games\"",
            ),
            (&[("\"10 Mbit/s\"", "\"10 Mbit/s\"\nqueue = 9"), tcp], "`queue` of the link", "9"),
            (
                &[("\"10 Mbit/s\"", "\"10 Mbit/s\"\ncredits.buffer = \"6400 B\"")],
                "`credits` of the link",
                "",
            ),
            (&[("\"10 Mbit/s\"", "\"900 Tbit/s\"")], "`rate` is too great", "\"900 Tbit/s\""),
            (
                &[("{ mark = \"0x100/0xff00\" }", "{ cgroup = \"/no.slice/such.service\" }")],
                "cgroup",
                "[{ dscp",
            ),
            (
                &[("{ dscp = \"EF\" }", "{ filter = \"udp prot 5\" }")],
                "`match`, `filter`: ",
                "[{ filter",
            ),
            (
                &[("{ dscp = \"EF\" }", "{ filter = \"ip6 protochain 6\" }")],
                "`match`, `filter`: it loops over headers",
                "[{ filter",
            ),
            (&[("27015", "0")], "the qdisc does not match destination-port 0", "[{ protocol"),
        ];
        for (replacements, message, place) in cases {
            let (found, at) = problem(replacements);
            assert!(found.starts_with(message), "{found}");
            assert!(at.starts_with(place), "{message}: {at}");
        }
    }

    #[test]
    fn errors_name_the_commands_that_have_what_the_qdisc_lacks() {
        let htb =
            "`millstream attach INTERFACE link.toml --via tc` approximates the scenario by HTB";
        let help = |old: &str, new: &str| {
            let error = of(&LINK.replace(old, new)).unwrap_err();
            error.problems[0].help.clone().unwrap()
        };
        let of_ports = "the ports of `millstream route` have it";
        assert_eq!(
            help("\"dwcs\"", "\"vds\""),
            format!(
                "choose another discipline; {of_ports}; {htb}; `millstream run link.toml` \
                 simulates it"
            )
        );
        // HTB has none of its kind.
        assert_eq!(
            help("\"dwcs\"", "\"lqf\""),
            format!(
                "choose another discipline; {of_ports}; `millstream run link.toml` simulates it"
            )
        );
        let loss_first = help("\"dwcs\"", "\"dwcs\"\norder = \"loss-first\"");
        assert!(loss_first.starts_with(&format!("take `order` out; {htb}; ")), "{loss_first}");
        let atm = help("rate = \"10 Mbit/s\"", "rate = \"10 Mbit/s\"\noverhead = \"pppoa-vcmux\"");
        assert!(atm.contains(of_ports) && atm.contains(htb), "{atm}");
    }

    #[test]
    fn an_error_of_framing_is_at_the_key_that_sets_it() {
        let (message, at) =
            problem(&[("\"10 Mbit/s\"", "\"10 Mbit/s\"\noverhead = \"pppoa-vcmux\"")]);
        assert!(message.starts_with("framing of ATM or PTM cells"), "{message}");
        assert!(at.starts_with("\"pppoa-vcmux\""), "{at}");
        let (_, at) = problem(&[("\"10 Mbit/s\"", "\"10 Mbit/s\"\nframing = \"atm\"")]);
        assert!(at.starts_with("\"atm\""), "{at}");
    }

    #[test]
    fn scenarios_of_other_kinds_name_their_command() {
        let fabric = LINK.replace(
            "[scheduler]",
            "[fabric]\ntopology = { kind = \"shuffle\", radix = 4, stages = 1 }\n\n[scheduler]",
        );
        let error = of(&fabric).unwrap_err();
        assert_eq!(
            error.problems[0].to_string(),
            "this is the scenario of a fabric, not of a link"
        );
        let help = error.problems[0].help.as_deref();
        assert_eq!(help, Some("use `millstream run link.toml`"));
    }
}
