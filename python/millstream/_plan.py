"""Selects the next run of a sweep and decides when a point has enough seeds.

It decides as ``millstream sweep`` does. A point's seeds are started in order. A point is complete
at the least n for which the runs of the first n seeds have ended and their intervals are tight.
Speculative runs of later seeds, made by idle workers, do not count: the same seeds count on every
executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from millstream import _millstream

#: Minimum number of runs before an interval may complete a point.
FEWEST = 3


class Run(Protocol):
    """A run of a point with a seed; equal keys are the same run."""

    key: str
    #: Why it cannot be made.
    error: str


R = TypeVar("R", bound=Run)

#: A column of a run's table as numbers; None for nulls.
Column = Sequence[float | None]


@dataclass(frozen=True)
class Until:
    """Completes a point once the interval of a metric is this tight."""

    #: The stream; None for every stream.
    stream: str | None
    #: The metric's column.
    column: str
    #: Half of the interval relative to the mean.
    relative: float

    @classmethod
    def parse(cls, metric: str, relative: float, fabric: bool, streams: Sequence[str]) -> Until:
        """Parses ``delay_mean`` of every stream, ``NAME.delay_mean`` of one; units are optional."""
        stream, dot, wanted = metric.rpartition(".")
        if dot and stream not in streams:
            raise ValueError(f"until {metric!r}: no stream is called {stream!r} in every point")
        if not 0 < relative < float("inf"):
            raise ValueError(f"until {metric!r}: {relative!r} is no share of the mean above 0")
        names = _millstream.metrics(fabric)
        for name in names:
            if wanted in (name, name.removesuffix("_ns").removesuffix("_bps")):
                return cls(stream if dot else None, name, relative)
        raise ValueError(f"until {metric!r}: there is no such metric; there is {', '.join(names)}")

    def satisfied(self, runs: Sequence[Mapping[str, Column]], names: Sequence[str]) -> bool:
        """Whether these runs of a point with these streams are enough."""
        mine = (at for at, name in enumerate(names) if self.stream in (None, name))
        return all(self._tight([run[self.column][at] for run in runs]) for at in mine)

    def _tight(self, values: Sequence[float | None]) -> bool:
        numbers = [value for value in values if value is not None]
        interval = _millstream.interval(numbers)
        if interval is None or len(numbers) < FEWEST:
            return False
        mean, half = interval
        return half is not None and half <= self.relative * abs(mean)


@dataclass
class Ended:
    """An ended run: its columns, or the reason of its failure."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    names: Sequence[str] = ()
    error: str = ""


@dataclass
class _Point(Generic[R]):
    """A point's runs, in the order of seeds."""

    runs: Sequence[R]
    #: All runs before this index have been started.
    begun: int = 0
    #: The first runs that have ended and were not enough.
    judged: int = 0
    #: The number of first runs that count, once known.
    enough: int | None = None


class Plan(Generic[R]):
    """All runs of a sweep, by point in the order of seeds."""

    def __init__(self, points: Sequence[Sequence[R]], until: Sequence[Until] = ()) -> None:
        """Builds the plan; no run is started."""
        self.until = until
        self._points = [_Point(runs) for runs in points]
        #: Runs that count or may count.
        self.runs = sum(map(len, points))
        self._open = 0
        self._ended: dict[str, Ended] = {}
        self._under_way: set[str] = set()
        #: The points of a key's run.
        self._of: dict[str, list[_Point[R]]] = {}
        for point in self._points:
            for run in point.runs:
                holders = self._of.setdefault(run.key, [])
                if not holders or holders[-1] is not point:
                    holders.append(point)
        for point in self._points:
            for run in point.runs:
                if run.error:
                    self.end(run.key, Ended(error=run.error))

    def peek(self, *, perhaps: bool) -> R | None:
        """Returns the run to start next, or None.

        Runs that are needed for any outcome come first; then, if ``perhaps``, a speculative one.
        """
        while self._open < len(self._points) and not self._waits(self._points[self._open]):
            self._open += 1
        maybe = None
        for point in self._rest():
            if not self._waits(point):
                continue
            run = point.runs[point.begun]
            if not self.until or point.begun < max(point.judged + 1, FEWEST):
                return run
            maybe = maybe or run
        return maybe if perhaps else None

    def take(self, *, perhaps: bool) -> R | None:
        """Returns the run to start next, or None, and marks it as started."""
        run = self.peek(perhaps=perhaps)
        if run is not None:
            self._under_way.add(run.key)
        return run

    def end(self, key: str, ended: Ended) -> None:
        """Records that a run has ended, or was found done."""
        self._under_way.discard(key)
        self._ended[key] = ended
        for point in self._of[key]:
            self._judge(point)

    def counted(self) -> Iterator[tuple[R, str]]:
        """Yields the runs that count, by point and seed, each with the reason of a failure."""
        for point in self._points:
            for run in point.runs[: point.enough]:
                yield run, self._ended[run.key].error

    def _rest(self) -> Iterator[_Point[R]]:
        for at in range(self._open, len(self._points)):
            yield self._points[at]

    def _waits(self, point: _Point[R]) -> bool:
        """Whether there is a run to start; advances to it."""
        while point.begun < len(point.runs):
            key = point.runs[point.begun].key
            if key not in self._ended and key not in self._under_way:
                break
            point.begun += 1
        return point.enough is None and point.begun < len(point.runs)

    def _judge(self, point: _Point[R]) -> None:
        while point.enough is None:
            if point.judged == len(point.runs):
                point.enough = point.judged
                return
            if point.runs[point.judged].key not in self._ended:
                return
            point.judged += 1
            if self.until and self._tight(point):
                point.enough = point.judged
                self.runs -= len(point.runs) - point.enough

    def _tight(self, point: _Point[R]) -> bool:
        ended = [self._ended[run.key] for run in point.runs[: point.judged]]
        done = [one for one in ended if not one.error]
        columns = [one.columns for one in done]
        return len(done) >= FEWEST and all(
            until.satisfied(columns, done[0].names) for until in self.until
        )


def columns_of(table: pa.Table, until: Sequence[Until]) -> Ended:
    """Returns the judged columns of a run's table."""
    if not until:
        return Ended()
    columns = {one.column: table[one.column].to_pylist() for one in until}
    return Ended(columns, table["name"].to_pylist())
