"""Chooses ports for the nodes of one machine, and checks that they are free."""

import socket
from collections.abc import Collection, Iterator

from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.local.node_files import HOST
from odradek.text.errors import UserError

# Controller ports start this far above the broker ports, which leaves room for more brokers.
CONTROLLER_DISTANCE = 1000
# The ports of http.address start this far above the broker ports.
HTTP_DISTANCE = 2000
# The ports of the listeners between brokers, in a secure cluster, start this far above the broker ports.
BROKER_DISTANCE = 3000
_PORT_MAX = 65535


def client_ports(first: int, taken: Collection[int]) -> Iterator[int]:
    """Yield consecutive ports from `first`. Raises UserError after the highest port."""
    for port in range(first, _PORT_MAX + 1):
        if port not in taken:
            yield port
    raise UserError(f"Not enough ports above {first}. Choose a lower port with --port.")


def controller_ports(first_client_port: int) -> Iterator[int]:
    """Yield ports that are currently free."""
    return _free_ports(first_client_port, CONTROLLER_DISTANCE, ())


def http_ports(first_client_port: int, taken: Collection[int]) -> Iterator[int]:
    """Yield ports that are currently free and not in `taken`, the other ports of these nodes."""
    return _free_ports(first_client_port, HTTP_DISTANCE, taken)


def broker_ports(first_client_port: int, taken: Collection[int]) -> Iterator[int]:
    """Yield ports that are currently free and not in `taken`."""
    return _free_ports(first_client_port, BROKER_DISTANCE, taken)


def _free_ports(first_client_port: int, distance: int, taken: Collection[int]) -> Iterator[int]:
    if first_client_port + distance + CONTROLLER_DISTANCE > _PORT_MAX:
        distance = -distance
    for port in range(first_client_port + distance, _PORT_MAX + 1):
        if port not in taken and is_free(port):
            yield port
    raise UserError("No free ports for controllers, brokers and http.address. Choose a lower port with --port.")


def check_ports(config: NodeConfig) -> None:
    """Bind every address briefly, because a node that cannot bind would report it only in its log."""
    for listener in config.listeners:
        try:
            _bind(listener.host or None, listener.port)
        except socket.gaierror:
            raise UserError(f"Cannot bind {listener}: unknown host name. Correct listeners.") from None
        except PermissionError:
            raise UserError(
                f"Cannot bind {listener.host}:{listener.port}: permission denied. Choose a port above 1023 with --port."
            ) from None
        except OSError as error:
            raise UserError(
                f"Cannot bind {listener.host}:{listener.port}: {_reason(error)}. {_advice(config, listener)}"
            ) from None
    _check_http_port(config)


def _check_http_port(config: NodeConfig) -> None:
    address = config.http_address
    if address is None:
        return
    try:
        _bind(address.host or None, address.port)
    except OSError as error:
        raise UserError(
            f"Cannot bind {address.host}:{address.port}, the http.address of node {config.node_id}: {_reason(error)}. "
            "Stop the process that uses the port, or change http.address in the node's server.properties."
        ) from None


def _advice(config: NodeConfig, listener: Listener) -> str:
    if listener.name in config.controller_listener_names:
        return f"Stop the process that uses the port: the address of controller {config.node_id} is fixed."
    return "Choose another port with --port."


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


def is_free(port: int) -> bool:
    try:
        _bind(HOST, port)
    except OSError:
        return False
    return True


def _bind(host: str | None, port: int) -> None:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(found[0], found[1], found[2]) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(found[4])
