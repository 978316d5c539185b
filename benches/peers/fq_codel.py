#!/usr/bin/env python3
"""The cost of a packet in flow queues with CoDel, beside FQ-CoDel in C, by turns.

Usage: benches/peers/fq_codel.py [ROUNDS]. Needs a C compiler and cargo; nothing else should run.
Prints the medians over the rounds, ns a packet, and the median ratio of Millstream to C. Millstream
does more: its buckets are set-associative, so flows do not collide, packets have numbers, and the
queue has a limit in bytes.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOWS = (16, 1_024)


def build(folder: Path) -> tuple[Path, Path]:
    """Returns the programs: the peer's and the bench."""
    peer = folder / "fq_codel"
    source = str(ROOT / "benches/peers/fq_codel.c")
    command = ["cc", "-O3", "-march=native", source, "-o", str(peer)]
    subprocess.run(command, check=True)
    command = ["cargo", "bench", "--no-run", "-q", "-p", "millstream-benches", "--bench", "flows"]
    built = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    messages = [json.loads(line) for line in built.splitlines()]
    programs = [message.get("executable") for message in messages]
    return peer, Path(next(program for program in programs if program))


def ours(bench: Path, flows: int) -> float:
    """Returns the ns of a packet that Criterion prints."""
    command = [str(bench), "--bench", "--noplot", f"^flows/fq-codel/{flows}$"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"time:\s+\[\S+ \S+ (\S+) (ns|µs)", out)
    if not found:
        raise SystemExit(f"error: no time in the output of the bench:\n{out}")
    return float(found[1]) * (1_000 if found[2] == "µs" else 1)


def theirs(peer: Path, flows: int) -> float:
    """Returns the ns of a packet of the peer."""
    out = subprocess.run([str(peer), str(flows)], check=True, capture_output=True, text=True).stdout
    return float(out.split()[0])


def main() -> None:
    """Prints the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        peer, bench = build(Path(folder))
        runs: dict[int, list[tuple[float, float]]] = {flows: [] for flows in FLOWS}
        for _ in range(rounds):
            for flows in FLOWS:
                runs[flows].append((theirs(peer, flows), ours(bench, flows)))
    print(f"{rounds} rounds\n\n| flows | C, ns | Millstream, ns | ratio |\n|---:|---:|---:|---:|")
    for flows, pairs in runs.items():
        c, own = (statistics.median(pair[at] for pair in pairs) for at in range(2))
        ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
        print(f"| {flows:,} | {c:.1f} | {own:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
