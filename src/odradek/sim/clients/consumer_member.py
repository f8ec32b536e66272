"""A member of a consumer group (KIP-848): it sends heartbeats, revokes partitions and commits offsets.

Like Kafka's consumer, it sends a full heartbeat after a response that did not arrive. Sometimes it pauses for longer
than its session timeout and then continues with its old member epoch; sometimes it leaves.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.groups.commands import JOINING_EPOCH, LEAVING_EPOCH
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.group_client import GroupClient
from odradek.sim.group_history import MemberAssignment
from odradek.sim.history import History
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

LOWEST_VERSION_WITH_MEMBER_EPOCHS: Final[Mapping[int, int]] = {ApiKey.OFFSET_COMMIT: 9}
_FIRST_WITH_OWN_IDS: Final = 1
_REBALANCE_MS: Final = 2000
_HEARTBEAT_SECONDS: Final = 0.2
_SLOW_SECONDS_MAX: Final = 0.5
_PAUSE_SECONDS: Final = (1.0, 4.0)
_PAUSE_PROBABILITY: Final = 0.03
_LEAVE_PROBABILITY: Final = 0.02
# It is no longer a member and owns no partitions.
_FENCED: Final = frozenset((ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id))


class ConsumerMember:
    def __init__(
        self, client: ClusterClient, history: History, group: str, partitions: Sequence[TopicPartition]
    ) -> None:
        """Subscribes to the topics of `partitions`, which are all their partitions."""
        self._client: Final = client.with_lowest_versions(LOWEST_VERSION_WITH_MEMBER_EPOCHS)
        self._groups: Final = GroupClient(self._client, history, group)
        self._history: Final = history.groups
        self._partitions: Final = frozenset(partitions)
        self._topics: Final = tuple(dict.fromkeys(partition.topic for partition in partitions))
        self._member_id = ""
        self._epoch = JOINING_EPOCH
        self._owned: frozenset[TopicPartition] = frozenset()
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._reported: frozenset[TopicPartition] | None = None
        """The owned partitions of the last heartbeat with a response. None: the next heartbeat must be a full one."""
        self.is_finishing = False

    async def run(self) -> None:
        """Once `is_finishing` is set, returns when every partition has an owner."""
        while True:
            is_last = self.is_finishing
            try:
                await self._step()
                if is_last and self._history.is_fully_assigned(self._groups.group, self._partitions):
                    return
            except RequestFailed as failure:
                self._client.note(f"gets no response: {failure}")
                self._reported = None
                self._groups.forget_coordinator()
                await self._client.back_off()

    async def _step(self) -> None:
        random = self._client.random
        await self._heartbeat()
        if self._owned - self._wanted:
            await asyncio.sleep(random.uniform(0, _SLOW_SECONDS_MAX))
            # It still owns them; this may be its last request in this epoch.
            await self._commit_one(self._owned - self._wanted)
            self._record_assignment(self._owned & self._wanted)
            return
        await self._commit_one(self._owned)
        if not self.is_finishing and random.random() < _LEAVE_PROBABILITY:
            await self._leave()
        elif not self.is_finishing and random.random() < _PAUSE_PROBABILITY:
            await asyncio.sleep(random.uniform(*_PAUSE_SECONDS))
            await self._commit_one(self._owned)
        await asyncio.sleep(random.expovariate(1 / _HEARTBEAT_SECONDS))

    async def _commit_one(self, partitions: frozenset[TopicPartition]) -> None:
        random = self._client.random
        if not partitions or random.random() < 0.5:
            return
        code = await self._groups.commit(random.choice(sorted(partitions)), self._member_id, self._epoch)
        if code in _FENCED:
            self._client.note(f"has to join again: {code.name}")
            self._rejoin()
        elif code is not ErrorCode.none and code is not ErrorCode.stale_member_epoch:
            raise RequestFailed(code.name)

    # ---- owned partitions

    def _record_assignment(self, owned: frozenset[TopicPartition]) -> None:
        self._owned = owned
        self._history.record_assignment(
            MemberAssignment(
                group=self._groups.group,
                member=self._member_id,
                epoch=self._epoch,
                partitions=owned,
                ended=self._client.now,
            ),
            self._client.name,
        )

    def _rejoin(self) -> None:
        self._epoch, self._wanted, self._reported = JOINING_EPOCH, frozenset(), None
        self._record_assignment(frozenset())

    # ---- heartbeats

    async def _heartbeat(self) -> None:
        is_joining = self._epoch == JOINING_EPOCH
        ids = await self._topic_ids()
        owned_before = self._owned
        is_full = is_joining or self._reported is None
        response = await self._send_request(
            is_full=is_full, owned=owned_before if is_full or owned_before != self._reported else None, ids=ids
        )
        if response.error_code in _FENCED:
            self._client.note(f"has to join again: {response.error_code.name}")
            self._rejoin()
            return
        if response.error_code is not ErrorCode.none:
            raise RequestFailed(response.error_code.name)
        self._reported = owned_before
        self._member_id = response.member_id or self._member_id
        is_later = response.member_epoch != self._epoch
        self._epoch = response.member_epoch
        if response.assignment is not None:
            names = {topic_id: name for name, topic_id in ids.items()}
            self._wanted = frozenset(
                TopicPartition(names[topic.topic_id], index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )
        # In a new epoch it owns its assignment; in the same epoch also the partitions that it has not revoked yet.
        owned = self._wanted if is_later else self._owned | self._wanted
        if is_later or owned != self._owned:
            self._record_assignment(owned)
            self._client.note(f"owns {sorted(map(str, owned))} in epoch {self._epoch}")

    async def _leave(self) -> None:
        self._client.note("leaves")
        self._record_assignment(frozenset())
        self._epoch = LEAVING_EPOCH
        try:
            await self._send_request(is_full=False, owned=None, ids={})
        finally:
            self._rejoin()

    async def _topic_ids(self) -> Mapping[str, UUID | None]:
        first_of = {partition.topic: partition for partition in sorted(self._partitions, reverse=True)}
        return {topic: (await self._client.leader(first_of[topic])).topic_id for topic in self._topics}

    async def _send_request(
        self, *, is_full: bool, owned: frozenset[TopicPartition] | None, ids: Mapping[str, UUID | None]
    ) -> Message:
        client = self._client

        def build(chosen: Schema) -> Message:
            if not self._member_id and chosen.version >= _FIRST_WITH_OWN_IDS:
                self._member_id = f"{client.name}-{client.random.getrandbits(32):08x}"
            return chosen.new(
                "ConsumerGroupHeartbeatRequest",
                group_id=self._groups.group,
                member_id=self._member_id,
                member_epoch=self._epoch,
                rebalance_timeout=milliseconds(_REBALANCE_MS if is_full else -1),
                subscribed_topic_names=self._topics if is_full else None,
                topic_partitions=None if owned is None else _by_topic(chosen, owned, ids),
            )

        connection = await self._groups.coordinator()
        return await client.send_request(connection, ApiKey.CONSUMER_GROUP_HEARTBEAT, build)


def _by_topic(
    chosen: Schema, partitions: frozenset[TopicPartition], ids: Mapping[str, UUID | None]
) -> tuple[Message, ...]:
    indexes: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        indexes.setdefault(partition.topic, []).append(partition.partition)
    return tuple(
        chosen.new_in_request("TopicPartitions", topic_id=ids[topic], partitions=tuple(of_topic))
        for topic, of_topic in indexes.items()
    )
