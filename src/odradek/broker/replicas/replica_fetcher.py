"""Fetches from one leader: one connection and one Fetch at a time for all partitions that it leads for this broker and
that are in the same log dir.

`core/replication/follower.py` decides what a response means; this module owns the connection and executes the effects.
A partition that backs off is left out of the Fetch. A partition that is added joins the session with the next Fetch. It
does not wait for the long poll of the others: a request behind the Fetch makes the leader respond. A round costs only
what has changed, because most partitions are idle.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from odradek.base.background import log_fault, start_task
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock
from odradek.broker.replicas.fetch_session import (
    ADDED_PARTITIONS_MAX,
    FollowerSession,
    PartitionId,
    SessionRequest,
)
from odradek.config.node_config import NodeConfig
from odradek.core.replication.effects import (
    Append,
    Effect,
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
from odradek.server.security import UNSECURED_PEER, PeerSecurity
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
# Time in which each position is updated at least once, because a log start can change without an event.
UPDATE_ALL_SECONDS: Final = 5.0
UPDATES_PER_FETCH_MAX: Final = 1000
# Partitions of a response that are appended before other connections are served.
RESULTS_PER_TURN: Final = 100


class LeaderEndpoint(NamedTuple):
    broker_id: int
    broker_epoch: int
    """The leader's registration: another process at the same address is another one."""
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
        peer_security: PeerSecurity = UNSECURED_PEER,
        added_partitions_max: int = ADDED_PARTITIONS_MAX,
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
        self._peer_security: Final = peer_security
        self._partitions: Final[dict[PartitionId, Partition]] = {}
        self._positions: Final[dict[PartitionId, FetchPosition]] = {}
        """What to fetch, as of the last update."""
        self._touched: set[PartitionId] = set()
        """Partitions whose position has to be updated before the next Fetch."""
        self._update_always: Final[set[PartitionId]] = set()
        """Partitions whose position has to be updated before every Fetch: they back off or are throttled."""
        self._to_update: list[PartitionId] = []
        """The rest of the current pass over all positions."""
        self._last_update = clock.monotonic()
        self._session: Final = FollowerSession(added_partitions_max)
        self._peer = self._new_peer()
        self._is_polling = False
        self._is_nudged = False
        """Whether a request behind the current Fetch asks the leader to respond."""
        self._nudges: Final[set[asyncio.Task[None]]] = set()
        self._wake: Final = asyncio.Event()
        self._working: Final = start_task(f"replica fetcher of leader {leader.broker_id}", self._work())

    @property
    def is_idle(self) -> bool:
        return not self._partitions

    def add(self, partition: Partition) -> None:
        self._partitions[_id_of(partition)] = partition
        self._touched.add(_id_of(partition))
        self._wake.set()
        if self._is_polling and not self._is_nudged:
            self._is_nudged = True
            # Without it, the new partition waits for the rest of the long poll.
            nudge = start_task("request behind a Fetch", self._end_long_poll(), log_fault)
            self._nudges.add(nudge)
            nudge.add_done_callback(self._nudges.discard)

    def remove(self, partition: Partition) -> None:
        if self._partitions.get(_id_of(partition)) is partition:
            del self._partitions[_id_of(partition)]
            self._touched.add(_id_of(partition))

    async def stop(self) -> None:
        self._working.cancel()
        self._peer.close()
        await asyncio.wait([self._working, *self._nudges])

    def _new_peer(self) -> Peer:
        return Peer(
            self.leader.host,
            self.leader.port,
            client_id=f"broker-{self._config.node_id}-fetcher-0",
            connect_timeout_seconds=self._config.socket_connection_setup_timeout_ms / 1000,
            on_disconnect=lambda: self._on_leader_disconnect(self.leader),
            security=self._peer_security,
        )

    def _reconnect(self) -> None:
        self._peer.close()
        self._peer = self._new_peer()
        self._session.restart()

    # The loop

    async def _work(self) -> None:
        while True:
            try:
                await self._work_once()
            except Exception:
                # A bug with one response must not stop replication of all partitions: they are fetched again.
                logger.exception("Fetching from leader %d failed", self.leader.broker_id)
                self._reconnect()
                self._touched.update(self._partitions)
                await asyncio.sleep(AFTER_FAULT_SECONDS)

    async def _work_once(self) -> None:
        await self._sync_before_fetch()
        self._wake.clear()
        touched = self._update_positions()
        if self._positions:
            await self._fetch(self._positions, touched)
        else:
            # The leader's session still contains the previous positions.
            self._session.restart()
            await self._wait()

    def _update_positions(self) -> set[PartitionId]:
        """Updates the positions of the partitions that may have changed, and returns these partitions."""
        now = self._clock.monotonic()
        touched, self._touched = self._touched, set()
        touched |= self._update_always
        touched.update(key for key, partition in self._partitions.items() if partition.follower_state is None)
        touched.update(self._next_to_update(now))
        self._update_always.clear()
        for key in touched:
            partition = self._partitions.get(key)
            position = None if partition is None else self._position(key, partition, now)
            if position is None:
                self._positions.pop(key, None)
            else:
                self._positions[key] = position
        return touched

    def _next_to_update(self, now: float) -> list[PartitionId]:
        """A part of all partitions, so that each gets its turn and no single Fetch has to update them all."""
        share = (now - self._last_update) / UPDATE_ALL_SECONDS
        count = min(UPDATES_PER_FETCH_MAX, int(share * len(self._partitions)))
        if count == 0:
            return []
        self._last_update = now
        if not self._to_update:
            self._to_update = list(self._partitions)
        part = self._to_update[-count:]
        del self._to_update[-count:]
        return part

    def _position(self, key: PartitionId, partition: Partition, now: float) -> FetchPosition | None:
        follower = partition.follower_state
        if follower is None:
            return None
        position = follower.fetch_position(partition.log, now)
        if position is None or self._is_throttled(partition):
            self._update_always.add(key)
        return None if self._is_throttled_now(partition, now) else position

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.log.config.follower_replication_throttled_replicas
        return names_replica(throttled, partition.name.partition, self._config.node_id)

    def _is_throttled_now(self, partition: Partition, now: float) -> bool:
        """A follower that has everything committed is not throttled: it would leave and rejoin the ISR repeatedly."""
        follower = partition.follower_state
        if follower is None or not self._is_throttled(partition) or follower.has_all_committed(partition.log):
            return False
        return self._throttle.is_exceeded(now)

    async def _sync_before_fetch(self) -> None:
        """A Fetch acknowledges: topics that sync before they acknowledge are synced first. Partitions may be added
        meanwhile."""
        synced: set[Partition] = set()
        while unsynced := [one for one in self._unsynced_partitions() if one not in synced]:
            synced.update(unsynced)
            results = await asyncio.gather(*(one.flush() for one in unsynced), return_exceptions=True)
            for partition, result in zip(unsynced, results, strict=True):
                if isinstance(result, OSError):
                    self._on_disk_failure(partition.log_dir, result)
                    self._back_off(partition, f"sync failed: {result}")
                elif isinstance(result, BaseException):
                    raise result

    def _unsynced_partitions(self) -> list[Partition]:
        now = self._clock.monotonic()
        updated = [
            partition
            for key in self._touched | self._update_always
            if (partition := self._partitions.get(key)) is not None
        ]
        return [
            partition
            for partition in updated
            if partition.needs_sync()
            and partition.follower_state is not None
            and partition.follower_state.fetch_position(partition.log, now) is not None
        ]

    def _back_off(self, partition: Partition, reason: str) -> None:
        """Does nothing if the disk failed: the partition then has no follower state."""
        follower, now = partition.follower_state, self._clock.monotonic()
        position = None if follower is None else follower.fetch_position(partition.log, now)
        if follower is not None and position is not None:
            self._report(partition, follower.on_append_failure(position, reason, now))

    async def _wait(self) -> None:
        """Waits until a partition is added or a back-off ends."""
        now = self._clock.monotonic()
        times = [
            follower.next_fetch_at
            for partition in self._partitions.values()
            if (follower := partition.follower_state) is not None and follower.next_fetch_at is not None
        ]
        if any(self._is_throttled_now(partition, now) for partition in self._partitions.values()):
            # The limit may change before that.
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
        request = self._session.next(positions, touched)
        max_wait_ms = 0 if request.has_more else self._max_wait_ms()
        self._is_polling, self._is_nudged = True, False
        try:
            response = await self._peer.request(
                ApiKey.FETCH,
                lambda messages: self._request(messages, request, max_wait_ms),
                timeout_seconds=REQUEST_SECONDS_MAX,
                highest=FETCH_VERSION_MAX,
            )
        except PeerError as error:
            self._on_failure(positions, error)
            return
        finally:
            self._is_polling = False
        if response.error_code is not ErrorCode.none:
            logger.info("Leader %d requires a new fetch session: %s", self.leader.broker_id, response.error_code.name)
            if response.error_code is ErrorCode.fetch_session_id_not_found:
                self._session.on_session_not_found()
            else:
                self._session.restart()
            return
        self._session.on_response(response.session_id)
        handled = 0
        for topic in response.responses:
            for result in topic.partitions:
                key = PartitionId(topic.topic_id, result.partition_index)
                partition, position = self._partitions.get(key), positions.get(key)
                if partition is not None and position is not None:
                    self._touched.add(key)
                    await self._on_response(partition, position, result)
                handled += 1
                if handled % RESULTS_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _max_wait_ms(self) -> int:
        """A partition that backs off must not wait for the others any longer than it has to."""
        now = self._clock.monotonic()
        times = [
            follower.next_fetch_at
            for key in self._update_always
            if (partition := self._partitions.get(key)) is not None
            and (follower := partition.follower_state) is not None
            and follower.next_fetch_at is not None
            and follower.next_fetch_at > now
        ]
        longest_ms: int = self._config.replica_fetch_wait_max_ms
        return min(longest_ms, math.ceil(1000 * (min(times) - now))) if times else longest_ms

    async def _end_long_poll(self) -> None:
        """Sends a request behind the Fetch, at which the leader responds to it. Apache Kafka does not: there, the new
        partition waits for the rest of the long poll."""
        try:
            await self._peer.request(ApiKey.API_VERSIONS, _new_api_versions, timeout_seconds=REQUEST_SECONDS_MAX)
        except PeerError as error:
            # The Fetch before it fails, too.
            logger.debug("Request behind a Fetch from leader %d failed: %s", self.leader.broker_id, error)

    def _on_failure(self, positions: dict[PartitionId, FetchPosition], error: PeerError) -> None:
        logger.debug("Fetch from leader %d failed: %s", self.leader.broker_id, error)
        self._session.restart()
        self._touched.update(self._partitions)
        now = self._clock.monotonic()
        for key, position in positions.items():
            partition = self._partitions.get(key)
            if partition is not None and partition.follower_state is not None:
                partition.follower_state.on_fetch_failure(position, now)

    def _request(self, messages: Schema, request: SessionRequest, max_wait_ms: int) -> Message:
        by_topic: dict[UUID, list[Message]] = {}
        for key, position in request.changed.items():
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
        for key in request.forgotten:
            forgotten.setdefault(key.topic_id, []).append(key.partition)
        return messages.new(
            "FetchRequest",
            cluster_id=None,
            replica_state=messages.new(
                "ReplicaState", replica_id=self._config.node_id, replica_epoch=self._broker_epoch()
            ),
            max_wait=timedelta(milliseconds=max_wait_ms),
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            isolation_level=READ_UNCOMMITTED,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
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

    # One partition of the response

    async def _on_response(self, partition: Partition, position: FetchPosition, result: Message) -> None:
        follower = partition.follower_state
        if follower is None or partition.unavailable is not None:
            return
        now = self._clock.monotonic()
        records = bytes(result.records or b"")
        try:
            records, batches = parse_checked_batches(records)
        except CorruptBatch as error:
            self._report(partition, follower.on_append_failure(position, f"fetched batch is corrupt: {error}", now))
            return
        response = FetchResponse(
            error=result.error_code,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            diverging=_diverging_epoch(result),
            first_offset=batches[0].base_offset if batches else None,
        )
        effect = follower.on_fetch_response(partition.log, position, response, now)
        try:
            await self._execute(partition, follower, position.leader_epoch, effect, response, records, batches)
        except KafkaError as error:
            self._report(partition, follower.on_append_failure(position, str(error), self._clock.monotonic()))
        except OSError as error:
            self._on_disk_failure(partition.log_dir, error)

    async def _execute(
        self,
        partition: Partition,
        follower: FollowerState,
        epoch: int,
        effect: Effect | None,
        response: FetchResponse,
        records: bytes,
        batches: list[BatchHeader],
    ) -> None:
        match effect:
            case Append(restart_at):
                if restart_at is not None:
                    await self._truncate(partition, epoch, TruncateFullyTo(restart_at))
                if not batches or await partition.replicate(epoch, records, batches):
                    if batches and self._is_throttled(partition):
                        self._throttle.count(len(records), self._clock.monotonic())
                    await self._on_append(partition, follower, epoch, response)
            case TruncateTo() | TruncateFullyTo():
                await self._truncate(partition, epoch, effect)
            case FetchLeaderOffsets():
                await self._fetch_leader_offsets(partition, follower)
            case ReportFault():
                self._report(partition, effect)

    async def _on_append(
        self, partition: Partition, follower: FollowerState, epoch: int, response: FetchResponse
    ) -> None:
        if partition.follower_state is not follower or follower.leader_epoch != epoch:
            return
        log_start_offset = follower.on_append(partition.log, response)
        if log_start_offset > partition.log.log_start_offset:
            await partition.run_exclusively(lambda: partition.log.advance_log_start(log_start_offset))

    async def _truncate(self, partition: Partition, epoch: int, effect: TruncateTo | TruncateFullyTo) -> None:
        if isinstance(effect, TruncateTo) and effect.loses_committed:
            logger.warning(
                "Truncating %s to %d, below its high watermark, after an unclean election",
                partition.name,
                effect.offset,
            )
        if await partition.truncate(epoch, effect.offset, fully=isinstance(effect, TruncateFullyTo)):
            await self._on_truncation(partition, effect.offset)

    async def _fetch_leader_offsets(self, partition: Partition, follower: FollowerState) -> None:
        epoch = follower.leader_epoch
        try:
            start_offset = await self._list_offset(partition, epoch, EARLIEST)
            end_offset = await self._list_offset(partition, epoch, LATEST)
        except (PeerError, KafkaError) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.network_exception
            effect = follower.on_leader_offsets_failure(epoch, code, self._clock.monotonic())
            self._report(partition, effect if isinstance(effect, ReportFault) else None)
            return
        truncation = follower.on_leader_offsets(partition.log, epoch, start_offset, end_offset, self._clock.monotonic())
        if isinstance(truncation, TruncateTo | TruncateFullyTo):
            await self._truncate(partition, epoch, truncation)

    async def _list_offset(self, partition: Partition, leader_epoch: int, timestamp: int) -> int:
        def build(messages: Schema) -> Message:
            requested = messages.new(
                "ListOffsetsPartition",
                partition_index=partition.name.partition,
                current_leader_epoch=leader_epoch,
                timestamp=timestamp,
            )
            return messages.new(
                "ListOffsetsRequest",
                replica_id=self._config.node_id,
                isolation_level=READ_UNCOMMITTED,
                topics=(messages.new("ListOffsetsTopic", name=partition.name.topic, partitions=(requested,)),),
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
            logger.warning(
                "Replication of %s from leader %d failed: %s", partition.name, self.leader.broker_id, fault.reason
            )


def _new_api_versions(messages: Schema) -> Message:
    return messages.new("ApiVersionsRequest", client_software_name="odradek", client_software_version="0")


def _id_of(partition: Partition) -> PartitionId:
    return PartitionId(partition.topic_id, partition.name.partition)


def parse_checked_batches(records: bytes) -> tuple[bytes, list[BatchHeader]]:
    """Verifies the checksum of every fetched batch, because this broker may serve it later. Raises CorruptBatch.

    Drops a partial last batch: Apache Kafka truncates a response at its maximum size.
    """
    batches = parse_batches(records, allow_partial_tail=True) if records else []
    for batch in batches:
        check_crc(records, batch)
    end = batches[-1].position + batches[-1].size if batches else 0
    return records[:end], batches


def _diverging_epoch(result: Message) -> EpochEnd | None:
    diverging = getattr(result, "diverging_epoch", None)
    if diverging is None or diverging.epoch < 0:
        return None
    return EpochEnd(diverging.epoch, diverging.end_offset)
