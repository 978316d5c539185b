//! `millstream route FILE`: runs a live router. Also `check` of a router file.

use miette::{Diagnostic, Report as Diagnosis};
use millstream_report::human;
use millstream_router::live::{
    Clock, Control, Extensions, Filters, LiveRouter, PortError, Report, admitted, path_delays_ns,
    serve,
};
use millstream_scenario::{
    Answer, PathAction, PortKind, Reservation, RouterPath, RouterPort, RouterScenario,
    guarantees_shares, parse_duration_ns,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::arguments::{RouteArguments, RouteCommand};
use crate::calibrate::calibrate;
use crate::confine::system_calls::{self, Ports, Program};
use crate::failure::Failure;
use crate::outputs::refuse_collisions;
use crate::terminal::{print_text, text_table};
use crate::{confine, print};

/// The longest Ethernet frame without a VLAN tag and frame check sequence, bytes.
const ETHERNET_BYTES: u32 = 1_514;

/// A port's error with its help, as a diagnostic.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{error}")]
struct PortFailure {
    error: PortError,
    #[help]
    help: Option<String>,
}

pub(crate) fn failure(error: PortError) -> Failure {
    let help = error.help.clone();
    Failure::Run(Diagnosis::new(PortFailure { error, help }))
}

/// Reads a router file and validates the filters, modules and captures that it names.
fn load(file: &Path) -> Result<RouterScenario, Failure> {
    let scenario = RouterScenario::load(file)?;
    let checked = Filters::load(&scenario).map(drop);
    let checked = checked.and_then(|()| Extensions::load(&scenario).map(drop));
    checked.map_err(|error| {
        let help = error.help.clone();
        Failure::Input(Diagnosis::new(PortFailure { error, help }))
    })?;
    refuse_captures(file, &scenario)?;
    Ok(scenario)
}

/// Rejects output captures that are the same file as another capture.
fn refuse_captures(file: &Path, scenario: &RouterScenario) -> Result<(), Failure> {
    let captures = |port: &'_ RouterPort| match &port.kind {
        PortKind::Pcap(input, output) => (input.clone(), output.clone()),
        _ => (None, None),
    };
    let modules = scenario.paths.iter().filter_map(|path| path.extension.as_ref());
    let inputs: Vec<_> = std::iter::once(file.to_owned())
        .chain(scenario.ports.iter().filter_map(|port| captures(port).0))
        .chain(modules.map(|extension| extension.module.clone()))
        .collect();
    let mut outputs: Vec<(String, PathBuf)> = Vec::new();
    for (at, port) in scenario.ports.iter().enumerate() {
        // VLANs of a capture share its file.
        let shares = |other: &RouterPort| {
            other.kind == port.kind && other.vlan.is_some() && port.vlan.is_some()
        };
        if let Some(output) = captures(port).1
            && !scenario.ports[..at].iter().any(shares)
        {
            outputs.push((format!("`output` of port `{}`:", port.name), output));
        }
    }
    let named: Vec<_> =
        outputs.iter().map(|(name, path)| (name.as_str(), Some(path.as_path()))).collect();
    refuse_collisions(&named, &inputs)
}

