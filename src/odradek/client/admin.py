"""Admin operations on topics, configs and offsets. Errors are KafkaError with the broker's message."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.connection import BuildRequest, milliseconds
from odradek.client.permissions import error_in
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# Timestamps with a special meaning in ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Resource:
    """The resource of a config. The name of a broker is its id, or empty for the cluster-wide default."""

    type: ResourceType
    name: str

    @property
    def owner(self) -> int | None:
        """The broker that must serve the request because it alone knows its configs; None if any broker can."""
        is_of_one = self.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and self.name
        return int(self.name) if is_of_one else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    name: str
    value: str | None
    """None for a sensitive config and for one without a value."""
    source: str
    is_default: bool
    is_sensitive: bool
    is_read_only: bool


class Admin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic. -1 selects the cluster's default for a number."""

        def build(chosen: Schema) -> Message:
            topic = chosen.new(
                "CreatableTopic",
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=(),
                configs=tuple(
                    chosen.new("CreatableTopicConfig", name=key, value=value) for key, value in (configs or {}).items()
                ),
            )
            return chosen.new(
                "CreateTopicsRequest",
                topics=(topic,),
                timeout=self._timeout,
                validate_only=validate_only,
            )

        self._change(f"creating topic {name!r}", ApiKey.CREATE_TOPICS, build, lambda response: response.topics)

    def delete_topic(self, name: str) -> None:
        def build(chosen: Schema) -> Message:
            # Up to version 5 a topic is a name, from version 6 a structure with a name or an id.
            by_state = chosen.knows("DeleteTopicState")
            return chosen.new(
                "DeleteTopicsRequest",
                topic_names=(name,),
                topics=(chosen.new("DeleteTopicState", name=name, topic_id=None),) if by_state else (),
                timeout=self._timeout,
            )

        self._change(f"deleting topic {name!r}", ApiKey.DELETE_TOPICS, build, lambda response: response.responses)

    def create_partitions(self, topic: str, count: int) -> None:
        """Increase the number of partitions to `count`."""

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "CreatePartitionsRequest",
                topics=(chosen.new("CreatePartitionsTopic", name=topic, count=count, assignments=None),),
                timeout=self._timeout,
                validate_only=False,
            )

        self._change(
            f"adding partitions to {topic!r}", ApiKey.CREATE_PARTITIONS, build, lambda response: response.results
        )

    def configs(self, resource: Resource, names: Sequence[str] | None = None) -> list[ConfigValue]:
        """Return all configs of a resource, or those with the given names, sorted by name."""
        (found,) = self._configs([resource], names, resource.owner).values()
        return found

    def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, list[ConfigValue]]:
        """Return the configs of many topics with one request."""
        return self._configs([Resource(ResourceType.TOPIC, topic) for topic in topics], names, None)

    def _configs(
        self, resources: Sequence[Resource], names: Sequence[str] | None, node_id: int | None
    ) -> dict[str, list[ConfigValue]]:
        """Return configs by resource name, from the given broker or any."""

        def build(chosen: Schema) -> Message:
            requested = tuple(
                chosen.new(
                    "DescribeConfigsResource",
                    resource_type=int(resource.type),
                    resource_name=resource.name,
                    configuration_keys=None if names is None else tuple(names),
                )
                for resource in resources
            )
            return chosen.new(
                "DescribeConfigsRequest", resources=requested, include_synonyms=False, include_documentation=False
            )

        def attempt() -> dict[str, list[ConfigValue]]:
            if node_id is None:
                response = self._cluster.send_to_any(ApiKey.DESCRIBE_CONFIGS, build)
            else:
                response = self._cluster.send_to_broker(node_id, ApiKey.DESCRIBE_CONFIGS, build)
            found = {}
            for result in response.results:
                raise_for_error(result)
                values = map(_config_value, result.configs)
                found[result.resource_name] = sorted(values, key=lambda config: config.name)
            return found

        return self._cluster.retry("reading configs", attempt)

    def alter_configs(
        self,
        resource: Resource,
        *,
        changes: Mapping[str, str],
        removals: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set and delete single configs; others keep their values."""
        operations = [(name, 0, value) for name, value in changes.items()] + [(name, 1, None) for name in removals]

        def build(chosen: Schema) -> Message:
            altered = chosen.new(
                "AlterConfigsResource",
                resource_type=int(resource.type),
                resource_name=resource.name,
                configs=tuple(
                    chosen.new("AlterableConfig", name=name, config_operation=operation, value=value)
                    for name, operation, value in operations
                ),
            )
            return chosen.new("IncrementalAlterConfigsRequest", resources=(altered,), validate_only=validate_only)

        def attempt() -> None:
            node_id = resource.owner
            if node_id is None:
                response = self._cluster.send_to_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, build)
            else:
                response = self._cluster.send_to_broker(node_id, ApiKey.INCREMENTAL_ALTER_CONFIGS, build)
            raise_for_error(response.responses[0])

        self._cluster.retry("changing configs", attempt)

    def offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record at or after each timestamp (ms), or for EARLIEST or LATEST.

        -1 means that there is no such record.
        """
        found: dict[TopicPartition, int] = {}

        def attempt() -> dict[TopicPartition, int]:
            layouts = self._cluster.topics(tuple({partition.topic for partition in timestamps}))
            by_leader: dict[int, list[TopicPartition]] = {}
            for partition in timestamps.keys() - found.keys():
                leader = layouts[partition.topic].partitions[partition.partition].leader
                if leader < 0:
                    raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader")
                by_leader.setdefault(leader, []).append(partition)
            for leader, partitions in by_leader.items():
                found.update(self._offsets_of(leader, {one: timestamps[one] for one in partitions}, read_committed))
            return found

        return self._cluster.retry("looking up offsets", attempt)

    def _offsets_of(
        self, leader: int, timestamps: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int]:
        def build(chosen: Schema) -> Message:
            partition_class = chosen["ListOffsetsPartition"]
            by_topic: dict[str, list[Message]] = {}
            for partition, timestamp in timestamps.items():
                by_topic.setdefault(partition.topic, []).append(
                    partition_class(partition_index=partition.partition, current_leader_epoch=-1, timestamp=timestamp)
                )
            return chosen.new(
                "ListOffsetsRequest",
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=tuple(
                    chosen.new("ListOffsetsTopic", name=topic, partitions=tuple(partitions))
                    for topic, partitions in by_topic.items()
                ),
                timeout=self._timeout,
            )

        found: dict[TopicPartition, int] = {}
        for topic in self._cluster.send_to_broker(leader, ApiKey.LIST_OFFSETS, build).topics:
            for partition in topic.partitions:
                raise_for_error(partition, topic.name)
                found[TopicPartition(topic.name, partition.partition_index)] = partition.offset
        return found

    def _change(
        self, what: str, api_key: int, build: BuildRequest, results: Callable[[Message], Sequence[Message]]
    ) -> None:
        def attempt() -> None:
            raise_for_error(results(self._cluster.send_to_controller(api_key, build))[0])

        # The controller knows every topic, so an unknown topic is not worth a retry.
        self._cluster.retry(what, attempt, final=(ErrorCode.unknown_topic_or_partition,))

    @property
    def _timeout(self) -> timedelta:
        return milliseconds(self._cluster.timeout_s * 1000)


def raise_for_error(result: Message, name: str | None = None) -> None:
    """Raise KafkaError if this part of a response has an error code, with the broker's message if there is one.

    `name` is that of the resource, which the explanation of a denial needs, if the part itself does not contain it.
    """
    if result.error_code is not ErrorCode.none:
        raise error_in(result, name)


def _config_value(config: Message) -> ConfigValue:
    source = config.config_source
    known = source in ConfigSource._value2member_map_
    return ConfigValue(
        name=config.name,
        value=config.value,
        source=ConfigSource(source).name if known else f"SOURCE_{source}",
        is_default=source == ConfigSource.DEFAULT_CONFIG,
        is_sensitive=config.is_sensitive,
        is_read_only=config.read_only,
    )
