"""Confluent's registry client, which reaches this machine's servers without the environment's proxy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient

from tabletopic_kernel.clients.proxies import LOOPBACK


class _NoCache:
    """In place of the client's cache, which fails with a schema whose metadata has tags."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def registry_client(properties: Mapping[str, Any]) -> SchemaRegistryClient:
    """The client with these properties; raises what Confluent's raises."""
    client = SchemaRegistryClient.new_client(dict(properties))
    client._cache = _NoCache()  # type: ignore[assignment]
    http: Any = client._rest_client  # it has no parameter for its HTTP session
    if http.proxy is None:
        mounts = {f"all://{f'[{host}]' if ':' in host else host}": None for host in LOOPBACK}
        new_session = type(http.session)
        http.session.close()
        http.session = new_session(verify=http.verify, auth=http.auth, timeout=http.timeout, mounts=mounts)
    return client
