"""Lists, starts and cancels partition reassignments, and elects preferred leaders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

T = TypeVar("T")


_PREFERRED: Final = 0
# One request becomes one batch of the metadata log, whose size is limited.
_PARTITIONS_AT_ONCE: Final = 1000

# The errors of single partitions; partitions without an error are left out.
PartitionErrors = dict[TopicPartition, KafkaError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """An ongoing reassignment."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    """All current replicas, including those being added and removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class Reassignments:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def list_ongoing(self) -> list[Reassignment]:
        def build(chosen: Schema) -> Message:
            return chosen.new("ListPartitionReassignmentsRequest", timeout=self._timeout, topics=None)

        def attempt() -> list[Reassignment]:
            response = self._cluster.send_to_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, build)
            raise_for_error(response)
            found = [
                Reassignment(
                    partition=TopicPartition(topic.name, one.partition_index),
                    replicas=tuple(one.replicas),
                    adding=tuple(one.adding_replicas),
                    removing=tuple(one.removing_replicas),
                )
                for topic in response.topics
                for one in topic.partitions
            ]
            return sorted(found, key=lambda one: one.partition)

        return self._cluster.retry("listing reassignments", attempt)

    def start(
        self,
        wanted: Mapping[TopicPartition, Sequence[int]],
        *,
        on_response: Callable[[int], None] = lambda amount: None,
    ) -> PartitionErrors:
        """Start reassigning partitions to these replicas. Returns before data is copied."""
        return self._alter("starting reassignments", wanted, on_response)

    def cancel(
        self, partitions: Iterable[TopicPartition], *, on_response: Callable[[int], None] = lambda amount: None
    ) -> PartitionErrors:
        """Return to the previous replicas. A reassignment that has completed meanwhile is not an error."""
        errors = self._alter("cancelling reassignments", dict.fromkeys(partitions), on_response)
        return {
            partition: error
            for partition, error in errors.items()
            if error.code is not ErrorCode.no_reassignment_in_progress
        }

    def elect_preferred(
        self, partitions: Sequence[TopicPartition] | None
    ) -> tuple[list[TopicPartition], PartitionErrors]:
        """Elect the preferred leader of these partitions, or of all. Returns the partitions with a new leader."""

        def build(chosen: Schema) -> Message:
            topics = None if partitions is None else _by_topic((one, None) for one in partitions)
            return chosen.new(
                "ElectLeadersRequest",
                election_type=_PREFERRED,
                topic_partitions=topics
                and tuple(
                    chosen.new("TopicPartitions", topic=topic, partitions=tuple(one.partition for one, _ in numbers))
                    for topic, numbers in topics.items()
                ),
                timeout=self._timeout,
            )

        def attempt() -> tuple[list[TopicPartition], PartitionErrors]:
            response = self._cluster.send_to_controller(ApiKey.ELECT_LEADERS, build)
            raise_for_error(response)
            results = {
                TopicPartition(topic.topic, one.partition_id): one
                for topic in response.replica_election_results
                for one in topic.partition_result
            }
            elected = sorted(name for name, one in results.items() if one.error_code is ErrorCode.none)
            errors = {
                name: KafkaError(one.error_code, one.error_message)
                for name, one in sorted(results.items())
                if one.error_code not in (ErrorCode.none, ErrorCode.election_not_needed)
            }
            return elected, errors

        return self._cluster.retry("electing leaders", attempt)

    def _alter(
        self,
        what: str,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        on_response: Callable[[int], None],
    ) -> PartitionErrors:
        errors: PartitionErrors = {}
        left = iter(sorted(wanted.items(), key=lambda item: item[0]))
        while some := list(islice(left, _PARTITIONS_AT_ONCE)):
            errors |= self._cluster.retry(what, partial(self._alter_some, some))
            on_response(len(some))
        return errors

    def _alter_some(self, wanted: Sequence[tuple[TopicPartition, Sequence[int] | None]]) -> PartitionErrors:
        def build(chosen: Schema) -> Message:
            topics = tuple(
                chosen.new(
                    "ReassignableTopic",
                    name=topic,
                    partitions=tuple(
                        chosen.new(
                            "ReassignablePartition",
                            partition_index=one.partition,
                            replicas=None if replicas is None else tuple(replicas),
                        )
                        for one, replicas in partitions
                    ),
                )
                for topic, partitions in _by_topic(wanted).items()
            )
            return chosen.new(
                "AlterPartitionReassignmentsRequest",
                timeout=self._timeout,
                allow_replication_factor_change=True,
                topics=topics,
            )

        response = self._cluster.send_to_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, build)
        raise_for_error(response)
        return {
            TopicPartition(topic.name, one.partition_index): KafkaError(one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
            if one.error_code is not ErrorCode.none
        }

    @property
    def _timeout(self) -> timedelta:
        return milliseconds(self._cluster.timeout_s * 1000)


def _by_topic(items: Iterable[tuple[TopicPartition, T]]) -> dict[str, list[tuple[TopicPartition, T]]]:
    found: dict[str, list[tuple[TopicPartition, T]]] = {}
    for partition, value in items:
        found.setdefault(partition.topic, []).append((partition, value))
    return found
