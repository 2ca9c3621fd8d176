"""Values in the frame of AWS Glue's serializers, mixed with others."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.formats import glue_frames
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.model.errors import TooMuchAtOnceError
from tabletopic_kernel.pipeline.split_by_schema import split

GUID = uuid.UUID("6da336d8-f1d3-0f98-4c47-d03ee8a14a10")
_OTHER = uuid.UUID(int=1)
_BINARY = pa.binary()


def framed(body: bytes, guid: uuid.UUID | str = GUID, *, packed: bool = False) -> bytes:
    """A value as AWS's serializers write it."""
    return (
        bytes((3, 5 if packed else 0))
        + uuid.UUID(str(guid)).bytes
        + (zlib.compress(body) if packed else body)
    )


def _split(values: list[bytes | None], kind: pa.DataType = _BINARY) -> tuple[dict[Any, Any], dict[int, str]]:
    """Bodies by schema and position; messages of rejected ones by position."""
    groups, refused = split(pa.array(values, kind))
    rows: dict[Any, dict[int, bytes | None]] = {}
    for group in groups:
        bodies = dict(zip(group.positions.tolist(), group.values.to_pylist(), strict=True))
        rows.setdefault(group.schema_id, {}).update(bodies)
    return rows, {at: one.message(n) for one in refused for n, at in enumerate(one.positions.tolist())}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_each_value_is_in_the_group_of_its_schema(kind: pa.DataType) -> None:
    """Plain and compressed bodies of one schema, another schema, Confluent's frame, and nothing at all."""
    values = [
        framed(b"a"),
        prefix(7) + b"b",
        None,
        framed(b"c", packed=True),
        framed(b"", _OTHER),
        b"\x03\x00",
    ]
    rows, refused = _split(values, kind)
    assert rows == {
        str(GUID): {0: prefix(0) + b"a", 3: prefix(0) + b"c"},
        str(_OTHER): {4: prefix(0)},
        7: {1: prefix(7) + b"b"},
        None: {2: None},
    }
    assert list(refused) == [5]


def test_a_damaged_body_is_refused_alone() -> None:
    """What does not decompress, ends early, or would fill the memory costs its record and no other."""
    bomb = framed(bytes(65 * 1024**2), packed=True)
    values = [
        framed(b"good", packed=True),
        framed(b"x", packed=True)[:-3],
        bomb,
        framed(b"y")[:1] + b"\x05" * 30,
    ]
    rows, refused = _split(values)
    assert rows == {str(GUID): {0: prefix(0) + b"good"}}
    assert sorted(refused) == [1, 2, 3]
    assert "64 MiB" in refused[2]


def test_values_that_take_too_much_together_are_refused_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads them takes fewer at a time; one alone may be as large as any value."""
    monkeypatch.setattr(glue_frames, "_MOST_AT_ONCE", 100)
    large = framed(bytes(150), packed=True)
    assert _split([large, framed(bytes(5_000))])[0] == {
        str(GUID): {0: prefix(0) + bytes(150), 1: prefix(0) + bytes(5_000)}
    }
    with pytest.raises(TooMuchAtOnceError, match="2 compressed values"):
        _split([framed(b"small", packed=True), large])


def test_protobuf_is_refused_with_the_reason() -> None:
    """Its message indexes are written in another way there; a guess would make wrong rows."""
    groups, _ = split(pa.array([framed(b"\x00")]))
    assert "Protobuf" in (groups[0].header_fault("PROTOBUF") or "")
    assert groups[0].header_fault("AVRO") is None


@given(
    st.lists(
        st.one_of(st.none(), st.binary(max_size=24), st.binary(max_size=30).map(lambda b: b"\x03\x00" + b))
    )
)
def test_every_value_has_one_place(values: list[bytes | None]) -> None:
    """Whatever the bytes: each position once, in a group or among the refused."""
    rows, refused = _split(values)
    places = [at for group in rows.values() for at in group] + list(refused)
    assert sorted(places) == list(range(len(values)))
