//! Table 1: costs of forwarding functions, measured on this machine.
//!
//! A router forwards from memory to memory on one core. The result is the time that its scheduler
//! charges to the forwarding process, per packet that the path receives. As in the paper, this
//! excludes input and output processes. `millstream-papers --router-costs` writes
//! `measured/functions.csv`.

mod ends;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use miette::{IntoDiagnostic, WrapErr, miette};
use millstream::Link;
use millstream_router::live::{
    Classifier, Clock, Extensions, Forwarder, LiveMachine, NextHop, Pool, Routes, admitted,
};
use millstream_router::{Machine, PathId, PortId, Process, Router, Step};
use millstream_scenario::RouterScenario;

use self::ends::{Ends, MAC, NEIGHBOUR};
use super::estimates::deviation;
use crate::claim::{Allowed, Claim, Estimate, Evidence, Test};
use crate::experiment::measured;

/// Warm-up and measurement of one run, ns.
const WARM_UP_NS: u64 = 50_000_000;
const RUN_NS: u64 = 200_000_000;
/// The number of rounds that count; a round measures each function once.
const ROUNDS: usize = 20;
/// The most rounds that are measured.
const MOST_ROUNDS: usize = 60;
/// A round with more steal time is not counted, % of the machine's CPU time.
const MOST_STEAL: f64 = 2.0;
/// Prefixes of the general function's routes; each run has 16 destinations a prefix.
const PREFIXES: u8 = 250;

/// A forwarding function of Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    FastPath,
    General,
    Transparent,
    Classical,
    Active,
}

/// The functions in the paper's order: name in the paper and in the file, cost there in µs, what is
/// measured here.
const TABLE: [(Function, &str, f64, &str); 5] = [
    (Function::FastPath, "IP Fast Path", 0.3, "one destination, next hop cached"),
    (
        Function::General,
        "General IP",
        3.0,
        "4,000 destinations by 250 routes, cache misses, packets with IP options",
    ),
    (Function::Transparent, "Transparent Proxy", 10.7, "spliced TCP connections"),
    (Function::Classical, "Classical Proxy", 12.8, "two TCP connections each, bytes copied"),
    (Function::Active, "Active Protocol", 37.3, "WebAssembly extension `mark.wasm`, interpreted"),
];

impl Function {
    /// Returns the additional keys of the path.
    fn keys(self) -> &'static str {
        match self {
            Self::FastPath | Self::General => "",
            Self::Transparent => {
                "match = { protocol = \"tcp\" }\n\
                 proxy = { kind = \"transparent\", deny = [\"b.example\"] }"
            }
            Self::Classical => {
                "match = { protocol = \"tcp\" }\n\
                 proxy = { kind = \"classical\", to = \"10.2.0.9:80\" }"
            }
            Self::Active => "extension = { module = \"mark.wasm\" }",
        }
    }

    fn ends(self) -> Ends {
        match self {
            Self::FastPath => Ends::repeating(vec![ends::udp([10, 2, 0, 1], 9, &[])]),
            Self::General => {
                let hosts = (1..=16u8).flat_map(|host| (0..PREFIXES).map(move |net| (net, host)));
                // A record-route option without space: no router may act on it.
                let options = [7, 3, 4, 0];
                let frame = |(net, host)| ends::udp([10, 2, net, host], 9, &options);
                Ends::repeating(hosts.map(frame).collect())
            }
            Self::Active => Ends::repeating(vec![ends::udp([10, 2, 0, 1], 5_004, &[])]),
            Self::Transparent | Self::Classical => Ends::talking(),
        }
    }
}

/// A router with one function.
struct Running {
    router: Router<LiveMachine<Ends>>,
}

impl Running {
    fn start(examples: &Path, function: Function) -> miette::Result<Self> {
        let keys = function.keys();
        let file = format!(
            "[router]\nbatch = 16\n[[port]]\nname = \"p\"\nkind = \"pcap\"\noutput = \"none\"\n\
             mac = \"02:00:00:00:00:01\"\nrate = \"100 Gbps\"\naddress = [\"10.0.0.1/24\"]\n\
             [[path]]\nname = \"f\"\n{keys}\n[[route]]\n\
             prefix = \"10.0.0.0/8\"\nport = \"p\"\nneighbour = \"02:00:00:00:00:02\"\n"
        );
        let scenario = RouterScenario::parse("functions.toml", &file, examples)?;
        let mut routes = Routes::default();
        let hop = NextHop { output: PortId(0), from: MAC, to: NEIGHBOUR };
        routes.add("10.0.0.0/8".parse().into_diagnostic()?, hop);
        if function == Function::General {
            for net in 0..PREFIXES {
                routes.add(format!("10.2.{net}.0/24").parse().into_diagnostic()?, hop);
            }
        }
        let rules = scenario.paths.iter().map(|path| path.matches).collect();
        let (classifier, forwarder) = (Classifier::new(rules), Forwarder::new(routes));
        let mut machine =
            LiveMachine::new(Clock::default(), Pool::new(4_096), classifier, forwarder);
        machine.add(function.ends(), MAC, Link::new(1 << 46, 0));
        machine.set_address(PortId(0), scenario.ports[0].addresses.iter().copied());
        machine.set_proxies(&scenario, &[]);
        let extensions = Extensions::load(&scenario).map_err(|error| miette!("{error}"))?;
        machine.set_extensions(extensions, &[]);
        let plan = admitted(&scenario, 1_000_000_000).map_err(|error| miette!("{error}"))?;
        let router = Router::new(&plan, machine).into_diagnostic()?;
        Ok(Self { router })
    }

