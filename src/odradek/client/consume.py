"""Consumes records of given partitions from given offsets, without a group.

Control records are never returned; with read_committed, neither are records of open and aborted transactions.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.errors import ConnectionFailed
from odradek.client.fetch_request import fetch_request
from odradek.client.layout import TopicLayout
from odradek.core.security.resources import Operation
from odradek.records.batch import BatchHeader, check_crc, parse_batches
from odradek.records.decode import decode_batch
from odradek.records.record import Record
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

RESPONSE_BYTES: Final = 16 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024


class Consumed(NamedTuple):
    partition: TopicPartition
    record: Record
    is_append_time: bool
    """Whether the record has a LogAppendTime timestamp instead of CreateTime."""


class Consumer:
    """`positions` holds the next offset to read of each partition, and advances with every `poll`."""

    def __init__(
        self, cluster: Cluster, positions: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> None:
        self._cluster: Final = cluster
        self._read_committed: Final = read_committed
        self.positions: Final = dict(positions)
        self._layouts: dict[str, TopicLayout] = {}

    def poll(self, *, wait_ms: int) -> list[Consumed]:
        """Return available records, or wait for new ones for up to `wait_ms`."""
        return self._cluster.retry("reading records", lambda: self._poll_once(wait_ms))

    def drop(self, partition: TopicPartition) -> None:
        """Stop reading this partition."""
        del self.positions[partition]

    def _poll_once(self, wait_ms: int) -> list[Consumed]:
        found: list[Consumed] = []
        try:
            for partition, result in self._fetch(wait_ms):
                raise_for_error(result, partition.topic)
                found += self._decode(partition, result)
        except (KafkaError, ConnectionFailed):
            self._layouts.clear()
            # Return the records read so far, because their positions have advanced; a lasting failure occurs again.
            if not found:
                raise
        return found

    def _fetch(self, wait_ms: int) -> Iterator[tuple[TopicPartition, Message]]:
        responses = self._fetch_from_leaders(wait_ms)
        names = {layout.id: name for name, layout in self._layouts.items()}
        for response in responses:
            if getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
                raise KafkaError(response.error_code)
            for topic in response.responses:
                name = topic.topic if hasattr(topic, "topic") else names[topic.topic_id]
                for result in topic.partitions:
                    yield TopicPartition(name, result.partition_index), result

    def _fetch_from_leaders(self, wait_ms: int) -> list[Message]:
        """Send to all leaders at once, so that an idle leader does not delay the others."""
        timeout_s = self._cluster.timeout_s + wait_ms / 1000
        begun: dict[Address, Connection] = {}
        try:
            for leader, partitions in self._by_leader().items():
                address = self._cluster.address_of(leader)
                connection = self._cluster.connection(address)
                chosen = connection.schema(ApiKey.FETCH)
                begun[address] = connection
                connection.begin(chosen, self._request(chosen, partitions, wait_ms), timeout_s=timeout_s)
            return [connection.finish() for connection in begun.values()]
        except BaseException:
            # A late response on these connections would be mistaken for that of the next request.
            for address in begun:
                self._cluster.forget(address)
            raise

    def _by_leader(self) -> dict[int, list[TopicPartition]]:
        if not self._layouts:
            self._layouts = dict(
                self._cluster.topics(sorted({partition.topic for partition in self.positions}), purpose=Operation.READ)
            )
        found: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            leader = self._layouts[partition.topic].partitions[partition.partition].leader
            if leader < 0:
                raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader")
            found.setdefault(leader, []).append(partition)
        return found

    def _request(self, chosen: Schema, partitions: list[TopicPartition], wait_ms: int) -> Message:
        return fetch_request(
            chosen,
            {partition: self.positions[partition] for partition in partitions},
            {name: layout.id for name, layout in self._layouts.items()},
            wait_ms=wait_ms,
            bytes_max=RESPONSE_BYTES,
            partition_bytes_max=PARTITION_BYTES,
            read_committed=self._read_committed,
        )

    def _decode(self, partition: TopicPartition, result: Message) -> list[Consumed]:
        """Decode the records of one partition and advance its position."""
        data = result.records or b""
        aborted = AbortedFilter(getattr(result, "aborted_transactions", None) or ()) if self._read_committed else None
        position = self.positions[partition]
        found: list[Consumed] = []
        for header in parse_batches(data, allow_partial_tail=True):
            check_crc(data, header)
            if header.is_control:
                if aborted is not None:
                    aborted.pass_marker(header)
            elif aborted is None or not aborted.drops(header):
                append_time = header.timestamp_type_is_append
                found += (
                    Consumed(partition, record, append_time)
                    for record in decode_batch(data, header)
                    if record.offset >= position
                )
            # Compaction may remove the last records of a batch, so the next offset comes from the header.
            self.positions[partition] = max(position, header.next_offset)
        # A partition with data moves to the end of the order, so that the others get their share.
        if data:
            self.positions[partition] = self.positions.pop(partition)
        return found


class AbortedFilter:
    """Reads one partition's batches in order and detects those of aborted transactions."""

    def __init__(self, transactions: tuple[Message, ...]) -> None:
        self._coming = [(transaction.first_offset, transaction.producer_id) for transaction in transactions]
        heapq.heapify(self._coming)
        self._open: set[int] = set()

    def drops(self, header: BatchHeader) -> bool:
        self._advance(header)
        return header.is_transactional and header.producer_id in self._open

    def pass_marker(self, header: BatchHeader) -> None:
        """Process a transaction marker, which ends the producer's current transaction."""
        self._advance(header)
        self._open.discard(header.producer_id)

    def _advance(self, header: BatchHeader) -> None:
        while self._coming and self._coming[0][0] <= header.last_offset:
            _, producer_id = heapq.heappop(self._coming)
            self._open.add(producer_id)
