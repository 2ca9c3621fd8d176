"""Errors as libraries raise them."""

from __future__ import annotations

import socket

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]


def error_of_an_ended_jvm() -> Exception:
    """An error that Java threw, of a JVM that has ended since: nobody listens at its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    thrown = JavaObject("o7", gateway._gateway_client)
    made: Exception = Py4JJavaError("An error occurred while calling o1.collect.\n", thrown)
    return made
