"""Queries the HTTP endpoint of a node for data that no Kafka API carries.

The broker config `http.address` holds the address of the endpoint. Apache Kafka's brokers have none.
"""

import base64
import json
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final

from odradek.client.address import Address, parse_address
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.security import Sasl, Tls

HTTP_ADDRESS: Final = "http.address"
HTTP_PROTOCOL: Final = "http.security.protocol"
RESPONSE_BYTES_MAX: Final = 64 << 20
_LOOPBACK: Final = "127.0.0.1"
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


class NoEndpoint(Exception):
    """The HTTP endpoint of a node cannot be used. The message states the reason."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        """`status` is the HTTP status of an error response."""
        super().__init__(reason)
        self.status: Final = status


def query_node(
    cluster: Cluster, cluster_id: str | None, node_id: int, host: str, path: str, *, timeout_s: float
) -> dict[str, Any]:
    """Send a GET request to the endpoint of a broker with this advertised host. Raises NoEndpoint.

    The cluster's password is sent over TLS only.
    """
    address, has_tls = _find(cluster, node_id, host)
    security = cluster.security
    tls = (security.tls or Tls()) if has_tls else None
    headers = {} if tls is None or security.sasl is None or security.sasl.has_token else _basic(security.sasl)
    return query_endpoint(address, path, cluster_id, node_id, timeout_s=timeout_s, headers=headers, tls=tls)


def query_endpoint(
    address: Address,
    path: str,
    cluster_id: str | None,
    node_id: int,
    *,
    timeout_s: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    tls: Tls | None = None,
) -> dict[str, Any]:
    """Return the JSON response of this node. Raises NoEndpoint, also if another node or cluster responds."""
    body = _exchange(address, method, path, headers or {}, timeout_s, tls)
    try:
        response = json.loads(body)
        # A loopback address may belong to another node on this machine.
        if (response["node"], response["cluster"]) == (node_id, cluster_id):
            return dict(response)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NoEndpoint(f"invalid response of {address}{path}: {error!r}") from None
    raise NoEndpoint(f"another node responds at {address}")


def find_endpoint(cluster: Cluster, node_id: int, reached_at: str) -> Address:
    """Look up the address of a broker's HTTP endpoint without TLS. Raises NoEndpoint."""
    address, has_tls = _find(cluster, node_id, reached_at)
    if has_tls:
        raise NoEndpoint(f"its {HTTP_ADDRESS} {address} needs TLS, which is not supported here")
    return address


def _find(cluster: Cluster, node_id: int, reached_at: str) -> tuple[Address, bool]:
    """The address, and whether it needs TLS."""
    names = [HTTP_ADDRESS, HTTP_PROTOCOL]
    configs = Admin(cluster).configs(Resource(ResourceType.BROKER, str(node_id)), names)
    values = {one.name: one.value for one in configs}
    text = values.get(HTTP_ADDRESS)
    if not text:
        raise NoEndpoint(f"{HTTP_ADDRESS} is not set")
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if ":" not in text:
        host = _LOOPBACK
    elif host in _EVERY_INTERFACE:
        host = reached_at
    try:
        address = parse_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return address, values.get(HTTP_PROTOCOL) == "SSL"
    except ValueError:
        raise NoEndpoint(f"its {HTTP_ADDRESS} {text} is not reachable from other hosts") from None


def _basic(sasl: Sasl) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{sasl.username}:{sasl.password}".encode()).decode()}


def _exchange(
    address: Address, method: str, path: str, headers: Mapping[str, str], timeout_s: float, tls: Tls | None
) -> bytes:
    # Imported here because few commands need it.
    import http.client

    try:
        new_connection = (
            http.client.HTTPConnection if tls is None else partial(http.client.HTTPSConnection, context=tls.context())
        )
        with closing(new_connection(address.host, address.port, timeout=timeout_s)) as connection:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(RESPONSE_BYTES_MAX + 1)
    except OSError as error:
        raise NoEndpoint(f"cannot connect to {address}: {error.strerror or error}") from None
    except http.client.HTTPException as error:
        raise NoEndpoint(f"{address} is not an HTTP endpoint: {type(error).__name__}") from None
    if response.status != http.client.OK or len(body) > RESPONSE_BYTES_MAX:
        reason = f"{address}{path.partition('?')[0]} returned HTTP {response.status}: {_error_message(body)}"
        raise NoEndpoint(reason, status=response.status)
    return body


def _error_message(body: bytes) -> str:
    """Return the error in the body, or its size."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"{len(body)} bytes"
