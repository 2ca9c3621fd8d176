"""Which files the snapshots of a table reach, read from their manifests."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.model.errors import RetryableError

_READERS = 8  # most of the time of a read is the storage's


def manifests_of(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """Manifests of data and of deletes that any of ``snapshots`` has, by path; several share most of theirs.

    Raises:
        FileNotFoundError: the list of a snapshot is gone.
        OSError: the storage does not answer.
    """
    with ThreadPoolExecutor(_READERS, "manifest lists") as pool:
        lists = pool.map(lambda snapshot: snapshot.manifests(io), snapshots)
        return {manifest.manifest_path: manifest for found in lists for manifest in found}


def live_files(io: FileIO, manifests: Iterable[ManifestFile]) -> Iterable[tuple[ManifestFile, list[str]]]:
    """Locations of the files, of rows and of deletes, that each manifest lists as part of the table.

    Entries of files that were removed do not count: a snapshot that still has such a file says so itself.

    Raises:
        FileNotFoundError: a manifest is gone.
        RetryableError: a manifest has fewer entries than its list says.
        OSError: the storage does not answer.
    """

    def read(manifest: ManifestFile) -> tuple[ManifestFile, list[str]]:
        return manifest, _live(io, manifest)

    with ThreadPoolExecutor(_READERS, "manifests") as pool:
        yield from pool.map(read, manifests)


def _live(io: FileIO, manifest: ManifestFile) -> list[str]:
    found = [entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)]
    expected = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    if (
        len(found) < expected
    ):  # the reader takes the end of a file that was cut off for the end of its entries
        raise RetryableError(
            f"the manifest {manifest.manifest_path} has {len(found)} of {expected} files; it is damaged"
        )
    return found
