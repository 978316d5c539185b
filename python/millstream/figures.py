"""Draws the standard views of results with matplotlib, in one style.

>>> import millstream
>>> from millstream import figures
>>> cbr = {"kind": "cbr", "bytes": 1000, "rate": "2 Mbit/s"}
>>> scenario = millstream.Scenario("8 Mbit/s", "fifo", duration="1 s").stream("voice", source=cbr)
>>> figure = figures.rates(scenario.run(departures=True), bin_ns=100_000_000)
>>> figure.axes[0].get_ylabel()
'rate (Mbit/s)'

The colours are Okabe and Ito's, which are distinct for colour-blind readers; further lines differ
in their dashes. The same result gives the same bytes of SVG. Every view is a matplotlib ``Figure``,
which notebooks display and :func:`save` writes. The views need ``pip install
'millstream[figures]'``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream import _millstream

try:
    from matplotlib import style
    from matplotlib.figure import Figure
except ImportError as error:
    message = "figures need matplotlib: pip install 'millstream[figures]'"
    raise ImportError(message) from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from millstream.result import Result

__all__ = ["View", "delays", "over", "rates", "save", "service", "violations"]

#: Okabe and Ito 2008, without yellow, which is too pale on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("-", "--", ":", "-.")

#: The style of every figure.
STYLE: Any = [
    # Overrides the user's matplotlibrc.
    "default",
    {
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.constrained_layout.use": True,
        "figure.dpi": 100,
        "figure.figsize": (7, 4),
        "font.size": 10,
        "grid.alpha": 0.3,
        "lines.linewidth": 1.5,
        "svg.fonttype": "none",
        "svg.hashsalt": "millstream",
    },
]


class View(Figure):
    """A matplotlib figure that notebooks display with any backend."""

    def _repr_png_(self) -> bytes:
        png = BytesIO()
        with style.context(STYLE):
            self.savefig(png, format="png")
        return png.getvalue()


@contextmanager
def _figure(title: str | None, x: str, y: str) -> Generator[tuple[View, Axes]]:
    with style.context(STYLE):
        figure = View()
        axes = figure.add_subplot(title=title or "", xlabel=x, ylabel=y)
        yield figure, axes
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside right upper", frameon=False)


def _looks() -> Iterator[dict[str, Any]]:
    """Yields the colours in order, then again with other dashes."""
    return cycle({"color": colour, "linestyle": dash} for dash in DASHES for colour in COLOURS)


def _by_stream(result: Result) -> Iterator[tuple[str, pa.Table]]:
    """Yields each stream's sent packets, in the order of the scenario."""
    sent = result.departures.filter(pc.field("event") == "sent")
    for name in result.streams["name"].to_pylist():
        yield name, sent.filter(pc.field("stream") == name)


