//! Tests of the exit status of each command, and of outputs: on a full disk, or in one file with
//! another output or an input.
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const LINK: &str = r#"
[scenario]
duration = "300 ms"
[link]
rate = "10 Mbps"
[scheduler]
discipline = "fifo"
[[stream]]
name = "all"
source = { kind = "cbr", bytes = 125, interval = "100 us" }
"#;

const FABRIC: &str = r#"
[scenario]
duration = "1 ms"
[link]
rate = "1 Gbps"
[fabric]
topology = { kind = "folded-shuffle", arity = 2, levels = 2 }
[scheduler]
discipline = "wfq"
[[stream]]
name = "calls"
source = { kind = "cbr", bytes = 200, interval = "100 us", load = 0.2 }
"#;

const ROUTER: &str = r#"
[router]
[[port]]
name = "lan"
kind = "pcap"
input = "uplink.pcap"
mac = "02:00:00:00:00:01"
rate = "1 Gbps"
[[port]]
name = "wan"
kind = "pcap"
output = "OUT"
mac = "02:00:00:00:00:02"
rate = "1 Gbps"
[[route]]
prefix = "0.0.0.0/0"
port = "wan"
neighbour = "02:00:00:00:00:03"
[[path]]
name = "all"
"#;

/// Returns a folder with all files that the rows below name.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("link.toml", LINK);
    put("fabric.toml", FABRIC);
    put("wrong.toml", &LINK.replace("10 Mbps", "10 apples"));
    put("endless.toml", &LINK.replace("300 ms", "3000 s"));
    let source = "kind = \"cbr\", bytes = 125, interval = \"100 us\"";
    put("trace.toml", &LINK.replace(source, "kind = \"trace\", file = \"trace.csv\""));
    // The third row is invalid, so the run fails after its start.
    put("trace.csv", "time_ns,stream,bytes\n0,all,100\n5,all,100\n4,all,100\n");
    put("uplink.toml", &LINK.replace(source, "kind = \"pcap\", file = \"uplink.pcap\""));
    put("router.toml", &ROUTER.replace("OUT", "out.pcap"));
    put("router-in.toml", &ROUTER.replace("OUT", "./uplink.pcap"));
    let more = "[[port]]\nname = \"more\"\nkind = \"pcap\"\noutput = \"./out.pcap\"\n\
                mac = \"02:00:00:00:00:04\"\nrate = \"1 Gbps\"\n[[route]]";
    put("router-twice.toml", &ROUTER.replace("OUT", "out.pcap").replace("[[route]]", more));
    put("router-full.toml", &ROUTER.replace("OUT", "/dev/full"));
    put("router-wasm.toml", &format!("{ROUTER}extension = {{ module = \"bad.wasm\" }}\n"));
    put("bad.wasm", "no module");
    let measured = r#"[{"work":"decision","structure":"heap","streams":4,"missed_percent":63,
        "deadlines":"spread","misses":0.0,"ns":10.0,"tenth_ns":9.0,"least_ns":8.0}]"#;
    put("bench.json", measured);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/uplink.pcap");
    fs::copy(data, folder.path().join("uplink.pcap")).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs `millstream` with `line` of arguments in `folder`.
fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("millstream"));
    command.current_dir(folder).args(line.split(' ')).output().unwrap()
}

