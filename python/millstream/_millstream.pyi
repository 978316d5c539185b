"""The native module; private. Times in ns, lengths in bytes, rates in bits/s."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

class MillstreamError(Exception):
    """Base class of Millstream's exceptions."""

class ScenarioError(MillstreamError):
    """A scenario cannot be run; lists every problem with its line and the allowed values."""

class TrafficError(MillstreamError):
    """An input file is unreadable or malformed; gives the position and the expected format."""

class ContractError(MillstreamError):
    """A stream's contract cannot be scheduled."""

def duration_ns(text: str) -> int:
    """Parses a duration such as ``"40 ms"``; returns ns."""

def rate_bps(text: str) -> int:
    """Parses a rate such as ``"10 Mbit/s"``; returns bits/s."""

def size_bytes(text: str) -> int:
    """Parses a size such as ``"16 kB"``; returns bytes."""

def disciplines() -> list[tuple[str, str]]:
    """Returns every discipline of the engine: its name and summary."""

#: Confidence level of every interval, 0 to 1.
CONFIDENCE: float

def interval(values: list[float]) -> tuple[float, float | None] | None: ...
def metrics(fabric: bool) -> list[str]: ...

@final
class Departures:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

@final
class RunResult:
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def discipline(self) -> str: ...
    @property
    def structure(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def departures(self) -> Departures | None: ...
    @property
    def has_series(self) -> bool: ...
    @property
    def is_fabric(self) -> bool: ...
    def links(self) -> tuple[list[str], list[str], list[int], list[float]] | None: ...
    def summary_json(self) -> str: ...
    def table(self) -> str: ...
    def write_report(self, path: Path) -> None: ...

@final
class Scenario:
    @staticmethod
    def load(path: Path) -> Scenario: ...
    @staticmethod
    def parse(name: str, text: str, folder: Path) -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def duration_ns(self) -> int | None: ...
    @property
    def is_fabric(self) -> bool: ...
    @property
    def text(self) -> str: ...
    @property
    def stream_names(self) -> list[str]: ...
    @property
    def input_files(self) -> list[Path]: ...
    def explain_json(self) -> str: ...
    def run(
        self,
        *,
        seed: int | None,
        departures: bool,
        series: bool,
        progress: Callable[[int], object] | None,
    ) -> RunResult: ...

@final
class Head:
    """A head-of-line packet, as visible to a discipline."""

    @property
    def arrival_ns(self) -> int:
        """Arrival time, ns."""
    @property
    def bytes(self) -> int:
        """Length, bytes."""

@final
class Departure:
    """A packet that was sent, or dropped with a reason."""

    @property
    def time_ns(self) -> int:
        """Start of service or time of the drop, ns."""
    @property
    def stream(self) -> int:
        """The stream's number."""
    @property
    def packet(self) -> int:
        """Number among the stream's arrivals, from 0."""
    @property
    def bytes(self) -> int:
        """Length, bytes."""
    @property
    def arrival_ns(self) -> int:
        """Arrival time, ns."""
    @property
    def deadline_ns(self) -> int | None:
        """The deadline at service or drop, ns."""
    @property
    def event(self) -> str:
        """``sent``, ``dropped-late``, ``dropped-full`` or ``dropped-aqm``."""
    @property
    def tag(self) -> int:
        """The caller's number."""

@final
class DepartureColumns:
    """Departures of a batch, one NumPy array a column."""

    @property
    def time_ns(self) -> NDArray[np.uint64]:
        """Start of service or time of the drop, ns."""
    @property
    def stream(self) -> NDArray[np.uint32]:
        """The stream's number."""
    @property
    def packet(self) -> NDArray[np.uint64]:
        """Number among the stream's arrivals, from 0."""
    @property
    def bytes(self) -> NDArray[np.uint32]:
        """Length, bytes."""
    @property
    def arrival_ns(self) -> NDArray[np.uint64]:
        """Arrival time, ns."""
    @property
    def deadline_ns(self) -> NDArray[np.uint64]:
        """The deadline, ns; ``NO_DEADLINE`` without a deadline."""
    @property
    def event(self) -> NDArray[np.uint8]:
        """The index into ``EVENTS``."""
    @property
    def tag(self) -> NDArray[np.uint64]:
        """The caller's number."""
    def __len__(self) -> int: ...

class Scheduler:
    def __new__(
        cls,
        discipline: Any,
        structure: str,
        link_rate_bps: int,
        overhead_bytes: int,
        framing: str,
        events: bool,
    ) -> Scheduler: ...
    @property
    def structure(self) -> str:
        """The data structure that finds the first stream."""
    def _add_stream(
        self,
        *,
        period_ns: int | None,
        window: tuple[int, int],
        first_deadline_ns: int | None,
        late: str,
        weight: int,
        quantum_bytes: int | None,
        priority: int,
        queue: int | None,
        max_rate_bps: int | None,
        burst_bytes: int | None,
        credits: int | None,
        fmc: bool,
    ) -> int: ...
    def enqueue(self, now_ns: int, stream: int, bytes: int, tag: int = 0) -> int | None:
        """Enqueues a packet of ``bytes`` bytes at ``now_ns``.

        Returns:
            Its number among the stream's arrivals; None if the queue was full and it was dropped.
        """
    def dequeue(self, now_ns: int) -> Departure | None:
        """Makes a decision at ``now_ns``: the packet to send, or None if no stream is eligible.

        Call on every link-idle event, even with an empty backlog: it ends the busy period, which
        resets fair queueing.
        """
    def set_eligible(self, now_ns: int, stream: int, eligible: bool) -> None:
        """Opens (the initial state) or closes the gate of a stream at ``now_ns``."""
    def add_credits(self, now_ns: int, stream: int, credits: int) -> None:
        """Returns credits, of 64 bytes each, to a stream at ``now_ns``."""
    def next_eligible_ns(self) -> int | None:
        """The time at which the next stream becomes eligible under its rate cap, ns."""
    def waiting(self, stream: int | None = None) -> int:
        """Packets waiting in a stream, or in all."""
    def take_drops(self) -> DepartureColumns:
        """Drops since the last call, in order; needs ``events=True``."""
    def __len__(self) -> int: ...
    def _enqueue_batch(
        self,
        times: NDArray[np.uint64],
        streams: NDArray[np.uint32],
        bytes: NDArray[np.uint32],
        tags: NDArray[np.uint64] | None = None,
    ) -> int: ...
    def _dequeue_at(self, now_ns: int, count: int) -> DepartureColumns: ...
    def _dequeue_times(self, times: NDArray[np.uint64]) -> DepartureColumns: ...
    def _counters(self) -> list[NDArray[np.uint64]]: ...
    def _take_misses(
        self,
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64]]: ...
