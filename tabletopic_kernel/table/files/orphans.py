"""Old files in a table's folders that possibly nothing refers to."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow.fs as pafs
from pyiceberg.exceptions import ValidationError
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.engine_properties import keeps_versions
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import read_metadata
from tabletopic_kernel.clients.storage.locations import file_name, normal_location
from tabletopic_kernel.clients.storage.storage import list_infos
from tabletopic_kernel.pipeline.write import data_root
from tabletopic_kernel.table.files.own import UnreachableFiles, is_collected, metadata_root

_OLD_MS = 3 * 86_400_000  # the minimum age of an orphan
_METADATA = (".avro", ".metadata.json", ".stats", ".puffin")
_DATA = (".parquet", ".orc", ".avro", ".puffin")
_IS_METADATA = re.compile(r"\.metadata\.json(?:\.gz)?$")
_EPOCHS = re.compile(r"/epoch-\d+/")


def orphan_candidates(table: Table, now_ms: int) -> UnreachableFiles:
    """Files in the table's folders, older than three days, that possibly nothing refers to.

    Only files that are certainly this table's, and not of a writer still at work:

    - Manifests, manifest lists, statistics and old metadata, if all metadata in that folder has this table's
      uuid, and its newest is there too. Another table in the folder would have its own there.
    - Data files, if that holds, both folders are below the table's location, and no metadata is among the
      data. Not in folders of epochs: the sweep removes this table's, and others are not its own.
    - Written, by the storage's own timestamps, three days before the newest file there: so a host's
      fast clock makes no file old. A commit refers to its files within three days, or never.

    They include files that something refers to: their removal checks that.
    """
    metadata, root = table.metadata, metadata_root(table.metadata)
    nothing = UnreachableFiles(frozenset())
    infos = list_infos(table, root, recursive=True)
    if keeps_versions(table.catalog.properties) or not is_collected(metadata) or not _is_alone(table, infos):
        return nothing
    now_ms = min(now_ms, max(info.mtime_ns or 0 for info in infos.values()) // 1_000_000)
    old = {path: info.size or 0 for path, info in infos.items() if _is_old(info, now_ms)}
    named = {path: size for path, size in old.items() if path.endswith(_METADATA)}
    folder, location = data_root(metadata), normal_location(metadata.location)
    is_below = normal_location(folder).startswith(f"{location}/")
    if not is_below or normal_location(root) != f"{location}/metadata":
        return UnreachableFiles(frozenset(), {}, named)
    files = list_infos(table, folder, recursive=True)
    if any(_IS_METADATA.search(path) for path in files):
        return UnreachableFiles(frozenset(), {}, named)
    data = {
        path: info.size or 0
        for path, info in files.items()
        if path.endswith(_DATA) and not _EPOCHS.search(path) and _is_old(info, now_ms)
    }
    return UnreachableFiles(frozenset(), data, named)


def _is_alone(table: Table, infos: Mapping[str, pafs.FileInfo]) -> bool:
    """Whether all metadata in a table's folder is its own, including its newest."""
    versions = {path for path in infos if _IS_METADATA.search(path)}
    if file_name(table.metadata_location) not in map(file_name, versions):
        return False
    uuid = table.metadata.table_uuid
    with reachable("the storage", lent=lends_keys(table)):
        try:
            return all(read_metadata(table.io.new_input(path)).table_uuid == uuid for path in versions)
        except (FileNotFoundError, ValueError, ValidationError):
            return False  # removed meanwhile, or damaged: its table is unknown


def _is_old(info: pafs.FileInfo, now_ms: int) -> bool:
    return info.mtime_ns is not None and info.mtime_ns // 1_000_000 < now_ms - _OLD_MS
