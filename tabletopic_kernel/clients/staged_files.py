"""A look at staged files before they become part of a table: is each there, and whole?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile

from tabletopic_kernel.clients.catalog import reachable

_AT_ONCE = 16  # requests of an object store; each takes some ten milliseconds, most of them waiting


def unreadable(io: FileIO, files: Sequence[DataFile]) -> list[str]:
    """What is wrong with files that are missing or shorter than they were written, a text for each.

    Asks the storage for the length of each, in parallel.

    Raises:
        RetryableError: the storage does not answer.
    """

    def look(file: DataFile) -> str | None:
        try:
            there = len(io.new_input(file.file_path))
        except FileNotFoundError:
            return f"{file.file_path} is missing"
        if there < file.file_size_in_bytes:
            return f"{file.file_path} has {there} of {file.file_size_in_bytes} bytes"
        return None

    with reachable("the storage"):
        if len(files) == 1:
            found = [look(files[0])]
        else:
            with ThreadPoolExecutor(_AT_ONCE, "staged files") as pool:
                found = list(pool.map(look, files))
    return [fault for fault in found if fault is not None]
