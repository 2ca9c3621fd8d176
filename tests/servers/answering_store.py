"""A fake object store: every request gets the one configured response."""

from __future__ import annotations

from tests.servers.http_server import Handler, HttpServer


class AnsweringStore(HttpServer):
    """Listens from ``with`` on; set ``status``, ``body`` and ``headers`` at any time."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        self.headers: dict[str, str] = {}
        self.requests: list[str] = []
        store = self

        class AsTold(Handler):
            def _answer(self) -> None:
                self.body()
                store.requests.append(f"{self.command} {self.path}")
                self.give(store.status, store.body, store.headers)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - http.server's names

        super().__init__(AsTold)

    def aws_error(self, code: str, status: int, **headers: str) -> None:
        """Respond like S3."""
        self.status, self.headers = status, {name.replace("_", "-"): one for name, one in headers.items()}
        self.body = f"<Error><Code>{code}</Code><Message>words of {code}</Message></Error>".encode()
