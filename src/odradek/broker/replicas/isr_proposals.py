"""Leaders' proposals of who is in sync, on their way to the controller: AlterPartition, one request at a time.

What comes up while one is under way goes with the next. An answer that does not come is asked for again; what it is
worth by then is for the partition's own bookkeeping to judge.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

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
    in_sync_before: int


class IsrProposals:
    def __init__(self, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int], clock: Clock) -> None:
        self._controller: Final = controller
        self._node_id: Final = node_id
        self._broker_epoch: Final = broker_epoch
        self._clock: Final = clock
        self.counts: Final = IsrCounts()
        self._changed: Final[dict[Partition, None]] = {}
        self._sending: asyncio.Task[None] | None = None

    def may_change(self, partition: Partition) -> None:
        """Costs little where nothing does."""
        replication = partition.leader_state
        if replication is not None and replication.has_proposal:
            self._changed[partition] = None
            if self._sending is None:
                self._sending = asyncio.ensure_future(self._send_all())

    def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send_all(self) -> None:
        try:
            while self._changed:
                proposed = self._take()
                if proposed:
                    await self._send(proposed)
                elif self._changed:
                    await asyncio.sleep(self._pause_seconds())
        finally:
            self._sending = None

    def _take(self) -> list[_Proposed]:
        now = self._clock.monotonic()
        proposed: list[_Proposed] = []
        for partition in list(self._changed)[:PARTITIONS_PER_REQUEST_MAX]:
            replication = partition.leader_state
            if replication is None or not replication.has_proposal:
                del self._changed[partition]
            elif (proposal := replication.take_proposal(now)) is not None:
                del self._changed[partition]
                proposed.append(_Proposed(partition, proposal, len(replication.isr)))
        return proposed

    def _pause_seconds(self) -> float:
        """Until the first of those that were refused may be tried again."""
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
        code, answers = await self._ask(proposed)
        now = self._clock.monotonic()
        for partition, proposal, in_sync_before in proposed:
            key: tuple[UUID, int] = (partition.topic_id, partition.name.partition)
            answer = answers.get(key, code)
            if answer is ErrorCode.none:
                answer = ErrorCode.unknown_server_error
            if isinstance(answer, CommittedIsr):
                self.counts.count_change(in_sync_before, len(answer.isr))
            else:
                self.counts.failed_updates += 1
            replication = partition.leader_state
            if replication is not None:
                replication.on_proposal_response(proposal, answer, now)
            self.may_change(partition)

    async def _ask(
        self, proposed: list[_Proposed]
    ) -> tuple[ErrorCode, dict[tuple[UUID, int], CommittedIsr | ErrorCode]]:
        """What the controller says to all, and what to each."""
        try:
            response = await self._controller.handle(*ALTER_PARTITION, self._request(proposed))
        except Exception:
            # A fault of ours. Whoever is never answered could never propose anything again.
            logger.exception("the controller could not be asked who is in sync")
            return ErrorCode.unknown_server_error, {}
        if response.error_code is not ErrorCode.none:
            logger.info("the controller refused to hear who is in sync: %s", response.error_code.name.upper())
        return response.error_code, {
            (topic.topic_id, one.partition_index): _answer(one) for topic in response.topics for one in topic.partitions
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


def _answer(result: Message) -> CommittedIsr | ErrorCode:
    if result.error_code is not ErrorCode.none:
        code: ErrorCode = result.error_code
        return code
    return CommittedIsr(result.leader_epoch, result.partition_epoch, tuple(result.isr))
