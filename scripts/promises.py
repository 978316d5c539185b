#!/usr/bin/env python3
"""Draws random scenarios of all kinds, and compares the bounds of `check` with runs.

Usage: scripts/promises.py [DRAWS [SEEDS]]. DRAWS is 1,000,000 by default. Each seed draws one
scenario of each kind. SEEDS is the number of seeds of one part, 1,000 by default. The results of
each part are kept in target/promises, in a file named by the committed sources. So a run that was
interrupted goes on.
Prints draws, streams, bounds, broken bounds and tightness of each kind. Fails if a bound is broken.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

KINDS = ["links", "trees", "beside TCP", "series", "caps", "flows", "queues", "fabrics"]
KINDS.append("crossbars")
TEST = ["--exact", "promises::soak::soak", "--ignored", "--nocapture"]
ROW = re.compile(r"^(?:.*\.\.\. )?soak: (.*); (\d+); (\d+); (\d+); (\d+); (\d+); \[(.*)\]$")


def build(test: Path) -> None:
    """Builds the tests and copies the program, so that later changes do not affect the run."""
    command = ["cargo", "test", "--quiet", "--release", "-p", "millstream-sim", "--test", "sim"]
    command += ["--no-run", "--message-format", "json"]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    programs = [of["executable"] for of in messages if of.get("executable")]
    shutil.copy(programs[-1], test)


def run(test: Path, first: int, last: int) -> str:
    """Runs a part; returns its rows and broken bounds."""
    environment = os.environ | {"MILLSTREAM_SEEDS": f"{first}..{last}"}
    command = [str(test.resolve()), *TEST]
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, check=False)
    lines = [line for line in done.stdout.splitlines() if re.match(r".*\b(soak|broken): ", line)]
    if sum("soak: " in line for line in lines) != len(KINDS):
        sys.exit(f"seeds {first}..{last} failed:\n{done.stdout}")
    return "\n".join([f"seeds {first}..{last}", *lines, ""])


def table(text: str) -> None:
    """Prints the sums of all parts."""
    sums: dict[str, list[int]] = collections.defaultdict(lambda: [0] * 5)
    met: dict[str, list[int]] = collections.defaultdict(lambda: [0] * 101)
    for row in filter(None, map(ROW.match, text.splitlines())):
        for of in (row[1], "all"):
            counts = list(map(int, row.groups()[1:6]))
            sums[of] = [sum(pair) for pair in zip(sums[of], counts, strict=True)]
            part = list(map(int, row[7].split(", ")))
            met[of] = [sum(pair) for pair in zip(met[of], part, strict=True)]
    head = ["kind", "draws", "streams", "bounds", "guaranteed", "broken", "median", "tightest"]
    print(("{:>11}" * len(head)).format(*head))
    for kind in [*KINDS, "all"]:
        shares = [share for share, count in enumerate(met[kind]) for _ in range(count)] or [0]
        cells = [kind, *sums[kind], f"{shares[len(shares) // 2]} %", f"{shares[-1]} %"]
        print(("{:>11}" * len(head)).format(*cells))


def main() -> None:
    """Runs all parts that have no results yet."""
    os.chdir(Path(__file__).resolve().parent.parent)
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    part = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    sources = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD:crates"],
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.strip()
    results = Path("target/promises") / f"{sources}.txt"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.touch()
    test = results.with_suffix(".test")
    if not test.exists():
        build(test)
    seeds = -(-draws // len(KINDS))
    for first in range(0, seeds, part):
        last = min(first + part, seeds)
        if f"seeds {first}..{last}\n" in results.read_text():
            continue
        with results.open("a") as file:
            file.write(run(test, first, last))
    text = results.read_text()
    table(text)
    broken = [line for line in text.splitlines() if "broken: " in line]
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
