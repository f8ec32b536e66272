"""Reads the bytes per second of every partition from the brokers' HTTP endpoints, because no Kafka API has them.

Brokers without a reachable endpoint are reported with the reason and do not cause a failure.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.membership import Member
from odradek.client.node_http import NoEndpoint, query_node

PATH: Final = "/v1/traffic"
_FIELDS: Final = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes per second: produced and consumed by clients, and replicated from and to other brokers."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    replication_bytes_in: float = 0.0
    replication_bytes_out: float = 0.0

    def __add__(self, other: "Rates") -> "Rates":
        return Rates(**{name: getattr(self, name) + getattr(other, name) for name in _FIELDS})


class HotKey(NamedTuple):
    """A key and its share of the partition's bytes, from 0 to 1. Long keys are shortened."""

    key: bytes | None
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    rates: Mapping[int, Mapping[TopicPartition, Rates]]
    """By broker; idle partitions are left out."""
    hot_keys: Mapping[TopicPartition, tuple[HotKey, ...]] = field(default_factory=dict)
    """By share of bytes, largest first, for partitions whose leaders track hot keys."""
    unavailable: Mapping[int, str]
    """Brokers that report no traffic, with the reason."""


def traffic(cluster: Cluster, cluster_id: str, members: Mapping[int, Member], *, timeout_s: float) -> Traffic:
    """Read the traffic of these brokers. `timeout_s` limits each HTTP request."""
    rates: dict[int, Mapping[TopicPartition, Rates]] = {}
    hot_keys: dict[TopicPartition, tuple[HotKey, ...]] = {}
    unavailable: dict[int, str] = {}
    for node_id, member in members.items():
        try:
            host = member.address.host
            response = query_node(cluster, cluster_id, node_id, host, PATH, timeout_s=timeout_s)
            rates[node_id] = _parse(response)
            hot_keys |= _parse_keys(response)
        except NoEndpoint as reason:
            unavailable[node_id] = str(reason)
    return Traffic(rates=rates, hot_keys=hot_keys, unavailable=unavailable)


def _parse_keys(response: dict[str, Any]) -> dict[TopicPartition, tuple[HotKey, ...]]:
    try:
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): tuple(
                HotKey(_parse_key(hot), float(hot["share"])) for hot in one["hot_keys"]["by_bytes"]
            )
            for one in response["partitions"]
            if "hot_keys" in one
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NoEndpoint(f"invalid response of {PATH}: {error!r}") from None


def _parse_key(hot: dict[str, Any]) -> bytes | None:
    if "key_base64" in hot:
        return base64.b64decode(hot["key_base64"])
    key = hot["key"]
    return None if key is None else str(key).encode()


def _parse(response: dict[str, Any]) -> dict[TopicPartition, Rates]:
    try:
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): Rates(
                **{name: float(one[f"{name}_per_second"]) for name in _FIELDS}
            )
            for one in response["partitions"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NoEndpoint(f"invalid response of {PATH}: {error!r}") from None
