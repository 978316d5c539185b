"""The seeds that count equal the command's, for every executor and order."""

from __future__ import annotations

import concurrent.futures as futures
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from millstream import sweep
from millstream._plan import Ended, Plan, Until
from tests_support import done, small_scenario

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass
class Run:
    """A run without a scenario."""

    key: str
    error: str = ""


def plan(points: int, seeds: int) -> Plan[Run]:
    until = [Until(None, "delay_mean_ns", 0.01)]
    return Plan([[Run(f"{at}.{seed}") for seed in range(seeds)] for at in range(points)], until)


def delay(value: float | None) -> Ended:
    return Ended({"delay_mean_ns": [value]}, ["a"])


def begun(of: Plan[Run], runs: int, *, perhaps: bool) -> list[str]:
    taken = [of.take(perhaps=perhaps) for _ in range(runs)]
    return [run.key for run in taken if run is not None]


def test_speculative_runs_come_last_and_on_request() -> None:
    wanted = plan(2, 5)
    assert begun(wanted, 9, perhaps=False) == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]
    assert begun(wanted, 1, perhaps=True) == ["0.3"]
    for seed, value in enumerate((100, 200, 200)):
        wanted.end(f"1.{seed}", delay(value))
    assert begun(wanted, 1, perhaps=True) == ["1.3"], "needed goes first"


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_the_first_sufficient_seeds_count_in_any_order_of_completion(order: list[int]) -> None:
    wanted = plan(1, 5)
    for seed in order:
        wanted.end(f"0.{seed}", delay(100))
    assert [run.key for run, _ in wanted.counted()] == ["0.0", "0.1", "0.2"]
    assert wanted.take(perhaps=True) is None
    assert wanted.runs == 3


def test_failures_and_runs_without_a_value_do_not_count() -> None:
    wanted = plan(1, 6)
    wanted.end("0.0", Ended(error="lost"))
    for seed, value in enumerate((100, None, 100), 1):
        wanted.end(f"0.{seed}", delay(value))
    assert begun(wanted, 9, perhaps=False) == ["0.4"], "two values are too few"
    wanted.end("0.4", delay(100))
    assert [error for _, error in wanted.counted()] == ["lost", "", "", "", ""]


def few(duration: str = "100 ms") -> list[Any]:
    axes: dict[str, list[Any]] = {"scheduler.discipline": ["fifo", "drr"]}
    return list(sweep.grid(small_scenario(duration), axes))


@pytest.mark.parametrize(
    ("until", "asked"),
    [
        ({"delay_mean": 0.5}, ["delay_mean=50%"]),
        ({"a.rate_bps": 0.1, "b.delay_p99_ns": 0.3}, ["a.rate_bps=10%", "b.delay_p99_ns=30%"]),
    ],
)
def test_the_same_seeds_count_as_for_the_command(
    tmp_path: Path, command: Command, until: dict[str, float], asked: list[str]
) -> None:
    with futures.ThreadPoolExecutor(3) as threads:
        made = sweep.run(
            few(), seeds=range(1, 41), results=tmp_path / "py", executor=threads, until=until
        )
    file = tmp_path / "same.toml"
    file.write_text(small_scenario("100 ms").text)
    words = [word for one in asked for word in ("--until", one)]
    grid = ["--set", "scheduler.discipline=fifo,drr", "--seeds", "40", "--json"]
    points = json.loads(command("sweep", file, *grid, *words).stdout)
    first = made.table.filter(pc.field("name") == "a")
    counted = [first.filter(pc.field("point") == at).num_rows for at in range(2)]
    theirs = [line["metrics"]["rate_bps"] for line in points if line["stream"] == "a"]
    assert counted == [line["runs"] for line in theirs]
    assert any(3 < count < 40 for count in counted), counted
    # Existing runs are used, including speculative ones, and the seeds are the same.
    again = sweep.run(few(), seeds=range(1, 41), results=tmp_path / "py", until=until)
    assert (again.made, again.found) == (0, len(done(tmp_path / "py")))
    assert again.path.read_bytes() == made.path.read_bytes()


def test_errors_name_the_problem(tmp_path: Path) -> None:
    wrong: list[tuple[str, float, str]] = [
        ("delay_maen", 0.1, "no such metric; there is busy_ns"),
        ("call.delay_mean", 0.1, "no stream is called 'call'"),
        ("delay_mean", 0, "0 is no share of the mean above 0"),
    ]
    for metric, relative, said in wrong:
        with pytest.raises(ValueError, match=said):
            sweep.run(few(), results=tmp_path, until={metric: relative})
