//! Verilates msr_core in every configuration and compiles it with its C++ side.
//!
//! VERILATOR names the program (default `verilator`). RTL_CONFIGURATIONS=quick leaves out those
//! that are not marked `quick`; names, joined by commas, leave out all others.

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
    for watched in ["src", "configurations.toml", "bulk/src/model.cpp"] {
        println!("cargo::rerun-if-changed={}", rtl.join(watched).display());
    }

    let table: toml::Table =
        fs::read_to_string(rtl.join("configurations.toml")).unwrap().parse().unwrap();
    let mut sources = vec![rtl.join("src/msr_pkg.sv")];
    let mut modules: Vec<_> = fs::read_dir(rtl.join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("msr_pkg.sv"))
        .collect();
    modules.sort();
    sources.append(&mut modules);

    let root = Command::new(&verilator).args(["--getenv", "VERILATOR_ROOT"]).output();
    let root = root.unwrap_or_else(|error| panic!("{verilator} does not run: {error}"));
    let root = String::from_utf8(root.stdout).unwrap().trim().to_owned();

    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).warnings(false).define("VL_TIME_CONTEXT", None);
    build.include(format!("{root}/include")).include(format!("{root}/include/vltstd"));
    for file in ["verilated.cpp", "verilated_threads.cpp"] {
        build.file(format!("{root}/include/{file}"));
    }

    let mut rows = String::new();
    for row in table["configuration"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let chosen = match only.as_str() {
            "all" => true,
            "quick" => row["quick"].as_bool().unwrap(),
            names => names.split(',').any(|chosen| chosen == name),
        };
        if !chosen {
            continue;
        }
        let streams = row["streams"].as_integer().unwrap();
        let [winner_only, compute_ahead, sorted] =
            ["winner_only", "compute_ahead", "sorted"].map(|key| row[key].as_bool().unwrap());
        let [tree, keyed] = ["tree", "keyed"]
            .map(|key| row.get(key).is_some_and(|value| value.as_bool().unwrap()));
        let folder = out.join(name);
        let status = Command::new(&verilator)
            .args(["--cc", "-O3", "--x-assign", "fast", "--noassert", "--top-module", "msr_core"])
            .args(["--prefix", &format!("V{name}"), "--Mdir"])
            .arg(&folder)
            .arg(format!("-GN={streams}"))
            .arg(format!("-GWinnerOnly={}", u8::from(winner_only)))
            .arg(format!("-GComputeAhead={}", u8::from(compute_ahead)))
            .arg(format!("-GSorted={}", u8::from(sorted)))
            .arg(format!("-GTree={}", u8::from(tree)))
            .arg(format!("-GKeyed={}", u8::from(keyed)))
            .args(&sources)
            .status()
            .unwrap();
        assert!(status.success(), "verilator refused {name}");
        let shim = folder.join("shim.cpp");
        fs::write(
            &shim,
            format!(
                "#include \"V{name}.h\"\n#define MODEL V{name}\n#define NAME(f) {name}_##f\n\
                 constexpr int kStreams = {streams};\n#include \"{}\"\n",
                rtl.join("bulk/src/model.cpp").canonicalize().unwrap().display()
            ),
        )
        .unwrap();
        build.include(&folder);
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "cpp") {
                build.file(path);
            }
        }
        writeln!(
            rows,
            "configuration!({name}, {streams}, {winner_only}, {compute_ahead}, {sorted}, {tree}, {keyed}),"
        )
        .unwrap();
    }
    build.compile("models");
    println!("cargo::rustc-link-lib=pthread");
    fs::write(out.join("configurations.rs"), format!("&[{rows}]")).unwrap();
}
