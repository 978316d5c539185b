"""The standard views show the numbers of the results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.patches import StepPatch

import millstream
from millstream import figures


@pytest.fixture(scope="module")
def result() -> millstream.Result:
    scenario = millstream.Scenario("10 Mbps", "wfq", duration="1 s")
    scenario.stream("first", weight=3, source={"kind": "cbr", "bytes": 500, "rate": "9 Mbps"})
    scenario.stream("second", queue=9, source={"kind": "cbr", "bytes": 900, "rate": "6 Mbps"})
    scenario.stream("idle", source={"kind": "cbr", "bytes": 100, "rate": "1 Kbps", "start": "9 s"})
    return scenario.run(departures=True)


def sent_bytes(result: millstream.Result, stream: str) -> int:
    departures = result.departures.to_pylist()
    return sum(
        row["bytes"] for row in departures if row["event"] == "sent" and row["stream"] == stream
    )


def test_rates_add_up_to_the_bytes_sent(result: millstream.Result) -> None:
    axes = figures.rates(result, bin_ns=70_000_000).axes[0]
    steps = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    assert [step.get_label() for step in steps] == ["first", "second", "idle"]
    for step in steps:
        values, edges, _ = step.get_data()
        megabits = float(np.sum(np.asarray(values) * np.diff(edges)))
        expected = sent_bytes(result, str(step.get_label())) * 8 / 1e6
        assert megabits == pytest.approx(expected, rel=1e-9)


def test_delays_cover_all_packets_up_to_the_longest_wait(
    result: millstream.Result,
) -> None:
    lines = {line.get_label(): line for line in figures.delays(result).axes[0].lines}
    assert set(lines) == {"first", "second"}, "nothing was sent of the third"
    sent = result.departures.filter(pc.equal(result.departures["event"], "sent"))
    waits = np.asarray(sent["time_ns"]) - np.asarray(sent["arrival_ns"])
    assert max(np.max(line.get_xdata()) for line in lines.values()) == max(waits) / 1e6
    for line in lines.values():
        assert np.all(np.diff(line.get_ydata()) >= 0)
        assert np.asarray(line.get_ydata())[-1] == pytest.approx(1)


def test_service_ends_at_the_bytes_sent_by_weight(result: millstream.Result) -> None:
    for line in figures.service(result, {"first": 3}).axes[0].lines[:2]:
        name = str(line.get_label())
        weight = {"first": 3}.get(name, 1)
        expected = sent_bytes(result, name) / 1e3 / weight
        assert np.asarray(line.get_ydata())[-1] == pytest.approx(expected)


def test_errors_name_the_problem(result: millstream.Result) -> None:
    with pytest.raises(ValueError, match="bin_ns is 0"):
        figures.rates(result, bin_ns=0)
    with pytest.raises(ValueError, match="'third', which is no stream"):
        figures.service(result, {"third": 1})
    with pytest.raises(ValueError, match="the weight of 'first' is 0"):
        figures.service(result, {"first": 0})
    with pytest.raises(KeyError, match="no column 'violations'; it has"):
        figures.violations(pa.table({"utilisation": [1.0], "point": [0], "name": ["a"]}))


def test_over_draws_means_and_intervals() -> None:
    table = pa.table(
        {
            "point": [0, 0, 0, 1, 1, 1],
            "name": ["a"] * 6,
            "utilisation": [0.5, 0.5, 0.5, 0.9, 0.9, 0.9],
            "violations": [1, 2, 3, 10, None, 10],
        }
    )
    axes = figures.violations(table).axes[0]
    assert axes.get_ylabel() == "violations ± 95 %"
    (bars,) = axes.containers
    assert isinstance(bars, ErrorbarContainer)
    line, _, (segments,) = bars.lines
    assert np.asarray(line.get_xydata()).tolist() == [[0.5, 2], [0.9, 10]]
    # Student's t of two degrees of freedom, 95 %, is 4.303; the deviation of 1, 2, 3 is 1.
    (low, high), none = (np.asarray(path)[:, 1] for path in segments.get_segments())
    assert (high - low) / 2 == pytest.approx(4.303 / np.sqrt(3), rel=1e-3)
    assert none[0] == none[1] == 10


def test_the_same_result_gives_the_same_bytes(result: millstream.Result, tmp_path: Path) -> None:
    made = [
        figures.save(figures.rates(result, bin_ns=10**8), tmp_path / name) for name in ("a", "b")
    ]
    for first, second in zip(*made, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert {path.suffix for path in made[0]} == {".svg", ".png"}
    assert "first" in (tmp_path / "a.svg").read_text(), "labels are text"
