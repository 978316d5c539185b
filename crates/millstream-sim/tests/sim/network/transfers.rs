//! Durations of transfers and pages.

use super::*;

/// Runs streams on a forward link of 1 Gbit/s, without links on the way back, for `seconds`.
fn on_gigabit(seconds: u32, source: &str) -> Journal {
    let streams = format!("[[stream]]\nname = \"web\"\nsource = {{ {source} }}\n");
    let text = on_link("rate = \"1 Gbit/s\"", "fifo", &streams);
    run(&text.replace("20 s", &format!("{seconds} s")))
}

/// In slow start, r rounds send 10, 20, … packets. A transfer takes a handshake and r round trips;
/// 0.48 µs of the SYN, 12 µs of each round's first packet but the last's, and the last round.
#[test]
fn a_transfer_takes_a_handshake_and_the_rounds_of_slow_start() {
    for (rounds, packets) in [(1, 10), (2, 30), (3, 70), (4, 150)] {
        let source = format!(
            "kind = \"tcp\", rtt = \"40 ms\", ack-every = 1, hystart = false, transfer = \"{} B\"",
            packets * 1_448
        );
        let journal = on_gigabit(1, &source);
        let transfers = journal.source("web").transfers;
        let last_round_ns = 12_000 * (10 << (rounds - 1));
        let expected_ns = (rounds + 1) * 40 * MS + 480 + (rounds - 1) * 12_000 + last_round_ns;
        assert_eq!((transfers.count, transfers.max_ns), (1, expected_ns), "{rounds} rounds");
    }
}

/// The last packet has the rest of the data, and is acknowledged at once.
#[test]
fn short_transfers_are_short_packets() {
    for (bytes, packets_ns) in [(100, 152 * 8), (1_448, 12_000), (1_449, 12_000 + 53 * 8)] {
        let source = format!("kind = \"tcp\", rtt = \"40 ms\", transfer = \"{bytes} B\"");
        let journal = on_gigabit(1, &source);
        let web = journal.source("web");
        assert_eq!(web.transfers.max_ns, 80 * MS + 480 + packets_ns, "{bytes} B");
        assert_eq!(web.delivered_bytes, bytes);
        let by_size = web.completions.unwrap().by_size;
        assert_eq!(by_size.map(|class| class.count), [1, 0, 0, 0]);
    }
}

#[test]
fn transfers_are_counted_by_size() {
    let table = "[[10000, 0.25], [10001, 0.251], [100000, 0.5], [1000000, 0.75], [1000001, 1.0]]";
    let source = format!(
        "kind = \"tcp\", rtt = \"1 ms\", interval = \"40 ms\", transfer = {{ table = {table} }}"
    );
    let journal = on_gigabit(20, &source);
    let of = journal.source("web").completions.unwrap();
    let counts = of.by_size.map(|class| class.count);
    assert_eq!(counts.iter().sum::<u64>(), of.offered - of.unfinished);
    // Half of the sizes between the last rows round to 1 MB. About 500 in all; four standard
    // deviations of a share of n are at most 4 × √(n/4).
    for (count, share) in counts.into_iter().zip([0.25, 0.25, 0.375, 0.125]) {
        let (n, count) = (of.offered as f64, count as f64);
        assert!((count - share * n).abs() < 2.0 * n.sqrt() + 2.0, "{counts:?} of {n}");
    }
}

/// A connection at a time, of 80.12 ms, for arrivals every 160 ms on average: the queue M/D/1, in
/// which a transfer waits for ρ/(2(1 − ρ)) transfers.
#[test]
fn transfers_wait_for_a_connection_at_their_limit() {
    let source = "kind = \"tcp\", rtt = \"40 ms\", transfer = \"14480 B\", interval = \"160 ms\"";
    let journal = on_gigabit(4_000, &format!("{source}, connections = 1"));
    let (web, service_ns) = (journal.source("web"), 80 * MS + 120_480);
    let of = web.completions.unwrap();
    let load = service_ns as f64 / 160e6;
    let expected = 1.0 + load / (2.0 * (1.0 - load));
    let measured = web.transfers.mean_ns as f64 / service_ns as f64;
    assert!((measured / expected - 1.0).abs() < 0.03, "{measured} for {expected}");
    // The probability to wait is the load: ± 4 standard deviations of √(n/4), and correlation.
    assert!((of.waited as f64 / of.offered as f64 - load).abs() < 0.03, "{of:?}");
    assert_eq!(web.transfers.count + of.unfinished, of.offered);
    assert!(of.offered.abs_diff(25_000) < 640, "four times √25,000: {of:?}");
}

