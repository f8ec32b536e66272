"""Starts and cancels reassignments. Any later change of the partition completes them."""

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.assignment import Assignment
from odradek.core.controller.commands import RECORDS_MAX, ControllerResult, Reassignment, TopicReassignments
from odradek.core.controller.draft import Draft
from odradek.core.controller.elections import Elections
from odradek.core.controller.manual_assignment import check_manual_assignment
from odradek.core.controller.partition_change import Election, PartitionChange
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.image import PartitionImage, TopicImage


class Reassignments:
    def __init__(self, state: ControllerState, elections: Elections) -> None:
        self._state = state
        self._elections = elections

    def alter(
        self, reassignments: Sequence[Reassignment], *, allow_replication_factor_change: bool
    ) -> ControllerResult[Sequence[KafkaError | None]]:
        draft = Draft()
        results: list[KafkaError | None] = []
        for one in reassignments:
            try:
                self._alter_one(one, allow_replication_factor_change, draft)
                results.append(None)
            except KafkaError as error:
                results.append(error)
        return ControllerResult(tuple(draft.records), results)

    def list_ongoing(self, topics: Sequence[tuple[str, Sequence[int]]] | None) -> Sequence[TopicReassignments]:
        image = self._state.image
        if topics is None:
            reassigned = (image.topics_by_id[topic_id] for topic_id in self._state.index.reassigned_topics())
            found = [_ongoing_of(topic, tuple(topic.partitions)) for topic in reassigned]
        else:
            named = ((image.topics_by_name.get(name), indexes) for name, indexes in topics)
            found = [_ongoing_of(topic, indexes) for topic, indexes in named if topic is not None]
        return [one for one in found if one.partitions]

    def _alter_one(self, wanted: Reassignment, allow_replication_factor_change: bool, draft: Draft) -> None:
        topic = self._state.image.topics_by_name.get(wanted.topic)
        if topic is None:
            raise _not_found_error(f"Unable to find a topic named {wanted.topic}.")
        partition = draft.partition(topic, wanted.partition)
        if partition is None:
            raise _not_found_error(f"Unable to find partition {wanted.topic}:{wanted.partition}.")
        change = self._elections.change(topic, wanted.partition, partition)
        now = Assignment.of(partition)
        if wanted.replicas is None:
            self._cancel(change, topic)
        else:
            check_manual_assignment(self._state.image, wanted.replicas)
            if not allow_replication_factor_change:
                _check_replication_factor(now, wanted.replicas)
            change.assignment = now.towards(wanted.replicas)
            # A reassignment must not cause an unclean election.
            change.election = Election.ONLINE
        if (record := change.record()) is not None:
            if len(draft.records) == RECORDS_MAX:
                # Kafka's error code for this case.
                raise KafkaError(ErrorCode.unknown_server_error)
            draft.add(partition, record)

    def _cancel(self, change: PartitionChange, topic: TopicImage) -> None:
        before = change.before
        if not before.is_reassigned:
            raise KafkaError(ErrorCode.no_reassignment_in_progress)
        change.assignment = original = Assignment.of(before).revert()
        change.isr = tuple(member for member in before.isr if member not in before.adding)
        if change.isr:
            return
        if change.election is not Election.UNCLEAN:
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"Unable to revert partition assignment for {topic.name}:{change.partition_id} because it would "
                "require an unclean leader election.",
            )
        if not change.rules.is_elr_enabled:
            # Without ELR the ISR must not be empty, so it needs a replica that can lead now or later.
            change.isr = (next(filter(change.can_lead, original.replicas), original.replicas[0]),)


def _check_replication_factor(assignment: Assignment, replicas: tuple[int, ...]) -> None:
    count = len(assignment.final_replicas)
    if count != len(replicas):
        raise KafkaError(
            ErrorCode.invalid_replication_factor, f"The replication factor is changed from {count} to {len(replicas)}"
        )


def _ongoing_of(topic: TopicImage, indexes: Sequence[int]) -> TopicReassignments:
    partitions: list[tuple[int, PartitionImage]] = []
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and partition.is_reassigned:
            partitions.append((index, partition))
    return TopicReassignments(topic.name, partitions)


def _not_found_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.unknown_topic_or_partition, message)
