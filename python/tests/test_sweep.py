"""Local sweeps: the same bytes in every order, no lost runs, isolated failures."""

from __future__ import annotations

import concurrent.futures as futures
import multiprocessing
import os
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from millstream import Scenario, sweep
from millstream._plan import Ended, Plan
from tests_support import Killer, done, small_points, small_scenario

SEEDS = range(3)


def test_local_processes_and_threads_give_the_same_bytes(tmp_path: Path) -> None:
    with futures.ThreadPoolExecutor(2) as threads:
        executors: dict[str, Any] = {"local": None, "threads": threads}
        for name, executor in executors.items():
            made = sweep.run(
                small_points(), seeds=SEEDS, results=tmp_path / name, executor=executor, workers=2
            )
            assert (made.made, made.found, made.failures) == (12, 0, [])
    tables = {(tmp_path / name / "sweep.parquet").read_bytes() for name in executors}
    assert len(tables) == 1
    names = {tuple(path.name for path in done(tmp_path / name)) for name in executors}
    assert len(names) == 1

    table = made.table
    assert table.num_rows == 4 * 3 * 2
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["point"], first["seed"], first["name"]) == (0, 0, "a")
    assert (first["scheduler.discipline"], first["stream.a.weight"]) == ("fifo", 1)
    alone = small_points()[3].scenario.run(seed=2).summary
    last = table.slice(23, 1).to_pylist()[0]
    assert last["sent"] == alone["streams"][1]["sent"]
    assert last["delay_p99_ns"] == alone["streams"][1]["delay_ns"]["p99"]
    assert last["delay_p999_ns"] == alone["streams"][1]["delay_ns"]["p999"]
    assert last["utilisation"] == alone["link"]["utilisation"]


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    with futures.ThreadPoolExecutor(2) as threads:

        def run(some: list[Any], **more: Any) -> sweep.Sweep:
            return sweep.run(some, results=tmp_path, executor=threads, **more)

        assert run(small_points()[:2], seeds=SEEDS).made == 6
        whole = run(small_points(), seeds=SEEDS)
        assert (whole.found, whole.made) == (6, 6)
        bytes_before = whole.path.read_bytes()
        done(tmp_path)[4].unlink()
        again = run(small_points(), seeds=SEEDS)
        assert (again.found, again.made, again.path.read_bytes()) == (11, 1, bytes_before)
        # Fewer points make a smaller table from existing files.
        assert run(small_points()[1:2], seeds=[2]).table["seed"].to_pylist() == [2, 2]


def test_a_key_is_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time_ns,stream,bytes\n0,a,100\n")
    source = {"kind": "trace", "file": "a.csv"}
    scenario = Scenario("1 Mbps", folder=tmp_path).stream("a", source=source)
    with futures.ThreadPoolExecutor(1) as threads:

        def run(*some: Scenario | sweep.Point) -> sweep.Sweep:
            return sweep.run(some, results=tmp_path / "results", executor=threads)

        assert run(scenario).made == 1
        # The same scenario as text, or under two labels, is the same run.
        text = Scenario.from_text(scenario.text, folder=tmp_path)
        twice = run(sweep.Point(text, {"is": "x"}), sweep.Point(scenario, {"is": "y"}))
        assert (twice.found, twice.made) == (1, 0)
        assert twice.table["is"].to_pylist() == ["x", "y"]
        (tmp_path / "a.csv").write_text("time_ns,stream,bytes\n0,a,100\n1,a,100\n")
        assert run(scenario).made == 1


def test_an_interrupted_sweep_resumes(tmp_path: Path) -> None:
    class Interrupted(futures.ThreadPoolExecutor):
        left = 5

        def submit(self, *arguments: Any, **more: Any) -> Any:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            future = super().submit(*arguments, **more)
            futures.wait([future])
            return future

    with Interrupted(1) as executor, pytest.raises(KeyboardInterrupt):
        sweep.run(small_points(), seeds=SEEDS, results=tmp_path / "a", executor=executor)
    with futures.ThreadPoolExecutor(1) as threads:
        resumed = sweep.run(small_points(), seeds=SEEDS, results=tmp_path / "a", executor=threads)
        whole = sweep.run(small_points(), seeds=SEEDS, results=tmp_path / "b", executor=threads)
    assert resumed.found + resumed.made == 12
    assert resumed.path.read_bytes() == whole.path.read_bytes()


