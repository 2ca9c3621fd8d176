"""Our catalogs: PyIceberg's classes, with other helpers below their methods.

A method of PyIceberg's catalogs looks up its helpers, such as the reader of metadata files, in its module.
Ours is the same code with some of these names replaced. To be needless, PyIceberg's catalogs would have to
take them as arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Properties

from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import renamed
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import (
    MetadataFiles,
    OwnTable,
    location_provider,
)

_NAMES = {
    "FromInputFile": MetadataFiles,
    "ToOutputFile": MetadataFiles,
    "Table": OwnTable,
    "load_location_provider": location_provider,
}


class _Guarded(Catalog):
    """What neither a table's properties nor its metadata may choose (``guard``)."""

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        """Without ``properties``, the table's, which PyIceberg would have to tell from the catalog's."""
        return load_file_io(self.properties, location)


class _DeletesItsOwn(Catalog):
    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Only beside the newest file: the log may name any. PyIceberg would have to compare folders."""
        newest = metadata.metadata_log[-1].metadata_file if metadata.metadata_log else ""
        folder = newest.rpartition("/")[0]
        log = [entry for entry in base.metadata_log if entry.metadata_file.rpartition("/")[0] == folder]
        Catalog._delete_old_metadata(io, base.model_copy(update={"metadata_log": log}), metadata)


def own(catalog: Catalog) -> Catalog:
    """The same catalog, as one of ours."""
    if isinstance(catalog, _DeletesItsOwn):
        return catalog
    catalog.__class__ = own_class(type(catalog))
    return catalog


def hive_client(catalog: Catalog) -> Any:
    """The metastore's client, for what PyIceberg's catalog does not ask it; a context manager."""
    return catalog._client  # type: ignore[attr-defined]


@functools.cache
def own_class(kind: type[Catalog], **replacements: Any) -> type[Any]:
    """Our subclass of a catalog's class, with ``replacements`` of names that PyIceberg's methods look up."""
    bases = (_DeletesItsOwn, kind) if issubclass(kind, RestCatalog) else (_Guarded, _DeletesItsOwn, kind)
    names = {**_NAMES, **replacements}
    return type(kind.__name__, bases, {"__module__": __name__, **_methods(kind, names)})


def _methods(kind: type, names: Mapping[str, Any]) -> dict[str, Any]:
    methods = {}
    for name in dir(kind):
        defined = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
        method = getattr(defined, "__func__", defined)  # of a static or class method
        function = getattr(method, "__wrapped__", method)
        if not isinstance(function, FunctionType) or not function.__module__.startswith("pyiceberg."):
            continue
        if names.keys().isdisjoint(function.__code__.co_names):
            continue
        ours: Callable[..., Any] = renamed(function, **names)
        if function is not method:  # PyIceberg's REST catalog repeats some by tenacity
            ours = method.retry.wraps(ours)
        methods[name] = type(defined)(ours) if defined is not method else ours
    return methods
