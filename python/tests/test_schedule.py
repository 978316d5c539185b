"""Every trace gives the engine's schedule: by the command, a run and the scheduler."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream
from millstream import EVENTS, NO_DEADLINE, Scenario, Scheduler
from tests_support import TRACES, contract, options, rate_bps

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Row = tuple[int, str, int, int, int, int | None, str]


def rows_of(text: str) -> list[Row]:
    """The departures CSV as tuples."""
    return [
        (
            int(row["time_ns"]),
            row["stream"],
            int(row["packet"]),
            int(row["bytes"]),
            int(row["arrival_ns"]),
            int(row["deadline_ns"]) if row["deadline_ns"] else None,
            row["event"],
        )
        for row in csv.DictReader(io.StringIO(text))
    ]


def drops(scheduler: Scheduler, names: list[str]) -> list[Row]:
    dropped = scheduler.take_drops()
    return [
        (
            int(dropped.time_ns[at]),
            names[dropped.stream[at]],
            int(dropped.packet[at]),
            int(dropped.bytes[at]),
            int(dropped.arrival_ns[at]),
            None if dropped.deadline_ns[at] == NO_DEADLINE else int(dropped.deadline_ns[at]),
            EVENTS[dropped.event[at]],
        )
        for at in range(len(dropped))
    ]


def link(scheduler: Scheduler, table: dict[str, Any], folder: Path) -> list[Row]:
    """A link in Python around the scheduler, equal to that of crates/millstream-sim."""
    names = [stream["name"] for stream in table["stream"]]
    numbers = {name: number for number, name in enumerate(names)}
    with (folder / "arrivals.csv").open() as file:
        arrivals = [
            (int(row["time_ns"]), numbers[row["stream"]], int(row["bytes"]))
            for row in csv.DictReader(file)
        ]
    rate, overhead = rate_bps(table), table["link"].get("overhead", 0)
    rows: list[Row] = []
    at, free_ns = 0, 0
    while True:
        if scheduler.waiting():
            now_ns = free_ns
        elif at < len(arrivals):
            if arrivals[at][0] > free_ns:
                assert scheduler.dequeue(free_ns) is None
            now_ns = max(free_ns, arrivals[at][0])
        else:
            return rows
        while at < len(arrivals) and arrivals[at][0] <= now_ns:
            scheduler.enqueue(*arrivals[at])
            at += 1
        sent = scheduler.dequeue(now_ns)
        rows += drops(scheduler, names)
        free_ns = now_ns
        if sent is None and scheduler.waiting():
            # A rate cap holds back all waiting packets.
            arrival_ns = arrivals[at][0] if at < len(arrivals) else None
            events = [t for t in (arrival_ns, scheduler.next_eligible_ns()) if t is not None]
            free_ns = max(now_ns, min(events))
        elif sent is not None:
            free_ns += -(-(sent.bytes + overhead) * 8 * 10**9 // rate)
            rows.append(
                (
                    sent.time_ns,
                    names[sent.stream],
                    sent.packet,
                    sent.bytes,
                    sent.arrival_ns,
                    sent.deadline_ns,
                    sent.event,
                )
            )


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_every_trace_gives_the_commands_schedule(trace: Path, command: Command) -> None:
    ran = command("run", trace / "scenario.toml", "--departures", "-")
    assert ran.returncode == 0, ran.stderr
    expected = rows_of(ran.stdout)
    assert expected == rows_of((trace / "departures.csv").read_text())

    scenario = Scenario.from_file(trace / "scenario.toml")
    found = scenario.run(departures=True).departures.to_pylist()
    assert [tuple(row.values()) for row in found] == expected

    table = scenario.to_dict()
    for structure in ("auto", "scan", "heap"):
        scheduler = Scheduler(structure=structure, events=True, **options(table))
        for stream in table["stream"]:
            scheduler.add_stream(**contract(stream))
        assert link(scheduler, table, trace) == expected


def test_the_traces_have_every_discipline() -> None:
    found = {
        options(Scenario.from_file(t / "scenario.toml").to_dict())["discipline"] for t in TRACES
    }
    assert found == {name for name, _ in millstream.disciplines()}


@pytest.mark.parametrize("discipline", ["fifo", "dwcs", "edf", "wfq", "wf2q+", "drr", "minbw"])
def test_batches_give_the_same_schedule_as_single_packets(discipline: str) -> None:
    random = np.random.default_rng(1)
    packets = 5_000
    times = np.cumsum(random.integers(0, 900, packets)).astype(np.uint64)
    streams = random.integers(0, 20, packets).astype(np.uint32)
    lengths = random.integers(64, 1500, packets).astype(np.uint32)
    tags = np.arange(packets, dtype=np.uint64)
    single, batched = (Scheduler(discipline, events=True) for _ in range(2))
    for scheduler in (single, batched):
        for number in range(20):
            late = ("send", "drop")[number % 2]
            scheduler.add_stream(
                period_ns=9_000 + number,
                window=(number % 3, 4),
                late=late,
                weight=1 + number,
                quantum_bytes=500 * (1 + number),
                queue=60,
            )
    found = []
    for at in range(0, packets, 100):
        rows = slice(at, at + 100)
        admitted = batched.enqueue_batch(times[rows], streams[rows], lengths[rows], tags[rows])
        ones = zip(times[rows], streams[rows], lengths[rows], tags[rows], strict=True)
        numbers = [single.enqueue(*map(int, one)) for one in ones]
        assert admitted == sum(number is not None for number in numbers)
        now_ns = int(times[rows][-1])
        instants = np.repeat(np.uint64(now_ns), 40)
        columns = batched.dequeue_batch(now_ns, 40) if at % 200 else batched.dequeue_batch(instants)
        found.append(len(columns))
        for row in range(len(columns)):
            one = single.dequeue(now_ns)
            assert one is not None
            deadline_ns = NO_DEADLINE if one.deadline_ns is None else one.deadline_ns
            assert (one.time_ns, one.stream, one.packet, one.bytes) == (
                columns.time_ns[row],
                columns.stream[row],
                columns.packet[row],
                columns.bytes[row],
            )
            assert (one.arrival_ns, deadline_ns, one.event, one.tag) == (
                columns.arrival_ns[row],
                columns.deadline_ns[row],
                EVENTS[columns.event[row]],
                columns.tag[row],
            )
        assert len(columns) == 40 or single.dequeue(now_ns) is None
    assert sum(found) > packets / 4
    for name in ("missed", "violations", "dropped_late", "dropped_full"):
        counted = getattr(single.counters(), name)
        assert (counted == getattr(batched.counters(), name)).all()
    dropped, misses = batched.take_drops(), batched.take_misses()
    counters = batched.counters()
    assert (misses.missed.sum(), misses.violations.sum()) == (
        counters.missed.sum(),
        counters.violations.sum(),
    )
    for event, counter in ((1, counters.dropped_late), (2, counters.dropped_full)):
        of_event = dropped.stream[dropped.event == event]
        assert (np.bincount(of_event, minlength=20) == counter).all()
    assert counters.dropped_full.sum() > 0
    assert len(batched.take_drops()) == 0, "taken once"
    arrived = sum(found) + len(dropped) + batched.waiting()
    assert arrived == packets, "conservation"
