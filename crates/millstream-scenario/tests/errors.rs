//! Errors of invalid scenario files: messages, help texts and the text under the caret.
#![allow(clippy::unwrap_used)]

use millstream_scenario::{Mark, Match, RouterScenario, Scenario, ScenarioError};
use std::path::Path;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test.toml", text, Path::new(""))
}

/// Returns the valid scenario with `old` replaced by `new`.
fn with_replacement(old: &str, new: &str) -> String {
    let valid = r#"
[scenario]
duration = "1 s"

[link]
rate = "10 Mbps"

[scheduler]
discipline = "dwcs"

[[stream]]
name = "video"
period = "40 ms"
window = "1/4"
source = { kind = "cbr", bytes = 1316, rate = "4 Mbps" }

[[stream]]
name = "voice"
period = "20 ms"
source = { kind = "backlog", packets = 5, bytes = 200 }
"#;
    assert!(valid.contains(old), "{old}");
    valid.replacen(old, new, 1)
}

/// Returns all messages and help texts, and the text under the first caret.
fn problems(text: &str) -> (String, String) {
    let error = parse(text).unwrap_err();
    let all = error.problems.iter().map(|p| format!("{p} {}\n", p.help.as_deref().unwrap_or("")));
    let under = error.problems[0].span.map_or("", |span| &text[span.offset()..][..span.len()]);
    (all.collect(), under.to_owned())
}

#[test]
fn errors_in_classes_and_tables_are_reported() {
    let class = |text: &str| {
        with_replacement("[[stream]]", &format!("[[class]]\n{text}\n\n[[stream]]")).replacen(
            "name = \"voice\"",
            "name = \"voice\"\nclass = \"calls\"",
            1,
        )
    };
    let calls = "name = \"calls\"\ndiscipline = \"edf\"\nperiod = \"5 ms\"";
    assert!(parse(&class(calls)).is_ok());
    let twice = format!("{calls}\n\n[[class]]\n{calls}");
    let loops = format!("{calls}\nparent = \"calls\"");
    let empty =
        format!("{calls}\n\n[[class]]\nname = \"idle\"\ndiscipline = \"fifo\"\nperiod = \"1 s\"");
    for (text, under, parts) in [
        (class(&twice), "\"calls\"", vec!["two classes are called `calls`"]),
        (class(&loops), "\"calls\"", vec!["`calls` contains itself"]),
        (class(&empty), "\"idle\"", vec!["`idle` has no children"]),
        (
            class(&calls.replace("calls", "cals")),
            "\"calls\"",
            vec!["no class", "did you mean `cals`"],
        ),
        (
            class("name = \"calls\"\ndiscipline = \"edf\""),
            "\"calls\"",
            vec!["class `calls` has no `period`"],
        ),
        (class(&format!("{calls}\nperiods = 3")), "periods", vec!["did you mean `period`"]),
        (class(&format!("{calls}\nlate = \"drop\"")), "late", vec!["unknown field `late`"]),
        (
            class(&format!("{calls}\nstructure = \"ring\"")),
            "\"ring\"",
            vec!["`ring` cannot hold `edf`", "`heap`"],
        ),
        (with_replacement("\"dwcs\"", "\"table\""), "\"table\"", vec!["needs its `table`"]),
        (
            with_replacement("\"dwcs\"", "\"table\"\ntable = [\"video\"]"),
            "\"table\"",
            vec!["never serves `voice`"],
        ),
        (
            with_replacement("\"dwcs\"", "\"table\"\ntable = [\"voice\", \"vido\"]"),
            "\"vido\"",
            vec!["did you mean `video`"],
        ),
        (
            with_replacement("\"dwcs\"", "\"minbw\"\nalgorithm = \"sfq\""),
            "\"sfq\"",
            vec!["wfq", "drr"],
        ),
        (
            with_replacement("10 Mbps\"", "10 Mbps\"\ncredits = { buffer = \"0 B\" }"),
            "\"0 B\"",
            vec!["at least 1 B"],
        ),
        (with_replacement("window", "max-rate = \"fast\"\nwindow"), "\"fast\"", vec!["not a rate"]),
    ] {
        let (all, caret) = problems(&text);
        assert_eq!(caret, under, "{all}");
        for part in parts {
            assert!(all.contains(part), "{all} lacks {part:?}");
        }
    }
}

