"""Fetch, versions 4 to 18: records to consumers, with incremental sessions (KIP-227) and long polls.

Data comes from the page cache on the event loop, or through a thread where the disk has to be asked.
Differences from Kafka: none known for consumers. Fetches of followers are refused until there is replication.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.handlers.broker.hosted_partition import why_missing
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.log.reading import LogRead
from odradek.partition.partition import Partition
from odradek.protocol.fetch_codec import (
    FIRST_WITH_TOPIC_ID,
    AbortedTransaction,
    FetchedPartition,
    FetchedTopic,
    write_fetch_response,
)
from odradek.protocol.schemas import Message
from odradek.waiting.fetch_sessions import FINAL_EPOCH, FetchContext, FetchTarget, PartitionKey
from odradek.waiting.fetch_wait import FetchWait

READ_COMMITTED = 1
CONSUMER_REPLICA_ID = -1


class Limits(NamedTuple):
    max_bytes: int
    min_bytes: int
    max_wait_seconds: float
    committed_only: bool


class Found(NamedTuple):
    """What one pass over the partitions brought."""

    results: list[tuple[FetchTarget, FetchedPartition]]
    bytes: int
    # An error is answered at once, however long the client would wait for data.
    failed: bool
    # Some data is not in the page cache: the pass has to be made in a thread.
    uncached: bool = False
    broken_disks: tuple[tuple[str, OSError], ...] = ()


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Any:
    try:
        fetch = _open_session(request, context, broker)
    except KafkaError as error:
        return write_fetch_response([], context.version, error=error.code)
    limits = _limits(request, broker)
    if _replica_id(request) > CONSUMER_REPLICA_ID:
        refused = [(t, FetchedPartition(t.key.partition, ErrorCode.not_leader_or_follower)) for t in fetch.targets]
        return _respond(fetch, Found(refused, 0, True), context, broker)
    found = _read_all(fetch, limits, broker, _read_cached)
    if not found.uncached and (found.failed or found.bytes >= limits.min_bytes or limits.max_wait_seconds <= 0):
        return _respond(fetch, found, context, broker)
    if not fetch.targets:
        return _respond(fetch, found, context, broker)
    return _poll(fetch, found, limits, context, broker)


async def _poll(
    fetch: FetchContext, found: Found, limits: Limits, context: RequestContext, broker: BrokerPort
) -> list[bytes]:
    deadline = broker.clock.monotonic() + limits.max_wait_seconds
    while True:
        if found.uncached:
            found = await broker.executor.run(lambda: _read_all(fetch, limits, broker, _read_waiting))
        remaining = deadline - broker.clock.monotonic()
        if found.failed or found.bytes >= limits.min_bytes or remaining <= 0:
            return _respond(fetch, found, context, broker)
        partitions = [p for t in fetch.targets if (p := broker.partition(t.topic, t.key.partition)) is not None]
        await FetchWait(partitions, limits.min_bytes - found.bytes).wait(remaining)
        found = _read_all(fetch, limits, broker, _read_cached)


def _replica_id(request: Message) -> int:
    state = getattr(request, "replica_state", None)
    return int(state.replica_id if state is not None else request.replica_id)


def _limits(request: Message, broker: BrokerPort) -> Limits:
    max_bytes = min(getattr(request, "max_bytes", 2**31 - 1), broker.config.fetch_max_bytes)
    return Limits(
        max_bytes,
        min(request.min_bytes, max_bytes),
        request.max_wait.total_seconds(),
        getattr(request, "isolation_level", 0) == READ_COMMITTED,
    )


def _open_session(request: Message, context: RequestContext, broker: BrokerPort) -> FetchContext:
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    wanted = [
        FetchTarget(
            _key(topic, asked.partition, by_id),
            asked.fetch_offset,
            asked.partition_max_bytes,
            getattr(asked, "current_leader_epoch", -1),
            getattr(asked, "last_fetched_epoch", -1),
            getattr(asked, "log_start_offset", -1),
            topic="" if by_id else topic.topic,
        )
        for topic in request.topics
        for asked in topic.partitions
    ]
    forgotten = [
        _key(topic, partition, by_id)
        for topic in getattr(request, "forgotten_topics_data", ())
        for partition in topic.partitions
    ]
    return broker.fetch_sessions.open(
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", FINAL_EPOCH),
        wanted,
        forgotten,
        uses_topic_ids=by_id,
        privileged=_replica_id(request) > CONSUMER_REPLICA_ID,
    )


def _key(topic: Message, partition: int, by_id: bool) -> PartitionKey:
    if by_id:
        return PartitionKey(topic.topic_id or ZERO_UUID, "", partition)
    return PartitionKey(ZERO_UUID, topic.topic, partition)


def _read_all(
    fetch: FetchContext,
    limits: Limits,
    broker: BrokerPort,
    read: Callable[..., LogRead | None],
) -> Found:
    """Partitions in the session's order, until the byte limit; the first record comes however large it is."""
    results: list[tuple[FetchTarget, FetchedPartition]] = []
    broken: list[tuple[str, OSError]] = []
    left = limits.max_bytes
    total = 0
    failed = False
    for target in fetch.targets:
        try:
            partition = _find(target, broker, by_id=fetch.uses_topic_ids)
            fetched = _read_partition(partition, target, min(target.max_bytes, left), total == 0, limits, read)
            if fetched is None:
                return Found([], 0, failed=False, uncached=True)
        except KafkaError as error:
            failed = True
            fetched = FetchedPartition(target.key.partition, error.code)
        except OSError as error:
            failed = True
            broken.append((partition.log_dir, error))
            fetched = FetchedPartition(target.key.partition, ErrorCode.kafka_storage_error)
        results.append((target, fetched))
        total += len(fetched.records)
        left = max(0, left - len(fetched.records))
    return Found(results, total, failed, broken_disks=tuple(broken))


