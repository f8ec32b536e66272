"""What a node tells over HTTP and no Kafka API carries.

A broker says where its endpoint is by its config `http.address`. Apache Kafka's have none.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from odradek.client.address import Address, parse_address
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster

HTTP_ADDRESS: Final = "http.address"
ANSWER_BYTES_MAX: Final = 64 << 20
_LOOPBACK: Final = "127.0.0.1"
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


class NoEndpoint(Exception):
    """The message says why a broker cannot be asked."""

    def __init__(self, why: str, *, status: int | None = None) -> None:
        """`status`: of its answer, if there was one that is an error."""
        super().__init__(why)
        self.status: Final = status


def ask_node(
    cluster: Cluster, cluster_id: str | None, node_id: int, host: str, path: str, *, timeout_s: float
) -> dict[str, Any]:
    """What this broker, which is reached at `host`, answers to GET. Raises NoEndpoint."""
    return ask_endpoint(find_endpoint(cluster, node_id, host), path, cluster_id, node_id, timeout_s=timeout_s)


def ask_endpoint(
    address: Address,
    path: str,
    cluster_id: str | None,
    node_id: int,
    *,
    timeout_s: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What this node of this cluster answers. Raises NoEndpoint, also if another one is there."""
    body = _exchange(address, method, path, headers or {}, timeout_s)
    try:
        answer = json.loads(body)
        # An address of the loopback interface may be that of quite another node here.
        if (answer["node"], answer["cluster"]) == (node_id, cluster_id):
            return dict(answer)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NoEndpoint(f"{address}{path} gives what cannot be read: {error!r}") from None
    raise NoEndpoint(f"at {address} there is another node from here")


def find_endpoint(cluster: Cluster, node_id: int, reached_at: str) -> Address:
    """Raises NoEndpoint."""
    configs = Admin(cluster).configs(Resource(ResourceType.BROKER, str(node_id)), [HTTP_ADDRESS])
    text = next((one.value for one in configs if one.name == HTTP_ADDRESS), None)
    if not text:
        raise NoEndpoint(f"it has no {HTTP_ADDRESS}")
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if ":" not in text:
        host = _LOOPBACK
    elif host in _EVERY_INTERFACE:
        host = reached_at
    try:
        return parse_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except ValueError:
        raise NoEndpoint(f"its {HTTP_ADDRESS}, {text}, is no address that others can know") from None


def _exchange(address: Address, method: str, path: str, headers: Mapping[str, str], timeout_s: float) -> bytes:
    # For few commands: others need not wait for its import.
    import http.client

    try:
        with closing(http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)) as connection:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
    except OSError as error:
        raise NoEndpoint(f"{address} does not answer from here: {error.strerror or error}") from None
    except http.client.HTTPException as error:
        raise NoEndpoint(f"{address} does not speak HTTP: {type(error).__name__}") from None
    if response.status != http.client.OK or len(body) > ANSWER_BYTES_MAX:
        why = f"{address}{path.partition('?')[0]} answers {response.status}: {_told(body)}"
        raise NoEndpoint(why, status=response.status)
    return body


def _told(body: bytes) -> str:
    """Why, where the node says so."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"{len(body)} bytes"
