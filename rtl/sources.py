"""The lists of sources: `msr_core.f`, `scaling/msr_tiled_core.f` and `cards/msr_cards.f`.

Usage: sources.py LIST ... prints the files of the lists, each once, relative to the working
directory. sources.py --check compares the lists with the directories and with the `.core` files of
FuseSoC.

A list has one path a line, relative to itself, and `-F LIST` for those of another list: `verilator
-F` and the tools of most vendors read it.
"""

import os
import re
import sys
from pathlib import Path

RTL = Path(__file__).resolve().parent
CORE, TILED, CARDS = (
    RTL / name for name in ("msr_core.f", "scaling/msr_tiled_core.f", "cards/msr_cards.f")
)


def lines(path):
    for line in path.read_text().splitlines():
        if line and not line.startswith("//"):
            yield line


def own(path):
    """Returns the files that the list `path` names itself."""
    return [path.parent / line for line in lines(path) if not line.startswith("-F ")]


def sources(*paths):
    """Returns the files of the lists `paths`, in order, each once."""
    found = {}
    for path in paths:
        for line in lines(path):
            if line.startswith("-F "):
                found |= dict.fromkeys(sources((path.parent / line[3:]).resolve()))
            else:
                found[path.parent / line] = None
    return list(found)


def faults():
    """Yields every difference between the lists, the directories and the `.core` files."""
    import yaml

    for path in (CORE, TILED, CARDS):
        named, present = own(path), {*path.parent.glob("src/*.sv")}
        present |= {*path.parent.glob("registers/*.sv")}
        for file in sorted({*named} ^ present):
            what = "does not exist" if file in named else "is not in the list"
            yield f"{path.relative_to(RTL)}: {file.relative_to(path.parent)} {what}"
        described = {}
        for core in sorted(path.parent.glob("*.core")):
            table = yaml.safe_load(core.read_text())
            top = (path.parent / f"src/{core.stem}.sv").read_text()
            for parameter in table["parameters"]:
                if not re.search(rf"^  parameter (int|bit) {parameter} =", top, re.M):
                    yield f"{core.relative_to(RTL)}: {core.stem} has no parameter {parameter}"
            files = [path.parent / name for name in table["filesets"]["rtl"]["files"]]
            described |= dict.fromkeys(files)
            # The order of the list is that of the package first.
            if files != [file for file in named if file in files]:
                yield f"{core.relative_to(RTL)}: not the files of {path.name} in its order"
        for file in named:
            if file not in described:
                yield f"{file.relative_to(RTL)}: in no .core file beside {path.name}"


def main(*arguments):
    if arguments == ("--check",):
        found = list(faults())
        print("\n".join(found) or "lists of sources: complete, and equal to the .core files")
        return 1 if found else 0
    for file in sources(*(Path(argument).resolve() for argument in arguments)):
        print(os.path.relpath(file))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: sources.py LIST ... | --check")
    sys.exit(main(*sys.argv[1:]))
