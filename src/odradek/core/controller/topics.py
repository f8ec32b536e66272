"""Creation and deletion of topics, and creation of partitions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_text
from odradek.core.controller.bounded_records import BoundedRecords
from odradek.core.controller.commands import (
    DEFAULT,
    RECORDS_MAX,
    ConfigEntry,
    ControllerResult,
    NewPartitions,
    NewTopic,
    TopicCreated,
)
from odradek.core.controller.configs import Configs
from odradek.core.controller.manual_assignment import check_manual_assignment, invalid_assignment
from odradek.core.controller.placement import Placement
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.image import BrokerImage
from odradek.core.metadata.records import MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from odradek.core.metadata.topic_names import why_invalid
from odradek.core.quotas.mutations import MutationQuota

RESERVED_IDS_MAX = 1
"""The zero UUID and that of the metadata topic."""


_DescribedConfigs: TypeAlias = dict[tuple[tuple[str, str], ...], Sequence[ConfigEntry]]
"""Cached by the requested configs, which are mostly the same for all topics of a request."""


@dataclass(frozen=True, slots=True)
class _PlacedPartition:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[UUID | None, ...]


class Topics:
    def __init__(self, state: ControllerState, configs: Configs) -> None:
        self._state = state
        self._configs = configs

    # Creation

    def create(
        self, topics: Sequence[NewTopic], *, validate_only: bool, quota: MutationQuota
    ) -> ControllerResult[Mapping[str, TopicCreated | KafkaError]]:
        self._check_total_partitions(topics)
        records = BoundedRecords()
        results: dict[str, TopicCreated | KafkaError] = {}
        described: _DescribedConfigs = {}
        for topic in topics:
            try:
                self._check_new_name(topic.name)
                results[topic.name] = self._create_one(topic, records, described, quota)
            except KafkaError as error:
                results[topic.name] = error
            records.check()
        return ControllerResult(() if validate_only else tuple(records), results)

    def _check_total_partitions(self, topics: Sequence[NewTopic]) -> None:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.partition_count == DEFAULT:
                total += self._state.config.num_partitions
            else:
                total += max(0, topic.partition_count)
        if total > RECORDS_MAX:
            raise KafkaError(ErrorCode.policy_violation, "Excessively large number of partitions per request.")

    def _check_new_name(self, name: str) -> None:
        if name in self._state.image.topics_by_name:
            raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        # Kafka checks both and reports the later error.
        if (other := self._state.index.colliding_topic(name)) is not None:
            raise _invalid_topic(f"Topic '{name}' collides with existing topic: {other}")
        if (reason := why_invalid(name)) is not None:
            raise _invalid_topic(reason)

    def _create_one(
        self, topic: NewTopic, records: BoundedRecords, described: _DescribedConfigs, quota: MutationQuota
    ) -> TopicCreated:
        config_records = self._configs.of_new_topic(topic.name, topic.configs)
        placed = self._placed_by_client(topic) if topic.assignments else self._placed_here(topic)
        quota.withdraw(len(placed))
        topic_id = self._new_topic_id()
        records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        records.extend(config_records)
        records.extend(self._partition_record(topic_id, index, one) for index, one in enumerate(placed))
        values = {name: value for name, value in topic.configs if value is not None}
        key = tuple(values.items())
        if key not in described:
            described[key] = self._configs.effective_of_topic(values)
        return TopicCreated(topic_id, len(placed), len(placed[0].replicas), described[key])

    def _placed_by_client(self, topic: NewTopic) -> list[_PlacedPartition]:
        if topic.replication_factor != DEFAULT:
            raise _invalid_request(
                "A manual partition assignment was specified, but replication factor was not set to -1."
            )
        if topic.partition_count != DEFAULT:
            raise _invalid_request("A manual partition assignment was specified, but numPartitions was not set to -1.")
        placed: dict[int, _PlacedPartition] = {}
        replication_factor: int | None = None
        for index, replicas in topic.assignments:
            if index in placed:
                raise invalid_assignment(f"Found multiple manual partition assignments for partition {index}")
            placed[index] = self._checked_assignment(index, replicas, replication_factor)
            replication_factor = len(replicas)
        if any(index not in placed for index in range(len(placed))):
            raise invalid_assignment("partitions should be a consecutive 0-based integer sequence")
        return [placed[index] for index in range(len(placed))]

    def _placed_here(self, topic: NewTopic) -> list[_PlacedPartition]:
        config = self._state.config
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.invalid_replication_factor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partition_count < DEFAULT or topic.partition_count == 0:
            raise _invalid_partitions("Number of partitions was set to an invalid non-positive value.")
        count = config.num_partitions if topic.partition_count == DEFAULT else topic.partition_count
        replication_factor = (
            config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
        )
        return self._place_partitions(count, replication_factor)

    def _place_partitions(self, count: int, replication_factor: int) -> list[_PlacedPartition]:
        try:
            listener_name = self._state.config.inter_broker_listener_name
            placement = Placement(self._usable_brokers(), self._state.random, listener_name)
            assignments = placement.place(count, replication_factor)
        except KafkaError as error:
            raise _unable_to_replicate(replication_factor, error.message or "") from error
        # Most of thousands of partitions have the same brokers as others, so they share one tuple.
        placed: dict[tuple[int, ...], _PlacedPartition] = {}
        for replicas in dict.fromkeys(assignments):
            isr = self._active(replicas)
            if not isr:
                raise _unable_to_replicate(
                    replication_factor, "All brokers are currently fenced or in controlled shutdown."
                )
            placed[replicas] = _PlacedPartition(replicas, isr, self._default_directories(replicas))
        return [placed[replicas] for replicas in assignments]

    # New partitions

    def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool, quota: MutationQuota
    ) -> ControllerResult[Mapping[str, KafkaError | None]]:
        records: list[MetadataRecord] = []
        results: dict[str, KafkaError | None] = {}
        for topic in topics:
            try:
                records += self._grow(topic, RECORDS_MAX - len(records), quota)
                results[topic.topic] = None
            except KafkaError as error:
                results[topic.topic] = error
        return ControllerResult(() if validate_only else tuple(records), results)

    def _grow(self, request: NewPartitions, records_left: int, quota: MutationQuota) -> list[MetadataRecord]:
        topic = self._state.image.topics_by_name.get(request.topic)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        count = len(topic.partitions)
        if request.total == count:
            raise _invalid_partitions(f"Topic already has {count} partition(s).")
        if request.total < count:
            raise _invalid_partitions(
                f"The topic {request.topic} currently has {count} partition(s); {request.total} would not be an "
                "increase."
            )
        additional = request.total - count
        if request.assignments is not None and len(request.assignments) != additional:
            raise invalid_assignment(
                f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
                "assignment(s) were specified."
            )
        if additional > records_left:
            # Kafka's error code for this case.
            raise KafkaError(ErrorCode.unknown_server_error)
        quota.withdraw(additional)
        replication_factor = len(topic.partitions[0].replicas)
        if request.assignments is None:
            placed = self._place_partitions(additional, replication_factor)
        else:
            placed = [
                self._checked_assignment(count + number, replicas, replication_factor)
                for number, replicas in enumerate(request.assignments)
            ]
        return [self._partition_record(topic.id, count + number, one) for number, one in enumerate(placed)]

    # Deletion

    def delete(
        self, topic_ids: Collection[UUID], quota: MutationQuota
    ) -> ControllerResult[Mapping[UUID, KafkaError | None]]:
        records = BoundedRecords()
        results: dict[UUID, KafkaError | None] = {}
        for topic_id in topic_ids:
            topic = self._state.image.topics_by_id.get(topic_id)
            if topic is None:
                results[topic_id] = KafkaError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
                continue
            try:
                quota.withdraw(len(topic.partitions))
            except KafkaError as error:
                results[topic_id] = error
                continue
            records.append(RemoveTopicRecord(topic_id=topic_id))
            results[topic_id] = None
        records.check()
        return ControllerResult(tuple(records), results)

    # Shared

    def _usable_brokers(self) -> list[BrokerImage]:
        return [
            broker
            for broker in self._state.image.brokers.values()
            if not broker.in_controlled_shutdown
            and (not broker.directories or set(broker.directories) - set(broker.cordoned_directories))
        ]

    def _active(self, replicas: Iterable[int]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if self._state.is_active(replica))

    def _checked_assignment(
        self, index: int, replicas: tuple[int, ...], replication_factor: int | None
    ) -> _PlacedPartition:
        check_manual_assignment(self._state.image, replicas)
        if replication_factor is not None and len(replicas) != replication_factor:
            raise invalid_assignment(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )
        isr = self._active(replicas)
        if not isr:
            raise invalid_assignment(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
        return _PlacedPartition(replicas, isr, self._default_directories(replicas))

    def _default_directories(self, replicas: tuple[int, ...]) -> tuple[UUID | None, ...]:
        return tuple(self._state.default_directory(replica) for replica in replicas)

    def _partition_record(self, topic_id: UUID, index: int, placed: _PlacedPartition) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=placed.replicas,
            isr=placed.isr,
            leader=placed.isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=placed.directories,
        )

    def _new_topic_id(self) -> UUID:
        while True:
            topic_id = UUID(bytes=self._state.random.randbytes(16), version=4)
            # A leading '-' in the text form would look like a command-line option.
            is_plain = not uuid_to_text(topic_id).startswith("-")
            if topic_id.int > RESERVED_IDS_MAX and is_plain and topic_id not in self._state.image.topics_by_id:
                return topic_id


def _invalid_topic(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_topic_exception, message)


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


def _invalid_partitions(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_partitions, message)


def _unable_to_replicate(replication_factor: int, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_replication_factor,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )
