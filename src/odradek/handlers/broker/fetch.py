"""Fetch, versions 4 to 18: records to consumers and followers, with incremental sessions (KIP-227) and long polls.

Data comes from the page cache on the event loop, or through a thread where the disk has to be asked.
A follower reads up to the log's end, and its Fetch acknowledges everything before its offset.
Differences from Kafka: none known.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH, ZERO_UUID
from odradek.handlers.broker.hosted_partition import why_missing
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.handlers.late_answer import LateAnswer
from odradek.log.reading import LogRead
from odradek.partition.partition import FollowerFetch, Partition
from odradek.protocol.fetch_codec import (
    FIRST_WITH_LEADER_HINTS,
    FIRST_WITH_TOPIC_ID,
    AbortedTransaction,
    CurrentLeader,
    FetchedPartition,
    FetchedTopic,
    LeaderEndpoint,
    write_fetch_response,
    write_one_partition,
)
from odradek.protocol.schemas import Message
from odradek.replication.epochs import EpochEnd, divergence
from odradek.replication.isr import UNKNOWN_BROKER_EPOCH
from odradek.waiting.fetch_sessions import FINAL_EPOCH, FetchContext, FetchTarget, PartitionKey
from odradek.waiting.fetch_wait import FetchWait

# More than this is read in a thread, even if all of it is in memory: copying it would hold up the loop.
ON_LOOP_BYTES_MAX = 8 << 20
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Limits(NamedTuple):
    max_bytes: int
    min_bytes: int
    max_wait_seconds: float
    committed_only: bool
    follower: FollowerFetch | None


class Found(NamedTuple):
    """What one pass over the partitions brought."""

    results: list[tuple[FetchTarget, FetchedPartition]]
    bytes: int
    # An error is answered at once, however long the client would wait for data.
    failed: bool
    # Some data is not in the page cache, or there is very much of it: the pass has to be made in a thread.
    uncached: bool = False
    broken_disks: tuple[tuple[str, OSError], ...] = ()
    # Of all partitions, before they were read: see `FetchWait`.
    revision: int = 0


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Any:
    if getattr(request, "isolation_level", READ_UNCOMMITTED) not in (READ_UNCOMMITTED, READ_COMMITTED):
        return write_fetch_response([], context.version, error=ErrorCode.unknown_server_error)
    try:
        fetch = _open_session(request, context, broker)
    except KafkaError as error:
        return write_fetch_response([], context.version, error=error.code)
    limits = _limits(request, broker)
    if limits.follower is not None:
        _note_progress(fetch, limits.follower, broker)
    found = _read_all(fetch, limits, context, broker, _read_cached)
    if not found.uncached and (found.failed or found.bytes >= limits.min_bytes or limits.max_wait_seconds <= 0):
        return _respond(fetch, found, limits, context, broker)
    if not fetch.targets:
        return _respond(fetch, found, limits, context, broker)
    return _LongPoll(fetch, found, limits, context, broker)


class _LongPoll(LateAnswer):
    """A fetch that waits for data. It is answered from within the append that brings enough of it."""

    def __init__(
        self, fetch: FetchContext, found: Found, limits: Limits, context: RequestContext, broker: BrokerPort
    ) -> None:
        super().__init__()
        self._fetch = fetch
        self._limits = limits
        self._context = context
        self._broker = broker
        self._deadline = broker.clock.monotonic() + limits.max_wait_seconds
        self._first: Found | None = found
        self._wait: FetchWait | None = None
        self._reading: asyncio.Task[None] | None = None
        # The partition, where the fetch names just one, and by its topic's id.
        self._only: Partition | None = None

    def begin(self) -> None:
        found, self._first = self._first, None
        assert found is not None
        self._judge(found)

    def abandon(self) -> None:
        super().abandon()
        if self._wait is not None:
            self._wait.end()
        if self._reading is not None:
            self._reading.cancel()

    def _look_again(self) -> None:
        try:
            answer = self._answer_with_fresh()
            if answer is not None:
                self.give(answer)
            else:
                self._judge(self._read_cached())
        except Exception as error:  # noqa: BLE001 - whoever appends is not to hear of a reader's trouble
            self.break_off(error)

    def _judge(self, found: Found) -> None:
        """Answers, or reads what is on the disk only, or waits."""
        while True:
            if found.uncached:
                self._reading = asyncio.ensure_future(self._read_in_thread())
                return
            remaining = self._deadline - self._broker.clock.monotonic()
            if found.failed or found.bytes >= self._limits.min_bytes or remaining <= 0:
                self.give(_respond(self._fetch, found, self._limits, self._context, self._broker))
                return
            targets = self._fetch.targets
            partitions = [p for t in targets if (p := self._broker.partition(t.topic, t.key.partition)) is not None]
            follows = self._limits.follower is not None
            wait = FetchWait(partitions, self._limits.min_bytes - found.bytes, self._look_again, for_end=follows)
            if wait.revision == found.revision:
                is_simple = (
                    len(partitions) == len(targets) == 1
                    and self._context.version >= FIRST_WITH_TOPIC_ID
                    and not follows
                )
                self._only = partitions[0] if is_simple else None
                # What was read is read again: it must not lie in memory as long as a client cares to wait.
                self._wait = wait
                wait.begin(remaining)
                return
            # Something came between the reading and this.
            found = self._read_cached()

    def _read_cached(self) -> Found:
        return _read_all(self._fetch, self._limits, self._context, self._broker, _read_cached)

    def _answer_with_fresh(self) -> list[bytes] | None:
        """The batch whose append wakes this, if it is all that is asked for: nearly always, where somebody waits."""
        partition = self._only
        fresh = None if partition is None else partition.fresh
        if partition is None or fresh is None:
            return None
        fetch = self._fetch
        (target,) = fetch.targets
        end = fresh.end_offset
        if (
            target.fetch_offset != fresh.first_offset
            or partition.high_watermark != end
            or partition.log.last_stable_offset(end) != end
            or target.leader_epoch not in (NO_EPOCH, partition.leader_epoch)
            or target.last_fetched_epoch >= 0
            or len(fresh.data) < self._limits.min_bytes
            or not partition.is_leader
        ):
            return None
        log_start_offset = partition.log.log_start_offset
        target.sent_high_watermark = end
        target.sent_log_start_offset = log_start_offset
        # The only partition of a session is its last one, wherever it goes: nothing to rotate. And all transactions
        # before the batch are decided, by markers that lie before it: none that was aborted reaches into it.
        return write_one_partition(
            partition.topic_id.bytes,
            target.key.partition,
            end,
            end,
            log_start_offset,
            bytes(fresh.data),
            session_id=fetch.session_id,
            tells_aborted=self._limits.committed_only,
        )

    async def _read_in_thread(self) -> None:
        try:
            found = await self._broker.executor.run(
                lambda: _read_all(self._fetch, self._limits, self._context, self._broker, _read_waiting)
            )
            if not self.is_over:
                self._judge(found)
        except Exception as error:  # noqa: BLE001 - the connection is told
            self.break_off(error)


def _follower(request: Message) -> FollowerFetch | None:
    """None: a consumer, or somebody who looks into the log as one."""
    state = getattr(request, "replica_state", None)
    if state is None:
        return None if request.replica_id < 0 else FollowerFetch(request.replica_id, UNKNOWN_BROKER_EPOCH)
    return None if state.replica_id < 0 else FollowerFetch(state.replica_id, state.replica_epoch)


def _note_progress(fetch: FetchContext, follower: FollowerFetch, broker: BrokerPort) -> None:
    """What a Fetch acknowledges that agrees with the log of its leader; for any other the reading finds the answer."""
    for target in fetch.targets:
        partition = _find(target, broker, by_id=fetch.uses_topic_ids)
        if isinstance(partition, ErrorCode):
            continue
        log = partition.log
        try:
            partition.check_leader(target.leader_epoch)
            if log.log_start_offset <= target.fetch_offset <= log.log_end_offset and not _diverging(partition, target):
                partition.follower_fetched(follower, target.fetch_offset, target.log_start_offset)
        except KafkaError:
            # Found again by whoever reads the partition for this fetch, and told there.
            continue
        broker.in_sync_may_change(partition)


def _limits(request: Message, broker: BrokerPort) -> Limits:
    max_bytes = min(getattr(request, "max_bytes", 2**31 - 1), broker.config.fetch_max_bytes)
    return Limits(
        max_bytes,
        min(request.min_bytes, max_bytes),
        request.max_wait.total_seconds(),
        getattr(request, "isolation_level", READ_UNCOMMITTED) == READ_COMMITTED,
        _follower(request),
    )


def _open_session(request: Message, context: RequestContext, broker: BrokerPort) -> FetchContext:
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    # A partition that is named twice counts once, as it was named last.
    wanted = {
        key: FetchTarget(
            key,
            asked.fetch_offset,
            asked.partition_max_bytes,
            # Any negative epoch stands for none.
            max(NO_EPOCH, getattr(asked, "current_leader_epoch", NO_EPOCH)),
            getattr(asked, "last_fetched_epoch", -1),
            getattr(asked, "log_start_offset", -1),
            topic="" if by_id else topic.topic,
        )
        for topic in request.topics
        for asked in topic.partitions
        for key in (_key(topic, asked.partition, by_id),)
    }
    forgotten = [
        _key(topic, partition, by_id)
        for topic in getattr(request, "forgotten_topics_data", ())
        for partition in topic.partitions
    ]
    return broker.fetch_sessions.open(
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", FINAL_EPOCH),
        list(wanted.values()),
        forgotten,
        uses_topic_ids=by_id,
        privileged=_follower(request) is not None,
    )


def _key(topic: Message, partition: int, by_id: bool) -> PartitionKey:
    if by_id:
        return PartitionKey(topic.topic_id or ZERO_UUID, "", partition)
    return PartitionKey(ZERO_UUID, topic.topic, partition)


def _read_all(
    fetch: FetchContext,
    limits: Limits,
    context: RequestContext,
    broker: BrokerPort,
    read: Callable[..., LogRead | None],
) -> Found:
    """Partitions in the session's order, until the byte limit; the first record comes however large it is."""
    results: list[tuple[FetchTarget, FetchedPartition]] = []
    broken: list[tuple[str, OSError]] = []
    left = limits.max_bytes
    total = revision = 0
    failed = False
    for target in fetch.targets:
        partition = _find(target, broker, by_id=fetch.uses_topic_ids)
        if isinstance(partition, ErrorCode):
            failed = True
            # As Kafka: of a partition that is not here the list of aborted transactions is empty, not absent.
            results.append((target, FetchedPartition(target.key.partition, partition, aborted=())))
            continue
        revision += partition.revision
        try:
            partition.check_leader(target.leader_epoch)
            fetched = _read_partition(partition, target, min(target.max_bytes, left), total == 0, limits, read)
            if fetched is None:
                return Found([], 0, failed=False, uncached=True)
        except KafkaError as error:
            failed = True
            fetched = FetchedPartition(
                target.key.partition, error.code, current_leader=_whom_to_ask(error.code, partition, context)
            )
        except OSError as error:
            failed = True
            if partition.unavailable is None:
                broken.append((partition.log_dir, error))
            # A partition that was deleted meanwhile took its files along: no fault of the disk's.
            fetched = FetchedPartition(target.key.partition, partition.unavailable or ErrorCode.kafka_storage_error)
        failed = failed or fetched.diverging is not None
        results.append((target, fetched))
        total += len(fetched.records)
        left = max(0, left - len(fetched.records))
        if total > ON_LOOP_BYTES_MAX and read is _read_cached:
            return Found([], 0, failed=False, uncached=True)
    return Found(results, total, failed, broken_disks=tuple(broken), revision=revision)


