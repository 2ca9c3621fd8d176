"""The login of the embedded servers: one user, whose password lies in the state folder.

Without it every user of the machine may read and write topics and schemas, and whoever writes the settings
topic decides what hosts run. Broker and registry learn the password from files, and so do clients: whoever
can read the state folder is let in.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from tabletopic_kernel.local.files import write_whole
from tabletopic_kernel.model.errors import StackError

USER = "tabletopic"
FILE = "password"
_BYTES = 24


def make_password(state_dir: Path) -> None:
    """Make one, unless there is one: it stays, for hosts outlive their servers. Raises OSError."""
    if not (state_dir / FILE).exists():
        write_whole(state_dir / FILE, secrets.token_urlsafe(_BYTES))


def read_password(state_dir: Path) -> str:
    """The password; raises StackError where it is not there, or another's."""
    path = state_dir / FILE
    try:
        return path.read_text("ascii").strip()
    except OSError as error:
        raise StackError(
            f"the local stack asks for a login, and {path} cannot be read ({error.strerror}); if it was "
            "removed, stop the stack with `tabletopic down` and start it again"
        ) from error


def kafka_properties(password: str) -> dict[str, str]:
    """The login as librdkafka's properties."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }


def registry_properties(password: str) -> dict[str, str]:
    """The login as those of Confluent's registry client."""
    return {"basic.auth.user.info": f"{USER}:{password}"}
