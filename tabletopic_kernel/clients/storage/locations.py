"""Locations of files in a normal form: tables, catalogs and engines spell them in several ways."""

from __future__ import annotations

import posixpath
import re

# Schemes of the same kind of storage: a file may be named by any of them.
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
_LOCATION = re.compile(r"(?:([a-z][a-z0-9+.-]*):(?!\\)(?://([^/]*))?)?(.*)", re.IGNORECASE | re.DOTALL)


def normal_location(text: str) -> str:
    """The normal form of a location, for comparison: scheme, authority, path.

    The path is a key, not a URL: its case and its percent signs stay.

    >>> {normal_location(f"{x}/lake/t/") for x in ("", "file:", "file://", "file:///", "file://localhost")}
    {'file:///lake/t'}
    >>> normal_location("s3a://Bucket//A%20b") == normal_location("s3://bucket/A%20b")
    True
    >>> normal_location("lake/t")
    'file://lake/t'
    """
    match = _LOCATION.fullmatch(text)
    assert match is not None
    scheme, authority, path = (part or "" for part in match.groups())
    scheme = _SAME.get(scheme.lower(), scheme.lower() or "file")
    if scheme == "file":  # of one machine, with or without its name
        authority, path = "", posixpath.normpath(path) if path else path
    return f"{scheme}://{authority.lower()}{re.sub('/+', '/', path).rstrip('/')}"


def file_name(location: str) -> str:
    """The last part of a location, which is the same in every spelling.

    >>> file_name("s3://b/x/epoch-00000001/4f.parquet")
    '4f.parquet'
    """
    return location.rstrip("/").rpartition("/")[2]
