"""S3, Glue and S3 Tables by moto, as a separate process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import boto3

from tabletopic_kernel.local import machine, processes

# Before the command of a server: a run of tests that is killed leaves none behind.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
KEY, SECRET, REGION = "aws-key", "aws-secret", "eu-central-1"


class Aws:
    """Listens on a free port from ``with`` on; its contents end with it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "aws.log"
        self.port = machine.free_port(set())
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The endpoint of every service."""
        return f"http://127.0.0.1:{self.port}"

    def client(self, service: str) -> Any:
        """A client of one service."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
        )

    def bucket(self, name: str) -> str:
        """Create a bucket; returns its name."""
        self.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """[catalog] properties for a table's storage there; ``endpoint``: of a server in front of it."""
        return {
            "s3.endpoint": endpoint or self.url,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }

    def glue(self, endpoint: str | None = None) -> dict[str, str]:
        """[catalog] properties for its Glue, without a warehouse."""
        return {
            "type": "glue",
            "glue.endpoint": endpoint or self.url,
            "glue.access-key-id": KEY,
            "glue.secret-access-key": SECRET,
            "glue.region": REGION,
        }

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *DIE_WITH_PARENT,
                    sys.executable,
                    "-m",
                    "moto.server",
                    "-H",
                    "127.0.0.1",
                    "-p",
                    str(self.port),
                ],
                env=processes.environment(),
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 240
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/moto-api/", timeout=5).close()
                return self
            except OSError:
                assert self._process.poll() is None, self._log.read_text()[-3000:]
                assert time.monotonic() < deadline, self._log.read_text()[-3000:]
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
