"""Resolves the ``$ref``s of a JSON Schema: within the text, and to the registered references."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from tabletopic_kernel.model.errors import ActionNeededError


class JsonSchemaError(ActionNeededError):
    """A JSON Schema is not valid, or beyond what a table can represent."""


@dataclass(frozen=True)
class Subschema:
    """A subschema, with the document and base URI that its references are relative to."""

    schema: Any
    document: str
    base: str

    def inner(self, schema: Any) -> Subschema:
        return Subschema(schema, self.document, _base(schema, self.base))

    @property
    def key(self) -> int:
        """Its identity: the object's, because documents are kept."""
        return id(self.schema)


class Documents:
    """A schema's text and those it refers to, by name; raises JsonSchemaError if one is not JSON."""

    def __init__(self, text: str, references: Mapping[str, str] | None) -> None:
        self._roots: dict[str, Subschema] = {}
        self._by_uri: dict[str, Subschema] = {}
        self.root = self._add("", text)
        for name, other in (references or {}).items():
            self._add(name, other)

    def _add(self, name: str, text: str) -> Subschema:
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError) as error:
            document = f"the reference {name!r}" if name else "the schema"
            raise JsonSchemaError(f"{document} is not JSON: {error}; register it again") from error
        root = Subschema(schema, name, _base(schema, name))
        self._roots[name] = root
        for uri, subschema in _named(root):
            self._by_uri.setdefault(uri, subschema)
        return root

    def resolve(self, ref: str, subschema: Subschema) -> Subschema:
        """The subschema that ``ref`` at ``subschema`` names; raises JsonSchemaError."""
        target, fragment = urldefrag(ref)
        node = self._document(target, subschema)
        if node is None:
            raise JsonSchemaError(
                f"$ref {ref!r} refers to no schema; register it as a reference named {target!r}"
            )
        if fragment and not fragment.startswith("/"):
            return self._anchor(f"{node.base}#{fragment}", ref)
        for part in fragment.split("/")[1:]:
            node = node.inner(_step(node.schema, unquote(part).replace("~1", "/").replace("~0", "~"), ref))
        return node

    def _document(self, target: str, subschema: Subschema) -> Subschema | None:
        if not target:
            return self._by_uri.get(subschema.base) or self._roots[subschema.document]
        names = (target, target.removeprefix("./"), urljoin(subschema.base, target))
        candidates = (self._roots.get(name) or self._by_uri.get(name) for name in names)
        return next((candidate for candidate in candidates if candidate is not None), None)

    def _anchor(self, uri: str, ref: str) -> Subschema:
        if uri not in self._by_uri:
            raise JsonSchemaError(f"$ref {ref!r} refers to an undefined anchor")
        return self._by_uri[uri]


def _base(schema: Any, base: str) -> str:
    uri = schema.get("$id", schema.get("id")) if isinstance(schema, dict) else None
    if not isinstance(uri, str) or uri.startswith("#"):  # an anchor in the form of drafts before 2019-09
        return base
    return urldefrag(urljoin(base, uri)).url


def _named(root: Subschema) -> Iterator[tuple[str, Subschema]]:
    """Every subschema with its own URI: by ``$id`` (``id`` in draft 4), anchor, or as a document."""
    todo = [root]
    yield root.base, root
    while todo:
        subschema = todo.pop()
        schema = subschema.schema
        if isinstance(schema, list):
            todo += [subschema.inner(item) for item in schema]
        elif isinstance(schema, dict):
            uri = schema.get("$id", schema.get("id"))
            anchors = [
                schema.get("$anchor"),
                schema.get("$dynamicAnchor"),
                uri[1:] if isinstance(uri, str) and uri[:1] == "#" else None,
            ]
            yield from ((f"{subschema.base}#{name}", subschema) for name in anchors if isinstance(name, str))
            if isinstance(uri, str) and not uri.startswith("#"):
                yield subschema.base, subschema
            todo += [subschema.inner(value) for value in schema.values() if isinstance(value, dict | list)]


def _step(schema: Any, part: str, ref: str) -> Any:
    if isinstance(schema, dict) and part in schema:
        return schema[part]
    if isinstance(schema, list) and part.isdecimal() and int(part) < len(schema):
        return schema[int(part)]
    raise JsonSchemaError(f"$ref {ref!r} cannot be resolved: there is no {part!r}")
