"""The format from CONTRIBUTING.md: read from there, put into its folder, and registered by its line."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog

from tabletopic_kernel import formats
from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.rejection import NotRows, Refusal
from tabletopic_kernel.formats.wire import PREFIX_BYTES, WriterSchema, prefix
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.pipeline import whole_path
from tests.table.samples import FakeRegistry

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
SCHEMA = WriterSchema("name:string,amount:long,more:string", kind="CSV")
LINES = [b"a,1,x", b"b,-2,", ",007,ü".encode()]
ROWS = [("a", 1, "x"), ("b", -2, ""), ("", 7, "ü")]
BAD = {
    b"a,1": "csv_line",
    b"a,1,x,y": "csv_line",
    b"a,1,x\n": "csv_line",
    b"a,0x1,x": "csv_long",
    b"a,,x": "csv_long",
    b"a,1,\xff": "csv_utf8",
}


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package with one more folder, of one file, and one more line."""
    line, code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]
    ((kind, module),) = ast.literal_eval("{" + line.strip() + "}").items()
    assert len([line for line in code.splitlines() if line]) <= 60
    root = tmp_path_factory.mktemp("formats")
    folder, file = root.joinpath(*module.split(".")[2:-1]), f"{module.split('.')[-1]}.py"
    folder.mkdir()
    (folder / file).write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "__path__", [*formats.__path__, str(root)])
        patch.setitem(formats.FORMATS, kind, module)
        before = set(sys.modules)
        yield importlib.import_module(module)
        for name in set(sys.modules) - before:
            if name.startswith(f"{formats.__name__}.{folder.name}"):
                del sys.modules[name]
        vars(formats).pop(folder.name, None)


def framed(*lines: bytes) -> pa.Array:
    """Values with the prefix of schema 7."""
    return pa.array([prefix(7) + line for line in lines], pa.binary())


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The values of each row."""
    return [tuple(row.values()) for row in batch.to_pylist()]


@pytest.mark.parametrize("count", [3, 300])
def test_bad_lines_are_rejected_and_their_neighbours_stay(csv: Any, count: int) -> None:
    """In small and large groups: each bad line by its reason, all others as rows in their order."""
    decoder = make_decoder(7, SCHEMA)
    good = [LINES[at % 3] for at in range(count)]
    for bad, reason in BAD.items():
        batch, refused = decoder.decode(framed(*good, bad, *good))
        assert [(one.index, one.reason) for one in refused] == [(count, reason)]
        assert rows_of(batch) == [ROWS[at % 3] for at in range(count)] * 2


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from([*LINES, *BAD])
        | st.text(alphabet='a,1-\n\r"\x00\ufeff ', max_size=12).map(str.encode)
        | st.binary(max_size=12),
        max_size=20,
    )
)
def test_the_engines_agree(csv: Any, lines: list[bytes]) -> None:
    """Where the fast engine vouches for a line, the exact one gives the same row."""
    decoder: Any = make_decoder(7, SCHEMA)
    wanted: list[Any] = []
    for line in lines:
        try:
            wanted.append(tuple(decoder.exact.row(line).values()))
        except Refusal:
            wanted.append(None)
    try:
        batch, suspects = decoder.fast.rows(Bodies(framed(*lines), PREFIX_BYTES))
    except NotRows:
        pass
    else:
        for row, suspect, expected in zip(rows_of(batch), suspects, wanted, strict=True):
            assert suspect or row == expected
    found, refused = decoder.decode(framed(*lines * 10))
    assert rows_of(found) == [row for row in wanted if row is not None] * 10
    assert len(refused) == 10 * wanted.count(None)


def test_a_schema_that_is_none(csv: Any) -> None:
    """It is a bad schema, whatever is wrong with it."""
    for text in ("", "name", "name:int", "a:long,a:long"):
        with pytest.raises(BadSchemaError, match="CSV"):
            make_decoder(7, replace(SCHEMA, text=text))


class CsvRegistry(FakeRegistry):
    """Its schemas are of the new format."""

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """One of them."""
        return replace(super().by_id(schema_id), kind="CSV")


def test_a_topic_of_the_new_format_has_a_table(csv: Any, tmp_path: Path) -> None:
    """Nothing else in the package knows of the format: records become rows, bad ones dead letters."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    lake: Catalog = open_catalog({"name": "lake", **properties})
    topic = whole_path.Path(lake, TopicSettings(), CsvRegistry({7: SCHEMA.text}))
    values = framed(*LINES, *BAD).to_pylist()
    rows = topic.send(*values)
    assert [tuple(row.values()) for row in whole_path.without(rows, "@")] == ROWS
    assert list(topic.messages) == list(range(3, 9))
    assert topic.columns() == {"name": "string", "amount": "long", "more": "string"}
    lake.close()
