"""Produces records: collects them into batches, sends these to the partitions' leaders, and retries until stored.

With acks=all the producer is idempotent: a batch that is sent again after a lost response is stored once. With a
transaction, all records belong to it; the caller ends it.
"""

import random
from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from typing_extensions import Buffer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.errors import NotSupportedByBroker, UnknownPartition
from odradek.client.layout import TopicLayout
from odradek.client.partitioner import partition_of_key
from odradek.client.permissions import NotAuthorized
from odradek.client.producer_transactions import TransactionHandle, add_partitions
from odradek.core.security.resources import Operation, ResourceType
from odradek.records.batch import (
    ATTRIBUTE_TRANSACTIONAL,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
)
from odradek.records.builder import build_batch, frame_batch
from odradek.records.compression import Compression
from odradek.records.record import Record
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

# Version 6 belongs to two-phase commit and is not stable in Apache Kafka 4.3.
_INIT_PRODUCER_ID_HIGHEST: Final = 5
# From version 12, Produce adds its partitions to the transaction (transaction.version 2).
_LAST_WITHOUT_ADDING: Final = 11

ACKS_ALL: Final = -1
# A quarter of the default max.message.bytes.
BATCH_BYTES: Final = 256 * 1024
# An upper bound for length, attributes, deltas and the lengths of key and value.
_RECORD_OVERHEAD_BYTES: Final = 24


class Stored(NamedTuple):
    """A batch that the leader has acknowledged. `base_offset` is -1 with acks=0 and for a duplicate batch."""

    partition: TopicPartition
    base_offset: int
    record_count: int


@dataclass(slots=True)
class _Batch:
    partition: TopicPartition
    data: bytes
    record_count: int


