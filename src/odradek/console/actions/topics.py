"""Creates, clones, deletes and empties topics, and adds partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.base.ids import TopicPartition
from odradek.client.admin import EARLIEST, LATEST, Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.config_description import describe_configs
from odradek.client.delete_records import ALL, delete_records
from odradek.client.layout import TopicLayout
from odradek.console.actions.action import Preview, Refused
from odradek.console.readings.table import Column, Row, format_count, inert

PARTITIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _OfTopic:
    topic: str

    @property
    def target(self) -> str:
        return f"topic {self.topic}"

    def details(self) -> dict[str, object]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(_OfTopic):
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str]
    name: str = "Create topic"

    def details(self) -> dict[str, object]:
        return {
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }

    def preview(self, cluster: Cluster) -> Preview:
        """The cluster validates the change."""
        self._create(cluster, validate_only=True)
        partitions = "num.partitions partitions"
        if self.partitions is not None:
            partitions = format_count(self.partitions, "partition")
        replicas = "default.replication.factor replicas"
        if self.replication_factor is not None:
            replicas = format_count(self.replication_factor, "replica")
        rows = [Row(name, {"name": inert(name), "value": inert(value)}) for name, value in self.configs.items()]
        return Preview(
            sentence=f"Creates topic {self.topic} with {partitions} and {replicas} per partition.",
            columns=(Column("name", "Config"), Column("value", "Value")) if rows else (),
            rows=rows,
        )

    def carry_out(self, cluster: Cluster) -> str:
        self._create(cluster, validate_only=False)
        return f"Topic {self.topic} created."

    def _create(self, cluster: Cluster, *, validate_only: bool) -> None:
        if not self.topic:
            raise Refused("Enter a topic name: at most 249 characters of a-z A-Z 0-9 . _ -")
        Admin(cluster).create_topic(
            self.topic,
            partitions=-1 if self.partitions is None else self.partitions,
            replication_factor=-1 if self.replication_factor is None else self.replication_factor,
            configs=self.configs,
            validate_only=validate_only,
        )


@dataclass(slots=True)
class CloneTopic:
    """Creates a topic with the partitions, replicas and configs of another one, without its records."""

    source: str
    topic: str
    name: str = "Clone topic"
    _creation: CreateTopic | None = field(default=None, init=False)

    @property
    def target(self) -> str:
        return f"topic {self.topic}"

    def details(self) -> dict[str, object]:
        return {"like": self.source} | (self._creation.details() if self._creation else {})

    def preview(self, cluster: Cluster) -> Preview:
        layout = _layout(cluster, self.source)
        configs = describe_configs(cluster, Resource(ResourceType.TOPIC, self.source))
        self._creation = CreateTopic(
            topic=self.topic,
            partitions=len(layout.partitions),
            # Partitions may differ during a reassignment: use the first one.
            replication_factor=len(layout.partitions[0].replicas),
            configs={one.name: one.value for one in configs if one.is_own and one.value is not None},
        )
        return self._creation.preview(cluster)

    def carry_out(self, cluster: Cluster) -> str:
        if self._creation is None:
            raise Refused("Open the preview first: the console applies exactly what the preview shows.")
        self._creation.carry_out(cluster)
        return f"Topic {self.topic} is created with the settings of {inert(self.source)}, without its records."


@dataclass(frozen=True, slots=True)
class DeleteTopic(_OfTopic):
    name: str = "Delete topic"

    def preview(self, cluster: Cluster) -> Preview:
        layout = _layout(cluster, self.topic)
        return Preview(
            sentence=f"Deletes topic {inert(self.topic)}: {format_count(len(layout.partitions), 'partition')},"
            f" {_count_offsets(cluster, layout)}. This cannot be undone.",
            typed=self.topic,
        )

    def carry_out(self, cluster: Cluster) -> str:
        Admin(cluster).delete_topic(self.topic)
        return f"Topic {inert(self.topic)} is deleted."


@dataclass(frozen=True, slots=True)
class PurgeTopic(_OfTopic):
    name: str = "Purge topic"

    def preview(self, cluster: Cluster) -> Preview:
        layout = _layout(cluster, self.topic)
        return Preview(
            sentence=f"Deletes all records of topic {inert(self.topic)}, {_count_offsets(cluster, layout)};"
            " the topic stays. This cannot be undone.",
            warnings=["Groups that have not consumed these records continue at the log end."],
            typed=self.topic,
        )

    def carry_out(self, cluster: Cluster) -> str:
        layout = _layout(cluster, self.topic)
        delete_records(cluster, {TopicPartition(self.topic, one.id): ALL for one in layout.partitions})
        return f"All records of topic {inert(self.topic)} are deleted."


@dataclass(frozen=True, slots=True)
class AddPartitions(_OfTopic):
    count: int
    """New number of partitions."""
    name: str = "Add partitions"

    def details(self) -> dict[str, object]:
        return {"partitions": self.count}

    def preview(self, cluster: Cluster) -> Preview:
        there = len(_layout(cluster, self.topic).partitions)
        if self.count <= there:
            raise Refused(
                f"Topic {inert(self.topic)} has {format_count(there, 'partition')} already, and partitions cannot be"
                " removed: enter a larger number."
            )
        if self.count > PARTITIONS_MAX:
            raise Refused(
                f"{self.count:,} partitions exceed the limit of one request: enter fewer than {PARTITIONS_MAX:,}."
            )
        return Preview(
            sentence=f"Adds {format_count(self.count - there, 'partition')} to topic {inert(self.topic)}:"
            f" {self.count:,} instead of {there:,}. Partitions cannot be removed later.",
            warnings=["Keys may map to other partitions than before: order per key holds only for new records."],
        )

    def carry_out(self, cluster: Cluster) -> str:
        Admin(cluster).create_partitions(self.topic, self.count)
        return f"Topic {inert(self.topic)} now has {self.count:,} partitions."


def _layout(cluster: Cluster, topic: str) -> TopicLayout:
    return cluster.retry("looking up the topic", lambda: cluster.topics([topic]))[topic]


def _count_offsets(cluster: Cluster, layout: TopicLayout) -> str:
    led = [TopicPartition(layout.name, one.id) for one in layout.partitions if one.leader >= 0]
    admin = Admin(cluster)
    earliest, latest = (admin.offsets(dict.fromkeys(led, which)) for which in (EARLIEST, LATEST))
    return f"{sum(latest[one] - earliest[one] for one in led):,} offsets"
