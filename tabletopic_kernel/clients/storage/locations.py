"""Locations of files in a normal form, however tables, catalogs and listings spell them."""

from __future__ import annotations

import posixpath
import re

# Schemes of the same kind of storage: a file may be named by any of them.
_SAME = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "viewfs": "hdfs",
}
_ACCOUNT = re.compile(r"(?:abfs|wasb)s?://[^/@]*@([^/]+)", re.IGNORECASE)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?!\\)")


def normal_location(text: str) -> str:
    """The normal form of a location, for comparison: scheme, authority, path.

    Spellings that may name the same file become one; that can keep a file too many, never one too few. The
    path is a key, not a URL: its case and its percent signs stay.

    >>> {normal_location(f"{x}/lake/t/") for x in ("", "file:", "file://", "file:///", "file://localhost")}
    {'file:///lake/t'}
    >>> normal_location("s3a://Bucket//A%20b") == normal_location("s3://bucket/A%20b")
    True
    >>> normal_location("wasbs://lake@acme.blob.core.windows.net/t") == normal_location("abfss://lake/t")
    True
    >>> normal_location("hdfs://nn:8020/x"), normal_location("lake/t")
    ('hdfs:///x', 'file://lake/t')
    """
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else "file"
    scheme = _SAME.get(scheme, scheme)
    rest = text[match.end() :] if match else text
    authority = ""
    if match and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        authority = authority.lower()
        if scheme == "abfs":  # a location may leave out the account
            authority = authority.partition("@")[0]
    if scheme in ("file", "hdfs"):  # of one machine or cluster: with or without its name
        authority = ""
        rest = posixpath.normpath(rest) if rest else rest
    return f"{scheme}://{authority}{re.sub('/+', '/', rest).rstrip('/')}"


def account_of(location: str) -> str:
    """The account in a location on Azure, with its host; empty if it leaves that to the settings.

    >>> account_of("wasbs://lake@Acme.blob.core.windows.net/t"), account_of("abfss://lake/t")
    ('acme.dfs.core.windows.net', '')
    """
    found = _ACCOUNT.match(location)
    return found[1].lower().replace(".blob.", ".dfs.") if found else ""


def file_name(location: str) -> str:
    """The last part of a location.

    >>> file_name("s3://b/x/epoch-00000001/4f.parquet")
    '4f.parquet'
    """
    return location.rstrip("/").rpartition("/")[2]
