//! Links in series, and sources that react.

mod bbr;
pub(crate) mod captures;
mod transfers;

use millstream::{Departure, Event, StreamId};
use millstream_scenario::Scenario;
use millstream_sim::network::{NetworkReport, SourceReport};
use millstream_sim::{Listener, link};
use millstream_traffic::{FrameBytes, Random};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

const MS: u64 = 1_000_000;

/// What a run told its listener.
#[derive(Default, PartialEq, Debug)]
struct Journal {
    arrived: BTreeMap<u32, u64>,
    departed: BTreeMap<(u32, &'static str), u64>,
    round_trips: Vec<(u32, u64, u64)>,
    report: Option<NetworkReport>,
}

impl Listener for Journal {
    fn arrived(&mut self, stream: StreamId, _: u64, _: u32) {
        *self.arrived.entry(stream.0).or_default() += 1;
    }

    fn departed(&mut self, departure: &Departure, _: Option<&FrameBytes>) -> io::Result<()> {
        *self.departed.entry((departure.stream.0, departure.event.name())).or_default() += 1;
        Ok(())
    }

    fn round_trip(&mut self, stream: StreamId, now_ns: u64, rtt_ns: u64) {
        self.round_trips.push((stream.0, now_ns, rtt_ns));
    }

    fn network(&mut self, report: NetworkReport) {
        self.report = Some(report);
    }
}

impl Journal {
    fn report(&self) -> &NetworkReport {
        self.report.as_ref().unwrap()
    }

