//! Committed pages and digests of figures match the program's results.

use std::path::Path;
use std::process::Command;

/// Checks the selected paper or page, or all; returns the verdicts.
fn check(selected: Option<&str>) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = env!("CARGO_BIN_EXE_millstream-papers");
    let output = Command::new(program).arg("--check").args(selected).current_dir(root).output();
    let output = output.expect("the program starts");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

#[test]
fn pages_and_figures_are_what_the_program_computes() {
    for (selected, claims) in [
        ("minbw", 20),
        ("coprocessor", 20),
        ("sharestreams/sharestreams", 15),
        ("hardware", 30),
        ("cards", 15),
    ] {
        let out = check(Some(selected));
        assert!(out.lines().count() > claims, "claims of {selected} are missing:\n{out}");
    }
    check(Some("accesses"));
    check(Some("disciplines"));
}

/// Two minutes of one core; `make soak` runs it.
#[test]
#[ignore = "long"]
fn all_pages_and_figures_are_what_the_program_computes() {
    let out = check(None);
    assert!(out.lines().count() > 100, "claims are missing:\n{out}");
}
