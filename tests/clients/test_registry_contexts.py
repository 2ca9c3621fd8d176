"""Contexts, rules and encryption of Confluent's registry; the embedded one has none of these."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from tabletopic_kernel.clients.registry.registry import Registry, UnknownSchemaError, find_schema
from tabletopic_kernel.formats.decoder import EncryptedError, make_decoder
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.history import encrypted_fields
from tabletopic_kernel.table.schemas.registered import value_writer, why_foreign
from tests.servers.http_server import Handler, HttpServer

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ssn", "type": "string", "confluent:tags": ["PII"]},
        {"name": "card", "type": "string"},
    ],
}
TEAM, SUBJECT = ":.team-a:", "orders-value"


def _rule(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "TRANSFORM", "mode": "WRITEREAD", "type": kind, **more}


FIELDS = {
    "metadata": {"tags": {"Order.card": ["PCI"]}},
    "ruleSet": {
        "domainRules": [
            _rule("hide", "ENCRYPT", tags=["PII"]),
            _rule("pay", "ENCRYPT", tags=["PCI"]),
            _rule("old", "ENCRYPT_PAYLOAD", disabled=True),
            _rule("check", "CEL", expr="true"),
        ]
    },
}
WHOLE = {"ruleSet": {"encodingRules": [_rule("seal", "ENCRYPT_PAYLOAD")]}}


class _Confluent(Handler):
    """A context in the path becomes part of each subject in the answer, as in Confluent's filter."""

    def do_GET(self) -> None:  # noqa: N802 - the standard library's name
        """Id 1 is another schema in each context; 2 has rules for fields, 3 one for whole values."""
        path, _, query = unquote(self.path).partition("?")
        team = path.startswith("/contexts/team-a/") or f"subject={TEAM}" in query or TEAM in path
        prefix = TEAM if team else ""
        order = {"schema": json.dumps(ORDER)}
        place = {"subject": f"{prefix}{SUBJECT}", "version": 4}
        answers = {
            "/schemas/ids/1": order if team else {"schema": '"long"'}, "/schemas/ids/1/versions": [place],
            "/schemas/ids/2": {**order, **FIELDS}, "/schemas/ids/2/versions": [place],
            "/schemas/ids/3": {**order, **WHOLE}, "/schemas/ids/3/versions": [place],
            f"/subjects/{SUBJECT}/versions/latest": {**place, **order, "id": 1},
            f"/subjects/{TEAM}{SUBJECT}/versions/latest": {**place, **order, "id": 1},
        }  # fmt: skip
        answer = answers.get(path.removeprefix("/contexts/team-a"))
        body = json.dumps(answer or {"error_code": 40403, "message": "none"})
        self.give(200 if answer else 404, body.encode())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a registry with these answers."""
    with HttpServer(_Confluent) as server:
        yield server.url


def test_a_context_in_the_url(url: str) -> None:
    """Its subjects are the topic's, although the registry spells them with the context."""
    registry = Registry({"url": f"{url}/contexts/team-a"})
    newest, schema = registry.latest(SUBJECT), find_schema(registry, 1, SUBJECT)
    assert newest.text == schema.text == json.dumps(ORDER)
    assert (schema.subject, schema.version) == (SUBJECT, 4)
    assert why_foreign(registry, schema, "orders", TopicSettings()) is None


def test_a_context_in_the_subject(url: str) -> None:
    """Ids are looked up in the context of ``value_subject``: they count in each context by itself."""
    registry, subject = Registry({"url": url}), f"{TEAM}{SUBJECT}"
    schema = find_schema(registry, 1, subject)
    assert (schema.text, schema.subject, schema.version) == (json.dumps(ORDER), subject, 4)
    assert registry.text_of(1, subject).fingerprint == schema.fingerprint != registry.text_of(1).fingerprint
    assert why_foreign(registry, schema, "other", TopicSettings(value_subject=subject)) is None
    assert find_schema(registry, 1, SUBJECT).text == '"long"'
    with pytest.raises(UnknownSchemaError):
        registry.by_id(9, subject)


def test_what_rules_encrypt_is_named(url: str) -> None:
    """Fields, by tags in the text and in the metadata, stay as sent; whole values have no decoder."""
    registry = Registry({"url": url})
    schema = registry.by_id(2)
    assert encrypted_fields(schema) == ["card: encrypted by rule pay", "ssn: encrypted by rule hide"]
    assert make_decoder(2, value_writer(schema, TopicSettings())).iceberg_schema.column_names == [
        "id",
        "ssn",
        "card",
    ]
    assert encrypted_fields(registry.by_id(1)) == []
    schema = Registry({"url": url}).by_id(3)
    assert encrypted_fields(schema) == ["whole values: encrypted by rule seal"]
    with pytest.raises(EncryptedError, match=r"rule seal \(ENCRYPT_PAYLOAD\)"):
        make_decoder(3, value_writer(schema, TopicSettings()))
