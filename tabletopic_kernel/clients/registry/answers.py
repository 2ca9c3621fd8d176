"""Validate a registry's response: a schema, something doubtful, or no schema at all.

A registry validates what it registers, so a text that is not a schema comes from a broken registry, or from
something else that responds in its place. Such a response is an error, and the request is retried (I9).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.formats import FORMATS
from tabletopic_kernel.formats.avro import schema as avro_schema
from tabletopic_kernel.formats.json import schema as json_schema
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError

_CONTEXT: Final = re.compile(r"^:\.[^:]*:")
# Types that a schema's text tells apart if a registry declares the wrong type.
_KINDS: Final = ("AVRO", "JSON", "PROTOBUF")
# Any .proto file with content has one of these.
_PROTO: Final = re.compile(
    r"\b(?:message|enum|service|extend)\s+[A-Za-z_.]|\b(?:syntax|edition)\s*=|\b(?:import|package|option)\b[^;]*;"
)


def bare(subject: str) -> str:
    """A subject without Confluent's schema context, which a url with one does not repeat.

    >>> bare(":.team-a:clicks-value"), bare("clicks-value")
    ('clicks-value', 'clicks-value')
    """
    return _CONTEXT.sub("", subject)


class OddAnswerError(Exception):
    """A successful response that is not what was requested."""


class Worth(Enum):
    """The validity of a schema's text."""

    GOOD = "a schema of the format that the registry says"
    DOUBTFUL = "of another format than the registry says, or not valid to us"
    NO_SCHEMA = "not even of the form of a schema"


def kind_of(declared: str, text: str) -> str:
    """The format of a schema: Apicurio declares every version of a subject as the type of the first."""
    if declared not in _KINDS:
        return declared
    tree = _tree(text)
    if tree is None:
        return "PROTOBUF"
    if isinstance(tree, bool):  # accepts any value, or none
        return "JSON"
    if not isinstance(tree, dict) or tree.get("type") in ("record", "enum", "fixed"):
        return "AVRO"
    if "type" not in tree or tree["type"] in ("object", "integer", "number"):
        return "JSON"
    return "AVRO" if declared == "PROTOBUF" else declared


def worth_of(declared: str, text: str, references: Mapping[str, str]) -> Worth:
    """The validity of a schema's text; raises RetryableError if the Protobuf compiler cannot run."""
    kind = kind_of(declared, text)
    if kind == "PROTOBUF" and not (_PROTO.search(text) or _is_base64(text)):
        return Worth.NO_SCHEMA
    try:
        match kind:
            case "AVRO":
                avro_schema.parse(text, references)
            case "JSON":
                json_schema.parse_json_schema(text, references)
            case "PROTOBUF":
                compile_schema(text, references)
    except RetryableError:
        raise
    except (ActionNeededError, ValueError, TypeError, RecursionError):
        return Worth.DOUBTFUL
    return Worth.GOOD if kind == declared else Worth.DOUBTFUL


def checked(schema: Schema) -> Schema:
    """The schema of a response; raises OddAnswerError if its parts are invalid."""
    if not isinstance(schema.schema_str, str):
        raise OddAnswerError(f"the schema's text is {_short(schema.schema_str)}")
    if (schema.schema_type or "AVRO") not in FORMATS:
        raise OddAnswerError(f"the schema's type is {_short(schema.schema_type)}")
    for ref in schema.references or []:
        if not (isinstance(ref.name, str) and isinstance(ref.subject, str) and _is_number(ref.version)):
            raise OddAnswerError(f"a reference is {_short(ref)}")
    return schema


def checked_place(answer: Any, subject: str, version: int | None = None) -> Any:
    """The requested version of a subject; raises OddAnswerError if the response is another, or none."""
    checked(answer.schema)
    if answer.subject is not None and subject not in (answer.subject, bare(answer.subject)):
        raise OddAnswerError(f"it is of the subject {_short(answer.subject)}")
    is_id = _is_number(answer.schema_id) or answer.schema_id == answer.guid
    if not is_id or not _is_number(answer.version):
        raise OddAnswerError(f"its id is {_short(answer.schema_id)}, its version {_short(answer.version)}")
    if version is not None and answer.version != version:
        raise OddAnswerError(f"it is version {_short(answer.version)}")
    return answer


def checked_version(answer: Any) -> int:
    """The version of a response, 0 without one; raises OddAnswerError if it is something else."""
    if answer.version is not None and not _is_number(answer.version):
        raise OddAnswerError(f"its version is {_short(answer.version)}")
    return answer.version or 0


def checked_places(versions: Any) -> list[tuple[str, int]]:
    """Subjects and versions of a schema; raises OddAnswerError if the response is something else."""
    places = [(registered.subject, registered.version) for registered in versions]
    for subject, version in places:
        if not isinstance(subject, str) or not _is_number(version):
            raise OddAnswerError(f"version {_short(version)} of the subject {_short(subject)}")
    return places


def checked_list(items: Any, kind: type) -> Any:
    """A list of subjects or versions; raises OddAnswerError if the response is something else."""
    if not isinstance(items, list) or not all(isinstance(item, kind) for item in items):
        raise OddAnswerError(f"expected a list, got {_short(items)}")
    return items


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_base64(text: str) -> bool:
    """Whether the text may be a file in base64, the form in which Python's serializer registers one."""
    try:
        return len(base64.b64decode(text, validate=True)) > 1
    except (binascii.Error, ValueError):
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return repr(value)[:80]
