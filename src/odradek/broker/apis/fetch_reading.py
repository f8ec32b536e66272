"""One pass of a Fetch over its partitions: reads the records for this reader, or finds the error.

Followers read the leader's log up to its end. Consumers read committed records, from the leader or, since version 11,
from any replica. It must not know sessions or waiting.
"""

from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Executor
from odradek.broker.apis.hosted_partition import why_missing
from odradek.broker.fetch_sessions import FetchContext, FetchTarget
from odradek.broker.ports import BrokerPort
from odradek.config.replica_selectors import RACK_AWARE
from odradek.core.replication.epochs import EpochEnd, divergence
from odradek.core.replication.isr import UNKNOWN_BROKER_EPOCH
from odradek.core.replication.read_replica import preferred_read_replica
from odradek.core.replication.throttle import names_replica
from odradek.records.batch import CorruptBatch
from odradek.server.context import RequestContext
from odradek.storage.log.file_range import RangeEnded
from odradek.storage.log.reading import LogRange
from odradek.storage.partition.partition import FollowerFetch, Partition
from odradek.wire.fetch_codec import (
    FIRST_WITH_LEADER_HINTS,
    NO_PREFERRED_REPLICA,
    AbortedTransaction,
    CurrentLeader,
    FetchedPartition,
)
from odradek.wire.schemas import Message
from odradek.wire.streamed_response import Part, StreamedRecords

# Of a response: records that are read at once. The others are read while the response is sent.
READ_AHEAD_BYTES_MAX: Final = 16 << 10
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
FIRST_FROM_FOLLOWERS: Final = 11


class Reader(NamedTuple):
    """The client of a Fetch and its limits."""

    max_bytes: int
    min_bytes: int
    max_wait_seconds: float
    committed_only: bool
    follower: FollowerFetch | None
    needs_leader: bool
    """True for followers, and for consumers too old to fetch from followers."""
    rack: str
    """The rack of a consumer that may fetch from a follower in its rack; otherwise empty."""
    serves_consumers: bool
    """True for a follower from which consumers may fetch."""


class Found(NamedTuple):
    """The result of one pass over the partitions."""

    results: list[tuple[FetchTarget, FetchedPartition]]
    bytes: int
    # Respond without waiting: there is an error or a preferred read replica.
    is_urgent: bool
    # An index or a batch header is not in the page cache: search in a thread of this log dir.
    uncached_in: str | None = None
    broken_disks: tuple[tuple[str, OSError], ...] = ()
    # The sum of the partitions' revisions before they were read: see `FetchWait`.
    revision: int = 0
    # The bytes that count for the leader throttle once they are sent.
    throttled_bytes: int = 0
    # Some partitions have more records than the throttle allows now.
    is_throttled_now: bool = False


Find = Callable[[Partition, int, int, int, bool], LogRange | None]


def reader_of(request: Message, version: int, broker: BrokerPort) -> Reader:
    config = broker.config
    max_bytes = min(getattr(request, "max_bytes", 2**31 - 1), config.fetch_max_bytes)
    follower = _follower_of(request)
    by_rack = config.replica_selector_class == RACK_AWARE
    return Reader(
        max_bytes,
        min(request.min_bytes, max_bytes),
        request.max_wait.total_seconds(),
        getattr(request, "isolation_level", READ_UNCOMMITTED) == READ_COMMITTED,
        follower,
        version < FIRST_FROM_FOLLOWERS or follower is not None,
        request.rack_id if by_rack and version >= FIRST_FROM_FOLLOWERS and follower is None else "",
        by_rack and follower is not None,
    )


def _follower_of(request: Message) -> FollowerFetch | None:
    """None: a consumer, or a debugging client that reads like one."""
    state = getattr(request, "replica_state", None)
    if state is None:
        return None if request.replica_id < 0 else FollowerFetch(request.replica_id, UNKNOWN_BROKER_EPOCH)
    return None if state.replica_id < 0 else FollowerFetch(state.replica_id, state.replica_epoch)