/// What is offered does not depend on the rate of the link, nor on the limit of connections.
#[test]
fn offered_transfers_do_not_depend_on_completions() {
    let offered = |link: &str, rest: &str| {
        let streams = format!(
            "[[stream]]\nname = \"web\"\nsource = {{ kind = \"tcp\", rtt = \"10 ms\", rate = \
             \"8 Mbit/s\", transfer = {{ distribution = \"pareto\", shape = 1.5, mean = \
             \"20 kB\" }}{rest} }}\n"
        );
        let journal = run(&on_link(link, "fifo", &streams));
        let web = journal.source("web");
        (web.completions.unwrap(), web.delivered_bytes)
    };
    let (fast, bytes) = offered("rate = \"1 Gbit/s\"", "");
    let (slow, slow_bytes) = offered("rate = \"2 Mbit/s\"\nqueue = 100", ", connections = 4");
    assert_eq!(fast.offered, slow.offered);
    // 8 Mbit/s of 20 kB: 50 per second, for 20 s; ± 4 × √1,000.
    assert!(fast.offered.abs_diff(1_000) < 127, "{fast:?}");
    assert!(fast.unfinished < 10 && slow.unfinished > 600 && slow.waited > 600, "{slow:?}");
    assert!(bytes > 3 * slow_bytes, "{bytes} {slow_bytes}");
    let counted: u64 = slow.by_size.iter().map(|class| class.count).sum();
    assert_eq!(counted + slow.unfinished, slow.offered);
}

/// SYN, SYN-ACK (0.48 µs), request and data: two round trips. Then the first connection loads an
/// object in one round trip. The five others need two: their SYN-ACKs wait for that object, and
/// their data for each other.
#[test]
fn a_page_takes_the_sum_of_its_parts() {
    for (objects, rest_ns) in
        [(0, 0), (1, 40 * MS + 120_000), (6, 80 * MS + 120_000 + 480 + 600_000)]
    {
        let source = format!(
            "kind = \"web\", rtt = \"40 ms\", html = \"14480 B\", object = \"14480 B\", \
             objects = {objects}, pause = \"100 s\""
        );
        let journal = on_gigabit(1, &source);
        let web = journal.source("web");
        let pages = web.pages.unwrap();
        assert_eq!((pages.begun, pages.unfinished), (1, 0));
        assert_eq!(pages.load.max_ns, 80 * MS + 120_480 + rest_ns, "{objects} objects");
        assert_eq!(web.delivered_bytes, 14_480 * (objects + 1));
        assert_eq!((web.retransmissions, web.timeouts), (0, 0));
    }
}

/// Handshakes, requests and data are repeated until the page is complete.
#[test]
fn pages_are_loaded_over_lossy_links() {
    let text = |link: &str| {
        format!(
            "[scenario]\nduration = \"300 s\"\n[link]\nrate = \"20 Mbit/s\"\n{link}\n[[hop]]\nname \
             = \"up\"\ndirection = \"return\"\nrate = \"2 Mbit/s\"\n{link}\n[scheduler]\n\
             discipline = \"fifo\"\n[[stream]]\nname = \"web\"\nsource = {{ kind = \"web\", rtt = \
             \"30 ms\", clients = 2, objects = 20, pause = \"1 s\" }}\n"
        )
    };
    let (clean, lossy) = (run(&text("")), run(&text("loss = 0.05")));
    let [clean, lossy] = [&clean, &lossy].map(|journal| journal.source("web"));
    let (good, bad) = (clean.pages.unwrap(), lossy.pages.unwrap());
    assert!(good.begun > 100 && bad.begun > 30, "{good:?} {bad:?}");
    assert!(good.unfinished <= 2 && bad.unfinished <= 2, "{bad:?}");
    assert_eq!(bad.load.count + bad.unfinished, bad.begun);
    assert!(bad.load.p50_ns > 2 * good.load.p50_ns, "{good:?} {bad:?}");
    // Packets of other connections wait before some, for more than two round trips: probes.
    assert_eq!((clean.retransmissions, clean.timeouts), (34, 0));
}

/// Transfers of 21 packets with 1 % of the packets lost: RACK and its probes find most losses of
/// the last ones, which RFC 6675 leaves to timeouts.
#[test]
fn short_transfers_hardly_wait_for_timeouts() {
    let results = |recovery: &str| {
        let source = format!(
            "source = {{ kind = \"tcp\", rtt = \"40 ms\", connections = 4, transfer = \"30 kB\", \
             pause = \"100 ms\", recovery = \"{recovery}\" }}"
        );
        let journal = run(&format!(
            "[scenario]\nduration = \"300 s\"\n[link]\nrate = \"20 Mbit/s\"\nloss = \
             0.01\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\nname = \"short\"\n{source}\n"
        ));
        let short = journal.source("short");
        let transfers = short.transfers;
        let times = [transfers.p50_ns, transfers.p95_ns, transfers.p99_ns].map(|ns| ns / MS);
        ((transfers.count, short.retransmissions, short.timeouts), times)
    };
    assert_eq!(results("rack"), ((4_901, 995, 8), [127, 170, 298]));
    assert_eq!(results("rfc6675"), ((4_795, 1_642, 115), [127, 169, 768]));
}
