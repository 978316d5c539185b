#!/usr/bin/env python3
"""Compares the media server with MediaMTX, live555 and GStreamer beside a loaded web server.

Usage: benches/peers/media.py FILE.json [--clients N,...] [--loads L,...] [--runs N] [--seconds S]
[--systems S,...] [--missing S,...] [--minutes M] [--seed N] [--capacity N]. Called by
scripts/bench-media.sh, which installs and builds what it needs. Needs root, for the web server's
and the clients' priorities.

Systems, each as it starts by default:

    ni, host         `millstream serve` by RTSP over UDP, in both placements
    ni-live          `millstream serve` in placement ni, with a live stream
    whep, whep-live  those of `ni` and `ni-live` by WHEP, clients up to 100
    gstreamer, live555, mediamtx, mediamtx-whep

MediaMTX, ni-live and whep-live relay a stream: that of a `millstream serve` of their own, packet by
packet as it comes. The source's CPU time is not counted.

Each round has one run of every cell (system, load, clients), in random order. The load starts a
second after the clients. A run in which the machine's host took more than 2 % of its CPU time
(steal) is repeated, three times at most. No run starts after M minutes; FILE.json is written after
every run.

--capacity doubles the clients of each server without load, from N, until 1 % of the frames are
later than a period or lost, and then halves the interval three times.

--missing names systems that cannot be had. If the comparison includes one, or a cell in which no
try succeeds, the program measures the rest, names both, and fails.

The verdicts need three runs: a goal is *reached* if every run meets it, *differs* if none does.
Otherwise nothing can be told, nor if the steal time of a run was too long or other programs used
more than 10 % of the machine before it.
"""

import argparse
import json
import os
import platform
import random
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from media_servers import (
    ROOT,
    WHEP_PATHS,
    Media,
    Run,
    Web,
    measure,
    processor_ticks,
    undisturbed,
)

SYSTEMS = (
    *("ni", "host", "ni-live", "gstreamer", "live555", "mediamtx"),
    *("whep", "whep-live", "mediamtx-whep"),
)
#: The most WHEP clients beside a load: both ends encrypt on the processors of the comparison.
WHEP_CLIENTS = 100
MAX_STEAL, MAX_TRIES = 2.0, 4
#: CPU use of other programs above which no goal is judged, % of all processors, before the run.
MAX_OTHER = 10.0
#: Goals: p99 in ms with this number of clients by load, and MediaMTX's over ours at 100 %.
GOAL_CLIENTS, GOALS_MS, GOAL_RATIO = 100, {0: 0.5, 90: 1.0, 100: 1.0}, 10.0
#: The part of late or lost frames that ends the search for the capacity, and its most clients.
LATE_PART, MAX_CLIENTS = 0.01, 6_400
LEAST_RUNS = 3
#: By protocol: our server of files, our relay, and MediaMTX.
JUDGED = (("ni", "ni-live", "mediamtx"), ("whep", "whep-live", "mediamtx-whep"))


def runs_of(runs: list[Run], system: str, load: int, clients: int) -> list[Run]:
    """Returns the runs of a cell."""
    cell = {"system": system, "load_percent": load, "clients": clients}
    return [run for run in runs if all(run[key] == value for key, value in cell.items())]


def late_part(run: Run) -> float:
    """Returns the part of the frames that were later than a period, or lost."""
    return float(1 - run["on_time"] / run["frames"])


def other_percent() -> float:
    """Returns the use of the machine by other programs, in half a second, %.

    Waits for at most five seconds until it is below the limit: programs of the run before may end.
    """
    for _ in range(10):
        before = processor_ticks()
        time.sleep(0.5)
        used, whole = (after - past for past, after in zip(before, processor_ticks(), strict=True))
        if 100 * used / whole <= MAX_OTHER:
            break
    return 100 * used / whole


def verdict(met: list[bool], runs: list[Run]) -> str:
    """Judges a goal by whether each run met it."""
    limits = {"steal_percent": MAX_STEAL, "other_percent": MAX_OTHER}
    disturbed = any(run[of] > limit for run in runs for of, limit in limits.items())
    if len(met) < LEAST_RUNS or disturbed or any(met) != all(met):
        return "cannot tell"
    return "reached" if all(met) else "differs"


