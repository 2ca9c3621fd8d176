"""How much memory a process and those below it have."""

from __future__ import annotations

import psutil


def tree_memory_bytes(pid: int | None = None) -> int | None:
    """Resident memory of a process (None: this one) and of all below it; None where it cannot be read.

    Pages that several of them share count once for each. Processes that end meanwhile are left out.
    """
    try:
        root = psutil.Process(pid)
        members = [root, *root.children(recursive=True)]
        total = root.memory_info().rss
    except psutil.Error:
        return None
    for member in members[1:]:
        try:
            total += member.memory_info().rss
        except psutil.Error:
            continue
    return int(total)
