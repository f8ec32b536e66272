"""Bytes per second of every partition, from the brokers' own HTTP endpoints: no Kafka API carries them.

Brokers without one, or whose endpoint cannot be reached from here, are named with the reason: nobody fails for their
sake.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.membership import Member
from odradek.client.node_http import NoEndpoint, ask_node

PATH: Final = "/v1/traffic"
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


class HotKey(NamedTuple):
    """A key, and how much of its partition's bytes it makes up, from 0 to 1. Long keys are cut."""

    key: bytes | None
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    rates: Mapping[int, Mapping[TopicPartition, Rates]]
    """By broker; partitions at rest are left out."""
    hot_keys: Mapping[TopicPartition, tuple[HotKey, ...]] = field(default_factory=dict)
    """By bytes, the heaviest first, of partitions whose leaders know them."""
    silent: Mapping[int, str]
    """Brokers that told nothing, and why."""


def traffic(cluster: Cluster, cluster_id: str, members: Mapping[int, Member], *, timeout_s: float) -> Traffic:
    """Of these brokers. `timeout_s` is how long each may take to answer over HTTP."""
    rates: dict[int, Mapping[TopicPartition, Rates]] = {}
    hot_keys: dict[TopicPartition, tuple[HotKey, ...]] = {}
    silent: dict[int, str] = {}
    for node_id, member in members.items():
        try:
            host = member.address.host
            told = ask_node(cluster, cluster_id, node_id, host, PATH, timeout_s=timeout_s)
            rates[node_id] = _parse(told)
            hot_keys |= _parse_keys(told)
        except NoEndpoint as reason:
            silent[node_id] = str(reason)
    return Traffic(rates=rates, hot_keys=hot_keys, silent=silent)


def _parse_keys(answer: dict[str, Any]) -> dict[TopicPartition, tuple[HotKey, ...]]:
    try:
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): tuple(
                HotKey(_key(hot), float(hot["share"])) for hot in one["hot_keys"]["by_bytes"]
            )
            for one in answer["partitions"]
            if "hot_keys" in one
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NoEndpoint(f"{PATH} gives what cannot be read: {error!r}") from None


def _key(told: dict[str, Any]) -> bytes | None:
    if "key_base64" in told:
        return base64.b64decode(told["key_base64"])
    key = told["key"]
    return None if key is None else str(key).encode()


def _parse(answer: dict[str, Any]) -> dict[TopicPartition, Rates]:
    try:
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): Rates(
                **{name: float(one[f"{name}_per_second"]) for name in _FIELDS}
            )
            for one in answer["partitions"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NoEndpoint(f"{PATH} gives what cannot be read: {error!r}") from None
