"""The tools of assistants: what they are, what they answer, and the process that bounds them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tabletopic_kernel.faces.mcp.child import Child
from tabletopic_kernel.faces.mcp.server import server_of
from tabletopic_kernel.faces.mcp.tools import TOOLS, Tool
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.redact import forget, learn
from tabletopic_kernel.workbench.config import load_settings
from tests.faces.fake_workbench import FakeWorkbench
from tests.query.conftest import small_catalog

_CHANGES = ("accept", "accept_as", "schema_type", "follow", "output", "drop")


class Here(Child):
    """Runs tools in this process."""

    def __init__(self, workbench: Any) -> None:
        self._workbench = workbench

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """See ``Child``."""
        return TOOLS[name].answer(self._workbench, arguments)


@pytest.fixture
def workbench(tmp_path: Path) -> FakeWorkbench:
    """It answers from memory."""
    return FakeWorkbench(tmp_path)


def test_an_assistant_lists_and_calls_tools(workbench: FakeWorkbench) -> None:
    """By the protocol, tools say that they only read; errors are answers with the words of the product."""

    async def talk() -> None:
        async with Client(server_of(Here(workbench))) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["topics", "status", "plan", "schema", "peek", "query"]
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
            assert "decoded" in str(tools["peek"].description)
            assert "Example:" not in str(tools["peek"].description)
            assert tools["query"].input_schema["properties"]["limit"]["maximum"] == 1000
            answer = await client.call_tool("status", {"topic": "clicks"})
            assert not answer.is_error
            wrong = await client.call_tool("status", {"topic": "nosuch"})
            assert wrong.is_error
            assert "nosuch" in str(wrong.content)

    anyio.run(talk)


def test_no_argument_changes_anything(workbench: FakeWorkbench) -> None:
    """Arguments that write, follow or name a file are not offered, and refused when given."""
    for tool in TOOLS.values():
        assert not {*_CHANGES} & {*tool.model.model_fields}
    for name, given in (
        ("schema", {"accept": 1}),
        ("plan", {"schema": "/etc/passwd"}),
        ("peek", {"follow": 1}),
    ):
        with pytest.raises(UsageError, match="not permitted"):
            TOOLS[name].answer(workbench, {"topic": "clicks", **given})


def test_answers_mask_secrets(workbench: FakeWorkbench) -> None:
    """A secret of the settings is hidden wherever an answer holds it; the answer stays JSON."""
    learn({"sasl.password": 'hunter2"hunter2'})
    try:
        shown = Tool("status", lambda _: {"error": 'no: hunter2"hunter2', "rows": 1}, ())
        assert json.loads(shown.answer(workbench, {})) == {"error": "no: ***", "rows": 1}
    finally:
        forget()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Settings of a small catalog, without a broker."""
    small_catalog(tmp_path)
    file = tmp_path / "tabletopic.toml"
    file.write_text(
        f"""state_dir = "{tmp_path}"
[catalog]
name = "lake"
type = "sql"
uri = "sqlite:///{tmp_path}/catalog.db"
warehouse = "file://{tmp_path}/warehouse"
[kafka]
"bootstrap.servers" = "127.0.0.1:1"
[registry]
url = "http://127.0.0.1:1"
"""
    )
    return file


@pytest.mark.integration
def test_the_program_serves_an_assistant(file: Path) -> None:
    """`tabletopic mcp` answers on standard output, with at most so many rows."""
    program = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "--config", str(file), "mcp"]

    async def talk() -> None:
        server = stdio_client(StdioServerParameters(command=program[0], args=program[1:]))
        async with Client(server) as client:
            answer = await client.call_tool("query", {"sql": "FROM clicks ORDER BY id", "limit": 2})
            found = json.loads(answer.content[0].text)  # type: ignore[union-attr]
            assert found["truncated"] is True
            assert found["rows"] == [{"id": 1, "url": "/"}, {"id": 2, "url": "/a"}]

    anyio.run(talk)


@pytest.mark.integration
def test_a_call_ends_whatever_it_does(file: Path) -> None:
    """Too much memory or time ends a call with advice, and the next one is answered."""
    settings = load_settings(environ={"TABLETOPIC_CONFIG": str(file)}).settings
    child = Child(settings)
    try:
        with pytest.raises(TableTopicError, match=r"ask for less|Out of Memory"):
            child.call("query", {"sql": "SELECT list_sum(range(300000000))"})
        assert json.loads(child.call("query", {"sql": "SELECT 1 AS a"}))["rows"] == [{"a": 1}]
    finally:
        child.close()
    quick = Child(settings, limit_s=0.001)
    try:
        with pytest.raises(UsageError, match="took more than"):
            quick.call("query", {"sql": "SELECT 1"})
    finally:
        quick.close()
