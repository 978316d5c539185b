//! `top` for a media server: changes since the previous update, in total and per client.

use millstream_media::{ClientStatus, FrameCounts, Status};
use millstream_report::human;
use std::fmt::Write as _;

use super::{per_second, percent};
use crate::terminal::text_table;

/// Formats a media server's changes between two updates.
pub(super) fn difference(before: &Status, now: &Status) -> String {
    let elapsed_ns = now.elapsed_ns.saturating_sub(before.elapsed_ns).max(1);
    let since = |now: u64, before: u64| now.saturating_sub(before);
    let mut text = format!("{}: {}", now.server, human::time(now.elapsed_ns));
    let draining = if now.draining { ", draining" } else { "" };
    let _ = writeln!(
        text,
        "; {}{draining}, {} admitted so far, {} refused; {} of the link reserved",
        human::count(now.clients.len() as u64, "client"),
        now.admitted,
        now.refused,
        percent(now.reserved_bps, now.link_bps)
    );
    let refusals = now.refusals.iter().filter(|refusal| refusal.count > 0);
    let refusals = refusals.map(|refusal| format!("{} {}", refusal.count, refusal.reason));
    let stalled = (now.stalled > 0).then(|| format!("{} closed as stalled", now.stalled));
    let all: Vec<String> = refusals.chain(stalled).collect();
    if !all.is_empty() {
        let _ = writeln!(text, "refused: {}", all.join(", "));
    }
    let machine = percent(
        since(now.cpu.machine_busy_ticks, before.cpu.machine_busy_ticks),
        since(now.cpu.machine_ticks, before.cpu.machine_ticks),
    );
    let host = percent(since(now.cpu.host_ns, before.cpu.host_ns), elapsed_ns);
    let _ = write!(text, "processors: machine {machine}, host process {host} of a core");
    if let (Some(ni), Some(old)) = (now.cpu.ni_ns, before.cpu.ni_ns) {
        let _ = write!(text, ", NI process {} of a core", percent(since(ni, old), elapsed_ns));
    }
    let decisions = per_second(since(now.decisions, before.decisions), elapsed_ns);
    let _ = writeln!(text, "; {decisions} decisions/s");
    for one in &now.instructions {
        let why = if one.why.is_empty() { String::new() } else { format!(" ({})", one.why) };
        let faults = one.out_of_fuel + one.over_memory + one.trapped + one.bad_answer;
        let _ = writeln!(
            text,
            "instruction {}: {}{why}; {} frames, {} dropped, {} made optional; {} calls; {faults} \
             failures",
            one.name, one.state, one.frames, one.dropped, one.loosened, one.calls
        );
    }
    let old = |client: &ClientStatus| {
        let is =
            |old: &&ClientStatus| (old.client, old.since_ns) == (client.client, client.since_ns);
        before.clients.iter().find(is)
    };
    let rate = |client: &ClientStatus| {
        let sent = since(client.sent_bytes, old(client).map_or(0, |old| old.sent_bytes));
        per_second(sent, elapsed_ns).saturating_mul(8)
    };
    let sent = |client: &ClientStatus| {
        let before = old(client).map_or(0, |old| old.frames.sent_frames());
        per_second(since(client.frames.sent_frames(), before), elapsed_ns)
    };
    let clients = now.clients.iter().map(|client| {
        let window = &client.window;
        let state =
            format!("{} of {} in {}/{}", window.lost, window.may_lose, window.released, window.of);
        let first = [
            client.client.to_string(),
            client.stream.clone(),
            client.peer.clone(),
            client.state.clone(),
            human::rate(rate(client)),
            sent(client).to_string(),
        ];
        first.into_iter().chain(frames(&client.frames, state, client.queued)).collect()
    });
    let all = now.clients.iter().fold(now.gone, |sum, client| sum.plus(client.frames));
    let total = ["all", "", "", ""].map(str::to_owned).into_iter().chain([
        human::rate(now.clients.iter().map(rate).sum()),
        now.clients.iter().map(sent).sum::<u64>().to_string(),
    ]);
    let queued = now.clients.iter().map(|client| client.queued).sum();
    let total = total.chain(frames(&all, String::new(), queued)).collect();
    let header = [
        "client",
        "stream",
        "address",
        "state",
        "rate",
        "frames/s",
        "on time",
        "window",
        "queue",
        "missed",
        "filtered",
        "violations",
        "slow client",
    ];
    text += &text_table(&header, clients.chain([total]));
    text
}

/// Returns the cells of a client's frame counters since it connected.
fn frames(frames: &FrameCounts, window: String, queued: u64) -> [String; 7] {
    let (sent, missed) = (frames.sent_frames(), frames.missed());
    let on_time = if sent + missed == 0 { "–".to_owned() } else { percent(sent, sent + missed) };
    let counts = [queued, missed, frames.filtered_frames(), frames.violations, frames.slow];
    let [queued, missed, filtered, violations, slow] = counts.map(|count| count.to_string());
    [on_time, window, queued, missed, filtered, violations, slow]
}
