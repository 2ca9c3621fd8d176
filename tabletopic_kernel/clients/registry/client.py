"""Confluent's registry client, which reaches this machine's servers without the environment's proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient

from tabletopic_kernel.clients.proxies import LOOPBACK


def registry_client(properties: Mapping[str, Any]) -> SchemaRegistryClient:
    """The client with these properties; raises what Confluent's raises."""
    client = SchemaRegistryClient.new_client(dict(properties))
    rest: Any = client._rest_client  # it has no parameter for its HTTP session
    if rest.proxy is None:
        mounts = {f"all://{f'[{host}]' if ':' in host else host}": None for host in LOOPBACK}
        new_session = type(rest.session)
        rest.session.close()
        rest.session = new_session(verify=rest.verify, auth=rest.auth, timeout=rest.timeout, mounts=mounts)
    return client