#[test]
fn hilq_rejects_unsupported_attributes() {
    let dropping = |text: &str| text.replace("source =", "late = \"drop\"\nsource =");
    let hilq = |more: &str| {
        dropping(&with_replacement("\"dwcs\"", &format!("\"dwcs\"\nstructure = \"hilq\"\n{more}")))
    };
    let valid = hilq("");
    assert!(parse(&valid).is_ok());
    let sending = valid.replacen("late = \"drop\"", "", 2);
    let class = "[[class]]\nname = \"calls\"\ndiscipline = \"dwcs\"\nperiod = \"5 ms\"\n";
    let root_of_classes = valid.replacen("[[stream]]", &format!("{class}[[stream]]"), 1);
    let root_of_classes = root_of_classes.replace("\"voice\"", "\"voice\"\nclass = \"calls\"");
    let in_class = root_of_classes.replacen("structure = \"hilq\"", "", 1);
    let in_class = in_class.replace("\"calls\"\ndisc", "\"calls\"\nstructure = \"hilq\"\ndisc");
    for (text, under, parts) in [
        (sending, "\"video\"", vec!["`video` (and 1 more)", "`late`", "late = \"drop\""]),
        (valid.replace("40 ms", "100 ms"), "\"100 ms\"", vec!["`video`", "99 ms"]),
        (valid.replace("40 ms", "999 us"), "\"999 us\"", vec!["`period`", "from 1 ms"]),
        (
            valid.replacen("window", "max-rate = \"1 Mbps\"\nwindow", 1),
            "\"1 Mbps\"",
            vec!["`max-rate`", "no gates"],
        ),
        (
            valid.replace("10 Mbps\"", "10 Mbps\"\ncredits = { buffer = \"8 KB\" }"),
            "\"video\"",
            vec!["`credits`", "no gates"],
        ),
        (hilq("order = \"loss-first\""), "\"hilq\"", vec!["loss-first", "edf-first"]),
        (hilq("zero-window = \"lowest-denominator\""), "\"hilq\"", vec!["`zero-window`"]),
        (root_of_classes, "\"hilq\"", vec!["tree of classes", "`heap`"]),
        (in_class, "\"hilq\"", vec!["tree of classes", "`heap`"]),
        (valid.replace("\"dwcs\"", "\"edf\""), "\"hilq\"", vec!["`hilq` cannot hold `edf`"]),
    ] {
        let (all, caret) = problems(&text);
        assert_eq!(caret, under, "{all}");
        for part in parts {
            assert!(all.contains(part), "{all} lacks {part:?}");
        }
    }
}

#[test]
fn the_base_scenario_is_valid() {
    let scenario = parse(&with_replacement("1/4", "1/4")).unwrap();
    assert_eq!(scenario.streams.len(), 2);
    assert_eq!((scenario.link.rate_bps, scenario.duration_ns), (10_000_000, Some(1_000_000_000)));
    assert_eq!(scenario.link.transmission_ns(1250), 1_000_000);
    assert_eq!((scenario.name.as_str(), scenario.seed), ("test", 1));
}

