"""What a state folder knows about its servers: ``stack.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tabletopic_kernel.local.files import write_whole
from tabletopic_kernel.local.processes.process import ProcessId
from tabletopic_kernel.model.errors import StackError

_FILE = "stack.json"
_FORMAT = 1


@dataclass(frozen=True)
class ServerRecord:
    """One server: its ports (kept while it is down), its process, whether it has answered.

    ``login``: it asks for one, or did when it was last started.
    """

    ports: dict[str, int] = field(default_factory=dict)
    process: ProcessId | None = None
    ready: bool = False
    login: bool = False


def load(state_dir: Path) -> dict[str, ServerRecord]:
    """The records by server name; empty before the first start. Raises StackError if unreadable."""
    path = state_dir / _FILE
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT:
            raise StackError(
                f"{path} was written by another version of tabletopic: stop its servers with that."
            )
        return {name: _record(**fields) for name, fields in content["servers"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackError(f"{path} is damaged ({error}): remove it; the data stay.") from error


def save(state_dir: Path, servers: dict[str, ServerRecord]) -> None:
    """Write all records in one step. Raises OSError."""
    content = {"format": _FORMAT, "servers": {name: asdict(record) for name, record in servers.items()}}
    write_whole(state_dir / _FILE, json.dumps(content, indent=1))


def _record(
    ports: dict[str, int], process: dict[str, float] | None, ready: bool, login: bool = False
) -> ServerRecord:
    identity = process and ProcessId(int(process["pid"]), float(process["start_time_s"]))
    return ServerRecord(
        {name: int(port) for name, port in ports.items()}, identity or None, bool(ready), bool(login)
    )
