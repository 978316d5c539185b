"""Paths of the repository, and scenario files as arguments of the scheduler."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millstream import Scenario, sweep

#: The repository.
ROOT = Path(__file__).resolve().parents[2]
#: The traces that every backend replays. scripts/python.sh generates MILLSTREAM_TRACES.
TRACES = [
    trace
    for folder in (ROOT / "conformance/traces", os.environ.get("MILLSTREAM_TRACES"))
    if folder
    for trace in sorted(Path(folder).iterdir())
]
#: Pages for users: the README and the book.
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/src").glob("*.md"))]
PAGES += sorted((ROOT / "docs/src").glob("router/*.md"))
PAGES += sorted((ROOT / "docs/src").glob("media/*.md"))


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in this language, in order."""
    form = rf"^```{language}\n(.*?)^```$"
    return re.findall(form, page.read_text(), re.MULTILINE | re.DOTALL)


_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def ns(text: str) -> int:
    """Converts ``"3 us"`` to ns."""
    number, unit = text.split()
    return int(number) * _NS[unit]


def plain(text: str, expected: str) -> int:
    """Parses ``"500 bps"``: an integer with exactly this unit, as in traces."""
    number, unit = text.split()
    assert unit == expected
    return int(number)


def rate_bps(table: dict[str, Any]) -> int:
    """The link's rate, bits/s."""
    return plain(table["link"]["rate"], "bps")


def options(table: dict[str, Any]) -> dict[str, Any]:
    """A scenario's scheduler and link as arguments of ``Scheduler``."""
    scheduler = {key.replace("-", "_"): value for key, value in table["scheduler"].items()}
    scheduler.pop("structure", None)
    if "table" in scheduler:
        names = [stream["name"] for stream in table["stream"]]
        scheduler["table"] = [names.index(name) for name in scheduler["table"]]
    overhead = table["link"].get("overhead", 0)
    return {**scheduler, "link_rate_bps": rate_bps(table), "overhead_bytes": overhead}


def contract(stream: dict[str, Any]) -> dict[str, Any]:
    """A stream of a scenario as arguments of ``add_stream``."""
    made: dict[str, Any] = {}
    for key, value in stream.items():
        match key:
            case "name" | "source":
                pass
            case "period" | "first-deadline":
                made[f"{key.replace('-', '_')}_ns"] = ns(value)
            case "window":
                lost, of = value.split("/")
                made["window"] = (int(lost), int(of))
            case "quantum":
                made["quantum_bytes"] = value
            case "max-rate":
                made["max_rate_bps"] = plain(value, "bps")
            case "burst":
                made["burst_bytes"] = plain(value, "B")
            case _:
                made[key] = value
    return made


def small_scenario(duration: str = "200 ms") -> Scenario:
    """Two streams that overload their link."""
    scenario = Scenario("10 Mbps", "fifo", duration=duration)
    for name in ("a", "b"):
        source = {"kind": "pareto", "bytes": 700, "rate": "6 Mbps"}
        scenario.stream(name, period="5 ms", queue=50, source=source)
    return scenario


def small_points(duration: str = "200 ms") -> list[Any]:
    """Four points of a sweep."""
    axes: dict[str, list[Any]] = {
        "scheduler.discipline": ["fifo", "dwcs"],
        "stream.a.weight": [1, 4],
    }
    return list(sweep.grid(small_scenario(duration), axes))


def done(folder: Path) -> list[Path]:
    """The files of a sweep's ended runs."""
    return sorted((folder / "done").glob("*.parquet"))


class Killer(threading.Thread):
    """Kills a process when ``when`` holds, until ``times`` are dead."""

    def __init__(
        self, when: Callable[[], bool], processes: Callable[[], list[int]], times: int
    ) -> None:
        super().__init__(daemon=True)
        self.when, self.processes, self.times = when, processes, times
        self.killed: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        while len(self.killed) < self.times and not self.over.wait(0.05):
            alive = [pid for pid in self.processes() if pid not in self.killed]
            if alive and self.when():
                os.kill(alive[0], signal.SIGKILL)
                self.killed.append(alive[0])

    def end(self) -> None:
        self.over.set()
        self.join()
