"""The engine: packets in, departures out, time by the caller.

Two ways that give the same schedule: packet by packet (``enqueue``, ``dequeue``), some 0.2 µs each,
and by batches of NumPy columns, at nearly the engine's own speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tomli_w
from numpy.typing import ArrayLike, NDArray

from millstream import _millstream
from millstream.scenario import toml_keys

#: ``DepartureColumns.deadline_ns`` where there is no deadline.
NO_DEADLINE = 2**64 - 1

#: What the codes of ``DepartureColumns.event`` mean.
EVENTS = ("sent", "dropped-late", "dropped-full")


class Discipline(Protocol):
    """A discipline written in Python, to try a rank function.

    Of the hooks only :meth:`rank` is needed; ``on_arrival(stream, bytes, now_ns)`` and
    ``on_served(stream, head, now_ns)`` are called if they are there. Streams are numbers; their
    attributes are kept by the object. A hook must not call the scheduler.

    Cost: a call into Python for every hook, some 0.2 to 1 µs each, two to four a packet, where a
    discipline of the engine takes some 50 ns in all.
    """

    def rank(self, stream: int, head: _millstream.Head, /) -> int | tuple[int, ...]:
        """Where a stream stands: up to four integers, the least is served.

        Among equals the lowest stream is served. Asked again after each event of the stream and
        only then: a rank may depend on what happened to the stream, not on what happens to others.
        """
        ...


@dataclass(frozen=True)
class Misses:
    """Deadlines missed, one NumPy array a column."""

    #: When they were charged, ns.
    time_ns: NDArray[np.uint64]
    #: Whose.
    stream: NDArray[np.uint32]
    #: How many.
    missed: NDArray[np.uint64]
    #: How many of them with no loss left in the window.
    violations: NDArray[np.uint64]


@dataclass(frozen=True)
class Counters:
    """What happened since the start, one element a stream."""

    #: Deadlines missed.
    missed: NDArray[np.uint64]
    #: Those with no loss left in the window.
    violations: NDArray[np.uint64]
    #: Packets dropped because their deadline passed.
    dropped_late: NDArray[np.uint64]
    #: Packets dropped at a full queue.
    dropped_full: NDArray[np.uint64]


class Scheduler(_millstream.Scheduler):
    """Schedules the packets of many streams.

    The caller says what time it is, in ns; time does not go back (``ValueError``). At one instant
    arrivals come before the decision.

    >>> scheduler = Scheduler("dwcs")
    >>> half = scheduler.add_stream(period_ns=1, window=(1, 2))
    >>> rest = scheduler.add_stream(period_ns=1, window=(3, 4))
    >>> scheduler.enqueue(0, rest, 1500), scheduler.enqueue(0, half, 1500)
    (0, 0)
    >>> scheduler.dequeue(0).stream == half
    True
    """

    def __new__(
        cls,
        discipline: str | Discipline,
        structure: str = "auto",
        *,
        link_rate_bps: int = 1_000_000_000,
        overhead_bytes: int = 0,
        events: bool = False,
        **options: Any,
    ) -> Scheduler:
        """A scheduler without streams.

        Args:
            discipline: A name, see ``millstream.disciplines()``, or a :class:`Discipline`.
            structure: How the first stream is found; the schedule is the same. ``"auto"`` is the
                fastest for many streams, ``"scan"`` for up to 16.
            link_rate_bps: The link's rate, bits/s; fair queueing and rate caps go by it.
            overhead_bytes: What a packet takes on the wire beyond its length.
            events: Keep every drop and miss for :meth:`take_drops` and :meth:`take_misses`, which
                then must be called now and then. Counters are always kept.
            **options: ``order``, ``rules``, ``zero_window`` (DWCS), ``algorithm`` (MinBW),
                ``table`` (a list of stream numbers).

        Raises:
            ScenarioError: There is no such discipline, structure or option.
        """
        asked: Any = discipline
        if isinstance(discipline, str):
            asked = _settings(discipline, structure, link_rate_bps, overhead_bytes, options)
        elif options:
            raise TypeError(f"a discipline in Python has no options: {', '.join(options)}")
        made = super().__new__(cls, asked, structure, link_rate_bps, overhead_bytes, events)
        assert isinstance(made, Scheduler)
        return made

    def enqueue_batch(
        self, times: ArrayLike, streams: ArrayLike, bytes: ArrayLike, tags: ArrayLike | None = None
    ) -> int:
        """Many arrivals, in time order. Other Python threads go on meanwhile.

        Columns of uint64, uint32, uint32 and uint64 are used as they are; others are converted. One
        number in place of a column counts for every packet.

        Args:
            times: When they arrive, ns.
            streams: Their streams' numbers.
            bytes: Their lengths, bytes.
            tags: The caller's own numbers; default 0.

        Returns:
            How many were admitted; the others were dropped at full queues.
        """
        columns = [
            _column(times, np.uint64, "times"),
            _column(streams, np.uint32, "streams"),
            _column(bytes, np.uint32, "bytes"),
        ]
        if tags is not None:
            columns.append(_column(tags, np.uint64, "tags"))
        lengths = {len(column) for column in columns if column.ndim}
        if len(lengths) > 1:
            raise ValueError(f"columns of unequal lengths: {sorted(lengths)}")
        length = lengths.pop() if lengths else 1
        return self._enqueue_batch(
            *(column if column.ndim else np.full(length, column) for column in columns)
        )

    def dequeue_batch(
        self, times: ArrayLike, count: int | None = None
    ) -> _millstream.DepartureColumns:
        """Many decisions. Other Python threads go on meanwhile.

        Args:
            times: One instant, ns, at which up to ``count`` decisions are made until no stream is
                eligible; or an array of instants with one decision at each.
            count: How many at most; default: as many as packets wait.

        Returns:
            The packets sent, in order; fewer than asked for where no stream was eligible.
        """
        instants = _column(times, np.uint64, "times")
        if instants.ndim:
            if count is not None:
                raise TypeError("`count` goes with one instant; here there is an array of them")
            return self._dequeue_times(instants)
        return self._dequeue_at(int(instants), self.waiting() if count is None else count)

    def counters(self) -> Counters:
        """What happened since the start, by stream."""
        return Counters(*self._counters())

    def take_misses(self) -> Misses:
        """Deadlines missed since the last call, in order; needs ``events=True``."""
        return Misses(*self._take_misses())


def _settings(
    discipline: str,
    structure: str,
    link_rate_bps: int,
    overhead_bytes: int,
    options: dict[str, Any],
) -> _millstream.Scenario:
    """The settings as a scenario, so that names and errors are those of scenario files.

    Its streams are never run: they are there because a scenario has some, and a table names them.
    """
    table: Sequence[int] = options.pop("table", ())
    scheduler = {"discipline": discipline, "structure": structure, **toml_keys(options)}
    if len(table):
        scheduler["table"] = [str(stream) for stream in table]
    source = {"kind": "backlog", "packets": 1, "bytes": 64}
    streams = [
        {"name": str(stream), "period": "1 ms", "late": "drop", "source": source}
        for stream in range(int(max(table, default=0)) + 1)
    ]
    link = {"rate": f"{link_rate_bps} bps", "overhead": overhead_bytes}
    text = tomli_w.dumps({"scheduler": scheduler, "link": link, "stream": streams})
    return _millstream.Scenario.parse("Scheduler", text, Path())


def _column(values: ArrayLike, dtype: type[np.unsignedinteger[Any]], name: str) -> NDArray[Any]:
    """``values`` as a contiguous column of ``dtype``, without a copy where it is one."""
    column = np.asarray(values)
    if column.ndim > 1:
        raise ValueError(f"{name}: a column has one dimension, this has {column.ndim}")
    if column.dtype != dtype:
        limits = np.iinfo(dtype)
        if column.dtype.kind not in "iu" and column.size:
            raise TypeError(f"{name}: integers are needed, not {column.dtype}")
        if column.size and (int(column.min()) < 0 or int(column.max()) > int(limits.max)):
            raise OverflowError(f"{name}: values must be 0 to {limits.max}")
        column = column.astype(dtype)
    return np.ascontiguousarray(column) if column.ndim else column
