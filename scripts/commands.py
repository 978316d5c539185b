#!/usr/bin/env python3
"""Writes docs/src/commands.md: what `millstream --help` and each command's `--help` say.

Usage: scripts/commands.py [--check]. Needs target/release/millstream, or MILLSTREAM.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/src/commands.md"
HEAD = """# Commands

What each says of itself with `--help`; this page is written by `scripts/commands.py`.
"""


def asked(*arguments: str) -> str:
    """What the command prints."""
    program = os.environ.get("MILLSTREAM", str(ROOT / "target/release/millstream"))
    # However wide the terminal is.
    environment = {**os.environ, "COLUMNS": "100"}
    ran = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return ran.stdout.strip()


def page() -> str:
    """The page."""
    text = asked("--help")
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert listed, text
    names = [line.split()[0] for line in listed[1].splitlines() if line[2] != " "]
    parts = [f"{HEAD}\n```text\n{text}\n```\n"]
    for name in names:
        if name != "help":
            parts.append(f"## {name}\n\n```text\n{asked(name, '--help')}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Writes the page, or says that it is not fresh."""
    made = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() != made:
            sys.exit(f"error: {PAGE.relative_to(ROOT)} is not what --help says: run {sys.argv[0]}")
    elif sys.argv[1:]:
        sys.exit("usage: commands.py [--check]")
    else:
        PAGE.write_text(made)


main()
