#!/usr/bin/env python3
"""The same bottleneck in ns-3 and in Millstream: throughput and queueing delay of TCP.

Usage: benches/peers/ns3/compare.py [SEEDS]. Needs target/release/millstream, or MILLSTREAM, a C++
compiler, pkg-config, libns3-dev and libgsl-dev (Debian 12: ns-3 3.37). Four connections share 20
Mbit/s for 60 s at a round-trip time of 40 ms; a seed draws when each starts in the first second.
Controls: CUBIC and Reno, without HyStart. Queues: one of 100 packets, CoDel, FQ-CoDel. This ns-3
recovers by RFC 6675 and has no RACK; Millstream's senders run with both. `TcpCubicRfc9438` of
bottleneck.cc is ns-3's CUBIC with two departures from the RFCs mended.

Criterion, set before the first run: a row is *equal* if the means over the seeds differ by at most
5 % in throughput and 15 % in mean queueing delay, otherwise it *differs*.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MILLSTREAM = os.environ.get("MILLSTREAM", str(ROOT / "target/release/millstream"))
MODULES = ("applications", "core", "internet", "network", "point-to-point", "traffic-control")
#: Ours, and that of ns-3.
CONTROLS = [("cubic", "TcpCubic"), ("cubic", "TcpCubicRfc9438"), ("reno", "TcpLinuxReno")]
RECOVERIES = ("rfc6675", "rack")
QUEUES = {"fifo": "", "codel": 'aqm = "codel"', "fq_codel": "flows = {}"}
#: Bits/s, ns and packets.
RATE, RTT, LIMIT, SECONDS = 20_000_000, 40_000_000, 100, 60
MOST_THROUGHPUT, MOST_DELAY = 0.05, 0.15

SCENARIO = """
[scenario]
duration = "{seconds} s"

[link]
rate = "{rate} bit/s"
overhead = 2

[scheduler]
discipline = "fifo"
"""
STREAM = """
[[stream]]
name = "{name}"
{queue}
source = {{ kind = "tcp", control = "{control}", recovery = "{recovery}", hystart = false, \
rtt = "{rtt} ns", start = "{start} ns" }}
"""


def build(folder: Path) -> Path:
    """Compiles the peer."""
    program = folder / "bottleneck"
    modules = [f"ns3-{module}" for module in MODULES]
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", *modules], check=True, capture_output=True, text=True
    ).stdout.split()
    source = str(HERE / "bottleneck.cc")
    command = ["c++", "-O2", "-std=c++17", source, "-o", str(program), *flags]
    subprocess.run(command, check=True)
    return program


def peer(program: Path, control: str, queue: str, starts: list[int]) -> tuple[float, float]:
    """Returns the goodput, bit/s, and the mean queueing delay, ns, of ns-3."""
    times = ",".join(map(str, starts))
    limit = 10_240 if queue == "fq_codel" else LIMIT if queue == "fifo" else 1_000
    out = subprocess.run(
        [
            program,
            f"--control={control}",
            f"--queue={queue}",
            f"--starts={times}",
            f"--rate={RATE}",
            f"--rtt={RTT}",
            f"--limit={limit}",
            f"--stop={SECONDS * 1_000_000_000}",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return int(out[0]) * 8 / SECONDS, float(out[1])


def ours(
    folder: Path, control: str, queue: str, recovery: str, starts: list[int]
) -> tuple[float, float]:
    """Returns the same of Millstream."""
    text = SCENARIO.format(seconds=SECONDS, rate=RATE)
    for at, start in enumerate(starts):
        # All connections share the queue of the first.
        limit = {"fifo": LIMIT, "codel": 1_000, "fq_codel": 10_240}[queue]
        keys = 'shares = "s0"' if at else f"{QUEUES[queue]}\nqueue = {limit}"
        text += STREAM.format(
            name=f"s{at}", queue=keys, control=control, recovery=recovery, rtt=RTT, start=start
        )
    path = folder / "scenario.toml"
    path.write_text(text)
    out = subprocess.run(
        [MILLSTREAM, "run", "--json", path], check=True, capture_output=True, text=True
    )
    network = json.loads(out.stdout)["network"]
    delivered = sum(source["delivered_bytes"] for source in network["sources"])
    return delivered * 8 / SECONDS, network["links"][0]["delay_ns"]["mean"]


def main() -> None:
    """Prints the table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print(f"{seeds} seeds; goodput in Mbit/s, mean queueing delay in ms, mean ± deviation\n")
    print("| control | queue | recovery | goodput, ns-3 | ours | delay, ns-3 | ours | verdict |")
    print("|---|---|---|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        for control, of_peer in CONTROLS:
            for queue in QUEUES:
                starts = [start_times(seed) for seed in range(1, seeds + 1)]
                theirs = [peer(program, of_peer, queue, times) for times in starts]
                for recovery in RECOVERIES:
                    own = [ours(folder, control, queue, recovery, times) for times in starts]
                    row((of_peer, queue, recovery), theirs, own)


def start_times(seed: int) -> list[int]:
    """Returns when the four connections start, ns."""
    draw = random.Random(seed)
    return [draw.randrange(1_000_000_000) for _ in range(4)]


def row(
    case: tuple[str, str, str], theirs: list[tuple[float, float]], own: list[tuple[float, float]]
) -> None:
    """Prints the row of a control, a queue and a loss recovery."""
    cells, ratios = [], []
    for at, unit in [(0, 1e6), (1, 1e6)]:
        means = []
        for runs in (theirs, own):
            values = [run[at] / unit for run in runs]
            means.append(statistics.mean(values))
            spread = statistics.stdev(values) if len(values) > 1 else 0
            cells.append(f"{means[-1]:.2f} ± {spread:.2f}")
        ratios.append(means[1] / means[0] - 1)
    equal = abs(ratios[0]) <= MOST_THROUGHPUT and abs(ratios[1]) <= MOST_DELAY
    verdict = f"{'equal' if equal else 'differs'}: {ratios[0]:+.1%}, {ratios[1]:+.1%}"
    print(f"| {' | '.join(case)} | {' | '.join(cells)} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
