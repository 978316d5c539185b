//! `millstream examples`: lists the examples inside this program, and copies them to a directory.

use miette::miette;
use millstream_report::human;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::arguments::ExamplesArguments;
use crate::failure::Failure;
use crate::terminal::print_text;

/// A file of an example: its path in `examples/`, and its contents.
type Embedded = (&'static str, &'static [u8]);

macro_rules! embed {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../examples/", $path)))),*]
    };
}

const FILES: &[Embedded] = embed![
    "bufferbloat/cake-like.toml",
    "bufferbloat/dualpi2.toml",
    "bufferbloat/dwcs.toml",
    "bufferbloat/fifo.toml",
    "bufferbloat/fq-codel.toml",
    "bufferbloat/scenario.toml",
    "classes/scenario.toml",
    "compare/scenario.toml",
    "data/README.md",
    "data/clip.mpg",
    "data/tone.ts",
    "data/uplink.pcap",
    "end-system/scenario.toml",
    "fabric/afdx.toml",
    "fabric/bounds.toml",
    "fabric/scenario.toml",
    "flood/scenario.toml",
    "guarantee/scenario.toml",
    "media/live.toml",
    "media/millstream-media.service",
    "media/scenario.toml",
    "media/thin.wasm",
    "media/thin.wat",
    "minbw/scenario.toml",
    "router/extension.toml",
    "router/mark.wasm",
    "router/mark.wat",
    "router/millstream-router.service",
    "router/proxy.toml",
    "router/router.toml",
    "shape/scenario.toml",
    "tandem/scenario.toml",
    "uplink/scenario.toml",
];

/// A scenario or router file among the examples.
struct Example {
    /// Its path in `examples/`.
    path: &'static str,
    text: &'static str,
}

impl Example {
    fn all() -> impl Iterator<Item = Self> {
        FILES.iter().filter(|(path, _)| path.ends_with(".toml")).map(|&(path, bytes)| Self {
            path,
            text: std::str::from_utf8(bytes).expect("examples are UTF-8"),
        })
    }

    /// Returns its directory in `examples/`.
    fn directory(&self) -> &'static str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Returns the first sentence of the file's leading comment.
    fn summary(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#'));
        let words: Vec<&str> = comment.flat_map(str::split_whitespace).collect();
        let end = words.iter().position(|word| word.ends_with('.'));
        words[..end.map_or(words.len(), |end| end + 1)].join(" ")
    }

    /// Returns the subcommand that runs the file.
    fn command(&self) -> &'static str {
        let has_table = |name: &str| self.text.lines().any(|line| line == name);
        if has_table("[router]") {
            "route"
        } else if has_table("[media]") {
            "serve"
        } else {
            "run"
        }
    }

    /// Returns whether the file reads `examples/data/NAME`.
    fn reads(&self, name: &str) -> bool {
        self.text.contains(&format!("../data/{name}\""))
    }
}

/// Lists the examples, or copies those that are named.
pub(crate) fn examples(arguments: &ExamplesArguments) -> Result<(), Failure> {
    if arguments.names.is_empty() {
        return print_text(&list());
    }
    let mut wanted: Vec<&str> = Vec::new();
    for name in &arguments.names {
        let found: Vec<_> = Example::all()
            .map(|example| example.directory())
            .filter(|directory| name == "all" || directory == name)
            .collect();
        if found.is_empty() {
            return Err(Failure::Input(miette!(
                help = format!("examples: {}, or all", names().join(", ")),
                "there is no example `{name}`"
            )));
        }
        wanted.extend(found);
    }
    let is_wanted = |path: &str| {
        let (directory, name) = path.split_once('/').unwrap_or((path, ""));
        let reads =
            |example: &Example| wanted.contains(&example.directory()) && example.reads(name);
        wanted.contains(&directory) || directory == "data" && Example::all().any(|e| reads(&e))
    };
    let files: Vec<_> = FILES.iter().filter(|(path, _)| is_wanted(path)).collect();
    for (path, bytes) in &files {
        refuse_other_contents(&arguments.to.join(path), bytes, arguments.force)?;
    }
    for (path, bytes) in &files {
        write(&arguments.to.join(path), bytes)?;
    }
    let mut text = format!(
        "copied {} to {}; now run\n",
        human::count(files.len() as u64, "file"),
        arguments.to.display()
    );
    for example in Example::all().filter(|example| wanted.contains(&example.directory())) {
        let file = arguments.to.join(example.path);
        let _ = writeln!(text, "  millstream {} {}", example.command(), file.display());
    }
    print_text(&text)
}

/// Returns the directories of the examples.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = Example::all().map(|example| example.directory()).collect();
    names.dedup();
    names
}

fn list() -> String {
    let mut text = String::from("Examples; `millstream examples NAME` copies one.\n");
    for name in names() {
        let _ = writeln!(text, "\n{name}");
        for example in Example::all().filter(|example| example.directory() == name) {
            let (command, path) = (example.command(), example.path);
            let _ = writeln!(text, "  {command:<6}{path}");
            let _ = writeln!(text, "    {}", example.summary());
        }
    }
    text
}

/// Rejects a file that exists with other contents, unless `force` is set.
pub(crate) fn refuse_other_contents(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    match std::fs::read(path) {
        Ok(found) if found != bytes && !force => Err(Failure::Input(miette!(
            help = "--force overwrites it",
            "{} exists with other contents",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes a file and creates its directory.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failure = |error: &std::io::Error| Failure::file(path, error);
    let directory = path.parent().map_or(PathBuf::new(), Path::to_path_buf);
    if !directory.as_os_str().is_empty() {
        std::fs::create_dir_all(&directory).map_err(|error| failure(&error))?;
    }
    let mut file = crate::outputs::file(path)?;
    file.write_all(bytes).and_then(|()| file.finish()).map_err(|error| failure(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new example must be listed above.
    #[test]
    fn all_files_of_the_directory_are_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut found = Vec::new();
        for directory in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
            for file in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
                let names = [directory.file_name(), file.file_name()];
                found.push(names.map(|name| name.into_string().unwrap()).join("/"));
            }
        }
        found.sort();
        assert_eq!(FILES.iter().map(|(path, _)| *path).collect::<Vec<_>>(), found);
    }

    #[test]
    fn examples_are_described_by_their_first_sentence() {
        let example = Example::all().find(|example| example.path == "media/scenario.toml").unwrap();
        assert_eq!(
            example.summary(),
            "A media server: `millstream serve` plays the clip in a loop to RTSP clients."
        );
        assert_eq!(example.command(), "serve");
        assert!(example.reads("clip.mpg") && !example.reads("uplink.pcap"));
    }
}
