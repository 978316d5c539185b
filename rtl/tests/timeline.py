"""The scheduling timeline of ShareStreams' Figure 6, from a simulation by Icarus.

Usage: timeline.py FOLDER [--check]. Simulates the base architecture and Compute-Ahead for 4 to 32
streams into VCD files and reads the cycles of a decision from them: log2 N passes, plus
PRIORITY_UPDATE without Compute-Ahead. They must equal those of `rtl/synthesis/designs.toml`.
WaveDrom draws the timelines of 4 streams as FOLDER/fig6.svg and fig6-ahead.svg; --check compares
them with the existing files instead.
"""

import json
import os
import sys
import tomllib
from pathlib import Path

import wavedrom
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner
from vcdvcd import VCDVCD

from run import ARGUMENTS, BUILD, ROOT, sources


def simulate(streams, ahead):
    """Returns the VCD of a run."""
    folder = BUILD / f"timeline-{streams}-{'ca' if ahead else 'ba'}"
    runner = get_runner("icarus")
    runner.build(
        sources=[*sources("icarus"), ROOT / "rtl/tests/vcd_dump.sv"],
        hdl_toplevel="msr_core",
        build_dir=folder,
        parameters={"N": streams, "ComputeAhead": int(ahead)},
        build_args=[*ARGUMENTS["icarus"], "-s", "vcd_dump"],
        timescale=("1ns", "1ns"),
    )
    # Overrides the runner's default of no waveform.
    os.environ["SIM_CMD_SUFFIX"] = "-vcd"
    results = runner.test(
        hdl_toplevel="msr_core",
        test_module="test_timeline",
        build_dir=folder,
        test_dir=folder,
        extra_env={"PYTHONPATH": str(ROOT / "rtl/tests"), "COCOTB_LOG_LEVEL": "WARNING"},
    )
    tests, failed = get_results(results)
    assert tests == 1 and not failed, f"the simulation of {folder.name} failed"
    return VCDVCD(str(folder / "timeline.vcd"))


def cycles_of(vcd):
    """Returns the signals' values before each rising edge after reset, by name."""
    names = ["rst_ni", "load_valid_i", "decide_i", "decided_o", "winner_o",
             "u_control.pass_o", "u_control.count_o", "u_control.update_o", "u_control.settle_o"]
    found = {}
    for name in names:
        (reference,) = [r for r in vcd.references_to_ids if r.split("[")[0] == f"msr_core.{name}"]
        found[name.removeprefix("u_control.")] = vcd[reference]
    (clock,) = [r for r in vcd.references_to_ids if r == "msr_core.clk_i"]
    edges = [time for time, value in vcd[clock].tv if value == "1"]
    rows = []
    for edge in edges:
        values = {name: signal[edge - 1] for name, signal in found.items()}
        if values["rst_ni"] == "1":
            known = {n: int(v, 2) for n, v in values.items() if not set(v) & set("xz")}
            rows.append(known)
    return rows


def draw(rows, ahead):
    """Returns the figure drawn by WaveDrom."""
    def state(row):
        if row["load_valid_i"]:
            return "LOAD"
        if row["pass_o"]:
            update = " + UPDATE" if row["update_o"] else ""
            return f"SCHEDULE {'I' * (row['count_o'] + 1)}{update}"
        return "UPDATE" if row["update_o"] else "SETTLE"

    def level(name):
        values = [str(row[name]) for row in rows]
        return "".join(v if i == 0 or v != values[i - 1] else "." for i, v in enumerate(values))

    states = [state(row) for row in rows]
    colours = {"L": "3", "S": "4", "U": "5"}
    winners = [f"stream {row['winner_o'] + 1}" for row in rows if row["decided_o"]]
    title = "LOAD, SCHEDULE and PRIORITY_UPDATE for 4 streams"
    title += ", computed ahead" if ahead else ""
    return wavedrom.render(json.dumps({
        "signal": [
            {"name": "clk", "wave": "p" + "." * (len(rows) - 1)},
            {"name": "state", "data": states, "wave": "".join(
                "2" if s == "SETTLE" else "6" if "+" in s else colours[s[0]] for s in states)},
            {"name": "load_valid", "wave": level("load_valid_i")},
            {"name": "decide", "wave": level("decide_i")},
            {"name": "decided", "wave": level("decided_o")},
            {"name": "winner", "data": winners, "wave": "".join(
                "7" if row["decided_o"]
                else "x" if not any(r["decided_o"] for r in rows[:i]) else "."
                for i, row in enumerate(rows))},
        ],
        "head": {"text": title, "tick": 0},
        "config": {"hscale": 4 if ahead else 3},
    })).tostring() + "\n"


def decision_cycles(rows):
    """Returns the cycles between back-to-back decisions."""
    ends = [i for i, row in enumerate(rows) if row["decided_o"]]
    gaps = {after - before for before, after in zip(ends, ends[1:])}
    assert len(gaps) == 1, f"decisions end in cycles {ends}"
    return gaps.pop()


def main(folder, check=None):
    designs = tomllib.loads((ROOT / "rtl/synthesis/designs.toml").read_text())["core"]
    stated = {row["name"]: dict(zip(row["streams"], row["cycles"])) for row in designs}
    for streams in (4, 8, 16, 32):
        for ahead in (False, True):
            rows = cycles_of(simulate(streams, ahead))
            measured = decision_cycles(rows)
            name = "ca" if ahead else "ba"
            expected = streams.bit_length() - 1 + (not ahead)
            assert measured == expected == stated[name][streams], (streams, name, measured)
            print(f"{name}, {streams} streams: {measured} cycles a decision", flush=True)
            if streams == 4:
                figure = Path(folder) / ("fig6-ahead.svg" if ahead else "fig6.svg")
                drawn = draw(rows, ahead)
                if not check:
                    figure.write_text(drawn)
                elif figure.read_text() != drawn:
                    sys.exit(f"error: {figure} is not what the simulation shows: make rtl-report")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit("usage: timeline.py FOLDER [--check]")
    main(*sys.argv[1:])