def _find(target: FetchTarget, broker: BrokerPort, *, by_id: bool) -> Partition:
    topic_id = target.key.topic_id
    if by_id and not target.topic:
        known = broker.image.topics_by_id.get(topic_id)
        if known is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        target.topic = known.name
    partition = broker.partition(target.topic, target.key.partition)
    if partition is None or (by_id and partition.topic_id != topic_id):
        if by_id and topic_id not in broker.image.topics_by_id:
            raise KafkaError(ErrorCode.unknown_topic_id)
        missing = why_missing(target.topic, target.key.partition, broker)
        raise KafkaError(missing if partition is None else ErrorCode.unknown_topic_or_partition)
    partition.check_leader(target.leader_epoch)
    return partition


def _read_partition(
    partition: Partition,
    target: FetchTarget,
    max_bytes: int,
    min_one: bool,
    limits: Limits,
    read: Callable[..., LogRead | None],
) -> FetchedPartition | None:
    last_stable = partition.last_stable_offset
    end = last_stable if limits.committed_only else partition.high_watermark
    found = read(partition, target.fetch_offset, max_bytes, end, min_one)
    if found is None:
        return None
    aborted = None
    if limits.committed_only:
        aborted = [
            AbortedTransaction(one.producer_id, one.first_offset)
            for one in partition.log.aborted_transactions(target.fetch_offset, found.next_offset)
        ]
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


def _read_cached(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRead | None:
    return partition.log.read_cached(offset, max_bytes, end_offset_exclusive=end, min_one_message=min_one)


def _read_waiting(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRead | None:
    return partition.log.read(offset, max_bytes, end_offset_exclusive=end, min_one_message=min_one)


def _respond(fetch: FetchContext, found: Found, context: RequestContext, broker: BrokerPort) -> list[bytes]:
    for log_dir, error in found.broken_disks:
        broker.fail_log_dir(log_dir, error)
    answered: list[PartitionKey] = []
    topics: list[FetchedTopic] = []
    for target, fetched in found.results:
        changed = (
            bool(fetched.records)
            or fetched.error is not ErrorCode.none
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
    return write_fetch_response(topics, context.version, session_id=fetch.session_id)
