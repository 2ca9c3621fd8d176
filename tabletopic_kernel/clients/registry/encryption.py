"""What the rules of a schema encrypt, in Confluent's registry: some fields, or whole values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from confluent_kafka.schema_registry import Schema

_FIELDS: Final = "ENCRYPT"
_WHOLE: Final = "ENCRYPT_PAYLOAD"
_TAGS: Final = "confluent:tags"


def encryption_of(schema: Schema) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The rule that encrypts whole values, or none; and encrypted fields (by tags) with their rules."""
    metadata, sets = schema.metadata, schema.rule_set
    rules = [*(sets.domain_rules or ()), *(sets.encoding_rules or ())] if sets else []
    active = [
        rule for rule in rules if not rule.disabled and (rule.mode is None or "WRITE" in rule.mode.value)
    ]
    whole = next((rule.name or _WHOLE for rule in active if rule.type == _WHOLE), "")
    by_tag = {tag: rule.name or _FIELDS for rule in active if rule.type == _FIELDS for tag in rule.tags or ()}
    if not by_tag:
        return whole, ()
    tagged = list((metadata.tags.tags if metadata and metadata.tags else {}).items())
    with suppress(ValueError, RecursionError):  # Protobuf's text is no JSON
        tagged += _tagged(json.loads(schema.schema_str or ""), "")
    fields = {path.rpartition(".")[2]: by_tag[tag] for path, tags in tagged for tag in tags if tag in by_tag}
    return whole, tuple(sorted(fields.items()))


def _tagged(tree: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Names of fields, or of properties, that have tags."""
    if isinstance(tree, dict):
        if isinstance(tags := tree.get(_TAGS), list):
            yield str(tree.get("name", name)), tags
        for key, inner in tree.items():
            yield from _tagged(inner, key)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _tagged(inner, name)
