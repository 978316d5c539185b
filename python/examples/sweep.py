"""Which discipline keeps a call on time beside how much other traffic? Eighteen runs.

Usage: python examples/sweep.py [FOLDER]
"""

import sys
from pathlib import Path

from millstream import Scenario, sweep


def main() -> None:
    """Runs the grid in local processes and prints the call's delays."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/sweep")
    base = (
        Scenario("10 Mbit/s", duration="5 s")
        .stream(
            "call",
            period="10 ms",
            weight=2,
            source={"kind": "cbr", "bytes": 500, "rate": "2 Mbit/s"},
        )
        .stream(
            "rest",
            period="10 ms",
            queue=200,
            source={"kind": "pareto", "bytes": 1500, "rate": "6 Mbit/s"},
        )
    )
    points = sweep.grid(
        base,
        {
            "scheduler.discipline": ["fifo", "wf2q+", "dwcs"],
            "stream.rest.source.rate": ["6 Mbit/s", "9 Mbit/s"],
        },
    )
    made = sweep.run(points, seeds=range(3), results=folder)
    for failure in made.failures:
        print(failure)
    calls = made.table.filter([name == "call" for name in made.table["name"].to_pylist()])
    keys = ["scheduler.discipline", "stream.rest.source.rate"]
    for row in calls.group_by(keys).aggregate([("delay_p99_ns", "max")]).to_pylist():
        print(*(row[key] for key in keys), f"p99 at most {row['delay_p99_ns_max'] / 1e6:.2f} ms")


if __name__ == "__main__":
    main()
