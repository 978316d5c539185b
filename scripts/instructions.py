#!/usr/bin/env python3
"""Counts the instructions of a packet out and one in by callgrind, and compares with a file.

Every discipline, with 16 and 1,024 streams, on the structure that "auto" selects, and DWCS with
misses on every structure. Fails if a row differs by more than 3 % from benches/instructions.csv,
also if it needs fewer: --update records those, so that the next regression is compared with them.

Counts depend on the compiler, which rust-toolchain.toml pins, and, as valgrind has no AVX-512, on
whether the processor has AVX2. INSTRUCTIONS names a program that is already built. Needs valgrind
(apt install valgrind).
"""

import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED = ROOT / "benches" / "instructions.csv"
KEY = ["discipline", "structure", "streams", "missed_percent"]
LIMIT = 0.03

Counts = dict[tuple[str, ...], dict[str, int]]


# The settings of `make test`: incremental builds and the plain compiler inline other functions.
SETTINGS = {
    "CARGO_INCREMENTAL": "0",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "RUSTC_WORKSPACE_WRAPPER": str(ROOT / "scripts" / "rustc-tests.sh"),
}


def program(profile: str) -> pathlib.Path:
    """Builds the program in a cargo profile, and returns its path."""
    build = ["cargo", "build", "--quiet", "--profile", profile, "-p", "millstream-bench"]
    build += ["--example", "instructions"]
    subprocess.run(build, cwd=ROOT, env={**os.environ, **SETTINGS}, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / {"dev": "debug"}.get(profile, profile) / "examples" / "instructions"


def count(binary: pathlib.Path, profile: str) -> Counts:
    """Returns the instructions of a step by row."""
    function = "instructions::counted"
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch) / "profile"
        ran = subprocess.run(
            [
                *("valgrind", "--quiet", "--tool=callgrind", "--combine-dumps=yes"),
                f"--callgrind-out-file={output}",
                f"--toggle-collect={function}",
                f"--dump-after={function}",
                binary,
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        totals = re.findall(r"^totals: (\d+)$", output.read_text(), re.MULTILINE)
    rows = [line.split() for line in ran.stdout.splitlines()]
    # The last part is that of the program's end, in which nothing was collected.
    if len(totals) != len(rows) + 1:
        sys.exit(f"error: callgrind wrote {len(totals)} counts for {len(rows)} rows")
    return {
        tuple(row[:-1]): {profile: int(total) // int(row[-1])}
        for row, total in zip(rows, totals, strict=False)
    }


def recorded() -> Counts:
    """Returns the counts on file by row and profile."""
    if not RECORDED.exists():
        return {}
    with RECORDED.open(newline="") as file:
        return {
            tuple(row[name] for name in KEY): {
                name: int(row[name]) for name in row if name not in KEY and row[name]
            }
            for row in csv.DictReader(file)
        }


def update(found: Counts, profiles: list[str]) -> None:
    """Writes the rows that were found, with the counts on file of the other profiles."""
    before = recorded()
    with RECORDED.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*KEY, *profiles], lineterminator="\n")
        writer.writeheader()
        for row, counts in found.items():
            names = dict(zip(KEY, row, strict=True))
            writer.writerow({**names, **before.get(row, {}), **counts})


def compare(found: Counts, profile: str) -> None:
    """Exits with the rows that differ by more than the limit."""
    before = recorded()
    wrong = []
    for row in [*found, *(row for row in before if row not in found)]:
        name = " ".join(row)
        old, new = (counts.get(row, {}).get(profile) for counts in (before, found))
        if old is None or new is None:
            wrong.append(f"{name}: {'not on file' if old is None else 'not counted'}")
        elif abs(new / old - 1) > LIMIT:
            wrong.append(f"{name}: {old} -> {new} ({new / old - 1:+.1%})")
    if wrong:
        listed = "\n".join(wrong)
        sys.exit(
            "error: these rows differ by more than 3 % from benches/instructions.csv (discipline, "
            f"structure, streams, percent missed):\n{listed}\n"
            f"mend a regression; record other changes by scripts/instructions.py --update"
        )
    print(f"{len(found)} rows are within 3 % of benches/instructions.csv")


def main() -> None:
    """Counts, and compares or updates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", action="store_true", help="count in the release build")
    parser.add_argument("--update", action="store_true", help="write the counts to the file")
    arguments = parser.parse_args()
    profiles = ["dev", "release"]
    profile = profiles[arguments.release]
    named = os.environ.get("INSTRUCTIONS")
    found = count(pathlib.Path(named) if named else program(profile), profile)
    if arguments.update:
        update(found, profiles)
    else:
        compare(found, profile)


if __name__ == "__main__":
    main()
