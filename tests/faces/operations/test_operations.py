"""The table of operations: each is in the faces it names, and every face renders a result in the same way."""

from __future__ import annotations

import dataclasses
import inspect
import io
from collections.abc import Callable
from typing import Any

import pytest
import typer.main
from rich.console import Console

from tabletopic_kernel.faces.cli.app import app
from tabletopic_kernel.faces.cli.commands import topics as terminal
from tabletopic_kernel.faces.jupyter_server.rest import ROUTES
from tabletopic_kernel.faces.notebook.arguments import make_parser, parse_word
from tabletopic_kernel.faces.notebook.topic_magic import TopicMagics
from tabletopic_kernel.faces.operations import BY_NAME, OPERATIONS, Operation, rest_bodies
from tabletopic_kernel.faces.operations.operation import CLI, MAGIC, REST, Faces
from tabletopic_kernel.render.topics import status_facts
from tabletopic_kernel.workbench.hosts import HostStatus
from tabletopic_kernel.workbench.status import TopicStatus
from tests.faces.notebook.magic_fakes import status

NAMES = [operation.name for operation in OPERATIONS]


def test_names_are_unique() -> None:
    """One name is one operation, and no alias hides a word."""
    words = [*NAMES, *(alias for one in OPERATIONS for alias in one.aliases)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("face", list(Faces))
def test_arguments_are_unique_in_a_face(name: str, face: Faces) -> None:
    """The same name may be there for several faces, but once in each; so with the spellings."""
    arguments = BY_NAME[name].arguments_of(face)
    spelled = [spelling for one in arguments for spelling in one.spellings]
    assert len({one.name for one in arguments}) == len(arguments)
    assert len(set(spelled)) == len(spelled)


def test_every_face_has_its_operations() -> None:
    """Commands, words of %topic and routes are those of the table, no more and no less."""
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert commands == {one.name for one in OPERATIONS if one.panel}
    parser = make_parser()
    for one in OPERATIONS:
        if one.is_word:
            needed = " x" if any(a.required for a in one.arguments_of(MAGIC)) else ""
            parsed = parse_word(parser, f"{one.name}{needed}")
            assert parsed is not None
            assert parsed[0] is one
    verbs = sum(verb in vars(handler) for _, handler in ROUTES for verb in ("get", "put", "post", "delete"))
    assert verbs == sum(one.route is not None for one in OPERATIONS)


# Those whose faces keep arguments for what they do themselves.
_OWN = {"status", "events", "enable", "replay", "compact", "expire"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in _OWN])
def test_what_runs_takes_the_arguments(name: str) -> None:
    """The function of an operation can be called with what each face reads for it."""
    operation = BY_NAME[name]
    offered = {CLI: operation.panel, MAGIC: operation.is_word, REST: operation.route}
    for face in [face for face in Faces if operation.run is not None and offered[face]]:
        taken = {one.name for one in operation.arguments_of(face)} - {"as_json"}
        settings = {"settings"} if operation.settings else set()
        assert operation.run is not None
        inspect.signature(operation.run).bind(None, **dict.fromkeys(taken | settings))


# --- one record in all faces ------------------------------------------------------------------------------


def every_field() -> TopicStatus:
    """A status in which each field has a value that can be found in a text."""
    return status(
        error="wrong",
        rows=700_001,
        files=12_001,
        staged_rows=3_003,
        epoch=777,
        commits=5_005,
        commit_interval_ms=9_000,
        lag_records=1_234,
        passed_over={"tombstone": 8_008},
        lost={0: 6_006},
        dead_letters=4_004,
    )


def in_a_terminal(one: TopicStatus) -> str:
    """The output of `status TOPIC`."""
    out = Console(file=io.StringIO(), width=200)
    out.print(terminal.detail(one))
    return str(out.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.parametrize("render", [in_a_terminal, lambda one: repr(status_facts(one))])
def test_a_topic_has_the_same_fields_in_every_face(render: Callable[[TopicStatus], str]) -> None:
    """What `status TOPIC --json` has, the command line, the magic and REST have as well."""
    one = every_field()
    text = render(one)
    shown = {
        "topic": "clicks",
        "table": "default.clicks",
        "state": "running",
        "error": "wrong",
        "lag_records": "1,234",
        "lag_seconds": "2.5 s",
        "next_offsets": "100",
        "end_offsets": "1,334",
        "schema_versions": "clicks-value v3",
        "snapshot_id": "42",
        "commits": "5,005",
        "rows_per_second": "560",
        "rows": "700,001",
        "files": "12,001",
        "staged_rows": "3,003",
        "epoch": "777",
        "last_commit_ms": "2023-11-14",
        "commit_interval_ms": "9 s",
        "host": "here-1",
        "refused": "avro_trailing_bytes",
        "dead_letters": "4,004",
        "dead_letter_table": "default.clicks__dead_letters",
        "passed_over": "8,008",
        "lost": "6,006",
    }
    missing = [name for name, part in shown.items() if part not in text]
    assert missing == []
    late = render(status(delay="behind", delay_reason="it reads"))
    assert "behind" in late
    assert "it reads" in late
    assert set(one.to_json()) == {*shown, "delay", "delay_reason"}
    assert set(rest_bodies.Topic.model_fields) - {"run", "settings"} <= set(one.to_json())


def test_a_host_has_the_same_fields_in_every_face() -> None:
    """REST's type is the record that the command line prints, and a notebook shows each field."""
    assert set(rest_bodies.Host.model_fields) == {field.name for field in dataclasses.fields(HostStatus)}
    render = BY_NAME["hosts"].render
    assert render is not None
    known = HostStatus("vm-1-ab", ["clicks", "orders"], 1_700_000_000_000, "1.2.3", 3 * 2**30)
    text = repr(render([known, HostStatus("old-1", [])], {}))
    for part in ("vm-1-ab", "clicks, orders", "2023-11-14", "1.2.3", "3.0 GiB", "old-1", "unknown"):
        assert part in text


def test_an_operation_is_one_entry() -> None:
    """`hosts` is a command, a word and a route, and no face has code of its own for it."""
    found: Operation = BY_NAME["hosts"]
    assert found.panel
    assert found.is_word
    assert found.route is not None
    assert not hasattr(TopicMagics, "_hosts")
    parsed: Any = parse_word(make_parser(), "hosts")
    assert parsed == (found, {})
