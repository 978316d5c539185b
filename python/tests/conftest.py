"""Shared fixtures: the repository and the command that results are compared with."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_support import ROOT


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture
def folder(tmp_path: Path, root: Path) -> Path:
    """A folder with the files that pages refer to, and ``out``."""
    for name in ("conformance", "examples", "python"):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the ``millstream`` command."""
    program = os.environ.get("MILLSTREAM", str(ROOT / "target/release/millstream"))
    environment = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )

    return run
