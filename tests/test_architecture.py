"""The documents match the code, and their links lead somewhere."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from docs import generate
from tabletopic_kernel.faces.cli import call
from tabletopic_kernel.faces.cli.commands import info
from tabletopic_kernel.faces.jupyter_server.dashboard import Dashboard
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.ledger import Ledger, Outliers
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.sources import PROGRAM_VARIABLES
from tabletopic_kernel.workbench.status import NO_HOST, TopicStatus
from tabletopic_kernel.workbench.workbench import Servers

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "adr/*.md", "docs/**/*.md", "dashboards/*.md", "datasets/*/*.md")
    for path in ROOT.glob(pattern)
)
_LINK = re.compile(r"\[[^\]]*\]\((?!\w+://)([^)#\s]*)(?:#([^)\s]+))?\)")

pytestmark = pytest.mark.skipif(not (ROOT / "ARCHITECTURE.md").exists(), reason="not a checkout")


@cache
def text(name: str) -> str:
    """A document."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text(name), flags=re.DOTALL | re.MULTILINE)


def section(name: str, heading: str) -> str:
    """The text below a heading, up to the next one of its level or above."""
    level = heading.split(maxsplit=1)[0]
    below = text(name).partition(f"\n{heading}\n")[2]
    return re.split(rf"^#{{1,{len(level)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(table: str) -> list[str]:
    """The code in the first column of each row."""
    rows = re.findall(r"^\| ([^|]*) \|", table, flags=re.MULTILINE)
    return [found for row in rows for found in re.findall(r"`([^`]+)`", row)]


# --- links ------------------------------------------------------------------------------------------------


@cache
def anchors(path: Path) -> set[str]:
    """The targets of links into a document: its headings as named by the usual renderers."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files() -> None:
    """Each relative link is a file or folder of the checkout, and its anchor a heading there."""
    for name in DOCUMENTS:
        for target, anchor in _LINK.findall(prose(name)):
            path = (ROOT / name).parent / target if target else ROOT / name
            assert path.exists(), f"{name}: {target}"
            assert not anchor or anchor in anchors(path), f"{name}: {target}#{anchor}"


def test_tests_that_are_named_exist() -> None:
    """A test that proves something is in the file that the link leads to."""
    for name in DOCUMENTS:
        for function, target in re.findall(r"\[`(test_\w+)`\]\(([^)]+\.py)\)", text(name)):
            tests = ((ROOT / name).parent / target).read_text(encoding="utf-8")
            assert f"def {function}(" in tests, f"{name}: {function}"


def test_every_invariant_is_explained() -> None:
    """I1 to I10, and each number that code or tests cite, has a paragraph."""
    explained = set(re.findall(r"^\*\*(I\d+) ", text("docs/evidence/invariants.md"), flags=re.MULTILINE))
    files = [*ROOT.glob("tabletopic_kernel/**/*.py"), *ROOT.glob("tests/**/*.py")]
    cited = {one for path in files for one in re.findall(r"[(, ](I\d+)[,)]", path.read_text("utf-8"))}
    assert explained == {f"I{number}" for number in range(1, 11)}
    assert cited <= explained


# --- in step with the code --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", generate.documents(), ids=lambda path: path.name)
def test_generated_parts_are_in_step(path: Path) -> None:
    """State machine, events, settings and commands are as in the code: else run `python -m docs.generate`."""
    found = path.read_text(encoding="utf-8")
    assert found == generate.written(found)


@pytest.mark.parametrize("path", generate.FILES, ids=lambda path: path.name)
def test_generated_files_are_in_step(path: Path) -> None:
    """REST's description, alert rules, Grafana's dashboard: else run `python -m docs.generate`."""
    assert path.read_text(encoding="utf-8") == generate.FILES[path]()


def test_every_generated_part_has_its_place() -> None:
    """No part is made for nobody."""
    wanted = "".join(path.read_text(encoding="utf-8") for path in generate.documents())
    assert [name for name in generate.PARTS if f"<!-- generated: {name} -->" not in wanted] == []


def test_the_ledger_s_keys() -> None:
    """The page of the ledger lists what a snapshot's summary holds."""
    more: dict[str, Any] = {
        "newest_ms": {0: 1},
        "refused": {"bad": 1},
        "passed_over": {"x": 1},
        "expectation_failures": {"positive": 1},
        "changes": {"insert": 1},
        "lost": {0: 1},
    }
    more |= {"last_records": {0: (0, "print")}, "truncated": {0: [(0, 1, 1)]}}
    more |= {"outliers": {0: Outliers(1, 0, 1)}, "deleted_keys": ("epoch-00000001/a-keys.parquet",)}
    ledger = Ledger("t", "c", "i", {0: 1}, 1, "id", replay_id="r", **more)  # type: ignore[arg-type]
    assert set(first_cells(text("docs/reference/ledger.md"))) == set(ledger.to_summary())


def test_the_contracts_of_programs() -> None:
    """The reference has each field of `status --json` and `info --json`, and the exit codes."""
    found = section("docs/reference/json-and-rest.md", "## `tabletopic status [TOPIC] --json`")
    assert set(first_cells(found)) == {field.name for field in dataclasses.fields(TopicStatus)}
    assert {*State, NO_HOST} <= set(re.findall(r"`(\w+)`", text("docs/reference/states.md")))
    some = Servers({}, {}, {"name": "lake"}, Path())
    told = info.addresses(
        SimpleNamespace(loaded=load_settings(environ={}), workbench=SimpleNamespace(servers=some)), []
    )  # type: ignore[arg-type]
    assert set(first_cells(section("docs/reference/json-and-rest.md", "## `tabletopic info --json`"))) == set(
        told
    )
    codes = re.findall(r"^\| (\d+) \|", section("docs/reference/commands.md", "## Exit codes"), re.M)
    assert [int(code) for code in codes] == [
        0, call.FAILED, call.WRONG_USE, call.INTERRUPTED, call.BROKEN_PIPE,
    ]  # fmt: skip


def test_settings_of_the_documents_are_known() -> None:
    """docs/reference/settings.md lists those that are none, and its examples of variables are known."""
    assert (
        set(first_cells(section("docs/reference/settings.md", "## The program's own variables")))
        == PROGRAM_VARIABLES
    )
    found = set(re.findall(r"`(TABLETOPIC_[A-Z_]+__[A-Z_]+)`", text("docs/reference/settings.md")))
    assert len(found) > 3
    # Those with words of their own beside those that take any text.
    given = dict.fromkeys(found, "5s") | dict.fromkeys((one for one in found if "__SHARED_" in one), "true")
    limits = {"TABLETOPIC_LIVE__RECORDS": "5", "TABLETOPIC_LIVE__BYTES": "5MB"}
    load_settings(environ={**given, **limits, "TABLETOPIC_LOCAL__LOGIN": "on"}, cwd=ROOT / "docs")


def test_no_program_of_ours_imports_from_the_folder_where_it_starts(tmp_path: Path) -> None:
    """A cloned folder may have a ``panel.py``, and the Jupyter server starts the dashboard there."""
    unsafe = re.compile(r'sys\.executable,\s*"-m"')
    paths = list((ROOT / "tabletopic_kernel").rglob("*.py"))
    assert [path.name for path in paths if unsafe.search(path.read_text(encoding="utf-8"))] == []
    (tmp_path / "tabletopic_kernel.py").write_text("raise SystemExit('imported')")
    command = Dashboard(cast("Any", None), "/").command
    subprocess.run([*command, "--help"], check=True, cwd=tmp_path, capture_output=True)


def test_one_door_for_deleting_files() -> None:
    """Data files go by ``table/sweep.py`` alone, which says why nobody needs them."""
    package = ROOT / "tabletopic_kernel"
    named = {
        path.relative_to(package).as_posix(): set(
            re.findall(r"(?<![.\w`])delete_files(?=[(,])|\bio\.delete\(", found)
        )
        for path in package.rglob("*.py")
        if (found := path.read_text(encoding="utf-8"))
    }
    assert {path: found for path, found in named.items() if found} == {
        "clients/storage/storage.py": {"delete_files", "io.delete("},
        "table/sweep.py": {"delete_files"},
        "clients/spark/cluster_probe.py": {"io.delete("},  # its own files, as the next
        "clients/storage/probe.py": {"io.delete("},
        "pipeline/write.py": {"io.delete("},  # half a file, which no other process knows
    }


# --- examples ---------------------------------------------------------------------------------------------


def blocks(name: str, language: str) -> list[str]:
    """The blocks of code of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text(name), flags=re.DOTALL | re.MULTILINE)


@cache
def notebook() -> dict[str, Any]:
    """The quickstart."""
    found: dict[str, Any] = json.loads(
        (ROOT / "notebooks" / "01_quickstart.ipynb").read_text(encoding="utf-8")
    )
    return found


def test_the_quickstart_is_the_readme_s_code() -> None:
    """Each line in the same order, in short cells without outputs of another day and machine."""
    cells = [cell for cell in notebook()["cells"] if cell["cell_type"] == "code"]
    lines = [line for cell in cells for line in "".join(cell["source"]).splitlines()]
    told = [
        line.partition("  #")[0] for block in blocks("README.md", "python") for line in block.splitlines()
    ]
    at = -1
    for line in filter(None, told):
        at = lines.index(line, at + 1)
    assert all(len(list(filter(None, block.splitlines()))) <= 8 for block in blocks("README.md", "python"))
    for cell in notebook()["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


# --- sizes ------------------------------------------------------------------------------------------------


# Modules of more than 300 lines (ADR 0028); lower it with their number.
LONG_MODULES = 6


def test_few_modules_and_classes_are_large() -> None:
    """Above 300 lines, or 15 methods, they split; no more of them come."""
    paths = list((ROOT / "tabletopic_kernel").rglob("*.py"))
    long = sorted(path.name for path in paths if path.read_bytes().count(b"\n") > 300)
    assert len(long) <= LONG_MODULES, long
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    large = sorted(node.name for node in nodes if isinstance(node, ast.ClassDef) and _methods(node) > 15)
    assert len(large) <= LARGE_CLASSES, large


# Classes with more than 15 methods; lower it with their number.
LARGE_CLASSES = 4


def _methods(node: ast.ClassDef) -> int:
    return sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)


def test_a_long_function_says_why() -> None:
    """A function of more than 40 lines has its reason in a comment."""
    for path in (ROOT / "tabletopic_kernel").rglob("*.py"):
        lines = path.read_text("utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                body := _without_docstring(node)
            ):
                assert node.end_lineno is not None
                is_short = node.end_lineno - body[0].lineno < 40
                above = "\n".join(lines[node.lineno - 1 : body[0].lineno])
                assert is_short or "Longer than other functions" in above, (path, node.name)


_BUILT = {"labextension", "__pycache__"}


def test_ls_explains_itself() -> None:
    """A level of the package has twelve names at most."""
    package = ROOT / "tabletopic_kernel"
    folders = [package, *(one.parent for one in package.rglob("__init__.py") if one.parent != package)]
    for folder in folders:
        # Of a folder that was moved its bytecode may be left.
        there = (one for one in folder.iterdir() if one.is_file() or any(one.rglob("*.py")))
        names = {one.name for one in there if not one.name.startswith("_")} - _BUILT - {"py.typed"}
        assert len(names) <= 12, (folder.name, sorted(names))


def _without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node) else node.body
