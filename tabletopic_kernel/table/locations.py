"""One normal form of the locations that tables, catalogs and listings name files by."""

from __future__ import annotations

import posixpath
import re

# Names of one kind of storage: the same file may be named by any of them.
_SAME = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "viewfs": "hdfs",
}
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?!\\)")


def normal_location(text: str) -> str:
    """The location as every spelling of it is compared: scheme, authority, path.

    Spellings that may name one file are made one; that can keep a file too many, never one too few. The path
    is a key and no URL: its case and its percent signs stay.

    >>> {normal_location(f"{x}/lake/t/") for x in ("", "file:", "file://", "file:///", "file://localhost")}
    {'file:///lake/t'}
    >>> normal_location("s3a://Bucket//A%20b") == normal_location("s3://bucket/A%20b")
    True
    >>> normal_location("hdfs://nn:8020/x"), normal_location("lake/t")
    ('hdfs:///x', 'file://lake/t')
    """
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else "file"
    scheme = _SAME.get(scheme, scheme)
    rest = text[found.end() :] if found else text
    authority = ""
    if found and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        authority = authority.lower().replace(".blob.", ".dfs.")
    if scheme in ("file", "hdfs"):  # one machine's or one cluster's: with or without its name
        authority = ""
        rest = posixpath.normpath(rest) if rest else rest
    return f"{scheme}://{authority}{re.sub('/+', '/', rest).rstrip('/')}"


def file_name(location: str) -> str:
    """The last part of a location.

    >>> file_name("s3://b/x/epoch-00000001/4f.parquet")
    '4f.parquet'
    """
    return location.rstrip("/").rpartition("/")[2]