    /// Routes for `duration_ns`; returns the received packets and the forwarding process's CPU time
    /// so far, ns.
    fn run(&mut self, duration_ns: u64) -> (u64, u64) {
        let until_ns = self.router.machine_mut().now_ns() + duration_ns;
        while self.router.machine_mut().now_ns() < until_ns {
            for _ in 0..64 {
                if let Step::Idle { .. } = self.router.step() {
                    self.router.resume();
                }
            }
        }
        let busy_ns = self.router.used(Process::Forward(PathId(0))).busy_ns;
        (self.router.path(PathId(0)).received, busy_ns)
    }
}

/// Measures one function: ns per packet.
#[allow(clippy::cast_precision_loss)]
fn cost_ns(examples: &Path, function: Function) -> miette::Result<f64> {
    let mut running = Running::start(examples, function)?;
    let before = running.run(WARM_UP_NS);
    let after = running.run(RUN_NS);
    let packets = after.0 - before.0;
    if packets < 1_000 {
        return Err(miette!("{function:?}: only {packets} packets"));
    }
    let sent = running.router.path(PathId(0)).sent;
    if sent < after.0 / 2 {
        return Err(miette!("{function:?}: {} packets received, {sent} sent", after.0));
    }
    Ok((after.1 - before.1) as f64 / packets as f64)
}

/// Returns the machine's CPU times since its start: steal time and all, in the kernel's ticks.
fn processor_ticks() -> miette::Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").into_diagnostic().wrap_err("/proc/stat")?;
    let ticks = parse_ticks(&text);
    ticks.ok_or_else(|| miette!("/proc/stat has no steal time"))
}

/// Returns steal time and the sum of all times in the first line of `/proc/stat`.
fn parse_ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; user includes guests.
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
    (ticks.len() == 8).then(|| (ticks[7], ticks.iter().sum()))
}

