"""Which catalog may remove files from a table's folders: the one whose host first owned the table.

A copied or restored catalog names the same files as the original, but not those that were committed since,
so its host would take these for leftovers. A small file beside the table's metadata names the catalog, and
metadata that the catalog does not know of. Spark's removal of orphans skips it for the ``_`` in front.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.engine_properties import catalog_type
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import read_metadata
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.clients.storage.storage import list_files
from tabletopic_kernel.model.errors import StartOverError

_VERSION = re.compile(r"^(?:(\d+)-[0-9a-f]{8}-|v(\d+)\.)")
# A password may contain any character, even one that a URL forbids; a path of SQLite may contain an "@".
_LOGIN = re.compile(r"^([^:/]+://)[^:/]*(?::.*)?@")


def claim_folder(
    table: Table, folder: str, load: Callable[[], Table], epoch_of: Callable[[TableMetadata], int]
) -> Table:
    """Claim a table's metadata ``folder`` for its catalog, or check the claim; returns the table as loaded.

    One request to list, one to read, and one to write if the claim changes. ``load`` comes after the list:
    what the catalog's own writers had written by then is in that state, or an attempt to follow it.
    ``epoch_of``: the newest epoch in a table's metadata, noted for people.
    Raises StartOverError if another catalog has claimed it, or if metadata beside that in use is newer, so
    this is an older state of the catalog. That is recorded: later commits have newer versions.
    """
    files = {file_name(path): path for path in list_files(table, folder, recursive=True)}
    fresh = load()
    place, name = claim_of(fresh.metadata, folder), ".".join(fresh.name())
    with reachable("the storage", lent=lends_keys(fresh)):
        recorded = _read(fresh, place)
        mine = _address(fresh.catalog)
        if (other := recorded.get("catalog", mine)) != mine:
            raise StartOverError(
                f"files of {name} stay: they belong to the catalog {other}, and this one is {mine}. If that "
                f"one no longer has the table, remove {place}"
            )
        newer = _newer(fresh, files, recorded.get("newer"))
        claim = {"catalog": mine, "epoch": epoch_of(fresh.metadata), "newer": newer}
        if claim != recorded:
            with fresh.io.new_output(place).create(overwrite=True) as stream:
                stream.write(json.dumps(claim).encode())
    if newer:
        raise StartOverError(
            f"files of {name} stay: {files[newer]} is newer than the metadata that the catalog names. "
            "Restore a newer backup of the catalog; or, if the older one is right, remove that file"
        )
    return fresh


def claim_of(metadata: TableMetadata, folder: str) -> str:
    """The location of the file that claims a table's metadata ``folder``."""
    return f"{folder}/_tabletopic-{metadata.table_uuid}.json"


def _address(catalog: Catalog) -> str:
    """The catalog's address, without a login; its kind if it has none.

    >>> from types import SimpleNamespace as Fake
    >>> _address(Fake(properties={"uri": "postgresql://me:se/c?r@t@db:5432/lake?ssl=1"}))
    'postgresql://db:5432/lake'
    >>> _address(Fake(properties={"uri": "sqlite:////me@work/catalog.db?timeout=30"}))
    'sqlite:////me@work/catalog.db'
    """
    address = _LOGIN.sub(r"\1", catalog.properties.get("uri", "")).partition("?")[0]
    return address or catalog_type(catalog.properties)


def _read(table: Table, place: str) -> Mapping[str, Any]:
    try:
        with table.io.new_input(place).open() as stream:
            claim = json.loads(stream.read())
    except (FileNotFoundError, ValueError):  # none yet, or cut off
        return {}
    return claim if isinstance(claim, dict) else {}


def _newer(table: Table, files: Mapping[str, str], recorded: str | None) -> str | None:
    """The newest of the table's metadata that follows none of its catalog's, nor is an attempt to, if any."""
    metadata, current = table.metadata, file_name(table.metadata_location)
    own = {current, *(file_name(entry.metadata_file) for entry in metadata.metadata_log)}
    if recorded in files and recorded not in own:
        return recorded
    for name in sorted(files, key=_version, reverse=True):
        if _version(name) <= _version(current):
            return None
        try:  # tables may share a folder
            other = read_metadata(table.io.new_input(files[name]))
        except (FileNotFoundError, ValueError, ValidationError):  # removed meanwhile, or cut off
            continue
        previous = [file_name(entry.metadata_file) for entry in other.metadata_log[-1:]]
        if other.table_uuid == metadata.table_uuid and previous != [current]:
            return name
    return None


def _version(name: str) -> int:
    """The version in a metadata file's name, as Iceberg's libraries write it; -1: none.

    >>> [_version(f"{name}.metadata.json") for name in ("00012-0a1b2c3d-ab", "v7", "12345678-abcd-ef")]
    [12, 7, -1]
    """
    match = _VERSION.match(name)
    return int(match[1] or match[2]) if match and name.endswith(".metadata.json") else -1
