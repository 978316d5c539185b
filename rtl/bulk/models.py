"""The verilated cores in every configuration, as one shared library for `millstream-rtl-bulk`.

Usage: models.py CONFIGURATIONS LEVEL FOLDER. CONFIGURATIONS is `all`, `quick` (those marked so) or
names with commas between; LEVEL is the compiler's level of optimisation. Verilates msr_core,
msr_pair_core and msr_tiled_core, and compiles them with their C++ shims to FOLDER/models.so, unless
that was made from the same inputs. VERILATOR and CXX name the programs, default `verilator` and
`c++`.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BULK = Path(__file__).resolve().parent
RTL = BULK.parent
sys.path.insert(0, str(RTL))
import sources  # noqa: E402

VERILATOR = os.environ.get("VERILATOR", "verilator")
COMPILER = os.environ.get("CXX", "c++")

# The models in one translation unit: most of the time of a small one goes into headers.
MODELS_PER_UNIT = 8

# What the shims include must not be in a namespace.
INCLUDES = '#include <deque>\n#include <memory>\n#include "bits.h"\n'


def boolean(row, key):
    """Returns a flag of a row in C++."""
    return "true" if row.get(key) else "false"


def core_model(row):
    """Returns the model of a row of msr_core: kind, name, top module, parameters, C++ text."""
    name, streams, block = row["name"], row["streams"], row.get("block", 1)
    keys = ("winner_only", "compute_ahead", "sorted", "tree", "keyed")
    parameters = {
        "N": streams,
        "WinnerOnly": int(row.get("winner_only", False)),
        "ComputeAhead": int(row.get("compute_ahead", False)),
        "Sorted": int(row["sorted"]),
        "Tree": int(row.get("tree", False)),
        "Keyed": int(row.get("keyed", False)),
        "Block": block,
    }
    flags = ", ".join(boolean(row, key) for key in keys)
    return "core", name, "msr_core", parameters, core_text(name, streams, block, flags, 1)


def pair_model(row):
    """Returns the model of a row of msr_pair_core."""
    name, streams = row["name"], row["streams"]
    # As far as they apply, the parameters are those of a keyed tree.
    text = core_text(name, streams, 1, "true, true, false, true, true", 0)
    return "pair", name, "msr_pair_core", {"N": streams}, text


def core_text(name, streams, block, flags, has_list):
    """Returns the C++ of a model of msr_core or msr_pair_core."""
    return f"""constexpr int kStreams = {streams};
#define LIST {has_list}
#include "model.cpp"
#undef LIST
extern const CoreRow row;
const CoreRow row = {{"{name}", {streams}, {block}, {flags},
                     create, destroy, settle, clock, stream_of, list_of}};
"""


def tiled_model(row):
    """Returns the model of a row of msr_tiled_core."""
    name, streams, width = row["name"], row["streams"], row["width"]
    text = f"""constexpr int kStreams = {streams}, kWidth = {width};
#include "tiled.cpp"
extern const TiledRow row;
const TiledRow row = {{"{name}", {streams}, {width},
                      create, destroy, load, offer, decide, finish, inspect}};
"""
    return "tiled", name, "msr_tiled_core", {"Streams": streams, "Width": width}, text


def chosen_models(configurations):
    """Returns the models to compile, in the order of the files."""
    cores = tomllib.loads((RTL / "configurations.toml").read_text())
    scaling = tomllib.loads((RTL / "scaling/configurations.toml").read_text())
    names = configurations.split(",")

    def is_chosen(row):
        is_quick = row["quick"] and configurations == "quick"
        return configurations == "all" or is_quick or row["name"] in names

    tables = [
        (core_model, cores["configuration"] + scaling["block"]),
        (pair_model, cores["pair"]),
        (tiled_model, scaling["tiled"]),
    ]
    models = [make(row) for make, rows in tables for row in rows if is_chosen(row)]
    known = {row["name"] for _, rows in tables for row in rows} | {"all", "quick"}
    for name in names:
        if name not in known:
            sys.exit(
                f"models.py: no configuration is called {name!r}; known: {', '.join(sorted(known))}"
            )
    return models


def run(*command):
    """Runs a program; prints its output and exits if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def verilate(model, files, folder):
    """Returns the folder of the generated C++, of which files of an earlier run are removed."""
    _, name, top, parameters, _ = model
    out = folder / name
    shutil.rmtree(out, ignore_errors=True)
    options = [f"-G{key}={value}" for key, value in parameters.items()]
    run(
        VERILATOR,
        "--cc",
        "-O3",
        "--x-assign",
        "fast",
        "--assert",
        "--top-module",
        top,
        "--prefix",
        f"V{name}",
        "--Mdir",
        out,
        *options,
        *files,
    )
    return out


