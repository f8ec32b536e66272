"""Fetches a partition from its leader. The next Fetch is in flight while the last response is decoded."""

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.consume import AbortedFilter
from odradek.client.errors import ClientError, ConnectionFailed, TimedOut
from odradek.client.fetch_request import fetch_request
from odradek.client.layout import TopicLayout
from odradek.core.security.resources import Operation
from odradek.pipelines.arrow.sources import Chunk
from odradek.records.batch import parse_batches
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

FETCH_BYTES: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 500


OnLoss = Callable[[Exception, int], int]
"""Receives the error and its offset, and returns the offset to continue from."""


class TopicRecreated(ClientError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"Topic {topic!r} was deleted and recreated, so its offsets refer to other records")


class _SentFetch(NamedTuple):
    offset: int
    address: Address
    connection: Connection


class PartitionFetch:
    """A PartitionSource. Only one may use the cluster's connections while `chunks` runs."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        *,
        earliest_offset: int,
        end_offset: int,
        read_committed: bool,
        topic_id: UUID | None = None,
        on_loss: OnLoss | None = None,
    ) -> None:
        """`on_loss` is called if records no longer exist. Without it, that is an error."""
        self.partition: Final = partition
        self.earliest_offset: Final = earliest_offset
        self.end_offset: Final = end_offset
        self.readable_offset: Final = end_offset
        self._cluster: Final = cluster
        self._read_committed: Final = read_committed
        self.topic_id = topic_id
        self._on_loss: Final = on_loss
        self._layout: TopicLayout | None = None

    def chunks(self, from_offset: int, to_offset: int) -> Iterator[Chunk]:
        position = from_offset
        sent: _SentFetch | None = None
        progress_at = time.monotonic()
        try:
            while position < to_offset:
                try:
                    response = self._next_response(sent, position)
                except (KafkaError, TopicRecreated) as error:
                    position = self._after_loss(error, position)
                    continue
                finally:
                    sent = None
                data = memoryview(response.records or b"")
                headers = parse_batches(data, allow_partial_tail=True)
                if headers and headers[-1].next_offset > position:
                    # Compaction may have removed records, so only the header has the next offset.
                    position = headers[-1].next_offset
                    progress_at = time.monotonic()
                elif time.monotonic() - progress_at > self._cluster.timeout_s:
                    raise TimedOut(f"reading {self.partition} at offset {position}", self._cluster.timeout_s, None)
                if position < to_offset:
                    sent = self._prefetch(position)
                yield Chunk(data, headers, self._filter(response))
        finally:
            if sent is not None:
                # Otherwise the next request on this connection would receive this response.
                self._cluster.forget(sent.address)

    def _after_loss(self, error: KafkaError | TopicRecreated, position: int) -> int:
        if isinstance(error, KafkaError) and error.code is not ErrorCode.offset_out_of_range:
            raise error
        if self._on_loss is None:
            raise error
        following = self._on_loss(error, position)
        assert following > position, "on_loss must return a later offset"
        return following

    def _filter(self, response: Message) -> AbortedFilter | None:
        if not self._read_committed:
            return None
        return AbortedFilter(getattr(response, "aborted_transactions", None) or ())

    def _next_response(self, sent: _SentFetch | None, position: int) -> Message:
        if sent is not None and sent.offset == position:
            try:
                return self._receive(sent)
            except (ConnectionFailed, KafkaError) as error:
                self._layout = None
                if isinstance(error, KafkaError) and not error.code.retriable:
                    raise

        def attempt() -> Message:
            try:
                return self._receive(self._send(position))
            except (ConnectionFailed, KafkaError):
                self._layout = None
                raise

        return self._cluster.retry(f"reading {self.partition}", attempt)

    def _prefetch(self, position: int) -> _SentFetch | None:
        try:
            return self._send(position)
        except (ConnectionFailed, KafkaError):
            self._layout = None
            return None

    def _send(self, position: int) -> _SentFetch:
        leader = self._topic().partitions[self.partition.partition].leader
        if leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, f"{self.partition} has no leader")
        address = self._cluster.address_of(leader)
        connection = self._cluster.connection(address)
        chosen = connection.schema(ApiKey.FETCH)
        try:
            connection.begin(
                chosen, self._request(chosen, position), timeout_s=self._cluster.timeout_s + _WAIT_MS / 1000
            )
        except BaseException:
            self._cluster.forget(address)
            raise
        return _SentFetch(position, address, connection)

    def _receive(self, sent: _SentFetch) -> Message:
        try:
            response = sent.connection.finish()
        except BaseException:
            self._cluster.forget(sent.address)
            raise
        if getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
            raise KafkaError(response.error_code)
        [topic] = response.responses
        [response] = topic.partitions
        raise_for_error(response, self.partition.topic)
        return response

    def _topic(self) -> TopicLayout:
        """Raises TopicRecreated if the topic ID has changed."""
        if self._layout is None:
            found = self._cluster.topics([self.partition.topic], purpose=Operation.READ)[self.partition.topic]
            if self.topic_id is None:
                self.topic_id = found.id
            elif found.id != self.topic_id:
                raise TopicRecreated(self.partition.topic)
            if self.partition.partition >= len(found.partitions):
                raise KafkaError(ErrorCode.unknown_topic_or_partition, f"partition {self.partition} does not exist")
            self._layout = found
        return self._layout

    def _request(self, chosen: Schema, position: int) -> Message:
        return fetch_request(
            chosen,
            {self.partition: position},
            {self.partition.topic: self.topic_id},
            wait_ms=_WAIT_MS,
            bytes_max=FETCH_BYTES,
            partition_bytes_max=FETCH_BYTES,
            read_committed=self._read_committed,
        )
