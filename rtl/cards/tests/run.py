"""Runs the cards' cocotb tests by Verilator or Icarus.

Usage: run.py SIMULATOR [quick|long|TOP]; run.py list prints every configuration, for the lint.
"""

import os
import re
import sys
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

CARDS = Path(__file__).resolve().parents[1]
ROOT = CARDS.parents[1]
BUILD = ROOT / "target" / "rtl-cards"
sys.path.append(str(ROOT / "rtl"))
import sources as lists  # noqa: E402

# cocotb's runner passes this path on.
sys.path.append(str(ROOT / "rtl/tests"))
ARGUMENTS = {
    "icarus": ["-g2012"], "verilator": ["-Wall", "--output-split", "0"],
}

# Device under test, name, parameters, whether in the quick run.
RUNS = [
    ("msr_line_card", "4", {"N": 4, "Beats": 64, "Depth": 8, "WinnerOnly": 1}, True),
    ("msr_end_system", "4", {"N": 4, "Banks": 2, "Depth": 32, "Winners": 64, "Burst": 8}, True),
    ("msr_end_system", "8", {"N": 8, "Banks": 4, "Depth": 32, "Winners": 32, "Burst": 16}, False),
    ("msr_tx_scheduler", "4", {"QUEUE_INDEX_WIDTH": 2}, True),
    ("msr_tx_scheduler", "32", {"QUEUE_INDEX_WIDTH": 5, "SCHED_CTRL_ENABLE": 1}, False),
    ("msr_line_card", "ba8", {"N": 8, "Beats": 64, "Depth": 4, "WinnerOnly": 0}, False),
    ("msr_line_card", "32", {"N": 32, "Beats": 64, "Depth": 4, "WinnerOnly": 1}, False),
]


def sources(simulator):
    """Returns the core, registers and cards; rewritten for Icarus."""
    files = lists.sources(lists.CARDS)
    if simulator != "icarus":
        return files
    folder = BUILD / "icarus-sources"
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        text = re.sub(r"^(module \w+)", r"\1 import msr_pkg::*;", file.read_text(), flags=re.M)
        (folder / file.name).write_text(re.sub(r"msr_pkg::(?=\w)", "", text))
    return [folder / file.name for file in files]


def main(simulator, mode="quick"):
    if simulator == "list":
        for top, _, parameters, _ in RUNS:
            print(top, *(f"-G{name}={value}" for name, value in parameters.items()))
        return 0
    failures = 0
    for top, name, parameters, quick in RUNS:
        if (mode == "quick" and not quick) or (mode.startswith("msr") and mode != top):
            continue
        folder = BUILD / f"{simulator}-{top}-{name}"
        runner = get_runner(simulator)
        runner.build(
            sources=sources(simulator), hdl_toplevel=top, build_dir=folder, parameters=parameters,
            build_args=ARGUMENTS[simulator], timescale=("1ns", "1ps"),
        )
        results = runner.test(
            hdl_toplevel=top, test_module=f"test_{top}", build_dir=folder, test_dir=folder,
            extra_env={
                "STREAMS": str(parameters.get("N") or 1 << parameters["QUEUE_INDEX_WIDTH"]),
                "CONTROLLED": str(parameters.get("SCHED_CTRL_ENABLE", 0)),
                **{
                    name.upper(): str(parameters.get(name, 0))
                    for name in ("Beats", "Depth", "Banks", "Winners")
                },
                "REGISTERS": str(CARDS / "registers"),
                "COCOTB_LOG_LEVEL": os.environ.get("COCOTB_LOG_LEVEL", "WARNING"),
            },
        )
        tests, failed = get_results(results)
        print(f"{top} {name} {simulator}: {tests - failed} of {tests} tests passed", flush=True)
        failures += failed
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
