"""What users are told to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("page", ["README.md", "docs/src/python.md"])
def test_a_pages_python_runs_word_by_word(page: str, root: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / page).read_text(), re.DOTALL)
    assert blocks
    # One after the other, as a reader would; what they write goes beside a copy of the examples.
    (tmp_path / "examples").symlink_to(root / "examples")
    guard = 'if __name__ == "__main__":\n'
    script = tmp_path / "page.py"
    script.write_text(guard + "".join(f"    {line}\n" for line in "\n".join(blocks).splitlines()))
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("example", ["first", "prototype", "sweep"])
def test_an_example_runs(example: str, root: Path, tmp_path: Path) -> None:
    script = root / "python/examples" / f"{example}.py"
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
