"""The servers in force: those of the settings, and the embedded stack's where the settings name none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tabletopic_kernel.model.errors import RetryableError, SettingsError, StackError
from tabletopic_kernel.model.redact import learn, mask_property
from tabletopic_kernel.model.settings.sections import Settings, names_registry


@dataclass(frozen=True)
class Away:
    """Servers of the embedded stack that ended by themselves, and those that do not answer yet."""

    ended: tuple[str, ...]
    starting: tuple[str, ...]
    state_dir: Path

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.ended, *self.starting)

    def __str__(self) -> str:
        """What is away, and what to do; empty if nothing is."""
        return self.message("`tabletopic up` starts what is missing, the logs are in")

    def message(self, next_step: str = "the logs are in") -> str:
        """What is away, for who has a button beside it; empty if nothing is."""
        if self.ended:
            return (
                f"the local stack's {' and '.join(self.ended)} {_has(self.ended)} ended; "
                f"{next_step} {self.state_dir / 'logs'}"
            )
        if self.starting:
            return f"the local stack's {' and '.join(self.starting)} {_is(self.starting)} starting"
        return ""

    def check(self, name: str) -> None:
        """Say so if ``name`` is one of them.

        Raises:
            StackError: it has ended.
            RetryableError: it is starting.
        """
        if name in self.ended:
            raise StackError(str(self))
        if name in self.starting:
            raise RetryableError(f"{self}: try again in a moment")


@dataclass(frozen=True)
class Servers:
    """The servers in force: properties of librdkafka, of the registry client, of PyIceberg.

    ``local`` names those of the embedded stack.
    """

    kafka: dict[str, str]
    registry: dict[str, str]
    catalog: dict[str, str]
    state_dir: Path
    local: tuple[str, ...] = ()

    def away(self) -> Away:
        """Which of the embedded stack's servers do not run now; asks none, takes milliseconds.

        Raises:
            StackError: the state folder is damaged.
        """
        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil

        stack = LocalStack(self.state_dir).known() if self.local else None
        if stack is None:  # stopped, and that is not for these addresses to say
            return Away((), (), self.state_dir)
        ended = tuple(name for name in stack.ended if name in self.local)
        starting = tuple(name for name in stack.starting if name in self.local)
        return Away(ended, starting, self.state_dir)

    def __repr__(self) -> str:
        sections = {
            section: {name: mask_property(name, value) for name, value in getattr(self, section).items()}
            for section in ("kafka", "registry", "catalog")
        }
        return (
            f"Servers({', '.join(f'{name}={value!r}' for name, value in sections.items())}, {self.state_dir})"
        )


def find_servers(settings: Settings) -> Servers:
    """Servers from the settings; those that are absent are the embedded stack's.

    A stack of which a server has ended is still the one in force: hosts wait for it, and the others answer.
    ``Servers.away`` says which that is.

    Raises:
        SettingsError: some are absent, and no stack was started.
    """
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil and pyiceberg's settings

    for properties in (settings.kafka, settings.registry, settings.catalog, settings.spark.conf):
        learn(properties)
    state_dir = Path(settings.state_dir).expanduser().absolute()
    kafka, registry, catalog = dict(settings.kafka), dict(settings.registry), dict(settings.catalog)
    own_kafka = "bootstrap.servers" in kafka or "metadata.broker.list" in kafka
    own_registry, own_catalog = names_registry(registry), bool(set(catalog) - {"name"})
    if not (own_kafka and own_registry and own_catalog):
        stack = LocalStack(state_dir).known()
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
    local = tuple(name for name, own in (("kafka", own_kafka), ("registry", own_registry)) if not own)
    return Servers(kafka, registry, {"name": "lake", **catalog}, state_dir, local)


def _has(names: tuple[str, ...]) -> str:
    return "has" if len(names) == 1 else "have"


def _is(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"
