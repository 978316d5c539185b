#!/usr/bin/env python3
"""Measures what a decision costs in each of MinBW's schedulers, in time and in operations.

Writes papers/minbw/cost.md. Time is the median of several runs, alternating between schedulers.
Operations are counted by valgrind's callgrind on a run of 20,000 decisions and on one of 40,000;
the difference is the cost of 20,000. Multiplications, divisions and comparisons are identified by
the instruction names in objdump's disassembly.

Needs valgrind and binutils (apt install valgrind binutils). Usage: scripts/minbw-cost.py
"""

import collections
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCHEDULERS = ["WFQ-CA", "SCFQ-CA", "DRR-CA", "WF2Q+-CA", "table", "DWCS-CA"]
COUNTED = 20_000
TIMED = 1_000_000
TURNS = 7

PAGE = f"""# MinBW: what a decision costs

`scripts/minbw-cost.py` measures and writes this page (a minute or two). The paper compares the
complexity of its schedulers in words; here it is counted.

One link's scheduler with the paper's seven channels, weights and buffers
(`papers/src/minbw/cost.rs`), all backlogged: per cycle one packet arrives, one is selected, and the
credits of one return. Every hundredth cycle a packet of the management channel has priority over
all six.

Time is ns a cycle, the median of {TURNS} runs of {TIMED:,} cycles, alternating between schedulers;
in brackets the fastest. Compare within the table only: times depend on the machine and its load.
The other columns are numbers a cycle, counted by valgrind's callgrind over {COUNTED:,} cycles:
instructions, memory accesses (loads and stores), compare and test instructions, multiplications and
divisions by instruction name, conditional branches and those that its simple predictor misses. They
hold for this compiler's x86-64 code.

"""

# Kinds of instructions by name; callgrind counts memory accesses.
KINDS = {
    "multiplications": re.compile(r"^(i?mul[bwlq]?|mulx\w?|v?p?mul\w+|adcx|adox)$"),
    "divisions": re.compile(r"^(i?div[bwlq]?|v?div[sp][sd])$"),
    "comparisons": re.compile(r"^(cmp[bwlq]?|test[bwlq]?|v?u?comis[sd]|v?pcmp\w+|v?ptest)$"),
}


def mnemonics(program):
    """Returns the instruction name at each address of the program."""
    listing = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", "--wide", program],
        check=True, capture_output=True, text=True,
    ).stdout
    found = {}
    for line in listing.splitlines():
        match = re.match(
            r"^\s+([0-9a-f]+):\s+(?:(?:lock|rep[nz]?|bnd|notrack|data16)\s+)*(\S+)", line
        )
        if match:
            found[int(match[1], 16)] = match[2]
    return found


def count(program, names, scheduler, decisions):
    """Returns the events of a run, by name."""
    with tempfile.NamedTemporaryFile() as output:
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output.name}",
             "--dump-instr=yes", "--cache-sim=yes", "--branch-sim=yes", "--compress-strings=no",
             "--compress-pos=no", program, "--minbw-cycles", scheduler, str(decisions)],
            check=True, capture_output=True,
        )
        with open(output.name, encoding="utf-8") as file:
            lines = file.read().splitlines()
    events, totals, called, ours = [], collections.Counter(), False, False
    for line in lines:
        if line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("ob="):
            ours = os.path.basename(line[3:]) == os.path.basename(program)
        elif line.startswith("calls="):
            # The next line is the cost of the callee, which is counted there.
            called = True
        elif line.startswith("0x"):
            if called:
                called = False
                continue
            address, _, *costs = line.split()
            row = dict(zip(events, map(int, costs)))
            totals.update(row)
            name = names.get(int(address, 16), "") if ours else ""
            for kind, pattern in KINDS.items():
                if pattern.match(name):
                    totals[kind] += row["Ir"]
    return totals


def main():
    for tool in ("valgrind", "objdump"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not installed (apt install valgrind binutils)")
    build = ["cargo", "build", "--profile", "dist", "--quiet", "-p", "millstream-papers"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    program = os.path.join(target, "dist", "millstream-papers")
    names = mnemonics(program)
    rows = {}
    for scheduler in SCHEDULERS:
        once, twice = (count(program, names, scheduler, COUNTED * times) for times in (1, 2))
        rows[scheduler] = {key: (twice[key] - once[key]) / COUNTED for key in twice}
        print(scheduler, "counted", file=sys.stderr)
    times = {scheduler: [] for scheduler in SCHEDULERS}
    for _ in range(TURNS):
        for scheduler in SCHEDULERS:
            run = subprocess.run(
                [program, "--minbw-cycles", scheduler, str(TIMED)],
                check=True, capture_output=True, text=True,
            )
            times[scheduler].append(float(run.stdout))
    columns = [
        ("instructions", lambda of: of["Ir"]),
        ("loads", lambda of: of["Dr"]),
        ("stores", lambda of: of["Dw"]),
        ("comparisons", lambda of: of["comparisons"]),
        ("multipli&shy;cations", lambda of: of["multiplications"]),
        ("divisions", lambda of: of["divisions"]), ("branches", lambda of: of["Bc"]),
        ("mispredicted", lambda of: of["Bcm"]),
    ]
    page = PAGE + "| | ns (least) |" + "".join(f" {name} |" for name, _ in columns) + "\n"
    page += "|---|---:|" + "---:|" * len(columns) + "\n"
    for scheduler in SCHEDULERS:
        median, least = statistics.median(times[scheduler]), min(times[scheduler])
        cells = []
        for _, pick in columns:
            value = pick(rows[scheduler])
            cells.append(f" {value:.0f} |" if value >= 10 else f" {value:.1f} |")
        page += f"| {scheduler} | {median:.0f} ({least:.0f}) |" + "".join(cells) + "\n"
    with open(os.path.join(ROOT, "papers", "minbw", "cost.md"), "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()
