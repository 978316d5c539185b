"""Cost of a packet in batches from Python, compared with the engine's own loop in Rust.

A step is one packet out and one in, with every stream backlogged, DWCS: ``millstream bench --work
packet``. Here 1,000 steps are one call each of ``dequeue_batch`` and ``enqueue_batch``. Contracts
are spread as the command's. Prints both in ns a packet, and their ratio; the goal is at most 2.
Measurements alternate, and the lowest tenth percentile of the samples counts, which excludes the
load of a busy machine. Both must be of the same build profile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time

import numpy as np

from millstream import Head, Scheduler

SLOT_NS = 1000
BYTES = 64
SAMPLES = 11
TURNS = 3
STEPS = 300_000


def add_streams(scheduler: Scheduler, streams: int, batch: int = 1) -> None:
    """Periods within ±50 % of their mean, windows up to 19; nothing is missed.

    Two batches of packets wait, and at least two packets a stream.
    """
    random = np.random.default_rng(1)
    mean_ns = streams * SLOT_NS * 1.0986 / 0.9
    for _ in range(streams):
        period_ns = int(mean_ns / 2 + random.integers(0, int(mean_ns)))
        of = int(random.integers(2, 20))
        first_ns = 1 + int(random.integers(0, period_ns))
        scheduler.add_stream(period_ns=period_ns, window=(0, of), first_deadline_ns=first_ns)
    each = max(2, -(-2 * batch // streams))
    scheduler.enqueue_batch(0, np.tile(np.arange(streams, dtype=np.uint32), each), BYTES)


def batches(structure: str, streams: int, batch: int) -> float:
    """The tenth percentile of the samples, ns a packet."""
    scheduler = Scheduler("dwcs", structure)
    add_streams(scheduler, streams, batch)
    lengths = np.full(batch, BYTES, dtype=np.uint32)
    slots = np.arange(batch, dtype=np.uint64) * SLOT_NS
    now_ns = 0
    samples = []
    for _ in range(SAMPLES + 2):
        start = time.perf_counter_ns()
        for _ in range(STEPS // batch):
            sent = scheduler.dequeue_batch(slots + np.uint64(now_ns))
            assert len(sent) == batch
            now_ns += batch * SLOT_NS
            scheduler.enqueue_batch(np.full(batch, now_ns, np.uint64), sent.stream, lengths)
        samples.append((time.perf_counter_ns() - start) / STEPS)
    return statistics.quantiles(samples[2:], n=10)[0]


def single(streams: int) -> float:
    """The same workload packet by packet."""
    scheduler = Scheduler("dwcs")
    add_streams(scheduler, streams)
    steps = STEPS // 3
    start = time.perf_counter_ns()
    for step in range(steps):
        sent = scheduler.dequeue(step * SLOT_NS)
        assert sent is not None
        scheduler.enqueue((step + 1) * SLOT_NS, sent.stream, BYTES)
    return (time.perf_counter_ns() - start) / steps


class ByArrival:
    """A discipline in Python: FIFO."""

    def rank(self, stream: int, head: Head) -> int:
        """Ranks by arrival."""
        return head.arrival_ns


def prototype(streams: int, batch: int) -> float:
    """The same workload in batches with a discipline in Python."""
    scheduler = Scheduler(ByArrival())
    add_streams(scheduler, streams, batch)
    steps = STEPS // 10
    start = time.perf_counter_ns()
    for now_ns in range(0, steps, batch):
        sent = scheduler.dequeue_batch(now_ns, batch)
        scheduler.enqueue_batch(now_ns, sent.stream, BYTES)
    return (time.perf_counter_ns() - start) / steps


def engine(structure: str, streams: int) -> float:
    """The command's measurement, ns a packet."""
    program = os.environ.get("MILLSTREAM", "millstream")
    what = ["--work", "packet", "--missed", "0", "--structures", structure]
    ran = subprocess.run(
        [program, "bench", *what, "--streams", str(streams), "--json"],
        check=True,
        capture_output=True,
    )
    return float(json.loads(ran.stdout)[0]["tenth_ns"])


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1000, help="packets a call")
    batch = parser.parse_args().batch
    print(f"batches of {batch}; ns a packet, out and in; load {os.getloadavg()[0]:.1f}")
    print(f"{'structure':12}{'streams':>8}{'Rust':>9}{'Python':>9}{'ratio':>7}")
    for structure in ("hilq-exact", "heap"):
        for streams in (16, 1024):
            turns = [
                (engine(structure, streams), batches(structure, streams, batch))
                for _ in range(TURNS)
            ]
            rust, python = (min(times) for times in zip(*turns, strict=True))
            print(f"{structure:12}{streams:8}{rust:9.1f}{python:9.1f}{python / rust:7.2f}")
    print(f"packet by packet, 1024 streams: {single(1024):.0f} ns")
    print(f"discipline in Python, 1024 streams: {prototype(1024, batch):.0f} ns")


if __name__ == "__main__":
    main()
