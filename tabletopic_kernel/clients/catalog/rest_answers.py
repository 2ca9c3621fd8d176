"""Answers of a REST catalog: metadata that an answer to a commit had is not parsed again at the next look.

A commit looks at the table, and is answered with the table as it is then; the next commit's look mostly
brings the same. That it is the same is no guess: the look's answer begins with every byte of the commit's,
so its metadata is that of the commit, whatever its location means to the catalog. Where a server writes it
another way, or somebody changed the table, the bytes differ, and it is parsed. What comes behind it, such
as lent keys, always is.

Metadata is known as long as somebody holds it, a table for example.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple
from weakref import ref

from pyiceberg.catalog.rest import TableResponse
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.metadata import TableMetadata

_LOCATION = re.compile(r'"metadata-location"\s*:\s*"([^"\\]*)"')
_HEAD = 4_096  # characters that may hold the location; servers put it first
_METADATA = ("metadata", "metadata-location")
_LENT = tuple(
    f'"{field.alias or name}"'
    for name, field in TableResponse.model_fields.items()
    if name not in ("metadata", "metadata_location")
)


class _Known(NamedTuple):
    metadata: ref[TableMetadata]
    characters: int  # of the answer to the commit without its last brace
    digest: bytes


_known: dict[str, _Known] = {}  # by location, as long as somebody holds the metadata
_parse_look, _parse_commit = TableResponse.model_validate_json, CommitTableResponse.model_validate_json


def _commit_answer(text: str | bytes | bytearray, **options: Any) -> CommitTableResponse:
    """As PyIceberg's; remembers what the answer begins with, unless it lends keys: a look needs its own."""
    answer = _parse_commit(text, **options)
    location = _location(text)
    lends = isinstance(text, str) and any(name in text for name in _LENT)
    if isinstance(text, str) and not lends and location and location == answer.metadata_location:
        members = text.rstrip().removesuffix("}")
        held = ref(answer.metadata, lambda gone: _forget(location, gone))
        _known[location] = _Known(held, len(members), _digest(members))
    return answer


def _look_answer(text: str | bytes | bytearray, **options: Any) -> TableResponse:
    """As PyIceberg's, without a look into metadata that a commit was answered with."""
    known = _known.get(_location(text) or "")
    metadata = known.metadata() if known else None
    if known and metadata is not None and isinstance(text, str):
        members, rest = text[: known.characters], text[known.characters :].lstrip()
        if rest[:1] in (",", "}") and _digest(members) == known.digest:
            try:
                more = json.loads("{" + rest.removeprefix(","))
            except ValueError:  # PyIceberg's own error tells of it
                return _parse_look(text, **options)
            if not any(name in more for name in _METADATA):  # else JSON's last one would count
                place = _location(text)
                return TableResponse.model_validate(
                    {**more, "metadata-location": place, "metadata": metadata}
                )
    return _parse_look(text, **options)


def _location(text: str | bytes | bytearray) -> str | None:
    found = _LOCATION.search(text[:_HEAD]) if isinstance(text, str) else None
    return found[1] if found else None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode()).digest()


def _forget(location: str, gone: ref[TableMetadata]) -> None:
    known = _known.get(location)
    if known is not None and known.metadata is gone:
        _known.pop(location, None)


# PyIceberg's REST catalog parses both answers by these alone.
TableResponse.model_validate_json = staticmethod(_look_answer)  # type: ignore[method-assign,assignment]
CommitTableResponse.model_validate_json = staticmethod(_commit_answer)  # type: ignore[method-assign,assignment]
