"""The native half; private. Times in ns, lengths in bytes, rates in bits/s."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

class MillstreamError(Exception):
    """What Millstream raises."""

class ScenarioError(MillstreamError):
    """A scenario cannot be run; every problem with its line and what would be right."""

class TrafficError(MillstreamError):
    """An input file is unreadable or malformed; where, and what would be right."""

class ContractError(MillstreamError):
    """A stream's contract cannot be scheduled."""

def disciplines() -> list[tuple[str, str]]:
    """Every discipline of the engine: its name and what it does."""

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
    """A head-of-line packet, as a discipline may know it."""

    @property
    def arrival_ns(self) -> int:
        """When it arrived, ns."""
    @property
    def bytes(self) -> int:
        """Its length, bytes."""

@final
class Departure:
    """A packet that left: sent, or dropped and why."""

    @property
    def time_ns(self) -> int:
        """When service started or the drop happened, ns."""
    @property
    def stream(self) -> int:
        """Its stream's number."""
    @property
    def packet(self) -> int:
        """Its number among the stream's arrivals, from 0."""
    @property
    def bytes(self) -> int:
        """Its length, bytes."""
    @property
    def arrival_ns(self) -> int:
        """When it arrived, ns."""
    @property
    def deadline_ns(self) -> int | None:
        """The deadline it was served or dropped against, ns."""
    @property
    def event(self) -> str:
        """``sent``, ``dropped-late`` or ``dropped-full``."""
    @property
    def tag(self) -> int:
        """The caller's own number."""

@final
class DepartureColumns:
    """Departures of a batch, one NumPy array a column."""

    @property
    def time_ns(self) -> NDArray[np.uint64]:
        """When service started or the drop happened, ns."""
    @property
    def stream(self) -> NDArray[np.uint32]:
        """The stream's number."""
    @property
    def packet(self) -> NDArray[np.uint64]:
        """The number among the stream's arrivals, from 0."""
    @property
    def bytes(self) -> NDArray[np.uint32]:
        """The length, bytes."""
    @property
    def arrival_ns(self) -> NDArray[np.uint64]:
        """When it arrived, ns."""
    @property
    def deadline_ns(self) -> NDArray[np.uint64]:
        """The deadline, ns; ``NO_DEADLINE`` where there is none."""
    @property
    def event(self) -> NDArray[np.uint8]:
        """The index into ``EVENTS``."""
    @property
    def tag(self) -> NDArray[np.uint64]:
        """The caller's own number."""
    def __len__(self) -> int: ...

class Scheduler:
    def __new__(
        cls,
        discipline: Any,
        structure: str,
        link_rate_bps: int,
        overhead_bytes: int,
        events: bool,
    ) -> Scheduler: ...
    @property
    def structure(self) -> str:
        """The structure that finds the first stream."""
    def add_stream(
        self,
        *,
        period_ns: int | None = None,
        window: tuple[int, int] = (0, 0),
        first_deadline_ns: int | None = None,
        late: str = "send",
        weight: int = 1,
        quantum_bytes: int | None = None,
        priority: int = 0,
        queue: int | None = None,
        max_rate_bps: int | None = None,
        burst_bytes: int | None = None,
        credits: int | None = None,
        fmc: bool = False,
    ) -> int:
        """Adds a stream and returns its number.

        Args:
            period_ns: T, the interval between deadlines of successive packets, ns.
            window: (x, y): at most x of any y consecutive packets late or lost.
            first_deadline_ns: Of the first packet, ns; default: its arrival + period.
            late: What becomes of late packets: ``send`` or ``drop``.
            weight: Share under fair queueing; at least 1.
            quantum_bytes: Of deficit round robin, bytes.
            priority: Static priority; 0 is served first.
            queue: Packets that may wait; arrivals beyond are dropped. Default: any number.
            max_rate_bps: A cap on the rate, bits/s on the wire.
            burst_bytes: What may go at once under the cap, bytes on the wire.
            credits: Credits of 64 bytes that the stream starts with; default: no flow control.
            fmc: MinBW: this is the fabric management channel.

        Raises:
            ContractError: It lacks what the discipline needs, or a value is impossible.
        """
    def enqueue(self, now_ns: int, stream: int, bytes: int, tag: int = 0) -> int | None:
        """A packet of ``bytes`` bytes arrives at ``now_ns``.

        Returns:
            Its number among the stream's arrivals; None if the queue was full and it was dropped.
        """
    def dequeue(self, now_ns: int) -> Departure | None:
        """One decision at ``now_ns``: the packet to send, or None if no stream is eligible.

        To be asked whenever the link is free, also if nothing waits: that ends a busy period, and
        fair queueing forgets who got more before.
        """
    def set_eligible(self, now_ns: int, stream: int, eligible: bool) -> None:
        """Opens (the start) or closes the gate of a stream at ``now_ns``."""
    def add_credits(self, now_ns: int, stream: int, credits: int) -> None:
        """Credits, of 64 bytes each, come back to a stream at ``now_ns``."""
    def next_eligible_ns(self) -> int | None:
        """When the next stream becomes eligible by time alone, its rate cap, ns."""
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
