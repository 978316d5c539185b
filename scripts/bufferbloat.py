#!/usr/bin/env python3
"""Prints the results of scripts/bufferbloat.sh as a table, and writes Flent's data files.

Usage: scripts/bufferbloat.py RESULT FOLDER RATE. The result has a line `RESULT run name` before the
base64 of each file: `up` and `down` are JSON of iperf3, `ping` and `voice` the output of ping.
"""

import base64
import json
import re
import sys
from pathlib import Path

STEP = 0.2


def read(path: Path) -> dict[str, dict[str, str]]:
    """Returns the files of each run by name."""
    runs: dict[str, dict[str, str]] = {}
    parts = re.split(r"^RESULT (\S+) (\S+)$", path.read_text().replace("\r", ""), flags=re.M)
    for run, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        runs.setdefault(run, {})[name] = base64.b64decode(text).decode()
    return runs


def pings(text: str) -> tuple[list[tuple[float, float]], float]:
    """Returns the times of answers, s, with their round trips, ms; and the loss, percent.

    The loss is that of requests up to the last answered one: later ones were still on their way.
    """
    answers = re.findall(r"^\[([\d.]+)\].*icmp_seq=(\d+).*time=([\d.]+) ms", text, re.M)
    numbers = {int(number) for _, number, _ in answers}
    lost = 100 * (1 - len(numbers) / max(numbers)) if numbers else 100.0
    return [(float(at), float(ms)) for at, _, ms in answers], lost


def percentile(values: list[float], share: float) -> float:
    """Returns the least value that is not below `share` of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def goodput(text: str) -> float:
    """Returns the goodput of all connections, Mbit/s."""
    return float(json.loads(text)["end"]["sum_received"]["bits_per_second"]) / 1e6


def flent(run: str, files: dict[str, str], rate: str) -> dict[str, object]:
    """Returns a data file of Flent, version 4: the series of its test `rrul_be_nflows`."""
    series: dict[str, dict[int, float]] = {}
    began = min(json.loads(files[way])["start"]["timestamp"]["timesecs"] for way in ("up", "down"))
    for way, name in (("up", "upload"), ("down", "download")):
        result = json.loads(files[way])
        first = result["start"]["timestamp"]["timesecs"] - began
        for interval in result["intervals"]:
            for number, stream in enumerate(interval["streams"], 1):
                at = round((first + stream["end"]) / STEP)
                of = series.setdefault(f"TCP {name} BE::{number}", {})
                of[at] = stream["bits_per_second"] / 1e6
    for key, name in (("ping", "Ping (ms) ICMP"), ("voice", "Ping (ms) UDP EF")):
        of = series.setdefault(name, {})
        for at, ms in pings(files[key])[0]:
            of.setdefault(round((at - began) / STEP), ms)
    steps = range(max(max(of, default=0) for of in series.values()) + 1)
    return {
        "version": 4,
        "metadata": {
            "NAME": "rrul_be_nflows",
            "TITLE": f"{run}, {rate} Mbit/s",
            "STEP_SIZE": STEP,
            "LENGTH": len(steps) * STEP,
            "HOST": "10.2.0.2",
            "TEST_PARAMETERS": {"upload_streams": "4", "download_streams": "4"},
        },
        "x_values": [step * STEP for step in steps],
        "results": {name: [of.get(step) for step in steps] for name, of in series.items()},
        "raw_values": {},
    }


def main() -> None:
    """Prints the table and writes the files."""
    result, folder, rate = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    print("| queue | ping p50 (ms) | p99 | voice p99 (ms) | lost (%) | up (Mbit/s) | down |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for run, files in read(result).items():
        ping = [ms for _, ms in pings(files["ping"])[0]]
        answers, lost = pings(files["voice"])
        voice = percentile([ms for _, ms in answers], 0.99)
        cells = [percentile(ping, 0.5), percentile(ping, 0.99), voice, lost]
        cells += [goodput(files["up"]), goodput(files["down"])]
        print(f"| {run} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
        path = folder / f"{run}.flent"
        path.write_text(json.dumps(flent(run, files, rate), indent=1) + "\n")


if __name__ == "__main__":
    main()