def units(models, folders):
    """Yields the name and text of each translation unit.

    Verilator calls the code that runs once per simulation slow.
    """
    for first in range(0, len(models), MODELS_PER_UNIT):
        fast, slow = INCLUDES, ""
        pairs = list(zip(models, folders, strict=True))[first : first + MODELS_PER_UNIT]
        for (_, name, _, _, text), folder in pairs:
            files = sorted(file.name for file in folder.glob("*.cpp"))
            include = {
                is_slow: "".join(
                    f'#include "{file}"\n'
                    for file in files
                    if file.endswith("__Slow.cpp") == is_slow
                )
                for is_slow in (False, True)
            }
            # Verilator refuses a second model's headers, which do not conflict.
            fast += (
                f"{include[False]}#define MODEL V{name}\nnamespace {name} {{\n{text}}}\n"
                "#undef MODEL\n#undef VL_PCH_INCLUDED\n"
            )
            slow += include[True] + "#undef VL_PCH_INCLUDED\n"
        number = first // MODELS_PER_UNIT
        yield f"fast{number}", fast
        yield f"slow{number}", slow


def table(models):
    """Returns the text of the unit with the library's only visible function."""
    kinds = {"core": "CoreRow", "pair": "CoreRow", "tiled": "TiledRow"}
    text = '#include "rows.h"\n'
    for kind, name, *_ in models:
        text += f"namespace {name} {{ extern const {kinds[kind]} row; }}\n"
    text += 'extern "C" __attribute__((visibility("default"))) Rows millstream_rows() {\n'
    counts = []
    for kind, row in kinds.items():
        rows = [f"{name}::row" for of, name, *_ in models if of == kind]
        counts.append(len(rows))
        # An array has at least one element.
        text += f"  static const {row} {kind}[] = {{{', '.join(rows) or '{}'}}};\n"
    numbers = ", ".join(map(str, counts))
    text += f"  return {{sizeof(CoreRow), sizeof(TiledRow), core, pair, tiled, {numbers}}};\n}}\n"
    return text


def digest(models, level, files):
    """Returns the digest of everything that the library is made from."""
    inputs = hashlib.sha256(repr((models, level, COMPILER)).encode())
    inputs.update(run(VERILATOR, "--version").encode())
    inputs.update(run(COMPILER, "--version").encode())
    for file in [*files, *sorted(BULK.glob("src/*.cpp")), *sorted(BULK.glob("src/*.h")), __file__]:
        inputs.update(Path(file).read_bytes())
    return inputs.hexdigest()


def main():
    """Makes the library."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    configurations, level, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    models = chosen_models(configurations)
    files = sources.sources(sources.TILED)
    made_from, stamp, library = (
        digest(models, level, files),
        folder / "digest",
        folder / "models.so",
    )
    if library.exists() and stamp.exists() and stamp.read_text() == made_from:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    root = run(VERILATOR, "--getenv", "VERILATOR_ROOT").strip()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = list(pool.map(lambda model: verilate(model, files, folder), models))
        jobs = [
            (path, level)
            for path in (
                Path(root, "include/verilated.cpp"),
                Path(root, "include/verilated_threads.cpp"),
            )
        ]
        for name, text in [*units(models, folders), ("table", table(models))]:
            path = folder / f"{name}.cc"
            path.write_text(text)
            jobs.append((path, "0" if name.startswith("slow") else level))
        include = [
            f"-I{path}"
            for path in (f"{root}/include", f"{root}/include/vltstd", BULK / "src", *folders)
        ]

        def compiled(job):
            path, level = job
            result = folder / f"{path.stem}.o"
            run(
                COMPILER,
                "-std=c++17",
                f"-O{level}",
                "-fPIC",
                "-fvisibility=hidden",
                "-w",
                "-DVL_TIME_CONTEXT",
                *include,
                "-c",
                path,
                "-o",
                result,
            )
            return result

        objects = list(pool.map(compiled, jobs))
    run(COMPILER, "-shared", "-o", library, *objects, "-lpthread")
    stamp.write_text(made_from)


if __name__ == "__main__":
    main()
