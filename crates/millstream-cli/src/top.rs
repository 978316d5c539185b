//! `millstream top`: a live view of a running router, media server or attached qdisc.

mod media;
#[cfg(feature = "attach")]
mod qdisc;

use console::Term;
use miette::miette;
use millstream_media::Status;
use millstream_report::human;
use millstream_router::live::{PathReport, RecentDelay, Report};
use millstream_scenario::parse_duration_ns;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use crate::arguments::{TopArguments, TopTarget};
use crate::failure::Failure;
use crate::print;
use crate::terminal::{print_text, text_table};

/// The timeout of a connection and of its answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum length of an answer, bytes.
const ANSWER_BYTES: u64 = 16 << 20;

/// A status snapshot.
enum StatusSnapshot {
    Router(Box<Report>),
    Media(Box<Status>),
    #[cfg(feature = "attach")]
    Qdisc(Box<qdisc::Snapshot>),
}

/// Prints the changes between updates until the program ends.
pub(crate) fn top(arguments: &TopArguments) -> Result<(), Failure> {
    let interval = parse_duration_ns(&arguments.interval)
        .map_err(|error| Failure::Input(miette!("--interval: {error}")))?;
    let terminal = Term::stdout();
    let mut before = take_snapshot(&arguments.target)?;
    let mut updates = 0;
    while arguments.count.is_none_or(|most| updates < most) {
        thread::sleep(Duration::from_nanos(interval));
        let Ok(now) = take_snapshot(&arguments.target) else {
            match &arguments.target {
                TopTarget::Address(address) => eprintln!("{address} no longer answers"),
                TopTarget::Interface(name) => eprintln!("{name} no longer has the qdisc"),
            }
            break;
        };
        if arguments.json {
            print(&(now.1.clone() + "\n"))?;
        } else {
            if terminal.is_term() {
                let _ = terminal.clear_screen();
            }
            print_text(&match (&before.0, &now.0) {
                (StatusSnapshot::Router(before), StatusSnapshot::Router(now)) => {
                    difference(before, now)
                }
                (StatusSnapshot::Media(before), StatusSnapshot::Media(now)) => {
                    media::difference(before, now)
                }
                #[cfg(feature = "attach")]
                (StatusSnapshot::Qdisc(before), StatusSnapshot::Qdisc(now)) => {
                    qdisc::difference(before, now)
                }
                // Another program now answers at this address.
                _ => String::new(),
            })?;
        }
        before = now;
        updates += 1;
    }
    Ok(())
}

/// Returns the status of the target, parsed and as JSON.
fn take_snapshot(target: &TopTarget) -> Result<(StatusSnapshot, String), Failure> {
    match target {
        TopTarget::Address(address) => fetch_status(*address),
        #[cfg(feature = "attach")]
        TopTarget::Interface(name) => {
            let snapshot = qdisc::Snapshot::take(name)?;
            let json = snapshot.json();
            Ok((StatusSnapshot::Qdisc(Box::new(snapshot)), json))
        }
        #[cfg(not(feature = "attach"))]
        TopTarget::Interface(_) => Err(crate::without_qdisc()),
    }
}

/// Fetches the status at `address`, parsed and as JSON.
fn fetch_status(address: SocketAddr) -> Result<(StatusSnapshot, String), Failure> {
    let failed = |error: String| {
        let help = "set `status` in the router file or `http` in the media server file, and give \
         this command that address";
        Failure::Run(miette!(
            help = help,
            "no router or media server answers at {address}: {error}"
        ))
    };
    let body = get(address).map_err(|error| failed(error.to_string()))?;
    let parse = || -> serde_json::Result<StatusSnapshot> {
        let value: serde_json::Value = serde_json::from_str(&body)?;
        if let Some(interface) = value.get("interface").and_then(serde_json::Value::as_str) {
            let message =
                format!("a qdisc's counters are served there; use `millstream top {interface}`");
            return Err(serde::de::Error::custom(message));
        }
        Ok(if value.get("server").is_some() {
            StatusSnapshot::Media(Box::new(serde_json::from_value(value)?))
        } else {
            StatusSnapshot::Router(Box::new(serde_json::from_value(value)?))
        })
    };
    let snapshot = parse().map_err(|error| failed(error.to_string()))?;
    Ok((snapshot, body))
}

/// Fetches the body of `/status`.
fn get(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES).read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    if !head.starts_with("HTTP/1.1 200 ") {
        let line = head.lines().next().unwrap_or("an empty response");
        return Err(io::Error::other(line.to_owned()));
    }
    Ok(body.to_owned())
}

