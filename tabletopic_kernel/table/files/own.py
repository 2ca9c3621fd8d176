"""The files that a table's metadata names, and which of them are certainly the table's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata

from tabletopic_kernel.clients.catalog.engine_properties import keeps_versions
from tabletopic_kernel.clients.storage.locations import normal_location
from tabletopic_kernel.pipeline.write import data_root

_OTHERS = re.compile(r"/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/epoch-\d+/")
_GC = "gc.enabled"


@dataclass(frozen=True)
class UnreachableFiles:
    """What only the snapshots ``ids`` reached, with bytes: data and delete files, and their metadata."""

    ids: frozenset[int]
    data: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, int] = field(default_factory=dict)


def is_collected(metadata: TableMetadata) -> bool:
    """Whether files that no snapshot reaches may be removed: not if others share them (``gc.enabled`` is
    false), nor if the catalog keeps its own versions (``keeps_versions``).
    """
    properties = metadata.properties
    is_on = properties.get(_GC, "true").lower() == "true"  # as Java reads it
    return is_on and not keeps_versions(properties)


def metadata_root(metadata: TableMetadata) -> str:
    """The folder of a table's metadata: manifests, manifest lists, statistics."""
    path = metadata.properties.get(TableProperties.WRITE_METADATA_PATH)
    return (path or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")


def own_files(metadata: TableMetadata, expired: UnreachableFiles) -> tuple[dict[str, int], int]:
    """The files in the table's own folders, with their bytes, and how many are elsewhere.

    Epochs' folders below another uuid belong to another table topic with the same ``write.data.path``. Data
    files outside epochs' folders are this table's only below its location, where it has its data: a
    ``write.data.path`` elsewhere, and other folders below its location, may be shared with other tables.
    """
    location, folder = normal_location(metadata.location), normal_location(data_root(metadata))
    own_epoch = re.compile(rf"/{re.escape(str(metadata.table_uuid))}/epoch-\d+/")
    below = tuple(f"{root}/" for root in {f"{location}/data", folder} if root.startswith(f"{location}/"))
    of_metadata = f"{normal_location(metadata_root(metadata))}/"
    own = {path: size for path, size in expired.metadata.items() if _lies(path, of_metadata)}
    for path, size in expired.data.items():
        if own_epoch.search(normal_location(path)):
            is_own = _lies(path, f"{location}/", f"{folder}/")
        else:
            is_own = _lies(path, *below) and not _OTHERS.search(normal_location(path))
        if is_own:
            own[path] = size
    return own, len(expired.data) + len(expired.metadata) - len(own)


def _lies(path: str, *roots: str) -> bool:
    return normal_location(path).startswith(roots)
