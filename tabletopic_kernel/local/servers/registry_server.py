"""Apicurio Registry with its Confluent-compatible API, for this machine only.

How 3.3.3 differs from Confluent's: ids have gaps, because a rejected schema uses one up; Avro is returned in
another spelling (order and spaces) with the same meaning; responses have no GUID; ``GET /config/<subject>``
returns the global level for a subject without its own, not 404.
"""

from __future__ import annotations

import base64
import http.client
from pathlib import Path

from tabletopic_kernel.local import machine, state
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.java.jars import Jars
from tabletopic_kernel.local.machine import write_whole

NAME = "registry"
PORTS = ("http",)
LOG = "registry.log"
OLDEST_JAVA = 21

_SETTINGS = {
    "quarkus.http.host": machine.LOOPBACK,
    # Health and metrics would listen on a separate port without a login: fixed when Apicurio was built.
    "quarkus.management.host-enabled": "false",
    # It would look for a collector on port 4317.
    "quarkus.otel.sdk.disabled": "true",
    "quarkus.http.access-log.enabled": "false",
    "quarkus.log.console.enabled": "false",
    "quarkus.log.file.enabled": "true",
    "quarkus.log.file.path": "../logs/registry.log",
    "quarkus.log.file.rotation.max-file-size": "5M",
    "quarkus.log.file.rotation.max-backup-index": "2",
    "apicurio.storage.kind": "sql",
    "apicurio.storage.sql.kind": "h2",
    "apicurio.import.work-dir": ".",
    # Confluent's default; Apicurio's own is no rule at all. A rule that the user sets takes precedence.
    "apicurio.rules.global.compatibility": "BACKWARD",
}


# In a file that Quarkus reads from the working folder: everybody can read the command line. Apicurio
# evaluates the first one at run time, although Quarkus intends it for builds.
_LOGIN = """\
quarkus.http.auth.basic=true
quarkus.http.auth.permission.all.paths=/*
quarkus.http.auth.permission.all.policy=authenticated
quarkus.security.users.embedded.plain-text=true
quarkus.security.users.embedded.users.{user}={password}
quarkus.security.users.embedded.roles.{user}=sr-admin
"""


class RegistryServer:
    """The registry with data in ``folder``, on ``numbers["http"]``; a ``password`` means a login."""

    name = NAME

    def __init__(self, folder: Path, numbers: dict[str, int], password: str | None = None) -> None:
        self.folder = folder
        self.password = password
        self.ports = numbers

    @property
    def address(self) -> str:
        """The address for a Confluent registry client's ``url``."""
        return f"http://{machine.LOOPBACK}:{self.ports['http']}/apis/ccompat/v7"

    def prepare(self, installed: Jars) -> None:
        """Create the folder and the configuration. Raises OSError."""
        config = self.folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        text = _LOGIN.format(user=state.USER, password=self.password) if self.password else ""
        write_whole(config / "application.properties", text)

    def command(self, installed: Jars, its_mark: str) -> list[str]:
        """The command, to be run in ``folder``. Raises StackError if there is no suitable Java."""
        settings = {
            **_SETTINGS,
            "quarkus.http.port": str(self.ports["http"]),
            # Relative: a semicolon in the path of the state folder would begin H2's options, as it does here.
            # Without WRITE_DELAY=0 (25 ms per registration) a killed registry loses the last half second and
            # reassigns the lost ids to other schemas: existing records would be misread.
            "apicurio.datasource.url": "jdbc:h2:file:./registry;WRITE_DELAY=0",
        }
        # With only the first compiler it starts in 3 s instead of 4; it has little to do afterwards.
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
        options += jvm.archive_options(NAME)
        properties = [f"-D{key}={value}" for key, value in settings.items()]
        program = ["-jar", str(installed.folder / "registry" / "quarkus-run.jar")]
        return [str(jvm.java(OLDEST_JAVA)), its_mark, *options, *properties, *program]

    def is_ready(self) -> bool:
        """Whether it responds as a Confluent registry; takes two seconds at most."""
        connection = http.client.HTTPConnection(machine.LOOPBACK, self.ports["http"], timeout=2)
        try:
            connection.request("GET", "/apis/ccompat/v7/config", headers=self._headers())
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        if not self.password:
            return {}
        return {
            "Authorization": f"Basic {base64.b64encode(f'{state.USER}:{self.password}'.encode()).decode()}"
        }