def read_all(
    fetch: FetchContext,
    reader: Reader,
    context: RequestContext,
    broker: BrokerPort,
    find_batches: Find,
    unread: "UnreadTargets | None" = None,
) -> Found:
    """Finds records in the session's order up to the byte limit; the first batch is returned at any size.

    Most of a follower's partitions are unchanged and not read; `unread` avoids checking them twice.
    """
    if unread is None:
        unread = find_unread(fetch, reader.follower, broker)
    results: list[tuple[FetchTarget, FetchedPartition]] = []
    broken: list[tuple[str, OSError]] = []
    left = reader.max_bytes
    read_ahead = READ_AHEAD_BYTES_MAX
    total = throttled_bytes = 0
    revision = unread.revision_of_others
    is_urgent = is_throttled_now = False
    needs_leader, rack, follows = reader.needs_leader, reader.rack, reader.follower is not None
    for target in unread.targets:
        partition = find(target, broker, by_id=fetch.uses_topic_ids)
        if isinstance(partition, ErrorCode):
            is_urgent = True
            # Like Kafka: for an unknown partition the list of aborted transactions is empty, not null.
            results.append((target, FetchedPartition(target.key.partition, partition, aborted=())))
            continue
        revision += partition.revision
        leader_epoch, log_dir = partition.leader_epoch, partition.log_dir
        try:
            if needs_leader:
                partition.check_leader(target.leader_epoch)
            else:
                partition.check_replica(target.leader_epoch)
            preferred = _preferred_replica(partition, target, reader, context, broker) if rack else None
            is_throttled = follows and _is_throttled(partition, broker)
            if is_throttled and _is_throttled_now(partition, reader, broker):
                # Everything except the records.
                is_throttled_now = True
                fetched = _read_partition(partition, target, 0, False, reader, broker, find_batches, 0)
            elif preferred is None:
                max_bytes = min(target.max_bytes, left)
                fetched = _read_partition(
                    partition, target, max_bytes, total == 0, reader, broker, find_batches, read_ahead
                )
            else:
                is_urgent = True
                fetched = _without_records(partition, target, preferred_read_replica=preferred)
            if fetched is None:
                return Found([], 0, is_urgent=False, uncached_in=log_dir)
            if follows:
                # During a search in a thread another leader may have overwritten the records.
                partition.check_leader(leader_epoch)
            if fetched.records.__class__ is bytes:
                read_ahead -= len(fetched.records)
            if is_throttled:
                throttled_bytes += len(fetched.records)
        except KafkaError as error:
            is_urgent = True
            fetched = FetchedPartition(
                target.key.partition, error.code, current_leader=_current_leader(error.code, partition, context)
            )
        except OSError as error:
            is_urgent = True
            if partition.unavailable is None:
                broken.append((log_dir, error))
            # If the partition was deleted meanwhile, its missing files are not a disk failure.
            fetched = FetchedPartition(target.key.partition, partition.unavailable or ErrorCode.kafka_storage_error)
        is_urgent = is_urgent or fetched.diverging is not None or (follows and _needs_log_start(target, fetched))
        is_at_end = follows and target.fetch_offset == partition.log.log_end_offset
        target.caught_up = partition if is_at_end and _is_empty(fetched) else None
        results.append((target, fetched))
        total += len(fetched.records)
        left = max(0, left - len(fetched.records))
    return Found(results, total, is_urgent, None, tuple(broken), revision, throttled_bytes, is_throttled_now)


def find(target: FetchTarget, broker: BrokerPort, *, by_id: bool) -> Partition | ErrorCode:
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


class UnreadTargets(NamedTuple):
    """The partitions of a Fetch that have to be read."""

    targets: list[FetchTarget]
    revision_of_others: int


def find_unread(
    fetch: FetchContext,
    follower: FollowerFetch | None,
    broker: BrokerPort,
    on_unchanged: Callable[[Partition], None] | None = None,
) -> UnreadTargets:
    """All partitions, or for a repeated Fetch of a follower the changed ones. `on_unchanged` receives the others."""
    if follower is None or not fetch.incremental:
        return UnreadTargets(fetch.targets, 0)
    registered = broker.image.brokers.get(follower.replica_id)
    if registered is None or registered.epoch > follower.broker_epoch:
        # From an earlier incarnation of the broker.
        return UnreadTargets(fetch.targets, 0)
    targets: list[FetchTarget] = []
    revision = 0
    for target in fetch.targets:
        partition = target.caught_up
        if partition is not None and _is_unchanged(partition, target, follower):
            revision += partition.revision
            if on_unchanged is not None:
                on_unchanged(partition)
        else:
            targets.append(target)
    return UnreadTargets(targets, revision)


def _is_unchanged(partition: Partition, target: FetchTarget, follower: FollowerFetch) -> bool:
    """Whether a follower that was at the end still is, and knows all offsets. Called for thousands of partitions."""
    replication = partition.leader_state
    log = partition.log
    return (
        replication is not None
        and partition.leader_epoch == target.leader_epoch
        and log.log_end_offset == target.fetch_offset
        and log.log_start_offset == target.sent_log_start_offset
        and partition.high_watermark == target.sent_high_watermark
        and follower.replica_id in replication.isr
        # It may just have been removed from the replicas: threads call this too.
        and (known := replication.followers.get(follower.replica_id)) is not None
        and known.broker_epoch == follower.broker_epoch
    )


def _is_empty(fetched: FetchedPartition) -> bool:
    return not fetched.records and fetched.error is ErrorCode.none and fetched.diverging is None


def _needs_log_start(target: FetchTarget, fetched: FetchedPartition) -> bool:
    """Whether a follower has to learn the leader's log start now: after a crash its own may be lower, and it must not
    lead with deleted records."""
    return (
        0 <= target.log_start_offset < fetched.log_start_offset
        and fetched.log_start_offset != target.sent_log_start_offset
    )


def diverging_of(partition: Partition, target: FetchTarget) -> EpochEnd | None:
    """Where the reader's log diverges from this one, if it sent its last fetched epoch."""
    if target.last_fetched_epoch < 0:
        return None
    return divergence(partition.log, target.fetch_offset, target.last_fetched_epoch)


