"""A transactional producer: one transaction after the other, over several partitions and a group's offsets.

Requests without a response are retried. After a fatal error the producer abandons the transaction and sends
InitProducerId again. Several instances may share a transactional id and fence each other.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.sim.transaction_history import Attempt, Fate, ProducerInitialized, TransactionalSend, TransactionHistory
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema

TIMEOUT_MS: Final = 4_000
OF_GROUPS, OF_TRANSACTIONS = 0, 1
_SLOW_PROBABILITY: Final = 0.1
_SLOW_SECONDS_MAX: Final = 2.0

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)


class _Refused(Exception):
    """A fatal error."""


class TransactionalProducer:
    def __init__(
        self,
        client: ClusterClient,
        history: TransactionHistory,
        transactional_id: str,
        partitions: Sequence[TopicPartition],
        *,
        increments_epoch: bool,
        fenced_backoff_seconds: float,
        group_id: str | None = None,
    ) -> None:
        """A fenced instance waits about `fenced_backoff_seconds`, then fences the other. The group id is its name."""
        self._client: Final = client
        self._history: Final = history
        self._id: Final = transactional_id
        self._group_id: Final = group_id or client.name
        self._partitions: Final = partitions
        self._increments_epoch: Final = increments_epoch
        self._fenced_backoff_seconds: Final = fenced_backoff_seconds
        self._producer: tuple[int, int] | None = None
        self._sequences: Final[dict[TopicPartition, int]] = {}
        self._added: Final[set[TopicPartition]] = set()
        self._coordinators: Final[dict[int, tuple[str, int]]] = {}
        self._count = 0
        self.is_finishing = False

    async def run(self) -> None:
        client = self._client
        while not self.is_finishing:
            try:
                if self._producer is None:
                    await self._begin()
                await self._transaction()
                await asyncio.sleep(client.random.expovariate(10))
            except _Refused as refused:
                client.note(f"initializes again: {refused}")
                self._producer = None
                await asyncio.sleep(client.random.expovariate(1 / self._fenced_backoff_seconds))

    # ---- one transaction

    async def _begin(self) -> None:
        def build(chosen: Schema) -> Message:
            return chosen.new(
                "InitProducerIdRequest",
                transactional_id=self._id,
                transaction_timeout=milliseconds(TIMEOUT_MS),
                producer_id=-1,
                producer_epoch=-1,
            )

        response = await self._send_until_accepted(
            OF_TRANSACTIONS, ApiKey.INIT_PRODUCER_ID, 4, build, lambda response: response.error_code
        )
        self._become(response.producer_id, response.producer_epoch)
        self._history.initialized.append(
            ProducerInitialized(
                self._id, self._client.name, (response.producer_id, response.producer_epoch), self._client.now
            )
        )
        self._client.note(f"is {self._id} in epoch {response.producer_epoch} of {response.producer_id}")

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self._producer:
            self._sequences.clear()
        self._producer = (producer_id, epoch)

    async def _transaction(self) -> None:
        client, random = self._client, self._client.random
        assert self._producer is not None
        attempt = Attempt(
            transactional_id=self._id,
            instance=client.name,
            number=self._count,
            producer=self._producer,
            began=client.now,
        )
        self._count += 1
        self._history.attempts.append(attempt)
        self._added.clear()
        for partition in random.sample(self._partitions, random.randrange(1, len(self._partitions) + 1)):
            for _ in range(random.choice((1, 1, 2))):
                await self._send(attempt, partition)
        if random.random() < 0.5:
            await self._commit_offsets(attempt)
        if random.random() < _SLOW_PROBABILITY:
            # Long enough for another instance to start and for the transaction to time out.
            await asyncio.sleep(random.uniform(0, _SLOW_SECONDS_MAX))
        await self._end(attempt, commits=random.random() < 0.7)

    async def _send(self, attempt: Attempt, partition: TopicPartition) -> None:
        client = self._client
        if not self._increments_epoch and partition not in self._added:
            await self._add(partition)
        value = f"{client.name}:{attempt.number}:{len(attempt.sends)}|".encode()
        send = TransactionalSend(partition=partition, value=value, began=client.now)
        attempt.sends.append(send)
        sequence = self._sequences.get(partition, 0)
        producer_id, epoch = attempt.producer
        data = build_batch(
            [Record(None, value, client.clock.wall_ms())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        client.note(f"sends {attempt}, {value.decode()} to {partition}")
        while True:
            try:
                code = await self._produce(partition, data)
            except RequestFailed as failure:
                client.note(f"sends again: {failure}")
                client.forget_leader(partition)
                await client.back_off()
                continue
            if code is ErrorCode.none:
                break
            if code not in _RETRIABLE:
                raise _Refused(f"{value.decode()} is rejected: {code.name}")
            client.forget_leader(partition)
            await client.back_off()
        send.is_acknowledged = True
        self._sequences[partition] = sequence + 1

    async def _produce(self, partition: TopicPartition, data: bytes) -> ErrorCode:
        leader, connection = await self._client.reach_leader(partition)
        chosen = schema(ApiKey.PRODUCE, 12 if self._increments_epoch else 11)
        records = chosen.new("PartitionProduceData", index=partition.partition, records=data)
        topic = chosen.new(
            "TopicProduceData", name=partition.topic, topic_id=leader.topic_id, partition_data=(records,)
        )
        request = chosen.new(
            "ProduceRequest", transactional_id=self._id, acks=-1, timeout=milliseconds(1500), topic_data=(topic,)
        )
        response = await self._send_request(connection, chosen, request)
        code: ErrorCode = response.responses[0].partition_responses[0].error_code
        return code

    async def _add(self, partition: TopicPartition) -> None:
        producer_id, epoch = self._identity

        def build(chosen: Schema) -> Message:
            topic = chosen.new("AddPartitionsToTxnTopic", name=partition.topic, partitions=(partition.partition,))
            return chosen.new(
                "AddPartitionsToTxnRequest",
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=(topic,),
            )

        def code_of(response: Message) -> ErrorCode:
            code: ErrorCode = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            return code

        await self._send_until_accepted(OF_TRANSACTIONS, ApiKey.ADD_PARTITIONS_TO_TXN, 3, build, code_of)
        self._added.add(partition)

    async def _commit_offsets(self, attempt: Attempt) -> None:
        producer_id, epoch = attempt.producer
        group_id = self._group_id
        if not self._increments_epoch:

            def add(chosen: Schema) -> Message:
                return chosen.new(
                    "AddOffsetsToTxnRequest",
                    transactional_id=self._id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=group_id,
                )

            await self._send_until_accepted(
                OF_TRANSACTIONS, ApiKey.ADD_OFFSETS_TO_TXN, 3, add, lambda response: response.error_code
            )
        offset = attempt.number + 1

        def build(chosen: Schema) -> Message:
            partition = chosen.new(
                "TxnOffsetCommitRequestPartition",
                partition_index=self._partitions[0].partition,
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata="",
            )
            topic = chosen.new("TxnOffsetCommitRequestTopic", name=self._partitions[0].topic, partitions=(partition,))
            return chosen.new(
                "TxnOffsetCommitRequest",
                transactional_id=self._id,
                group_id=group_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=(topic,),
            )

        def code_of(response: Message) -> ErrorCode:
            code: ErrorCode = response.topics[0].partitions[0].error_code
            return code

        # Even without a response the offset may be committed with the transaction.
        await self._send_until_accepted(
            OF_GROUPS, ApiKey.TXN_OFFSET_COMMIT, 5 if self._increments_epoch else 3, build, code_of
        )
        attempt.group_offset = offset

    async def _end(self, attempt: Attempt, *, commits: bool) -> None:
        client = self._client
        producer_id, epoch = attempt.producer

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "EndTxnRequest",
                transactional_id=self._id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=commits,
            )

        if commits:
            attempt.fate = Fate.UNKNOWN
        client.note(f"{'commits' if commits else 'aborts'} {attempt}")
        version = 5 if self._increments_epoch else 4
        response = await self._send_until_accepted(
            OF_TRANSACTIONS, ApiKey.END_TXN, version, build, lambda response: response.error_code
        )
        attempt.fate = Fate.COMMITTED if commits else Fate.NEVER_COMMITTED
        attempt.ended = client.now
        client.note(f"receives the response for {attempt}: {attempt.fate.value}")
        if self._increments_epoch:
            self._become(response.producer_id, response.producer_epoch)

    # ---- afterwards

    @property
    def instance(self) -> str:
        return self._client.name

    async def group_offset(self, client: ClusterClient) -> int:
        """The committed offset of its group, queried with another client."""

        def build(chosen: Schema) -> Message:
            topic = chosen.new(
                "OffsetFetchRequestTopics",
                name=self._partitions[0].topic,
                partition_indexes=(self._partitions[0].partition,),
            )
            group = chosen.new("OffsetFetchRequestGroup", group_id=self._group_id, topics=(topic,))
            return chosen.new("OffsetFetchRequest", groups=(group,), require_stable=True)

        def code_of(response: Message) -> ErrorCode:
            (group,) = response.groups
            if group.error_code is not ErrorCode.none:
                code: ErrorCode = group.error_code
                return code
            code = group.topics[0].partitions[0].error_code
            # After the faults end, no offset stays unstable.
            return ErrorCode.coordinator_load_in_progress if code is ErrorCode.unstable_offset_commit else code

        querying = TransactionalProducer(
            client,
            self._history,
            self._id,
            self._partitions,
            increments_epoch=self._increments_epoch,
            fenced_backoff_seconds=self._fenced_backoff_seconds,
            group_id=self._group_id,
        )
        response = await querying._send_until_accepted(OF_GROUPS, ApiKey.OFFSET_FETCH, 8, build, code_of)
        return int(response.groups[0].topics[0].partitions[0].committed_offset)

    # ---- requests

    @property
    def _identity(self) -> tuple[int, int]:
        assert self._producer is not None
        return self._producer

    async def _send_until_accepted(
        self,
        kind: int,
        api_key: int,
        version: int,
        build: Callable[[Schema], Message],
        code_of: Callable[[Message], ErrorCode],
    ) -> Message:
        """Sends the request to the current coordinator until it is accepted. Raises _Refused."""
        client = self._client
        while True:
            try:
                connection = await self._coordinator(kind)
                chosen = schema(api_key, version)
                response = await self._send_request(connection, chosen, build(chosen))
            except RequestFailed as failure:
                client.note(f"retries: {failure}")
                self._coordinators.pop(kind, None)
                await client.back_off()
                continue
            code = code_of(response)
            if code is ErrorCode.none:
                return response
            if code not in _RETRIABLE:
                raise _Refused(f"{chosen.api_name} is rejected: {code.name}")
            if code is not ErrorCode.concurrent_transactions:
                self._coordinators.pop(kind, None)
            await client.back_off()

    async def _coordinator(self, kind: int) -> Connection:
        client = self._client
        address = self._coordinators.get(kind)
        if address is None:
            connection = await client.connect_to_any()
            chosen = schema(ApiKey.FIND_COORDINATOR, 4)
            key = self._id if kind == OF_TRANSACTIONS else self._group_id
            request = chosen.new("FindCoordinatorRequest", key_type=kind, coordinator_keys=(key,))
            (found,) = (await self._send_request(connection, chosen, request)).coordinators
            if found.error_code is not ErrorCode.none:
                raise RequestFailed(f"no coordinator: {found.error_code.name}")
            address = self._coordinators[kind] = (found.host, found.port)
        return await client.connect(*address)

    async def _send_request(self, connection: Connection, chosen: Schema, request: Message) -> Message:
        try:
            async with asyncio.timeout(self._client.timeout_seconds):
                return await connection.send_request(chosen, request)
        except TimeoutError:
            connection.abort()
            raise RequestFailed("no response in time") from None