/// Returns standard error as one line, without the frame of messages.
fn errors(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

const PLAN: &str = "plan --streams 4 --bytes 64 --rate 1Gbps --software bench.json --figure";

#[test]
fn each_command_exits_with_the_documented_status() {
    let plan = |figure: &str| format!("{PLAN} {figure}");
    let rows: &[(i32, &str, &str)] = &[
        (0, "run link.toml", ""),
        (0, "run link.toml --departures - --summary s.json --report r.html", ""),
        (0, "run link.toml --departures /dev/null --summary /dev/null", ""),
        (0, "run link.toml --summary /dev/stdout", ""),
        (0, "run uplink.toml --pcap copy.pcap", ""),
        (0, "run fabric.toml --trace t.json --summary s.json", ""),
        (0, "check link.toml", ""),
        (0, "check router.toml", ""),
        (0, "route router.toml", ""),
        (0, "sweep link.toml --seeds 2 --out d.csv", ""),
        (0, &plan("f.svg"), ""),
        (0, "schema", ""),
        (0, "--help", ""),
        // The run failed.
        (1, "run link.toml --departures /dev/full", "--departures"),
        (1, "run link.toml --summary /dev/full", "--summary"),
        (1, "run link.toml --report /dev/full", "--report"),
        (1, "run uplink.toml --pcap /dev/full", "--pcap"),
        (1, "run fabric.toml --trace /dev/full", "--trace"),
        (1, "route router-full.toml", "No space left"),
        (1, &plan("/dev/full"), "--figure"),
        (1, "top 127.0.0.1:1 --count 1", "127.0.0.1:1"),
        // The command line or a file is invalid.
        (2, "run", "FILE"),
        (2, "run link.toml --nonsense", "--nonsense"),
        (2, "run absent.toml", "absent.toml"),
        (2, "run wrong.toml", "apples"),
        (2, "check wrong.toml", "apples"),
        (2, "check absent.toml", "absent.toml"),
        (2, "run trace.toml", "line 4"),
        (2, "run link.toml --pcap x.pcap", "no capture"),
        (2, "run link.toml --trace t.json", "--trace"),
        (2, "run link.toml --departures no/d.csv", "no/d.csv"),
        (2, "run link.toml --summary no/s.json", "no/s.json"),
        (2, "run link.toml --report .", "."),
        (2, "run uplink.toml --pcap no/x.pcap", "no/x.pcap"),
        (2, "run fabric.toml --trace no/t.json", "no/t.json"),
        (2, &plan("no/f.svg"), "no/f.svg"),
        (2, "sweep link.toml --out no/d.csv", "no/d.csv"),
        (2, "sweep link.toml --set link.rate=apples", "apples"),
        (2, "check router-wasm.toml", "bad.wasm"),
        (2, "route router-wasm.toml", "bad.wasm"),
        (2, "route absent.toml", "absent.toml"),
        (2, "serve absent.toml", "absent.toml"),
        (2, "serve link.toml", "stream"),
    ];
    let folder = folder();
    for (status, line, expected) in rows {
        let output = run(folder.path(), line);
        assert_eq!(output.status.code(), Some(*status), "{line}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{line}: {}", errors(&output));
        let left: Vec<_> =
            names(folder.path()).into_iter().filter(|name| name.starts_with('.')).collect();
        assert!(left.is_empty(), "{line} leaves {left:?}");
    }
}

#[test]
fn colliding_outputs_are_refused_with_both_flags() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("old"), "mine").unwrap();
    fs::hard_link(path.join("old"), path.join("hard")).unwrap();
    std::os::unix::fs::symlink("old", path.join("soft")).unwrap();
    std::os::unix::fs::symlink("not-yet", path.join("dangling")).unwrap();
    std::os::unix::fs::symlink("link.toml", path.join("scenario")).unwrap();
    let before = names(path);
    let rows: &[(&str, &[&str])] = &[
        (
            "run link.toml --departures x --summary x",
            &["--departures x and --summary x are the same"],
        ),
        ("run link.toml --departures x --summary ./x", &["--departures x", "--summary ./x"]),
        ("run link.toml --summary old --report hard", &["--summary old", "--report hard"]),
        ("run link.toml --summary soft --report old", &["--summary soft", "--report old"]),
        ("run link.toml --summary dangling --report not-yet", &["dangling", "--report not-yet"]),
        ("run link.toml --departures - --summary -", &["--departures -", "--summary -"]),
        ("run uplink.toml --pcap x --departures x", &["--departures x", "--pcap x"]),
        ("run fabric.toml --trace x --report x", &["--report x", "--trace x"]),
        ("run link.toml --summary scenario", &["--summary scenario is an input"]),
        ("run uplink.toml --pcap uplink.pcap", &["--pcap uplink.pcap is an input"]),
        ("sweep link.toml --out link.toml.csv", &[]),
        (&format!("{PLAN} ./bench.json"), &["--figure ./bench.json is an input"]),
        ("check router-in.toml", &["`output` of port `wan`:", "uplink.pcap is an input"]),
        (
            "check router-twice.toml",
            &["`output` of port `wan`:", "`output` of port `more`:", "are the same file"],
        ),
        ("route router-in.toml", &["`output` of port `wan`:", "uplink.pcap is an input"]),
    ];
    for (line, expected) in rows.iter().filter(|(_, expected)| !expected.is_empty()) {
        let output = run(path, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", errors(&output));
        for part in *expected {
            assert!(errors(&output).contains(part), "{line}: {part}: {}", errors(&output));
        }
    }
    assert_eq!(names(path), before, "nothing is written");
    assert_eq!(fs::read_to_string(path.join("old")).unwrap(), "mine");
    // The dataset is also its own journal, through a symbolic link.
    std::os::unix::fs::symlink("d.csv", path.join("d.csv.journal")).unwrap();
    let output = run(path, "sweep link.toml --out d.csv");
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(
        errors(&output).contains("--out d.csv.journal are the same file"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_failed_run_keeps_partial_outputs() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("d.csv"), "old").unwrap();
    let output = run(path, "run trace.toml --departures d.csv --summary s.json");
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert_eq!(fs::read_to_string(path.join("d.csv")).unwrap(), "old");
    let partial = fs::read_to_string(path.join("d.csv.partial")).unwrap();
    assert!(partial.starts_with("time_ns,stream,packet,bytes"), "{partial}");
    assert!(!path.join("s.json").exists());
}

/// Runs `millstream` with a file size limit of `blocks` blocks of 512 bytes, as on a full disk.
fn limited(folder: &Path, blocks: u32, line: &str) -> Output {
    let program = assert_cmd::cargo::cargo_bin("millstream");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {} {line}", program.display());
    Command::new("sh").current_dir(folder).args(["-c", &script]).output().unwrap()
}

#[test]
fn a_write_error_leaves_the_old_file_unchanged() {
    for (line, flag, file) in [
        ("run link.toml --departures out", "--departures", "out"),
        ("run link.toml --report out", "--report", "out"),
        ("run uplink.toml --pcap out", "--pcap", "out"),
        ("run fabric.toml --trace out", "--trace", "out"),
        ("sweep link.toml --seeds 40 --out out.csv", "out.csv", "out.csv"),
    ] {
        let folder = folder();
        fs::write(folder.path().join(file), "old").unwrap();
        let output = limited(folder.path(), 8, line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", errors(&output));
        let message = errors(&output);
        assert!(message.contains(flag) && message.contains("File too large"), "{line}: {message}");
        assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), "old", "{line}");
        let odd = |name: &String| name.starts_with('.') || name.ends_with(".partial");
        assert!(!names(folder.path()).iter().any(odd), "{line}: {:?}", names(folder.path()));
    }
}

