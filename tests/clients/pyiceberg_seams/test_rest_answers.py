"""A REST catalog's response is parsed once while it is the same, and again when it differs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import SortOrder

from tabletopic_kernel.clients.catalog.pyiceberg_seams.rest_answers import CommitAnswer, LoadAnswer

LOCATION = "s3://lake/t/metadata/00001-x.metadata.json"


def made(**properties: str) -> TableMetadata:
    """Metadata of a table."""
    return new_table_metadata(Schema(), PartitionSpec(), SortOrder(), "s3://lake/t", properties)


def answer(metadata: TableMetadata, *, location: str = LOCATION, **more: Any) -> str:
    """The metadata as a server writes it."""
    dumped = json.loads(metadata.model_dump_json())
    return json.dumps({"metadata-location": location, "metadata": dumped, **more})


def test_the_look_after_a_commit_is_not_parsed() -> None:
    """It has the commit's metadata, and the keys that came with the look."""
    text = answer(made(owner="ann"))
    committed = CommitAnswer.model_validate_json(text)
    for config in ({}, {"s3.session-token": "first"}, {"s3.session-token": "second"}):
        looked = LoadAnswer.model_validate_json(answer(committed.metadata, config=config))
        assert looked.metadata is committed.metadata
        assert (looked.metadata_location, looked.config) == (LOCATION, config)
    assert LoadAnswer.model_validate_json(text).metadata is committed.metadata
    spaced = text[:-1] + ' , "storage-credentials": [{"prefix": "s3://", "config": {"a": "}"}}]}\n'
    looked = LoadAnswer.model_validate_json(spaced)
    assert looked.metadata is committed.metadata
    assert looked.storage_credentials[0].config == {"a": "}"}


@pytest.mark.parametrize(
    "lent",
    [
        {"config": {"s3.endpoint": "http://here"}},
        {"storage-credentials": [{"prefix": "s3://", "config": {"s3.session-token": "first"}}]},
    ],
)
def test_keys_that_a_commit_was_answered_with_are_those_of_the_look(lent: dict[str, Any]) -> None:
    """Some catalogs lend keys with both answers, and then the look's own count."""
    text = answer(made(owner="ann"), **lent)
    committed = CommitAnswer.model_validate_json(text)
    looked = LoadAnswer.model_validate_json(text)
    assert looked.metadata.model_dump_json() == committed.metadata.model_dump_json()
    assert looked.model_dump(by_alias=True, include={"config", "storage_credentials"}).items() >= lent.items()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"ann"', '"bob"'),
        lambda text: text.replace('"ann"', '"ann", "more": "1"'),
        lambda text: text.replace(": ", ":"),
        lambda text: text.replace("00001-x", "00002-x"),
        lambda text: f'{text[:-1]}, "metadata": {made(owner="bob").model_dump_json()}}}',
        lambda text: json.dumps(dict(reversed(json.loads(text).items()))),
        str.encode,
    ],
)  # fmt: skip
def test_what_differs_is_parsed(change: Any) -> None:
    """Somebody changed the table, even below the same location, or the server wrote it another way."""
    text = answer(made(owner="ann"))
    committed = CommitAnswer.model_validate_json(text)
    other = change(text)
    looked = LoadAnswer.model_validate_json(other)
    assert looked.metadata is not committed.metadata
    assert looked.metadata.properties == json.loads(other)["metadata"]["properties"]


def test_an_answer_that_is_none_raises_as_before() -> None:
    """PyIceberg's own errors."""
    CommitAnswer.model_validate_json(answer(made()))
    whole = answer(made(), config={})
    CommitAnswer.model_validate_json(whole.replace(', "config": {}', ""))
    for text in (whole[:-2], "<html>", '{"metadata-location": "' + LOCATION + '"}', ""):
        with pytest.raises(ValueError, match="TableResponse"):
            LoadAnswer.model_validate_json(text)