def test_failures_are_isolated_and_hold_their_scenario(tmp_path: Path) -> None:
    lost = {"kind": "trace", "file": "none.csv"}
    some = [
        *sweep.grid(small_scenario(), {"scheduler.discipline": ["fifo", "dwsc", "edf"]}),
        Scenario("1 Mbps").stream("a", source=lost),
    ]
    with pytest.warns(UserWarning, match="2 of 4 runs failed, the first: point 1"):
        made = sweep.run(some, results=tmp_path, workers=1)
    assert [failure.point for failure in made.failures] == [1, 3]
    assert "unknown discipline `dwsc`" in made.failures[0].error
    assert made.failures[0].parameters == {"scheduler.discipline": "dwsc"}
    assert made.failures[1].error.startswith("TrafficError:")
    assert "none.csv" in made.failures[1].scenario
    assert sorted(set(made.table["point"].to_pylist())) == [0, 2]


def workers() -> list[int]:
    """Processes of the local pool; a cluster's workers would be children of this process, too."""
    return [child.pid for child in multiprocessing.active_children() if child.pid is not None]


def whole_table(tmp_path: Path, duration: str) -> bytes:
    with futures.ThreadPoolExecutor(2) as threads:
        made = sweep.run(
            small_points(duration), seeds=SEEDS, results=tmp_path / "whole", executor=threads
        )
    return made.path.read_bytes()


def test_a_killed_local_worker_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duration = "100 s"
    folder = tmp_path / "killed"
    assert not workers()
    rerun: list[str] = []
    alone = sweep._alone

    def counted(task: sweep._Task) -> Any:
        rerun.append(task.key)
        return alone(task)

    monkeypatch.setattr(sweep, "_alone", counted)
    killer = Killer(lambda: len(done(folder)) > 0, workers, 1)
    killer.start()
    made = sweep.run(small_points(duration), seeds=SEEDS, results=folder, workers=2)
    killer.end()
    assert len(killer.killed) == 1, "it was midway"
    assert rerun, "what was under way was lost with the pool and run again"
    assert (made.made, made.failures) == (12, [])
    assert made.path.read_bytes() == whole_table(tmp_path, duration)


def test_a_pool_that_breaks_on_submission_loses_nothing(tmp_path: Path) -> None:
    class Breaks(futures.ThreadPoolExecutor):
        left = 3

        def submit(self, *arguments: Any, **more: Any) -> Any:
            if self.left == 0:
                raise BrokenProcessPool
            self.left -= 1
            return super().submit(*arguments, **more)

    tasks = [sweep._Task(at, 0, point, None, f"{at}") for at, point in enumerate(small_points())]
    plan = Plan([[task] for task in tasks])
    suspects: list[sweep._Task] = []
    with Breaks(1) as executor:
        ended = [task for task, _ in sweep._drive(executor, plan, 2, 2, suspects.extend)]
    # All were taken: no other worker takes them.
    assert {task.key for task in [*ended, *suspects]} == {"0", "1", "2", "3"}


def test_a_run_that_always_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    # Waits for a pipe without a writer until it is killed.
    os.mkfifo(tmp_path / "pipe.csv")
    stuck = Scenario("1 Mbps", folder=tmp_path)
    stuck.stream("a", source={"kind": "trace", "file": "pipe.csv"})
    folder = tmp_path / "results"
    assert not workers()
    killer = Killer(lambda: len(done(folder)) == 4, workers, 100)
    killer.start()
    task = sweep._Task(0, 0, sweep.Point(stuck), None, "stuck")
    others = [
        sweep._Task(at, 0, point, None, f"{at}") for at, point in enumerate(small_points(), 1)
    ]
    (folder / "done").mkdir(parents=True)
    found: dict[int, Any] = {}
    plan = Plan([[one] for one in (task, *others)])
    for one, outcome in sweep._outcomes(plan, None, 2):
        found[one.place] = outcome
        plan.end(one.key, Ended())
        if not isinstance(outcome, str):
            (folder / "done" / one.file).touch()
    killer.end()
    assert "its process died, twice" in found.pop(0)
    assert [outcome.num_rows for outcome in found.values()] == [2, 2, 2, 2]
    assert len(killer.killed) >= 3, "the pool once, then alone twice"


def test_empty_sweeps_and_reserved_parameter_names_are_rejected(tmp_path: Path) -> None:
    assert sweep.run([], results=tmp_path).table.num_rows == 0
    with pytest.raises(ValueError, match="may not be called seed"):
        sweep.run([sweep.Point(small_scenario(), {"seed": 1})], results=tmp_path)
    with pytest.warns(UserWarning, match="1 of 1 runs failed"):
        made = sweep.run([Scenario("fast")], results=tmp_path)
    assert "ScenarioError" in made.failures[0].error
