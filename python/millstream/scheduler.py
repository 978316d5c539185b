"""The engine: packets in, departures out, on the caller's clock.

Two interfaces give the same schedule: packet by packet (``enqueue``, ``dequeue``), about 0.2 µs
each, and in batches of NumPy columns, at nearly the engine's own speed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tomli_w
from numpy.typing import ArrayLike, NDArray

from millstream import _millstream
from millstream._millstream import ContractError
from millstream.result import counted
from millstream.scenario import toml_keys

#: ``DepartureColumns.deadline_ns`` without a deadline.
NO_DEADLINE = 2**64 - 1

#: Names of the codes in ``DepartureColumns.event``.
EVENTS = ("sent", "dropped-late", "dropped-full", "dropped-aqm")


class Discipline(Protocol):
    """A discipline written in Python, to try a rank function.

    Only :meth:`rank` is required; ``on_arrival(stream, bytes, now_ns)`` and ``on_served(stream,
    head, now_ns)`` are called if present. Streams are numbers; the object keeps their attributes. A
    hook must not call the scheduler.

    Cost: a call into Python for every hook, about 0.2 to 1 µs each, two to four a packet, where a
    discipline of the engine takes about 50 ns in all.
    """

    def rank(self, stream: int, head: _millstream.Head, /) -> int | tuple[int, ...]:
        """Returns the rank of a stream: up to four integers; the lowest rank is served.

        Ties go to the lowest stream. Called again after each event of the stream and only then: a
        rank may depend on the stream's events, not on those of other streams.
        """
        ...


@dataclass(frozen=True)
class Misses:
    """Missed deadlines, one NumPy array a column."""

    #: Time of the charge, ns.
    time_ns: NDArray[np.uint64]
    #: The stream.
    stream: NDArray[np.uint32]
    #: Number of misses.
    missed: NDArray[np.uint64]
    #: Misses beyond the window-constraint.
    violations: NDArray[np.uint64]


@dataclass(frozen=True)
class Counters:
    """Counters since the start, one element a stream."""

    #: Deadlines missed.
    missed: NDArray[np.uint64]
    #: Misses beyond the window-constraint.
    violations: NDArray[np.uint64]
    #: Packets dropped late.
    dropped_late: NDArray[np.uint64]
    #: Packets dropped at a full queue.
    dropped_full: NDArray[np.uint64]


class Scheduler(_millstream.Scheduler):
    """Schedules the packets of many streams.

    The caller supplies the time in ns, which must not decrease (``ValueError``). At one instant
    arrivals precede the decision.

    >>> scheduler = Scheduler("dwcs")
    >>> half = scheduler.add_stream(period="40 ms", window="1/2")
    >>> rest = scheduler.add_stream(period="40 ms", window="3/4")
    >>> scheduler.enqueue(0, rest, 1500), scheduler.enqueue(0, half, 1500)
    (0, 0)
    >>> scheduler.dequeue(0).stream == half
    True
    """

    #: The name of the discipline.
    _discipline: str

    def __new__(
        cls,
        discipline: str | Discipline,
        structure: str = "auto",
        *,
        link_rate_bps: int = 1_000_000_000,
        overhead_bytes: int = 0,
        framing: str = "none",
        events: bool = False,
        **options: Any,
    ) -> Scheduler:
        """Creates a scheduler without streams.

        Args:
            discipline: A name of ``millstream.disciplines()``, or a :class:`Discipline`.
            structure: The data structure that finds the first stream; the schedule is the same.
                ``"auto"`` is the fastest for many streams, ``"scan"`` for up to 16.
            link_rate_bps: The link's rate, bits/s, used by fair queueing and rate caps.
            overhead_bytes: Bytes a packet takes on the wire beyond its length, before framing;
                may be negative.
            framing: ``"atm"`` (cells of 53 bytes for every 48), ``"ptm"`` (65 bytes for 64) or
                ``"none"``.
            events: Keep every drop and miss for :meth:`take_drops` and :meth:`take_misses`, which
                must then be called regularly. Counters are always kept.
            **options: ``order``, ``rules``, ``zero_window`` (DWCS), ``algorithm`` (MinBW),
                ``table`` (a list of stream numbers).

        Raises:
            ScenarioError: There is no such discipline, structure or option.
        """
        asked: Any = discipline
        if isinstance(discipline, str):
            asked = _settings(
                discipline, structure, link_rate_bps, overhead_bytes, framing, options
            )
        elif options:
            raise TypeError(f"a discipline in Python has no options: {', '.join(options)}")
        made = super().__new__(
            cls, asked, structure, link_rate_bps, overhead_bytes, framing, events
        )
        assert isinstance(made, Scheduler)
        made._discipline = discipline if isinstance(discipline, str) else type(discipline).__name__
        return made

    def __repr__(self) -> str:
        """A one-line description."""
        streams = counted(len(self), "stream")
        return f"<millstream.Scheduler {self._discipline}, {self.structure}: {streams}>"

    def add_stream(
        self,
        *,
        period: str | None = None,
        window: str | tuple[int, int] = (0, 0),
        first_deadline: str | None = None,
        late: str = "send",
        weight: int = 1,
        quantum_bytes: int | None = None,
        priority: int = 0,
        queue: int | None = None,
        max_rate: str | None = None,
        burst: str | None = None,
        credits: int | None = None,
        fmc: bool = False,
        period_ns: int | None = None,
        first_deadline_ns: int | None = None,
        max_rate_bps: int | None = None,
        burst_bytes: int | None = None,
    ) -> int:
        """Adds a stream and returns its number.

        Quantities with a unit are those of scenario files: ``period="40 ms"``. Each of them can be
        given as a number under the name with the unit instead: ``period_ns=40_000_000``.

        Args:
            period: T, the interval between deadlines of successive packets.
            window: ``"x/y"`` or (x, y): at most x of any y consecutive packets late or lost.
            first_deadline: Deadline of the first packet; default: its arrival + period.
            late: Treatment of late packets: ``send`` or ``drop``.
            weight: Share under fair queueing; at least 1.
            quantum_bytes: Quantum of deficit round robin, bytes.
            priority: Static priority; 0 is served first.
            queue: Maximum waiting packets; arrivals beyond are dropped. Default: unlimited.
            max_rate: A cap on the rate on the wire, ``"2 Mbit/s"``; needs ``burst``.
            burst: Burst under the cap on the wire, ``"16 kB"``.
            credits: Initial credits of 64 bytes; default: no flow control.
            fmc: MinBW: this is the fabric management channel.
            period_ns: ``period``, ns.
            first_deadline_ns: ``first_deadline``, ns.
            max_rate_bps: ``max_rate``, bits/s.
            burst_bytes: ``burst``, bytes.

        Raises:
            ContractError: A required attribute of the discipline is missing, or a value is invalid.
        """
        return self._add_stream(
            period_ns=_quantity("period", period, period_ns, "ns", _millstream.duration_ns),
            window=_window(window),
            first_deadline_ns=_quantity(
                "first_deadline", first_deadline, first_deadline_ns, "ns", _millstream.duration_ns
            ),
            late=late,
            weight=_integer("weight", weight, 1, 2**32 - 1),
            quantum_bytes=_optional("quantum_bytes", quantum_bytes, 1, 2**32 - 1),
            priority=_integer("priority", priority, 0, 2**32 - 1),
            queue=_optional("queue", queue, 0, 2**32 - 1),
            max_rate_bps=_quantity("max_rate", max_rate, max_rate_bps, "bps", _millstream.rate_bps),
            burst_bytes=_quantity("burst", burst, burst_bytes, "bytes", _millstream.size_bytes),
            credits=_optional("credits", credits, 0, 2**64 - 1),
            fmc=fmc,
        )

    def enqueue_batch(
        self, times: ArrayLike, streams: ArrayLike, bytes: ArrayLike, tags: ArrayLike | None = None
    ) -> int:
        """Enqueues many packets, in time order; releases the GIL meanwhile.

        Columns of uint64, uint32, uint32 and uint64 are used without a copy; others are converted.
        A number in place of a column applies to every packet.

        Args:
            times: Arrival times, ns.
            streams: Stream numbers.
            bytes: Lengths, bytes.
            tags: The caller's numbers; default 0.

        Returns:
            The number of admitted packets; the others were dropped at full queues.
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
        """Makes many decisions; releases the GIL meanwhile.

        Args:
            times: One instant, ns, at which up to ``count`` decisions are made until no stream is
                eligible; or an array of instants with one decision at each.
            count: Maximum number of decisions; default: the number of waiting packets.

        Returns:
            The packets sent, in order; fewer than requested if no stream was eligible.
        """
        instants = _column(times, np.uint64, "times")
        if instants.ndim:
            if count is not None:
                raise TypeError("`count` goes with one instant; here there is an array of them")
            return self._dequeue_times(instants)
        return self._dequeue_at(int(instants), self.waiting() if count is None else count)

    def counters(self) -> Counters:
        """Returns the counters since the start, by stream."""
        return Counters(*self._counters())

    def take_misses(self) -> Misses:
        """Returns deadlines missed since the last call, in order; needs ``events=True``."""
        return Misses(*self._take_misses())


