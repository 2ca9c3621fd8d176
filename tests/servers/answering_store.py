"""An object store, by name only: whatever it is asked, it gives the one answer that it was told to give."""

from __future__ import annotations

import http.server
import threading
from typing import Any, Self


class AnsweringStore:
    """Listens from ``with`` on; set ``status``, ``body`` and ``headers`` at any time."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        self.headers: dict[str, str] = {}
        self.requests: list[str] = []
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                store.requests.append(f"{self.command} {self.path}")
                body = b"" if self.command == "HEAD" else store.body
                self.send_response(store.status)
                for name, value in store.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - http.server's names

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False  # they are waited for as it closes
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.address = f"127.0.0.1:{self._server.server_port}"

    def aws_error(self, code: str, status: int, **headers: str) -> None:
        """Answer as S3 does."""
        self.status, self.headers = status, {name.replace("_", "-"): one for name, one in headers.items()}
        self.body = f"<Error><Code>{code}</Code><Message>words of {code}</Message></Error>".encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
