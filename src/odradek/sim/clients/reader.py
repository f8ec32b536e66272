"""A consumer of one partition: it reads from the start without end, or at random offsets."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.records.batch import check_crc, parse_batches
from odradek.records.decode import decode_batch
from odradek.sim.clients.cluster_client import ClusterClient, Leader, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.history import UNKNOWN_EPOCH, EndOffset, History, OutOfRange, Read
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

LATEST, EARLIEST = -1, -2
_WAIT_MS: Final = 300


class Reader:
    """Fetches with or without a fetch session."""

    def __init__(
        self, client: ClusterClient, history: History, partition: TopicPartition, *, uses_session: bool
    ) -> None:
        self._client: Final = client
        self._history: Final = history
        self._partition: Final = partition
        self._uses_session: Final = uses_session
        self._session_id = 0
        self._session_epoch = 0
        self.position = 0
        self._is_out_of_range = False

    async def follow(self) -> None:
        """Reads from offset 0 without end."""
        while True:
            try:
                if self._is_out_of_range:
                    # The records may have been deleted.
                    self.position = max(self.position, await self.start_offset())
                    self._is_out_of_range = False
                records = await self._read(self.position)
                if records:
                    self.position = records[-1][0] + 1
            except RequestFailed as failure:
                self._client.note(f"cannot read: {failure}")
                self._client.forget_leader(self._partition)
                await self._client.back_off()

    async def probe(self, interval_seconds: float) -> None:
        """Periodically queries the end offset and reads at a random offset below it."""
        await self._client.run_periodically(interval_seconds, self._partition, self._read_somewhere)

    async def _read_somewhere(self) -> None:
        end_offset = await self.end_offset()
        if end_offset:
            await self._read(self._client.random.randrange(end_offset))

    async def read_all(self) -> None:
        """Reads once from the log start to the current end. Raises RequestFailed."""
        try:
            end_offset = await self.end_offset()
            self.position = await self.start_offset()
            while self.position < end_offset:
                records = await self._read(self.position)
                if records:
                    self.position = records[-1][0] + 1
        except RequestFailed:
            self._client.forget_leader(self._partition)
            raise

    # ---- requests

    async def end_offset(self) -> int:
        return await self._list_offset(LATEST)

    async def start_offset(self) -> int:
        return await self._list_offset(EARLIEST)

    async def _list_offset(self, timestamp: int) -> int:
        client = self._client
        leader, connection = await client.reach_leader(self._partition)

        def build(chosen: Schema) -> Message:
            requested = chosen.new(
                "ListOffsetsPartition",
                partition_index=self._partition.partition,
                current_leader_epoch=leader.epoch,
                timestamp=timestamp,
            )
            topic = chosen.new("ListOffsetsTopic", name=self._partition.topic, partitions=(requested,))
            return chosen.new(
                "ListOffsetsRequest",
                replica_id=-1,
                isolation_level=0,
                topics=(topic,),
                timeout=milliseconds(1000),
            )

        began = client.now
        response = await client.send_request(connection, ApiKey.LIST_OFFSETS, build)
        result = response.topics[0].partitions[0]
        if result.error_code is not ErrorCode.none:
            raise RequestFailed(f"no offset: {result.error_code.name}")
        if timestamp == LATEST:
            self._history.end_offsets.append(
                EndOffset(
                    partition=self._partition,
                    began=began,
                    ended=client.now,
                    offset=result.offset,
                    leader_epoch=getattr(result, "leader_epoch", UNKNOWN_EPOCH),
                    reader=client.name,
                )
            )
        return int(result.offset)

    async def _read(self, offset: int) -> list[tuple[int, bytes]]:
        client = self._client
        leader, connection = await client.reach_leader(self._partition)
        began = client.now
        try:
            response = await client.send_request(
                connection,
                ApiKey.FETCH,
                lambda chosen: self._request(chosen, leader, offset),
                extra_seconds=_WAIT_MS / 1000,
            )
        except RequestFailed:
            self._forget_session()
            raise
        code = getattr(response, "error_code", ErrorCode.none)
        if code is not ErrorCode.none:
            self._forget_session()
            raise RequestFailed(f"no records: {code.name}")
        self._take_session(response)
        results = [one for topic in response.responses for one in topic.partitions]
        if not results:
            # Nothing has changed since the session's last response.
            return []
        result = results[0]
        if result.error_code is not ErrorCode.none:
            self._forget_session()
            if result.error_code is ErrorCode.offset_out_of_range:
                self._is_out_of_range = True
                self._history.out_of_range.append(
                    OutOfRange(
                        partition=self._partition,
                        fetch_offset=offset,
                        began=began,
                        ended=client.now,
                        leader_epoch=leader.epoch,
                    )
                )
            raise RequestFailed(f"no records: {result.error_code.name}")
        found, epochs, is_damaged = _decode(result.records)
        wanted = [one for one in found if one[0] >= offset]
        self._history.reads.append(
            Read(
                reader=client.name,
                partition=self._partition,
                fetch_offset=offset,
                began=began,
                ended=client.now,
                records=tuple(found),
                epochs=tuple(epochs),
                high_watermark=result.high_watermark,
                is_damaged=is_damaged,
                leader_epoch=leader.epoch,
            )
        )
        if is_damaged and not wanted:
            raise RequestFailed("the next batch is corrupt")
        if wanted:
            client.note(f"reads {self._partition} from {wanted[0][0]} to {wanted[-1][0]}")
        return wanted

    # ---- sessions

    def _request(self, chosen: Schema, leader: Leader, offset: int) -> Message:
        random = self._client.random
        requested = chosen.new(
            "FetchPartition",
            partition=self._partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=random.choice((1, 1000, 10_000, 1_000_000)),
        )
        topic = chosen.new("FetchTopic", topic=self._partition.topic, topic_id=leader.topic_id, partitions=(requested,))
        return chosen.new(
            "FetchRequest",
            replica_id=-1,
            max_wait=milliseconds(_WAIT_MS),
            min_bytes=1,
            max_bytes=random.choice((1, 100_000, 50_000_000)),
            isolation_level=0,
            session_id=self._session_id,
            session_epoch=self._session_epoch if self._uses_session else -1,
            topics=(topic,),
            forgotten_topics_data=(),
        )

    def _take_session(self, response: Message) -> None:
        session_id: int = getattr(response, "session_id", 0)
        if self._uses_session and session_id:
            self._session_id = session_id
            self._session_epoch += 1

    def _forget_session(self) -> None:
        self._session_id = 0
        self._session_epoch = 0


def _decode(data: bytes | None) -> tuple[list[tuple[int, bytes]], list[int], bool]:
    """The records, their leader epochs, and whether a corrupt batch follows."""
    found: list[tuple[int, bytes]] = []
    epochs: list[int] = []
    try:
        for header in parse_batches(data or b""):
            check_crc(data or b"", header)
            records = decode_batch(data or b"", header)
            found += [(record.offset, record.value or b"") for record in records]
            epochs += [header.leader_epoch] * len(records)
    except KafkaError:
        return found, epochs, True
    return found, epochs, False
