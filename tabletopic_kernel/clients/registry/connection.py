"""One registry's client, and how it is asked: the login, and the explanation of a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel.clients.login_gate import LoginGate
from tabletopic_kernel.clients.proxies import proxy_hint
from tabletopic_kernel.clients.registry import errors
from tabletopic_kernel.clients.registry.answers import OddAnswerError, checked_place
from tabletopic_kernel.clients.registry.client import registry_client
from tabletopic_kernel.clients.registry.glue_schemas import GlueSchemas
from tabletopic_kernel.model.errors import RetryableError, SettingsError
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.servers import is_glue

T = TypeVar("T")
# Codes for subject, version and schema. A 404 without a code comes from something other than a registry, and
# proves nothing about a schema: with a wrong url every record would become a dead letter (I9).
_NOT_FOUND = frozenset({40401, 40402, 40403})
# The client's own retries would block a thread; waiting is up to the coordinator (I9).
_CLIENT_DEFAULTS = {"max.retries": 1, "timeout": 10}
_MOST_LEVELS = 100  # of references


class Connection:
    """To one registry; the arguments are those of ``Registry``."""

    def __init__(self, properties: Mapping[str, str], check: Callable[[], None]) -> None:
        self._check = check
        self._gate = LoginGate()
        self.url = mask(properties.get("url", ""))  # for messages; the credentials are in the client
        self._properties = dict(properties)
        self.client: Any  # Confluent's methods, for which it has no type
        if is_glue(properties):
            self.client = glue = GlueSchemas(properties)
            self.url = f"glue:{glue.name}"
            return
        try:
            self.client = registry_client({**_CLIENT_DEFAULTS, **errors.client_properties(properties)})
        except (ValueError, TypeError, OSError) as error:
            raise errors.explain_unusable(properties, error) from error

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """The response to a request; raises UnknownSchemaError, or another error with its remedy."""
        self._gate.check()
        try:
            return self._call(what, call)
        except (RetryableError, SettingsError) as error:
            if "proxy" not in self._properties:
                error.args = (f"{error}{proxy_hint(self._properties.get('url', ''))}",)
            raise

    def _call(self, what: str, call: Callable[[], T]) -> T:
        self.client.clear_caches()  # the client would keep every response for ever
        try:
            return call()
        except OddAnswerError as error:
            raise errors.invalid(self.url, what, str(error)) from error
        except SchemaRegistryError as error:
            if error.error_code in _NOT_FOUND:
                raise errors.UnknownSchemaError(f"the registry at {self.url} has no {what}") from error
            refusal = errors.explain_refusal(self.url, what, self._properties, error)
            self._gate.note(refusal)
            raise refusal from error
        except Exception as error:  # the HTTP library's errors have no public base class
            self._check()
            raise errors.explain_failure(self.url, what, error) from error


def references_of(schema: Schema, connection: Connection) -> dict[str, str]:
    """The texts that ``schema`` needs, by name, those that they need first; raises UnknownSchemaError."""
    texts: dict[str, str] = {}

    def collect(schema: Schema, above: tuple[tuple[str, int], ...]) -> None:
        for reference in schema.references or []:
            name, place = reference.name or "", (reference.subject or "", reference.version or -1)
            if name in texts or place in above:  # circular: the format decides about that
                continue
            if len(above) >= _MOST_LEVELS:
                raise errors.UnknownSchemaError(
                    f"the registry at {connection.url} has a chain of more than {_MOST_LEVELS} references"
                )
            referred = _referred(connection, *place)
            collect(referred, (*above, place))
            texts[name] = referred.schema_str or ""

    collect(schema, ())
    return texts


def _referred(connection: Connection, subject: str, version: int) -> Schema:
    ask, asked_version = connection.client.get_version, version if version > 0 else None
    schema: Schema = connection.ask(
        f"{subject} version {version}",
        lambda: checked_place(ask(subject, version, deleted=True), subject, asked_version).schema,
    )
    return schema
