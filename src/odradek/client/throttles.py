"""Replication throttles of a move, set and taken off over the wire: in the same configs that Kafka's own tool uses."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.client.admin import DESCRIBE_CONFIGS, Admin, ConfigSource, Resource, ResourceType, raise_refusal
from odradek.client.cluster import Cluster
from odradek.client.reassignment_plan import Move
from odradek.protocol.schemas import Message, Schema

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

_TOPICS_AT_ONCE: Final = 500


class ReplicationThrottles:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._admin: Final = Admin(cluster)

    def limit(self, moves: Iterable[Move], bytes_per_s: int) -> None:
        """Before the moves begin. Whoever has a copy may come to lead, so all of them give at this rate only."""
        leaders: dict[str, list[str]] = defaultdict(list)
        followers: dict[str, list[str]] = defaultdict(list)
        brokers: set[int] = set()
        for move in moves:
            topic, number = move.partition
            leaders[topic] += [f"{number}:{broker}" for broker in move.before]
            followers[topic] += [f"{number}:{broker}" for broker in move.after if broker not in move.before]
            brokers.update(move.before, move.after)
        for topic, named in leaders.items():
            changes = {LEADERS: ",".join(named), FOLLOWERS: ",".join(followers[topic])}
            self._admin.alter_configs(Resource(ResourceType.TOPIC, topic), changes=changes)
        for broker in sorted(brokers & self._online()):
            self._admin.alter_configs(
                Resource(ResourceType.BROKER, str(broker)), changes=dict.fromkeys(RATES, str(bytes_per_s))
            )

    def clear(self) -> int:
        """Takes off all there are. Returns how many topics and brokers had any."""
        throttled = [Resource(ResourceType.TOPIC, topic) for topic in self._throttled_topics()]
        throttled += [
            resource
            for broker in sorted(self._online())
            for resource in (Resource(ResourceType.BROKER, str(broker)),)
            if any(
                one.source == ConfigSource.DYNAMIC_BROKER_CONFIG.name for one in self._admin.configs(resource, RATES)
            )
        ]
        for resource in throttled:
            names = (LEADERS, FOLLOWERS) if resource.type is ResourceType.TOPIC else RATES
            self._admin.alter_configs(resource, changes={}, removals=names)
        return len(throttled)

    def _online(self) -> set[int]:
        return set(self._cluster.retry("listing brokers", lambda: self._cluster.layout([])).brokers)

    def _throttled_topics(self) -> list[str]:
        topics = sorted(self._cluster.retry("listing topics", lambda: self._cluster.layout(None)).topics)
        throttled: list[str] = []
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            some = topics[start : start + _TOPICS_AT_ONCE]
            throttled += self._cluster.retry("looking for throttles", lambda some=some: self._with_throttles(some))  # type: ignore[misc]
        return throttled

    def _with_throttles(self, topics: Sequence[str]) -> list[str]:
        def build(chosen: Schema) -> Message:
            asked = tuple(
                chosen.new(
                    "DescribeConfigsResource",
                    resource_type=int(ResourceType.TOPIC),
                    resource_name=topic,
                    configuration_keys=(LEADERS, FOLLOWERS),
                )
                for topic in topics
            )
            return chosen.new(
                "DescribeConfigsRequest", resources=asked, include_synonyms=False, include_documentation=False
            )

        found = []
        for result in self._cluster.ask_any(DESCRIBE_CONFIGS, build).results:
            raise_refusal(result)
            if any(config.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG for config in result.configs):
                found.append(result.resource_name)
        return found
