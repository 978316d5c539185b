//! End-to-end tests of text: tables fit the terminal, names cannot control it, and counts agree.

use assert_cmd::Command;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A scenario with one packet. The name of its stream has control characters.
const SCENARIO: &str = r#"
[scenario]
duration = "1 ms"

[link]
rate = "10 Mbps"

[scheduler]
discipline = "fifo"

[[stream]]
name = "\u001b[2Jcalls\u202e\u0007\u0000"
source = { kind = "backlog", packets = 1, bytes = 200 }
"#;

/// Runs `millstream` in the width `columns`; returns standard output and standard error.
fn output(arguments: &[&str], columns: Option<&str>) -> [String; 2] {
    let mut command = Command::cargo_bin("millstream").unwrap();
    command.args(arguments).env_remove("COLUMNS").envs(columns.map(|columns| ("COLUMNS", columns)));
    let output = command.output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

fn example(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join(name).display().to_string()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn tables_fit_the_terminal_and_drop_nothing() {
    let file = example("guarantee/scenario.toml");
    let bounds = ["run", &file, "--bounds"];
    let [whole, _] = output(&bounds, None);
    assert_eq!(whole.matches("backup and the rest").count(), 1);
    assert!(widest(&whole) > 100, "{whole}");
    let fabric = example("fabric/scenario.toml");
    let grid = ["sweep", &file, "--set", "link.rate=9 Mbit/s,10 Mbit/s", "--seeds", "2"];
    let short = ["run", &fabric, "--set", "scenario.duration=3 ms"];
    for arguments in [&bounds[..], &["check", &file], &grid, &short] {
        let words = |text: &str| -> Vec<String> {
            let table = text.lines().take_while(|line| !line.contains(" sent; "));
            let mut words: Vec<_> =
                table.flat_map(str::split_whitespace).map(str::to_owned).collect();
            words.sort_unstable();
            words.dedup();
            words
        };
        let [whole, _] = output(arguments, None);
        let [text, _] = output(arguments, Some("80"));
        let table = text.lines().take_while(|line| !line.starts_with("offered load"));
        let table = table.filter(|line| !line.contains("delivered from"));
        let wide: Vec<_> = table.filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
        assert_eq!(words(&text), words(&whole), "{text}");
    }
}

#[test]
fn names_cannot_control_the_terminal() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, SCENARIO).unwrap();
    let [file, page] = [file, folder.path().join("r.html")].map(|path| path.display().to_string());
    let set = ["--set", "stream.0.queue=1,2"];
    for arguments in [
        vec!["run", &file, "--bounds", "--report", &page],
        vec!["check", &file],
        [&["sweep", &file][..], &set].concat(),
        vec!["sweep", &file, "--until", "none.delay_mean=1%"],
        vec!["run", &file, "--set", "stream.0.queue=\u{1b}[2J"],
    ] {
        let both = output(&arguments, None);
        // The name of the stream or the rejected value is shown with escapes.
        assert!(both.concat().contains(r"\u{1b}[2J"), "{arguments:?}: {both:?}");
        for text in both {
            let control = text.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
            assert_eq!(control, None, "{arguments:?}: {text}");
        }
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains(r"\u{1b}[2Jcalls\u{202e}\u{7}\u{0}")
            && !page.contains('\u{1b}')
            && !page.contains('\u{202e}')
    );
}

#[test]
fn one_of_a_kind_is_singular() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, SCENARIO).unwrap();
    let file = file.display().to_string();
    let [run, _] = output(&["run", &file], None);
    assert!(run.contains("1 of 1 packet sent"), "{run}");
    let [check, _] = output(&["check", &file], None);
    assert!(check.contains(": 1 stream,"), "{check}");
    let [_, sweep] = output(&["sweep", &file], None);
    assert_eq!(sweep, "1 run\n");
}