/// Forwards packets until the duration ends, every capture has ended, or Ctrl-C.
pub(crate) fn route(arguments: &RouteArguments) -> Result<(), Failure> {
    if let Some(RouteCommand::Calibrate(arguments)) = &arguments.command {
        return calibrate(arguments);
    }
    // The parser requires a file if there is no subcommand.
    let Some(file) = &arguments.file else { return Ok(()) };
    let for_ns = match &arguments.time {
        None => None,
        Some(text) => Some(
            parse_duration_ns(text)
                .map_err(|error| Failure::Input(miette::miette!("--for: {error}")))?,
        ),
    };
    log_to_standard_error();
    let scenario = load(file)?;
    let control = Arc::new(Control::default());
    let mut router = LiveRouter::open(&scenario).map_err(failure)?;
    let is_interface = |port: &RouterPort| matches!(port.kind, PortKind::Interface(..));
    let may_reopen = scenario.ports.iter().any(is_interface);
    let status = scenario.status;
    let confine = move || confine::router(may_reopen, status);
    let confined = router.each_thread(confine).map_err(failure)?;
    let confined = confined.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    if let Some(lacking) = confined.into_iter().flatten().next() {
        log::warn!("{lacking}");
    }
    router.prepare().map_err(failure)?;
    handle_signals(&control, file)?;
    if let Some(address) = scenario.status {
        let address = serve(address, Arc::clone(&control)).map_err(|error| {
            Failure::Run(miette::miette!(
                help = "set another `status` in the file, or stop the program that listens there",
                "cannot serve counters at {address}: {error}"
            ))
        })?;
        log::info!(address:%; "serving counters");
    }
    if scenario.kernel_routes {
        router.follow_kernel(&control).map_err(|error| {
            Failure::Run(miette::miette!("cannot follow the kernel's routes: {error}"))
        })?;
    }
    match system_calls::limit(Program::Router(Ports::of(&scenario))) {
        Ok(()) => log::info!("system calls are limited"),
        Err(error) => log::warn!("system calls are not limited: {error}"),
    }
    log::info!(ports = scenario.ports.len(), paths = scenario.paths.len(); "ports are open");
    let report = router.run(for_ns, &control).map_err(failure)?;
    log::info!(unaccounted = report.unaccounted; "the router has stopped");
    if arguments.json {
        print(&(serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"))
    } else {
        print_text(&text(&report))
    }
}

/// Logs time, level, message and values. `RUST_LOG` sets the level; default `info`.
fn log_to_standard_error() {
    let mut builder =
        env_logger::Builder::from_env(env_logger::Env::new().default_filter_or("info"));
    // Tests call this twice; the second call has no effect.
    let _ = builder.format_target(false).try_init();
}

/// Handles signals: SIGINT and SIGTERM stop the router, SIGHUP reloads its file.
fn handle_signals(control: &Arc<Control>, file: &Path) -> Result<(), Failure> {
    let watch =
        |error: std::io::Error| Failure::Run(miette::miette!("cannot watch signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(watch)?;
    let (control, file) = (Arc::clone(control), file.to_owned());
    let handle = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                control.stop();
                continue;
            }
            match RouterScenario::load(&file) {
                Ok(scenario) => {
                    if let Err(error) = control.reload(scenario) {
                        log::error!("the reload was rejected: {error}");
                    }
                }
                Err(error) => {
                    let problems = Diagnosis::new(error);
                    log::error!("the reload was rejected: {problems:?}");
                }
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(handle).map_err(watch)?;
    Ok(())
}

/// Formats the delays of all paths as a table; empty if no packet was sent.
fn delays(report: &Report) -> String {
    let header = [
        "path",
        "p50 delay",
        "p99 delay",
        "p99.9 delay",
        "longest",
        "link bound",
        "delay bound",
        "p50 TCP RTT",
    ];
    let rows = report.paths.iter().filter_map(|path| {
        let delay = path.delay.as_ref()?;
        let times = [delay.p50_ns, delay.p99_ns, delay.p999_ns, delay.longest_ns];
        let bounds = [path.link_delay_bound_ns, path.delay_bound_ns];
        let bounds = bounds.map(|ns| ns.map_or("–".to_owned(), human::time));
        let rtt = path.tcp_rtt.as_ref().map_or("–".to_owned(), |rtt| human::time(rtt.p50_ns));
        let cells = times.map(human::time).into_iter().chain(bounds).chain([rtt]);
        Some([path.name.clone()].into_iter().chain(cells).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() { String::new() } else { text_table(&header, rows) }
}

/// Formats a report as tables.
pub(crate) fn text(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.router, human::time(report.elapsed_ns));
    let header = [
        "path",
        "received",
        "sent",
        "sent at",
        "action",
        "queue full",
        "function",
        "other port",
        "late",
        "aqm",
        "longest flow",
        "reload",
        "queued",
    ];
    let rate = |bytes: u64| {
        let bits = u128::from(bytes) * 8_000_000_000 / u128::from(report.elapsed_ns.max(1));
        human::rate(u64::try_from(bits).unwrap_or(u64::MAX))
    };
    let paths = report.paths.iter().map(|path| {
        let counts = [
            path.dropped_by_action,
            path.dropped_full,
            path.dropped_by_function,
            path.dropped_wrong_output,
            path.dropped_late,
            path.dropped_by_aqm,
            path.dropped_from_longest,
            path.dropped_by_reload,
            path.queued,
        ];
        let sent = [path.received.to_string(), path.sent.to_string(), rate(path.sent_bytes)];
        [path.name.clone()].into_iter().chain(sent).chain(counts.map(|n| n.to_string())).collect()
    });
    text += &text_table(&header, paths);
    text += &delays(report);
    text += &extensions(report);
    text += &proxies(report);
    let header = [
        "port",
        "received",
        "unclassified",
        "unsupported",
        "unknown VLAN",
        "own",
        "lost by device",
        "transmitted",
        "originated",
    ];
    let ports = report.ports.iter().map(|port| {
        let counts = [
            port.received,
            port.unclassified,
            port.unsupported,
            port.unknown_vlan,
            port.for_router,
            port.lost_by_device,
            port.transmitted,
            port.originated,
        ];
        [port.name.clone()].into_iter().chain(counts.map(|n| n.to_string())).collect()
    });
    text += &text_table(&header, ports);
    text += &translations(report);
    let several = report.processes.iter().any(|process| process.core > 0);
    let mut header = vec!["process", "reserved (Mcps)", "used (Mcps)", "runs", "packets a run"];
    header.extend(several.then_some("core"));
    let processes = report.processes.iter().map(|process| {
        let mega = |cycles: u64| (cycles / 1_000_000).to_string();
        let tenths = process.packets * 10 / process.runs.max(1);
        let mut row = vec![
            process.name.clone(),
            mega(process.reserved_cycles),
            mega(process.used_cycles),
            process.runs.to_string(),
            format!("{}.{}", tenths / 10, tenths % 10),
        ];
        row.extend(several.then(|| process.core.to_string()));
        row
    });
    text += &text_table(&header, processes);
    let _ = writeln!(text, "unaccounted for: {}", report.unaccounted);
    text
}

/// Returns the table of extensions; empty without extensions.
fn extensions(report: &Report) -> String {
    let header = [
        "extension of",
        "called",
        "dropped",
        "out of fuel",
        "over memory",
        "trapped",
        "bad length",
        "while stopped",
        "state",
    ];
    let rows = report.paths.iter().filter_map(|path| {
        let of = path.extension?;
        let counts = [
            of.called,
            of.dropped,
            of.out_of_fuel,
            of.over_memory,
            of.trapped,
            of.bad_length,
            of.while_stopped,
        ];
        let state = if of.stopped { "stopped" } else { "runs" };
        let counts = counts.map(|count| count.to_string());
        Some([path.name.clone()].into_iter().chain(counts).chain([state.to_owned()]).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() { String::new() } else { text_table(&header, rows) }
}

/// Returns the table of proxies; empty without proxies.
fn proxies(report: &Report) -> String {
    let header = [
        "proxy of",
        "consumed",
        "generated",
        "connections",
        "opened",
        "refused: full",
        "refused: host",
        "unreachable",
        "broken",
        "no connection",
        "to server (bytes)",
        "to client (bytes)",
    ];
    let rows = report.paths.iter().filter_map(|path| {
        let of = path.proxy?;
        let counts = [
            path.consumed,
            path.made,
            of.connections,
            of.opened,
            of.refused_full,
            of.refused_host,
            of.unreachable,
            of.broken,
            of.no_connection,
            of.to_server_bytes,
            of.to_client_bytes,
        ];
        Some([path.name.clone()].into_iter().chain(counts.map(|n| n.to_string())).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() { String::new() } else { text_table(&header, rows) }
}

/// Returns the table of NAT ports; empty without NAT.
fn translations(report: &Report) -> String {
    let header = [
        "nat of",
        "flows",
        "begun",
        "begun outside",
        "evicted",
        "outbound",
        "inbound",
        "refused: full",
        "refused: kind",
        "refused: source",
    ];
    let rows = report.ports.iter().filter_map(|port| {
        let of = port.nat?;
        let counts = [
            of.flows,
            of.opened,
            of.forwarded,
            of.evicted,
            of.outbound,
            of.inbound,
            of.refused_full,
            of.refused_kind,
            of.refused_source,
        ];
        Some([port.name.clone()].into_iter().chain(counts.map(|n| n.to_string())).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() { String::new() } else { text_table(&header, rows) }
}

/// Validates a router file and prints its description.
///
/// Reservations are checked against this machine's CPU: one that does not fit is infeasible.
pub(crate) fn check(file: &Path, json: bool) -> Result<Answer, Failure> {
    let scenario = load(file)?;
    let frequency = Clock::default().cycles_per_second();
    let admitted = admitted(&scenario, frequency);
    let verdicts: Vec<_> =
        scenario.paths.iter().map(|path| path_verdict(&scenario, path, admitted.is_ok())).collect();
    let answer = if admitted.is_err() {
        Answer::Infeasible
    } else if verdicts.iter().flatten().any(|(answer, _)| *answer == Answer::NotKnown) {
        Answer::NotKnown
    } else {
        Answer::Guaranteed
    };
    let longest_bytes = vec![ETHERNET_BYTES; scenario.ports.len()];
    let link_delays = scenario.link_delays_ns(&longest_bytes);
    let delays = path_delays_ns(&scenario, frequency, &longest_bytes);
    let delay = |path: usize| match &delays {
        Ok(delays) => delays[path].as_ref(),
        Err(why) => Err(why),
    };
    let cpu = match &admitted {
        Ok(_) => "the reservations fit this processor".to_owned(),
        Err(error) => format!("infeasible: {error}"),
    };
    if json {
        let paths: Vec<_> = scenario
            .paths
            .iter()
            .zip(&verdicts)
            .zip(&link_delays)
            .enumerate()
            .map(|(at, ((path, verdict), link_delay))| {
                let drops = path.action == PathAction::Drop;
                serde_json::json!({ "name": path.name, "drops": drops,
                    "queue": (!drops).then_some(path.queue),
                    "reservation": path.reservation.map(reservation),
                    "verdict": verdict.as_ref().map(|(answer, _)| answer),
                    "because": verdict.as_ref().map(|(_, because)| because),
                    "link_delay_bound_ns": link_delay.as_ref().ok(),
                    "no_link_delay_bound": link_delay.as_ref().err(),
                    "delay_bound_ns": delay(at).ok(),
                    "no_delay_bound": delay(at).err() })
            })
            .collect();
        let ports: Vec<_> = scenario
            .ports
            .iter()
            .map(|port| {
                serde_json::json!({ "name": port.name, "rate_bps": port.link.rate_bps,
                    "discipline": port.discipline.name })
            })
            .collect();
        let value = serde_json::json!({ "router": scenario.name, "ports": ports, "paths": paths,
            "routes": scenario.routes.len(), "verdict": answer, "processor": cpu });
        print(&(serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"))?;
        return Ok(answer);
    }
    let mut text = format!(
        "{}: {}, {}, {}; batches of {} or {}\n",
        scenario.name,
        human::count(scenario.ports.len() as u64, "port"),
        human::count(scenario.paths.len() as u64, "path"),
        human::count(scenario.routes.len() as u64, "route"),
        human::count(scenario.batch as u64, "packet"),
        human::time(scenario.slice_ns)
    );
    let ports = scenario.ports.iter().map(|port| {
        let kind = match &port.kind {
            PortKind::Interface(name, _) => format!("interface {name}"),
            PortKind::Tap(name) => format!("TAP device {name}"),
            PortKind::Tun(name) => format!("TUN device {name}"),
            PortKind::Pcap(..) => "captures".to_owned(),
            PortKind::Ingress(of) => format!("ingress of {}", scenario.ports[*of].name),
        };
        vec![
            port.name.clone(),
            kind,
            human::rate(port.link.rate_bps),
            port.discipline.name.to_owned(),
        ]
    });
    text += &text_table(&["port", "kind", "rate", "discipline"], ports);
    let none = || "–".to_owned();
    let paths = scenario.paths.iter().zip(&verdicts).zip(&link_delays).enumerate();
    let paths = paths.map(|(at, ((path, verdict), link_delay))| {
        let mut row = vec![path.name.clone(), none(), "dropped".to_owned()];
        if path.action == PathAction::Drop {
            row.resize(7, none());
            return row;
        }
        let [link_delay, delay] = [link_delay.as_ref(), delay(at)]
            .map(|bound| bound.map_or_else(|_| none(), |ns| human::time(*ns)));
        let to = path.to.map_or("any", |to| scenario.ports[to].name.as_str());
        let reserved = path.reservation.map_or("best effort".to_owned(), reservation);
        let verdict = verdict.as_ref().map_or_else(none, |(answer, _)| answer.name().to_owned());
        let queue = path.queue.to_string();
        vec![path.name.clone(), queue, to.to_owned(), reserved, verdict, link_delay, delay]
    });
    let header = [
        "path",
        "queue (packets)",
        "output port",
        "processor",
        "verdict",
        "link delay, at most",
        "delay, at most",
    ];
    text += &text_table(&header, paths);
    let _ = writeln!(text, "processor: {cpu}");
    for (path, verdict) in scenario.paths.iter().zip(&verdicts) {
        if let Some((answer, because)) = verdict {
            let _ = writeln!(text, "{} for `{}`: {because}", answer.name(), path.name);
        }
    }
    let forwarded = scenario.paths.iter().zip(&link_delays).enumerate();
    for (at, (path, link_delay)) in
        forwarded.filter(|(_, (path, _))| path.action != PathAction::Drop)
    {
        if let Err(why) = link_delay {
            let _ = writeln!(text, "link delay of `{}` not known: {why}", path.name);
        } else if let (Ok(_), Err(why)) = (&delays, delay(at)) {
            let _ = writeln!(text, "delay of `{}` not known: {why}", path.name);
        }
    }
    if let Err(why) = &delays
        && link_delays.iter().any(Result::is_ok)
    {
        let _ = writeln!(text, "delay with waits for the processor not known: {why}");
    }
    if link_delays.iter().any(Result::is_ok) {
        let _ = writeln!(
            text,
            "link delay: of packets of at most {ETHERNET_BYTES} bytes within `max-rate` and `burst`"
        );
    }
    print_text(&text)?;
    Ok(answer)
}

/// Returns the verdict on the reservation of `path`; `None` for best effort and for drop paths.
fn path_verdict(
    scenario: &RouterScenario,
    path: &RouterPath,
    admitted: bool,
) -> Option<(Answer, String)> {
    if path.action == PathAction::Drop || path.reservation.is_none() {
        return None;
    }
    if !admitted {
        return Some((Answer::Infeasible, "more is reserved than the processor has".into()));
    }
    let leaves = |at: &usize| path.to.is_none_or(|to| to == *at);
    let shares = |at: &usize| guarantees_shares(scenario.ports[*at].discipline.name);
    let (shared, others): (Vec<_>, Vec<_>) =
        (0..scenario.ports.len()).filter(leaves).partition(shares);
    let obstacle = |at: &usize| scenario.deadline_obstacle(*at, ETHERNET_BYTES);
    if let Some(why) = others.iter().find_map(obstacle) {
        return Some((Answer::NotKnown, why));
    }
    let of_link = match (shared.is_empty(), others.is_empty()) {
        (_, true) => "its share of the link".to_owned(),
        (true, _) => {
            format!("the deadlines of packets of at most {ETHERNET_BYTES} bytes at the link")
        }
        _ => "its share or the deadlines of each link".to_owned(),
    };
    Some((
        Answer::Guaranteed,
        format!(
            "WF²Q+ guarantees its cycles, and its port {of_link}, if the file's costs are right"
        ),
    ))
}

fn reservation(reservation: Reservation) -> String {
    match reservation {
        Reservation::Cycles(cycles) => format!("{} kcps", cycles / 1_000),
        Reservation::Packets { pps, cost_ns } => {
            format!("{} of {}", human::packet_rate(pps), human::time(cost_ns))
        }
    }
}