def _settings(
    discipline: str,
    structure: str,
    link_rate_bps: int,
    overhead_bytes: int,
    framing: str,
    options: dict[str, Any],
) -> _millstream.Scenario:
    """Validates the settings as a scenario, so that names and errors are those of scenario files.

    Its streams are never run: a scenario must have some, and a table refers to them.
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
    link = {
        "rate": f"{link_rate_bps} bit/s",
        "overhead": overhead_bytes,
        "framing": framing,
    }
    text = tomli_w.dumps({"scheduler": scheduler, "link": link, "stream": streams})
    return _millstream.Scenario.parse("Scheduler", text, Path())


def _integer(name: str, value: object, least: int, largest: int) -> int:
    """Returns an argument that must be an integer from ``least`` to ``largest``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= largest:
        raise ContractError(f"{name} = {value!r}; must be an integer from {least} to {largest}")
    return number


def _optional(name: str, value: object, least: int, largest: int) -> int | None:
    """Returns an argument that may be None."""
    return None if value is None else _integer(name, value, least, largest)


def _quantity(
    name: str, text: object, number: object, unit: str, parse: Callable[[str], int]
) -> int | None:
    """Returns a quantity, given as a text with a unit or as a number of ``unit``."""
    if text is None:
        return _optional(f"{name}_{unit}", number, 0, 2**64 - 1)
    if number is not None:
        raise ContractError(f"give either {name} or {name}_{unit}")
    if not isinstance(text, str):
        raise ContractError(
            f"{name} = {text!r}; must be a text with a unit; {name}_{unit} takes a number"
        )
    try:
        return parse(text)
    except ContractError as error:
        raise ContractError(f"{name}: {error}") from None


def _window(window: object) -> tuple[int, int]:
    """Returns the window-constraint x/y."""
    parts = window.split("/") if isinstance(window, str) else window
    try:
        lost, of = (int(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ContractError(f'window = {window!r}; must be "x/y" or (x, y)') from None
    largest = 2**32 - 1
    return _integer("window", lost, 0, largest), _integer("window", of, 0, largest)


def _column(values: ArrayLike, dtype: type[np.unsignedinteger[Any]], name: str) -> NDArray[Any]:
    """Returns ``values`` as a contiguous column of ``dtype``, without a copy if possible."""
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
