"""Directory assignments that brokers report."""

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerResult, DirectoryAssignment
from odradek.core.controller.elections import Elections
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.records import MetadataRecord


class Directories:
    def __init__(self, state: ControllerState, elections: Elections) -> None:
        self._state = state
        self._elections = elections

    def assign(
        self, broker_id: int, broker_epoch: int, assignments: Sequence[DirectoryAssignment]
    ) -> ControllerResult[Sequence[KafkaError | None]]:
        if not self._state.supports_directories:
            raise KafkaError(ErrorCode.unsupported_version, "Directory assignment is not supported yet.")
        self._state.check_broker_epoch(broker_id, broker_epoch)
        records: list[MetadataRecord] = []
        results: list[KafkaError | None] = []
        for assignment in assignments:
            try:
                records += self._assign_one(broker_id, assignment)
                results.append(None)
            except KafkaError as error:
                results.append(error)
        return ControllerResult(tuple(records), results, is_atomic=False)

    def _assign_one(self, broker_id: int, assignment: DirectoryAssignment) -> list[MetadataRecord]:
        topic = self._state.image.topics_by_id.get(assignment.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        partition = topic.partitions.get(assignment.partition)
        if partition is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        if broker_id not in partition.replicas:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        is_online = self._state.has_online_directory(broker_id, assignment.directory)
        # The former directory was replaced or removed, so the replica in the new directory started empty. Apache Kafka
        # lets it lead if it was eligible before.
        started_empty = not self._state.has_online_directory(broker_id, partition.directory_of(broker_id))
        # A replica in an offline directory is not in sync.
        is_whole = is_online and not started_empty
        isr = partition.isr if is_whole else tuple(one for one in partition.isr if one != broker_id)

        def is_active(candidate: int) -> bool:
            return (is_online or candidate != broker_id) and self._state.is_active(candidate)

        change = self._elections.change(topic, assignment.partition, partition, isr, is_active)
        change.directories = {broker_id: assignment.directory}
        if started_empty:
            change.unclean_shutdown = broker_id
            if partition.replicas == (broker_id,):
                # There is no other copy, and no other replica can lead.
                change.can_lead = is_active
        record = change.record()
        return [] if record is None else [record]