#[test]
fn errors_have_a_span_and_a_correction() {
    for (old, new, under, parts) in [
        (
            "period = \"40 ms\"",
            "perod = \"40 ms\"",
            "perod",
            vec!["perod", "did you mean `period`"],
        ),
        ("40 ms", "40", "\"40\"", vec!["`40` has no unit", "40 ms"]),
        ("40 ms", "0 ms", "\"0 ms\"", vec!["period of 0", "at least 1 ns"]),
        ("1/4", "5/4", "\"5/4\"", vec!["5/4", "x must be at most y"]),
        ("1/4", "1/0", "\"1/0\"", vec!["1/0", "x must be at most y"]),
        ("1/4", "-1/4", "\"-1/4\"", vec!["not a window", "1/4"]),
        ("10 Mbps", "0 Mbps", "\"0 Mbps\"", vec!["rate of 0"]),
        ("10 Mbps", "10 Pbps", "\"10 Pbps\"", vec!["`10 Pbps`", "unknown unit", "Gbit/s"]),
        ("\"voice\"", "\"video\"", "\"video\"", vec!["two streams are called `video`"]),
        ("\"voice\"", "\"\"", "\"\"", vec!["name is empty"]),
        (
            "\"dwcs\"",
            "\"dwsc\"",
            "\"dwsc\"",
            vec!["unknown discipline `dwsc`", "did you mean `dwcs`"],
        ),
        (
            "\"dwcs\"",
            "\"wfqq\"",
            "\"wfqq\"",
            vec!["unknown discipline `wfqq`", "`static-priority`"],
        ),
        (
            "\"dwcs\"",
            "\"dwcs\"\nstructure = \"hip\"",
            "\"hip\"",
            vec!["unknown structure", "`heap`"],
        ),
        ("\"dwcs\"", "\"dwcs\"\norder = \"edf\"", "\"edf\"", vec!["edf-first", "loss-first"]),
        ("period = \"20 ms\"", "", "\"voice\"", vec!["`voice` has no `period`", "dwcs needs"]),
        (
            "kind = \"cbr\"",
            "kind = \"cbrr\"",
            "\"cbrr\"",
            vec!["unknown kind", "did you mean `cbr`"],
        ),
        ("bytes = 1316, ", "", "", vec!["lacks `bytes`"]),
        ("bytes = 1316", "bytes = 1316, packets = 3", "3", vec!["a cbr source has no `packets`"]),
        ("rate = \"4 Mbps\"", "interval = \"0 s\"", "\"0 s\"", vec!["interval of 0", "backlog"]),
        (", rate = \"4 Mbps\"", "", "", vec!["either `rate` or `interval`"]),
        ("duration = \"1 s\"", "", "", vec!["never ends", "duration"]),
        ("window = \"1/4\"", "weight = 0", "0", vec!["`weight` is 0"]),
        ("window = \"1/4\"", "burst = \"1 KB\"", "\"1 KB\"", vec!["`burst` without a `max-rate`"]),
        ("[link]", "[link", "", vec!["unclosed"]),
        ("bytes = 1316", "bytes = -1", "-1", vec!["-1", "an integer from 0 to 4294967295"]),
        ("bytes = 200", "bytes = 5000000000", "5000000000", vec!["5000000000", "to 4294967295"]),
        ("bytes = 200", "bytes = \"200\"", "\"200\"", vec!["without quotes"]),
        (
            "kind = \"backlog\", packets = 5, bytes = 200",
            "kind = \"pcap\", file = \"x\", match = \"upd\"",
            "\"upd\"",
            vec!["not a pcap-filter expression", "tcpdump"],
        ),
        (
            "kind = \"backlog\", packets = 5, bytes = 200",
            "kind = \"mpeg\", file = \"x\", frames = \"IX\"",
            "\"IX\"",
            vec!["frame types", "I, P and B"],
        ),
        (
            "kind = \"backlog\", packets = 5, bytes = 200",
            "kind = \"mpeg\", model = \"h264\", rate = \"1 Mbps\"",
            "\"h264\"",
            vec!["unknown video model"],
        ),
    ] {
        let text = with_replacement(old, new);
        let (all, found) = problems(&text);
        for part in parts {
            assert!(all.contains(part), "{new}: {all:?} lacks {part:?}");
        }
        if !under.is_empty() {
            assert_eq!(found, under, "{new}: {all}");
        }
    }
}