def verdicts(runs: list[Run]) -> list[dict[str, str]]:
    """Judges the goals of each protocol."""
    return [judged for systems in JUDGED for judged in verdicts_on(runs, *systems)]


def verdicts_on(runs: list[Run], files: str, relay: str, mediamtx: str) -> list[dict[str, str]]:
    """Judges our server of files, by itself, and both of ours beside MediaMTX."""
    judged = []
    for load, goal in GOALS_MS.items():
        ours = runs_of(runs, files, load, GOAL_CLIENTS)
        late = [run["p99_us"] / 1e3 for run in ours]
        judged.append(
            {
                "goal": f"p99 of {files} with {GOAL_CLIENTS} clients at {load} % at most {goal} ms",
                "found": ", ".join(f"{ms:.2f}" for ms in sorted(late)) + " ms" if late else "",
                "verdict": verdict([ms <= goal for ms in late], ours),
            }
        )
    theirs = runs_of(runs, mediamtx, 100, GOAL_CLIENTS)
    rounds = {run["run"]: run["p99_us"] for run in theirs}
    # A server of files, and a relay as MediaMTX is, by pairs of the same round.
    for system in (files, relay):
        ours = runs_of(runs, system, 100, GOAL_CLIENTS)
        pairs = [(run, rounds[run["run"]]) for run in ours if run["run"] in rounds]
        ratios = [their_us / max(run["p99_us"], 1.0) for run, their_us in pairs]
        found = ", ".join(f"{ratio:.1f}" for ratio in sorted(ratios))
        judged.append(
            {
                "goal": f"p99 of {mediamtx} at 100 % at least {GOAL_RATIO:.0f} times that of"
                f" {system}",
                "found": f"{found} times" if pairs else "",
                "verdict": verdict([ratio >= GOAL_RATIO for ratio in ratios], ours + theirs),
            }
        )
    return judged


def table(runs: list[Run]) -> str:
    """Returns the medians of each cell as Markdown."""
    lines = [
        "| system | load % | clients | runs | used % | other % | steal % | in time % | p50 ms |"
        " p99 ms | max ms | CPU of the server, % of a core a stream |",
        "|---|" + "--:|" * 11,
    ]
    for cell in sorted({(r["system"], r["load_percent"], r["clients"]) for r in runs}):
        system, load, clients = cell
        of = runs_of(runs, system, load, clients)

        def median(column: str, of: list[Run] = of) -> float:
            return float(statistics.median(run[column] for run in of))

        in_time = statistics.median(100 * (1 - late_part(run)) for run in of)
        times = " | ".join(f"{median(of_us) / 1e3:.2f}" for of_us in ("p50_us", "p99_us", "max_us"))
        lines.append(
            f"| {system} | {load} | {clients} | {len(of)} | {median('used_percent'):.0f} |"
            f" {median('other_percent'):.0f} |"
            f" {max(run['steal_percent'] for run in of):.1f} | {in_time:.2f} | {times} |"
            f" {100 * median('cores') / clients:.2f} |"
        )
    return "\n".join(lines)


def capacity(
    system: str, first: int, until: float, run: Callable[[str, int], Run]
) -> dict[str, Any]:
    """Finds the most clients of a server with at most 1 % of late frames; stops at `until`."""
    tried: dict[int, Run | None] = {}

    def keeps_up(clients: int) -> bool:
        found = undisturbed(partial(run, system, clients), f"{system}, {clients}", MAX_STEAL, 1)
        tried[clients] = found or None
        shown = f"{100 * late_part(found):.2f} % late" if found else "the run failed"
        print(f"capacity of {system}: {clients} clients: {shown}", flush=True)
        return bool(found) and late_part(found) <= LATE_PART

    low, high = 0, first
    while high <= MAX_CLIENTS and time.monotonic() < until and keeps_up(high):
        low, high = high, 2 * high
    ended = high in tried
    for _ in range(3 if low else 0):
        middle = (low + high) // 2
        if not ended or time.monotonic() >= until:
            break
        low, high = (middle, high) if keeps_up(middle) else (low, middle)
    best = tried.get(low)
    cores = best["cores"] if best else 0.0
    return {
        "system": system,
        "clients": low,
        "late_with": high if ended else None,
        "cores": cores,
        "streams_a_core": low / cores if cores else None,
        "runs": tried,
    }


