"""What a run came to: numbers a stream, and every departure if asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from millstream import _millstream

#: Streams that a notebook shows; ``Result.streams`` has all.
_SHOWN = 40

_COUNTS = ("arrived", "sent", "sent_bytes", "dropped_late", "dropped_full", "missed", "violations")
_NESTED = {"delay_ns": ("mean", "p50", "p99", "max"), "jitter_ns": ("mean", "max")}


def _column(outer: str, inner: str) -> str:
    """``delay_ns`` and ``p99`` make ``delay_p99_ns``: names end in their unit."""
    quantity, unit = outer.rsplit("_", 1)
    return f"{quantity}_{inner}_{unit}"


#: The columns of :attr:`Result.streams`.
STREAMS_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        *(pa.field(count, pa.uint64(), nullable=False) for count in (*_COUNTS, "rate_bps")),
        *(
            pa.field(_column(outer, inner), pa.uint64())
            for outer, inners in _NESTED.items()
            for inner in inners
        ),
    ]
)


def streams_table(streams: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The ``streams`` of a summary as a table, one row a stream."""
    columns: dict[str, list[Any]] = {
        name: [stream[name] for stream in streams] for name in ("name", *_COUNTS, "rate_bps")
    }
    for outer, inners in _NESTED.items():
        for inner in inners:
            columns[_column(outer, inner)] = [
                None if stream[outer] is None else stream[outer][inner] for stream in streams
            ]
    return pa.table(columns, schema=STREAMS_SCHEMA)


class Result:
    """What a run came to. Times in ns, rates in bits/s, lengths in bytes."""

    def __init__(self, native: _millstream.RunResult) -> None:
        """Wraps the native result; made by ``Scenario.run``."""
        self._native = native

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._native.name

    @property
    def seed(self) -> int:
        """Where the run's randomness came from."""
        return self._native.seed

    @property
    def discipline(self) -> str:
        """The discipline; with classes, the root's."""
        return self._native.discipline

    @property
    def structure(self) -> str:
        """The structure; with classes, the root's."""
        return self._native.structure

    @property
    def notes(self) -> list[str]:
        """What one should know beside the numbers; the command prints the same."""
        return self._native.notes

    @cached_property
    def summary_json(self) -> str:
        """The summary, byte for byte as ``millstream run --summary`` writes it."""
        return self._native.summary_json()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The same as a dict."""
        summary: dict[str, Any] = json.loads(self.summary_json)
        return summary

    @cached_property
    def streams(self) -> pa.Table:
        """The summary's streams, one row each in the order of the file.

        Counts of packets; ``rate_bps`` over the whole run, bits/s; ``delay_…_ns`` of packets sent;
        ``jitter_…_ns``, the difference of delay between successive packets. A stream of which
        nothing was sent has null delays.
        """
        return streams_table(self.summary["streams"])

    @cached_property
    def departures(self) -> pa.Table:
        """Every departure, one row an event in the order it happened.

        Columns: ``time_ns`` (service starts, or the drop happens), ``stream``, ``packet`` (number
        among the stream's arrivals), ``bytes``, ``arrival_ns``, ``deadline_ns`` (null where there
        is none), ``event`` (sent, dropped-late, dropped-full). The columns are the run's own
        memory: nothing is copied, and pandas and Polars can take them over.

        Raises:
            ValueError: The run was not asked to keep them.
        """
        departures = self._native.departures
        if departures is None:
            raise ValueError("departures were not kept; run(departures=True) keeps them")
        return pa.table(departures)

    def write_report(self, path: str | Path) -> None:
        """Writes the page with charts that ``millstream run --report`` writes.

        Raises:
            ValueError: The run was not asked to keep time series.
        """
        if not self._native.has_series:
            raise ValueError("time series were not kept; run(series=True) keeps them")
        self._native.write_report(Path(path))

    def __str__(self) -> str:
        """The table that the command prints."""
        return self._native.table().rstrip("\n")

    def __repr__(self) -> str:
        """One line."""
        return f"<millstream.Result of {self.name!r}, {self.discipline}, seed {self.seed}>"

    def _repr_html_(self) -> str:
        """The streams as a table, for notebooks."""
        shown = self.streams.slice(0, _SHOWN)
        head = "".join(f"<th>{escape(name)}</th>" for name in shown.column_names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>"
            for row in shown.to_pylist()
        )
        link = self.summary["link"]
        caption = (
            f"{escape(self.name)}: {escape(self.discipline)}, seed {self.seed}, link busy "
            f"{link['utilisation']:.1%} of {link['end_ns']:,} ns"
        )
        more = self.streams.num_rows - shown.num_rows
        below = f"<p>and {more} more streams</p>" if more else ""
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{below}"
        )


def _cell(value: object) -> str:
    """A number with thousands apart, a name made harmless, a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
