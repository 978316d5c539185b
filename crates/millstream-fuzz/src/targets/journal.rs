//! No journal makes a sweep panic: the sweep resumes from it or reports why it rejects it. An
//! accepted journal is accepted again with the same runs, and takes one more run.

use millstream_sweep::{Grid, SweepError, fuzzing};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "journal",
    first_parser: "the first line, which identifies this sweep",
    seeds,
    words: &[
        b"\"point\":",
        b"\"seed\":",
        b"\"inputs\":",
        b"\"rows\":",
        b"[[",
        b"]]",
        b"null",
        b"true",
        b"1e999",
        b"-0.0",
        b"-1",
        b"18446744073709551616",
        b"\"film\"",
        b"{",
        b"}",
        b"\n",
        b"\r\n",
    ],
    mutate,
    admits: Some(begins),
    run,
};

/// The scenario has a name since the journal's first line depends on it: a corpus outlives the
/// folder.
const SCENARIO: &str = r#"
[link]
rate = "1 Mbps"
[scheduler]
discipline = "fifo"
[[stream]]
name = "film"
source = { kind = "backlog", packets = 2, bytes = 100 }
[[stream]]
name = "other"
source = { kind = "cbr", bytes = 100, rate = "1 Kbps" }
[scenario]
name = "fuzz"
duration = "1 ms"
"#;

/// A sweep and the folder of its journal.
struct Sweep {
    grid: Grid,
    journal: PathBuf,
    _folder: TempDir,
}

thread_local! {
    static SWEEP: Sweep = sweep();
}

fn sweep() -> Sweep {
    let folder = TempDir::new_in("/dev/shm").expect("a folder");
    let file = folder.path().join("scenario.toml");
    fs::write(&file, SCENARIO).expect("written");
    let settings = vec!["link.rate=1 Mbps,2 Mbps".parse().expect("a setting")];
    let grid = Grid::load(&file, settings).expect("a grid");
    Sweep { grid, journal: folder.path().join("journal"), _folder: folder }
}

/// Journals of two and of nine runs, and a truncated one.
fn seeds() -> Vec<Vec<u8>> {
    SWEEP.with(|sweep| {
        let after = |runs: usize| {
            let _ = fs::remove_file(&sweep.journal);
            for _ in 0..runs {
                fuzzing::journal(&sweep.journal, &sweep.grid).expect("a valid journal");
            }
            fs::read(&sweep.journal).expect("written")
        };
        let (two, nine) = (after(2), after(9));
        let cut = two[..two.len() - 9].to_vec();
        vec![two, nine, cut]
    })
}

/// Returns whether the first line is this sweep's, byte for byte.
fn begins(input: &[u8]) -> bool {
    thread_local! {
        static FIRST: Vec<u8> = first_line(&seeds()[0]).to_vec();
    }
    FIRST.with(|first| first_line(input) == first)
}

/// Returns the first line, or empty if it is unterminated.
fn first_line(input: &[u8]) -> &[u8] {
    let end = input.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    &input[..end]
}

/// Mostly changes lines after the first: another first line belongs to another sweep.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    let first = first_line(input).len();
    if first == 0 || mutation.one_in(20) {
        return mutation.text(input);
    }
    let mut rest = input.split_off(first);
    mutation.text(&mut rest);
    input.extend(rest);
}

fn run(input: &[u8]) -> bool {
    SWEEP.with(|sweep| {
        fs::write(&sweep.journal, input).expect("written");
        match fuzzing::journal(&sweep.journal, &sweep.grid) {
            Ok(_) => true,
            Err(SweepError::InvalidArgument { message, help }) => {
                assert!(message.contains("journal") && help.is_some(), "{message}");
                message.contains(", line ")
            }
            Err(error) => panic!("{error}"),
        }
    })
}
