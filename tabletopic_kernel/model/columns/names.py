"""Column names: how they derive from field names, and which column a field has (docs/explanation/columns.md).

Dots become ``_`` (Iceberg's paths are dotted), and so does NUL, at which names in Arrow's C interface end;
names that differ only in case, which most engines cannot distinguish, get ``_2``, ``_3``… If the names
differ, the column's doc ends with the field's name, by which the column is found again.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

_ORIGINAL: Final = re.compile(r'(?:^|; )(?:property|field) ("(?:[^"\\]|\\.)*")$')
_DOT: Final = re.compile(r"(?<!\\)\.")


Naming = Callable[[str], str]  # a field's name → its column's, before numbering


def as_written(key: str) -> str:
    """The field's name, as far as Iceberg and Arrow take it."""
    return key.replace(".", "_").replace("\0", "_") or "_"


def in_lowercase(key: str) -> str:
    """The same in lowercase, as Athena, Glue and Snowflake need it."""
    return as_written(key).lower()


def column_names(
    keys: Iterable[str], taken: Iterable[str] = (), naming: Naming = as_written
) -> dict[str, str]:
    """Field name → column name, for the fields of one object; ``taken`` are existing columns.

    >>> column_names(["a.b", "id", "ID", ""])
    {'a.b': 'a_b', 'id': 'id', 'ID': 'ID_2', '': '_'}
    """
    used = {name.lower() for name in taken}
    names = {}
    for key in keys:
        base = name = naming(key)
        for number in itertools.count(2):
            if name.lower() not in used:
                break
            name = f"{base}_{number}"
        used.add(name.lower())
        names[key] = name
    return names


def colliding_fields(kind: IcebergType) -> list[str]:
    """Fields of one struct, at any depth, whose columns would have the same name in lowercase.

    >>> colliding_fields(StructType(NestedField(1, "ID", StructType()), NestedField(2, "id", StructType())))
    ['ID and id']
    """
    if isinstance(kind, ListType):
        return colliding_fields(kind.element_type)
    if isinstance(kind, MapType):
        return colliding_fields(kind.value_type)
    if not isinstance(kind, StructType):
        return []
    by_name: dict[str, list[str]] = {}
    for column in kind.fields:
        by_name.setdefault(in_lowercase(column.name), []).append(column.name)
    inside = [text for column in kind.fields for text in colliding_fields(column.field_type)]
    return [" and ".join(names) for names in by_name.values() if len(names) > 1] + inside


def original_name(name: str, doc: str | None) -> str:
    """The name of a column's field in its schema.

    >>> original_name("ID_2", 'of the shop; field "ID"'), original_name("id", "of the shop")
    ('ID', 'id')
    """
    match = _ORIGINAL.search(doc or "")
    if match is None:
        return name
    key: str = json.loads(match[1])
    # A doc may contain anything: only what the rule derives from the key counts.
    names = f"{re.escape(as_written(key))}|{re.escape(in_lowercase(key))}"
    return key if re.fullmatch(rf"(?:{names})(_\d+)?", name) else name


def doc_with_original(doc: str | None, name: str, original: str, kind: str = "field") -> str | None:
    """The doc of a column, including the name of its field if it differs.

    >>> doc_with_original("of the shop", "ID_2", "ID")
    'of the shop; field "ID"'
    """
    own_doc = _ORIGINAL.sub("", doc or "")
    parts = [own_doc] if own_doc else []
    if name != original:
        parts.append(f"{kind} {json.dumps(original)}")
    return "; ".join(parts) or None


def step(name: str) -> str:
    r"""A name as part of a dotted path, with dots in the name distinguishable from separators.

    >>> step("a.b")
    'a\\.b'
    """
    return name.replace("\\", "\\\\").replace(".", "\\.") if "." in name or "\\" in name else name


def renamed_path(path: str, renames: Mapping[str, str]) -> str:
    """The dotted path of a field's column: ``renames`` maps paths of fields to their columns' names.

    >>> renamed_path("place.town.x", {"place": "address", "place.town": "city"})
    'address.city.x'
    """
    parts = _DOT.split(path)
    return ".".join(renames.get(".".join(parts[:end]), part) for end, part in enumerate(parts, 1))


