//! Messages for wrong inputs, all in one table: `snapshots/*.snap`. Each must name the file, the
//! line or field and the value, and say what would be right.
//!
//! After a change, `INSTA_UPDATE=always cargo test -p millstream-cli --test command messages`
//! writes the table again; read its difference.
use assert_cmd::Command;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

const LINK: &str = r#"[scenario]
duration = "1 s"

[link]
rate = "10 Mbit/s"

[scheduler]
discipline = "dwcs"

[[stream]]
name = "voice"
period = "20 ms"
window = "0/1"
source = { kind = "cbr", bytes = 200, interval = "20 ms" }

[[stream]]
name = "web"
period = "10 ms"
source = { kind = "poisson", bytes = 1500, rate = "4 Mbit/s" }
"#;

const MEDIA: &str = r#"[scenario]
duration = "1 s"

[media]
listen = "127.0.0.1:0"

[link]
rate = "10 Mbit/s"

[scheduler]
discipline = "dwcs"

[[stream]]
name = "clip"
period = "40 ms"
source = { kind = "live", rate = "2 Mbit/s" }
"#;

const ROUTER: &str = r#"[router]
name = "edge"

[[port]]
name = "lan"
kind = "tap"
rate = "1 Gbit/s"
mac = "02:00:00:00:00:01"
address = "10.1.0.1/24"

[[port]]
name = "wan"
kind = "tap"
rate = "100 Mbit/s"
mac = "02:00:00:00:00:02"
address = "10.2.0.1/24"

[[path]]
name = "voice"
match = { protocol = "udp", dscp = 46 }
reservation = "90 kpps"
cost = "1 us"
to = "wan"

[[path]]
name = "rest"

[[route]]
prefix = "0.0.0.0/0"
port = "wan"
via = "10.2.0.254"
"#;

const QDISC: &str = r#"[scenario]
duration = "1 s"

[link]
rate = "10 Mbit/s"

[scheduler]
discipline = "dwcs"

[[stream]]
name = "voice"
period = "20 ms"
match = [{ dscp = "EF" }, { mark = "0x100/0xff00" }]
source = { kind = "cbr", bytes = 200, interval = "20 ms" }

[[stream]]
name = "web"
period = "10 ms"
source = { kind = "poisson", bytes = 1500, rate = "4 Mbit/s" }
"#;

/// A replacement in a valid file, each a wrong input.
type Edit = (&'static str, &'static str);

const LINK_EDITS: &[Edit] = &[
    ("\"10 Mbit/s\"", "\"10 mbps\""),
    ("\"10 Mbit/s\"", "\"10\""),
    ("\"10 Mbit/s\"", "\"0 Mbit/s\""),
    ("\"10 Mbit/s\"", "\"fast\""),
    ("\"10 Mbit/s\"", "10"),
    ("rate = \"10 Mbit/s\"", ""),
    ("rate = \"10 Mbit/s\"", "speed = \"10 Mbit/s\""),
    ("\"dwcs\"", "\"dwsc\""),
    ("discipline = \"dwcs\"", ""),
    ("\"dwcs\"", "\"dwcs\"\nstructure = \"haep\""),
    ("\"dwcs\"", "\"table\""),
    ("\"0/1\"", "\"3/2\""),
    ("\"0/1\"", "\"half\""),
    ("\"0/1\"", "0.5"),
    ("\"20 ms\"\nwindow", "\"20\"\nwindow"),
    ("\"20 ms\"\nwindow", "\"0 ms\"\nwindow"),
    ("period = \"20 ms\"", ""),
    ("\"voice\"", "\"\""),
    ("\"voice\"", "\"web\""),
    ("bytes = 200", "bytes = -1"),
    ("bytes = 200", "bytes = \"200\""),
    ("bytes = 200", "bytes = 5_000_000_000"),
    ("bytes = 200, ", ""),
    ("\"cbr\"", "\"crb\""),
    ("kind = \"cbr\", bytes = 200, interval = \"20 ms\"", "kind = \"pcap\""),
    ("kind = \"cbr\", bytes = 200, interval = \"20 ms\"", "kind = \"pcap\", file = \"none.pcap\""),
    (
        "kind = \"cbr\", bytes = 200, interval = \"20 ms\"",
        "kind = \"pcap\", file = \"none.pcap\", match = \"upd\"",
    ),
    ("kind = \"cbr\", bytes = 200, interval = \"20 ms\"", "kind = \"trace\", file = \"rows.csv\""),
    ("bytes = 200", "bytes = 200, packets = 3"),
    ("window = \"0/1\"", "weight = 0"),
    ("window = \"0/1\"", "priority = -1"),
    ("window = \"0/1\"", "queue = 1.5"),
    ("window = \"0/1\"", "burst = \"16 kB\""),
    ("window = \"0/1\"", "class = \"calls\""),
    ("window = \"0/1\"", "windows = \"0/1\""),
    ("[[stream]]\nname = \"voice\"", "[stream]\nname = \"voice\""),
    ("[link]", "[link"),
    ("duration = \"1 s\"", ""),
    ("duration = \"1 s\"", "duration = \"1 s\"\nseed = -1"),
    ("interval = \"20 ms\"", "interval = \"20 ms\", start = \"1 s\", stop = \"1 s\""),
    ("\"4 Mbit/s\"", "\"4 Mbit/s\", peak-rate = \"9 Mbit/s\""),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\noverhead = -65"),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\noverhead = \"ethernets\""),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\noverhead = \"pppoe-vcmux\"\nframing = \"ptm\""),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\nframing = \"vdsl\""),
    ("window = \"0/1\"", "match = { dscp = 46 }"),
    ("window = \"0/1\"", "match = [{ vlan = 3 }]"),
    ("window = \"0/1\"", "match = [{ mark = \"0x1ff/0xff00\" }]"),
    ("window = \"0/1\"", "match = [{ cgroup = \"ssh.service\" }]"),
];

