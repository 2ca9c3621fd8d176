"""The schemas to which a registered schema refers, and to which these refer."""

from __future__ import annotations

from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.clients.registry.answers import checked_place
from tabletopic_kernel.clients.registry.connection import Connection
from tabletopic_kernel.clients.registry.errors import UnknownSchemaError

_MOST_LEVELS = 100  # of references


def references_of(schema: Schema, connection: Connection) -> dict[str, str]:
    """The texts of all schemas that ``schema`` needs, by the name in its reference, those they need first.

    Raises:
        UnknownSchemaError: one is missing. Also as ``Connection.ask``.
    """
    texts: dict[str, str] = {}

    def collect(schema: Schema, above: tuple[tuple[str, int], ...]) -> None:
        for reference in schema.references or []:
            name, place = reference.name or "", (reference.subject or "", reference.version or -1)
            if name in texts or place in above:  # circular: the format decides about that
                continue
            if len(above) >= _MOST_LEVELS:
                raise UnknownSchemaError(
                    f"the registry at {connection.url} has a chain of more than {_MOST_LEVELS} references"
                )
            referred = _referred(connection, *place)
            collect(referred, (*above, place))
            texts[name] = referred.schema_str or ""

    collect(schema, ())
    return texts


def _referred(connection: Connection, subject: str, version: int) -> Schema:
    ask, asked_version = connection.client.get_version, version if version > 0 else None
    registered = connection.ask(
        f"{subject} version {version}",
        lambda: checked_place(ask(subject, version, deleted=True), subject, asked_version),
    )
    schema: Schema = registered.schema
    return schema