class Producer:
    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        is_idempotent: bool = True,
        transaction: TransactionHandle | None = None,
    ) -> None:
        """This must be the only producer of the `transaction`."""
        self._cluster: Final = cluster
        self._transaction: Final = transaction
        self._added: set[TopicPartition] = set()
        self._acks: Final = acks
        self._is_idempotent: Final = is_idempotent and acks == ACKS_ALL
        self._compression: Final = compression
        self._layouts: dict[str, TopicLayout] = {}
        self._gathered: dict[TopicPartition, list[Record]] = {}
        self._gathered_bytes: dict[TopicPartition, int] = {}
        self._ready: deque[_Batch] = deque()
        self._unkeyed: dict[str, int] = {}
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = NO_PRODUCER_EPOCH
        self._first_sequence: Final = 0 if transaction is None else transaction.first_sequence
        self._sequences: dict[TopicPartition, int] = {}
        self._is_initialised = False

    def add(self, topic: str, record: Record, partition: int | None = None) -> None:
        """Add a record to its partition's batch. Nothing is sent before `flush`; the caller limits the amount."""
        target = TopicPartition(topic, self._choose(topic, record.key, partition))
        size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        size += sum(len(name) + len(value or b"") + 8 for name, value in record.headers)
        held = self._gathered_bytes.get(target, 0)
        if held and held + size > BATCH_BYTES:
            self._seal(target)
            held = 0
        self._gathered.setdefault(target, []).append(record)
        self._gathered_bytes[target] = held + size

    def partition_count(self, topic: str) -> int:
        return len(self._layout(topic).partitions)

    def add_encoded(
        self, target: TopicPartition, payload: Buffer, record_count: int, base_timestamp: int, max_timestamp: int
    ) -> None:
        """Add a batch of encoded records with these timestamps in ms. The payload is copied."""
        sequence = self._take_sequence(target, record_count)
        header = BatchHeader(
            position=0,
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC_V2,
            crc=0,
            attributes=self._compression | (ATTRIBUTE_TRANSACTIONAL if self._transaction is not None else 0),
            last_offset_delta=record_count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
            record_count=record_count,
        )
        self._ready.append(_Batch(target, frame_batch(payload, header), record_count))

    def flush(self) -> list[Stored]:
        """Send all batches and wait until they are stored. Raises KafkaError or ClientError."""
        for target in list(self._gathered):
            self._seal(target)
        stored: list[Stored] = []
        while self._ready:
            stored += self._send_round()
        return stored

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> int:
        count = len(self._layout(topic).partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise UnknownPartition(topic, partition, count)
            return partition
        if key is not None:
            return partition_of_key(key, count)
        # Records without a key go to one partition until its batch is full, then to another.
        return self._unkeyed.setdefault(topic, random.randrange(count))

    def _layout(self, topic: str) -> TopicLayout:
        layout = self._layouts.get(topic)
        if layout is None:
            found = self._cluster.retry(
                "looking up the topic", lambda: self._cluster.topics([topic], purpose=Operation.WRITE)
            )
            layout = self._layouts[topic] = found[topic]
        return layout

    def _describe(self, topic: str) -> dict[str, TopicLayout]:
        return self._cluster.topics([topic], purpose=Operation.WRITE)

    def _seal(self, target: TopicPartition) -> None:
        """Close a batch. Its sequence numbers are fixed from now on, however often it is sent."""
        records = self._gathered.pop(target)
        del self._gathered_bytes[target]
        if self._unkeyed.get(target.topic) == target.partition:
            del self._unkeyed[target.topic]
        sequence = self._take_sequence(target, len(records))
        data = build_batch(
            records,
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
            is_transactional=self._transaction is not None,
        )
        self._ready.append(_Batch(target, data, len(records)))

    def _take_sequence(self, target: TopicPartition, record_count: int) -> int:
        if not self._is_initialised:
            self._initialise(target.topic)
        if self._producer_id == NO_PRODUCER_ID:
            return NO_SEQUENCE
        sequence = self._sequences.get(target, self._first_sequence)
        self._sequences[target] = (sequence + record_count) & 0x7FFFFFFF
        return sequence

    def _initialise(self, topic: str) -> None:
        """`topic` is the first one that is written to."""
        self._is_initialised = True
        if self._transaction is not None:
            self._producer_id, self._producer_epoch = self._transaction.producer
            return
        if not self._is_idempotent:
            return

        def build(chosen: Schema) -> Message:
            return chosen.new(
                "InitProducerIdRequest",
                transactional_id=None,
                transaction_timeout=milliseconds(0x7FFFFFFF),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
            )

        def attempt() -> Message:
            response = self._cluster.send_to_any(ApiKey.INIT_PRODUCER_ID, build, highest=_INIT_PRODUCER_ID_HIGHEST)
            raise_for_error(response)
            return response

        try:
            response = self._cluster.retry("getting a producer id", attempt)
        except NotSupportedByBroker:
            return
        except NotAuthorized as error:
            # WRITE on any topic is enough.
            raise error.for_purpose(Operation.WRITE, ResourceType.TOPIC, topic) from None
        self._producer_id = response.producer_id
        self._producer_epoch = response.producer_epoch

    def _send_round(self) -> list[Stored]:
        """Send the first batch of every partition, in one request per leader."""
        chosen: dict[TopicPartition, _Batch] = {}
        for batch in self._ready:
            chosen.setdefault(batch.partition, batch)
        stored: dict[TopicPartition, Stored] = {}
        if self._transaction is not None and not self._transaction.epochs_rise:
            self._add_partitions(self._transaction, chosen.keys() - self._added)

        def attempt() -> None:
            waiting = [batch for partition, batch in chosen.items() if partition not in stored]
            by_leader: dict[int, list[_Batch]] = {}
            for batch in waiting:
                by_leader.setdefault(self._leader(batch.partition), []).append(batch)
            try:
                for leader, batches in by_leader.items():
                    self._send(leader, batches, stored)
            except BaseException:
                self._layouts.clear()
                raise

        self._cluster.retry("sending records", attempt)
        sent = set(map(id, chosen.values()))
        self._ready = deque(batch for batch in self._ready if id(batch) not in sent)
        return [stored[partition] for partition in chosen]

    def _add_partitions(self, transaction: TransactionHandle, new: AbstractSet[TopicPartition]) -> None:
        if new:
            add_partitions(self._cluster, transaction, new)
            self._added |= new

    def _leader(self, partition: TopicPartition) -> int:
        leader = self._layout(partition.topic).partitions[partition.partition].leader
        if leader < 0:
            self._layouts.pop(partition.topic)
            raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader")
        return leader

    def _send(self, leader: int, batches: list[_Batch], stored: dict[TopicPartition, Stored]) -> None:
        address = self._cluster.address_of(leader)
        connection = self._cluster.connection(address)
        adds = self._transaction is None or self._transaction.epochs_rise
        chosen = connection.schema(ApiKey.PRODUCE, highest=None if adds else _LAST_WITHOUT_ADDING)
        request = self._request(chosen, batches)
        by_target = {batch.partition: batch for batch in batches}
        try:
            expects_response = self._acks != 0
            connection.begin(chosen, request, timeout_s=self._cluster.timeout_s, expects_response=expects_response)
            if not expects_response:
                stored.update((target, Stored(target, -1, batch.record_count)) for target, batch in by_target.items())
                return
            response = connection.finish()
        except BaseException:
            self._cluster.forget(address)
            raise
        for target, result in self._results(response):
            if result.error_code is ErrorCode.duplicate_sequence_number:
                stored[target] = Stored(target, -1, by_target[target].record_count)
                continue
            raise_for_error(result, self._resource_name(target, result.error_code))
            stored[target] = Stored(target, result.base_offset, by_target[target].record_count)

    def _resource_name(self, target: TopicPartition, code: ErrorCode) -> str:
        """Which resource an authorization error is about."""
        if self._transaction is not None and code is ErrorCode.transactional_id_authorization_failed:
            return self._transaction.transactional_id
        return target.topic

    def _request(self, chosen: Schema, batches: list[_Batch]) -> Message:
        by_topic: dict[str, list[Message]] = {}
        for batch in batches:
            by_topic.setdefault(batch.partition.topic, []).append(
                chosen.new("PartitionProduceData", index=batch.partition.partition, records=batch.data)
            )
        return chosen.new(
            "ProduceRequest",
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=self._acks,
            timeout=milliseconds(self._cluster.timeout_s * 1000),
            topic_data=tuple(
                chosen.new(
                    "TopicProduceData",
                    name=topic,
                    topic_id=self._layout(topic).id,
                    partition_data=tuple(partitions),
                )
                for topic, partitions in by_topic.items()
            ),
        )

    def _results(self, response: Message) -> Iterable[tuple[TopicPartition, Message]]:
        names = {layout.id: name for name, layout in self._layouts.items()}
        for topic in response.responses:
            name = topic.name if hasattr(topic, "name") else names[topic.topic_id]
            for partition in topic.partition_responses:
                yield TopicPartition(name, partition.index), partition
