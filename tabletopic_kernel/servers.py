"""The servers in force: those of the settings, and the embedded stack's where the settings name none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tabletopic_kernel.core.errors import SettingsError
from tabletopic_kernel.core.redact import learn, shown
from tabletopic_kernel.core.settings import Settings


@dataclass(frozen=True)
class Servers:
    """The servers in force: properties of librdkafka, of the registry client, of PyIceberg."""

    kafka: dict[str, str]
    registry: dict[str, str]
    catalog: dict[str, str]
    state_dir: Path

    def __repr__(self) -> str:
        told = {
            section: {name: shown(name, value) for name, value in getattr(self, section).items()}
            for section in ("kafka", "registry", "catalog")
        }
        return f"Servers({', '.join(f'{name}={value!r}' for name, value in told.items())}, {self.state_dir})"


def find_servers(settings: Settings, *, whole: bool = False) -> Servers:
    """Servers from the settings; those that are absent are the embedded stack's.

    A stack whose registry has ended will do, as table topics go on without it, unless it must be ``whole``.

    Raises:
        SettingsError: some are absent and no stack runs, or a server of it has ended.
    """
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil and pyiceberg's settings

    for properties in (settings.kafka, settings.registry, settings.catalog, settings.spark.conf):
        learn(properties)
    state_dir = Path(settings.state_dir).expanduser().absolute()
    kafka, registry, catalog = dict(settings.kafka), dict(settings.registry), dict(settings.catalog)
    own_kafka = "bootstrap.servers" in kafka or "metadata.broker.list" in kafka
    own_registry, own_catalog = "url" in registry, bool(set(catalog) - {"name"})
    if not (own_kafka and own_registry and own_catalog):
        local = LocalStack(state_dir)
        stack = local.info()
        if stack is None and not whole:
            stack = local.without_registry()
        if stack is None and (ended := local.ended()):
            raise SettingsError(
                f"the local stack's {' and '.join(ended)} {'has' if len(ended) == 1 else 'have'} ended; "
                f"`tabletopic up` starts what is missing, the logs are in {state_dir / 'logs'}"
            )
        if stack is None:
            missing = [
                name
                for name, own in (("kafka", own_kafka), ("registry", own_registry), ("catalog", own_catalog))
                if not own
            ]
            raise SettingsError(
                f"no servers for [{'], ['.join(missing)}]: start the local stack with `tabletopic up`, "
                "or name yours in tabletopic.toml"
            )
        learn({**stack.kafka_login, **stack.registry_login})
        if not own_kafka:
            kafka = {**kafka, "bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login}
        if not own_registry:
            registry = {**registry, "url": stack.registry_url, **stack.registry_login}
        catalog = catalog if own_catalog else {**stack.catalog, **catalog}
    return Servers(kafka, registry, {"name": "lake", **catalog}, state_dir)
