//! BBR on links: alone, with random losses, beside CUBIC, and with marks.

use super::{Journal, MS, on_link, run};

/// Returns a stream of one connection over a round trip of 40 ms, with the keys of its stream and
/// of its source.
fn tcp(name: &str, keys: &str, source: &str) -> String {
    format!(
        "[[stream]]\nname = \"{name}\"\n{keys}\nsource = {{ kind = \"tcp\", rtt = \"40 ms\", \
         {source} }}\n"
    )
}

/// A ping in the queue of `of`.
fn ping(of: &str) -> String {
    format!(
        "[[stream]]\nname = \"ping\"\nshares = \"{of}\"\nsource = {{ kind = \"echo\", bytes = 64, \
         interval = \"10 ms\", rtt = \"40 ms\" }}\n"
    )
}

const BBR: &str = "control = \"bbr\"";
const CUBIC: &str = "control = \"cubic\"";

/// Returns the goodput of a source that sends for 20 s, 10 kbit/s; with what its queue then holds.
fn goodput(journal: &Journal, name: &str) -> u64 {
    journal.source(name).delivered_bytes / 25_000
}

/// Returns the 99th percentile of the waits of pings from `from_ms` on, ms.
fn wait_p99(journal: &Journal, from_ms: u64) -> u64 {
    let mut waits: Vec<u64> = journal
        .round_trips
        .iter()
        .filter(|(_, now_ns, _)| *now_ns >= from_ms * MS)
        .map(|(_, _, rtt_ns)| (rtt_ns - 40 * MS) / MS)
        .collect();
    waits.sort_unstable();
    waits[waits.len() * 99 / 100]
}

/// A deep queue does not fill: after Startup, waits are below the product of bandwidth and delay,
/// 40 ms.
#[test]
fn bbr_alone_fills_the_link_and_not_the_queue() {
    let link = "rate = \"20 Mbit/s\"";
    let of = |control| {
        let streams = tcp("one", "queue = 10000", control) + &ping("one");
        let journal = run(&on_link(link, "fifo", &streams));
        (goodput(&journal, "one"), wait_p99(&journal, 2_000))
    };
    assert_eq!([BBR, CUBIC].map(of), [(1_861, 34), (2_093, 1_821)]);
}

/// RFC 5681 and RFC 9438 take each loss for congestion; BBR tolerates 2 %.
#[test]
fn random_losses_hardly_slow_bbr() {
    let link = "rate = \"20 Mbit/s\"\nloss = 0.01";
    let of = |control| {
        let journal = run(&on_link(link, "fifo", &tcp("one", "queue = 200", control)));
        goodput(&journal, "one")
    };
    assert_eq!([BBR, CUBIC].map(of), [1_611, 458]);
}

/// One connection of each in a queue of one product (67 packets), and of four.
#[test]
fn bbr_beside_cubic_in_one_queue() {
    let of = |packets: u32| {
        let keys = format!("queue = {packets}");
        let one = tcp("cubic", &keys, CUBIC);
        let other = tcp("bbr", "shares = \"cubic\"", BBR);
        let journal = run(&on_link("rate = \"20 Mbit/s\"", "fifo", &(one + &other)));
        (goodput(&journal, "bbr"), goodput(&journal, "cubic"))
    };
    assert_eq!([67, 268].map(of), [(1_045, 880), (372, 1_561)]);
}

/// Marks count as losses: the queue of CoDel stays short without a drop.
#[test]
fn bbr_reacts_to_marks() {
    let of = |ecn: bool| {
        let source = format!("{BBR}, ecn = {ecn}");
        let streams = tcp("one", "aqm = \"codel\"", &source) + &ping("one");
        let journal = run(&on_link("rate = \"20 Mbit/s\"", "fifo", &streams));
        let hop = &journal.report().hops[0];
        (goodput(&journal, "one"), wait_p99(&journal, 2_000), hop.marked, hop.dropped_by_aqm)
    };
    assert_eq!([true, false].map(of), [(1_777, 34, 24, 0), (1_778, 25, 0, 24)]);
}

/// Transfers with pauses restart from idle, and end.
#[test]
fn transfers_by_bbr_complete() {
    let source = format!("{BBR}, transfer = \"300 kB\", pause = \"200 ms\", connections = 3");
    let link = "rate = \"20 Mbit/s\"\nloss = 0.02\nqueue = 30";
    let journal = run(&on_link(link, "fifo", &tcp("some", "", &source)));
    let source = journal.source("some");
    assert_eq!(
        (source.transfers.count, source.transfers.p50_ns / MS, source.timeouts),
        (94, 403, 2)
    );
}
