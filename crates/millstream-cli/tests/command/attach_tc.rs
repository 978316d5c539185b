//! The commands of `attach --via tc`, for every example scenario: `snapshots/*.snap`.
//!
//! `scripts/kernel.sh` runs such commands in a kernel. After a change, `INSTA_UPDATE=always cargo
//! test -p millstream-cli --test command attach_tc` writes the table again.
use assert_cmd::Command;
use std::fmt::Write as _;
use std::path::Path;

#[test]
fn every_example_becomes_commands_or_an_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut examples: Vec<_> = std::fs::read_dir(root.join("examples"))
        .unwrap()
        .map(|entry| format!("examples/{}", entry.unwrap().file_name().to_str().unwrap()))
        .map(|folder| folder + "/scenario.toml")
        .filter(|file| root.join(file).exists())
        .collect();
    examples.push("crates/millstream-bpf/tests/kernel/tc.toml".into());
    examples.sort();
    let mut table = String::new();
    for file in examples {
        let output = Command::cargo_bin("millstream")
            .unwrap()
            .current_dir(&root)
            .args(["attach", "eth0", &file, "--via", "tc", "--dry-run"])
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        let _ = writeln!(table, "## {file}\n\n{}", lines.concat());
    }
    insta::assert_snapshot!(table);
}
