"""A state folder's records of its servers, in ``stack.json``, and their login.

The login is one user, whose password is in the folder. Without a login, every user of the machine may read
and write topics and schemas, and so decide by the settings topic what hosts run. Broker, registry and clients
read the password from files: read access to the state folder is access to the servers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tabletopic_kernel.local import folder, processes
from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.local.processes import ProcessId
from tabletopic_kernel.model.errors import StackError

USER = "tabletopic"
PASSWORD_FILE = "password"
_PASSWORD_BYTES = 24


def make_password(state_dir: Path) -> None:
    """Create a password unless there is one: hosts that outlive their servers know it. Raises OSError."""
    if not (state_dir / PASSWORD_FILE).exists():
        write_whole(state_dir / PASSWORD_FILE, secrets.token_urlsafe(_PASSWORD_BYTES))


def read_password(state_dir: Path) -> str:
    """The password; raises StackError if it is missing or belongs to another user."""
    path = state_dir / PASSWORD_FILE
    try:
        return path.read_text("ascii").strip()
    except OSError as error:
        raise StackError(
            f"the local stack requires a login, but {path} cannot be read ({error.strerror}); if it was "
            "removed, stop the stack with `tabletopic down` and start it again"
        ) from error


def kafka_login(password: str) -> dict[str, str]:
    """The login as librdkafka's properties."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }


def registry_login(password: str) -> dict[str, str]:
    """The login as properties of Confluent's registry client."""
    return {"basic.auth.user.info": f"{USER}:{password}"}


_FILE = "stack.json"
_FORMAT = 1


@dataclass(frozen=True)
class ServerRecord:
    """One server: its ports (kept while it is down), its process, whether it has answered.

    ``login``: whether it requires a login, or did at its last start.
    """

    ports: dict[str, int] = field(default_factory=dict)
    process: ProcessId | None = None
    ready: bool = False
    login: bool = False


@dataclass(frozen=True)
class StackInfo:
    """A running stack, for clients. All paths are absolute.

    The address of a server that was never started is empty. ``catalog`` has PyIceberg's properties plus
    ``name``; ``started`` names the servers this call started, ``ended`` those that ended by themselves,
    ``starting`` those that do not respond yet.
    """

    bootstrap_servers: str
    registry_url: str
    catalog: dict[str, str]
    state_dir: Path
    pids: dict[str, int]
    started: tuple[str, ...] = ()
    # Needed besides the addresses if the servers require a login; for librdkafka and the registry's client.
    kafka_login: dict[str, str] = field(default_factory=dict, repr=False)
    registry_login: dict[str, str] = field(default_factory=dict, repr=False)
    ended: tuple[str, ...] = ()
    starting: tuple[str, ...] = ()


def load(state_dir: Path) -> dict[str, ServerRecord]:
    """The records by server name; empty before the first start. Raises StackError if unreadable."""
    path = state_dir / _FILE
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT:
            raise StackError(
                f"{path} was written by another version of tabletopic: stop its servers with that version."
            )
        return {name: _record(fields) for name, fields in content["servers"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise StackError(
            f"{path} cannot be read ({error.strerror or error}): choose another state folder, or have its "
            "owner give you access"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackError(f"{path} is damaged ({error}): remove it; the data stays.") from error


def save(state_dir: Path, servers: dict[str, ServerRecord]) -> None:
    """Write all records atomically. Raises OSError."""
    content = {"format": _FORMAT, "servers": {name: asdict(record) for name, record in servers.items()}}
    write_whole(state_dir / _FILE, json.dumps(content, indent=1))


def _record(fields: dict[str, Any]) -> ServerRecord:
    process = fields["process"]
    return ServerRecord(**{**fields, "process": ProcessId(**process) if process else None})


class Recorded(dict[str, ServerRecord]):
    """The records of these servers of a state folder; changes are kept by ``save``. Raises as ``load``."""

    def __init__(self, state_dir: Path, names: Iterable[str]) -> None:
        recorded = load(state_dir)
        super().__init__({name: recorded.get(name, ServerRecord()) for name in names})
        self._state_dir = state_dir
        if folder.origin(state_dir) is not None:
            # The processes are those of another place, perhaps of another folder.
            for name in self:
                self.change(name, process=None, ready=False)

    def change(self, name: str, **fields: Any) -> None:
        """Change fields of a server's record."""
        self[name] = replace(self[name], **fields)

    def is_alive(self, name: str) -> bool:
        """Whether the recorded process runs, and is the server."""
        process = self[name].process
        return process is not None and processes.is_alive(process, processes.mark(name, self._state_dir))

    def save(self) -> None:
        """Write all records; raises OSError."""
        save(self._state_dir, self)
