"""The storage of a table: the files in its manifests, whether they exist in full, listing and deleting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.outside_errors.sorting import plain
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.steps import Step, reach

_READERS = 8  # a read mostly waits for the storage
_MOST_UNDELETABLE = 10
_AT_ONCE = 16  # requests to an object store; each takes some tens of milliseconds, mostly waiting


def manifests_of(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """Manifests of ``snapshots`` by path; raises FileNotFoundError, or RetryableError if one is cut."""
    with ThreadPoolExecutor(_READERS, "manifest lists") as pool:
        lists = pool.map(lambda snapshot: _manifests(io, snapshot), snapshots)
        return {manifest.manifest_path: manifest for manifests in lists for manifest in manifests}


def _manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """A snapshot's manifests, if the list is complete: readers take a cut between blocks for its end."""
    manifests = snapshot.manifests(io)
    figures = snapshot.summary.additional_properties if snapshot.summary else {}
    expected = sum(int(figures.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
    listed = sum((entry.added_files_count or 0) + (entry.existing_files_count or 0) for entry in manifests)
    if listed < expected:
        raise RetryableError(
            f"the manifest list {snapshot.manifest_list} names {listed} of {expected} files; it is damaged"
        )
    return manifests


def live_files(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> Iterable[tuple[ManifestFile, dict[str, int]]]:
    """The data and delete files that each manifest lists as part of the table, not removed: location → bytes.

    Raises FileNotFoundError if a manifest is gone, RetryableError if it is cut.
    """

    def read(manifest: ManifestFile) -> tuple[ManifestFile, dict[str, int]]:
        return manifest, _live(io, manifest)

    with ThreadPoolExecutor(_READERS, "manifests") as pool:
        yield from pool.map(read, manifests)


def sizes_of(io: FileIO, paths: Sequence[str]) -> dict[str, int]:
    """The sizes of files in bytes, one request each; raises as ``manifests_of``."""
    with ThreadPoolExecutor(_AT_ONCE, "sizes") as pool:
        return dict(zip(paths, pool.map(lambda path: len(io.new_input(path)), paths), strict=True))


def _live(io: FileIO, manifest: ManifestFile) -> dict[str, int]:
    files = [entry.data_file for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)]
    expected = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    if len(files) < expected:  # like a manifest list that is cut off
        raise RetryableError(
            f"the manifest {manifest.manifest_path} has {len(files)} of {expected} files; it is damaged"
        )
    return {file.file_path: file.file_size_in_bytes for file in files}


def unreadable(io: FileIO, files: Mapping[str, int], *, lent: bool = False) -> dict[str, str]:
    """What is wrong with files that are missing, or shorter than they should be; asks in parallel."""

    def fault_of(path: str) -> str | None:
        try:
            size = len(io.new_input(path))
        except FileNotFoundError:
            return f"{path} is missing"
        return f"{path} has {size} of {files[path]} bytes" if size < files[path] else None

    with reachable("the storage", lent=lent):
        if len(files) == 1:
            faults = list(map(fault_of, files))
        else:
            with ThreadPoolExecutor(_AT_ONCE, "lengths") as pool:
                faults = list(pool.map(fault_of, files))
    return {path: fault for path, fault in zip(files, faults, strict=True) if fault is not None}


def delete_files(table: Table, paths: list[str]) -> list[str]:
    """Delete files, missing ones too; returns the deleted ones. Raises RetryableError.

    Only for ``table/sweep.py``, which knows that nobody needs them. After several files that cannot be
    deleted, the storage is at fault, and the rest stays, too.
    """
    deleted: list[str] = []
    failed, first_error = [], None
    for path in paths:
        try:
            table.io.delete(path)
        except FileNotFoundError:
            continue
        except Exception as error:  # each storage has its own; they make no difference here
            first_error = first_error or error
            failed.append(path)
            if len(failed) == _MOST_UNDELETABLE:
                break
        else:
            deleted.append(path)
            reach(Step.DELETE)
    if first_error is not None:
        raise RetryableError(
            f"could not delete {failed[0]}{f' and {len(failed) - 1} more' * (len(failed) > 1)}: "
            f"{type(first_error).__name__}: {plain(first_error)}"
        ) from first_error
    return deleted


def list_files(table: Table, folder: str, *, recursive: bool) -> list[str]:
    """Locations of the entries of ``folder`` (files, or folders when not recursive); see ``list_infos``."""
    return list(list_infos(table, folder, recursive=recursive))


def _folders(files: list[pafs.FileInfo], inside: str) -> list[pafs.FileInfo]:
    """The folders right below ``inside`` that have files; entries elsewhere stay, for the caller to check."""
    others = [file for file in files if not file.path.startswith(inside)]
    below = (file.path.removeprefix(inside) for file in files if file.path.startswith(inside))
    names = dict.fromkeys(path.partition("/")[0] for path in below if "/" in path)
    return [*others, *(pafs.FileInfo(f"{inside}{name}", pafs.FileType.Directory) for name in names)]


def list_infos(table: Table, folder: str, *, recursive: bool) -> dict[str, pafs.FileInfo]:
    """The entries of ``folder`` (files, or folders); none if it is missing, or PyArrow cannot list."""
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return {}
    scheme, netloc, path = io.parse_location(folder, io.properties)
    root, inside = folder.rstrip("/"), re.sub("/+", "/", path).rstrip("/") + "/"
    with reachable("the storage", lent=lends_keys(table)):
        system = io.fs_by_scheme(scheme, netloc)
        has_no_folders = scheme in ("gs", "gcs") and not recursive  # PyArrow lists only objects there
        selector = pafs.FileSelector(path, recursive=recursive or has_no_folders, allow_not_found=True)
        infos = system.get_file_info(selector)
    if has_no_folders:
        infos = _folders(infos, inside)
    kind = pafs.FileType.File if recursive else pafs.FileType.Directory
    locations = {}
    for info in infos:
        place = re.sub("/+", "/", info.path)
        if not place.startswith(inside):
            raise RetryableError(f"the storage lists {info.path} in {folder}")
        if info.type == kind:
            locations[f"{root}/{place.removeprefix(inside)}"] = info
    return locations