def find_cached(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRange | None:
    return partition.log.find_cached_batches(offset, max_bytes, end_offset_exclusive=end, min_one_message=min_one)


class FindIn:
    """Waits for the disks of these log dirs only."""

    def __init__(self, log_dirs: Container[str]) -> None:
        self.log_dirs: Final = log_dirs

    def __call__(self, partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRange | None:
        chosen = find_waiting if partition.log_dir in self.log_dirs else find_cached
        return chosen(partition, offset, max_bytes, end, min_one)


def _may_wait(find_batches: Find, partition: Partition) -> bool:
    """Whether this search may wait for the disk of the partition."""
    if isinstance(find_batches, FindIn):
        return partition.log_dir in find_batches.log_dirs
    return find_batches is not find_cached


def find_waiting(partition: Partition, offset: int, max_bytes: int, end: int, min_one: bool) -> LogRange | None:
    return partition.log.find_batches(offset, max_bytes, end_offset_exclusive=end, min_one_message=min_one)


def _read_partition(
    partition: Partition,
    target: FetchTarget,
    max_bytes: int,
    min_one: bool,
    reader: Reader,
    broker: BrokerPort,
    find_batches: Find,
    read_ahead: int,
) -> FetchedPartition | None:
    if max_bytes < 0:
        # Like Kafka for a negative size.
        raise KafkaError(ErrorCode.unknown_server_error)
    last_stable, log_dir = partition.last_stable_offset, partition.log_dir
    if reader.follower is not None:
        partition.check_follower(reader.follower)
    diverging = diverging_of(partition, target)
    if diverging is not None:
        return _without_records(partition, target, diverging=diverging)
    if reader.follower is not None:
        end = partition.log.log_end_offset
    else:
        end = last_stable if reader.committed_only else partition.high_watermark
    found = find_batches(partition, target.fetch_offset, max_bytes, end, min_one)
    if found is None:
        return None
    has_aborted = reader.committed_only and reader.follower is None
    if (
        has_aborted
        and not partition.log.knows_aborted_transactions(target.fetch_offset)
        and not _may_wait(find_batches, partition)
    ):
        return None
    aborted = _aborted_transactions(partition, target, found.next_offset) if has_aborted else None
    return FetchedPartition(
        target.key.partition,
        ErrorCode.none,
        partition.high_watermark,
        last_stable,
        partition.log.log_start_offset,
        aborted,
        -1,
        _records_of(found, read_ahead, partition.threads, partial(broker.fail_log_dir, log_dir)),
    )


def _records_of(found: LogRange, read_ahead: int, threads: Executor, on_error: Callable[[OSError], None]) -> Part:
    """Reads up to `read_ahead` bytes at once if they are in the page cache."""
    batches = found.batches
    if batches is None:
        return b""
    if len(batches) <= read_ahead:
        # If the log has just been truncated, sending fails for the same reason.
        with suppress(CorruptBatch, RangeEnded):
            data = batches.read(cached=True)
            if data is not None:
                return data
    return StreamedRecords(batches, threads, on_error)


def _without_records(
    partition: Partition,
    target: FetchTarget,
    *,
    diverging: EpochEnd | None = None,
    preferred_read_replica: int = NO_PREFERRED_REPLICA,
) -> FetchedPartition:
    """A result without records."""
    return FetchedPartition(
        target.key.partition,
        ErrorCode.none,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        diverging=diverging,
        preferred_read_replica=preferred_read_replica,
    )


def _preferred_replica(
    partition: Partition, target: FetchTarget, reader: Reader, context: RequestContext, broker: BrokerPort
) -> int | None:
    """The preferred read replica, if this broker leads."""
    replication = partition.leader_state
    if replication is None:
        return None
    brokers = broker.image.brokers

    def rack_of(broker_id: int) -> str | None:
        registered = brokers.get(broker_id)
        if registered is None or registered.fenced or registered.endpoint(context.listener_name) is None:
            return None
        return registered.rack

    return preferred_read_replica(replication, target.fetch_offset, reader.rack, rack_of)


def _is_throttled(partition: Partition, broker: BrokerPort) -> bool:
    throttled = partition.log.config.leader_replication_throttled_replicas
    return names_replica(throttled, partition.name.partition, broker.node_id)


def _is_throttled_now(partition: Partition, reader: Reader, broker: BrokerPort) -> bool:
    """An in-sync follower is not throttled: it would leave and rejoin the ISR repeatedly."""
    if reader.follower is None or not broker.leader_throttle.is_exceeded(broker.clock.monotonic()):
        return False
    replication = partition.leader_state
    return replication is not None and reader.follower.replica_id not in replication.isr


def _current_leader(code: ErrorCode, partition: Partition, context: RequestContext) -> CurrentLeader | None:
    if context.version < FIRST_WITH_LEADER_HINTS or code not in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
    ):
        return None
    return CurrentLeader(partition.leader_id, partition.leader_epoch)


def _aborted_transactions(partition: Partition, target: FetchTarget, end_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(one.producer_id, one.first_offset)
        for one in partition.log.aborted_transactions(target.fetch_offset, end_offset)
    ]
