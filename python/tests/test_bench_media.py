"""The verdicts of `benches/peers/media.py`."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PEERS = Path(__file__).resolve().parents[2] / "benches/peers"


@pytest.fixture
def media(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Returns the program as a module."""
    monkeypatch.syspath_prepend(str(PEERS))
    return importlib.import_module("media")


def runs(system: str, load: int, p99_us: list[float], **others: float) -> list[dict[str, Any]]:
    """Returns runs with 100 clients on a quiet machine."""
    run = {"system": system, "load_percent": load, "clients": 100, "steal_percent": 0.1}
    run |= {"other_percent": 2.0, **others}
    return [{**run, "run": at, "p99_us": us} for at, us in enumerate(p99_us)]


def verdict(media: ModuleType, made: list[dict[str, Any]], goal: int) -> str:
    """Returns the verdict on a goal, by its place."""
    return str(media.verdicts(made)[goal]["verdict"])


def test_a_goal_needs_three_undisturbed_runs_that_agree(media: ModuleType) -> None:
    """At 90 % the p99 must be at most 1 ms."""
    assert verdict(media, runs("ni", 90, [500, 900, 1000]), 1) == "reached"
    assert verdict(media, runs("ni", 90, [1001, 2000, 3000]), 1) == "differs"
    assert verdict(media, runs("ni", 90, [500, 900, 1001]), 1) == "cannot tell"
    assert verdict(media, runs("ni", 90, [500, 900]), 1) == "cannot tell"
    assert verdict(media, runs("ni", 90, [5, 5, 5], steal_percent=2.1), 1) == "cannot tell"
    assert verdict(media, runs("ni", 90, [5, 5, 5], other_percent=11), 1) == "cannot tell"


def test_ratios_are_those_of_the_same_round(media: ModuleType) -> None:
    """MediaMTX's p99 must be ten times ours in each round."""
    ours, theirs = runs("ni", 100, [100, 200, 300]), runs("mediamtx", 100, [1000, 2000, 3000])
    assert verdict(media, ours + theirs, 3) == "reached"
    assert media.verdicts(ours + theirs)[3]["found"] == "10.0, 10.0, 10.0 times"
    late = runs("mediamtx", 100, [1000, 1999, 3000])
    assert verdict(media, ours + late, 3) == "cannot tell"
    relayed = runs("ni-live", 100, [200, 300, 400])
    assert verdict(media, relayed + theirs, 4) == "differs"


def test_whep_has_the_goals_of_rtsp(media: ModuleType) -> None:
    """Each protocol has three goals of its own and two beside MediaMTX."""
    files, relay = runs("whep", 100, [100, 200, 1000]), runs("whep-live", 100, [200, 400, 800])
    theirs = runs("mediamtx-whep", 100, [2000, 4000, 8000])
    found = {row["goal"]: row for row in media.verdicts(files + relay + theirs)}
    assert len(found) == 10
    p99 = found["p99 of whep with 100 clients at 100 % at most 1.0 ms"]
    assert p99 == {**p99, "verdict": "reached", "found": "0.10, 0.20, 1.00 ms"}
    for system, ratios, told in [
        ("whep", "8.0, 20.0, 20.0", "cannot tell"),
        ("whep-live", "10.0, 10.0, 10.0", "reached"),
    ]:
        row = found[f"p99 of mediamtx-whep at 100 % at least 10 times that of {system}"]
        assert row == {**row, "verdict": told, "found": f"{ratios} times"}
    assert found["p99 of ni with 100 clients at 0 % at most 0.5 ms"]["verdict"] == "cannot tell"


def test_a_peer_that_cannot_be_had_is_an_error(
    media: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program names it, and fails."""
    file = str(tmp_path / "results.json")
    peers = ["--systems", "mediamtx-whep", "--missing", "mediamtx,mediamtx-whep"]
    monkeypatch.setattr("sys.argv", ["media.py", file, *peers])
    with pytest.raises(SystemExit, match=r"^error: not measured: mediamtx-whep: it could not"):
        media.main()
