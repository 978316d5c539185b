//! `millstream serve FILE`: serves a scenario's streams to players.

use miette::miette;
pub(crate) use millstream_media::TitleAdmission;
use millstream_media::{
    ClusterMoves, ConfinementHooks, FrameCounts, Ingested, MediaError, MediaServer, Report,
    ShutdownMode, admission_of, frame_producer, run_confined_data_plane, run_hooks,
};
use millstream_report::human;
use millstream_scenario::{Answer, Scenario, parse_duration_ns};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::arguments::ServeArguments;
use crate::confine;
use crate::failure::Failure;
use crate::interrupt::watch_shutdown_signals;
use crate::print;
use crate::terminal::{print_text, say, text_table};

fn report(error: MediaError) -> miette::Report {
    match error.help {
        Some(help) => miette!(help = help, "{}", error.message),
        None => miette!("{}", error.message),
    }
}

/// Serves until the duration ends, Ctrl-C, or the end of the drain after SIGTERM. Then prints the
/// frame counters.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let time = match &arguments.time {
        None => None,
        Some(text) => Some(
            parse_duration_ns(text).map_err(|error| Failure::Input(miette!("--for: {error}")))?,
        ),
    };
    let scenario = Scenario::load(&arguments.file)?;
    let signals = watch_shutdown_signals()?;
    let confinement = confine::Server::of(&scenario);
    let mut confined = Ok(None);
    let server = MediaServer::open_confined(&scenario, &mut || confined = confinement.begin())
        .map_err(|error| Failure::Input(report(error)))?;
    if let Some(lacking) = confined? {
        say(&format!("warning: {lacking}"));
    }
    let address = server.rtsp_address();
    for stream in server.streams() {
        say(&format!("rtsp://{address}/{stream}"));
    }
    if let Some(address) = server.rtsps_address() {
        for stream in server.streams() {
            say(&format!("rtsps://{address}/{stream}"));
        }
    }
    let scheme = if scenario.media.tls.is_some() { "https" } else { "http" };
    if let Some(address) = server.hls_address() {
        for stream in server.hls_streams() {
            say(&format!("{scheme}://{address}/{stream}/index.m3u8"));
        }
    }
    if let Some(address) = server.webrtc_address() {
        for stream in server.streams() {
            say(&format!("{scheme}://{address}/watch/{stream}"));
        }
    }
    if let Some(address) = server.rtmp_address() {
        eprintln!("rtmp://{address}/, for publishers of live streams");
    }
    for (stream, address) in server.transport_addresses() {
        say(&format!("udp://{address}, for the transport stream of `{stream}`"));
    }
    for (stream, srt) in server.srt_inputs() {
        let mode = if srt.is_caller { "called" } else { "listening" };
        say(&format!("srt://{}, {mode}, for the transport stream of `{stream}`", srt.address));
        if srt.passphrase.is_some() {
            say("local users can read its passphrase in the list of processes");
        }
    }
    if let Some(address) = server.http_address() {
        eprintln!("http://{address}/, with /status, /admission, /instructions and /metrics");
    }
    if let Some(id) = server.data_plane_id() {
        eprintln!("data plane: process {id}");
    }
    if let Some(id) = server.producer_id() {
        eprintln!("frame reader: process {id}");
    }
    if let Some(clients) = server.adopted() {
        eprintln!("{} taken over from the previous server", human::count(clients as u64, "client"));
    }
    if let Err(error) = confinement.limit() {
        eprintln!("warning: system calls are not limited: {error}");
    }
    let started = Instant::now();
    let over = || time.is_some_and(|time| started.elapsed() >= Duration::from_nanos(time));
    let served = server
        .run(&mut || {
            if over() || signals.interrupted.load(Ordering::Relaxed) {
                ShutdownMode::End
            } else if signals.terminated.load(Ordering::Relaxed) {
                ShutdownMode::Drain
            } else {
                ShutdownMode::Serve
            }
        })
        .map_err(|error| Failure::Run(report(error)))?;
    if arguments.json {
        print(&(serde_json::to_string_pretty(&json(&served)).unwrap_or_default() + "\n"))
    } else {
        print_text(&text(&served))
    }
}

/// Returns the admission of one client of each stream.
pub(crate) fn admission(scenario: &Scenario) -> Result<Vec<TitleAdmission>, Failure> {
    admission_of(scenario).map_err(|error| Failure::Input(report(error)))
}

/// Returns the worst of the streams' answers.
pub(crate) fn answer(admission: &[TitleAdmission]) -> Answer {
    let of = |title: &TitleAdmission| match (title.room, title.by_deadline) {
        (0, _) => Answer::Infeasible,
        (_, true) => Answer::Guaranteed,
        (_, false) => Answer::NotKnown,
    };
    let answers: Vec<_> = admission.iter().map(of).collect();
    let worst = [Answer::Infeasible, Answer::NotKnown].into_iter().find(|w| answers.contains(w));
    worst.unwrap_or(Answer::Guaranteed)
}

/// Formats the answer for the clients of each stream.
pub(crate) fn admission_text(admission: &[TitleAdmission]) -> String {
    let line = |title: &TitleAdmission| match &title.refused {
        Some(why) => format!("infeasible for clients of `{}`: {why}\n", title.name),
        None if title.by_deadline => format!(
            "guaranteed to clients of `{}`: their windows, for up to {} at once (non-preemptive \
             EDF, Jeffay, Stanat and Martel 1991)\n",
            title.name, title.room
        ),
        None => {
            let name = &title.name;
            format!(
                "not known for clients of `{name}`: the discipline does not order by deadline\n"
            )
        }
    };
    admission.iter().map(line).collect()
}

