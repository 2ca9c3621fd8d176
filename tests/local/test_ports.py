"""Free ports."""

import socket

from tabletopic_kernel.local import machine


def test_a_listening_port_is_not_free() -> None:
    """A port on which somebody listens is refused, and accepts connections."""
    with socket.create_server((machine.LOOPBACK, 0)) as server:
        taken = server.getsockname()[1]
        assert not machine.is_free_port(taken)
        assert machine.is_listening(taken)
    assert machine.is_free_port(taken)
    assert not machine.is_listening(taken)


def test_a_server_on_every_interface_takes_the_port_too() -> None:
    """A server bound to all interfaces would catch our clients, so its port is not free."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not machine.is_free_port(server.getsockname()[1])


def test_chosen_ports_are_free_and_not_lent_to_connections(monkeypatch) -> None:
    """A chosen port is free, not one of those already given away, and below the ephemeral range."""
    first = machine.free_port(set())
    assert machine.is_free_port(first)
    assert first < 32_768
    monkeypatch.setattr(machine, "_PORTS", range(first, first + 3))
    monkeypatch.setattr(machine, "is_free", lambda port: port != first + 1)
    assert machine.free_port({first}) == first + 2
