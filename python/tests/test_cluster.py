"""Sweeps on a Dask cluster of processes give the local pool's bytes and lose no run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from millstream import sweep
from tests_support import Killer, done, small_scenario

#: `make soak` runs more.
SEEDS = range(15 * int(os.environ.get("MILLSTREAM_SCALE", "1")))
RUNS = 20 * len(SEEDS)


def points() -> list[Any]:
    axes: dict[str, list[Any]] = {
        "scheduler.discipline": ["fifo", "dwcs", "wf2q+", "drr", "edf"],
        "stream.a.weight": [1, 2, 3, 4],
    }
    return list(sweep.grid(small_scenario("40 ms"), axes))


@pytest.fixture
def client() -> Iterator[Client]:
    # Two processes, which distributed restarts when one dies.
    made: Any = LocalCluster
    connected: Any = Client
    with (
        made(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        connected(cluster) as client,
    ):
        yield client


def swept(folder: Path, **where: Any) -> bytes:
    made = sweep.run(points(), seeds=SEEDS, results=folder, **where)
    assert (made.made, made.found, made.failures) == (RUNS, 0, [])
    return made.path.read_bytes()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The result of local processes."""
    return swept(tmp_path_factory.mktemp("local"), workers=2)


def test_scenarios_equal_the_local_pools_bytes(
    tmp_path: Path, client: Client, local: bytes
) -> None:
    assert swept(tmp_path, executor=client) == local


def test_a_worker_killed_midway_loses_nothing(tmp_path: Path, client: Client, local: bytes) -> None:
    pids = list(client.run(os.getpid).values())
    killer = Killer(lambda: len(done(tmp_path)) > RUNS // 4, lambda: pids, 1)
    killer.start()
    table = swept(tmp_path, executor=client)
    killer.end()
    assert len(killer.killed) == 1, "it was midway"
    assert table == local
