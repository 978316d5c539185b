"""Sweeps: many scenarios × seeds, one tidy table.

.. code-block:: text

    points × seeds ─> tasks, keyed by content ─> executor ─> one file a task ─> one sorted dataset
                          └ those with a file are done        └ failures, each with its scenario

The table has one row a stream of a run, in the order of points, seeds and streams. Its bytes do not
depend on the executor or the order of tasks. The process that called :func:`run` writes a task's
file when the task ends; call it again to resume after an interruption.

Tasks run on any ``concurrent.futures.Executor``: local processes by default, a Dask cluster by its
``Client``, and threads, MPI or Slurm by their executors.
"""

from __future__ import annotations

import concurrent.futures as futures
import hashlib
import itertools
import json
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm

import millstream
from millstream._plan import Ended, Plan, Until, columns_of
from millstream.result import FABRIC_STREAMS_SCHEMA, STREAMS_SCHEMA, streams_table
from millstream.scenario import Scenario

#: Pending tasks a local worker: enough that no worker waits for the next.
_AHEAD = 4

#: Pending tasks on an external executor, whose size is unknown.
_WINDOW = 512


@dataclass(frozen=True)
class Point:
    """A scenario of a sweep, and its parameters."""

    #: The scenario.
    scenario: Scenario
    #: Columns of the table, equal for all points of a sweep.
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A failed run; it does not affect the others."""

    #: The point's index in the sweep, from 0.
    point: int
    #: Its parameters.
    parameters: Mapping[str, Any]
    #: The seed; None for the scenario's own.
    seed: int | None
    #: The exception's name and text.
    error: str
    #: The scenario as TOML.
    scenario: str

    def __str__(self) -> str:
        """The point and the error."""
        values = ", ".join(f"{name} = {value!r}" for name, value in self.parameters.items())
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"point {self.point} ({values}{seed}): {self.error}"


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep."""

    #: The tidy table as a Parquet file.
    path: Path
    #: Failed runs, in order; the next call repeats them.
    failures: Sequence[Failure]
    #: Number of runs found done.
    found: int
    #: Number of runs made now.
    made: int

    @property
    def table(self) -> pa.Table:
        """One row a stream of a run.

        Columns: ``point``, the parameters, ``seed``, ``scenario``, the link's ``busy_ns``,
        ``end_ns`` and ``utilisation`` or those of ``summary["fabric"]``, then those of
        ``Result.streams``. ``millstream sweep`` writes the same.
        """
        return pq.read_table(self.path)


@runtime_checkable
class _Client(Protocol):
    """The used interface of a ``distributed.Client``."""

    def get_executor(self, **options: Any) -> futures.Executor: ...
    def ncores(self, workers: Any = None) -> Any: ...


def grid(base: Scenario, axes: Mapping[str, Iterable[Any]]) -> Iterator[Point | Failure]:
    """Yields every combination of values; the last axis changes fastest.

    An invalid combination is a failure of that point alone.

    Args:
        base: The scenario to change.
        axes: The values of each path of ``Scenario.replace``:
            ``{"scheduler.discipline": ["edf", "dwcs"], "stream.*.queue": [10, 100]}``.
    """
    for number, values in enumerate(itertools.product(*(list(axis) for axis in axes.values()))):
        parameters = dict(zip(axes, values, strict=True))
        try:
            yield Point(base.replace(parameters), parameters)
        except millstream.ScenarioError as error:
            yield Failure(number, parameters, None, _said(error), base.text)


