#!/usr/bin/env python3
"""Writes docs/src/commands.md: the output of `millstream --help` and of each command's `--help`.

Usage: scripts/commands.py [--check]. Needs target/release/millstream, or MILLSTREAM.
"""

import re

from pages import asked, write

HEAD = """# Commands

What each says of itself with `--help`; this page is written by `scripts/commands.py`.
"""


def listed(text: str) -> list[str]:
    """Returns the commands that a help page lists."""
    found = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    names = [line.split()[0] for line in found[1].splitlines() if line[2] != " "] if found else []
    return [name for name in names if name != "help"]


def parts(*command: str) -> list[str]:
    """Returns the help of a command and of its subcommands."""
    text = asked(*command, "--help")
    title = f"## {' '.join(command)}\n\n" if command else ""
    found = [f"{title}```text\n{text}\n```\n"]
    for name in listed(text):
        found += parts(*command, name)
    return found


write({"commands.md": "\n".join([HEAD, *parts()])})