const QDISC_EDITS: &[Edit] = &[
    ("\"dwcs\"", "\"fifo\""),
    ("\"dwcs\"", "\"dwcs\"\nrules = \"rtas99\""),
    ("match =", "# match ="),
    ("\"web\"", "\"web\"\nmatch = [{ mark = 2 }]"),
    ("\"web\"", "\"web\"\naqm = \"pie\""),
    ("\"web\"", "\"web\"\nflows = { hosts = \"source\" }"),
    ("\"web\"", "\"web\"\nflows = { by = \"dscp\" }"),
    ("\"web\"", "\"web\"\nflows = { buckets = 5000 }"),
    ("dscp = \"EF\"", "protocol = \"0\""),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\nframing = \"atm\""),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\noverhead = -6"),
    ("\"10 Mbit/s\"", "\"10 Mbit/s\"\ncredits.buffer = \"6400 B\""),
];

const ROUTER_EDITS: &[Edit] = &[
    ("rate = \"1 Gbit/s\"", ""),
    ("\"10.1.0.1/24\"", "\"10.1.0.1\""),
    ("\"10.1.0.1/24\"", "\"10.1.0.300/24\""),
    ("\"02:00:00:00:00:01\"", "\"02-00\""),
    ("cost = \"1 us\"", ""),
    ("to = \"wan\"", "to = \"wam\""),
    ("port = \"wan\"", "port = \"dmz\""),
    ("dscp = 46", "dscp = 64"),
    ("dscp = 46", "mark = 1"),
    ("dscp = 46", "cgroup = \"/ssh.service\""),
    ("protocol = \"udp\"", "protocol = \"upd\""),
    ("\"90 kpps\"", "\"90\""),
    ("name = \"rest\"", "name = \"voice\""),
    ("kind = \"tap\"\nrate = \"1 G", "kind = \"tpa\"\nrate = \"1 G"),
    ("[[route]]", "[route]"),
    ("via = \"10.2.0.254\"", "via = \"10.9.0.254\""),
];

const MEDIA_EDITS: &[Edit] = &[
    ("\"127.0.0.1:0\"", "\"127.0.0.1\""),
    ("kind = \"live\", rate = \"2 Mbit/s\"", "kind = \"mpeg\", file = \"none.mpg\""),
    ("listen", "lisen"),
];

const NETWORK: &str = r#"[scenario]
duration = "1 s"

[link]
rate = "10 Mbit/s"

[scheduler]
discipline = "fifo"

[[stream]]
name = "flows"
source = { kind = "tcp", rtt = "20 ms", interval = "10 ms", transfer = "30 kB" }
"#;

const NETWORK_EDITS: &[Edit] = &[
    ("\"30 kB\"", "\"30 kb\""),
    ("\"30 kB\"", "30"),
    ("\"30 kB\"", "{ distribution = \"exponental\", mean = \"30 kB\" }"),
    ("\"30 kB\"", "{ distribution = \"exponential\" }"),
    ("\"30 kB\"", "{ mean = \"30 kB\" }"),
    ("\"30 kB\"", "{ distribution = \"pareto\", mean = \"30 kB\", shape = 0.9 }"),
    ("\"30 kB\"", "{ distribution = \"lognormal\", mean = \"30 kB\", sigma = 5.0 }"),
    ("\"30 kB\"", "{ distribution = \"exponential\", mean = \"30 kB\", largest = \"100 kB\" }"),
    ("\"30 kB\"", "{ distribution = \"web-search\", mean = \"30 kB\" }"),
    ("\"30 kB\"", "{ distribution = \"exponential\", mean = \"30 kB\", sigma = 1.0 }"),
    ("\"30 kB\"", "{ table = [[1000, 0.5], [2000, 0.9]] }"),
    ("\"30 kB\"", "{ table = [[1000, 0.5], [2000, 50]] }"),
    (", transfer = \"30 kB\"", ""),
    (", transfer", ", pause = \"1 s\", transfer"),
    ("\"tcp\"", "\"web\""),
    (
        "\"tcp\", rtt = \"20 ms\", interval = \"10 ms\", transfer = \"30 kB\"",
        "\"web\", rtt = \"20 ms\", objects = 20000",
    ),
];