def _column(table: pa.Table, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = table[name].to_numpy().astype(np.int64)
    return values


def rates(result: Result, bin_ns: int) -> View:
    """Plots each stream's rate over time.

    Args:
        result: Result of ``run(departures=True)``.
        bin_ns: Averaging time, ns, from time 0. The last bin ends with the run and is divided by
            its own length.

    Raises:
        ValueError: ``bin_ns`` is not positive, or departures were not kept.
    """
    if bin_ns <= 0:
        raise ValueError(f"bin_ns is {bin_ns}: it must be above 0")
    streams = list(_by_stream(result))
    end_ns = max(
        (int(_column(sent, "time_ns")[-1]) + 1 for _, sent in streams if len(sent)), default=0
    )
    edges = np.append(np.arange(0, end_ns, bin_ns, dtype=np.int64), end_ns)
    with _figure(result.name, "time (s)", "rate (Mbit/s)") as (figure, axes):
        for (name, sent), look in zip(streams, _looks(), strict=False):
            bits, _ = np.histogram(
                _column(sent, "time_ns"), edges, weights=_column(sent, "bytes") * 8
            )
            axes.stairs(bits * 1e3 / np.diff(edges), edges / 1e9, label=name, baseline=None, **look)
        axes.set_ylim(bottom=0)
    return figure


def delays(result: Result) -> View:
    """Plots the distribution of each stream's queueing delay, from arrival to start of service.

    The axis of delays is logarithmic; a line starts at the fraction that did not wait.

    Args:
        result: Result of ``run(departures=True)``.

    Raises:
        ValueError: Departures were not kept.
    """
    with _figure(result.name, "wait until its turn (ms)", "packets (%)") as (figure, axes):
        for (name, sent), look in zip(_by_stream(result), _looks(), strict=False):
            if len(sent):
                waits_ms = (_column(sent, "time_ns") - _column(sent, "arrival_ns")) / 1e6
                axes.ecdf(waits_ms, label=name, **look)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
        axes.set_xscale("log")
    return figure


def service(result: Result, weights: Mapping[str, float] | None = None) -> View:
    """Plots each stream's cumulative service by weight; parallel lines are fair.

    The distance of backlogged streams' lines is the discipline's unfairness. An idle stream falls
    behind legitimately.

    Args:
        result: Result of ``run(departures=True)``.
        weights: Weights by stream; default 1.

    Raises:
        ValueError: A weight is not positive or its stream is unknown, or departures were not kept.
    """
    weights = weights or {}
    names = set(result.streams["name"].to_pylist())
    for name, weight in weights.items():
        if name not in names:
            raise ValueError(f"weights has {name!r}, which is no stream of {result.name!r}")
        if not weight > 0:
            raise ValueError(f"the weight of {name!r} is {weight}: it must be above 0")
    label = "service by weight (kB)" if weights else "service (kB)"
    with _figure(result.name, "time (s)", label) as (figure, axes):
        for (name, sent), look in zip(_by_stream(result), _looks(), strict=False):
            kilobytes = np.cumsum(_column(sent, "bytes")) / 1e3 / weights.get(name, 1)
            axes.step(_column(sent, "time_ns") / 1e9, kilobytes, where="post", label=name, **look)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    return figure


def over(table: pa.Table, x: str, y: str, by: str | Sequence[str] = "name") -> View:
    """Plots a column of a sweep over another: means over seeds, bars of half a 95 % interval.

    Args:
        table: The table of ``millstream.sweep.run(…)`` or of ``millstream sweep``.
        x: A numeric column: a setting, or a result such as ``utilisation``, averaged over seeds.
        y: A numeric column; null rows are skipped.
        by: The column or columns that separate lines.

    Raises:
        KeyError: The table has no such column.
    """
    lines = [by] if isinstance(by, str) else list(by)
    for name in (x, y, "point", *lines):
        if name not in table.column_names:
            raise KeyError(
                f"the table has no column {name!r}; it has {', '.join(table.column_names)}"
            )
    points: dict[tuple[Any, ...], dict[int, list[tuple[float, float]]]] = {}
    rows = zip(
        zip(*(table[name].to_pylist() for name in lines), strict=True),
        table["point"].to_pylist(),
        table[x].to_pylist(),
        table[y].to_pylist(),
        strict=True,
    )
    for line, point, at, value in rows:
        if at is not None and value is not None:
            points.setdefault(line, {}).setdefault(point, []).append((float(at), float(value)))
    level = f"± {_millstream.CONFIDENCE:.0%}".replace("%", " %")
    with _figure(None, x, f"{y} {level}") as (figure, axes):
        for (line, of), look in zip(points.items(), _looks(), strict=False):
            means = sorted(
                (
                    mean(at for at, _ in runs),
                    mean(value for _, value in runs),
                    _half([v for _, v in runs]),
                )
                for runs in of.values()
            )
            xs, ys, halves = zip(*means, strict=True)
            label = ", ".join(map(str, line))
            axes.errorbar(xs, ys, halves, label=label, marker="o", markersize=4, capsize=3, **look)
    return figure


def violations(table: pa.Table, by: str | Sequence[str] = "name") -> View:
    """Plots window violations of each stream over the link's utilisation, from a sweep's table.

    Args:
        table: See :func:`over`.
        by: The column or columns that separate lines.

    Raises:
        KeyError: The table has no such column; a fabric's has none.
    """
    return over(table, "utilisation", "violations", by)


def save(figure: Figure, stem: str | Path) -> list[Path]:
    """Writes ``stem.svg`` and ``stem.png``; the SVG has the same bytes for the same figure.

    Args:
        figure: A view or any other figure.
        stem: The path without suffix.

    Returns:
        The files written.

    Raises:
        OSError: A file cannot be written.
    """
    made = []
    with style.context(STYLE):
        for ending, metadata in (("svg", {"Date": None}), ("png", {})):
            path = Path(f"{stem}.{ending}")
            figure.savefig(path, metadata=metadata)
            made.append(path)
    return made


def _half(values: Sequence[float]) -> float:
    """Returns half of the confidence interval of the mean; 0 for one value."""
    interval = _millstream.interval(list(values))
    return (interval and interval[1]) or 0.0
