#!/usr/bin/env python3
"""Writes docs/src/commands.md: what `millstream --help` and each command's `--help` say.

Usage: scripts/commands.py [--check]. Needs target/release/millstream, or MILLSTREAM.
"""

import re

from pages import asked, write

HEAD = """# Commands

What each says of itself with `--help`; this page is written by `scripts/commands.py`.
"""


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


write({"commands.md": page()})
