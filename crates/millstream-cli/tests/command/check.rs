//! Tests of `millstream check`: answers, premises and exit statuses.
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Runs `check` with `options` on a file with `text`; returns status, standard output and standard
/// error.
fn check(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, text).unwrap();
    run("check", &file, options)
}

fn run(command: &str, file: &Path, options: &[&str]) -> (i32, String, String) {
    let mut millstream = Command::cargo_bin("millstream").unwrap();
    let output = millstream.arg(command).arg(file).args(options).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(text: &str, options: &[&str]) -> (i32, Value) {
    let (status, out, _) = check(text, &[&["--json"], options].concat());
    (status, serde_json::from_str(&out).unwrap())
}

/// Returns a scenario of backlogged streams with these periods and windows. A packet has 1,000
/// bytes and takes 1 ms at 8 Mbit/s.
fn backlogged(discipline: &str, streams: &[(&str, &str)]) -> String {
    let mut text =
        format!("[link]\nrate = \"8 Mbps\"\n[scheduler]\ndiscipline = \"{discipline}\"\n");
    for (at, (period, window)) in streams.iter().enumerate() {
        text += &format!(
            "[[stream]]\nname = \"s{at}\"\nperiod = \"{period}\"\nwindow = \"{window}\"\nsource = \
             {{ kind = \"backlog\", packets = 50, bytes = 1000 }}\n"
        );
    }
    text
}

#[test]
fn contracts_beyond_the_link_rate_exit_with_status_3() {
    let text = backlogged("edf", &[("1 ms", "0/1"), ("2 ms", "0/1"), ("10 ms", "0/1")]);
    let (status, value) = json(&text, &[]);
    assert_eq!((status, &value["feasible"]), (3, &Value::Bool(false)));
    for stream in value["streams"].as_array().unwrap() {
        assert_eq!(stream["verdict"], "infeasible");
        assert_eq!(stream["because"], "the contracts need 160.0 % of the link");
        assert_eq!(stream["change"], "link.rate = \"12800000 bit/s\", or looser contracts");
    }
    let (status, out, errors) = check(&text, &[]);
    assert_eq!((status, errors.as_str()), (3, "error: a contract is infeasible\n"));
    assert!(out.contains("infeasible for `s0`, `s1`, `s2`"), "{out}");
}

#[test]
fn a_looser_window_that_repairs_the_contracts_is_named() {
    let window = |streams: &[(&str, &str)]| {
        let (status, value) = json(&backlogged("dwcs", streams), &[]);
        let change = value["streams"][0]["change"].as_str().unwrap();
        (status, change.strip_prefix("link.rate = \"10000000 bit/s\", or ").unwrap().to_owned())
    };
    // 3/4 + 1/2 > 1. With 2/4 it fits; with different periods it is not guaranteed.
    let streams = [("1 ms", "1/4"), ("2 ms", "0/1")];
    assert_eq!(window(&streams), (3, "window = \"2/4\" of `s0`".to_owned()));
    assert_eq!(check(&backlogged("dwcs", &[("1 ms", "2/4"), streams[1]]), &[]).0, 0);
    // With equal periods all windows are guaranteed then.
    let streams = [("2 ms", "1/2"), ("2 ms", "0/1"), ("2 ms", "0/1")];
    assert_eq!(window(&streams), (3, "window = \"1/2\" of `s1`".to_owned()));
    let repaired = backlogged("dwcs", &[streams[0], ("2 ms", "1/2"), streams[2]]);
    let (status, value) = json(&repaired, &["--require-guarantee"]);
    assert_eq!((status, &value["feasible"]), (0, &Value::Bool(true)));
}

#[test]
fn a_guarantee_names_its_theorem_and_its_premises() {
    let text = backlogged("dwcs", &[("2 ms", "1/2"), ("2 ms", "2/3"), ("2 ms", "0/1")]);
    let (status, value) = json(&text, &["--require-guarantee"]);
    assert_eq!((status, &value["feasible"]), (0, &Value::Bool(true)));
    let stream = &value["streams"][1];
    assert_eq!(stream["verdict"], "guaranteed");
    assert_eq!(stream["theorem"], "EDF of unit jobs with equal periods (Horn 1974)");
    assert_eq!(stream["because"], "of each 3 requests at most 2 miss their deadline");
    let premises: Vec<_> = stream["premises"].as_array().unwrap().iter().collect();
    assert!(premises.iter().all(|premise| premise["holds"] == true));
    let names: Vec<_> =
        premises.iter().map(|premise| premise["premise"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "all-arrivals-read",
            "link-alone",
            "order-and-rules",
            "no-gates",
            "first-deadlines",
            "equal-lengths",
            "whole-slots",
            "equal-periods",
            "slots",
            "phases",
            "no-pauses",
            "windows",
            "utilisation",
            "queues"
        ]
    );
}

#[test]
fn unknown_verdicts_name_the_failing_premise_and_the_change() {
    let kept = backlogged("dwcs", &[("2 ms", "1/2"), ("2 ms", "2/3"), ("2 ms", "0/1")]);
    let late = kept.replacen("bytes = 1000 }", "bytes = 1000, start = \"3 ms\" }", 1);
    for (text, premise, change) in [
        (late, "phases", "first-deadline of `s1` later by 1000000 ns"),
        (
            kept.replacen("window = \"1/2\"", "window = \"1/2\"\nmax-rate = \"6 Mbps\"", 1),
            "no-gates",
            "`s0` without `max-rate`",
        ),
        (
            kept.replacen("window = \"0/1\"", "window = \"0/1\"\nqueue = 20", 1),
            "queues",
            "queue = 50 of `s2`",
        ),
        (kept.replacen("2 ms", "3 ms", 1), "demand", "link.rate = \"10666672 bit/s\""),
    ] {
        let (status, value) = json(&text, &[]);
        assert_eq!((status, &value["feasible"]), (0, &Value::Null), "{premise}");
        let stream = &value["streams"][2];
        assert_eq!(stream["verdict"], "not-known");
        let failing: Vec<_> = stream["premises"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|premise| premise["holds"] == false)
            .collect();
        assert!(failing.iter().any(|failing| failing["premise"] == premise), "{stream:#}");
        assert!(failing.iter().all(|failing| failing["detail"].is_string()), "{stream:#}");
        assert!(stream["change"].as_str().unwrap().contains(change), "{stream:#}");
        let (status, _, errors) = check(&text, &["--require-guarantee"]);
        assert_eq!((status, errors.as_str()), (3, "error: a contract is not guaranteed\n"));
    }
}

#[test]
fn edf_that_can_miss_names_a_sufficient_period() {
    // A packet of 10 ms can be in transmission when a packet with a deadline of 3 ms arrives.
    let text = backlogged("edf", &[("3 ms", "0/1"), ("100 ms", "0/1")]);
    let at = text.rfind("bytes = 1000").unwrap();
    let text = format!("{}bytes = 10000{}", &text[..at], &text[at + "bytes = 1000".len()..]);
    let (status, value) = json(&text, &[]);
    assert_eq!((status, &value["feasible"]), (0, &Value::Null));
    assert_eq!(value["streams"][0]["change"], "period = \"10000000 ns\" of `s0`");
    let (status, value) = json(&text.replacen("3 ms", "10 ms", 1), &["--require-guarantee"]);
    assert_eq!((status, &value["feasible"]), (0, &Value::Bool(true)));
}

#[test]
fn packets_larger_than_the_credit_buffer_are_infeasible_and_stay_queued() {
    let text = "[link]\nrate = \"8 Mbps\"\ncredits = { buffer = \"512 B\" }\n[scheduler]\n\
                discipline = \"drr\"\n[[stream]]\nname = \"large\"\nsource = { kind = \"backlog\", \
                packets = 3, bytes = 1000 }\n[[stream]]\nname = \"small\"\nsource = { kind = \
                \"backlog\", packets = 3, bytes = 100 }\n";
    let (status, value) = json(text, &[]);
    assert_eq!(status, 3);
    let [large, small] = [0, 1].map(|at| &value["streams"][at]);
    assert_eq!((&large["verdict"], &small["verdict"]), (&"infeasible".into(), &"not-known".into()));
    assert_eq!(
        large["because"],
        "its packet of 1000 bytes needs 16 credits and the buffer has 8: it is never sent"
    );
    assert_eq!(large["change"], "credits.buffer = \"1024 B\"");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, text).unwrap();
    let (status, out, _) = run("run", &file, &["--json"]);
    assert_eq!(status, 0);
    let summary: Value = serde_json::from_str(&out).unwrap();
    let streams = &summary["streams"];
    assert_eq!((&streams[0]["queued"], &streams[1]["queued"]), (&3.into(), &0.into()));
    assert_eq!((&streams[0]["sent"], &streams[1]["sent"]), (&0.into(), &3.into()));
}

