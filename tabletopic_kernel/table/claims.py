"""Which catalog may remove files from a table's folders: the one whose host first owned the table.

A copied or restored catalog names the same files as the original, but not those that were committed since,
so its host would take these for leftovers. A small file beside the table's metadata names the catalog, and
metadata that the catalog does not know of. Its name begins with ``_``: Spark's removal of orphans skips it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog import Catalog
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.engine_properties import catalog_type
from tabletopic_kernel.clients.storage.storage import list_files
from tabletopic_kernel.model.errors import StartOverError

_VERSION = re.compile(r"^v?(\d+)[^/]*\.metadata\.json$")


def claim_folder(table: Table, folder: str, epoch: int) -> None:
    """Claim a table's metadata ``folder`` for its catalog, or check the claim; writes only what changed.

    One request to read, one to list, and one to write for each new epoch.

    Raises:
        StartOverError: another catalog has claimed it; or metadata beside that in use is newer, so the
            catalog is an older copy. That is recorded: once new commits have newer versions, it would be
            hard to see.
        RetryableError, ActionNeededError: as ``reachable``.
    """
    place, name = f"{folder}/_tabletopic-{table.metadata.table_uuid}.json", ".".join(table.name())
    with reachable("the storage", lent=lends_keys(table)):
        held = _read(table, place)
        mine = _address(table.catalog)
        if (other := held.get("catalog", mine)) != mine:
            raise StartOverError(
                f"files of {name} stay: they belong to the catalog {other}, and this one is {mine}. If that "
                f"one no longer has the table, remove {place}"
            )
        newer = _newer(table, folder, held.get("newer"))
        claim = {"catalog": mine, "epoch": epoch, "newer": newer}
        if claim != held:
            with table.io.new_output(place).create(overwrite=True) as stream:
                stream.write(json.dumps(claim).encode())
    if newer:
        raise StartOverError(
            f"files of {name} stay: {folder}/{newer} is newer than the metadata that the catalog names. "
            "Restore a newer backup of the catalog; or, if the older one is right, remove that file"
        )


def _address(catalog: Catalog) -> str:
    """The catalog's address, without a login; its kind if it has none.

    >>> from types import SimpleNamespace as Fake
    >>> _address(Fake(properties={"uri": "postgresql://me:secret@db:5432/lake?ssl=1"}))
    'postgresql://db:5432/lake'
    >>> _address(Fake(properties={"uri": "sqlite:////lake/catalog.db?timeout=30"}))
    'sqlite:////lake/catalog.db'
    """
    scheme, _, rest = catalog.properties.get("uri", "").partition("://")
    authority, slash, path = rest.partition("?")[0].partition("/")
    address = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    return address if rest else catalog_type(catalog.properties)


def _read(table: Table, place: str) -> Mapping[str, Any]:
    try:
        with table.io.new_input(place).open() as stream:
            held = json.loads(stream.read())
    except (FileNotFoundError, ValueError):  # none yet, or cut off
        return {}
    return held if isinstance(held, dict) else {}


def _newer(table: Table, folder: str, held: str | None) -> str | None:
    """The newest metadata of this table in ``folder`` that its catalog knows nothing of, if any.

    A commit that failed leaves metadata one version ahead, at most: less than the claim of an epoch adds.
    """
    there = {path.rpartition("/")[2]: path for path in list_files(table, folder, recursive=True)}
    metadata = table.metadata
    known = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    if held in there and held not in {path.rpartition("/")[2] for path in known}:
        return held
    current = _version(table.metadata_location)
    for name in sorted(there, key=_version, reverse=True):
        if _version(name) <= current:
            return None
        try:  # tables may share a folder
            if (
                FromInputFile.table_metadata(table.io.new_input(there[name])).table_uuid
                == metadata.table_uuid
            ):
                return name
        except (FileNotFoundError, ValueError, ValidationError):
            continue
    return None


def _version(path: str) -> int:
    found = _VERSION.match(path.rpartition("/")[2])
    return int(found[1]) if found else -1
