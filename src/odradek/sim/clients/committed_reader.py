"""A read_committed consumer: it drops the records of the transactions that the broker lists as aborted."""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.records.batch import parse_batches
from odradek.records.control import EndTransactionMarker, decode_control
from odradek.records.decode import decode_batch
from odradek.sim.clients.cluster_client import ClusterClient, Leader, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.reader import Reader
from odradek.sim.history import History
from odradek.sim.transaction_history import CommittedRead, TransactionHistory
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

READ_COMMITTED: Final = 1
_WAIT_MS: Final = 300


class CommittedReader:
    def __init__(self, client: ClusterClient, history: TransactionHistory, partition: TopicPartition) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._position = 0

    async def follow(self) -> None:
        """Reads from offset 0 without end."""
        while True:
            try:
                await self._read()
            except RequestFailed as failure:
                self._client.note(f"cannot read: {failure}")
                self._client.forget_leader(self._partition)
                await self._client.back_off()

    async def read_all(self) -> None:
        """Reads up to the log end, which it reaches only if no transaction stays open. Raises RequestFailed; the next
        call resumes at its position."""
        client = self._client
        try:
            end_offset = await Reader(client, History(), self._partition, uses_session=False).end_offset()
            while self._position < end_offset:
                await self._read()
        except RequestFailed:
            client.forget_leader(self._partition)
            raise

    async def _read(self) -> None:
        client = self._client
        leader, connection = await client.reach_leader(self._partition)
        response = await client.send_request(
            connection, ApiKey.FETCH, lambda chosen: self._request(chosen, leader), extra_seconds=_WAIT_MS / 1000
        )
        code = getattr(response, "error_code", ErrorCode.none)
        result = next((one for topic in response.responses for one in topic.partitions), None)
        if code is ErrorCode.none and result is not None:
            code = result.error_code
        if code is not ErrorCode.none:
            raise RequestFailed(f"no records: {code.name}")
        if result is not None and result.records:
            self._process(result)

    def _process(self, result: Message) -> None:
        data = result.records
        aborted = sorted(result.aborted_transactions or (), key=lambda one: one.first_offset)
        aborted_producers: set[int] = set()
        for header in parse_batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                aborted_producers.add(aborted.pop(0).producer_id)
            records = decode_batch(data, header)
            if header.is_control:
                marker = decode_control(records[0]) if records else None
                if isinstance(marker, EndTransactionMarker) and not marker.committed:
                    aborted_producers.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted_producers):
                self._history.reads.extend(
                    CommittedRead(self._client.name, self._partition, one.offset, one.value or b"", self._client.now)
                    for one in records
                    if one.offset >= self._position
                )
            self._position = max(self._position, header.last_offset + 1)

    def _request(self, chosen: Schema, leader: Leader) -> Message:
        requested = chosen.new(
            "FetchPartition",
            partition=self._partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            partition_max_bytes=self._client.random.choice((1, 1000, 1_000_000)),
        )
        topic = chosen.new("FetchTopic", topic=self._partition.topic, topic_id=leader.topic_id, partitions=(requested,))
        return chosen.new(
            "FetchRequest",
            replica_id=-1,
            max_wait=milliseconds(_WAIT_MS),
            min_bytes=1,
            max_bytes=50_000_000,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=(topic,),
            forgotten_topics_data=(),
        )
