"""The example programs and notebooks run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests_support import ROOT


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
