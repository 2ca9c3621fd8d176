"""Names of columns: what becomes of the name that a field has in its schema.

A column has the field's name. Dots become ``_`` (Iceberg's paths are dotted), an empty name is ``_``, and
names that are equal but for case, which most engines cannot tell apart, get ``_2``, ``_3``… in the order of
the schema; a column that is there keeps its name. Where the name is another one than the field's, that one
stands at the end of the column's doc, and the column is found again by it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_ORIGINAL: Final = re.compile(r'(?:^|; )(?:property|field) ("(?:[^"\\]|\\.)*")$')
_DOT: Final = re.compile(r"(?<!\\)\.")


def column_names(keys: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Field name → column name, for the fields of one object; ``taken`` are columns there are.

    >>> column_names(["a.b", "id", "ID", ""])
    {'a.b': 'a_b', 'id': 'id', 'ID': 'ID_2', '': '_'}
    """
    used = {name.lower() for name in taken}
    names = {}
    for key in keys:
        wanted = name = _wanted(key)
        for number in itertools.count(2):
            if name.lower() not in used:
                break
            name = f"{wanted}_{number}"
        used.add(name.lower())
        names[key] = name
    return names


def _wanted(key: str) -> str:
    return key.replace(".", "_") or "_"


def original_name(name: str, doc: str | None) -> str:
    """The name that a column's field has in its schema.

    >>> original_name("ID_2", 'of the shop; field "ID"'), original_name("id", "of the shop")
    ('ID', 'id')
    """
    found = _ORIGINAL.search(doc or "")
    if found is None:
        return name
    key: str = json.loads(found[1])
    # A doc may say anything: only what the rule makes of the key counts.
    return key if re.fullmatch(re.escape(_wanted(key)) + r"(_\d+)?", name) else name


def doc_with_original(doc: str | None, name: str, original: str, what: str = "field") -> str | None:
    """The doc of a column, with the name of its field where that is another one.

    >>> doc_with_original("of the shop", "ID_2", "ID")
    'of the shop; field "ID"'
    """
    own_doc = _ORIGINAL.sub("", doc or "")
    parts = [own_doc] if own_doc else []
    if name != original:
        parts.append(f"{what} {json.dumps(original)}")
    return "; ".join(parts) or None


def step(name: str) -> str:
    r"""A name as part of a dotted path, so that a dot within it is told from one between two names.

    >>> step("a.b")
    'a\\.b'
    """
    return name.replace("\\", "\\\\").replace(".", "\\.") if "." in name or "\\" in name else name


def renamed_path(path: str, renames: Mapping[str, str]) -> str:
    """The dotted path of the column of a field: ``renames`` maps paths of fields to their columns' names.

    >>> renamed_path("place.town.x", {"place": "address", "place.town": "city"})
    'address.city.x'
    """
    return ".".join(_renamed(path, renames))


def _renamed(path: str, renames: Mapping[str, str]) -> Iterator[str]:
    parts = _DOT.split(path)
    for end, part in enumerate(parts, 1):
        yield renames.get(".".join(parts[:end]), part)
