"""The storage of a table: which files its manifests name, and whether staged files are there and whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.model.errors import RetryableError

_READERS = 8  # most of the time of a read is the storage's
_AT_ONCE = 16  # requests of an object store; each takes some ten milliseconds, most of them waiting


def manifests_of(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """Manifests of data and of deletes that any of ``snapshots`` has, by path; several share most of theirs.

    Raises:
        FileNotFoundError: the list of a snapshot is gone.
        RetryableError: a list names fewer files than its snapshot has.
        OSError: the storage does not answer.
    """
    with ThreadPoolExecutor(_READERS, "manifest lists") as pool:
        lists = pool.map(lambda snapshot: _manifests(io, snapshot), snapshots)
        return {manifest.manifest_path: manifest for found in lists for manifest in found}


def _manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot if its list is whole: readers take a cut between two blocks for its end."""
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
    """Files, of rows and of deletes, that each manifest lists as part of the table: location → bytes.

    Entries of files that were removed do not count: a snapshot that still has such a file says so itself.

    Raises:
        FileNotFoundError: a manifest is gone.
        RetryableError: a manifest has fewer entries than its list says.
        OSError: the storage does not answer.
    """

    def read(manifest: ManifestFile) -> tuple[ManifestFile, dict[str, int]]:
        return manifest, _live(io, manifest)

    with ThreadPoolExecutor(_READERS, "manifests") as pool:
        yield from pool.map(read, manifests)


def sizes_of(io: FileIO, paths: Sequence[str]) -> dict[str, int]:
    """Bytes of files, each asked for; raises as ``manifests_of``."""
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
    """What is wrong with files that are missing or shorter than they were written, a text for each.

    Asks the storage for the length of each, in parallel. ``lent``: see ``reachable``.

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
