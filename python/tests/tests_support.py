"""Scenario files as the scheduler's own arguments, for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TRACES = sorted((Path(__file__).resolve().parents[2] / "conformance/traces").iterdir())

_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def ns(text: str) -> int:
    """``"3 us"`` in ns."""
    number, unit = text.split()
    return int(number) * _NS[unit]


def plain(text: str, expected: str) -> int:
    """``"500 bps"``: a number of exactly this unit, which is what traces use."""
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