/// Runs the child process for `placement = "ni"`.
pub(crate) fn data_plane() -> Result<(), Failure> {
    let confined = ConfinementHooks {
        thread: confine::confine_child_thread,
        process: confine::confine_child_process,
    };
    run_confined_data_plane(confined).map_err(|error| Failure::Run(miette!("{error}")))
}

/// Runs the child process for `frame-path = "producer"`.
pub(crate) fn frame_reader() -> Result<(), Failure> {
    confine::confine_child_process();
    frame_producer().map_err(|error| Failure::Run(miette!("{error}")))
}

/// Runs the child process for hooks. It is not confined: it runs the commands of the file.
pub(crate) fn hooks() -> Result<(), Failure> {
    run_hooks().map_err(|error| Failure::Run(miette!("{error}")))
}

fn json(report: &Report) -> serde_json::Value {
    let FrameCounts {
        released,
        sent,
        late,
        full,
        filtered,
        unread,
        discarded,
        lost,
        violations,
        slow,
        packets,
    } = report.account;
    serde_json::json!({
        "admitted": report.admitted, "refused": report.refused,
        "turned_away": report.turned_away, "cut_off": report.cut_off,
        "processors": report.processors,
        "wrong_credentials": report.wrong_credentials,
        "too_many_connections": report.too_many[0], "too_many_sessions": report.too_many[1],
        "backed_off": report.backed_off, "no_connection": report.full, "evicted": report.evicted,
        "stalled": report.stalled,
        "decisions": report.decisions, "scheduling_ns": report.scheduling_ns,
        "sending_ns": report.sending_ns,
        "frames": {
            "released": released, "sent": sent, "dropped_late": late, "dropped_full": full,
            "filtered": filtered, "unread": unread, "discarded": discarded, "lost": lost,
            "violations": violations, "slow_client": slow,
            "unaccounted": report.account.waiting(),
        },
        "packets": packets,
        "ingested": report.ingested,
        "cluster": {
            "redirected": report.moves.redirected, "taken_in": report.moves.taken_in,
            "yielded": report.moves.yielded, "unplaced": report.moves.unplaced,
        },
    })
}

fn text(report: &Report) -> String {
    let account = &report.account;
    let mut text = format!(
        "{} admitted, {} refused\n",
        human::count(report.admitted, "client"),
        report.refused
    );
    if report.turned_away + report.cut_off > 0 {
        let _ = writeln!(
            text,
            "while draining: {} clients rejected, {} disconnected at the timeout",
            report.turned_away, report.cut_off
        );
    }
    if report.wrong_credentials > 0 {
        let _ = writeln!(
            text,
            "wrong passwords and tokens: {}; requests rejected during the back-off: {}",
            report.wrong_credentials, report.backed_off
        );
    }
    if report.full + report.evicted > 0 {
        let _ = writeln!(
            text,
            "connections: {} rejected at the limit, {} evicted without a request",
            report.full, report.evicted
        );
    }
    if report.stalled > 0 {
        let _ = writeln!(text, "connections closed because the client stalled: {}", report.stalled);
    }
    if let [connections, sessions] = report.too_many
        && connections + sessions > 0
    {
        let _ = writeln!(
            text,
            "rejected by the limits per address: {}, {}",
            human::count(connections, "connection"),
            human::count(sessions, "session")
        );
    }
    let ClusterMoves { redirected, taken_in, yielded, unplaced, .. } = report.moves;
    if redirected + taken_in + yielded + unplaced > 0 {
        let _ = writeln!(
            text,
            "cluster: {} redirected; sessions of dead servers: {taken_in} taken over, {unplaced} \
             not placed; {} yielded to their first server",
            human::count(redirected, "request"),
            human::count(yielded, "session")
        );
    }
    let rows = ["I", "P", "B"].iter().enumerate().map(|(kind, name)| {
        let counts = [account.sent[kind], account.late[kind], account.full[kind]];
        [(*name).to_owned()].into_iter().chain(counts.map(|n| n.to_string())).collect()
    });
    text += &text_table(&["frames", "sent", "dropped late", "queue full"], rows);
    let _ = writeln!(
        text,
        "of {} released: {} discarded with their clients, {} lost with a data plane, {} \
         unaccounted for\ncontract violations: {}; lost to slow clients: {}",
        account.released,
        account.discarded,
        account.lost,
        account.waiting(),
        account.violations,
        account.slow
    );
    let Ingested { publications, frames, released, incomplete, before_entry, beyond, .. } =
        report.ingested;
    if publications > 0 {
        let _ = writeln!(
            text,
            "{}: of {} {} released, {incomplete} incomplete, {before_entry} before an I-frame, \
             {beyond} above the allowed rate",
            human::count(publications, "publication"),
            human::count(frames, "frame"),
            released.iter().sum::<u64>()
        );
    }
    if account.filtered_frames() > 0 {
        let [i, p, b] = account.filtered;
        let _ = writeln!(text, "filtered by instructions: {i} I, {p} P, {b} B");
    }
    if account.unread.iter().sum::<u64>() > 0 {
        let [i, p, b] = account.unread;
        let _ = writeln!(text, "not read from their files in time: {i} I, {p} P, {b} B");
    }
    if let Some(each) = report.scheduling_ns.checked_div(account.sent.iter().sum()) {
        let _ = writeln!(text, "scheduling and dispatch: {} a frame sent", human::time(each));
    }
    text
}