/// Returns the rate of `count` in `elapsed_ns`, per second.
fn per_second(count: u64, elapsed_ns: u64) -> u64 {
    let rate = u128::from(count) * 1_000_000_000 / u128::from(elapsed_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Formats `part` of `whole` in percent, rounded down so that only the whole is shown as 100 %.
fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// The counters of a path of a router, or of a stream of a qdisc, and its recent delays.
struct Row<'a> {
    name: &'a str,
    received: u64,
    sent: u64,
    sent_bytes: u64,
    dropped: u64,
    queued: u64,
    delay: Option<RecentDelay>,
    link_delay_bound_ns: Option<u64>,
    delay_bound_ns: Option<u64>,
    tcp_rtt_ns: Option<u64>,
}

impl<'a> Row<'a> {
    fn of(path: &'a PathReport) -> Self {
        Self {
            name: &path.name,
            received: path.received,
            sent: path.sent,
            sent_bytes: path.sent_bytes,
            dropped: path.dropped(),
            queued: path.queued,
            delay: path.recent_delay,
            link_delay_bound_ns: path.link_delay_bound_ns,
            delay_bound_ns: path.delay_bound_ns,
            tcp_rtt_ns: path.tcp_rtt.as_ref().map(|rtt| rtt.p50_ns),
        }
    }
}

/// Formats the changes of rows as a table; the first word of the header is `what` they are.
fn row_table(what: &str, before: &[Row<'_>], now: &[Row<'_>], elapsed_ns: u64) -> String {
    let time = |ns: Option<u64>| ns.map_or("–".to_owned(), human::time);
    let rows = now.iter().map(|row| {
        let old = before.iter().find(|old| old.name == row.name);
        let since = |of: fn(&Row<'_>) -> u64| {
            per_second(of(row).saturating_sub(old.map_or(0, of)), elapsed_ns)
        };
        vec![
            row.name.to_owned(),
            since(|row| row.received).to_string(),
            since(|row| row.sent).to_string(),
            human::rate(since(|row| row.sent_bytes).saturating_mul(8)),
            since(|row| row.dropped).to_string(),
            row.queued.to_string(),
            time(row.delay.map(|delay| delay.p50_ns)),
            time(row.delay.map(|delay| delay.p99_ns)),
            time(row.delay.map(|delay| delay.longest_ns)),
            time(row.link_delay_bound_ns),
            time(row.delay_bound_ns),
            time(row.tcp_rtt_ns),
        ]
    });
    let header = [
        what,
        "received/s",
        "sent/s",
        "sent at",
        "dropped/s",
        "queued",
        "p50 delay",
        "p99 delay",
        "longest",
        "link bound",
        "delay bound",
        "p50 TCP RTT",
    ];
    text_table(&header, rows)
}

/// Formats a router's changes between two updates.
fn difference(before: &Report, now: &Report) -> String {
    let elapsed_ns = now.elapsed_ns.saturating_sub(before.elapsed_ns).max(1);
    let per_second = |count: u64| per_second(count, elapsed_ns);
    let mut text = format!("{}: {}\n", now.router, human::time(now.elapsed_ns));
    let old: Vec<_> = before.paths.iter().map(Row::of).collect();
    let new: Vec<_> = now.paths.iter().map(Row::of).collect();
    text += &row_table("path", &old, &new, elapsed_ns);
    let ports = now.ports.iter().map(|port| {
        let old = before.ports.iter().find(|old| old.name == port.name);
        let since = |now: u64, old: Option<u64>| per_second(now.saturating_sub(old.unwrap_or(0)));
        vec![
            port.name.clone(),
            since(port.received, old.map(|old| old.received)).to_string(),
            since(port.transmitted, old.map(|old| old.transmitted)).to_string(),
            port.lost_by_device.to_string(),
            human::rate(port.rate_bps),
        ]
    });
    let header = ["port", "received/s", "transmitted/s", "lost by device", "rate"];
    text += &text_table(&header, ports);
    let total: u64 = now.processes.iter().map(|process| process.reserved_cycles).sum();
    let processes = now.processes.iter().map(|process| {
        let old = before.processes.iter().find(|old| old.name == process.name);
        let since = |now: u64, old: Option<u64>| now.saturating_sub(old.unwrap_or(0));
        let runs = since(process.runs, old.map(|old| old.runs));
        let tenths = since(process.packets, old.map(|old| old.packets)) * 10 / runs.max(1);
        vec![
            process.name.clone(),
            percent(process.reserved_cycles, total),
            percent(since(process.busy_ns, old.map(|old| old.busy_ns)), elapsed_ns),
            per_second(runs).to_string(),
            format!("{}.{}", tenths / 10, tenths % 10),
        ]
    });
    let header = ["process", "reserved", "used", "runs/s", "packets a run"];
    text += &text_table(&header, processes);
    text
}