def parsed() -> argparse.Namespace:
    """Returns the command line."""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description="media servers beside a loaded web server")
    parser.add_argument("file", type=Path, help="the results, as JSON")
    parser.add_argument("--clients", type=numbers, default=[10, 50, 100, 200])
    parser.add_argument("--loads", type=numbers, default=[0, 90, 100], help="%% of all processors")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.5, help="measured time of a run")
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    parser.add_argument("--missing", type=names, default=[], help="systems that cannot be had")
    parser.add_argument("--minutes", type=float, default=120, help="no run starts later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capacity", type=int, default=100, help="clients to begin with; 0: none")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.systems, *arguments.missing} - set(SYSTEMS))
    if unknown:
        parser.error(f"unknown system {unknown[0]}; known: {', '.join(SYSTEMS)}")
    return arguments


def error_of(failed: dict[str, str]) -> str:
    """Returns a line for each system or cell that was not measured."""
    return "\n".join(f"error: not measured: {of}: {why}" for of, why in failed.items())


def main() -> None:
    """Makes all runs; prints the table and the verdicts. Fails if a cell could not be measured."""
    arguments = parsed()
    missing = [system for system in arguments.systems if system in arguments.missing]
    systems = [system for system in arguments.systems if system not in missing]
    failed: dict[str, str] = dict.fromkeys(missing, "it could not be built or installed")
    if not systems:
        sys.exit(error_of(failed))
    until = time.monotonic() + 60 * arguments.minutes
    # Both end the servers, too, also where the shell has SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    millstream = os.environ.get("MILLSTREAM", str(target / "release/millstream"))
    program = os.environ.get("CLIENTS", str(target / "release/examples/clients"))
    order = random.Random(arguments.seed)
    runs: list[Run] = []
    results: dict[str, Any] = {
        "machine": {
            "kernel": platform.release(),
            "processors": os.cpu_count(),
            "nice": os.nice(0),
            "load_average_before": os.getloadavg(),
        },
        "seconds": arguments.seconds,
        "not_measured": failed,
        "runs": runs,
    }

    def write() -> None:
        results["verdicts"] = verdicts(runs)
        arguments.file.write_text(json.dumps(results, indent=1) + "\n")

    cells = [
        (system, load, clients)
        for system in systems
        for load in arguments.loads
        for clients in arguments.clients
        if system not in WHEP_PATHS or clients <= WHEP_CLIENTS
    ]
    with tempfile.TemporaryDirectory() as name:
        publisher = Path(program).with_name("publisher")
        media = Media(Path(name), millstream, target / "peers", "10 Gbps", publisher)
        web = Web(Path(name))
        try:
            web.calibrate(arguments.loads)
            for number in range(1, arguments.runs + 1):
                order.shuffle(cells)
                for system, load, clients in cells:
                    if time.monotonic() >= until:
                        break
                    of = (media, web, program, system, clients, load, arguments.seconds)
                    cell = f"run {number}: {system}, {load} %, {clients} clients"
                    other = other_percent()
                    found = undisturbed(partial(measure, *of), cell, MAX_STEAL, MAX_TRIES)
                    if not found:
                        print(f"{cell}: no try succeeded", flush=True)
                        failed[cell] = "no try succeeded"
                        continue
                    runs.append(
                        {
                            **{"system": system, "load_percent": load, "clients": clients},
                            **{"run": number, **found, "other_percent": other},
                        }
                    )
                    print(f"{cell}: p99 {found['p99_us'] / 1e3:.2f} ms", flush=True)
                    write()

            def unloaded(system: str, clients: int) -> Run:
                return measure(media, web, program, system, clients, 0, arguments.seconds)

            if arguments.capacity:
                results["capacity"] = [
                    capacity(of, arguments.capacity, until, unloaded) for of in systems
                ]
        finally:
            web.nginx.end()
    write()
    print(f"\n{table(runs)}\n")
    for found in results.get("capacity", []):
        print(f"{found['system']}: {found['clients']} clients, {found['cores']:.2f} cores")
    for judged in verdicts(runs):
        print(f"{judged['goal']}: {judged['verdict']} ({judged['found'] or 'not measured'})")
    if time.monotonic() >= until:
        print(f"stopped after {arguments.minutes} minutes", file=sys.stderr)
    if failed:
        sys.exit(error_of(failed))


if __name__ == "__main__":
    main()