#[test]
fn a_first_deadline_that_has_passed_and_a_cap_below_the_contract_are_infeasible() {
    let kept = backlogged("edf", &[("2 ms", "0/1")]);
    let passed = kept.replacen("window", "first-deadline = \"1 ms\"\nwindow", 1);
    let passed = passed.replacen("bytes = 1000 }", "bytes = 1000, start = \"5 ms\" }", 1);
    let capped = kept.replacen("window", "max-rate = \"3 Mbps\"\nwindow", 1);
    for (text, because, change) in [
        (
            passed,
            "its first packet arrives at 5000000 ns, its first deadline is 1000000 ns",
            "first-deadline = \"7000000 ns\"",
        ),
        (
            capped,
            "its contract needs 4000000 bit/s and max-rate is 3000000 bit/s",
            "max-rate = \"4000000 bit/s\"",
        ),
    ] {
        let (status, value) = json(&text, &[]);
        let stream = &value["streams"][0];
        assert_eq!(
            (status, &stream["because"], &stream["change"]),
            (3, &because.into(), &change.into())
        );
    }
}

#[test]
fn the_tightest_guaranteed_windows_are_printed_with_different_periods() {
    let text = backlogged("vds", &[("1 ms", "11/12"), ("3 ms", "2/4"), ("4 ms", "3/3")]);
    let (status, value) = json(&text, &[]);
    assert_eq!((status, &value["feasible"]), (0, &Value::Bool(true)), "{value}");
    let tightest: Vec<_> =
        value["streams"].as_array().unwrap().iter().map(|of| &of["tightest_window"]).collect();
    // The second counts with all its packets, a third. The first may need two thirds, and one of 12
    // needs a twelfth; the third stream may need a quarter.
    assert_eq!(tightest, ["11/12", "0/4", "0/3"]);
    let (_, out, _) = check(&text, &[]);
    let line = "tightest guaranteed windows, each beside the others' own: `s1` 0/4 instead of 2/4, \
                `s2` 0/3 instead of 3/3";
    assert!(out.contains(line), "{out}");
    // DWCS needs equal periods; VDS keeps these with a looser window.
    let change = |windows: [&str; 2]| {
        let text = backlogged("dwcs", &[("1 ms", windows[0]), ("2 ms", windows[1])]);
        json(&text, &[]).1["streams"][0]["change"].as_str().unwrap().to_owned()
    };
    assert!(change(["1/2", "1/2"]).ends_with(", or discipline vds"));
    let looser = change(["2/4", "0/3"]);
    assert!(looser.ends_with(", or discipline vds with window = \"3/4\" of `s0`"), "{looser}");
}

