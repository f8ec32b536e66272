"""ISR changes that leaders propose with AlterPartition.

The controller rejects them if the leader or the partition has changed since, or if a follower is fenced or has
restarted. The same change completes a reassignment.
"""

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import NO_BROKER_EPOCH, ControllerResult, IsrChange
from odradek.core.controller.draft import Draft
from odradek.core.controller.elections import Elections
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.image import RECOVERED, RECOVERING, PartitionImage


class IsrChanges:
    def __init__(self, state: ControllerState, elections: Elections) -> None:
        self._state = state
        self._elections = elections

    def alter(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> ControllerResult[Sequence[PartitionImage | KafkaError]]:
        self._state.check_broker_epoch(broker_id, broker_epoch)
        draft = Draft()
        results: list[PartitionImage | KafkaError] = []
        for change in changes:
            try:
                results.append(self._alter_one(broker_id, change, draft))
            except KafkaError as error:
                results.append(error)
        return ControllerResult(tuple(draft.records), results, is_atomic=False)

    def _alter_one(self, broker_id: int, wanted: IsrChange, draft: Draft) -> PartitionImage:
        topic = None if wanted.topic_id is None else self._state.image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        partition = draft.partition(topic, wanted.partition)
        if partition is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        _check_epochs(broker_id, partition, wanted)
        _check_isr(partition, wanted)
        for member, epoch in wanted.isr:
            if not self._is_eligible(member, epoch, partition):
                raise KafkaError(ErrorCode.ineligible_replica)
        change = self._elections.change(topic, wanted.partition, partition, tuple(member for member, _ in wanted.isr))
        change.leader_recovery_state = wanted.leader_recovery_state
        record = change.record()
        if record is None:
            return partition
        changed = draft.add(partition, record)
        if changed.leader != broker_id:
            # The change completes a reassignment that removes this leader. The change is still valid.
            raise KafkaError(ErrorCode.new_leader_elected)
        return changed

    def _is_eligible(self, broker_id: int, broker_epoch: int, partition: PartitionImage) -> bool:
        if not self._state.is_active(broker_id):
            return False
        # A replica on an offline directory cannot join the ISR. Apache Kafka does not check this.
        is_new = broker_id not in partition.isr
        if is_new and not self._state.has_online_directory(broker_id, partition.directory_of(broker_id)):
            return False
        return broker_epoch in (NO_BROKER_EPOCH, self._state.image.brokers[broker_id].epoch)


def _check_epochs(broker_id: int, partition: PartitionImage, wanted: IsrChange) -> None:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # The leader has newer metadata than this controller, which therefore is not the active one any more.
        raise KafkaError(ErrorCode.not_controller)
    if wanted.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.fenced_leader_epoch)
    if broker_id != partition.leader:
        raise KafkaError(ErrorCode.invalid_request)
    if wanted.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.invalid_update_version)


def _check_isr(partition: PartitionImage, wanted: IsrChange) -> None:
    members = [member for member, _ in wanted.isr]
    is_set_of_replicas = len(set(members)) == len(members) and set(members) <= set(partition.replicas)
    if not is_set_of_replicas or partition.leader not in members:
        raise KafkaError(ErrorCode.invalid_request)
    if wanted.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise KafkaError(ErrorCode.invalid_request)
    # While a leader recovers, it is alone in the ISR; a recovered leader does not recover again.
    may_recover = len(members) == 1 and partition.leader_recovery_state == RECOVERING
    if wanted.leader_recovery_state == RECOVERING and not may_recover:
        raise KafkaError(ErrorCode.invalid_request)
