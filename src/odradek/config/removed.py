"""Configs that Kafka 4.0 removed, and their replacements."""

from collections.abc import Mapping
from types import MappingProxyType

_BY_FEATURES = "Kafka 4.0 removed it: feature levels replace it"
_ALWAYS_V2 = "Kafka 4.0 removed it: records always have format v2"
_WITH_ZOOKEEPER = "Kafka 4.0 removed it together with ZooKeeper: remove the line"

REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "advertised.host.name": "use advertised.listeners=PLAINTEXT://HOST:PORT",
        "advertised.port": "use advertised.listeners=PLAINTEXT://HOST:PORT",
        "broker.id.generation.enable": "Kafka 4.0 removed it together with ZooKeeper: set node.id",
        "control.plane.listener.name": _WITH_ZOOKEEPER,
        "delegation.token.master.key": "use delegation.token.secret.key",
        "group.coordinator.new.enable": "Kafka 4.0 removed it: the new coordinator is always used",
        "host.name": "use listeners=PLAINTEXT://HOST:PORT",
        "inter.broker.protocol.version": _BY_FEATURES,
        "leader.imbalance.per.broker.percentage": _WITH_ZOOKEEPER,
        "log.message.downconversion.enable": _ALWAYS_V2,
        "log.message.format.version": _ALWAYS_V2,
        "log.message.timestamp.difference.max.ms": "use log.message.timestamp.before.max.ms and "
        "log.message.timestamp.after.max.ms",
        "offsets.commit.required.acks": "Kafka 4.0 removed it: offsets are always written with acks=all",
        "port": "use listeners=PLAINTEXT://:PORT",
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


def zookeeper_error(node_id: str) -> str:
    return (
        "zookeeper.connect: ZooKeeper is not supported. Since Kafka 4.0, controllers store the cluster's metadata "
        "(KRaft). For a single node, replace this line with: process.roles=broker,controller and "
        f"node.id={node_id} and controller.listener.names=CONTROLLER and "
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093 and "
        f"controller.quorum.voters={node_id}@localhost:9093. To keep the data of a ZooKeeper cluster, migrate "
        "it to KRaft with Apache Kafka 3.9 first."
    )
