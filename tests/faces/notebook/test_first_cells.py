"""The first cells of README, the JupyterLab page and the kernel's greeting, as a newcomer does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import LocalStack
from tests.faces.notebook.kernels import KERNELSPECS, ROOT, TableTopicKernel


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def run(kernel: TableTopicKernel, cells: Sequence[str]) -> None:
    """No cell fails or warns, and the last one shows a chart of something."""
    assert cells
    for cell in cells:
        outcome = kernel.run(cell)
        assert (outcome.error, outcome.stderr) == ("", ""), (cell, outcome)
    assert "<svg" in outcome.html
    assert re.search(r": [1-9][\d,]* events", outcome.value), outcome.value


@pytest.mark.integration
def test_the_first_cells_run_in_an_empty_folder(tmp_path: Path, class_archive: None) -> None:
    """In the product's kernel, and in plain IPython's from another JupyterLab's environment."""
    folder = tmp_path / "empty"
    folder.mkdir()
    kernels = [TableTopicKernel(folder, KERNELSPECS, {})]
    try:
        run(kernels[0], blocks("README.md", "python"))

        kernels[0].client.kernel_info()
        replies = iter(lambda: kernels[0].client.get_shell_msg(timeout=60)["content"], None)
        banner = next(reply["banner"] for reply in replies if "banner" in reply)  # behind those of the cells
        run(kernels[0], [textwrap.dedent("".join(re.findall(r"^    .*\n", banner, re.MULTILINE)))])

        # As another JupyterLab starts it: nothing of this environment is on the path.
        (install,) = (
            block
            for block in blocks("docs/tutorial/jupyterlab.md", "console")
            if "ipykernel install" in block
        )
        program, *words = shlex.split(install.removeprefix("$ "))
        assert program == "python"
        data = {**os.environ, "JUPYTER_DATA_DIR": str(tmp_path / "elsewhere")}
        subprocess.run([sys.executable, *words], env=data, check=True, capture_output=True)
        specs = tmp_path / "elsewhere" / "kernels"
        kernels.append(TableTopicKernel(folder, specs, {"PATH": os.defpath}))
        run(kernels[1], blocks("docs/tutorial/jupyterlab.md", "python"))
        assert kernels[1].run("workbench.status()[0].topic").value == "'clicks'"
    finally:
        for kernel in reversed(kernels):
            kernel.shut_down()
        LocalStack(folder / ".tabletopic").down()