def _find(target: FetchTarget, broker: BrokerPort, *, by_id: bool) -> Partition | ErrorCode:
    topic_id = target.key.topic_id
    if by_id and not target.topic:
        known = broker.image.topics_by_id.get(topic_id)
        if known is None:
            return ErrorCode.unknown_topic_id
        target.topic = known.name
    partition = broker.partition(target.topic, target.key.partition)
    if partition is None or (by_id and partition.topic_id != topic_id):
        if by_id and topic_id not in broker.image.topics_by_id:
            return ErrorCode.unknown_topic_id
        missing = why_missing(target.topic, target.key.partition, broker)
        return missing if partition is None else ErrorCode.unknown_topic_or_partition
    return partition


def _whom_to_ask(code: ErrorCode, partition: Partition, context: RequestContext) -> CurrentLeader | None:
    if context.version < FIRST_WITH_LEADER_HINTS or code not in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
    ):
        return None
    return CurrentLeader(partition.leader_id, partition.leader_epoch)


def _read_partition(
    partition: Partition,
    target: FetchTarget,
    max_bytes: int,
    min_one: bool,
    limits: Limits,
    read: Callable[..., LogRead | None],
) -> FetchedPartition | None:
    if max_bytes < 0:
        # Kafka has no better answer to a negative size.
        raise KafkaError(ErrorCode.unknown_server_error)
    last_stable = partition.last_stable_offset
    if limits.follower is not None:
        partition.check_follower(limits.follower)
    diverging = _diverging(partition, target)
    if diverging is not None:
        return FetchedPartition(
            target.key.partition,
            ErrorCode.none,
            partition.high_watermark,
            last_stable,
            partition.log.log_start_offset,
            diverging=diverging,
        )
    if limits.follower is not None:
        end = partition.log.log_end_offset
    else:
        end = last_stable if limits.committed_only else partition.high_watermark
    found = read(partition, target.fetch_offset, max_bytes, end, min_one)
    if found is None:
        return None
    tells_aborted = limits.committed_only and limits.follower is None
    aborted = _aborted(partition, target, found.next_offset) if tells_aborted else None
    return FetchedPartition(
        target.key.partition,
        ErrorCode.none,
        partition.high_watermark,
        last_stable,
        partition.log.log_start_offset,
        aborted,
        -1,
        found.data,
    )


