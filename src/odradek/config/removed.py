"""Configs of Kafka before 4.0 that people still have in their files, and what to write instead."""

from collections.abc import Mapping
from types import MappingProxyType

_BY_FEATURES = "it went away with Kafka 4.0: feature levels of the cluster decide it now"
_ALWAYS_V2 = "it went away with Kafka 4.0: records are always kept in format v2"
_WITH_ZOOKEEPER = "it went away with ZooKeeper in Kafka 4.0; take it out"

REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "advertised.host.name": "write advertised.listeners=PLAINTEXT://HOST:PORT instead",
        "advertised.port": "write advertised.listeners=PLAINTEXT://HOST:PORT instead",
        "broker.id.generation.enable": "it went away with ZooKeeper in Kafka 4.0: give each node its node.id",
        "control.plane.listener.name": _WITH_ZOOKEEPER,
        "delegation.token.master.key": "write delegation.token.secret.key instead",
        "group.coordinator.new.enable": "it went away with Kafka 4.0: the new coordinator is the only one",
        "host.name": "write listeners=PLAINTEXT://HOST:PORT instead",
        "inter.broker.protocol.version": _BY_FEATURES,
        "leader.imbalance.per.broker.percentage": _WITH_ZOOKEEPER,
        "log.message.downconversion.enable": _ALWAYS_V2,
        "log.message.format.version": _ALWAYS_V2,
        "log.message.timestamp.difference.max.ms": "write log.message.timestamp.before.max.ms and "
        "log.message.timestamp.after.max.ms instead",
        "offsets.commit.required.acks": "it went away with Kafka 4.0: offsets are always written with acks=all",
        "port": "write listeners=PLAINTEXT://:PORT instead",
        "reserved.broker.max.id": _WITH_ZOOKEEPER,
    }
)

REMOVED_PREFIXES: Mapping[str, str] = MappingProxyType(
    {"zookeeper.": _WITH_ZOOKEEPER, "password.encoder.": _WITH_ZOOKEEPER}
)


def advice_on_removed(name: str) -> str | None:
    if advice := REMOVED.get(name):
        return advice
    return next((advice for prefix, advice in REMOVED_PREFIXES.items() if name.startswith(prefix)), None)


def zookeeper_refusal(node_id: str) -> str:
    return (
        "zookeeper.connect: there is no ZooKeeper any more. Since Kafka 4.0 controllers keep the cluster's metadata "
        "themselves (KRaft). For a node of its own take this line out and write: process.roles=broker,controller and "
        f"node.id={node_id} and controller.listener.names=CONTROLLER and "
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093 and "
        f"controller.quorum.voters={node_id}@localhost:9093. Data of a cluster that still runs on ZooKeeper has to be "
        "migrated to KRaft with Apache Kafka 3.9 first."
    )
