"""Builds and runs a scenario, and prints results.

Usage: python examples/first.py
"""

from millstream import Scenario


def main() -> None:
    """Runs three streams on an overloaded link."""
    scenario = (
        Scenario("10 Mbit/s", "dwcs", duration="2 s", name="first")
        .stream(
            "video",
            period="2 ms",
            window="1/4",
            late="drop",
            source={"kind": "cbr", "bytes": 1316, "interval": "2 ms"},
        )
        .stream("voice", period="20 ms", source={"kind": "cbr", "bytes": 200, "interval": "20 ms"})
        .stream(
            "bulk",
            period="5 ms",
            queue=100,
            source={"kind": "pareto", "bytes": 1500, "rate": "8 Mbit/s"},
        )
    )
    result = scenario.run(departures=True)
    print(result)
    table = result.departures
    delay_ns = table["time_ns"].to_numpy() - table["arrival_ns"].to_numpy()
    print(table.group_by(["stream", "event"]).aggregate([("bytes", "sum")]))
    print(f"{len(table)} departures, the last waited {delay_ns[-1]:,} ns")


if __name__ == "__main__":
    main()
