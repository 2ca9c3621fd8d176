"""Responses of a REST catalog: metadata that a commit returned is not parsed again in the next load.

A commit loads the table, and its response has the new state; the next commit usually loads that state. Why it
is safe not to parse it: the load's response begins with every byte of the commit's, so its metadata is the
commit's, whatever its location means to the catalog. If a server writes it differently, or somebody changed
the table, the bytes differ, and it is parsed. The rest, such as lent keys, is always parsed.

Metadata is kept only while somebody holds it, for example a table. To be needless, PyIceberg's REST catalog
would have to send the location that it knows, and the server to answer that nothing has changed.
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

from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import own_metadata

_LOCATION = re.compile(r'"metadata-location"\s*:\s*"([^"\\]*)"')
_HEAD = 4_096  # characters to search for the location; servers put it first
_METADATA = ("metadata", "metadata-location")
_LENT = tuple(
    f'"{field.alias or name}"'
    for name, field in TableResponse.model_fields.items()
    if name not in ("metadata", "metadata_location")
)


class _Known(NamedTuple):
    metadata: ref[TableMetadata]
    characters: int  # of the commit's response without its last brace
    digest: bytes


_known: dict[str, _Known] = {}  # by location, while somebody holds the metadata


class CommitAnswer(CommitTableResponse):
    """A commit's response that is remembered, unless it lends keys: a load needs its own."""

    @classmethod
    def model_validate_json(cls, text: Any, **options: Any) -> Any:  # type: ignore[override]
        answer = _own(CommitTableResponse.model_validate_json(text, **options))
        location = _location(text)
        lends = isinstance(text, str) and any(name in text for name in _LENT)
        if isinstance(text, str) and not lends and location and location == answer.metadata_location:
            members = text.rstrip().removesuffix("}")
            metadata = ref(answer.metadata, lambda dead: _forget(location, dead))
            _known[location] = _Known(metadata, len(members), _digest(members))
        return answer


class LoadAnswer(TableResponse):
    """A load's response whose metadata may be that of a commit's."""

    @classmethod
    def model_validate_json(cls, text: Any, **options: Any) -> Any:  # type: ignore[override]
        commit = _known.get(place := _location(text) or "")
        if commit is not None and (others := _others(commit, text)) is not None:
            return TableResponse.model_validate({**others, "metadata-location": place})
        return TableResponse.model_validate_json(text, **options)


def _others(commit: _Known, text: str) -> dict[str, Any] | None:
    """A load's members with the commit's metadata, if it begins with that response; None: parse all."""
    metadata, ending = commit.metadata(), text[commit.characters :].lstrip()
    if (
        metadata is None
        or ending[:1] not in (",", "}")
        or _digest(text[: commit.characters]) != commit.digest
    ):
        return None
    try:
        others: dict[str, Any] = json.loads("{" + ending.removeprefix(","))
    except ValueError:  # PyIceberg raises its own error for it
        return None
    # In JSON, the last of duplicates counts.
    return None if any(name in others for name in _METADATA) else {**others, "metadata": metadata}


def _own(answer: CommitTableResponse) -> CommitTableResponse:
    return answer.model_copy(update={"metadata": own_metadata(answer.metadata)})


def _location(text: str | bytes | bytearray) -> str | None:
    match = _LOCATION.search(text[:_HEAD]) if isinstance(text, str) else None
    return match[1] if match else None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode()).digest()


def _forget(location: str, dead: ref[TableMetadata]) -> None:
    commit = _known.get(location)
    if commit is not None and commit.metadata is dead:
        _known.pop(location, None)