    fn source(&self, name: &str) -> &SourceReport {
        self.report().sources.iter().find(|source| source.stream == name).unwrap()
    }
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse("network.toml", text, Path::new("")).unwrap_or_else(|error| {
        panic!("{error:?}");
    })
}

fn run(text: &str) -> Journal {
    let scenario = scenario(text);
    let mut journal = Journal::default();
    let mut input = millstream_scenario::open(&scenario, false).unwrap();
    let end = link::run(&scenario, input.feed.as_mut(), &mut journal).unwrap();
    assert_eq!(end.waiting, 0);
    journal
}

/// Returns a link with a discipline, and streams as given.
fn on_link(link: &str, discipline: &str, rest: &str) -> String {
    format!(
        "[scenario]\nduration = \"20 s\"\n[link]\n{link}\n[scheduler]\ndiscipline = \
         \"{discipline}\"\n{rest}"
    )
}

/// Draws parameters at their limits: the run ends, and packets are conserved.
#[test]
fn extreme_parameters_lose_no_packet() {
    for seed in 0..150 {
        let mut random = Random::new(seed, 0);
        let mut one_of =
            |choices: &[&str]| choices[random.below(choices.len() as u64) as usize].to_owned();
        let mut text = format!(
            "[scenario]\nseed = {seed}\nduration = \"{}\"\n[link]\nrate = \"{}\"\n{}\n{}\n{}\n\
             [scheduler]\ndiscipline = \"{}\"\n",
            one_of(&["1 s", "3 s", "20 ms"]),
            one_of(&["1 kbit/s", "300 kbit/s", "5 Mbit/s"]),
            one_of(&["", "loss = 0.5", "loss = 0.01"]),
            one_of(&["", "queue = 1", "queue = 9"]),
            one_of(&["", "delay = \"1 ns\"", "delay = \"400 ms\"", "overhead = 40"]),
            one_of(&["fifo", "wf2q+", "sfq", "drr", "lqf"]),
        );
        let tree = one_of(&["", "tree"]) == "tree";
        if tree {
            for (class, parent) in [("a", ""), ("b", "parent = \"a\"")] {
                text += &format!(
                    "[[class]]\nname = \"{class}\"\n{parent}\ndiscipline = \"{}\"\n{}\n",
                    one_of(&["fifo", "wf2q+", "drr", "lqf", "virtual-clock"]),
                    one_of(&["", "max-rate = \"50 kbit/s\""]),
                );
            }
        }
        let mut returns = false;
        for (hop, direction) in [("there", "forward"), ("back", "return")] {
            if one_of(&["", "yes"]) == "yes" {
                returns |= direction == "return";
                text += &format!(
                    "[[hop]]\nname = \"{hop}\"\ndirection = \"{direction}\"\nrate = \"{}\"\n{}\n",
                    one_of(&["20 kbit/s", "2 Mbit/s", "1 Gbit/s"]),
                    one_of(&["", "loss = 0.2", "queue = 2"]),
                );
            }
        }
        let queues = [
            "",
            "queue = 1",
            "flows = {}",
            "aqm = \"pie\"",
            "aqm = \"dualpi2\"",
            "max-rate = \"90 kbit/s\"",
        ];
        for stream in 0..3 {
            let control = one_of(&["reno", "cubic", "dctcp", "prague", "bbr"]);
            text += &format!(
                "[[stream]]\nname = \"{stream}\"\n{}\n{}\n{}\nsource = {{ kind = \"tcp\", rtt = \
                 \"{}\", control = \"{}\", bytes = {}, connections = {}, ack-every = {}, \
                 initial-window = {}, pacing = {}{} }}\n",
                if tree { ["class = \"a\"", "class = \"b\"", ""][stream] } else { "" },
                one_of(&queues),
                if returns { one_of(&["", "direction = \"return\""]) } else { String::new() },
                one_of(&["1 ns", "1 ms", "300 ms"]),
                control,
                one_of(&["53", "576", "9000"]),
                one_of(&["1", "3"]),
                one_of(&["1", "2", "64"]),
                one_of(&["1", "10", "500"]),
                if control == "bbr" { "true".into() } else { one_of(&["true", "false"]) },
                one_of(&[
                    "",
                    ", transfer = \"1 B\", pause = \"1 ms\"",
                    ", receive-window = \"1 B\""
                ]),
            );
        }
        text += "[[stream]]\nname = \"v\"\nshares = \"0\"\nsource = { kind = \"adaptive\", rates = \
                 [\"8 bit/s\", \"1 Mbit/s\"], rtt = \"1 ms\", bytes = 1 }\n";
        let journal = run(&text);
        for (stream, arrived) in &journal.arrived {
            let of = journal.departed.iter().filter(|((of, _), _)| of == stream);
            let lost: u64 = journal.report().hops.iter().map(|hop| hop.lost).sum();
            let departed: u64 = of.map(|(_, count)| count).sum();
            assert!(departed <= *arrived && departed + lost >= *arrived, "{text}\n{journal:?}");
        }
    }
}

const BULK_AND_PING: &str = r#"
[[stream]]
name = "bulk"
CONTRACT
source = { kind = "tcp", connections = 4, rtt = "20 ms" }
[[stream]]
name = "ping"
shares = "bulk"
source = { kind = "echo", bytes = 64, interval = "10 ms", rtt = "20 ms" }
"#;

/// An idle way of three links and two back: the round trip is the sum of its parts.
#[test]
fn a_round_trip_is_the_sum_of_transmissions_and_delays() {
    let journal = run(r#"
        [scenario]
        duration = "1 s"
        [link]
        rate = "10 Mbit/s"
        overhead = 20
        delay = "3 ms"
        [[hop]]
        name = "second"
        rate = "100 Mbit/s"
        delay = "5 ms"
        [[hop]]
        name = "back"
        direction = "return"
        rate = "1 Mbit/s"
        delay = "7 ms"
        [scheduler]
        discipline = "fifo"
        [[stream]]
        name = "ping"
        source = { kind = "echo", bytes = 105, interval = "100 ms", rtt = "11 ms" }
    "#);
    // 125 bytes at 10 Mbit/s, 105 at 100 Mbit/s, and 105 at 1 Mbit/s: 100, 8.4 and 840 µs.
    let rtt_ns = (3 + 5 + 7 + 11) * MS + 100_000 + 8_400 + 840_000;
    assert_eq!(journal.round_trips.len(), 10);
    assert!(journal.round_trips.iter().all(|(_, _, ns)| *ns == rtt_ns), "{journal:?}");
    assert_eq!(journal.round_trips[3].1, 300 * MS + rtt_ns);
    let sent: Vec<u64> = journal.report().hops.iter().map(|hop| hop.sent_packets).collect();
    assert_eq!(sent, [10, 10, 10]);
    assert_eq!(journal.departed, BTreeMap::from([((0, "sent"), 10)]));
}

/// A hop schedules at its own rate: a fair queueing clock of the first link would run five times
/// too fast there, and the call would lose its share.
#[test]
fn a_slower_hop_keeps_the_shares_of_its_own_rate() {
    let journal = run(r#"
        [scenario]
        duration = "10 s"
        [link]
        rate = "50 Mbit/s"
        [[hop]]
        name = "slow"
        rate = "10 Mbit/s"
        [scheduler]
        discipline = "wf2q+"
        [[stream]]
        name = "bulk"
        queue = 400
        source = { kind = "tcp", connections = 4, rtt = "20 ms" }
        [[stream]]
        name = "ping"
        source = { kind = "echo", bytes = 200, interval = "20 ms", rtt = "20 ms" }
    "#);
    // A packet of 1,500 bytes on each link is 1.44 ms.
    assert!(journal.source("ping").rtt.max_ns < 23 * MS, "{:?}", journal.source("ping").rtt);
}

/// Every packet of a stream arrives once and departs once, whatever happens to it.
#[test]
fn packets_are_conserved() {
    for contract in ["", "queue = 20", "flows = {}", "flows = { buckets = 8 }\nqueue = 30"] {
        for link in ["rate = \"5 Mbit/s\"\nqueue = 40", "rate = \"5 Mbit/s\"\nloss = 0.02"] {
            let streams = BULK_AND_PING.replace("CONTRACT", contract);
            let journal = run(&on_link(link, "fifo", &streams));
            for (stream, arrived) in &journal.arrived {
                let of = journal.departed.iter().filter(|((of, _), _)| of == stream);
                assert_eq!(of.map(|(_, count)| count).sum::<u64>(), *arrived, "{contract} {link}");
            }
            let hop = &journal.report().hops[0];
            let sent: u64 = [0, 1].iter().map(|of| journal.departed[&(*of, "sent")]).sum();
            assert_eq!(hop.sent_packets, sent);
            let aqm: u64 = [0, 1]
                .iter()
                .filter_map(|of| journal.departed.get(&(*of, Event::DroppedByAqm.name())))
                .sum();
            assert_eq!(hop.dropped_by_aqm, aqm);
        }
    }
}

/// The case that flow queueing is for: a sparse flow beside four TCP connections in one queue of 20
/// Mbit/s.
#[test]
fn a_sparse_flow_does_not_wait_for_bulk_in_its_stream() {
    let of = |contract: &str| {
        let streams = BULK_AND_PING.replace("CONTRACT", contract);
        run(&on_link("rate = \"20 Mbit/s\"\nqueue = 10000", "fifo", &streams))
    };
    let (fifo, flows) = (of("queue = 256"), of("flows = {}"));
    let wait_ns = |journal: &Journal| journal.source("ping").rtt.p99_ns - 20 * MS;
    assert!(wait_ns(&fifo) > 100 * MS, "{}", wait_ns(&fifo));
    assert!(wait_ns(&flows) < 5 * MS, "{}", wait_ns(&flows));
    let bulk = |journal: &Journal| journal.source("bulk").delivered_bytes;
    assert!(bulk(&flows) * 100 >= bulk(&fifo) * 95, "{} {}", bulk(&flows), bulk(&fifo));
}

/// Mathis and others (CCR 27(3), 1997): a connection of Reno that loses a share p of its packets
/// has a mean window of √(3/2p) packets, if every packet is acknowledged.
#[test]
fn reno_has_the_window_that_its_losses_permit() {
    for (loss, expected) in [(0.001, 38.7), (0.004, 19.4)] {
        let streams = r#"
            [[stream]]
            name = "bulk"
            source = { kind = "tcp", connections = 10, control = "reno", rtt = "50 ms",
                       ack-every = 1, hystart = false }
        "#
        .replace(",\n                       ", ", ");
        let link = format!("rate = \"10 Gbit/s\"\nloss = {loss}");
        let text = on_link(&link, "fifo", &streams).replace("20 s", "100 s");
        let journal = run(&text);
        let packets = journal.source("bulk").delivered_bytes as f64 / 1_448.0;
        let window = packets / 10.0 * 0.050 / 100.0;
        assert!((window / expected - 1.0).abs() < 0.15, "{loss}: {window} for {expected}");
    }
}

/// Two connections with the same control and round trip share a link, and fill it.
#[test]
fn connections_of_one_kind_share_a_link_evenly() {
    for control in ["reno", "cubic"] {
        let stream = |name: &str| {
            format!(
                "[[stream]]\nname = \"{name}\"\nsource = {{ kind = \"tcp\", control = \
                 \"{control}\", rtt = \"30 ms\" }}\n"
            )
        };
        let streams = stream("one") + &stream("other");
        let link = "rate = \"10 Mbit/s\"\nqueue = 50";
        let journal = run(&on_link(link, "fifo", &streams).replace("20 s", "120 s"));
        let rates = ["one", "other"].map(|name| journal.source(name).delivered_bytes as f64);
        let ratio = rates[0] / rates[1];
        assert!((0.7..1.4).contains(&ratio), "{control}: {ratio}");
        let goodput = (rates[0] + rates[1]) * 8.0 / 120.0 / 10e6;
        // 1,448 of 1,500 bytes are data.
        assert!((0.94..0.966).contains(&goodput), "{control}: {goodput}");
    }
}

/// A transfer of ten packets takes a handshake and a round trip; with a pause, others follow.
#[test]
fn transfers_end_and_follow_each_other() {
    let source = |rest: &str| {
        let streams = format!(
            "[[stream]]\nname = \"web\"\nsource = {{ kind = \"tcp\", rtt = \"40 ms\", transfer \
             = \"14480 B\"{rest} }}\n"
        );
        run(&on_link("rate = \"1 Gbit/s\"", "fifo", &streams))
    };
    let once = source("");
    assert_eq!(once.source("web").delivered_bytes, 14_480);
    let transfers = once.source("web").transfers;
    // Two round trips, the transmission of SYN and ten packets: 0.48 + 10 × 12 µs.
    assert_eq!((transfers.count, transfers.max_ns), (1, 80 * MS + 120_480));
    let many = source(", pause = \"100 ms\"");
    let transfers = many.source("web").transfers;
    assert!((90..=130).contains(&transfers.count), "{transfers:?}");
    assert_eq!(many.source("web").delivered_bytes, transfers.count * 14_480);
}

/// Acknowledgements pass the links of the way back: there the link is full of another stream.
#[test]
fn acknowledgements_wait_on_the_way_back() {
    let text = r#"
        [scenario]
        duration = "20 s"
        [link]
        rate = "50 Mbit/s"
        queue = 100
        [[hop]]
        name = "up"
        direction = "return"
        rate = "4 Mbit/s"
        queue = 100
        discipline = "DISCIPLINE"
        [scheduler]
        discipline = "fifo"
        [[stream]]
        name = "down"
        source = { kind = "tcp", rtt = "20 ms" }
        [[stream]]
        name = "up"
        direction = "return"
        source = { kind = "tcp", rtt = "20 ms" }
    "#;
    let fifo = run(&text.replace("DISCIPLINE", "fifo"));
    let fair = run(&text.replace("DISCIPLINE", "sfq"));
    let rtt_ns = |journal: &Journal| journal.source("down").rtt.p50_ns;
    assert!(rtt_ns(&fifo) > 80 * MS, "{}", rtt_ns(&fifo));
    assert!(rtt_ns(&fair) < rtt_ns(&fifo) / 2, "{}", rtt_ns(&fair));
    let bytes = |journal: &Journal| journal.source("down").delivered_bytes;
    assert!(bytes(&fair) > 2 * bytes(&fifo), "{} {}", bytes(&fair), bytes(&fifo));
}

#[test]
fn a_run_depends_on_its_seed_only() {
    let text = |seed: u32| {
        let streams = BULK_AND_PING.replace("CONTRACT", "flows = {}");
        let text = on_link("rate = \"20 Mbit/s\"\nloss = 0.001", "fifo", &streams);
        text.replacen("[scenario]", &format!("[scenario]\nseed = {seed}"), 1)
    };
    let first = run(&text(1));
    assert_eq!(run(&text(1)), first);
    assert_ne!(run(&text(2)), first);
}

#[test]
fn marks_keep_the_queue_short_without_a_loss() {
    for control in ["cubic", "prague"] {
        let streams = format!(
            "[[stream]]\nname = \"bulk\"\nflows = {{}}\nsource = {{ kind = \"tcp\", control = \
             \"{control}\", ecn = true, rtt = \"20 ms\" }}\n"
        );
        let journal = run(&on_link("rate = \"20 Mbit/s\"", "fifo", &streams));
        let bulk = journal.source("bulk");
        assert!(bulk.marked > 0);
        assert_eq!((bulk.retransmissions, journal.report().hops[0].dropped_by_aqm), (0, 0));
        assert!(bulk.rtt.p50_ns < 32 * MS, "{:?}", bulk.rtt);
    }
}

/// Four connections of CUBIC for a minute on 20 Mbit/s: every queue management keeps the wait far
/// below that of a queue of 256 packets, 150 ms, and the link busy.
#[test]
fn every_queue_management_keeps_the_wait_short_and_the_link_busy() {
    for (aqm, most_ms) in [
        ("\"codel\"", 20),
        ("\"pie\"", 30),
        ("{ kind = \"red\", min = \"10 kB\", packet-time = \"600 us\" }", 30),
        ("\"cobalt\"", 20),
        ("\"dualpi2\"", 35),
    ] {
        let streams = BULK_AND_PING.replace("CONTRACT", &format!("queue = 1000\naqm = {aqm}"));
        let journal =
            run(&on_link("rate = \"20 Mbit/s\"", "fifo", &streams).replace("20 s", "60 s"));
        let wait_ns = journal.source("ping").rtt.p50_ns - 20 * MS;
        assert!(wait_ns < most_ms * MS, "{aqm}: {wait_ns}");
        let goodput = journal.source("bulk").delivered_bytes as f64 * 8.0 / 60.0 / 20e6;
        assert!((0.85..0.966).contains(&goodput), "{aqm}: {goodput}");
    }
}

/// RFC 9332, section 1.3: a Prague and a CUBIC connection get about the same rate in DualPI2, and
/// the packets of Prague hardly wait.
#[test]
fn dual_queues_give_both_kinds_of_senders_a_fair_rate() {
    let stream = |name: &str, control: &str, rest: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\n{rest}\nsource = {{ kind = \"tcp\", control = \
             \"{control}\", ecn = true, rtt = \"20 ms\" }}\n"
        )
    };
    let streams = stream("classic", "cubic", "aqm = \"dualpi2\"")
        + &stream("scalable", "prague", "shares = \"classic\"");
    let journal = run(&on_link("rate = \"40 Mbit/s\"", "fifo", &streams).replace("20 s", "60 s"));
    let of = |name: &str| journal.source(name);
    let ratio = of("scalable").delivered_bytes as f64 / of("classic").delivered_bytes as f64;
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
    let waits = ["scalable", "classic"].map(|name| of(name).rtt.p50_ns - 20 * MS);
    assert!(waits[0] < 2 * MS && waits[1] > 8 * MS, "{waits:?}");
    assert!(of("scalable").marked > 20 * of("classic").marked.max(1));
}

/// Prague with round trips of 5 and 20 ms: connections in one queue that marks get nearly the same
/// rate, and those of DCTCP rates by their windows.
#[test]
fn prague_shares_a_link_whatever_the_round_trips() {
    let ratio = |control: &str| {
        let stream = |name: &str, keys: &str, rtt: u32| {
            format!(
                "[[stream]]\nname = \"{name}\"\n{keys}\nsource = {{ kind = \"tcp\", control = \
                 \"{control}\", rtt = \"{rtt} ms\" }}\n"
            )
        };
        let streams =
            stream("near", "aqm = { kind = \"codel\", target = \"1 ms\", interval = \"5 ms\" }", 5)
                + &stream("far", "shares = \"near\"", 20);
        let journal =
            run(&on_link("rate = \"40 Mbit/s\"", "fifo", &streams).replace("20 s", "60 s"));
        journal.source("near").delivered_bytes * 100 / journal.source("far").delivered_bytes
    };
    assert_eq!(["prague", "dctcp"].map(ratio), [94, 287]);
}

/// A source is a host: with `hosts`, one with eight connections gets what one with one gets.
#[test]
fn sources_share_equally_as_hosts() {
    let ratio = |hosts: &str| {
        let stream = |name: &str, connections: u32, rest: &str| {
            format!(
                "[[stream]]\nname = \"{name}\"\n{rest}\nsource = {{ kind = \"tcp\", connections = \
                 {connections}, rtt = \"20 ms\" }}\n"
            )
        };
        let streams = stream("many", 8, &format!("flows = {{ {hosts} }}"))
            + &stream("one", 1, "shares = \"many\"");
        let journal = run(&on_link("rate = \"20 Mbit/s\"", "fifo", &streams));
        let bytes = |name: &str| journal.source(name).delivered_bytes as f64;
        bytes("many") / bytes("one")
    };
    let (by_flow, by_host) = (ratio(""), ratio("hosts = \"source\""));
    assert!((6.0..10.0).contains(&by_flow), "{by_flow}");
    assert!((0.9..1.2).contains(&by_host), "{by_host}");
}

/// Video climbs to the highest rate that fits the link, and falls when the link gets full.
#[test]
fn adaptive_video_follows_its_link() {
    let video = r#"
        [[stream]]
        name = "video"
        source = { kind = "adaptive", rates = ["1 Mbit/s", "3 Mbit/s", "6 Mbit/s"], rtt = "20 ms" }
    "#;
    let rate_bps = |journal: &Journal| journal.source("video").delivered_bytes * 8 / 60;
    let run_on = |link: &str, rest: &str| {
        run(&on_link(link, "fifo", &format!("{video}{rest}")).replace("20 s", "60 s"))
    };
    let free = run_on("rate = \"20 Mbit/s\"", "");
    // Five seconds at 1 Mbit/s and at 3 Mbit/s, then 6 Mbit/s.
    assert!((5_300_000..=5_350_000).contains(&rate_bps(&free)), "{}", rate_bps(&free));
    assert_eq!(free.source("video").rate_changes, 2);
    // 4 Mbit/s with a queue of 300 ms: each climb to 6 Mbit/s fails, to 3 or 1 Mbit/s.
    let full = run_on("rate = \"4 Mbit/s\"\nqueue = 125", "");
    assert!((2_000_000..4_000_000).contains(&rate_bps(&full)), "{}", rate_bps(&full));
    assert!(full.source("video").rate_changes > 4);
}

/// Two classes of equal weight share the link equally on both hops, whatever is in them. Within a
/// class, a ping passes four connections if they are queued by flow.
#[test]
fn classes_of_a_network_share_by_weight_and_have_flows() {
    let text = |keys: &str| {
        let tcp = |connections| {
            format!("source = {{ kind = \"tcp\", rtt = \"20 ms\", connections = {connections} }}\n")
        };
        let class = |name| format!("[[class]]\nname = \"{name}\"\ndiscipline = \"wf2q+\"\n");
        let rest = format!(
            "{}{}[[hop]]\nname = \"next\"\nrate = \"12 Mbit/s\"\n[[stream]]\nname = \"many\"\n\
             class = \"home\"\n{keys}queue = 200\n{}[[stream]]\nname = \"ping\"\nshares = \
             \"many\"\nsource = {{ kind = \"echo\", bytes = 64, interval = \"50 ms\", rtt = \"20 \
             ms\" }}\n[[stream]]\nname = \"one\"\nclass = \"guests\"\nqueue = 50\n{}",
            class("home"),
            class("guests"),
            tcp(4),
            tcp(1),
        );
        on_link("rate = \"10 Mbit/s\"", "wf2q+", &rest)
    };
    let results = |keys: &str| {
        let journal = run(&text(keys));
        let goodput = |name| journal.source(name).delivered_bytes / 25_000;
        let ping = &journal.source("ping").rtt;
        (goodput("many"), goodput("one"), ping.p99_ns / MS)
    };
    assert_eq!(results("flows = {}\n"), (481, 485, 29));
    assert_eq!(results(""), (492, 485, 485));
}
