"""What all clients of a group share: finding the coordinator, and committing and fetching offsets."""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.sim.group_history import NO_GENERATION, Commit, CommitView
from odradek.sim.history import History
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_FIRST_BATCHED: Final = 4
_FIRST_OF_MANY: Final = 8
_FIRST_BY_TOPIC_ID: Final = 10
# With these errors nothing was written.
REFUSALS: Final = frozenset(
    (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.fenced_member_epoch,
        ErrorCode.group_id_not_found,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.stale_member_epoch,
        ErrorCode.unknown_member_id,
    )
)


class GroupClient:
    def __init__(self, client: ClusterClient, history: History, group: str) -> None:
        self.client: Final = client
        self.history: Final = history
        self.group: Final = group
        self._address: tuple[str, int] | None = None

    async def coordinator(self) -> Connection:
        """Raises RequestFailed while there is none."""
        if self._address is None:
            self._address = await self._find()
        return await self.client.connect(*self._address)

    def forget_coordinator(self) -> None:
        self._address = None

    async def _find(self) -> tuple[str, int]:
        def build(chosen: Schema) -> Message:
            return chosen.new("FindCoordinatorRequest", key=self.group, key_type=0, coordinator_keys=(self.group,))

        connection = await self.client.connect_to_any()
        response = await self.client.send_request(connection, ApiKey.FIND_COORDINATOR, build)
        found = getattr(response, "coordinators", (response,))[0]
        if found.error_code is not ErrorCode.none:
            raise RequestFailed(f"no coordinator: {found.error_code.name}")
        return found.host, found.port

    # ---- offsets

    async def commit(self, partition: TopicPartition, member: str = "", generation: int = NO_GENERATION) -> ErrorCode:
        """Raises RequestFailed."""
        client = self.client
        connection = await self.coordinator()
        topic_id = (await client.leader(partition)).topic_id
        commit = Commit(
            group=self.group,
            member=member,
            generation=generation,
            partition=partition,
            offset=self.history.groups.next_offset(),
            began=client.now,
        )

        def build(chosen: Schema) -> Message:
            one = chosen.new(
                "OffsetCommitRequestPartition",
                partition_index=partition.partition,
                committed_offset=commit.offset,
                committed_metadata=client.name,
            )
            topic = chosen.new("OffsetCommitRequestTopic", name=partition.topic, topic_id=topic_id, partitions=(one,))
            return chosen.new(
                "OffsetCommitRequest",
                group_id=self.group,
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=(topic,),
            )

        self.history.groups.commits.append(commit)
        response = await client.send_request(connection, ApiKey.OFFSET_COMMIT, build)
        code: ErrorCode = response.topics[0].partitions[0].error_code
        commit.is_refused = code in REFUSALS
        if code is ErrorCode.none:
            commit.ended = client.now
            client.note(f"commits {commit}")
        return code

    async def fetch_committed_offset(self, partition: TopicPartition) -> int:
        """The committed offset of the partition. Raises RequestFailed."""
        client = self.client
        coordinator = self._address = self._address or await self._find()
        connection = await client.connect(*coordinator)
        topic_id = (await client.leader(partition)).topic_id
        began = client.now

        def build(chosen: Schema) -> Message:
            indexes = (partition.partition,)
            if chosen.version < _FIRST_OF_MANY:
                topic = chosen.new("OffsetFetchRequestTopic", name=partition.topic, partition_indexes=indexes)
                return chosen.new("OffsetFetchRequest", group_id=self.group, topics=(topic,), require_stable=False)
            topic = chosen.new(
                "OffsetFetchRequestTopics", name=partition.topic, topic_id=topic_id, partition_indexes=indexes
            )
            group = chosen.new("OffsetFetchRequestGroup", group_id=self.group, topics=(topic,))
            return chosen.new("OffsetFetchRequest", groups=(group,), require_stable=False)

        response = await client.send_request(connection, ApiKey.OFFSET_FETCH, build)
        result = getattr(response, "groups", (response,))[0]
        code = getattr(result, "error_code", ErrorCode.none)
        found = result.topics[0].partitions[0] if result.topics else None
        if found is not None and code is ErrorCode.none:
            code = found.error_code
        if code is not ErrorCode.none or found is None:
            self.forget_coordinator()
            raise RequestFailed(f"no offset of {self.group}: {code.name}")
        self.history.groups.views.append(
            CommitView(
                coordinator=coordinator[0],
                group=self.group,
                partition=partition,
                offset=found.committed_offset,
                began=began,
                ended=client.now,
            )
        )
        return int(found.committed_offset)
