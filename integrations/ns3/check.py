#!/usr/bin/env python3
"""Builds the queue disc of Millstream for ns-3, checks its schedules and runs the example.

Usage: integrations/ns3/check.py [PREFIX]. PREFIX has the C library, as scripts/c-library.sh
installs it; by default this builds it into target/c. Needs a C++ compiler, pkg-config, libns3-dev
and libgsl-dev (Debian 12: ns-3 3.37).

Replays the conformance traces that use only keys of the queue disc. Its departures must equal those
that `millstream run` and all other backends give, byte for byte. In the example, TCP connections of
CUBIC and BBR must get the goodput of their weights.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODULES = ("applications", "core", "internet", "network", "point-to-point", "traffic-control")
UNITS = {"ns": 1, "us": 1_000, "bps": 1, "B": 1}
#: Keys that the attribute `Streams` also has.
KEYS = {
    "weight", "period", "window", "first-deadline", "late", "priority", "quantum", "queue",
    "max-rate", "burst",
}  # fmt: skip
LEAST_TRACES = 25


def flags(*packages: str) -> list[str]:
    """Returns the flags of the compiler for installed packages."""
    command = ["pkg-config", "--cflags", "--libs", *packages]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return found.stdout.split()


def build(prefix: Path, name: str) -> Path:
    """Compiles a program with the queue disc."""
    program = ROOT / "target" / "ns3" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    sources = [str(HERE / "millstream-queue-disc.cc"), str(HERE / f"{name}.cc")]
    library = [f"-I{prefix}/include", str(prefix / "lib" / "libmillstream.a")]
    options = ["-O1", "-std=c++17", "-Wall", "-Wextra", "-Werror"]
    modules = flags(*(f"ns3-{module}" for module in MODULES))
    command = ["c++", *options, *sources, *library, *modules, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def number(value: int | str) -> int | str:
    """Returns a value without its unit."""
    words = value.split() if isinstance(value, str) else []
    return int(words[0]) * UNITS[words[1]] if len(words) == 2 else value


def replay(program: Path, folder: Path) -> bool:
    """Replays a trace; returns False if the queue disc does not have its keys."""
    scenario = tomllib.loads((folder / "scenario.toml").read_text())
    scheduler = scenario["scheduler"]
    defaults = {"rules": "standard", "zero-window": "highest-denominator"}
    if any(scheduler.get(key, default) != default for key, default in defaults.items()):
        return False
    if scheduler.keys() - {"discipline", "order", *defaults}:
        return False
    streams = []
    for stream in scenario["stream"]:
        fields = {key: value for key, value in stream.items() if key not in ("name", "source")}
        if fields.keys() - KEYS:
            return False
        streams.append(",".join(f"{key}={number(value)}" for key, value in fields.items()))
    link = scenario["link"]
    command = [
        str(program),
        f"--discipline={scheduler['discipline']}",
        f"--order={scheduler.get('order', 'edf-first')}",
        f"--streams={';'.join(streams)};",
        f"--rate={number(link['rate'])}",
        f"--overhead={link.get('overhead', 0)}",
        f"--arrivals={folder / 'arrivals.csv'}",
    ]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    expected = (folder / "departures.csv").read_text().splitlines()[1:]
    # The queue disc does not show deadlines.
    shown = [cells[:5] + cells[6:] for cells in (row.split(",") for row in expected)]
    found = [row.split(",") for row in run.stdout.splitlines()]
    if found != shown:
        at = next((at for at, pair in enumerate(zip(found, shown)) if pair[0] != pair[1]), None)
        sys.exit(f"{folder.name}: row {at} differs: {found[at:][:1]}, not {shown[at:][:1]}")
    print(f"{folder.name}: {len(found)} departures equal; {run.stderr.strip()}")
    return True


def main() -> None:
    """Builds, checks and runs."""
    prefix = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target" / "c"
    if len(sys.argv) == 1:
        subprocess.run([ROOT / "scripts/c-library.sh", prefix], check=True)
    program = build(prefix, "replay")
    traces = sorted((ROOT / "conformance/traces").iterdir())
    replayed = [folder.name for folder in traces if replay(program, folder)]
    if len(replayed) < LEAST_TRACES:
        sys.exit(f"only {len(replayed)} traces were replayed")
    print(f"{len(replayed)} of {len(traces)} traces are equal\n")
    example = build(prefix, "tcp")
    print("goodput of four connections, Mbit/s; mean time in the queue disc, ms; drops")
    for queue in ("millstream", "fq_codel"):
        run = subprocess.run([example, f"--queue={queue}"], check=True, capture_output=True)
        print(f"{queue:10} {run.stdout.decode().strip()}")
        goodputs = [float(word) for word in run.stdout.split()[:4]]
        least, most = sum(goodputs) / 6 * 0.97, sum(goodputs) / 6 * 1.03
        shares = [goodputs[0] / 3, *goodputs[1:]]
        if queue == "millstream" and not all(least < share < most for share in shares):
            sys.exit(f"{queue}: the goodputs are not as the weights 3, 1, 1, 1")


if __name__ == "__main__":
    main()