#[test]
fn reservations_beyond_the_processor_exit_with_status_3() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/router/router.toml");
    let (status, out, errors) = run("check", &example, &["--json", "--require-guarantee"]);
    assert_eq!(status, 0, "{errors}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["verdict"], "guaranteed");
    assert_eq!(value["paths"][0]["verdict"], "guaranteed");
    assert_eq!(value["paths"][1]["verdict"], Value::Null, "best effort has no contract");
    let text = fs::read_to_string(&example).unwrap().replacen("50 kpps", "50 Mpps", 1);
    let (status, out, errors) = check(&text, &[]);
    assert_eq!((status, errors.as_str()), (3, "error: a contract is infeasible\n"));
    assert!(out.contains("50000 Mcps") || out.contains("more than available"), "{out}");
    let text = fs::read_to_string(&example).unwrap().replace("\"wf2q+\"", "\"fifo\"");
    let (status, _, errors) = check(&text, &["--require-guarantee"]);
    assert_eq!((status, errors.as_str()), (3, "error: a contract is not guaranteed\n"));
}

#[test]
fn deadlines_at_a_port_of_a_router_hold_if_a_packet_a_period_fits() {
    let verdict = |period: &str, more: &str| {
        let text = format!(
            "[router]\nname = \"r\"\n[[port]]\nname = \"lan\"\nkind = \"tap\"\nrate = \"1 \
             Gbit/s\"\n[[port]]\nname = \"wan\"\nkind = \"tap\"\nrate = \"10 Mbit/s\"\ndiscipline \
             = \"edf\"\nline-burst = \"100 us\"\n[[route]]\nprefix = \"10.0.0.0/8\"\nport = \
             \"wan\"\nneighbour = \"02:00:00:00:00:01\"\n[[path]]\nname = \"voice\"\nto = \
             \"wan\"\nreservation = \"1 Mcps\"\nperiod = \"{period}\"\n{more}match = {{ protocol \
             = \"udp\" }}\n[[path]]\nname = \"bulk\"\nto = \"wan\"\nperiod = \"50 ms\"\n"
        );
        let (status, out, errors) = check(&text, &["--json"]);
        assert_eq!(status, 0, "{errors}");
        let value: Value = serde_json::from_str(&out).unwrap();
        let [answer, because] =
            ["verdict", "because"].map(|key| value["paths"][0][key].as_str().unwrap().to_owned());
        (answer, because)
    };
    let (answer, because) = verdict("20 ms", "");
    assert_eq!(answer, "guaranteed", "{because}");
    assert!(because.contains("the deadlines of packets of at most 1514 bytes"), "{because}");
    // A packet takes 1.2 ms, and the device is ahead by 0.1 ms.
    let (answer, because) = verdict("1300 us", "");
    assert_eq!(answer, "not-known");
    assert!(because.starts_with("with `voice` at `wan`, packets due within 1"), "{because}");
    let (_, because) = verdict("1 ms", "");
    assert!(
        because.starts_with("with `voice` at `wan`, a packet in each period needs"),
        "{because}"
    );
    let (_, because) = verdict("20 ms", "max-rate = \"1 Mbit/s\"\n");
    assert!(because.ends_with("a rate cap or credits can hold its packets back"), "{because}");
}

