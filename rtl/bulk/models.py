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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BULK = Path(__file__).resolve().parent
RTL = BULK.parent
sys.path.insert(0, str(RTL))
import configurations  # noqa: E402
import sources  # noqa: E402

VERILATOR = os.environ.get("VERILATOR", "verilator")
COMPILER = os.environ.get("CXX", "c++")

# The parts of Verilator that models use.
RUNTIME = ("verilated", "verilated_threads")

# The models in one translation unit: most of the time of a small one goes into headers.
MODELS_PER_UNIT = 8

# What the shims include must not be in a namespace.
INCLUDES = '#include <deque>\n#include <memory>\n#include "bits.h"\n'


def shim(one):
    """Returns the C++ of a configuration: its constants, functions and row."""
    name, streams = one.name, one.row["streams"]
    if one.top == "msr_tiled_core":
        width = one.row["width"]
        return f"""constexpr int kStreams = {streams}, kWidth = {width};
#include "tiled.cpp"
extern const TiledRow row;
const TiledRow row = {{"{name}", {streams}, {width},
                      create, destroy, load, offer, decide, finish, inspect}};
"""
    # As far as they apply, the flags of a pair core are those of a keyed tree.
    pair = {"winner_only": True, "compute_ahead": True, "tree": True, "keyed": True}
    row = pair if one.top == "msr_pair_core" else one.row
    flags = ", ".join("true" if row.get(flag) else "false" for flag in configurations.FLAGS)
    return f"""constexpr int kStreams = {streams};
#define LIST {int(one.top == "msr_core")}
#include "model.cpp"
#undef LIST
extern const CoreRow row;
const CoreRow row = {{"{name}", {streams}, {row.get("block", 1)}, {flags},
                     create, destroy, settle, clock, stream_of, list_of}};
"""


def run(*command):
    """Runs a program; prints its output and exits if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def verilate(one, files, folder):
    """Returns the folder of the generated C++, of which files of an earlier run are removed."""
    out = folder / one.name
    shutil.rmtree(out, ignore_errors=True)
    how = ["--cc", "-O3", "--x-assign", "fast", "--assert", "--top-module", one.top]
    where = ["--prefix", f"V{one.name}", "--Mdir", out]
    run(VERILATOR, *how, *where, *configurations.options(one), *files)
    return out


def units(models, folders):
    """Yields the name and text of each translation unit.

    Verilator calls the code that runs once per simulation slow.
    """
    for first in range(0, len(models), MODELS_PER_UNIT):
        fast, slow = INCLUDES, ""
        pairs = list(zip(models, folders, strict=True))[first : first + MODELS_PER_UNIT]
        for one, folder in pairs:
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
                f"{include[False]}#define MODEL V{one.name}\n"
                f"namespace {one.name} {{\n{shim(one)}}}\n"
                "#undef MODEL\n#undef VL_PCH_INCLUDED\n"
            )
            slow += include[True] + "#undef VL_PCH_INCLUDED\n"
        number = first // MODELS_PER_UNIT
        yield f"fast{number}", fast
        yield f"slow{number}", slow


def table(models):
    """Returns the text of the unit with the library's only visible function."""
    kinds = {"msr_core": "CoreRow", "msr_pair_core": "CoreRow", "msr_tiled_core": "TiledRow"}
    text = '#include "rows.h"\n'
    for one in models:
        text += f"namespace {one.name} {{ extern const {kinds[one.top]} row; }}\n"
    text += 'extern "C" __attribute__((visibility("default"))) Rows millstream_rows() {\n'
    counts = []
    for top, row in kinds.items():
        rows = [f"{one.name}::row" for one in models if one.top == top]
        counts.append(len(rows))
        # An array has at least one element.
        text += f"  static const {row} {top}[] = {{{', '.join(rows) or '{}'}}};\n"
    numbers = ", ".join(map(str, counts))
    rows = ", ".join(kinds)
    text += f"  return {{sizeof(CoreRow), sizeof(TiledRow), {rows}, {numbers}}};\n}}\n"
    return text


def digest(models, level, files):
    """Returns the digest of everything that the library is made from."""
    inputs = hashlib.sha256(repr((models, level, COMPILER)).encode())
    inputs.update(run(VERILATOR, "--version").encode())
    inputs.update(run(COMPILER, "--version").encode())
    shims = [*sorted(BULK.glob("src/*.cpp")), *sorted(BULK.glob("src/*.h"))]
    for file in [*files, *shims, __file__]:
        inputs.update(Path(file).read_bytes())
    return inputs.hexdigest()


def main():
    """Makes the library."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    level, folder = sys.argv[2], Path(sys.argv[3]).resolve()
    models = configurations.chosen(sys.argv[1])
    files = sources.sources(sources.TILED)
    made_from = digest(models, level, files)
    stamp, library = folder / "digest", folder / "models.so"
    if library.exists() and stamp.exists() and stamp.read_text() == made_from:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    root = run(VERILATOR, "--getenv", "VERILATOR_ROOT").strip()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = list(pool.map(lambda model: verilate(model, files, folder), models))
        jobs = [(Path(root, "include", f"{name}.cpp"), level) for name in RUNTIME]
        for name, text in [*units(models, folders), ("table", table(models))]:
            path = folder / f"{name}.cc"
            path.write_text(text)
            jobs.append((path, "0" if name.startswith("slow") else level))
        headers = [f"{root}/include", f"{root}/include/vltstd", BULK / "src", *folders]
        how = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-w", "-DVL_TIME_CONTEXT"]
        how += [f"-I{path}" for path in headers]

        def compiled(job):
            path, level = job
            result = folder / f"{path.stem}.o"
            run(COMPILER, f"-O{level}", *how, "-c", path, "-o", result)
            return result

        objects = list(pool.map(compiled, jobs))
    run(COMPILER, "-shared", "-o", library, *objects, "-lpthread")
    stamp.write_text(made_from)


if __name__ == "__main__":
    main()