#[test]
fn errors_of_networks_have_a_correction() {
    let network = r#"
[scenario]
duration = "1 s"

[link]
rate = "10 Mbps"

[[hop]]
name = "core"
rate = "1 Gbps"

[scheduler]
discipline = "fifo"

[[stream]]
name = "bulk"
flows = {}
source = { kind = "tcp", rtt = "20 ms" }

[[stream]]
name = "ping"
shares = "bulk"
source = { kind = "echo", bytes = 64, interval = "10 ms", rtt = "20 ms" }
"#;
    assert!(parse(network).is_ok());
    let cases = [
        (
            r#"shares = "bulk""#,
            "shares = \"bulk\"\ndirection = \"return\"",
            "no link for the data of `ping`",
            "[[hop]] with direction",
            "\"return\"",
        ),
        (r#"name = "core""#, r#"name = "link""#, "two links are called `link`", "", "\"link\""),
        (r#"rate = "1 Gbps""#, "rate = \"1 Gbps\"\nloss = 1.0", "a loss of 1", "0.001", "1.0"),
        (r#"rate = "1 Gbps""#, "rate = \"1 Gbps\"\nqueue = 0", "`queue` of 0", "at least 1", "0"),
        (
            r#"rate = "1 Gbps""#,
            "rate = \"1 Gbps\"\ndiscipline = \"edf\"",
            "stream `bulk` has no `period`",
            "period = \"40 ms\"",
            "\"bulk\"",
        ),
        (
            r#"shares = "bulk""#,
            r#"shares = "bluk""#,
            "unknown stream `bluk`",
            "`bulk`?",
            "\"bluk\"",
        ),
        (
            r#"shares = "bulk""#,
            r#"shares = "ping""#,
            "`ping` shares its own queue",
            "a queue of its own",
            "\"ping\"",
        ),
        (
            r#"shares = "bulk""#,
            "shares = \"bulk\"\nweight = 2",
            "`weight` of a stream that shares the queue of `bulk`",
            "move `weight` there",
            "\"bulk\"",
        ),
        (r#"rtt = "20 ms" }"#, r#"rtt = "0 ms" }"#, "round-trip time of 0", "40 ms", "\"0 ms\""),
        (
            r#"kind = "echo", bytes = 64, interval = "10 ms""#,
            r#"kind = "adaptive", rates = ["2 Mbps", "1 Mbps"]"#,
            "`rates` that are not in increasing order",
            "400 kbit/s",
            "[\"2 Mbps\", \"1 Mbps\"]",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", pause = "1 s", "#,
            "`pause` without `transfer`",
            "100 KB",
            "\"1 s\"",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", interval = "1 s", "#,
            "`interval` without `transfer`",
            "100 KB",
            "\"1 s\"",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", transfer = "1 kB", pause = "1 s", rate = "1 Mbps", "#,
            "`pause` and `rate`: both say when transfers begin",
            "`pause` after the end",
            "\"1 Mbps\"",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", transfer = "30 kb", "#,
            "`30 kb` has an unknown unit",
            "",
            "\"30 kb\"",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", transfer = "9999999 GB", "#,
            "a `transfer` of more than 4,294,967,295 packets",
            "until `stop`",
            "\"9999999 GB\"",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", transfer = { distribution = "pareto", mean = "1 kB" }, "#,
            "the distribution `pareto` without `shape`",
            "shape = 1.2",
            r#"{ distribution = "pareto", mean = "1 kB" }"#,
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", transfer = { table = [[100, 0.5], [50, 1.0]] }, "#,
            "the row [50, 1] after [100, 0.5]",
            "both increasing",
            "{ table = [[100, 0.5], [50, 1.0]] }",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "web", clients = 0, "#,
            "`clients` of 0",
            "from 1 to 10000",
            "0",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", ecn = false, control = "dctcp", "#,
            "reacts to marks, without ECN",
            "cubic",
            "false",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", pacing = false, control = "bbr", "#,
            "control = \"bbr\" without pacing",
            "leave out `pacing`",
            "false",
        ),
        (
            r#"kind = "tcp", "#,
            r#"kind = "tcp", bytes = 52, "#,
            "packets of 52",
            "from 53 to 65535",
            "52",
        ),
        (
            "discipline = \"fifo\"",
            "discipline = \"dwcs\"\nstructure = \"rtl\"",
            "structure `rtl` beside hops",
            "one queue for each stream",
            "\"bulk\"",
        ),
        (
            "discipline = \"fifo\"",
            "discipline = \"dwcs\"\nstructure = \"hilq\"",
            "structure `hilq` beside hops",
            "drops late packets",
            "\"bulk\"",
        ),
        (
            "flows = {}",
            "flows = {}\nlate = \"drop\"",
            "flows or queue management on a stream that drops late packets",
            "take out",
            "{}",
        ),
        (
            "flows = {}",
            "flows = {}\naqm = \"dualpi2\"",
            "`flows` with queue management \"dualpi2\" on a stream",
            "two queues of its own",
            "{}",
        ),
        ("flows = {}", "aqm = \"fq\"", "\"pie\", \"red\"", "kind", "\"fq\""),
        (
            "flows = {}",
            "aqm = { kind = \"pie\", interval = \"9 ms\" }",
            "`interval` with queue management \"pie\"",
            "a parameter of kind \"codel\", \"cobalt\"",
            "{ kind = \"pie\", interval = \"9 ms\" }",
        ),
        (
            "flows = {}",
            "aqm = { target = \"0 ms\" }",
            "a `target` that is 0 or not below the `interval` of CoDel",
            "a twentieth",
            "{ target = \"0 ms\" }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"pie\", update = \"0 ms\" }",
            "a `target` or `update` of PIE below 1 us",
            "15 ms",
            "{ kind = \"pie\", update = \"0 ms\" }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"red\", min = \"9 kB\", max = \"9 kB\" }",
            "a `min` of 9000 B that is not below `max`, 9000 B",
            "a third",
            "{ kind = \"red\", min = \"9 kB\", max = \"9 kB\" }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"red\", max-percent = 0 }",
            "a `max-percent` of 0",
            "from 1 to 100",
            "{ kind = \"red\", max-percent = 0 }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"dualpi2\", coupling = 99 }",
            "a `coupling` of 99",
            "from 1 to 16",
            "{ kind = \"dualpi2\", coupling = 99 }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"dualpi2\", rtt = \"0 ms\" }",
            "an `rtt` outside 0.1 ms to 10 s",
            "rtt = \"100 ms\"",
            "{ kind = \"dualpi2\", rtt = \"0 ms\" }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"dualpi2\", classic-percent = 100 }",
            "a `classic-percent` of 100",
            "from 1 to 99",
            "{ kind = \"dualpi2\", classic-percent = 100 }",
        ),
        (
            "flows = {}",
            "aqm = { kind = \"dualpi2\", classic-percent = 9, time-shift = \"9 ms\" }",
            "a `classic-percent` and a `time-shift`",
            "keep one",
            "{ kind = \"dualpi2\", classic-percent = 9, time-shift = \"9 ms\" }",
        ),
    ];
    for (old, new, message, help, under) in cases {
        let (all, caret) = problems(&network.replacen(old, new, 1));
        assert!(all.contains(message) && all.contains(help), "{new}: {all}");
        assert_eq!(caret, under, "{new}: {all}");
        let once = |line: &&str| line.contains(message);
        assert_eq!(all.lines().filter(once).count(), 1, "{new}: {all}");
    }
}

/// Classes of a network: a stream that shares a queue is in the class of the queue, and a hop's own
/// discipline is that of the root alone.
#[test]
fn a_stream_that_shares_a_queue_is_in_its_class() {
    let network = r#"
[scenario]
duration = "1 s"
[link]
rate = "10 Mbps"
[[hop]]
name = "core"
rate = "1 Gbps"
discipline = "static-priority"
[scheduler]
discipline = "fifo"
[[class]]
name = "urgent"
discipline = "edf"
[[stream]]
name = "bulk"
class = "urgent"
period = "10 ms"
flows = {}
source = { kind = "tcp", rtt = "20 ms" }
[[stream]]
name = "ping"
shares = "bulk"
source = { kind = "echo", bytes = 64, interval = "10 ms", rtt = "20 ms" }
"#;
    let scenario = parse(network).unwrap();
    assert_eq!(scenario.streams[1].class, Some(0));
    assert_eq!(scenario.scheduler().streams(), 2);
    let hop = &scenario.network.as_ref().unwrap().hops[1];
    assert_eq!(scenario.scheduler_of(hop).streams(), 2);
    let own = network.replace("shares = \"bulk\"", "shares = \"bulk\"\nclass = \"urgent\"");
    let (all, under) = problems(&own);
    assert!(all.contains("`class` of a stream that shares the queue of `bulk`"), "{all}");
    assert_eq!(under, "\"bulk\"");
    let (all, under) = problems(&network.replace("\"static-priority\"", "\"edf\""));
    assert!(all.contains("class `urgent` has no `period`"), "{all}");
    assert_eq!(under, "\"urgent\"");
    let fabric = "[fabric]\ntopology = { kind = \"fat-tree\", ports = 4 }\n[[hop]]";
    let (all, _) = problems(&network.replace("[[hop]]", fabric));
    assert!(all.contains("a fabric beside hops") && all.contains("loses no packet"), "{all}");
}

#[test]
fn files_of_another_kind_name_the_right_command() {
    let router = "[router]\n[[port]]\nname = \"a\"\nkind = \"tap\"\nrate = \"1 Gbps\"\n";
    let (all, _) = problems(router);
    assert!(all.contains("this is a router file") && all.contains("`millstream route test.toml`"));
    let link = with_replacement("1/4", "1/4");
    let media = format!("{link}\n[media]\nlisten = \"127.0.0.1:8554\"\n");
    let fabric = format!("{link}\n[fabric]\n");
    for (text, kind, command) in
        [(link, "a link", "run"), (media, "a media server", "serve"), (fabric, "a fabric", "run")]
    {
        let error = RouterScenario::parse("s.toml", &text, Path::new("")).unwrap_err();
        let problem = &error.problems[0];
        let message = format!("this is the scenario of {kind}, not a router file");
        assert_eq!(problem.message, message);
        assert_eq!(problem.help, Some(format!("use `millstream {command} s.toml`")));
    }
}

#[test]
fn a_table_instead_of_a_list_of_tables_is_explained() {
    let text = with_replacement("[[stream]]", "[stream]");
    let single = text.split("[[stream]]").next().unwrap();
    let (all, _) = problems(single);
    assert!(all.contains("write [[stream]], with two brackets"), "{all}");
}

#[test]
fn all_problems_of_a_file_are_reported_together() {
    let text = with_replacement("\"voice\"", "\"video\"").replace("\"dwcs\"", "\"nope\"");
    assert_eq!(parse(&text).unwrap_err().problems.len(), 2);
}

#[test]
fn empty_files_and_files_without_streams_are_errors() {
    assert!(problems("").0.contains("link"));
    let no_streams = "[link]\nrate = \"1 Mbps\"\n[scheduler]\ndiscipline = \"fifo\"\n";
    assert!(problems(no_streams).0.contains("there is no stream"));
}

#[test]
fn ignored_attributes_are_noted() {
    let scenario = parse(&with_replacement("\"dwcs\"", "\"fifo\"")).unwrap();
    assert_eq!(
        scenario.notes,
        [
            "2 streams give `period`, which fifo does not use",
            "1 stream gives `window`, which fifo does not use"
        ]
    );
}

#[test]
fn unicode_names_are_accepted() {
    let scenario = parse(&with_replacement("\"voice\"", "\"Größe 语音 🎙\"")).unwrap();
    assert_eq!(scenario.streams[1].name, "Größe 语音 🎙");
}

#[test]
fn matches_of_streams_are_tables_as_of_paths() {
    let text = |matches: &str| with_replacement("", "") + matches;
    let valid = "match = [{ protocol = \"udp\", dscp = \"EF\" }, \
                 { mark = \"0x100/0xff00\", cgroup = \"/a.slice/b.service\" }]\n";
    let scenario = parse(&text(valid)).unwrap();
    assert!(scenario.streams[0].matches.is_empty());
    let [first, second] = &scenario.streams[1].matches[..] else { panic!("two matches") };
    assert_eq!((first.fields.protocol, first.mark), (Some(17), None));
    assert_eq!(first.fields.dscp, Some(46.into()));
    assert_eq!(second.mark, Some(Mark { value: 0x100, mask: 0xff00 }));
    assert_eq!(
        (first.cgroup.as_deref(), second.cgroup.as_deref()),
        (None, Some("/a.slice/b.service"))
    );
    assert_eq!(second.fields, Match::default());
    for (wrong, under, help) in [
        ("[{ port = \"lan\" }]", "\"lan\"", "does not see the ingress interface"),
        ("[{ vlan = 3 }]", "3", "let nftables set a mark"),
        ("[{ pcp = 9 }]", "9", "does not read VLAN tags"),
        ("[{ protocol = \"upd\" }]", "\"upd\"", "is not a protocol"),
        ("[{ mark = \"1/0\" }]", "\"1/0\"", "all packets match"),
        ("[{ cgroup = \"a.slice\" }]", "\"a.slice\"", "is not the path of a cgroup"),
        ("[{ cgroup = \"/a/../b\" }]", "\"/a/../b\"", "is not the path of a cgroup"),
        ("[{ mrak = 1 }]", "mrak", "did you mean `mark`?"),
        ("{ mark = 1 }", "{ mark = 1 }", "[{ … }]"),
    ] {
        let text = text(&format!("match = {wrong}\n"));
        let (all, found) = problems(&text);
        assert!(all.contains(help) && found == under, "{wrong}: {all} under {found}");
        assert_eq!(all.lines().count(), 1, "{all}");
    }
}

#[test]
fn marks_and_cgroups_are_not_for_paths() {
    let router = "[router]\n[[port]]\nname = \"a\"\nkind = \"tun\"\nrate = \"1 Gbps\"\n\
                  address = \"10.1.0.1/24\"\n[[path]]\nname = \"all\"\nmatch = { mark = 1, \
                  cgroup = \"/a.slice\" }\n";
    let error = RouterScenario::parse("test.toml", router, Path::new("")).unwrap_err();
    let all: Vec<_> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(all, ["a path cannot match `mark`", "a path cannot match `cgroup`"]);
}

#[test]
fn a_command_points_to_a_key_of_a_valid_scenario() {
    let text = with_replacement("", "");
    let scenario = parse(&text).unwrap();
    let under = |place| {
        let error = scenario.error_at(place, "is not supported", "take it out");
        let span = error.problems[0].span.unwrap();
        text[span.offset()..][..span.len()].to_owned()
    };
    assert_eq!(under(("stream", 1, "period")), "\"20 ms\"");
    assert_eq!(under(("stream", 1, "weight")), "\"voice\"");
    assert_eq!(under(("scheduler", 0, "discipline")), "\"dwcs\"");
    let error = scenario.error_at(("class", 0, "name"), "is not supported", "take it out");
    assert_eq!(error.problems[0].span, None);
}
