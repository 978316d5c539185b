//! Verilates msr_core, msr_pair_core and msr_tiled_core in every configuration, and compiles them
//! with their C++ shims.
//!
//! VERILATOR names the program (default `verilator`). RTL_CONFIGURATIONS=quick selects the
//! configurations marked `quick`; a comma-separated list of names selects these.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let rtl = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("..");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let verilator = env::var("VERILATOR").unwrap_or_else(|_| "verilator".to_owned());
    let only = env::var("RTL_CONFIGURATIONS").unwrap_or_else(|_| "all".to_owned());
    for watched in ["VERILATOR", "RTL_CONFIGURATIONS"] {
        println!("cargo::rerun-if-env-changed={watched}");
    }
    for watched in [
        "src",
        "msr_core.f",
        "configurations.toml",
        "scaling",
        "bulk/src/model.cpp",
        "bulk/src/tiled.cpp",
        "bulk/src/bits.h",
    ] {
        println!("cargo::rerun-if-changed={}", rtl.join(watched).display());
    }

    let table = |name: &str| -> toml::Table {
        fs::read_to_string(rtl.join(name)).unwrap().parse().unwrap()
    };
    let (cores, scaling) = (table("configurations.toml"), table("scaling/configurations.toml"));
    let sources = listed(&rtl.join("scaling/msr_tiled_core.f"));

    let root = Command::new(&verilator).args(["--getenv", "VERILATOR_ROOT"]).output();
    let root = root.unwrap_or_else(|error| panic!("{verilator} does not run: {error}"));
    let root = String::from_utf8(root.stdout).unwrap().trim().to_owned();

    // Compiling the models with -O2 takes longer than a million decisions.
    let level = if env::var("PROFILE").unwrap() == "release" { 2 } else { 1 };
    // Verilator calls the code that runs once per simulation slow.
    let mut models = Models { fast: build(&root, level), slow: build(&root, 0), units: Vec::new() };
    for file in ["verilated.cpp", "verilated_threads.cpp"] {
        models.fast.file(format!("{root}/include/{file}"));
    }
    models.fast.include(rtl.join("bulk/src"));

    let rows = |table: &toml::Table, key: &str| -> Vec<toml::Table> {
        let rows = table[key].as_array().unwrap().iter().map(|row| row.as_table().unwrap().clone());
        rows.filter(|row| {
            let name = row["name"].as_str().unwrap();
            match only.as_str() {
                "all" => true,
                "quick" => row["quick"].as_bool().unwrap(),
                names => names.split(',').any(|chosen| chosen == name),
            }
        })
        .collect()
    };
    let number = |row: &toml::Table, key: &str| row[key].as_integer().unwrap();
    let flag = |row: &toml::Table, key: &str| row.get(key).is_some_and(|f| f.as_bool().unwrap());

    let (mut core_rows, mut pair_rows, mut tiled_rows) =
        (String::new(), String::new(), String::new());
    for row in rows(&cores, "configuration").iter().chain(&rows(&scaling, "block")) {
        let (name, streams) = (row["name"].as_str().unwrap(), number(row, "streams"));
        let [winner_only, compute_ahead, sorted, tree, keyed] =
            ["winner_only", "compute_ahead", "sorted", "tree", "keyed"].map(|key| flag(row, key));
        let block = row.get("block").map_or(1, |block| block.as_integer().unwrap());
        let parameters = [
            ("N", streams),
            ("WinnerOnly", winner_only.into()),
            ("ComputeAhead", compute_ahead.into()),
            ("Sorted", sorted.into()),
            ("Tree", tree.into()),
            ("Keyed", keyed.into()),
            ("Block", block),
        ];
        let folder = verilate(&verilator, &out, name, "msr_core", &parameters, &sources);
        let constants = format!("#define LIST 1\nconstexpr int kStreams = {streams};");
        models.add(&folder, name, &constants, "model.cpp");
        writeln!(
            core_rows,
            "configuration!({name}, {streams}, {winner_only}, {compute_ahead}, {sorted}, {tree}, \
             {keyed}, {block}),"
        )
        .unwrap();
    }
    for row in rows(&cores, "pair") {
        let (name, streams) = (row["name"].as_str().unwrap(), number(&row, "streams"));
        let parameters = [("N", streams)];
        let folder = verilate(&verilator, &out, name, "msr_pair_core", &parameters, &sources);
        let constants = format!("#define LIST 0\nconstexpr int kStreams = {streams};");
        models.add(&folder, name, &constants, "model.cpp");
        // As far as they apply, the parameters are those of a keyed tree.
        writeln!(pair_rows, "configuration!({name}, {streams}, true, true, false, true, true, 1),")
            .unwrap();
    }
    for row in rows(&scaling, "tiled") {
        let (name, streams) = (row["name"].as_str().unwrap(), number(&row, "streams"));
        let width = number(&row, "width");
        let parameters = [("Streams", streams), ("Width", width)];
        let folder = verilate(&verilator, &out, name, "msr_tiled_core", &parameters, &sources);
        let constants = format!("constexpr int kStreams = {streams}, kWidth = {width};");
        models.add(&folder, name, &constants, "tiled.cpp");
        writeln!(tiled_rows, "configuration!({name}, {streams}, {width}),").unwrap();
    }
    models.compile(&out);
    println!("cargo::rustc-link-lib=pthread");
    fs::write(out.join("configurations.rs"), format!("&[{core_rows}]")).unwrap();
    fs::write(out.join("pairs.rs"), format!("&[{pair_rows}]")).unwrap();
    fs::write(out.join("tiled.rs"), format!("&[{tiled_rows}]")).unwrap();
}

