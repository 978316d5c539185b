"""Results of a run: numbers of streams and links, and every departure on request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas
    import polars

    from millstream import _millstream

#: Control characters, and those that change the writing direction.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

#: Maximum streams shown in a notebook; ``Result.streams`` has all.
_SHOWN = 40

_COUNTS = (
    "arrived",
    "sent",
    "sent_bytes",
    "dropped_late",
    "dropped_full",
    "queued",
    "missed",
    "violations",
)
_NESTED = {"delay_ns": ("mean", "p50", "p99", "p999", "max"), "jitter_ns": ("mean", "max")}


def _column(outer: str, inner: str) -> str:
    """Joins ``delay_ns`` and ``p99`` to ``delay_p99_ns``: the unit comes last."""
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


_FABRIC_COUNTS = (
    "connections_asked",
    "connections_admitted",
    "injected",
    "injected_bytes",
    "delivered",
    "delivered_bytes",
)
_FABRIC_SHARES = ("offered", "throughput")
_FABRIC_NESTED = {"delay_ns": ("mean", "p50", "p99", "p999", "max")}

#: The columns of :attr:`Result.streams` of a fabric.
FABRIC_STREAMS_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        *(pa.field(count, pa.uint64(), nullable=False) for count in _FABRIC_COUNTS),
        *(pa.field(share, pa.float64(), nullable=False) for share in _FABRIC_SHARES),
        *(
            pa.field(_column(outer, inner), pa.uint64())
            for outer, inners in _FABRIC_NESTED.items()
            for inner in inners
        ),
        pa.field("jitter_max_ns", pa.uint64()),
    ]
)

#: The columns of :attr:`Result.links`.
LINKS_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("from", pa.string(), nullable=False),
        pa.field("to", pa.string(), nullable=False),
        pa.field("busy_ns", pa.uint64(), nullable=False),
        pa.field("utilisation", pa.float64(), nullable=False),
    ]
)


def streams_table(summary: Mapping[str, Any]) -> pa.Table:
    """Returns the streams of a link's or fabric's summary as a table, one row a stream."""
    schema, nested = (
        (FABRIC_STREAMS_SCHEMA, _FABRIC_NESTED)
        if "fabric" in summary
        else (STREAMS_SCHEMA, _NESTED)
    )
    origin = {
        _column(outer, inner): (outer, inner) for outer, ins in nested.items() for inner in ins
    }
    columns: dict[str, list[Any]] = {}
    for name in schema.names:
        if name in origin:
            outer, inner = origin[name]
            columns[name] = [
                None if stream[outer] is None else stream[outer][inner]
                for stream in summary["streams"]
            ]
        else:
            columns[name] = [stream[name] for stream in summary["streams"]]
    return pa.table(columns, schema=schema)


class Result:
    """The result of a run. Times in ns, rates in bits/s, lengths in bytes."""

    def __init__(self, native: _millstream.RunResult) -> None:
        """Wraps the native result; ``Scenario.run`` calls it."""
        self._native = native

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._native.name

    @property
    def seed(self) -> int:
        """The random seed of the run."""
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
        """Remarks on the numbers; the command prints the same."""
        return self._native.notes

    @cached_property
    def summary_json(self) -> str:
        """The summary, byte for byte as ``millstream run --summary`` writes it."""
        return self._native.summary_json()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary as a dict."""
        summary: dict[str, Any] = json.loads(self.summary_json)
        return summary

    @cached_property
    def streams(self) -> pa.Table:
        """The summary's streams, one row each in the order of the file.

        Counts of packets; ``rate_bps`` over the whole run, bits/s; ``delay_…_ns`` of packets sent;
        ``jitter_…_ns``, the difference of delay between successive packets. A stream without sent
        packets has null delays.

        For a fabric: counts from the end of the warm-up; ``offered`` and ``throughput`` as shares
        of all end-points' links, six decimals; ``delay_…_ns`` from injection until the last byte
        arrived; ``jitter_max_ns``, the maximum over connections, null for sources without.
        """
        return streams_table(self.summary)

    def to_pandas(self) -> pandas.DataFrame:
        """:attr:`streams` as a pandas DataFrame; needs pandas."""
        frame: pandas.DataFrame = self.streams.to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """:attr:`streams` as a Polars DataFrame, without a copy; needs Polars."""
        import polars

        frame = polars.from_arrow(self.streams)
        assert isinstance(frame, polars.DataFrame)
        return frame

    @property
    def is_fabric(self) -> bool:
        """Whether the run is of a fabric rather than a single link."""
        return self._native.is_fabric

    @cached_property
    def links(self) -> pa.Table:
        """A fabric's one-way links, one row each.

        Columns: ``from`` and ``to``, ``busy_ns`` (time transmitting in the whole run),
        ``utilisation`` (its share of the run, 0 to 1, six decimals). The hot spots are
        ``links.sort_by([("utilisation", "descending")]).slice(0, 10)``.

        Raises:
            ValueError: The run is of a single link; ``summary["link"]`` has its numbers.
        """
        links = self._native.links()
        if links is None:
            raise ValueError("it was a single link; summary['link'] has its numbers")
        return pa.table(list(links), schema=LINKS_SCHEMA)

    @cached_property
    def departures(self) -> pa.Table:
        """Every departure, one row an event in order.

        Columns: ``time_ns`` (start of service, or the drop), ``stream``, ``packet`` (number among
        the stream's arrivals), ``bytes``, ``arrival_ns``, ``deadline_ns`` (null without a
        deadline), ``event`` (sent, dropped-late, dropped-full). The columns share the run's memory:
        they are not copied, and pandas and Polars can adopt them.

        Raises:
            ValueError: The run did not keep departures.
        """
        departures = self._native.departures
        if departures is None:
            raise ValueError("departures were not kept; run(departures=True) keeps them")
        return pa.table(departures)

    def write_report(self, path: str | Path) -> None:
        """Writes the HTML report of ``millstream run --report``.

        Raises:
            ValueError: The run did not keep time series.
        """
        if not self._native.has_series:
            raise ValueError("time series were not kept; run(series=True) keeps them")
        self._native.write_report(Path(path))

    def __str__(self) -> str:
        """The table that the command prints."""
        return self._native.table().rstrip("\n")

    def __repr__(self) -> str:
        """A one-line description."""
        return f"<millstream.Result of {self.name!r}, {self.discipline}, seed {self.seed}>"

    def _repr_html_(self) -> str:
        """The streams as an HTML table, for notebooks."""
        shown = self.streams.slice(0, _SHOWN)
        whole = self.summary["fabric" if self.is_fabric else "link"]
        busy = (
            f"links busy {whole['mean_utilisation']:.1%}"
            if self.is_fabric
            else f"link busy {whole['utilisation']:.1%}"
        )
        caption = (
            f"{printed(self.name)}: {printed(self.discipline)}, seed {self.seed}, {busy} of "
            f"{whole['end_ns']:,} ns"
        )
        more = self.streams.num_rows - shown.num_rows
        below = f"<p>and {counted(more, 'more stream')}</p>" if more else ""
        rows = [list(row.values()) for row in shown.to_pylist()]
        return html_table(caption, shown.column_names, rows, below)


def printed(text: str) -> str:
    """Escapes a text for HTML, with escapes for control characters as in the command's tables."""
    return escape(_CONTROLS.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text))


def counted(count: int, noun: str) -> str:
    """Returns a count and its noun: ``1 stream``, ``2 streams``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def html_table(
    caption: str, names: Sequence[str], rows: Sequence[Sequence[object]], below: str = ""
) -> str:
    """Returns a table for notebooks; ``caption`` and ``below`` are HTML."""
    # Long names may break at their underscores.
    head = "".join("<th>" + printed(name).replace("_", "_<wbr>") + "</th>" for name in names)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return (
        f'<div style="overflow-x: auto"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"
    )


def _cell(value: object) -> str:
    """Formats a number with thousands separators, escapes a name, and shows a dash for None."""
    if isinstance(value, int | float):
        return f'<td style="text-align: right">{value:,}</td>'
    if value is None:
        return '<td style="text-align: right">–</td>'
    return f'<td style="text-align: left; white-space: nowrap">{printed(str(value))}</td>'
