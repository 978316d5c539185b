#!/usr/bin/env python3
"""The decisive live experiment of the Co-processor paper: placement by scheduling class.

Usage: papers/coprocessor/live.py FILE.csv [--runs N] [--loads L,...] [--systems S/CLASS,...]
[--seconds S] [--seed N] [--resume]. Called by scripts/paper-coprocessor.sh, which installs and
builds what it needs. Needs root, for real-time priority.

Ten clients play one H.264 file over loopback while nginx compresses pages for wrk, a closed loop of
clients with a think time. The think time is calibrated first, so that the web server and its
clients use the wanted part of all processors; without think time they use all. Systems:

    host, ni         Millstream's data plane: a thread of the server, or a process of its own
    host-unpinned    the former as `millstream serve` starts it
    gstreamer, live555, mediamtx

Placement (host, ni) and class (ordinary: SCHED_OTHER, real-time: SCHED_FIFO) vary apart. In all
four cells the data plane is pinned to the last processor, as the paper's scheduler on the host is.

Each round has one run of every cell, in random order. The load starts a second after the clients,
so that lateness is relative to the unloaded machine. A run in which the machine's host took more
than 2 % of its CPU time (steal) is repeated. FILE.csv has a row a run; rows are written as runs
end, and --resume makes only those runs that FILE.csv lacks.
"""

import argparse
import csv
import os
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches/peers"))
from media_servers import Media, Web, measure, undisturbed  # noqa: E402

#: Clients of the media server.
CLIENTS = 10
#: The largest part of the CPU time that the machine's host may take, %, and the runs tried.
MAX_STEAL, MAX_TRIES = 2.0, 6
#: Loads in % of all processors.
LOADS = (0, 45, 60, 90, 100)
#: Loads of the systems that the paper does not have.
PEER_LOADS = (0, 60, 100)
CLASSES = ("ordinary", "real-time")
PLACEMENTS = ("host", "ni")
PEERS = ("host-unpinned", "gstreamer", "live555", "mediamtx")
COLUMNS = (
    "system,class,load_percent,run,used_percent,steal_percent,tries,frames,lost,on_time,"
    "p50_us,p99_us,max_us,bytes_per_s,requests_per_s"
)
Cell = tuple[str, str, int]


def cells(arguments: argparse.Namespace) -> list[Cell]:
    """Returns the cells of a round."""
    loads = arguments.loads or LOADS
    of = [(s, c, load) for s in PLACEMENTS for c in CLASSES for load in loads]
    of += [(s, "ordinary", load) for s in PEERS for load in loads if load in PEER_LOADS]
    if not arguments.systems:
        return of
    return [cell for cell in of if f"{cell[0]}/{cell[1]}" in arguments.systems]


def parsed() -> argparse.Namespace:
    """Returns the command line."""
    parser = argparse.ArgumentParser(description="placement by scheduling class, live")
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--loads", type=lambda text: [int(load) for load in text.split(",")])
    parser.add_argument("--systems", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=4.5, help="measured time of a run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Makes all runs."""
    arguments = parsed()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    millstream = os.environ.get("MILLSTREAM", str(target / "release/millstream"))
    program = os.environ["CLIENTS"]
    done: set[tuple[str, str, str, str]] = set()
    if arguments.resume and arguments.file.exists():
        with arguments.file.open() as file:
            done = {(row[0], row[1], row[2], row[3]) for row in list(csv.reader(file))[1:]}
    else:
        arguments.file.write_text(COLUMNS + "\n")
    order = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media = Media(folder, millstream, target / "peers", "1 Gbps", None)
        web = Web(folder)
        try:
            web.calibrate(arguments.loads or list(LOADS))
            for run in range(1, arguments.runs + 1):
                of_round = cells(arguments)
                order.shuffle(of_round)
                for cell in of_round:
                    system, of_class, load = cell
                    if (system, of_class, str(load), str(run)) in done:
                        continue
                    # The default placement is not changed.
                    ours = system in PLACEMENTS
                    of = of_class == "real-time" if ours else None
                    make = partial(
                        measure,
                        *(media, web, program, system, CLIENTS, load, arguments.seconds, of),
                    )
                    found = undisturbed(make, str(cell), MAX_STEAL, MAX_TRIES)
                    if not found:
                        sys.exit(f"{cell}: no run succeeded")
                    row = {**found, "run": run, "load_percent": load}
                    texts = [f"{row[column]:.10g}" for column in COLUMNS.split(",")[2:]]
                    line = ",".join([system, of_class, *texts])
                    with arguments.file.open("a") as file:
                        file.write(line + "\n")
                    print(line, flush=True)
        finally:
            web.nginx.end()


if __name__ == "__main__":
    main()