/// Returns the files of a list of sources: a path a line, or `-F` and another list, both relative
/// to the list.
fn listed(list: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(list).unwrap();
    let folder = list.parent().unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines
        .flat_map(|line| match line.strip_prefix("-F ") {
            Some(other) => listed(&folder.join(other)),
            None => vec![folder.join(line)],
        })
        .collect()
}

/// Verilates `top`; returns the folder of the generated C++.
fn verilate(
    verilator: &str,
    out: &Path,
    name: &str,
    top: &str,
    parameters: &[(&str, i64)],
    sources: &[PathBuf],
) -> PathBuf {
    let folder = out.join(name);
    // Files of an earlier build would be compiled, too.
    let _ = fs::remove_dir_all(&folder);
    let status = Command::new(verilator)
        .args(["--cc", "-O3", "--x-assign", "fast", "--assert", "--top-module", top])
        .args(["--prefix", &format!("V{name}"), "--Mdir"])
        .arg(&folder)
        .args(parameters.iter().map(|(key, value)| format!("-G{key}={value}")))
        .args(sources)
        .status()
        .unwrap();
    assert!(status.success(), "verilator refused {name}");
    folder
}

/// The models in one translation unit: most of the time of a small one goes into headers.
const MODELS_PER_UNIT: usize = 8;

/// The C++ compilers of the models.
struct Models {
    fast: cc::Build,
    slow: cc::Build,
    /// The source texts of each model, for the two compilers.
    units: Vec<[String; 2]>,
}

/// Returns a compiler of Verilator's C++.
fn build(root: &str, level: u32) -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(level).warnings(false).define("VL_TIME_CONTEXT", None);
    build.include(format!("{root}/include")).include(format!("{root}/include/vltstd"));
    build
}

impl Models {
    /// Adds a model with `shim`, which uses the macros MODEL, NAME, LIST and the constants.
    fn add(&mut self, folder: &Path, name: &str, constants: &str, shim: &str) {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<_> = files.map(|file| file.into_string().unwrap()).collect();
        files.retain(|file| file.ends_with(".cpp"));
        files.sort();
        let (slow, fast): (Vec<_>, Vec<_>) =
            files.iter().partition(|file| file.ends_with("__Slow.cpp"));
        let include = |files: &[&String]| -> String {
            files.iter().map(|file| format!("#include \"{file}\"\n")).collect()
        };
        // Verilator refuses a second model's headers, which do not conflict. The shim's types of
        // each model are in a namespace of their own.
        let model = format!(
            "{}#define MODEL V{name}\n#define NAME(f) {name}_##f\n\
             namespace {name} {{\n{constants}\n#include \"{shim}\"\n}}\n\
             #undef MODEL\n#undef NAME\n#undef LIST\n#undef VL_PCH_INCLUDED\n",
            include(&fast),
        );
        for build in [&mut self.fast, &mut self.slow] {
            build.include(folder);
        }
        self.units.push([model, include(&slow) + "#undef VL_PCH_INCLUDED\n"]);
    }

    /// Compiles the models.
    fn compile(mut self, out: &Path) {
        for (at, models) in self.units.chunks(MODELS_PER_UNIT).enumerate() {
            // What the shims include must not be in a namespace.
            let mut fast = "#include <deque>\n#include <memory>\n#include \"bits.h\"\n".to_owned();
            let mut slow = String::new();
            for [model, rest] in models {
                fast.push_str(model);
                slow.push_str(rest);
            }
            for (build, unit, text) in
                [(&mut self.fast, "fast", fast), (&mut self.slow, "slow", slow)]
            {
                let path = out.join(format!("{unit}{at}.cc"));
                fs::write(&path, text).unwrap();
                build.file(path);
            }
        }
        self.fast.compile("models");
        self.slow.compile("slow");
    }
}
