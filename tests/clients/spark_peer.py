"""A client of Spark's and Py4J's ports without a secret, such as another user of the machine."""

from __future__ import annotations

import contextlib
import socket
import struct

_CHUNK, _CHUNK_DATA, _REQUEST, _RESPONSE = 0, 1, 3, 4
_OPEN_BLOCKS, _HANDLE = 0, 3
_LIMIT_S = 120


class SparkPeer:
    """A connection to the RPC or the block manager of a driver."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S)

    def fetch(self, block: str) -> bytes:
        """The bytes of a block; raises PermissionError with the answer if there are none."""
        with self._socket:
            text = struct.pack(">b", _OPEN_BLOCKS) + _text("app") + _text("driver") + struct.pack(">i", 1)
            body = text + _text(block)
            kind, answer = self._ask(struct.pack(">bqi", _REQUEST, 1, len(body)) + body)
            if kind != _RESPONSE:
                raise PermissionError(answer.decode("utf-8", "replace"))
            handle, stream, _ = struct.unpack(">bqi", answer[12:25])
            assert handle == _HANDLE, answer
            kind, answer = self._ask(struct.pack(">bqi", _CHUNK, stream, 0))
            assert kind == _CHUNK_DATA, answer
            return answer[12:]

    def _ask(self, message: bytes) -> tuple[int, bytes]:
        self._socket.sendall(struct.pack(">q", len(message) + 8) + message)
        (length,) = struct.unpack(">q", self._read(8))
        (kind,) = struct.unpack(">b", self._read(1))
        return kind, self._read(length - 9)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise PermissionError("the connection was closed")
            data += more
        return data


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def call_python(port: int, name: str, method: str) -> str:
    """The answer to a call of an object behind Py4J's callback server, or "refused"."""
    with socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S) as connection:
        connection.sendall(f"c\n{name}\n{method}\ne\n".encode())
        with contextlib.suppress(ConnectionResetError):  # rather than an end, as some of it was not read
            if (answer := connection.makefile("r").read()) != "!x\n":
                return answer
    return "refused"
