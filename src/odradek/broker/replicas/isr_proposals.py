"""Sends the leaders' ISR proposals to the controller: AlterPartition, one request at a time.

Proposals that arise during a request go into the next one. A request that failed is sent again; the partition's leader
state decides whether a late response still counts.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.errors import ErrorCode
from odradek.base.ports import Clock, ControllerPort
from odradek.core.replication.isr import CommittedIsr, IsrProposal
from odradek.instruments.replication import IsrCounts
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, schema

logger = logging.getLogger(__name__)

ALTER_PARTITION: Final = (ApiKey.ALTER_PARTITION, 3)
RECOVERED: Final = 0
PARTITIONS_PER_REQUEST_MAX: Final = 2_000


class _Proposed(NamedTuple):
    partition: Partition
    proposal: IsrProposal
    isr_size_before: int


class IsrProposals:
    def __init__(self, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int], clock: Clock) -> None:
        self._controller: Final = controller
        self._node_id: Final = node_id
        self._broker_epoch: Final = broker_epoch
        self._clock: Final = clock
        self.counts: Final = IsrCounts()
        self._changed: Final[dict[Partition, None]] = {}
        self._sending: asyncio.Task[None] | None = None

    def send_if_proposed(self, partition: Partition) -> None:
        """Cheap if the partition has no proposal."""
        leader = partition.leader_state
        if leader is not None and leader.has_proposal:
            self._changed[partition] = None
            if self._sending is None:
                # A proposal without a result blocks all later ones of its partition, so this is not started again.
                self._sending = start_task("ISR proposals", self._send_all())

    def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send_all(self) -> None:
        try:
            while self._changed:
                proposed = self._take_proposals()
                if proposed:
                    await self._send(proposed)
                elif self._changed:
                    await asyncio.sleep(self._pause_seconds())
        finally:
            self._sending = None

    def _take_proposals(self) -> list[_Proposed]:
        now = self._clock.monotonic()
        proposed: list[_Proposed] = []
        for partition in list(self._changed)[:PARTITIONS_PER_REQUEST_MAX]:
            leader = partition.leader_state
            if leader is None or not leader.has_proposal:
                del self._changed[partition]
            elif (proposal := leader.take_proposal(now)) is not None:
                del self._changed[partition]
                proposed.append(_Proposed(partition, proposal, len(leader.isr)))
        return proposed

    def _pause_seconds(self) -> float:
        """Until the first failed proposal may be retried."""
        now = self._clock.monotonic()
        deadlines = [
            deadline
            for partition in self._changed
            if partition.leader_state is not None
            and (deadline := partition.leader_state.next_deadline(now)) is not None
        ]
        return max(0.001, min(deadlines, default=now) - now)

    async def _send(self, proposed: list[_Proposed]) -> None:
        proposed.sort(key=lambda one: one[0].topic_id.bytes)
        code, results = await self._request_changes(proposed)
        now = self._clock.monotonic()
        for partition, proposal, isr_size_before in proposed:
            key: tuple[UUID, int] = (partition.topic_id, partition.name.partition)
            result = results.get(key, code)
            if result is ErrorCode.none:
                result = ErrorCode.unknown_server_error
            if isinstance(result, CommittedIsr):
                self.counts.count_change(isr_size_before, len(result.isr))
            else:
                self.counts.failed_updates += 1
            leader = partition.leader_state
            if leader is not None:
                leader.on_proposal_response(proposal, result, now)
            self.send_if_proposed(partition)

    async def _request_changes(
        self, proposed: list[_Proposed]
    ) -> tuple[ErrorCode, dict[tuple[UUID, int], CommittedIsr | ErrorCode]]:
        """Returns the response's error code and the result of each partition."""
        try:
            response = await self._controller.handle(*ALTER_PARTITION, self._request(proposed))
        except Exception:
            # A bug. Without a result the partitions could never propose an ISR change again.
            logger.exception("AlterPartition request failed")
            return ErrorCode.unknown_server_error, {}
        if response.error_code is not ErrorCode.none:
            logger.info("AlterPartition rejected: %s", response.error_code.name.upper())
        return response.error_code, {
            (topic.topic_id, one.partition_index): _result(one) for topic in response.topics for one in topic.partitions
        }

    def _request(self, proposed: list[_Proposed]) -> Message:
        messages = schema(*ALTER_PARTITION)
        topics = []
        for topic_id, group in groupby(proposed, key=lambda one: one[0].topic_id):
            partitions = tuple(
                messages.new_in_request(
                    "PartitionData",
                    partition_index=partition.name.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=tuple(
                        messages.new("BrokerState", broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                        for member in proposal.isr
                    ),
                    leader_recovery_state=RECOVERED,
                    partition_epoch=proposal.partition_epoch,
                )
                for partition, proposal, _ in group
            )
            topics.append(messages.new_in_request("TopicData", topic_id=topic_id, partitions=partitions))
        return messages.new(
            "AlterPartitionRequest",
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=tuple(topics),
        )


def _result(result: Message) -> CommittedIsr | ErrorCode:
    if result.error_code is not ErrorCode.none:
        code: ErrorCode = result.error_code
        return code
    return CommittedIsr(result.leader_epoch, result.partition_epoch, tuple(result.isr))
