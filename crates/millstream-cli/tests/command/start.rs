//! End-to-end tests of a user's first commands: `init`, `examples`, and a first run with bounds.
use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// Runs the command in `folder`; returns status, standard output and standard error.
fn millstream(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("millstream").unwrap();
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).display().to_string()
}

#[test]
fn check_accepts_every_new_file() {
    let folder = TempDir::new().unwrap();
    for (kind, options) in [
        ("uplink", vec![]),
        ("uplink", vec!["--rate", "1 Mbit/s"]),
        ("uplink", vec!["--rate", "400 Gbit/s"]),
        ("voice", vec!["--calls", "7"]),
        ("voice", vec!["--calls", "1000", "--rate", "1 Gbit/s"]),
        ("router", vec![]),
        ("router", vec!["--upload", "9.5 Mbit/s", "--download", "48 Mbit/s"]),
        (
            "router",
            vec!["--upload", "9.5 Mbit/s", "--download", "48 Mbit/s", "--overhead", "ipoa-llc"],
        ),
        ("router", vec!["--overhead", "-6"]),
        ("router", vec!["--preset", "besteffort"]),
        ("router", vec!["--preset", "diffserv4"]),
        ("router", vec!["--preset", "diffserv8"]),
        ("media", vec![]),
        ("fabric", vec!["--end-points", "64"]),
        ("sweep", vec![]),
    ] {
        let written =
            millstream(folder.path(), &[&["init", kind, "--force"], options.as_slice()].concat());
        assert_eq!(written.0, 0, "{kind} {options:?}: {}", written.2);
        assert!(written.1.contains(&format!("millstream {}", first_command(kind))), "{written:?}");
        let text = std::fs::read_to_string(folder.path().join(format!("{kind}.toml"))).unwrap();
        assert!(!text.contains("{file}") && text.lines().all(|line| line.len() <= 100), "{text}");
        let checked = millstream(folder.path(), &["check", &format!("{kind}.toml")]);
        assert_eq!(checked.0, 0, "{kind} {options:?}: {}", checked.2);
    }
}

/// Returns the path of each code point, in a router file with a preset, by the rule of the router:
/// the first path that matches.
fn tins(preset: &str) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let (status, text, errors) =
        millstream(folder.path(), &["init", "router", "-", "--preset", preset]);
    assert_eq!(status, 0, "{errors}");
    let file = millstream_scenario::RouterScenario::parse("r.toml", &text, folder.path()).unwrap();
    let paths: Vec<_> = file.paths.iter().collect();
    assert!(paths.iter().all(|path| path.contract.flow_options().is_some()), "{text}");
    let path = |dscp: u8| {
        let takes = |path: &&&millstream_scenario::RouterPath| {
            path.matches.dscp.is_none_or(|points| points.contains(dscp))
        };
        paths.iter().find(takes).unwrap().name.clone()
    };
    (0..64).map(path).collect()
}

