"""Table properties in settings: names that Iceberg's writers know, and values that they accept."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

# Iceberg's documentation, "Configuration": table properties, and those of its name mapping and Hive tables.
_PREFIXES: Final = ("write.", "read.", "commit.", "history.", "compatibility.", "engine.hive.", "schema.")
_NAMES: Final = frozenset({"format-version", "gc.enabled", "comment", "owner"})
_CLASS = re.compile(r"(?:^|[.-])(?:impl|factory|credentials-provider)$")
_PATHS: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_CODEC, _LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
# Parquet's codecs that PyArrow and Iceberg's Java both write, with their levels.
_LEVELS: Final = {
    "zstd": range(-7, 23),
    "gzip": range(10),
    "brotli": range(12),
    "lz4": range(0),
    "snappy": range(0),
    "uncompressed": range(0),
}


def names_class(name: str) -> bool:
    """Whether the value of a property with this name is a class that some engine loads.

    >>> names_class("py-io-impl"), names_class("write.location-provider.impl"), names_class("write.simple")
    (True, True, False)
    """
    return _CLASS.search(name) is not None


def checked(properties: dict[str, str]) -> dict[str, str]:
    """The properties; raises ValueError, with the remedy, for one that no table topic may set."""
    for name in properties:
        if names_class(name) or not (name.startswith(_PREFIXES) or name in _NAMES):
            raise ValueError(
                f"{name!r} is not a property for Iceberg's writers; they read {', '.join(_PREFIXES)} and "
                f"{', '.join(sorted(_NAMES))}, without those that name a class"
            )
    check_compression(properties)
    return properties


def check_compression(properties: Mapping[str, str]) -> None:
    """Check codec and level of new Parquet files; raises ValueError with those that are possible."""
    codec, level = properties.get(_CODEC, "zstd").lower(), properties.get(_LEVEL)
    if (levels := _LEVELS.get(codec)) is None:
        raise ValueError(f"{_CODEC}: {codec!r} is not one of {', '.join(_LEVELS)}")
    if level is not None and level not in map(str, levels):
        known = f"has the levels {levels[0]} to {levels[-1]}" if levels else "has no levels: remove it"
        raise ValueError(f"{_LEVEL}: {level!r} is not possible, as {codec} {known}")


def outside(properties: Mapping[str, str], warehouse: str | None) -> str | None:
    """The first property with a path outside the warehouse; None also if the catalog chooses the warehouse.

    >>> outside({"write.data.path": "s3a://lake/w/../x"}, "s3://lake/w")
    'write.data.path'
    >>> outside({"write.data.path": "file:/lake/x"}, "file:///lake")
    """
    if warehouse is None:
        return None
    inside = _uri(warehouse)
    return next(
        (name for name in _PATHS if name in properties and not _uri(properties[name]).startswith(inside)),
        None,
    )


def _uri(location: str) -> str:
    scheme, _, path = location.rpartition("://")
    if not scheme or scheme == "file":
        scheme, path = "file", f"/{path.removeprefix('file:').lstrip('/')}"
    return f"{scheme.replace('s3a', 's3').replace('s3n', 's3')}:{posixpath.normpath(path)}/"
