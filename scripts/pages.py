"""Helpers of the scripts that write pages of the book."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The book's pages and pictures.
BOOK = ROOT / "docs/src"


def asked(*arguments: str) -> str:
    """Returns the output of a command of MILLSTREAM, by default target/release/millstream."""
    program = os.environ.get("MILLSTREAM", str(ROOT / "target/release/millstream"))
    # Independent of the terminal's width.
    environment = {**os.environ, "COLUMNS": "100"}
    ran = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return ran.stdout.strip()


def write(made: dict[str, str]) -> None:
    """Writes files of the book; with ``--check`` reports stale ones instead."""
    script = Path(sys.argv[0]).name
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(f"usage: {script} [--check]")
    stale = []
    for name, text in made.items():
        file = BOOK / name
        if not sys.argv[1:]:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            stale.append(str(file.relative_to(ROOT)))
    if stale:
        sys.exit(f"error: not fresh: {', '.join(stale)}; run scripts/{script}")