/// Command lines that are wrong whatever the file has.
const COMMANDS: &[&[&str]] = &[
    &["run", "router.toml"],
    &["sweep", "router.toml", "--seeds", "2"],
    &["route", "link.toml"],
    &["route", "media.toml"],
    &["serve", "link.toml"],
    &["run", "none.toml"],
    &["run", "."],
    &["run", "latin1.toml"],
    &["run", "link.toml", "--departures", "-", "--json"],
    &["run", "link.toml", "--report", "link.toml"],
    &["run", "link.toml", "--set", "scheduler.discipline=fifo,drr"],
    &["run", "link.toml", "--set", "stream.vioce.weight=2"],
    &["run", "link.toml", "--set", "weight"],
    &["run", "link.toml", "--seed", "one"],
    &["run", "link.toml", "--trace", "t.json"],
    &["run", "link.toml", "--pcap", "out.pcap"],
    &["check", "router.toml", "--set", "router.batch=1"],
    &["sweep", "link.toml", "--out", "x.xlsx"],
    &["sweep", "link.toml", "--seeds", "0"],
    &["sweep", "link.toml", "--until", "dealy_mean=2%"],
    &["sweep", "link.toml", "--workers", "0"],
    &["attach", "lo"],
    &["attach", "lo", "router.toml"],
    &["attach", "lo", "media.toml"],
    &["attach", "lo", "qdisc.toml", "--json"],
    &["attach", "lo", "qdisc.toml", "--status"],
    &["attach", "lo", "--prometheus"],
    &["attach", "lo", "qdisc.toml", "--gso-max-segs", "0"],
    &["attach", "lo", "qdisc.toml", "--via", "htb"],
    &["attach", "lo", "qdisc.toml", "--dry-run"],
    &["attach", "lo", "--status", "--via", "tc"],
    &["top", "9817"],
    &["top", "127.0.0.1"],
    &["route", "router.toml", "--for", "10"],
    &["plan", "--streams", "4", "--bytes", "64", "--rate", "10 gbps"],
    &["init", "uplink", "--calls", "3"],
    &["examples", "uplnk"],
    &["rnu", "link.toml"],
];

/// Runs the command in `folder`; returns its messages and the exit status.
fn messages(folder: &TempDir, arguments: &[&str]) -> String {
    let output = Command::cargo_bin("millstream")
        .unwrap()
        .current_dir(folder.path())
        .args(arguments)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{arguments:?} is accepted");
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    format!("{}exit status {}\n", lines.concat(), output.status.code().unwrap())
}

#[test]
fn an_unknown_interface_is_an_error_before_anything_is_attached() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("qdisc.toml"), QDISC).unwrap();
    let text = messages(&folder, &["attach", "no-such-if", "qdisc.toml"]);
    assert!(text.contains("there is no interface `no-such-if`"), "{text}");
    assert!(text.contains("help: interfaces: ") && text.ends_with("exit status 2\n"), "{text}");
    let text = messages(&folder, &["attach", "no-such-if", "--status"]);
    assert!(text.contains("there is no interface `no-such-if`"), "{text}");
}

#[test]
fn an_interface_without_the_qdisc_has_no_status() {
    let folder = TempDir::new().unwrap();
    for arguments in [&["attach", "lo", "--status"][..], &["detach", "lo"]] {
        let text = messages(&folder, arguments);
        // Others than root may not see it.
        let detached = text.contains("no qdisc of Millstream is attached to lo");
        assert!(detached || text.contains("the qdisc needs root"), "{text}");
        assert!(text.ends_with("exit status 1\n"), "{text}");
    }
}

#[test]
fn messages_for_wrong_inputs() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("rows.csv", "time_ns,stream,bytes\n5,voice,100\n4,voice,100\n");
    fs::write(folder.path().join("latin1.toml"), b"# caf\xe9\n").unwrap();
    let mut table = String::new();
    let files = [
        ("link.toml", LINK, LINK_EDITS, "run"),
        ("router.toml", ROUTER, ROUTER_EDITS, "check"),
        ("media.toml", MEDIA, MEDIA_EDITS, "check"),
        ("network.toml", NETWORK, NETWORK_EDITS, "check"),
        ("qdisc.toml", QDISC, QDISC_EDITS, "attach lo"),
    ];
    let mut number = 0;
    let mut add = |title: &str, arguments: &[&str]| {
        number += 1;
        let _ = writeln!(table, "## {number}. {title}\n\n{}", messages(&folder, arguments));
    };
    for (name, text, edits, command) in files {
        for (old, new) in edits {
            assert_eq!(text.matches(old).count(), 1, "{old}");
            put(name, &text.replace(old, new));
            let shown = |text: &str| text.replace('\n', " ⏎ ");
            let title = format!("{command} {name}: {} → {}", shown(old), shown(new));
            let words: Vec<_> = command.split(' ').chain([name]).collect();
            add(&title, &words);
        }
        put(name, text);
    }
    for arguments in COMMANDS {
        add(&format!("millstream {}", arguments.join(" ")), arguments);
    }
    insta::assert_snapshot!(table);
}