def run(
    points: Iterable[Point | Failure | Scenario],
    *,
    results: str | Path,
    seeds: Iterable[int] | None = None,
    executor: futures.Executor | _Client | None = None,
    workers: int | None = None,
    until: Mapping[str, float] | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Runs every point with every seed and returns one table.

    Local processes are spawned, so a script that calls this needs ``if __name__ == "__main__":``.

    Args:
        points: From :func:`grid`, or a list of points or scenarios.
        results: The folder of the tasks' files, named by content, and of ``sweep.parquet``.
        seeds: Replace the scenarios' seeds.
        executor: Where tasks run: None for local processes, a ``distributed.Client``, or any
            ``Executor``. Input files must have the same paths there.
        workers: Local processes; default: one a core.
        until: Ends a point at the first number of seeds, three or more, at which half of the 95 %
            interval of a metric is at most this share of its mean: ``{"delay_mean": 0.02}`` for
            every stream, ``{"call.delay_p99": 0.05}`` for one; all must hold. The seeds that count
            are those of ``millstream sweep --until``, on any executor.
        progress: Show a bar; default: on a terminal.
    """
    folder = Path(results)
    done = folder / "done"
    done.mkdir(parents=True, exist_ok=True)
    wanted = list(seeds) if seeds is not None else [None]
    numbered = [point if not isinstance(point, Scenario) else Point(point) for point in points]
    names = _parameter_names(numbered)
    digest = _Digests()
    failures: dict[tuple[int, int], Failure] = {}
    tasks: list[list[_Task]] = []
    for place, point in enumerate(numbered):
        if isinstance(point, Failure):
            failures[place, 0] = point
        else:
            tasks.append([_Task(place, row, point, seed) for row, seed in enumerate(wanted)])
            for task in tasks[-1]:
                task.look(digest)
    plan = Plan(tasks, _untils(until or {}, tasks))
    every = {task.key: task for some in tasks for task in some if not task.error}
    found = [task for task in every.values() if (done / task.file).exists()]
    for task in found:
        plan.end(task.key, _judged(done / task.file, plan.until))
    made = 0
    with tqdm(
        total=plan.runs,
        initial=min(len(found), plan.runs),
        unit="run",
        disable=None if progress is None else not progress,
    ) as bar:
        for task, outcome in _outcomes(plan, executor, workers):
            if isinstance(outcome, str):
                plan.end(task.key, Ended(error=outcome))
            else:
                _write(outcome, done / task.file)
                plan.end(task.key, columns_of(outcome, plan.until))
                made += 1
            bar.total = plan.runs
            bar.update()
    counted = list(plan.counted())
    runs = len(counted) + len(failures)
    for task, error in counted:
        if error:
            failures[task.place, task.row] = task.failed(error)
    complete = [task for task, error in counted if not error]
    _write(_gathered(complete, names, done), folder / "sweep.parquet")
    ordered = [failures[at] for at in sorted(failures)]
    if ordered:
        message = f"{len(ordered)} of {runs} runs failed, the first: {ordered[0]}"
        warnings.warn(message, stacklevel=2)
    return Sweep(folder / "sweep.parquet", ordered, len(found), made)


@dataclass
class _Task:
    """A run."""

    place: int
    row: int
    point: Point
    seed: int | None
    key: str = ""
    error: str = ""

    def look(self, digest: _Digests) -> None:
        """Computes its key, or the reason why it cannot be made."""
        try:
            self.key = digest.key(self.point.scenario, self.seed)
        except millstream.MillstreamError as error:
            self.key, self.error = f"none {self.place} {self.row}", _said(error)

    @property
    def file(self) -> str:
        return f"{self.key}.parquet"

    def arguments(self) -> tuple[str, str, str, int | None]:
        scenario = self.point.scenario
        return scenario.text, scenario.label, str(scenario.folder.resolve()), self.seed

    def failed(self, error: str) -> Failure:
        text = self.point.scenario.text
        return Failure(self.place, self.point.parameters, self.seed, error, text)


class _Digests:
    """Keys by content: the scenario, its input files, the seed and Millstream's version."""

    def __init__(self) -> None:
        self._files: dict[Path, str] = {}

    def key(self, scenario: Scenario, seed: int | None) -> str:
        table = scenario.to_dict()
        table.get("scenario", {}).pop("seed", None)
        content = {
            "version": millstream.__version__,
            # Runs with other columns cannot be in one table.
            "columns": STREAMS_SCHEMA.names + FABRIC_STREAMS_SCHEMA.names,
            "name": scenario.name,
            "seed": scenario.seed if seed is None else seed,
            "scenario": table,
            "inputs": [self._file(path) for path in scenario.input_files],
        }
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _file(self, path: Path) -> str:
        """Returns the file's digest; empty if it cannot be read, which the run reports."""
        if path not in self._files:
            try:
                with path.open("rb") as file:
                    digest = hashlib.sha256()
                    while block := file.read(1 << 20):
                        digest.update(block)
                    self._files[path] = digest.hexdigest()
            except OSError:
                self._files[path] = ""
        return self._files[path]


#: A numeric or text column.
_TYPES = {int: pa.uint64(), float: pa.float64(), str: pa.string()}


def _task(text: str, label: str, folder: str, seed: int | None) -> pa.Table:
    """Runs a task, in any process."""
    result = Scenario.from_text(text, name=label, folder=folder).run(seed)
    streams = streams_table(result.summary)
    whole = result.summary["fabric" if result.is_fabric else "link"]
    constants = {
        "seed": pa.scalar(result.seed, pa.uint64()),
        "scenario": pa.scalar(result.name, pa.string()),
        **{name: pa.scalar(value, _TYPES[type(value)]) for name, value in whole.items()},
    }
    rows = streams.num_rows
    columns = {name: pa.repeat(value, rows) for name, value in constants.items()}
    return pa.table({**columns, **{name: streams[name] for name in streams.column_names}})


_Outcome = tuple[_Task, "pa.Table | str"]


def _outcomes(
    plan: Plan[_Task], executor: futures.Executor | _Client | None, workers: int | None
) -> Iterator[_Outcome]:
    """Yields each task with its table or error, as they end; reports them to the plan."""
    cores = workers or os.cpu_count() or 1
    if executor is None:
        yield from _local(plan, cores)
    elif isinstance(executor, futures.Executor):
        yield from _drive(executor, plan, _WINDOW, cores)
    else:
        cores = sum(executor.ncores().values())
        yield from _drive(executor.get_executor(pure=False), plan, _WINDOW, cores)


def _drive(
    executor: futures.Executor,
    plan: Plan[_Task],
    window: int,
    cores: int,
    broken: Callable[[list[_Task]], None] | None = None,
) -> Iterator[_Outcome]:
    """Keeps ``window`` tasks pending; speculative ones only on idle cores.

    If the executor breaks, its pending tasks are added to ``broken``.
    """
    under_way: dict[futures.Future[pa.Table], _Task] = {}
    # Started in the plan and not yet submitted.
    task: _Task | None = None
    try:
        while True:
            while len(under_way) < window:
                task = plan.take(perhaps=len(under_way) < cores)
                if task is None:
                    break
                under_way[executor.submit(_task, *task.arguments())] = task
                task = None
            if not under_way:
                return
            ended, _ = futures.wait(under_way, return_when=futures.FIRST_COMPLETED)
            for future in ended:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    raise error
                yield under_way.pop(future), future.result() if error is None else _said(error)
    except BrokenProcessPool:
        if broken is None:
            raise
        broken([*under_way.values(), *([] if task is None else [task])])
    finally:
        for future in under_way:
            future.cancel()


def _local(plan: Plan[_Task], workers: int) -> Iterator[_Outcome]:
    """Runs tasks in local processes; a dead process breaks its pool.

    Pending tasks are then repeated one by one, so that the task that killed it fails alone.
    """
    while plan.peek(perhaps=True) is not None:
        suspects: list[_Task] = []
        with _pool(min(workers, plan.runs)) as pool:
            yield from _drive(pool, plan, workers * _AHEAD, workers, suspects.extend)
        for task in suspects:
            yield task, _alone(task)


def _alone(task: _Task) -> pa.Table | str:
    for _ in range(2):
        with _pool(1) as pool:
            try:
                return pool.submit(_task, *task.arguments()).result()
            except BrokenProcessPool:
                continue
            except Exception as error:
                return _said(error)
    return "its process died, twice: it was killed, ran out of memory, or crashed"


def _pool(workers: int) -> futures.ProcessPoolExecutor:
    # Forked processes would inherit locks of threads that they do not have.
    return futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _untils(until: Mapping[str, float], tasks: Sequence[Sequence[_Task]]) -> list[Until]:
    """Checks the criteria against the scenarios."""
    scenarios = [some[0].point.scenario for some in tasks if some and not some[0].error]
    fabrics = {scenario.is_fabric for scenario in scenarios}
    if len(fabrics) > 1:
        raise ValueError("a sweep's scenarios are all single links or all fabrics")
    if not scenarios:
        return []
    shared = set.intersection(*(set(scenario.stream_names) for scenario in scenarios))
    return [
        Until.parse(metric, relative, fabrics == {True}, sorted(shared))
        for metric, relative in until.items()
    ]


def _judged(file: Path, until: Sequence[Until]) -> Ended:
    """Returns the judged columns of a run that was found done."""
    if not until:
        return Ended()
    wanted = list(dict.fromkeys(["name", *(one.column for one in until)]))
    return columns_of(pq.read_table(file, columns=wanted), until)


def _parameter_names(points: Sequence[Point | Failure]) -> list[str]:
    names = list(dict.fromkeys(name for point in points for name in point.parameters))
    clash = {"point", "seed", "scenario"}.intersection(names)
    if clash:
        raise ValueError(f"parameters may not be called {', '.join(sorted(clash))}")
    return names


def _gathered(tasks: Sequence[_Task], names: Sequence[str], done: Path) -> pa.Table:
    """Concatenates the tables of all tasks, with points and parameters in front."""
    columns = {name: _values([task.point.parameters.get(name) for task in tasks]) for name in names}
    tables = []
    for at, task in enumerate(tasks):
        table = pq.read_table(done / task.file)
        rows = table.num_rows
        front = {"point": pa.repeat(pa.scalar(task.place, pa.int64()), rows)}
        for name in names:
            front[name] = pa.repeat(columns[name][at], rows)
        tables.append(pa.table({**front, **{name: table[name] for name in table.column_names}}))
    return pa.concat_tables(tables).combine_chunks() if tables else pa.table({"point": []})


def _values(values: Sequence[Any]) -> pa.Array:
    """Converts to one Arrow type; mixed types become text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else _text(value) for value in values])


def _text(value: Any) -> str:
    """Formats a value as in the scenario file."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _write(table: pa.Table, path: Path) -> None:
    """Writes atomically: an existing file is complete, even after a crash of the machine."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
