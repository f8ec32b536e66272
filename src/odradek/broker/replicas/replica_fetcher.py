"""Following one leader: one connection, one Fetch at a time for all the partitions that it leads for this broker.

What each answer means is for `replication/follower.py`; this file has the connection and carries out what is wanted.
A partition that has to wait is left out of the Fetch until its time comes; one that joins does not wait for the long
poll of the others, which is broken off. A round costs what has changed since the last: most partitions do nothing most
of the time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock
from odradek.broker.replicas.fetch_session import FollowerSession, PartitionId, Wanted
from odradek.config.node_config import NodeConfig
from odradek.core.replication.actions import (
    Action,
    Append,
    FetchLeaderOffsets,
    ReportFault,
    TruncateFullyTo,
    TruncateTo,
)
from odradek.core.replication.epochs import EpochEnd
from odradek.core.replication.follower import FetchPosition, FetchResponse, FollowerState
from odradek.core.replication.throttle import ReplicationThrottle, names_replica
from odradek.records.batch import BatchHeader, CorruptBatch, check_crc, parse_batches
from odradek.server.peer import Peer, PeerError
from odradek.storage.partition.partition import Partition
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

FETCH_VERSION_MAX: Final = 17
LIST_OFFSETS_VERSION_MAX: Final = 10
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED: Final = 0
REQUEST_SECONDS_MAX: Final = 30.0
AFTER_FAULT_SECONDS: Final = 1.0
# What changes by itself, where a log starts for one, is seen then.
LOOK_AT_ALL_SECONDS: Final = 5.0


class LeaderEndpoint(NamedTuple):
    broker_id: int
    host: str
    port: int


class ReplicaFetcher:
    def __init__(
        self,
        leader: LeaderEndpoint,
        config: NodeConfig,
        *,
        broker_epoch: Callable[[], int],
        throttle: ReplicationThrottle,
        clock: Clock,
        on_disk_failure: Callable[[str, OSError], None],
        on_leader_disconnect: Callable[[LeaderEndpoint], None],
        on_truncation: Callable[[Partition, int], Awaitable[None]],
    ) -> None:
        """`on_leader_disconnect` is called when the leader closes a connection; `on_truncation` after the log
        was truncated to an offset, before the next append."""
        self.leader: Final = leader
        self._config: Final = config
        self._broker_epoch: Final = broker_epoch
        self._throttle: Final = throttle
        self._clock: Final = clock
        self._on_disk_failure: Final = on_disk_failure
        self._on_leader_disconnect: Final = on_leader_disconnect
        self._on_truncation: Final = on_truncation
        self._partitions: Final[dict[PartitionId, Partition]] = {}
        self._positions: Final[dict[PartitionId, FetchPosition]] = {}
        """What is to be asked for, as of the last look."""
        self._touched: set[PartitionId] = set()
        """Those to be looked at before the next Fetch."""
        self._restless: Final[set[PartitionId]] = set()
        """Those to be looked at before every Fetch: they wait for their time, or are throttled."""
        self._look_at_all_at = clock.monotonic() + LOOK_AT_ALL_SECONDS
        self._session = FollowerSession()
        self._peer = self._new_peer()
        self._is_polling = False
        self._wake: Final = asyncio.Event()
        self._working: Final = asyncio.ensure_future(self._work())

    @property
    def is_idle(self) -> bool:
        return not self._partitions

    def add(self, partition: Partition) -> None:
        self._partitions[_id_of(partition)] = partition
        self._touched.add(_id_of(partition))
        self._wake.set()
        if self._is_polling:
            # The leader answers a connection's requests in turn: the new one would wait behind the long poll.
            self._begin_anew()

    def remove(self, partition: Partition) -> None:
        if self._partitions.get(_id_of(partition)) is partition:
            del self._partitions[_id_of(partition)]
            self._touched.add(_id_of(partition))

    async def stop(self) -> None:
        self._working.cancel()
        self._peer.close()
        await asyncio.wait([self._working])

    def _new_peer(self) -> Peer:
        return Peer(
            self.leader.host,
            self.leader.port,
            client_id=f"broker-{self._config.node_id}-fetcher-0",
            connect_timeout_seconds=self._config.socket_connection_setup_timeout_ms / 1000,
            on_disconnect=lambda: self._on_leader_disconnect(self.leader),
        )

    def _begin_anew(self) -> None:
        self._peer.close()
        self._peer = self._new_peer()
        self._session.reset()

    # The loop

    async def _work(self) -> None:
        while True:
            try:
                await self._work_once()
            except Exception:
                # A fault of ours with one answer must not end the following of all: they are asked for again.
                logger.exception("following leader %d failed", self.leader.broker_id)
                self._begin_anew()
                self._touched.update(self._partitions)
                await asyncio.sleep(AFTER_FAULT_SECONDS)

    async def _work_once(self) -> None:
        await self._sync_what_must_be()
        self._wake.clear()
        touched = self._look()
        if self._positions:
            await self._fetch(dict(self._positions), touched)
        else:
            # The leader is not to believe that what it was last asked for is still wanted.
            self._session.reset()
            await self._wait()

    def _look(self) -> set[PartitionId]:
        """What is to be asked for of those that may have changed, which are returned."""
        now = self._clock.monotonic()
        touched, self._touched = self._touched, set()
        touched |= self._restless
        touched.update(key for key, partition in self._partitions.items() if partition.follower_state is None)
        if now >= self._look_at_all_at:
            self._look_at_all_at = now + LOOK_AT_ALL_SECONDS
            touched.update(self._partitions)
        self._restless.clear()
        for key in touched:
            partition = self._partitions.get(key)
            position = None if partition is None else self._position(key, partition, now)
            if position is None:
                self._positions.pop(key, None)
            else:
                self._positions[key] = position
        return touched

    def _position(self, key: PartitionId, partition: Partition, now: float) -> FetchPosition | None:
        following = partition.follower_state
        if following is None:
            return None
        position = following.fetch_position(partition.log, now)
        if position is None or self._is_throttled(partition):
            self._restless.add(key)
        return None if self._is_held_back(partition, now) else position

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.follower_replication_throttled_replicas
        return names_replica(throttled, partition.name.partition, self._config.node_id)

    def _is_held_back(self, partition: Partition, now: float) -> bool:
        """Whoever has all that is committed is not: it would fall out of sync, and come back, without end."""
        following = partition.follower_state
        if following is None or not self._is_throttled(partition) or following.has_all_committed(partition.log):
            return False
        return self._throttle.is_exceeded(now)

    async def _sync_what_must_be(self) -> None:
        """Asking acknowledges: where a topic syncs before that, so does this. Others may join meanwhile."""
        synced: set[Partition] = set()
        while unsynced := [one for one in self._unsynced() if one not in synced]:
            synced.update(unsynced)
            results = await asyncio.gather(*(one.flush() for one in unsynced), return_exceptions=True)
            for partition, result in zip(unsynced, results, strict=True):
                if isinstance(result, OSError):
                    self._on_disk_failure(partition.log_dir, result)
                    self._put_off(partition, f"it cannot be synced: {result}")
                elif isinstance(result, BaseException):
                    raise result

    def _unsynced(self) -> list[Partition]:
        now = self._clock.monotonic()
        looked_at = [
            partition for key in self._touched | self._restless if (partition := self._partitions.get(key)) is not None
        ]
        return [
            partition
            for partition in looked_at
            if partition.needs_sync()
            and partition.follower_state is not None
            and partition.follower_state.fetch_position(partition.log, now) is not None
        ]

    def _put_off(self, partition: Partition, reason: str) -> None:
        """Unless its disk is given up."""
        following, now = partition.follower_state, self._clock.monotonic()
        asked = None if following is None else following.fetch_position(partition.log, now)
        if following is not None and asked is not None:
            self._report(partition, following.on_append_failure(asked, reason, now))

    async def _wait(self) -> None:
        """Until something joins, or somebody's pause is over."""
        now = self._clock.monotonic()
        times = [
            following.next_fetch_at
            for partition in self._partitions.values()
            if (following := partition.follower_state) is not None and following.next_fetch_at is not None
        ]
        if any(self._is_held_back(partition, now) for partition in self._partitions.values()):
            # Before that the limit may be another.
            latest = now + self._config.replica_fetch_backoff_ms / 1000
            times = [time for time in times if time > now] + [min(self._throttle.frees_at(now), latest)]
        pause = min(times, default=None)
        try:
            async with asyncio.timeout(None if pause is None else max(0.001, pause - now)):
                await self._wake.wait()
        except TimeoutError:
            pass

    # One Fetch

    async def _fetch(self, positions: dict[PartitionId, FetchPosition], touched: set[PartitionId]) -> None:
        asked = self._session.next(positions, touched)
        peer = self._peer
        self._is_polling = True
        try:
            response = await peer.request(
                ApiKey.FETCH,
                lambda messages: self._request(messages, asked),
                timeout_seconds=REQUEST_SECONDS_MAX,
                highest=FETCH_VERSION_MAX,
            )
        except PeerError as error:
            if peer is self._peer:
                self._failed(positions, error)
            return
        finally:
            self._is_polling = False
        if peer is not self._peer:
            # It came as the connection was given up: its session is not gone on with, and all is asked for again.
            return
        if response.error_code is not ErrorCode.none:
            logger.info("leader %d begins a new fetch session: %s", self.leader.broker_id, response.error_code.name)
            self._session.reset()
            return
        self._session.answered(response.session_id)
        for topic in response.responses:
            for result in topic.partitions:
                key = PartitionId(topic.topic_id, result.partition_index)
                partition, position = self._partitions.get(key), positions.get(key)
                if partition is not None and position is not None:
                    self._touched.add(key)
                    await self._take(partition, position, result)

    def _failed(self, positions: dict[PartitionId, FetchPosition], error: PeerError) -> None:
        logger.debug("no answer from leader %d: %s", self.leader.broker_id, error)
        self._session.reset()
        self._touched.update(self._partitions)
        now = self._clock.monotonic()
        for key, position in positions.items():
            partition = self._partitions.get(key)
            if partition is not None and partition.follower_state is not None:
                partition.follower_state.on_fetch_failure(position, now)

    def _request(self, messages: Schema, asked: Wanted) -> Message:
        by_topic: dict[UUID, list[Message]] = {}
        for key, position in asked.changed.items():
            by_topic.setdefault(key.topic_id, []).append(
                messages.new(
                    "FetchPartition",
                    partition=key.partition,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._config.replica_fetch_max_bytes,
                    replica_directory_id=None,
                )
            )
        forgotten: dict[UUID, list[int]] = {}
        for key in asked.forgotten:
            forgotten.setdefault(key.topic_id, []).append(key.partition)
        return messages.new(
            "FetchRequest",
            cluster_id=None,
            replica_state=messages.new(
                "ReplicaState", replica_id=self._config.node_id, replica_epoch=self._broker_epoch()
            ),
            max_wait=timedelta(milliseconds=self._config.replica_fetch_wait_max_ms),
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            isolation_level=READ_UNCOMMITTED,
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            topics=tuple(
                messages.new("FetchTopic", topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in by_topic.items()
            ),
            forgotten_topics_data=tuple(
                messages.new("ForgottenTopic", topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in forgotten.items()
            ),
            rack_id="",
        )

    # One partition's answer

    async def _take(self, partition: Partition, asked: FetchPosition, result: Message) -> None:
        following = partition.follower_state
        if following is None or partition.unavailable is not None:
            return
        now = self._clock.monotonic()
        records = bytes(result.records or b"")
        try:
            records, batches = checked_batches(records)
        except CorruptBatch as error:
            self._report(partition, following.on_append_failure(asked, f"a batch cannot be read: {error}", now))
            return
        answer = FetchResponse(
            error=result.error_code,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            diverging=_diverging(result),
            first_offset=batches[0].base_offset if batches else None,
        )
        action = following.on_fetch_response(partition.log, asked, answer, now)
        try:
            await self._act(partition, following, asked.leader_epoch, action, answer, records, batches)
        except KafkaError as error:
            self._report(partition, following.on_append_failure(asked, str(error), self._clock.monotonic()))
        except OSError as error:
            self._on_disk_failure(partition.log_dir, error)

    async def _act(
        self,
        partition: Partition,
        following: FollowerState,
        epoch: int,
        action: Action | None,
        answer: FetchResponse,
        records: bytes,
        batches: list[BatchHeader],
    ) -> None:
        match action:
            case Append(restart_at):
                if restart_at is not None:
                    await self._truncate(partition, epoch, TruncateFullyTo(restart_at))
                if not batches or await partition.replicate(epoch, records, batches):
                    if batches and self._is_throttled(partition):
                        self._throttle.count(len(records), self._clock.monotonic())
                    await self._appended(partition, following, epoch, answer)
            case TruncateTo() | TruncateFullyTo():
                await self._truncate(partition, epoch, action)
            case FetchLeaderOffsets():
                await self._ask_offsets(partition, following)
            case ReportFault():
                self._report(partition, action)

    async def _appended(
        self, partition: Partition, following: FollowerState, epoch: int, answer: FetchResponse
    ) -> None:
        if partition.follower_state is not following or following.leader_epoch != epoch:
            return
        log_start_offset = following.on_append(partition.log, answer)
        if log_start_offset > partition.log.log_start_offset:
            await partition.run_exclusively(lambda: partition.log.advance_log_start(log_start_offset))

    async def _truncate(self, partition: Partition, epoch: int, action: TruncateTo | TruncateFullyTo) -> None:
        if isinstance(action, TruncateTo) and action.loses_committed:
            logger.warning(
                "%s is cut at %d, below its high watermark: an unclean election", partition.name, action.offset
            )
        if await partition.truncate(epoch, action.offset, fully=isinstance(action, TruncateFullyTo)):
            await self._on_truncation(partition, action.offset)

    async def _ask_offsets(self, partition: Partition, following: FollowerState) -> None:
        epoch = following.leader_epoch
        try:
            start_offset = await self._ask_offset(partition, epoch, EARLIEST)
            end_offset = await self._ask_offset(partition, epoch, LATEST)
        except (PeerError, KafkaError) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.network_exception
            wait = following.on_leader_offsets_failure(epoch, code, self._clock.monotonic())
            self._report(partition, wait if isinstance(wait, ReportFault) else None)
            return
        action = following.on_leader_offsets(partition.log, epoch, start_offset, end_offset, self._clock.monotonic())
        if isinstance(action, TruncateTo | TruncateFullyTo):
            await self._truncate(partition, epoch, action)

    async def _ask_offset(self, partition: Partition, leader_epoch: int, timestamp: int) -> int:
        def build(messages: Schema) -> Message:
            asked = messages.new(
                "ListOffsetsPartition",
                partition_index=partition.name.partition,
                current_leader_epoch=leader_epoch,
                timestamp=timestamp,
            )
            return messages.new(
                "ListOffsetsRequest",
                replica_id=self._config.node_id,
                isolation_level=READ_UNCOMMITTED,
                topics=(messages.new("ListOffsetsTopic", name=partition.name.topic, partitions=(asked,)),),
                timeout=timedelta(seconds=REQUEST_SECONDS_MAX),
            )

        response = await self._peer.request(
            ApiKey.LIST_OFFSETS, build, timeout_seconds=REQUEST_SECONDS_MAX, highest=LIST_OFFSETS_VERSION_MAX
        )
        result = response.topics[0].partitions[0]
        if result.error_code is not ErrorCode.none:
            raise KafkaError(result.error_code)
        offset: int = result.offset
        return offset

    def _report(self, partition: Partition, fault: ReportFault | None) -> None:
        if fault is not None:
            logger.warning("%s does not follow leader %d: %s", partition.name, self.leader.broker_id, fault.reason)


def _id_of(partition: Partition) -> PartitionId:
    return PartitionId(partition.topic_id, partition.name.partition)


def checked_batches(records: bytes) -> tuple[bytes, list[BatchHeader]]:
    """Nothing of a leader's is taken unseen: what is damaged here would be served from here. Raises CorruptBatch.

    Only whole batches are taken: Apache Kafka cuts an answer off where it has become long enough.
    """
    batches = parse_batches(records, allow_partial_tail=True) if records else []
    for batch in batches:
        check_crc(records, batch)
    end = batches[-1].position + batches[-1].size if batches else 0
    return records[:end], batches


def _diverging(result: Message) -> EpochEnd | None:
    diverging = getattr(result, "diverging_epoch", None)
    if diverging is None or diverging.epoch < 0:
        return None
    return EpochEnd(diverging.epoch, diverging.end_offset)
