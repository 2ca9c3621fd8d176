"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections: a port that is kept from start to
# start must not be lent to a connection while the server is down.
_PORTS = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do it: the remains of closed connections are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def accepts(port: int) -> bool:
    """Whether a server accepts connections on the port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def choose(besides: set[int]) -> int:
    """A free port that is not one of ``besides``."""
    # Random, so that two stacks that start at the same moment seldom meet.
    return next(port for port in random.sample(_PORTS, len(_PORTS)) if port not in besides and is_free(port))
