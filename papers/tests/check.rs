//! Committed pages and digests of figures match the program's results.

use std::path::Path;
use std::process::Command;

#[test]
fn pages_and_figures_are_what_the_program_computes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = env!("CARGO_BIN_EXE_millstream-papers");
    let output = Command::new(program).arg("--check").current_dir(root).output();
    let output = output.expect("the program starts");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.lines().count() > 100, "claims are missing:\n{out}");
}