def sanitize_names(
    kind: IcebergType,
    origin: str = "",
    renames: dict[str, str] | None = None,
    naming: Naming = as_written,
) -> IcebergType:
    """A new type with the names of its columns, at every depth; ``origin``: the fields' path, with a dot.

    ``renames`` receives the fields whose column has another name, as in ``Evolution``.
    """
    if isinstance(kind, StructType):
        originals = {column.name: original_name(column.name, column.doc) for column in kind.fields}
        names = column_names(originals.values(), naming=naming)
        return StructType(
            *(
                _sanitized(column, names[originals[column.name]], origin, renames, naming)
                for column in kind.fields
            )
        )
    if isinstance(kind, ListType):
        inner = sanitize_names(kind.element_type, f"{origin}element.", renames, naming)
        return ListType(kind.element_id, inner, kind.element_required)
    if isinstance(kind, MapType):
        inner = sanitize_names(kind.value_type, f"{origin}value.", renames, naming)
        return MapType(kind.key_id, kind.key_type, kind.value_id, inner, kind.value_required)
    return kind


def _sanitized(
    column: NestedField, name: str, origin: str, renames: dict[str, str] | None, naming: Naming
) -> NestedField:
    path = origin + step(column.name)
    doc = column.doc
    if name != column.name:
        doc = doc_with_original(column.doc, name, original_name(column.name, column.doc))
        if renames is not None:
            renames[path] = name
    kind = sanitize_names(column.field_type, f"{path}.", renames, naming)
    return column.model_copy(update={"name": name, "doc": doc, "field_type": kind})


Known = Callable[[str], int | None]  # dotted path of a writer's field → field id
Renumbered = tuple[str, str]  # numbers of a name in Protobuf: in the table, and in the writer's schema


class Homes:
    """The fields of one struct and their columns; ``columns`` has those with a column, by field name.

    ``renamed``: fields that give their name to their column; none unless ``may_rename``.
    """

    def __init__(self, table: StructType, writer: StructType, may_rename: bool) -> None:
        self.may_rename = may_rename
        self.fields = {field.name: field for field in writer.fields}
        self.columns: dict[str, NestedField] = {}
        self.renamed: set[str] = set()
        self._free = {column.field_id: column for column in table.fields}
        self.held: dict[int, str] = {}
        self.table = table
        self._originals = {field.name: original_name(field.name, field.doc) for field in writer.fields}

    def original(self, name: str) -> str:
        """The name of a field's column before the naming rules."""
        return self._originals[name]

    def settle(self, name: str, column: NestedField | None) -> None:
        """Assign ``column`` to the field, unless either is already matched."""
        if column is not None and name not in self.columns and column.field_id in self._free:
            self.columns[name] = self._free.pop(column.field_id)
            self.held[column.field_id] = name

    def move(self, name: str, original: str, column: NestedField | None) -> None:
        """Move the field to another column, or to a new one, named ``original``."""
        released = self.columns.pop(name)
        del self.held[released.field_id]
        self._free[released.field_id] = released
        self.renamed.discard(name)
        self._originals[name] = original
        self.settle(name, column)

    @property
    def free(self) -> list[NestedField]:
        """Columns without a field, newest first."""
        return sorted(self._free.values(), key=lambda column: column.field_id, reverse=True)

    @property
    def homeless(self) -> list[str]:
        """Fields without a column."""
        return [name for name in self.fields if name not in self.columns]


@dataclass(frozen=True)
class Matching:
    """What is known besides names; arguments as for ``model/columns/evolution.evolve``."""

    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    former: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    known: Known | None = None
    renumbered: Mapping[str, Renumbered] = field(default_factory=dict)

    def homes(self, origin: str, table: StructType, writer: StructType, *, may_rename: bool) -> Homes:
        """Columns for the fields of a struct; ``origin`` is their dotted path, with a dot at the end."""
        homes = Homes(table, writer, may_rename)
        ids = {column.field_id: column for column in table.fields}
        if self.known is not None:
            for name in homes.homeless:
                homes.settle(name, ids.get(self.known(origin + step(name)) or 0))
        named = _by_original(homes.free)
        for name in homes.homeless:
            homes.settle(name, named.get(homes.original(name)))
        if self.aliases and may_rename:
            self._settle_aliases(homes, origin)
        if self.former:
            self._settle_former(homes)
        return homes

    def _settle_aliases(self, homes: Homes, origin: str) -> None:
        written = {homes.original(name) for name in homes.fields}
        for name in homes.homeless:
            named = _by_original(homes.free)
            names = [alias for alias in self.aliases.get(origin + step(name), ()) if alias not in written]
            column = next((named[alias] for alias in names if alias in named), None)
            if column is not None:
                homes.settle(name, column)
                homes.renamed.add(name)

    def _settle_former(self, homes: Homes) -> None:
        for name in homes.homeless:
            original = homes.original(name)
            columns = (column for column in homes.free if original in self.former.get(column.field_id, ()))
            homes.settle(name, next(columns, None))


def _by_original(columns: Iterable[NestedField]) -> dict[str, NestedField]:
    return {original_name(column.name, column.doc): column for column in columns}
