"""Which files are merged, so that few are left and none is written again often."""

from __future__ import annotations

from collections.abc import Mapping


def files_to_merge(sizes: Mapping[str, int], more: int = 0, *, least: int = 0, ratio: int = 1) -> list[str]:
    """The files to merge, with ``more``: without each that is so many times as large as all smaller ones.

    So what is in a file is written again when that part of it has come, not with every merge.

    >>> files_to_merge({"a": 100, "b": 5, "c": 4}, 1)
    ['c', 'b']
    """
    small, least = sorted(sizes, key=sizes.__getitem__), max(0, least)
    while len(small) > least and sizes[small[-1]] > ratio * (more + sum(sizes[path] for path in small[:-1])):
        small.pop()
    return small
