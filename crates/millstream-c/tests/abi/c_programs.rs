//! C programs that use the library: compiled without warnings by GCC and Clang; run under the
//! address and undefined-behaviour sanitizers of GCC.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the shared library: that of this test, without a hash in its name.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join("libmillstream_c.so").exists(), "{}", folder.display());
    folder
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{error}");
    assert!(error.is_empty(), "{command:?}\n{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a program; returns a command that runs it.
fn build(compiler: &str, options: &[&str], source: &str) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("program"), library());
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]).args(options);
    command.arg("-I").arg(root().join("include"));
    command.arg(root().join(source)).arg("-o").arg(&program);
    command.arg("-L").arg(&library).arg("-lmillstream_c");
    succeeds(&mut command);
    let mut run = Command::new(&program);
    // The name in the program is that of an installed library.
    let installed = folder.path().join("libmillstream.so.1");
    std::os::unix::fs::symlink(library.join("libmillstream_c.so"), installed).unwrap();
    run.env("LD_LIBRARY_PATH", folder.path());
    run.env("ASAN_OPTIONS", "detect_leaks=1:halt_on_error=1");
    run.env("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1");
    (folder, run)
}

const SANITIZERS: &[&str] = &["-std=c11", "-fsanitize=address,undefined"];

#[test]
fn c_programs_run_with_both_compilers_and_under_sanitizers() {
    let expected = std::fs::read_to_string(root().join("examples/link.txt")).unwrap();
    // The sanitizers of Clang are a package of their own, with the version in its name.
    for (compiler, options) in [("gcc", SANITIZERS), ("clang", &["-std=c11"])] {
        let (_folder, mut link) = build(compiler, options, "examples/link.c");
        assert_eq!(succeeds(&mut link), expected, "{compiler}");
        let (_folder, mut misuse) = build(compiler, options, "tests/abi/misuse.c");
        succeeds(&mut misuse);
    }
}

#[test]
fn the_header_is_also_cpp() {
    let (_folder, mut program) = build("g++", &["-std=c++11"], "tests/abi/includes.cpp");
    succeeds(&mut program);
}

#[test]
fn the_soname_has_the_major_version_and_only_functions_of_the_header_are_exported() {
    let library = library().join("libmillstream_c.so");
    let dynamic = succeeds(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&library));
    let soname = format!("[libmillstream.so.{}]", millstream_c::MS_ABI_MAJOR);
    assert!(dynamic.contains(&soname), "{dynamic}");
    let arguments = ["--dyn-syms", "--wide"];
    let symbols = succeeds(Command::new("readelf").args(arguments).arg(&library));
    let defined = symbols.lines().filter(|line| line.contains("GLOBAL") && !line.contains("UND"));
    let mut names: Vec<_> = defined.filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    let header = std::fs::read_to_string(root().join("include/millstream.h")).unwrap();
    for name in &names {
        assert!(header.contains(&format!("{name}(")), "{name} is exported but not in the header");
    }
    assert_eq!(names.len(), 20, "{names:?}");
}

#[test]
fn the_page_of_the_book_has_the_example() {
    let page = std::fs::read_to_string(root().join("../../docs/src/c.md")).unwrap();
    let example = std::fs::read_to_string(root().join("examples/link.c")).unwrap();
    assert!(page.contains(&format!("```c\n{example}```\n")), "docs/src/c.md differs from link.c");
    let output = std::fs::read_to_string(root().join("examples/link.txt")).unwrap();
    assert!(
        page.contains(&format!("```text\n{output}```\n")),
        "docs/src/c.md differs from link.txt"
    );
}
