"""Sets and removes the replication throttles of reassignments, in the same configs as Kafka's own tool."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.client.admin import Admin, ConfigSource, ConfigValue, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.reassignment_plan import PlannedReassignment

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
REPLICAS: Final = (LEADERS, FOLLOWERS)
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

_TOPICS_AT_ONCE: Final = 500


class ReplicationThrottles:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._admin: Final = Admin(cluster)

    def limit(self, reassignments: Iterable[PlannedReassignment], bytes_per_s: int) -> None:
        """Set throttles before reassignments start. Any current replica may become leader, so all are throttled."""
        leaders: dict[str, list[str]] = defaultdict(list)
        followers: dict[str, list[str]] = defaultdict(list)
        brokers: set[int] = set()
        for one in reassignments:
            topic, number = one.partition
            leaders[topic] += [f"{number}:{broker}" for broker in one.before]
            followers[topic] += [f"{number}:{broker}" for broker in one.after if broker not in one.before]
            brokers.update(one.before, one.after)
        for topic, named in leaders.items():
            changes = {LEADERS: ",".join(named), FOLLOWERS: ",".join(followers[topic])}
            self._admin.alter_configs(Resource(ResourceType.TOPIC, topic), changes=changes)
        for broker in sorted(brokers & self._online()):
            self._admin.alter_configs(
                Resource(ResourceType.BROKER, str(broker)), changes=dict.fromkeys(RATES, str(bytes_per_s))
            )

    def clear(self) -> int:
        """Remove all throttles. Returns the number of topics and brokers that had any."""
        throttled = [(Resource(ResourceType.TOPIC, topic), REPLICAS) for topic in self._throttled_topics()]
        for broker in sorted(self._online()):
            resource = Resource(ResourceType.BROKER, str(broker))
            if _is_any_from(ConfigSource.DYNAMIC_BROKER_CONFIG, self._admin.configs(resource, RATES)):
                throttled.append((resource, RATES))
        for resource, names in throttled:
            self._admin.alter_configs(resource, changes={}, removals=names)
        return len(throttled)

    def _online(self) -> set[int]:
        return set(self._cluster.retry("listing brokers", lambda: self._cluster.layout([])).brokers)

    def _throttled_topics(self) -> Iterator[str]:
        topics = sorted(self._cluster.retry("listing topics", lambda: self._cluster.layout(None)).topics)
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            found = self._admin.topic_configs(topics[start : start + _TOPICS_AT_ONCE], REPLICAS)
            for topic, configs in found.items():
                if _is_any_from(ConfigSource.DYNAMIC_TOPIC_CONFIG, configs):
                    yield topic


def _is_any_from(source: ConfigSource, configs: Iterable[ConfigValue]) -> bool:
    return any(one.source == source.name for one in configs)
