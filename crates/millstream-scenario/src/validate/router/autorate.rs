//! Validation of rates that adapt.

use toml::Spanned;

use crate::error::Problem;
use crate::file::router::{AutorateTable, PortTable, RouterFile};
use crate::router::{PortAutorate, RouterPath, RouterPort};

/// The default of `delay`, ns.
const DELAY_NS: u64 = 30_000_000;
/// The allowed values of `delay`, ns.
const DELAYS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;

/// Validates the limits of the rate of a port.
pub(super) fn autorate(
    given: &Spanned<AutorateTable>,
    port: &PortTable,
    problems: &mut Vec<Problem>,
) -> PortAutorate {
    let table = given.get_ref();
    let (min_bps, max_bps, rate_bps) = (table.min.0, table.max.0, port.rate.0);
    if !(min_bps..=max_bps).contains(&rate_bps) {
        let message = format!("a `rate` of {rate_bps} bit/s outside `autorate`");
        let help = format!("from `min`, {min_bps} bit/s, to `max`, {max_bps} bit/s");
        problems.push(Problem::new(given.span(), message).help(help));
    }
    let delay_ns = table.delay.map_or(DELAY_NS, |delay| delay.0);
    if !DELAYS.contains(&delay_ns) {
        let message = format!("`delay` of {delay_ns} ns");
        problems.push(Problem::new(given.span(), message).help("from \"1 ms\" to \"1 s\""));
    }
    PortAutorate { min_bps, max_bps, delay_ns }
}

/// Refuses rate caps beside `autorate` under a discipline with a clock of the link's rate. That
/// clock stops while the link is slower than `max`; caps need real time.
pub(super) fn check(
    file: &RouterFile,
    ports: &[Option<RouterPort>],
    paths: &[Option<RouterPath>],
    problems: &mut Vec<Problem>,
) {
    let capped = |path: &&RouterPath| path.contract.is_limited();
    let Some(path) = paths.iter().flatten().find(capped) else { return };
    for (table, port) in file.port.iter().zip(ports) {
        let (Some(given), Some(port)) = (&table.get_ref().autorate, port) else { continue };
        let discipline = port.discipline.name;
        if CLOCKED.contains(&discipline) {
            let message = format!(
                "`autorate` under {discipline} beside the `max-rate` of path `{}`",
                path.name
            );
            let help = "give the port the discipline \"drr\" or \"scfq\", or take `max-rate` out";
            problems.push(Problem::new(given.span(), message).help(help));
        }
    }
}

/// The disciplines with a clock of the link's rate.
const CLOCKED: [&str; 4] = ["wfq", "wf2q", "wf2q+", "virtual-clock"];

#[cfg(test)]
mod tests {
    use crate::RouterScenario;
    use std::path::Path;

    fn parse(port: &str, path: &str) -> Result<RouterScenario, String> {
        let text = format!(
            "[router]\n[[port]]\nname = \"wan\"\nkind = \"tap\"\nrate = \"20 Mbit/s\"\n{port}\n\
             [[path]]\nname = \"all\"\n{path}\n\
             [[route]]\nprefix = \"0.0.0.0/0\"\nport = \"wan\"\nneighbour = \"02:00:00:00:02:01\"\n"
        );
        RouterScenario::parse("r.toml", &text, Path::new("")).map_err(|error| {
            let problems = error.problems.iter();
            problems.map(|of| format!("{of} {}", of.help.clone().unwrap_or_default())).collect()
        })
    }

    #[test]
    fn the_limits_are_those_of_the_file_and_links_of_both_ends() {
        let autorate = "autorate = { min = \"5 Mbit/s\", max = \"50 Mbit/s\" }";
        let file = parse(autorate, "weight = 3").unwrap();
        let port = &file.ports[0];
        assert_eq!(port.autorate.unwrap().delay_ns, 30_000_000);
        let rates = [port.slowest_link(), port.link, port.fastest_link()];
        assert_eq!(rates.map(|link| link.rate_bps), [5_000_000, 20_000_000, 50_000_000]);
    }

    #[test]
    fn a_clock_of_the_link_has_no_caps_beside_it() {
        let autorate = "autorate = { min = \"5 Mbit/s\", max = \"50 Mbit/s\" }";
        let capped = "max-rate = \"1 Mbit/s\"";
        let message = parse(autorate, capped).unwrap_err();
        assert!(
            message.contains("`autorate` under wf2q+") && message.contains("\"drr\""),
            "{message}"
        );
        for discipline in ["drr", "scfq", "static-priority"] {
            let port = format!("{autorate}\ndiscipline = \"{discipline}\"");
            assert!(parse(&port, capped).is_ok(), "{discipline}");
        }
        let message =
            parse("autorate = { min = \"21 Mbit/s\", max = \"50 Mbit/s\" }", "").unwrap_err();
        assert!(message.contains("from `min`, 21000000 bit/s"), "{message}");
    }
}
