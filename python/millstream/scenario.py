"""Scenarios: from a file, from a dict, or built stream by stream."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from tqdm.auto import tqdm

from millstream import _millstream
from millstream._millstream import ScenarioError
from millstream.result import Result, counted, html_table, printed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


#: Maximum streams shown in a notebook.
_SHOWN = 40


def toml_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts Python names to keys of the scenario file: ``first_deadline`` to ``first-deadline``.

    No key has an underscore, so both forms are accepted; ``class_`` and ``match_`` end in one
    because Python reserves these words. None values are omitted.
    """
    return {
        key.rstrip("_").replace("_", "-"): toml_value(value)
        for key, value in values.items()
        if value is not None
    }


def toml_value(value: Any) -> Any:
    """Converts the names in a table, or in a list of tables, to keys; returns others as given."""
    if isinstance(value, Mapping):
        return toml_keys(value)
    if isinstance(value, list):
        return [toml_value(item) for item in value]
    return value


class Scenario:
    """Streams, the scheduler, and the shared link.

    Built here, or read by :meth:`from_file` or :meth:`from_dict`. Values are those of the scenario
    file, units included: ``"100 Mbit/s"``, ``"40 ms"``, ``"1/4"``.

    >>> scenario = Scenario("1 Mbit/s", "wfq", duration="1 s")
    >>> cbr = {"kind": "cbr", "bytes": 500, "rate": "1 Mbit/s"}
    >>> scenario = scenario.stream("a", weight=3, source=cbr).stream("b", source=cbr)
    >>> [row["sent"] for row in scenario.run().streams.slice(0, 1).to_pylist()]
    [250]
    """

    def __init__(
        self,
        link: str | Mapping[str, Any],
        discipline: str = "fifo",
        *,
        structure: str = "auto",
        name: str = "scenario",
        seed: int | None = None,
        duration: str | None = None,
        folder: str | Path = ".",
        **options: Any,
    ) -> None:
        """Creates a scenario without streams.

        Args:
            link: The rate, ``"100 Mbit/s"``, or the whole ``[link]`` table.
            discipline: The order of streams; ``millstream.disciplines()`` lists all.
            structure: The data structure that finds the first stream.
            name: The scenario's name.
            seed: The random seed; default 1.
            duration: When sources stop, ``"10 s"``; required if a source does not end by itself.
            folder: The base of relative paths of input files.
            **options: The other keys of ``[scheduler]``: ``order``, ``rules``, ``zero_window``,
                ``table``, ``algorithm``.
        """
        # A caller without a type checker may pass anything.
        if not isinstance(link, str | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f'link = {link!r}; must be a rate such as "100 Mbit/s", or the [link] table'
            raise ScenarioError(message)
        names = [name for name, _ in _millstream.disciplines()]
        if discipline not in names:
            raise ScenarioError(f"discipline = {discipline!r}; must be one of {', '.join(names)}")
        rate = {"rate": link} if isinstance(link, str) else toml_keys(link)
        self._table: dict[str, Any] | None = {
            "scenario": toml_keys({"name": name, "seed": seed, "duration": duration}),
            "link": rate,
            "scheduler": {
                "discipline": discipline,
                "structure": structure,
                **toml_keys(options),
            },
        }
        self._label = name
        self._folder = Path(folder)
        self._native: _millstream.Scenario | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Reads and validates a scenario file.

        Raises:
            ScenarioError: With every problem of the file, as the command prints it.
        """
        path = Path(path)
        scenario = cls._empty(str(path), path.parent)
        scenario._native = _millstream.Scenario.load(path)
        return scenario

    @classmethod
    def from_text(cls, text: str, *, name: str = "scenario", folder: str | Path = ".") -> Scenario:
        """Validates the text of a scenario file.

        Raises:
            ScenarioError: With every problem, as the command prints it.
        """
        scenario = cls._empty(name, Path(folder))
        scenario._native = _millstream.Scenario.parse(name, text, scenario._folder)
        return scenario

    @classmethod
    def from_dict(
        cls, table: Mapping[str, Any], *, name: str = "scenario", folder: str | Path = "."
    ) -> Scenario:
        """Validates a dict with the keys of the scenario file.

        Args:
            table: ``{"link": {"rate": …}, "scheduler": {…}, "stream": [{…}, …]}``.
            name: The name in errors, and the scenario's name if the dict has none.
            folder: The base of relative paths of input files.

        Raises:
            ScenarioError: With every problem, shown in the dict written as TOML.
        """
        scenario = cls._empty(name, Path(folder))
        scenario._table = copy.deepcopy(dict(table))
        scenario._valid()
        return scenario

    @classmethod
    def _empty(cls, label: str, folder: Path) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._table = None
        scenario._label = label
        scenario._folder = folder
        scenario._native = None
        return scenario

    def stream(self, name: str, *, source: Mapping[str, Any], **contract: Any) -> Scenario:
        """Adds a stream and returns the scenario, so that calls can be chained.

        Args:
            name: Unique among the streams.
            source: The source of its packets: ``{"kind": "cbr", "bytes": 1500, "rate": …}``.
            **contract: The other keys of ``[[stream]]``: ``period``, ``window``,
                ``first_deadline``, ``late``, ``weight``, ``quantum``, ``priority``, ``queue``,
                ``max_rate``, ``burst``, ``class_``, ``fmc``, ``match_``.
        """
        return self._add("stream", {"name": name, **contract, "source": dict(source)})

    def class_(self, name: str, discipline: str, **contract: Any) -> Scenario:
        """Adds a class of the tree and returns the scenario; streams and classes refer to its name.

        Args:
            name: Unique among the classes.
            discipline: The order of its children.
            **contract: The other keys of ``[[class]]``, including ``parent``.
        """
        return self._add("class", {"name": name, "discipline": discipline, **contract})

    def _add(self, kind: str, row: Mapping[str, Any]) -> Scenario:
        table = self.to_dict()
        table.setdefault(kind, []).append(toml_keys(row))
        self._table = table
        self._native = None
        return self

    def replace(self, values: Mapping[str, Any]) -> Scenario:
        """Returns a copy with other values.

        Args:
            values: By path: ``"scheduler.discipline"``, ``"link.rate"``,
                ``"stream.video.weight"`` (the stream called video), ``"stream.*.queue"`` (every
                stream), ``"stream.0.queue"`` (the first, if none is called 0),
                ``"stream.video.source.rate"``. None removes the key.

        Raises:
            KeyError: There is no such stream or class.
            ScenarioError: The copy cannot be run.
        """
        table = self.to_dict()
        for place, value in values.items():
            for holder, key in _places(table, place):
                if value is None:
                    holder.pop(key, None)
                else:
                    holder[key] = value
        return self.from_dict(table, name=self._label, folder=self._folder)

    def to_dict(self) -> dict[str, Any]:
        """Returns the scenario with the keys of its file."""
        if self._table is not None:
            return copy.deepcopy(self._table)
        return tomllib.loads(self.text)

    @property
    def is_fabric(self) -> bool:
        """Whether the scenario has a fabric rather than a single link."""
        return self._valid().is_fabric

    @property
    def text(self) -> str:
        """The scenario as TOML: the original text if it was read from a file."""
        if self._table is None:
            return self._valid().text
        text: str = tomli_w.dumps(self._table)
        return text

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._valid().name

    @property
    def seed(self) -> int:
        """The random seed."""
        return self._valid().seed

    @property
    def folder(self) -> Path:
        """The base of relative paths of input files."""
        return self._folder

    @property
    def label(self) -> str:
        """The name in errors: the file, or the scenario's name."""
        return self._label

    @property
    def stream_names(self) -> list[str]:
        """The streams' names, in the order of the file."""
        return self._valid().stream_names

    @property
    def input_files(self) -> list[Path]:
        """All files that the sources read."""
        return self._valid().input_files

    def check(self) -> dict[str, Any]:
        """Returns the output of ``millstream check --json``.

        For a link: load, and for each stream its guarantees and its ``verdict``: "guaranteed",
        "infeasible" or "not-known", with the checked ``premises``. Admission of media files is left
        to the command. For a fabric: its size, the admitted connections, and whether its routes can
        deadlock.

        Raises:
            ScenarioError: The scenario cannot be run.
            TrafficError: An input cannot be read.
        """
        explanation: dict[str, Any] = json.loads(self._valid().explain_json())
        return explanation

    def run(
        self,
        seed: int | None = None,
        departures: bool = False,
        *,
        series: bool = False,
        progress: bool | Callable[[int], object] = False,
    ) -> Result:
        """Runs the scenario on a simulated link or fabric; releases the GIL meanwhile.

        Args:
            seed: Replaces the scenario's seed.
            departures: Keep every departure, about 45 bytes each, for ``Result.departures``; only
                for a single link.
            series: Keep time series, for ``Result.write_report``.
            progress: True shows a bar; a function is called with the simulated time, ns, every
                50 ms. An exception of the function ends the run.

        Raises:
            ScenarioError: The scenario cannot be run.
            TrafficError: An input cannot be read.
            KeyboardInterrupt: Ctrl-C, in the main thread.
        """
        native = self._valid()

        def run(progress: Callable[[int], object] | None) -> Result:
            return Result(
                native.run(seed=seed, departures=departures, series=series, progress=progress)
            )

        if not progress:
            return run(None)
        if callable(progress):
            return run(progress)
        seconds = None if native.duration_ns is None else native.duration_ns / 1e9
        form = "{l_bar}{bar}| {n:.3f}/{total:.3f} s simulated [{elapsed}<{remaining}]"
        with tqdm(total=seconds, bar_format=form if seconds else None, unit="s") as bar:
            return run(lambda now_ns: bar.update(now_ns / 1e9 - bar.n))

    def _valid(self) -> _millstream.Scenario:
        """Returns the native scenario, validated once."""
        if self._native is None:
            text = tomli_w.dumps(self._table or {})
            self._native = _millstream.Scenario.parse(self._label, text, self._folder)
        return self._native

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the scenario as its text."""
        return _restored, (self.text, self._label, self._folder)

    def __repr__(self) -> str:
        """A one-line description."""
        table = self.to_dict()
        streams = counted(len(table.get("stream", [])), "stream")
        discipline = table.get("scheduler", {}).get("discipline")
        return f"<millstream.Scenario {self._label!r}: {streams}, {discipline}>"

    def _repr_html_(self) -> str:
        """The streams with their keys as an HTML table, for notebooks."""
        table = self.to_dict()
        streams = table.get("stream", [])
        keys = list(dict.fromkeys(key for stream in streams for key in stream))
        rows = [[_shown(stream.get(key)) for key in keys] for stream in streams[:_SHOWN]]
        scheduler, link = table.get("scheduler", {}), table.get("link", {})
        about = f"{self._label}: {scheduler.get('discipline')}, link {link.get('rate')}"
        more = len(streams) - len(rows)
        below = f"<p>and {counted(more, 'more stream')}</p>" if more else ""
        return html_table(printed(about), keys, rows, below)


def _shown(value: object) -> object:
    """Returns the value of a key for a notebook: a table as its keys and values."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_shown(of)}" for key, of in value.items())
    return str(value).lower() if isinstance(value, bool) else value


def _restored(text: str, label: str, folder: Path) -> Scenario:
    return Scenario.from_text(text, name=label, folder=folder)


def _places(table: dict[str, Any], place: str) -> list[tuple[dict[str, Any], str]]:
    """Returns the dicts, with their key, that ``place`` selects."""
    head, *middle, key = place.split(".") if "." in place else ("", place)
    if head in ("stream", "class") and middle:
        wanted, *middle = middle
        rows: list[dict[str, Any]] = table.get(head, [])
        holders = [row for row in rows if wanted in ("*", row.get("name"))]
        if not holders and wanted.isdecimal():
            holders = rows[int(wanted) : int(wanted) + 1]
        if not holders:
            raise KeyError(f"{place}: there is no {head} called {wanted!r}")
    elif head in ("scenario", "link", "scheduler", "fabric"):
        holders = [table.setdefault(head, {})]
    else:
        raise KeyError(
            f"{place}: a place begins with scenario, link, scheduler, fabric, stream.NAME or "
            "class.NAME"
        )
    for step in middle:
        holders = [holder.setdefault(step, {}) for holder in holders]
    return [(holder, key) for holder in holders]
