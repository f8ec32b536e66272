"""Queries the configs of one resource, and the differences between brokers."""

from collections.abc import Mapping

from odradek.base.errors import KafkaError
from odradek.client.admin import Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.config_description import DescribedConfig, describe_configs
from odradek.client.errors import ClientError

Differences = Mapping[str, Mapping[int, str | None]]


def to_resource(topic: str | None, broker: int | None) -> Resource:
    """Without topic and broker: the cluster-wide broker defaults."""
    if topic is not None:
        return Resource(ResourceType.TOPIC, topic)
    return Resource(ResourceType.BROKER, "" if broker is None else str(broker))


def configs_of(cluster: Cluster, resource: Resource) -> list[DescribedConfig]:
    """Raises UnknownTopic at once for a missing topic instead of retrying."""
    if resource.type is ResourceType.TOPIC:
        cluster.topics([resource.name])
    return describe_configs(cluster, resource)


def differences(cluster: Cluster) -> Differences:
    """Returns the configs that differ between brokers, without unresponsive brokers."""
    values: dict[str, dict[int, str | None]] = {}
    queried = []
    for broker in sorted(cluster.retry("listing brokers", cluster.layout).brokers):
        try:
            found = describe_configs(cluster, Resource(ResourceType.BROKER, str(broker)))
        except (KafkaError, ClientError):
            continue
        queried.append(broker)
        for one in found:
            if not one.is_sensitive:
                values.setdefault(one.name, {})[broker] = one.value
    return {name: held for name, held in sorted(values.items()) if len({held.get(broker) for broker in queried}) > 1}
