"""Ports of the nodes of one machine: which to take, and whether they can be had."""

import socket
from collections.abc import Collection, Iterator

from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.local.node_files import HOST
from odradek.text.errors import UserError

# Controllers listen so far from the brokers that brokers can be added without meeting them.
CONTROLLER_DISTANCE = 1000
# And where nodes tell of themselves over HTTP, as far again.
HTTP_DISTANCE = 2000
_HIGHEST = 65535


def client_ports(first: int, taken: Collection[int]) -> Iterator[int]:
    """One port after the other, from `first` on. Raises UserError when they end."""
    for port in range(first, _HIGHEST + 1):
        if port not in taken:
            yield port
    raise UserError(f"there are not enough ports above {first}: choose a lower --port")


def controller_ports(first_client_port: int) -> Iterator[int]:
    """Ports that are free now."""
    return _free_ports(first_client_port, CONTROLLER_DISTANCE, ())


def http_ports(first_client_port: int, taken: Collection[int]) -> Iterator[int]:
    """Ports that are free now, and will not be taken by others of these nodes."""
    return _free_ports(first_client_port, HTTP_DISTANCE, taken)


def _free_ports(first_client_port: int, distance: int, taken: Collection[int]) -> Iterator[int]:
    if first_client_port + distance + CONTROLLER_DISTANCE > _HIGHEST:
        distance = -distance
    for port in range(first_client_port + distance, _HIGHEST + 1):
        if port not in taken and is_free(port):
            yield port
    raise UserError("there are no free ports beside those of the brokers: choose a lower --port")


def check_ports(config: NodeConfig) -> None:
    """Tries every address for a moment: a node that cannot listen would say so only in its log."""
    for listener in config.listeners:
        try:
            _try(listener.host or None, listener.port)
        except socket.gaierror:
            raise UserError(f"{listener}: the host name is not known here: mend listeners") from None
        except PermissionError:
            raise UserError(f"port {listener.port} is only for root: choose a --port above 1023") from None
        except OSError as error:
            raise UserError(f"port {listener.port} is taken ({error.strerror}): {_advice(config, listener)}") from None
    _check_http_port(config)


def _check_http_port(config: NodeConfig) -> None:
    address = config.http_address
    if address is None:
        return
    try:
        _try(address.host or None, address.port)
    except OSError as error:
        raise UserError(
            f"http.address of node {config.node_id}, {address.host}:{address.port}, cannot be had ({error.strerror}): "
            "stop what listens there, or write another one into its server.properties"
        ) from None


def _advice(config: NodeConfig, listener: Listener) -> str:
    if listener.name in config.controller_listener_names:
        return (
            f"controller {config.node_id} has listened there before, and is known to listen there; stop what does now"
        )
    return "choose another --port"


def is_free(port: int) -> bool:
    try:
        _try(HOST, port)
    except OSError:
        return False
    return True


def _try(host: str | None, port: int) -> None:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(found[0], found[1], found[2]) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(found[4])
