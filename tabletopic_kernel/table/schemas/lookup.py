"""Schemas that records name, asked of the registry: many at once where records are garbage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tabletopic_kernel.clients.registry import RegisteredSchema, UnknownSchemaError
from tabletopic_kernel.formats.wire import SchemaKey, age
from tabletopic_kernel.model.errors import RetryableError

Find = Callable[[SchemaKey], RegisteredSchema]
Found = RegisteredSchema | UnknownSchemaError
# To registries an id is a signed integer of 32 bits; a larger one is not worth a question.
_MAX_ID: Final = 2**31 - 1
# More are asked for by several threads: a question is a few milliseconds of waiting.
_FEW: Final = 16
_THREADS: Final = 8


def look_up(find: Find, ids: Collection[SchemaKey]) -> Iterator[tuple[SchemaKey, Found]]:
    """What the registry has for each id, older schemas first; raises as ``find`` but for what is unknown."""
    ordered = sorted(ids, key=age)
    if len(ordered) <= _FEW:
        yield from ((one, _one(find, one)) for one in ordered)
        return
    with ThreadPoolExecutor(_THREADS, "registry") as pool:
        try:
            yield from zip(ordered, pool.map(lambda one: _one(find, one), ordered), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # after trouble nobody waits for the rest


def _one(find: Find, key: SchemaKey) -> Found:
    if isinstance(key, int) and key > _MAX_ID:
        return UnknownSchemaError(f"no registry has a schema id as large as {key}")
    try:
        return find(key)
    except UnknownSchemaError as error:
        return error


def check_same(find: Find, found: RegisteredSchema) -> None:
    """See that the registry gives the same schema again; raises RetryableError where it does not."""
    if find(found.id).text != found.text:
        raise RetryableError(f"the registry gave two different schemas for {found.id}; it is asked again")