#[test]
fn a_full_disk_leaves_the_old_file_unchanged() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tested: a full disk needs root to mount a file system");
        return;
    }
    let folder = folder();
    let program = assert_cmd::cargo::cargo_bin("millstream");
    fs::create_dir(folder.path().join("disk")).unwrap();
    for (line, flag) in [
        ("run link.toml --departures disk/out", "--departures"),
        ("run uplink.toml --pcap disk/out", "--pcap"),
    ] {
        let script = format!(
            "mount -t tmpfs -o size=16k tmpfs disk && echo old >disk/out && \
             {} {line}; echo status $?; ls -A disk; head -c 9 disk/out",
            program.display()
        );
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let seen = String::from_utf8_lossy(&output.stdout);
        assert_eq!(seen, "status 1\nout\nold\n", "{line}: {}", errors(&output));
        let message = errors(&output);
        assert!(message.contains(flag) && message.contains("No space left"), "{line}: {message}");
    }
}

#[test]
fn a_crash_leaves_the_old_file_unchanged() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("d.csv"), "old").unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("millstream"));
    command.current_dir(path).args(["run", "endless.toml", "--departures", "d.csv"]);
    let mut child = command.spawn().unwrap();
    let written = || {
        let temporary = names(path).into_iter().find(|name| name.starts_with(".millstream-"));
        temporary.map_or(0, |name| fs::metadata(path.join(name)).map_or(0, |data| data.len()))
    };
    while written() == 0 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(path.join("d.csv")).unwrap(), "old");
}
