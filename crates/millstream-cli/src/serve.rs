//! `millstream serve FILE`: a scenario's streams to players.

use miette::miette;
use millstream_media::{
    Account, Course, MediaError, MediaServer, Report, network_interface_processor,
};
use millstream_report::{human, text_table};
use millstream_scenario::{Scenario, parse_duration_ns};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::arguments::ServeArguments;
use crate::failure::Failure;
use crate::interrupt::watch_endings;
use crate::print;

fn report(error: MediaError) -> miette::Report {
    match error.help {
        Some(help) => miette!(help = help, "{}", error.message),
        None => miette!("{}", error.message),
    }
}

/// Serves until the time is over, Ctrl-C, or a request to terminate and the drain after it; then says what became of all frames.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let time = match &arguments.time {
        None => None,
        Some(text) => Some(
            parse_duration_ns(text).map_err(|error| Failure::Input(miette!("--for: {error}")))?,
        ),
    };
    let scenario = Scenario::load(&arguments.file)?;
    let endings = watch_endings()?;
    let server = MediaServer::open(&scenario).map_err(|error| Failure::Input(report(error)))?;
    let address = server.rtsp_address();
    for stream in server.streams() {
        eprintln!("rtsp://{address}/{stream}");
    }
    if let Some(address) = server.http_address() {
        eprintln!("http://{address}/admission, http://{address}/metrics");
    }
    if let Some(id) = server.processor_id() {
        eprintln!("network interface processor: process {id}");
    }
    if let Some(clients) = server.adopted() {
        eprintln!("taken over from a server before: {clients} clients");
    }
    let started = Instant::now();
    let over = || time.is_some_and(|time| started.elapsed() >= Duration::from_nanos(time));
    let served = server
        .run(&mut || {
            if over() || endings.interrupted.load(Ordering::Relaxed) {
                Course::End
            } else if endings.terminated.load(Ordering::Relaxed) {
                Course::Drain
            } else {
                Course::Serve
            }
        })
        .map_err(|error| Failure::Run(report(error)))?;
    if arguments.json {
        print(&(serde_json::to_string_pretty(&json(&served)).unwrap_or_default() + "\n"))
    } else {
        print(&text(&served))
    }
}

/// What `serve` starts for `placement = "ni"`.
pub(crate) fn processor() -> Result<(), Failure> {
    network_interface_processor().map_err(|error| Failure::Run(miette!("{error}")))
}

fn json(report: &Report) -> serde_json::Value {
    let Account { released, sent, late, full, discarded, lost, violations, slow, packets } =
        report.account;
    serde_json::json!({
        "admitted": report.admitted, "refused": report.refused,
        "turned_away": report.turned_away, "cut_off": report.cut_off, "processors": report.processors,
        "decisions": report.decisions, "scheduling_ns": report.scheduling_ns,
        "sending_ns": report.sending_ns,
        "frames": {
            "released": released, "sent": sent, "dropped_late": late, "dropped_full": full,
            "discarded": discarded, "lost": lost, "violations": violations, "slow_client": slow,
            "unaccounted": report.account.waiting(),
        },
        "packets": packets,
    })
}

fn text(report: &Report) -> String {
    let account = &report.account;
    let mut text = format!("{} clients admitted, {} refused\n", report.admitted, report.refused);
    if report.turned_away + report.cut_off > 0 {
        let _ = writeln!(
            text,
            "while draining: {} turned away, {} cut off at the end",
            report.turned_away, report.cut_off
        );
    }
    let rows = ["I", "P", "B"].iter().enumerate().map(|(kind, name)| {
        let counts = [account.sent[kind], account.late[kind], account.full[kind]];
        [(*name).to_owned()].into_iter().chain(counts.map(|n| n.to_string())).collect()
    });
    text += &text_table(&["frames", "sent", "dropped late", "queue full"], rows);
    let _ = writeln!(
        text,
        "of {} released: {} discarded with their clients, {} lost with a processor, {} unaccounted \
         for\nlost beyond the contracts: {}; too much for slow clients: {}",
        account.released,
        account.discarded,
        account.lost,
        account.waiting(),
        account.violations,
        account.slow
    );
    if let Some(each) = report.scheduling_ns.checked_div(account.sent.iter().sum()) {
        let _ = writeln!(text, "scheduling and dispatch: {} a frame sent", human::time(each));
    }
    text
}