/// Measures Table 1 on this machine into `measured/functions.csv`.
///
/// # Errors
/// Fails if too few rounds have little steal time.
#[allow(clippy::cast_precision_loss)]
pub(super) fn measure(folder: &Path) -> miette::Result<()> {
    let examples = folder.join("../../examples/router");
    let mut text = String::from("function,round,steal_percent,ns_per_packet\n");
    let mut counted = 0;
    for round in 0..MOST_ROUNDS {
        if counted == ROUNDS {
            break;
        }
        let before = processor_ticks()?;
        let mut rows = Vec::new();
        // The order rotates, so that no function always follows the same one.
        for at in 0..TABLE.len() {
            let (function, name, ..) = TABLE[(at + round) % TABLE.len()];
            rows.push((name, cost_ns(&examples, function)?));
        }
        let after = processor_ticks()?;
        let steal = 100.0 * (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
        if steal > MOST_STEAL {
            eprintln!("router costs: a round with {steal:.1} % steal time is not counted");
            continue;
        }
        counted += 1;
        for (name, ns) in rows {
            let _ = writeln!(text, "{name},{counted},{steal:.2},{ns:.2}");
        }
    }
    if counted < ROUNDS {
        return Err(miette!("only {counted} of {ROUNDS} rounds had little steal time"));
    }
    fs::write(folder.join("measured/functions.csv"), text).into_diagnostic()
}

/// The measured costs, ns per packet, by function and round.
struct Costs(Vec<Vec<f64>>);

impl Costs {
    fn read(folder: &Path) -> miette::Result<Self> {
        let rows = measured(folder, "functions.csv", 1)?;
        let costs = TABLE.map(|(_, name, ..)| {
            rows.iter().filter(|row| row.0 == name).map(|(_, row)| row[2]).collect()
        });
        Ok(Self(costs.to_vec()))
    }

    fn cost(&self, function: usize) -> Estimate {
        Estimate::median(&self.0[function])
    }

    /// Returns the median of the ratios of two functions in the same round.
    fn ratio(&self, function: usize, other: usize) -> Estimate {
        let pairs = self.0[function].iter().zip(&self.0[other]);
        Estimate::median(&pairs.map(|(one, other)| one / other).collect::<Vec<_>>())
    }
}

/// Returns the section of the page and the claims of Table 1.
pub(super) fn section(folder: &Path) -> miette::Result<(String, Vec<Claim>)> {
    let costs = Costs::read(folder)?;
    let mut text = String::from(
        "\n| function | paper (µs) | relative | ours (ns) | interval | relative | measured here |\n\
         |---|--:|--:|--:|--:|--:|---|\n",
    );
    let base = TABLE[0].2;
    for (at, (_, name, paper, what)) in TABLE.into_iter().enumerate() {
        let (cost, ratio) = (costs.cost(at), costs.ratio(at, 0));
        let _ = writeln!(
            text,
            "| {name} | {paper} | {:.1} | {:.0} | {:.0} to {:.0} | {:.1} | {what} |",
            paper / base,
            cost.value,
            cost.low,
            cost.high,
            ratio.value
        );
    }
    Ok((text, claims(&costs)))
}

/// Half a unit of the last digit of Table 1, µs.
const HALF: f64 = 0.05;

fn claims(costs: &Costs) -> Vec<Claim> {
    let runs = format!("{} rounds, median 95 %", costs.0[0].len());
    let mut claims = Vec::new();
    for (at, (_, name, paper, _)) in TABLE.into_iter().enumerate() {
        let cost = costs.cost(at);
        let test = Test::new(
            format!("Router, Table 1, live: cost of {name}"),
            format!("{paper} µs at 450 MHz"),
            "none: another CPU",
            Allowed::Unstated,
        );
        let ours = format!("{:.3} µs", cost.value / 1e3);
        let effect = deviation(cost, paper * 1e3, &runs);
        claims.push(test.by(Evidence::Measured, ours, cost, effect));
    }
    let base = TABLE[0].2;
    for (at, (_, name, paper, _)) in TABLE.into_iter().enumerate().skip(1) {
        let (low, high) = ((paper - HALF) / (base + HALF), (paper + HALF) / (base - HALF));
        let ratio = costs.ratio(at, 0);
        let test = Test::new(
            format!("Router, Table 1, live: {name} relative to the fast path"),
            format!("{:.1}", paper / base),
            format!("{low:.1} to {high:.1}: both costs ± 0.05 µs"),
            Allowed::Between(low, high),
        );
        let effect = deviation(ratio, paper / base, &runs);
        claims.push(test.by(Evidence::Measured, format!("{:.1}", ratio.value), ratio, effect));
    }
    for at in 1..TABLE.len() {
        let (dearer, cheaper) = (TABLE[at].1, TABLE[at - 1].1);
        let ratio = costs.ratio(at, at - 1);
        let test = Test::new(
            format!("Router, Table 1, live: order of {cheaper} and {dearer}"),
            format!("{dearer} costs more"),
            "the ratio is above 1",
            Allowed::Above(1.0),
        );
        let effect = deviation(ratio, 1.0, &runs);
        claims.push(test.by(Evidence::Measured, format!("{:.2}", ratio.value), ratio, effect));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::{Costs, Function, Running, TABLE, claims, parse_ticks};
    use crate::claim::Verdict;
    use millstream_router::PathId;
    use std::path::Path;

    #[test]
    fn steal_time_is_the_eighth_number() {
        let text = "cpu  10 20 30 40 50 60 70 80 5 6\ncpu0 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse_ticks(text), Some((80, 360)));
        assert_eq!(parse_ticks("cpu  1 2 3\n"), None);
    }

    #[test]
    fn every_function_forwards_what_it_receives() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/router");
        for (function, ..) in TABLE {
            let mut running = Running::start(&examples, function).unwrap();
            // A busy machine may need many attempts.
            let tried = (0..200).map(|_| running.run(20_000_000).0);
            tried.take_while(|received| *received <= 500).for_each(drop);
            let counters = running.router.path(PathId(0));
            assert!(counters.received > 500, "{function:?}: {counters:?}");
            assert_eq!(counters.dropped_by_function, 0, "{function:?}");
            assert_eq!(counters.dropped_wrong_output, 0, "{function:?}");
            let proxy = running.router.machine().proxy_counters(PathId(0));
            let talks = matches!(function, Function::Transparent | Function::Classical);
            assert_eq!(proxy.map(|of| (of.connections, of.broken)), talks.then_some((16, 0)));
            if let Some(of) = proxy {
                assert!(of.to_server_bytes > 1_000 && of.to_client_bytes > 1_000, "{of:?}");
            }
        }
    }

    #[test]
    fn ratios_are_paired_and_absolute_costs_are_not_judged() {
        let rounds = |ns: f64| vec![ns, 2.0 * ns, 3.0 * ns, 4.0 * ns, 5.0 * ns, 6.0 * ns];
        let costs = Costs(vec![
            rounds(30.0),
            rounds(300.0),
            rounds(900.0),
            rounds(1_200.0),
            rounds(1_200.0),
        ]);
        let verdicts: Vec<_> = claims(&costs).iter().filter_map(|claim| claim.verdict()).collect();
        assert_eq!(verdicts[..5], [Verdict::CannotTell; 5]);
        // 10, 30, 40 and 40 times the fast path.
        let ratios = [Verdict::Reproduced, Verdict::Differs, Verdict::Reproduced, Verdict::Differs];
        assert_eq!(verdicts[5..9], ratios);
        let order =
            [Verdict::Reproduced, Verdict::Reproduced, Verdict::Reproduced, Verdict::Differs];
        assert_eq!(verdicts[9..], order);
    }
}
