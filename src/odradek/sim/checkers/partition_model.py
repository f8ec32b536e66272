"""Brokers and partitions according to the metadata log: a model that shares no code with the node."""

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.core.metadata.records import (
    NO_LEADER_CHANGE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from odradek.sim.replica_history import CommittedRecord, UncleanEnd

_TOPIC: Final = 2
_MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionModel:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_leader: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment adds."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def __str__(self) -> str:
        return (
            f"leader {self.leader} of epoch {self.leader_epoch}, replicas {list(self.replicas)}, "
            f"in sync {list(self.isr)}, eligible {list(self.elr)}, last known {list(self.last_known_leader)}"
        )


class ClusterModel:
    def __init__(self) -> None:
        self.partitions: Final[dict[tuple[UUID, int], PartitionModel]] = {}
        self._registrations: Final[dict[int, CommittedRecord]] = {}
        """The latest epoch of each broker."""
        self.broker_epochs: Final[dict[int, int]] = {}
        self.fenced: Final[dict[int, bool]] = {}
        self._names: Final[dict[UUID, str]] = {}
        self._min_isr: Final[dict[str, int]] = {}

    def partition(self, partition: TopicPartition) -> PartitionModel | None:
        key = self.key(partition)
        return None if key is None else self.partitions[key]

    def key(self, partition: TopicPartition) -> tuple[UUID, int] | None:
        return next((key for key in self.partitions if self.name(key) == partition), None)

    def name(self, key: tuple[UUID, int]) -> TopicPartition:
        return TopicPartition(self._names[key[0]], key[1])

    def min_isr(self, key: tuple[UUID, int]) -> int | None:
        """The topic's min.insync.replicas, at most the number of replicas. None: not configured."""
        configured = self._min_isr.get(self._names[key[0]])
        return None if configured is None else min(configured, len(self.partitions[key].replicas))

    def is_back(self, end: UncleanEnd) -> bool:
        """Whether the broker has registered again after this unclean shutdown."""
        registration = self._registrations.get(end.broker_id)
        return registration is not None and registration.is_since(end.metadata)

    def take(self, one: CommittedRecord) -> tuple[UUID, int] | None:
        """Applies the record and returns the partition that it changes."""
        record = one.record
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
            case RemoveTopicRecord():
                self._min_isr.pop(self._names[record.topic_id], None)
                for key in [key for key in self.partitions if key[0] == record.topic_id]:
                    del self.partitions[key]
            case ConfigRecord() if record.resource_type == _TOPIC and record.name == _MIN_ISR:
                self._min_isr.pop(record.resource_name, None)
                if record.value is not None:
                    self._min_isr[record.resource_name] = int(record.value)
            case PartitionRecord():
                return self._create(record)
            case PartitionChangeRecord():
                return self._change(record)
            case RegisterBrokerRecord():
                self._registrations[record.broker_id] = one
                self.broker_epochs[record.broker_id] = record.broker_epoch
                self.fenced[record.broker_id] = record.fenced
            case UnregisterBrokerRecord():
                self.fenced.pop(record.broker_id, None)
            case BrokerRegistrationChangeRecord() if record.fenced:
                self.fenced[record.broker_id] = record.fenced > 0
        return None

    def _create(self, record: PartitionRecord) -> tuple[UUID, int]:
        key = (record.topic_id, record.partition_id)
        self.partitions[key] = PartitionModel(
            replicas=record.replicas,
            isr=record.isr,
            elr=record.eligible_leader_replicas or (),
            last_known_leader=record.last_known_elr or (),
            adding=record.adding_replicas,
            removing=record.removing_replicas,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )
        return key

    def _change(self, record: PartitionChangeRecord) -> tuple[UUID, int]:
        key = (record.topic_id, record.partition_id)
        before = self.partitions[key]
        has_leader_change = record.leader != NO_LEADER_CHANGE
        self.partitions[key] = replace(
            before,
            replicas=before.replicas if record.replicas is None else record.replicas,
            isr=before.isr if record.isr is None else record.isr,
            elr=before.elr if record.eligible_leader_replicas is None else record.eligible_leader_replicas,
            last_known_leader=before.last_known_leader if record.last_known_elr is None else record.last_known_elr,
            adding=before.adding if record.adding_replicas is None else record.adding_replicas,
            removing=before.removing if record.removing_replicas is None else record.removing_replicas,
            leader=record.leader if has_leader_change else before.leader,
            leader_epoch=before.leader_epoch + has_leader_change,
            partition_epoch=before.partition_epoch + 1,
        )
        return key
