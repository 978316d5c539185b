#!/usr/bin/env python3
"""The benches of two commits by turns, and the ratio of their results.

Builds the benches decision, dispatch, router and frame of both commits in target/turns, then runs
OLD and NEW alternately. Builds take ten minutes and a round three; nothing else should run.

Each run uses a fresh copy of its program: the placement of a program in memory alone changed its
speed by up to 15 %. A round with more than 2 % of steal time on the machine is repeated, and one
before or after which a loop is slow: another virtual machine then uses the same core, which takes
speed and is no steal time. At most ROUNDS rounds are repeated. For each figure it prints the
medians of both commits, the median over the rounds of NEW / OLD, and the smallest and largest of
these ratios. Figures in Mpps are rates, the others ns.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "target/turns"
MOST_STEAL = 0.02
#: The most time of a loop, in its least time.
MOST_LOOP = 1.2
#: The decisions that are measured; the bench has many more.
DECISIONS = (
    r"^dwcs/(scan|heap|dual-heap|hilq-exact)/(16|64|1024|65536)$"
    r"|^disciplines/.*/20$|^tree/three levels/1000$"
)
#: Bench, its packages in the order to try, its arguments.
BENCHES = [
    ("decision", ["millstream-benches", "millstream"], []),
    ("dispatch", ["millstream-router"], []),
    ("router", ["millstream-router"], []),
    ("frame", ["millstream-media"], []),
]


def build(name: str, commit: str, chosen: list[str]) -> dict[str, str]:
    """Returns the chosen bench programs of a commit by name."""
    tree = FOLDER / name
    if not tree.exists():
        subprocess.run(["git", "worktree", "add", "--detach", tree, commit], cwd=ROOT, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=tree, check=True)
    programs = {}
    for bench, packages, _ in BENCHES:
        if bench not in chosen:
            continue
        for package in packages:
            if package == "millstream-benches" and not (tree / "benches/Cargo.toml").exists():
                continue
            command = ["cargo", "bench", "--no-run", "--quiet", "-p", package, "--bench", bench]
            built = subprocess.run(
                [*command, "--message-format=json"],
                cwd=tree,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            artifacts = [json.loads(line) for line in built.stdout.splitlines()]
            programs[bench] = next(
                artifact["executable"]
                for artifact in artifacts
                if artifact.get("executable") and artifact["target"]["name"] == bench
            )
            break
    return programs


def figures(bench: str, output: str) -> dict[str, float]:
    """Returns the figures of a bench's output by label."""
    found, label = {}, ""
    for line in output.splitlines():
        if bench == "decision":
            # A long label has a line of its own before its times.
            if match := re.match(r"(\S.*?)? +time: +\[\S+ \S+ (\S+) (ns|µs|ms) ", line):
                scale = {"ns": 1, "µs": 1e3, "ms": 1e6}[match[3]]
                found[match[1] or label] = float(match[2]) * scale
            label = line.strip()
            continue
        words = line.replace("|", " ").split()
        # A row begins with its settings: words, or whole numbers.
        settings = {"dispatch": 2, "router": 2, "frame": 1}[bench]
        names = {
            "dispatch": ["Mpps"],
            "router": ["bare, Mpps", "routed, Mpps"],
            "frame": ["scheduling", "with filter", "with packets", "sending", "kernel"],
        }[bench]
        values = words[settings : settings + len(names)]
        numeric = all(re.fullmatch(r"[\d.]+", value) for value in values)
        if len(values) == len(names) and numeric and words[settings - 1].isdigit():
            label = " ".join(words[:settings])
            found |= {f"{label}: {name}": float(value) for name, value in zip(names, values)}
    assert found, f"{bench} printed no figure:\n{output}"
    return found


def processor_time() -> tuple[int, int]:
    """Returns the steal time and all time of the machine so far, in ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)


def loop_s() -> float:
    """Returns the time of a loop, s: the least of five."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(200_000):
            pass
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Builds, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", help="the commit to compare with")
    parser.add_argument("new", nargs="?", default="HEAD", help="default: HEAD")
    parser.add_argument("--rounds", type=int, default=6)
    names = [bench for bench, *_ in BENCHES]
    parser.add_argument("--bench", nargs="+", choices=names, default=names)
    parser.add_argument("--rows", default=DECISIONS, help="the decisions, a regular expression")
    arguments = parser.parse_args()
    commits, rounds = [arguments.old, arguments.new], arguments.rounds
    FOLDER.mkdir(parents=True, exist_ok=True)
    resolved = [
        subprocess.run(
            ["git", "rev-parse", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        for commit in commits
    ]
    programs = [build(name, at, arguments.bench) for name, at in zip(["old", "new"], resolved)]
    for bench, _, options in BENCHES:
        if bench not in arguments.bench:
            continue
        results: list[dict[str, list[float]]] = [defaultdict(list), defaultdict(list)]
        kept = tried = 0
        least_s = loop_s()
        while kept < rounds and tried < 2 * rounds:
            tried += 1
            steal, total = processor_time()
            before_s = loop_s()
            # The commit that runs first alternates.
            outputs = {}
            for which in [0, 1] if tried % 2 else [1, 0]:
                copy = shutil.copy(programs[which][bench], FOLDER / bench)
                rows = [arguments.rows] if bench == "decision" else []
                command = [copy, "--bench", *options, *rows]
                outputs[which] = subprocess.run(
                    command, cwd=FOLDER / "new", check=True, stdout=subprocess.PIPE, text=True
                ).stdout
                Path(copy).unlink()
            stolen, all_time = processor_time()
            steal, total = stolen - steal, all_time - total
            loops_s = [before_s, loop_s()]
            least_s = min(least_s, *loops_s)
            if max(loops_s) > MOST_LOOP * least_s:
                print(f"{bench}: round {tried} had a neighbour on the core")
                continue
            if steal > MOST_STEAL * total:
                print(f"{bench}: round {tried} has {100 * steal / total:.1f} % of steal time")
                continue
            kept += 1
            for which, output in outputs.items():
                for label, value in figures(bench, output).items():
                    results[which][label].append(value)
        print(f"\n{bench}, {kept} rounds\n\n| figure | old | new | new / old | range |")
        print("|---|---:|---:|---:|---:|")
        for label in results[0]:
            if label not in results[1] or not kept:
                continue
            old, new = results[0][label], results[1][label]
            ratios = [after / before for before, after in zip(old, new)]
            medians = f"{statistics.median(old):g} | {statistics.median(new):g}"
            extent = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(f"| {label} | {medians} | {statistics.median(ratios):.3f} | {extent} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
