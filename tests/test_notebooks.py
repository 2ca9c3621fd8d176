"""The notebooks run from top to bottom, as a person runs them, and are committed without outputs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tabletopic_kernel.local.stack import StackInfo
from tests.jupyter.kernels import KERNELSPECS, ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXECUTED = ROOT / "build" / "notebooks"  # to look at what a run has shown
_KEPT = frozenset({"TABLETOPIC_CACHE", "TABLETOPIC_JAVA_HOME"})
_CELL_LIMIT_S = 400
# An address that a browser would ask while it shows the output; names of XML are none.
_OUTSIDE = re.compile(r"""(?:src|href)\s*=\s*["'](?:https?:)?//|@import|url\(\s*["']?(?:https?:)?//""")


def read(path: Path) -> Any:
    """A notebook; raises if it does not follow the format."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_committed_without_outputs(path: Path) -> None:
    """No output, no count: a change of a notebook is a change of its text."""
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert notebook.metadata.kernelspec.name == "tabletopic"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.integration
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_run_from_top_to_bottom(path: Path, quiet_stack: StackInfo) -> None:
    """No cell fails, each notebook shows a picture, and nothing that is shown asks another server."""
    notebook = read(path)
    ours = {k: v for k, v in os.environ.items() if not k.startswith("TABLETOPIC_") or k in _KEPT}
    manager = AsyncKernelManager(
        kernel_name="tabletopic", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(KERNELSPECS)])
    )
    client = NotebookClient(
        notebook, km=manager, timeout=_CELL_LIMIT_S, resources={"metadata": {"path": str(path.parent)}}
    )
    client.owns_km = True  # it ends the kernel too: one that lives would be a host in the next notebook
    try:
        client.execute(env={**ours, "TABLETOPIC_STATE_DIR": str(quiet_stack.state_dir)})
    finally:
        EXECUTED.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, EXECUTED / path.name)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [str(output.data.get("text/html", "")) for output in outputs if "data" in output]
    assert any("<svg" in html for html in shown)
    assert not any(_OUTSIDE.search(html) for html in shown)
    assert not [output for output in outputs if output.get("name") == "stdout" and "WARN" in output.text]