#[test]
fn a_media_file_too_fast_for_the_link_exits_with_status_3() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/media");
    let example = folder.join("scenario.toml");
    let (status, out, errors) = run("check", &example, &["--json", "--require-guarantee"]);
    assert_eq!(status, 0, "{errors}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["admission"][0]["name"], "clip");
    assert_eq!(value["admission"][0]["room"], 10);
    let text = fs::read_to_string(&example).unwrap();
    let data = folder.join("../data/").display().to_string();
    let slow = text.replace("20 Mbit/s", "500 kbit/s").replace("../data/", &data);
    let (status, out, _) = check(&slow, &[]);
    assert_eq!(status, 3, "{out}");
    assert!(out.contains("infeasible for clients of `clip`"), "{out}");
}

/// Two links of 8 Mbit/s with delays; packets of 1,000 bytes take 1 ms on each.
const SERIES: &str = r#"
    [scenario]
    duration = "1 s"
    [link]
    rate = "8 Mbit/s"
    delay = "2 ms"
    [[hop]]
    name = "second"
    rate = "8 Mbit/s"
    delay = "3 ms"
    [scheduler]
    discipline = "wf2q+"
    [[stream]]
    name = "one"
    source = { kind = "cbr", bytes = 1000, interval = "4 ms" }
    [[stream]]
    name = "two"
    source = { kind = "cbr", bytes = 1000, interval = "4 ms" }
"#;