def _aborted(partition: Partition, target: FetchTarget, end_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(one.producer_id, one.first_offset)
        for one in partition.log.aborted_transactions(target.fetch_offset, end_offset)
    ]


def _diverging(partition: Partition, target: FetchTarget) -> EpochEnd | None:
    """Where the reader's log leaves this one, if it says what epoch its last record has."""
    if target.last_fetched_epoch < 0:
        return None
    return divergence(partition.log, target.fetch_offset, target.last_fetched_epoch)


def _read_cached(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRead | None:
    on_loop_bytes = min(max_bytes, ON_LOOP_BYTES_MAX)
    found = partition.log.read_cached(offset, on_loop_bytes, end_offset_exclusive=end, min_one_message=min_one)
    if on_loop_bytes < max_bytes and found is not None and found.next_offset < end:
        # There is more in memory than the loop has time to copy.
        return None
    return found


def _read_waiting(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRead | None:
    return partition.log.read(offset, max_bytes, end_offset_exclusive=end, min_one_message=min_one)


def _respond(
    fetch: FetchContext, found: Found, limits: Limits, context: RequestContext, broker: BrokerPort
) -> list[bytes]:
    for log_dir, error in found.broken_disks:
        broker.fail_log_dir(log_dir, error)
    answered: list[PartitionKey] = []
    topics: list[FetchedTopic] = []
    for target, fetched in found.results:
        changed = (
            bool(fetched.records)
            or fetched.error is not ErrorCode.none
            or fetched.diverging is not None
            or fetched.high_watermark != target.sent_high_watermark
            or fetched.log_start_offset != target.sent_log_start_offset
        )
        target.sent_high_watermark = fetched.high_watermark
        target.sent_log_start_offset = fetched.log_start_offset
        if fetch.incremental and not changed:
            continue
        if fetched.records:
            answered.append(target.key)
        key = target.key
        last = topics[-1] if topics else None
        if last is None or last.name != key.topic or last.topic_id != key.topic_id:
            last = FetchedTopic(key.topic, key.topic_id, [])
            topics.append(last)
        last.partitions.append(fetched)
    if fetch.session is not None:
        fetch.session.rotate(answered)
    # A broker knows where the others are.
    leaders = _leader_endpoints(topics, context, broker) if limits.follower is None else []
    return write_fetch_response(topics, context.version, session_id=fetch.session_id, leaders=leaders)


def _leader_endpoints(topics: list[FetchedTopic], context: RequestContext, broker: BrokerPort) -> list[LeaderEndpoint]:
    """Where the leaders are reached that the response names."""
    if context.version < FIRST_WITH_LEADER_HINTS:
        return []
    named = {one.current_leader.leader_id for topic in topics for one in topic.partitions if one.current_leader}
    endpoints = []
    for node_id in sorted(named):
        registered = broker.image.brokers.get(node_id)
        endpoint = None if registered is None else registered.endpoint(context.listener_name)
        if registered is not None and endpoint is not None:
            endpoints.append(LeaderEndpoint(node_id, endpoint.host, endpoint.port, registered.rack))
    return endpoints
