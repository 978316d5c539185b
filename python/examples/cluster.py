"""A sweep on this machine's cores or on a Dask cluster: same program, same dataset.

Usage: cluster.py [ADDRESS], such as tcp://127.0.0.1:8786.
"""

import sys
from pathlib import Path

from distributed import Client

import millstream
from millstream import sweep

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def main() -> None:
    """Runs the sweep and prints the worst delay by discipline."""
    base = millstream.Scenario.from_file(EXAMPLES / "compare/scenario.toml")
    axes = {
        "scheduler.discipline": ["fifo", "drr", "wf2q+"],
        "link.rate": ["8 Mbit/s", "16 Mbit/s"],
    }
    client = Client(sys.argv[1]) if len(sys.argv) > 1 else None  # type: ignore[no-untyped-call]
    made = sweep.run(sweep.grid(base, axes), seeds=range(5), results="out/cluster", executor=client)
    print(f"{made.made} runs made, {made.found} found, {len(made.failures)} failed: {made.path}")
    worst = made.table.group_by("scheduler.discipline").aggregate([("delay_p99_ns", "max")])
    for row in worst.to_pylist():
        print(f"{row['scheduler.discipline']:6} {row['delay_p99_ns_max'] / 1e6:7.1f} ms")


if __name__ == "__main__":
    main()
