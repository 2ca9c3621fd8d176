"""The storage of a table: the files in its manifests, and whether staged files exist in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.model.errors import RetryableError

_READERS = 8  # a read mostly waits for the storage
_AT_ONCE = 16  # requests to an object store; each takes some tens of milliseconds, mostly waiting


def manifests_of(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """Data and delete manifests of any of ``snapshots``, by path; snapshots share most of theirs.

    Raises:
        FileNotFoundError: the manifest list of a snapshot is gone.
        RetryableError: a manifest list has fewer files than its snapshot.
        OSError: the storage does not respond.
    """
    with ThreadPoolExecutor(_READERS, "manifest lists") as pool:
        lists = pool.map(lambda snapshot: _manifests(io, snapshot), snapshots)
        return {manifest.manifest_path: manifest for found in lists for manifest in found}


def _manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """A snapshot's manifests, if the list is complete: readers take a cut between blocks for its end."""
    found = snapshot.manifests(io)
    figures = snapshot.summary.additional_properties if snapshot.summary else {}
    expected = sum(int(figures.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
    listed = sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in found)
    if listed < expected:
        raise RetryableError(
            f"the manifest list {snapshot.manifest_list} names {listed} of {expected} files; it is damaged"
        )
    return found


def live_files(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> Iterable[tuple[ManifestFile, dict[str, int]]]:
    """The data and delete files that each manifest lists as part of the table: location → bytes.

    Entries of removed files do not count: a snapshot that still has such a file lists it itself.

    Raises:
        FileNotFoundError: a manifest is gone.
        RetryableError: a manifest has fewer entries than the manifest list says.
        OSError: the storage does not respond.
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
    found = [entry.data_file for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)]
    expected = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    if (
        len(found) < expected
    ):  # the reader takes the end of a file that was cut off for the end of its entries
        raise RetryableError(
            f"the manifest {manifest.manifest_path} has {len(found)} of {expected} files; it is damaged"
        )
    return {file.file_path: file.file_size_in_bytes for file in found}


def unreadable(io: FileIO, files: Sequence[DataFile], *, lent: bool = False) -> list[str]:
    """A message for each file that is missing or shorter than it was written.

    Asks the storage for each file's length, in parallel. ``lent``: see ``reachable``.

    Raises:
        RetryableError, ActionNeededError: as ``reachable``.
    """

    def look(file: DataFile) -> str | None:
        try:
            there = len(io.new_input(file.file_path))
        except FileNotFoundError:
            return f"{file.file_path} is missing"
        if there < file.file_size_in_bytes:
            return f"{file.file_path} has {there} of {file.file_size_in_bytes} bytes"
        return None

    with reachable("the storage", lent=lent):
        if len(files) == 1:
            found = [look(files[0])]
        else:
            with ThreadPoolExecutor(_AT_ONCE, "staged files") as pool:
                found = list(pool.map(look, files))
    return [fault for fault in found if fault is not None]
