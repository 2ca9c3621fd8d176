"""The notebooks run from top to bottom, as for a user, and are committed without outputs."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import tabletopic_kernel
from tabletopic_kernel.local.stack import StackInfo
from tests.environment import without_settings
from tests.faces.notebook.kernels import KERNELSPECS, ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# It needs servers that stand for AWS's: tests/athena/test_walkthrough.py runs it.
AT_AWS = ROOT / "notebooks" / "07_s3_tables_and_athena.ipynb"
SCHEMAS = ROOT / "notebooks" / "02_schema_evolution.ipynb"  # it runs twice
EXECUTED = ROOT / "build" / "notebooks"  # to look at what a run has shown
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_import_the_public_names_alone(path: Path) -> None:
    """What people copy from a notebook goes on to work: names of the package itself, none from below it."""
    code = "\n".join(
        line
        for cell in read(path).cells
        if cell.cell_type == "code" and not cell.source.startswith("%%")
        for line in cell.source.splitlines()
        if not line.lstrip().startswith(("%", "!"))
    )
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        if isinstance(node, ast.Import):
            assert not [name.name for name in node.names if name.name.startswith("tabletopic_kernel.")]
        elif (node.module or "").partition(".")[0] == "tabletopic_kernel":
            assert node.module == "tabletopic_kernel"
            assert {one.name for one in node.names} <= set(tabletopic_kernel.__all__)


def test_the_public_names_are_there() -> None:
    """Each name of the package's list can be imported and has a docstring; another one is an error."""
    for name in set(tabletopic_kernel.__all__) - {"__version__"}:
        assert getattr(tabletopic_kernel, name).__doc__
    assert set(tabletopic_kernel.__all__) <= set(dir(tabletopic_kernel))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tabletopic_kernel.nothing


def executed(path: Path, stack: StackInfo, settings: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The notebook with the outputs of a run on these servers; raises if a cell fails.

    ``settings``: variables of the environment, added.
    """
    notebook = read(path)
    ours = without_settings()
    manager = AsyncKernelManager(
        kernel_name="tabletopic", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(KERNELSPECS)])
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=_CELL_LIMIT_S,
        iopub_timeout=240,  # by default, output that comes 4 s after the reply is lost
        startup_timeout=240,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.owns_km = True  # it ends the kernel too: one that lives would be a host in the next notebook
    try:
        client.execute(env={**ours, "TABLETOPIC_STATE_DIR": str(stack.state_dir), **settings})
    finally:
        EXECUTED.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, EXECUTED / path.name)
    return notebook


def check_outputs(notebook: Any) -> None:
    """A notebook shows a picture, and no output contacts another server or warns."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [str(output.data.get("text/html", "")) for output in outputs if "data" in output]
    assert any("<svg" in html for html in shown)
    assert not any(_OUTSIDE.search(html) for html in shown)
    assert not [output for output in outputs if output.get("name") == "stdout" and "WARN" in output.text]


def _in_its_tier(path: Path) -> Any:
    """The first and the third are stories of `make test`; Debezium is fetched first."""
    mark = pytest.mark.story if path.stem[:2] in ("01", "03") else pytest.mark.integration
    fetched = [pytest.mark.servers] if path.stem.startswith("08") else []
    return pytest.param(path, marks=[mark, *fetched], id=path.stem)


@pytest.mark.parametrize("path", [_in_its_tier(path) for path in NOTEBOOKS if path not in (AT_AWS, SCHEMAS)])
def test_they_run_from_top_to_bottom(path: Path, quiet_stack: StackInfo) -> None:
    """No cell fails, each notebook shows a picture, and nothing that is shown asks another server."""
    check_outputs(executed(path, quiet_stack))


@pytest.mark.integration
def test_the_one_for_aws_says_what_it_needs(quiet_stack: StackInfo) -> None:
    """Without a table bucket in the settings, it stops in one sentence at the first cell that needs one."""
    with pytest.raises(CellExecutionError, match="this notebook needs a table bucket") as failed:
        executed(AT_AWS, quiet_stack)
    assert "Traceback" not in str(failed.value)


@pytest.mark.integration
def test_a_second_run_shows_the_same_change(quiet_stack: StackInfo) -> None:
    """What a schema has changed is read from table and registry, not from what happens to be new."""
    changes = []
    for _ in range(2):
        notebook = executed(SCHEMAS, quiet_stack)
        check_outputs(notebook)
        (shown,) = [
            cell for cell in notebook.cells if cell.source.startswith('topic = workbench.topic("visits")')
        ]
        changes.append(shown.outputs[0].data["text/plain"])
    assert "viewport" in changes[0]
    assert changes[0] == changes[1]
