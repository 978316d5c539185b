"""What users are told to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs/src").glob("*.md"))]
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_pages_python_runs_word_by_word(page: Path, root: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
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


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "python/examples").glob("*.ipynb")), ids=lambda path: path.name
)
def test_a_notebook_runs_and_is_kept_without_outputs(notebook: Path) -> None:
    made = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    NotebookClient(made, resources={"metadata": {"path": notebook.parent}}).execute()
    assert all("image/png" in cell.outputs[-1].data for cell in cells[1:])
    assert "call audio" in cells[0].outputs[-1].data["text/html"]