#[test]
fn links_in_series_have_bounds_on_each_link_and_on_the_whole_way() {
    let (code, explanation) = json(SERIES, &[]);
    assert_eq!(code, 0);
    let one = &explanation["streams"][0];
    assert_eq!(one["verdict"], "guaranteed");
    // On the first link, a packet waits for one of the other stream. The packets of both may come
    // to the second link closer together.
    let hops = one["hops"].as_array().unwrap();
    let of = |key: &str| hops.iter().map(|hop| hop[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("link"), ["link", "second"]);
    assert_eq!(of("worst_backlog_packets"), [1, 2]);
    let numbers = |key: &str| of(key).iter().map(|of| of.as_u64().unwrap()).collect::<Vec<_>>();
    assert!(numbers("worst_delay_ns").iter().all(|ns| (2_000_000..4_000_000).contains(ns)));
    let sum_ns: u64 = numbers("worst_delay_ns").iter().sum();
    // The delay between the links counts; that behind the last does not.
    assert_eq!(one["sum_of_hops_ns"], sum_ns + 2_000_000);
    assert!(one["series_ns"].as_u64().unwrap() >= 6_000_000);
}

#[test]
fn dimension_prints_the_queues_of_every_link() {
    let (code, out, _) = check(SERIES, &["--dimension"]);
    assert_eq!(code, 0);
    let table = &out[out.find("least queues").unwrap()..];
    let rows: Vec<Vec<_>> =
        table.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert_eq!(rows[0][..3], ["one", "link", "1"], "{table}");
    assert_eq!(rows[3][..3], ["two", "second", "2"], "{table}");
}

#[test]
fn a_stream_beside_unknown_traffic_in_series_is_not_known_and_names_it() {
    let tcp = "[[stream]]\nname = \"tcp\"\nsource = { kind = \"tcp\", rtt = \"10 ms\" }\n";
    let text = SERIES.replace("wf2q+", "static-priority") + tcp;
    let (code, explanation) = json(&text, &[]);
    assert_eq!(code, 0);
    let one = &explanation["streams"][0];
    assert_eq!(one["verdict"], "not-known");
    let because = one["because"].as_str().unwrap();
    assert!(because.starts_with("`tcp` may go before it"), "{because}");
    assert!(because.ends_with("at `link`"), "{because}");
}

/// A flood with a cap beside a stream under FIFO.
#[test]
fn a_cap_bounds_a_flood() {
    let of = |cap: &str| {
        let head = "[link]\nrate = \"8 Mbit/s\"\n[scheduler]\ndiscipline = \"fifo\"\n";
        let cbr = |pace: &str| format!("source = {{ kind = \"cbr\", bytes = 1000, {pace} }}\n");
        let one = cbr("interval = \"4 ms\"");
        let flood = cbr("rate = \"20 Mbit/s\"");
        format!(
            "[scenario]\nduration = \"1 s\"\n{head}[[stream]]\nname = \"one\"\n{one}\
             [[stream]]\nname = \"flood\"\n{cap}{flood}"
        )
    };
    let (_, free) = json(&of(""), &[]);
    assert_eq!(free["streams"][0]["verdict"], "not-known");
    let (_, capped) = json(&of("max-rate = \"2 Mbit/s\"\nburst = \"2 kB\"\n"), &[]);
    assert_eq!(capped["streams"][0]["verdict"], "guaranteed");
    // 1,000 of its own and 2,000 bytes of the burst at 6 Mbit/s.
    assert_eq!(capped["streams"][0]["worst_delay_ns"], 4_000_000);
    assert_eq!(capped["streams"][1]["verdict"], "not-known");
}

/// Credits for two packets of 100 bytes, which take 100 µs each and return 500 µs later.
#[test]
fn credits_are_a_window_of_packets() {
    let of = |source: &str| {
        format!(
            "[link]\nrate = \"8 Mbit/s\"\ncredits = {{ buffer = \"256 B\", return-delay = \"500 \
             us\" }}\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\nname = \"one\"\nsource = {{ \
             bytes = 100, {source} }}\n"
        )
    };
    let paced = "kind = \"cbr\", interval = \"400 us\", stop = \"40 ms\"";
    let (_, paced) = json(&of(paced), &[]);
    // Two packets arrive in 600 µs: credits never run out.
    assert_eq!(paced["streams"][0]["worst_delay_ns"], 100_000);
    let burst = "kind = \"generator\", packets = 4, interval = \"1 us\", pause-after = 3, pause = \
                 \"10 ms\"";
    let (_, bursts) = json(&of(burst), &[]);
    assert_eq!(bursts["streams"][0]["verdict"], "guaranteed", "{bursts:#}");
    // 300 bytes at 100 bytes in each (100 + 500) / 2 µs, 2,666,666 bit/s.
    assert_eq!(bursts["streams"][0]["worst_delay_ns"], 900_001);
    let fast = "kind = \"cbr\", interval = \"250 us\", stop = \"40 ms\"";
    let (_, fast) = json(&of(fast), &[]);
    assert_eq!(fast["streams"][0]["verdict"], "not-known");
}

/// A stream that its window allows to lose packets has a bound on the delay of those that are sent.
#[test]
fn a_contract_without_a_guarantee_has_a_bound_on_the_delay() {
    let text = "[link]\nrate = \"8 Mbit/s\"\n[scheduler]\ndiscipline = \"edf\"\n\
                [[stream]]\nname = \"short\"\nperiod = \"500 us\"\n\
                source = { kind = \"cbr\", bytes = 100, interval = \"2 ms\", stop = \"1 s\" }\n\
                [[stream]]\nname = \"long\"\nperiod = \"9 ms\"\n\
                source = { kind = \"cbr\", bytes = 1000, interval = \"9 ms\", stop = \"1 s\" }\n";
    let (_, explanation) = json(text, &[]);
    let short = &explanation["streams"][0];
    assert_eq!(short["verdict"], "not-known", "{short:#}");
    // Both arrive at once: 1.1 ms.
    assert_eq!(short["worst_delay_ns"], 1_100_000, "{short:#}");
    let theorem = short["delay_theorem"].as_str().unwrap();
    assert!(theorem.starts_with("the busy period"), "{theorem}");
}

#[test]
fn a_path_with_reservations_in_packets_has_a_bound_from_reception_on() {
    let port = |name: &str, rate: &str, input: &str, output: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"tap\"\nrate = \"{rate}\"\ncost = \"200 ns\"\n\
             input-reservation = \"{input}\"\noutput-reservation = \"{output}\"\n\
             longest-sleep = \"10 us\"\nline-burst = \"3 ms\"\n"
        )
    };
    let router = format!(
        "[router]\nbatch = 16\ngather = \"0 us\"\n{}{}\
         [[route]]\nprefix = \"10.0.0.0/8\"\nport = \"wan\"\nneighbour = \"02:00:00:00:00:01\"\n\
         [[path]]\nname = \"voice\"\nto = \"wan\"\nmax-rate = \"1 Mbit/s\"\nburst = \"3000 B\"\n\
         queue = 512\nmatch = {{ protocol = \"udp\", port = \"lan\" }}\n\
         reservation = \"50 kpps\"\ncost = \"200 ns\"\n\
         [[path]]\nname = \"bulk\"\nto = \"wan\"\nweight = 3\nqueue = 256\n\
         reservation = \"100 kpps\"\ncost = \"200 ns\"\n",
        port("lan", "1 Gbit/s", "150 kpps", "25 kpps"),
        port("wan", "10 Mbit/s", "25 kpps", "150 kpps"),
    );
    let (_, explanation) = json(&router, &[]);
    let [voice, bulk] = [0, 1].map(|path: usize| &explanation["paths"][path]);
    // As the tests of the router's bounds, with packets of 14 bytes more: 11.2 µs.
    let link_ns = voice["link_delay_bound_ns"].as_u64().unwrap();
    assert_eq!(link_ns, 31_184_002 + 11_200);
    let jitter_ns = voice["delay_bound_ns"].as_u64().unwrap() - link_ns;
    assert!((500_000..800_000).contains(&jitter_ns), "{jitter_ns}");
    assert_eq!(bulk["no_delay_bound"], "it has no `max-rate`: any burst may arrive");
    let (_, text, _) = check(&router.replace("gather = \"0 us\"\n", ""), &[]);
    let line = "delay with waits for the processor not known: paths wait for full batches";
    assert!(text.contains(line), "{text}");
}