/// Compares with the tables of tins in `sch_cake`.
#[test]
fn presets_divide_code_points_as_cake_does() {
    assert_eq!(tins("besteffort"), vec!["best-effort"; 64]);
    let of = |points: &[(&'static str, &[usize])]| {
        let mut expected = vec!["best-effort"; 64];
        for (tin, points) in points {
            for point in *points {
                expected[*point] = tin;
            }
        }
        expected
    };
    let diffserv4: &[(_, &[usize])] = &[
        ("bulk", &[1, 8]),
        ("video", &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
        ("voice", &[32, 40, 44, 46, 48, 56]),
    ];
    assert_eq!(tins("diffserv4"), of(diffserv4));
    let diffserv8: &[(_, &[usize])] = &[
        ("background", &[1]),
        ("high-throughput", &[2, 8, 10, 12, 14]),
        ("video", &[24, 26, 28, 30, 34, 36, 38]),
        ("low-latency", &[4, 18, 20, 22]),
        ("shell", &[16]),
        ("voice", &[32, 40, 44, 46]),
        ("network-control", &[48, 56]),
    ];
    assert_eq!(tins("diffserv8"), of(diffserv8));
}

/// Returns the start of the first command that a new file of this kind shows.
fn first_command(kind: &str) -> String {
    let command = if kind == "sweep" { "sweep" } else { "check" };
    format!("{command} {kind}.toml")
}

#[test]
fn a_new_uplink_keeps_the_bounds_of_voice_and_control() {
    let folder = TempDir::new().unwrap();
    assert_eq!(millstream(folder.path(), &["init", "uplink", "u.toml"]).0, 0);
    let (status, summary, errors) =
        millstream(folder.path(), &["run", "u.toml", "--bounds", "--json"]);
    assert_eq!(status, 0, "{errors}");
    let summary: Value = serde_json::from_str(&summary).unwrap();
    for stream in &summary["streams"].as_array().unwrap()[..2] {
        let bound = stream["delay_bound_ns"].as_u64().unwrap();
        let longest = stream["delay_ns"]["max"].as_u64().unwrap();
        assert!(longest <= bound && bound < 20_000_000);
        // The longest delay is to the start of transmission, tightness to its end.
        let tightness = stream["tightness"].as_f64().unwrap();
        assert!(tightness * bound as f64 > longest as f64 && tightness <= 1.0, "{stream}");
    }
    assert!(errors.contains("before the run: `voice` has a delay of at most"), "{errors}");
    let again = millstream(folder.path(), &["init", "uplink", "u.toml", "--rate", "5 Mbit/s"]);
    assert_eq!(again.0, 2);
    assert!(again.2.contains("u.toml exists with other contents"), "{}", again.2);
}

#[test]
fn init_rejects_what_it_cannot_use() {
    let folder = TempDir::new().unwrap();
    for (arguments, part) in [
        (&["uplink", "--calls", "3"][..], "--calls is for: voice"),
        (&["uplink", "--interface", "nope0"], "there is no interface `nope0`"),
        (&["voice", "--download", "5 Mbit/s"], "--download is for: router"),
        (&["uplink", "--preset", "diffserv4"], "--preset is for: router"),
        (&["router", "--preset", "diffserv5"], "besteffort, diffserv4, diffserv8"),
        (&["router", "--interface", "lo"], "--interface twice"),
        (&["router", "--interface", "lo", "--interface", "lo"], "both are `lo`"),
        (&["uplink", "--rate", "10 mbps"], "bits or bytes"),
        (&["uplink", "--rate", "100 kbit/s"], "--rate of at least 1 Mbit/s"),
        (&["voice", "--calls", "1000"], "1000 calls do not fit 10 Mbit/s"),
        (&["media", "--video", "none.mpg"], "none.mpg: there is no such file"),
        (&["fabric", "--end-points", "5"], "16, 64, 256"),
    ] {
        let (status, _, errors) = millstream(folder.path(), &[&["init"], arguments].concat());
        assert_eq!(status, 2, "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors} lacks {part:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn init_quotes_the_names_of_inputs() {
    let folder = TempDir::new().unwrap();
    std::fs::copy(example("data/clip.mpg"), folder.path().join("clip \"1\".mpg")).unwrap();
    let media = ["init", "media", "-", "--video", "clip \"1\".mpg"];
    let (status, text, _) = millstream(folder.path(), &media);
    let file: toml::Table = text.parse().unwrap();
    let source = &file["stream"][0]["source"];
    assert_eq!((status, source["file"].as_str()), (0, Some("clip \"1\".mpg")));
    assert!(text.contains("millstream check media.toml"), "{text}");
    let capture = example("data/uplink.pcap");
    let uplink = ["init", "uplink", "--capture", &capture];
    assert_eq!(millstream(folder.path(), &uplink).0, 0);
    let (status, _, errors) = millstream(folder.path(), &["check", "uplink.toml"]);
    assert_eq!(status, 0, "{errors}");
}

#[test]
fn examples_are_listed_copied_and_run() {
    let folder = TempDir::new().unwrap();
    let (_, list, _) = millstream(folder.path(), &["examples"]);
    assert!(
        list.contains("\nuplink\n  run   uplink/scenario.toml\n    A site's uplink:"),
        "{list}"
    );
    let (status, out, errors) = millstream(folder.path(), &["examples", "guarantee", "router"]);
    assert_eq!(status, 0, "{errors}");
    let copy = "millstream-examples/guarantee/scenario.toml";
    assert!(out.contains(&format!("  millstream run {copy}\n")), "{out}");
    assert!(!folder.path().join("millstream-examples/data/clip.mpg").exists());
    let original = std::fs::read(example("data/uplink.pcap")).unwrap();
    let copied = std::fs::read(folder.path().join("millstream-examples/data/uplink.pcap")).unwrap();
    assert!(original == copied);
    assert_eq!(millstream(folder.path(), &["run", copy, "--bounds"]).0, 0);
    std::fs::write(folder.path().join(copy), "changed").unwrap();
    let (status, _, errors) = millstream(folder.path(), &["examples", "guarantee"]);
    assert!(status == 2 && errors.contains("--force"), "{errors}");
    assert_eq!(millstream(folder.path(), &["examples", "guarantee", "--force"]).0, 0);
    let (status, _, errors) = millstream(folder.path(), &["examples", "nope"]);
    assert!(status == 2 && errors.contains("there is no example `nope`"), "{errors}");
}

#[test]
fn the_first_example_has_bounds_that_fifo_lacks() {
    let folder = TempDir::new().unwrap();
    let file = example("guarantee/scenario.toml");
    let run = |options: &[&str]| {
        let (status, out, errors) =
            millstream(folder.path(), &[&["run", &file, "--bounds", "--json"], options].concat());
        assert_eq!(status, 0, "{errors}");
        let summary: Value = serde_json::from_str(&out).unwrap();
        let of = |stream: &Value| {
            (stream["delay_bound_ns"].as_u64(), stream["delay_ns"]["max"].as_u64().unwrap())
        };
        let streams = summary["streams"].as_array().unwrap();
        (of(&streams[0]), of(&streams[1]))
    };
    let (voice, control) = run(&[]);
    assert!(voice.0.is_some_and(|bound| voice.1 <= bound), "{voice:?}");
    assert!(control.0.is_some_and(|bound| control.1 <= bound), "{control:?}");
    let (fifo_voice, _) = run(&["--set", "scheduler.discipline=fifo"]);
    assert!(fifo_voice.0.is_none() && fifo_voice.1 > 10 * voice.1, "{fifo_voice:?}");
}

#[test]
fn settings_of_a_run_take_one_value() {
    let folder = TempDir::new().unwrap();
    let file = example("guarantee/scenario.toml");
    let set = |value: &str| millstream(folder.path(), &["run", &file, "--set", value]);
    let (status, _, errors) = set("scheduler.discipline=fifo,drr");
    assert!(status == 2 && errors.contains("millstream sweep"), "{errors}");
    let (status, _, errors) = set("scheduler.discipline=nope");
    assert!(status == 2 && errors.contains("unknown discipline"), "{errors}");
    let router = example("router/router.toml");
    let check = ["check", &router, "--set", "router.batch=1"];
    let (status, _, errors) = millstream(folder.path(), &check);
    assert!(status == 2 && errors.contains("is a router file"), "{errors}");
}

#[test]
fn two_results_on_standard_output_are_refused() {
    let folder = TempDir::new().unwrap();
    let file = example("guarantee/scenario.toml");
    let (status, _, errors) =
        millstream(folder.path(), &["run", &file, "--departures", "-", "--json"]);
    assert_eq!(status, 2);
    assert!(errors.contains("--departures - and --json both write to standard output"), "{errors}");
    let sweep = ["sweep", &file, "--out", "x.xlsx"];
    let (status, _, errors) = millstream(folder.path(), &sweep);
    assert!(status == 2 && errors.contains("cannot be .xlsx"), "{errors}");
}

#[test]
fn a_missing_capture_names_file_line_and_stream() {
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("s.toml"),
        "[link]\nrate = \"1 Mbit/s\"\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\n\
         name = \"web\"\nsource = { kind = \"pcap\", file = \"gone.pcap\" }\n",
    )
    .unwrap();
    let set: &[&str] = &["--set", "link.rate=2 Mbit/s"];
    for (command, settings, place) in [
        ("run", &[][..], "s.toml, line 7: the source of stream `web`"),
        ("sweep", &[], "s.toml, line 7: the source of stream `web`"),
        // The text with the setting has other lines.
        ("run", set, "s.toml: the source of stream `web`"),
        ("sweep", set, "s.toml: the source of stream `web`"),
    ] {
        let arguments = [&[command, "s.toml"], settings].concat();
        let (status, _, errors) = millstream(folder.path(), &arguments);
        assert_eq!(status, if command == "run" { 2 } else { 1 });
        let words = errors.replace('│', " ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["gone.pcap", place] {
            assert!(words.contains(part), "{arguments:?}: {errors} lacks {part:?}");
        }
    }
}
