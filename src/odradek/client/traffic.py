"""Bytes per second of every partition, from the brokers' own HTTP endpoints: no Kafka API carries them.

A broker says where its endpoint is by its config `http.address`. Brokers without one, or whose endpoint cannot be
reached from here, are named with the reason: nobody fails for their sake.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.base.ids import TopicPartition
from odradek.client.address import Address, parse_address
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.membership import Member

HTTP_ADDRESS: Final = "http.address"
PATH: Final = "/v1/traffic"
ANSWER_BYTES_MAX: Final = 64 << 20
_LOOPBACK: Final = "127.0.0.1"
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
_FIELDS: Final = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes per second: written and read by clients, and copied from and to other brokers."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    replication_bytes_in: float = 0.0
    replication_bytes_out: float = 0.0

    def __add__(self, other: "Rates") -> "Rates":
        return Rates(**{name: getattr(self, name) + getattr(other, name) for name in _FIELDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    rates: Mapping[int, Mapping[TopicPartition, Rates]]
    """By broker; partitions at rest are left out."""
    silent: Mapping[int, str]
    """Brokers that told nothing, and why."""


class NoEndpoint(Exception):
    """The message says why a broker cannot be asked."""


def traffic(cluster: Cluster, cluster_id: str, members: Mapping[int, Member], *, timeout_s: float) -> Traffic:
    """Of these brokers. `timeout_s` is how long each may take to answer over HTTP."""
    rates: dict[int, Mapping[TopicPartition, Rates]] = {}
    silent: dict[int, str] = {}
    for node_id, member in members.items():
        try:
            address = _endpoint(cluster, member)
            rates[node_id] = _parse(_get(address, timeout_s), node_id, cluster_id, address)
        except NoEndpoint as reason:
            silent[node_id] = str(reason)
    return Traffic(rates=rates, silent=silent)


def _endpoint(cluster: Cluster, member: Member) -> Address:
    configs = Admin(cluster).configs(Resource(ResourceType.BROKER, str(member.id)), [HTTP_ADDRESS])
    text = next((one.value for one in configs if one.name == HTTP_ADDRESS), None)
    if not text:
        raise NoEndpoint(f"it has no {HTTP_ADDRESS}")
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if ":" not in text:
        host = _LOOPBACK
    elif host in _EVERY_INTERFACE:
        host = member.address.host
    try:
        return parse_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except ValueError:
        raise NoEndpoint(f"its {HTTP_ADDRESS}, {text}, is no address that others can know") from None


def _get(address: Address, timeout_s: float) -> bytes:
    # For this one command: others need not wait for its import.
    import http.client

    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        body = response.read(ANSWER_BYTES_MAX + 1)
    except OSError as error:
        raise NoEndpoint(f"{address} does not answer from here: {error.strerror or error}") from None
    except http.client.HTTPException as error:
        raise NoEndpoint(f"{address} does not speak HTTP: {type(error).__name__}") from None
    finally:
        connection.close()
    if response.status != http.client.OK or len(body) > ANSWER_BYTES_MAX:
        raise NoEndpoint(f"{address}{PATH} answers {response.status} with {len(body)} bytes")
    return body


def _parse(body: bytes, node_id: int, cluster_id: str, address: Address) -> dict[TopicPartition, Rates]:
    try:
        answer: Any = json.loads(body)
        # An address of the loopback interface may be that of quite another node here.
        if (answer["node"], answer["cluster"]) != (node_id, cluster_id):
            raise NoEndpoint(f"at {address} there is another node from here")
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): Rates(
                **{name: float(one[f"{name}_per_second"]) for name in _FIELDS}
            )
            for one in answer["partitions"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NoEndpoint(f"{address}{PATH} gives what cannot be read: {error!r}") from None
