"""Fetch, versions 4 to 18: records to consumers and followers, with incremental sessions (KIP-227) and long polls.

Records are found on the event loop, or in a thread if the disk is needed. Few bytes are read at once; more are read
from their files while the response is sent.
A follower reads up to the log end, and its Fetch acknowledges everything before its offset. `fetch_reading.py` decides
what a reader may read of each partition.
Differences from Kafka: none known.
"""

import asyncio
from functools import partial
from typing import Any, Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH, ZERO_UUID
from odradek.base.ports import Pool
from odradek.broker.apis.fetch_authorization import withhold_denied
from odradek.broker.apis.fetch_reading import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FindIn,
    Found,
    Reader,
    UnreadTargets,
    diverging_of,
    find,
    find_cached,
    find_unread,
    read_all,
    reader_of,
)
from odradek.broker.fetch_sessions import FINAL_EPOCH, INVALID_SESSION_ID, FetchContext, FetchTarget, PartitionKey
from odradek.broker.fetch_wait import FetchWait
from odradek.broker.ports import BrokerPort
from odradek.server.context import RequestContext
from odradek.server.throttling import Throttled
from odradek.storage.partition.partition import FollowerFetch, Partition
from odradek.wire.fetch_codec import (
    FIRST_WITH_LEADER_HINTS,
    FIRST_WITH_TOPIC_ID,
    NO_PREFERRED_REPLICA,
    FetchedPartition,
    FetchedTopic,
    LeaderEndpoint,
    write_fetch_response,
    write_one_partition,
)
from odradek.wire.schemas import Message
from odradek.wire.streamed_response import StreamedResponse

# A follower of Apache Kafka names all its partitions at once. They are not handled in slices.
ELEMENTS_MAX: Final = 200_000

LEAST_PAUSE_SECONDS: Final = 0.001
# A client that waits gets a batch of up to this size from memory, before it is read from its file.
FRESH_BYTES_MAX: Final = 64 << 10
# Kafka counts only unexpected errors as failed fetches, not these.
EXPECTED_REFUSALS: Final = frozenset(
    (
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.offset_out_of_range,
    )
)
NEVER: Final = -1
# Kafka counts the length of a response for the quota, too.
RESPONSE_LENGTH_BYTES: Final = 4
NOTHING: Final = Found([], 0, is_urgent=False)


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Any:
    if getattr(request, "isolation_level", READ_UNCOMMITTED) not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _reject(ErrorCode.unknown_server_error, context)
    reader = reader_of(request, context.version, broker)
    if broker.client_quotas.is_enabled:
        reader = _limited(reader, context, broker)
    if reader.follower is not None:
        context.meter.count_as_follower()
    try:
        fetch = _open_session(request, reader, context, broker)
    except KafkaError as error:
        return _reject(error.code, context)
    if context.access.is_restricted:
        withhold_denied(fetch, reader, context.access, broker)
    unread = None if reader.follower is None else _note_progress(fetch, reader.follower, broker)
    found = read_all(fetch, reader, context, broker, find_cached, unread)
    if found.uncached_in is None and (_is_enough(fetch, found, reader) or reader.max_wait_seconds <= 0):
        return _respond(fetch, found, reader, context, broker)
    if not fetch.targets:
        return _respond(fetch, found, reader, context, broker)
    poll = _LongPoll(fetch, reader, context, broker)
    poll.start(found)
    return poll


def _limited(reader: Reader, context: RequestContext, broker: BrokerPort) -> Reader:
    """A consumer that read more could not continue without a delay, however long it had paused before."""
    if reader.follower is not None:
        return reader
    bytes_max = context.usage.fetch_bytes_max(_now_ms(broker))
    if not bytes_max < reader.max_bytes:
        return reader
    return reader._replace(max_bytes=int(bytes_max), min_bytes=min(reader.min_bytes, int(bytes_max)))


def _now_ms(broker: BrokerPort) -> int:
    return int(broker.clock.monotonic() * 1000)


def _reject(code: ErrorCode, context: RequestContext) -> "list[bytes] | StreamedResponse":
    context.meter.count_errors((code,))
    return write_fetch_response([], context.version, error=code)


def _is_enough(fetch: FetchContext, found: Found, reader: Reader) -> bool:
    """Whether to respond without waiting."""
    if found.is_urgent or found.bytes >= reader.min_bytes:
        return True
    # A follower that serves consumers gets a new high watermark immediately: its consumers wait for it.
    return (
        reader.serves_consumers
        and fetch.session is not None
        and any(fetched.high_watermark > target.sent_high_watermark for target, fetched in found.results)
    )


class _LongPoll(DeferredResponse):
    """A Fetch that waits for records. It completes within the append that brings enough bytes."""

    def __init__(self, fetch: FetchContext, reader: Reader, context: RequestContext, broker: BrokerPort) -> None:
        super().__init__()
        self._fetch = fetch
        self._reader = reader
        self._context = context
        self._broker = broker
        self._deadline = broker.clock.monotonic() + reader.max_wait_seconds
        self._wait: FetchWait | None = None
        self._reading: asyncio.Task[None] | None = None
        # The log dirs whose disks this Fetch has waited for.
        self._searched: set[str] = set()
        self._unchanged_revision = NEVER
        # The partition, if the Fetch has a single one, named by topic ID.
        self._only: Partition | None = None

    def start(self, found: Found) -> None:
        """`found` is the result of the first read."""
        self._respond_or_wait(found)

    def on_next_request(self) -> None:
        """A follower wants to fetch another partition, too: it must not wait for these."""
        if self._reader.follower is not None and self._wait is not None:
            self._deadline = self._broker.clock.monotonic()
            self._wait.end()
            self._on_wake()

    def cancel(self) -> None:
        super().cancel()
        if self._wait is not None:
            self._wait.end()
        if self._reading is not None:
            self._reading.cancel()

    def _on_wake(self) -> None:
        try:
            response = self._respond_with_fresh()
            if response is not None:
                self.complete(response)
            elif self._is_unchanged:
                self.complete(_respond(self._fetch, NOTHING, self._reader, self._context, self._broker))
            else:
                self._respond_or_wait(self._find_cached())
        except Exception as error:  # noqa: BLE001 - a reader's error must not fail the append
            self.fail(error)

    @property
    def _is_unchanged(self) -> bool:
        """Whether nothing changed since a follower's previous Fetch, when its wait time ends."""
        wait = self._wait
        return wait is not None and self._unchanged_revision == wait.revision

    def _respond_or_wait(self, found: Found) -> None:
        """Responds, or searches on the disk in a thread, or waits."""
        while True:
            if found.uncached_in is not None:
                self._reading = asyncio.ensure_future(self._find_in_thread(found.uncached_in))
                return
            remaining = self._deadline - self._broker.clock.monotonic()
            if _is_enough(self._fetch, found, self._reader) or remaining <= 0:
                self.complete(_respond(self._fetch, found, self._reader, self._context, self._broker))
                return
            targets = self._fetch.targets
            found_here = (one.caught_up or self._broker.partition(one.topic, one.key.partition) for one in targets)
            partitions = [partition for partition in found_here if partition is not None]
            follows = self._reader.follower is not None
            wait = FetchWait(
                partitions,
                self._reader.min_bytes - found.bytes,
                self._on_wake,
                for_end=follows,
                for_commits=not follows or self._reader.serves_consumers,
            )
            if wait.revision == found.revision:
                is_simple = (
                    len(partitions) == len(targets) == 1
                    and not self._fetch.denied
                    and self._context.version >= FIRST_WITH_TOPIC_ID
                    and not follows
                    and not self._reader.rack
                )
                self._only = partitions[0] if is_simple else None
                # The records are found again later: they must neither stay in memory nor keep files open meanwhile.
                self._wait = wait
                is_unchanged = follows and self._fetch.incremental and not found.results and not found.is_throttled_now
                self._unchanged_revision = found.revision if is_unchanged else NEVER
                wait.begin(min(remaining, self._throttled_seconds()) if found.is_throttled_now else remaining)
                return
            # The partition changed since it was read.
            found = self._find_cached()

    def _throttled_seconds(self) -> float:
        now = self._broker.clock.monotonic()
        return max(LEAST_PAUSE_SECONDS, self._broker.leader_throttle.frees_at(now) - now)

    def _find_cached(self) -> Found:
        return read_all(self._fetch, self._reader, self._context, self._broker, find_cached)

    def _respond_with_fresh(self) -> "list[bytes] | StreamedResponse | None":
        """Responds with the batch whose append woke this Fetch, if it is all that was requested, as in most cases."""
        partition = self._only
        fresh = None if partition is None else partition.fresh
        if partition is None or fresh is None:
            return None
        if self._broker.client_quotas.is_enabled and self._context.usage.limits_fetches(_now_ms(self._broker)):
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
            or not self._reader.min_bytes <= len(fresh.data) <= FRESH_BYTES_MAX
            or not partition.is_leader
        ):
            return None
        log_start_offset = partition.log.log_start_offset
        target.sent_high_watermark = end
        target.sent_log_start_offset = log_start_offset
        partition.traffic.fetches += 1
        partition.traffic.bytes_out += len(fresh.data)
        # A session with one partition needs no rotation. All transactions before the batch are complete, and their
        # markers precede it, so no aborted transaction overlaps it.
        return write_one_partition(
            partition.topic_id.bytes,
            target.key.partition,
            end,
            end,
            log_start_offset,
            bytes(fresh.data),
            session_id=fetch.session_id,
            has_aborted=self._reader.committed_only,
        )

    async def _find_in_thread(self, log_dir: str) -> None:
        """A thread waits for the disk of its own log dir, and of those that have responded before."""
        self._searched.add(log_dir)
        search = partial(
            read_all, self._fetch, self._reader, self._context, self._broker, FindIn(frozenset(self._searched))
        )
        try:
            try:
                found = await self._broker.threads_of(log_dir).run(search, pool=Pool.READ)
            except (KafkaError, OSError) as error:
                # The disk hangs: its partitions return an error, and those of other log dirs their records.
                if isinstance(error, OSError):
                    self._broker.fail_log_dir(log_dir, error)
                found = self._find_cached()
            if not self.is_done:
                self._respond_or_wait(found)
        except Exception as error:  # noqa: BLE001 - the connection reports it
            self.fail(error)


def _note_progress(fetch: FetchContext, follower: FollowerFetch, broker: BrokerPort) -> UnreadTargets:
    """Records what a follower's Fetch acknowledges if its log agrees with the leader's. Reading reports errors."""
    now = broker.clock.monotonic()

    def on_unchanged(partition: Partition) -> None:
        assert partition.leader_state is not None
        partition.leader_state.on_repeated_fetch(follower.replica_id, now)

    unread = find_unread(fetch, follower, broker, on_unchanged)
    for target in unread.targets:
        partition = find(target, broker, by_id=fetch.uses_topic_ids)
        if isinstance(partition, ErrorCode):
            continue
        log = partition.log
        try:
            partition.check_leader(target.leader_epoch)
            if log.log_start_offset <= target.fetch_offset <= log.log_end_offset and not diverging_of(
                partition, target
            ):
                partition.on_follower_fetch(follower, target.fetch_offset, target.log_start_offset)
        except KafkaError:
            # Reading this partition reports the same error.
            continue
        broker.send_isr_proposal(partition)
    return unread


def _open_session(request: Message, reader: Reader, context: RequestContext, broker: BrokerPort) -> FetchContext:
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    # If a partition is named twice, the last one counts.
    wanted = {
        key: FetchTarget(
            key,
            requested.fetch_offset,
            requested.partition_max_bytes,
            # Any negative epoch means none.
            max(NO_EPOCH, getattr(requested, "current_leader_epoch", NO_EPOCH)),
            getattr(requested, "last_fetched_epoch", -1),
            getattr(requested, "log_start_offset", -1),
            topic="" if by_id else topic.topic,
        )
        for topic in request.topics
        for requested in topic.partitions
        for key in (_key(topic, requested.partition, by_id),)
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
        privileged=reader.follower is not None,
    )


def _key(topic: Message, partition: int, by_id: bool) -> PartitionKey:
    if by_id:
        return PartitionKey(topic.topic_id or ZERO_UUID, "", partition)
    return PartitionKey(ZERO_UUID, topic.topic, partition)


def _respond(
    fetch: FetchContext, found: Found, reader: Reader, context: RequestContext, broker: BrokerPort
) -> "list[bytes] | StreamedResponse | Throttled":
    for log_dir, error in found.broken_disks:
        broker.fail_log_dir(log_dir, error)
    if found.throttled_bytes:
        broker.leader_throttle.count(found.throttled_bytes, broker.clock.monotonic())
    returned: list[PartitionKey] = []
    topics: list[FetchedTopic] = []
    follows = reader.follower is not None
    results = found.results
    if fetch.denied:
        results = [*results, *((target, _denied(target)) for target in fetch.denied)]
    for target, fetched in results:
        if fetch.incremental and not _is_changed(target, fetched):
            continue
        if fetched.records:
            returned.append(target.key)
        key = target.key
        last = topics[-1] if topics else None
        if last is None or last.name != key.topic or last.topic_id != key.topic_id:
            last = FetchedTopic(key.topic, key.topic_id, [])
            topics.append(last)
        last.partitions.append(fetched)
    # Brokers know the endpoints of the others.
    leaders = [] if follows else _leader_endpoints(topics, context, broker)
    response = write_fetch_response(topics, context.version, session_id=fetch.session_id, leaders=leaders)
    if broker.client_quotas.is_enabled and not follows:
        delay_ms = _delay_ms(response, context, broker)
        if delay_ms:
            return _throttle(delay_ms, fetch, context, broker)
    for target, fetched in results:
        _count(target, fetched, follows, context, broker)
        if fetched.diverging is None:
            # A reader whose log diverges ignores the offsets: it needs them again once it has truncated its log.
            target.sent_high_watermark = fetched.high_watermark
            target.sent_log_start_offset = fetched.log_start_offset
    if fetch.session is not None:
        fetch.session.rotate(returned)
    return response


def _is_changed(target: FetchTarget, fetched: FetchedPartition) -> bool:
    """Whether an incremental response includes the partition."""
    return (
        bool(fetched.records)
        or fetched.error is not ErrorCode.none
        or fetched.diverging is not None
        or fetched.preferred_read_replica != NO_PREFERRED_REPLICA
        or fetched.high_watermark != target.sent_high_watermark
        or fetched.log_start_offset != target.sent_log_start_offset
    )


def _delay_ms(response: "list[bytes] | StreamedResponse", context: RequestContext, broker: BrokerPort) -> int:
    """How long the consumer has to pause for its quotas, and before it gets these records."""
    now_ms = _now_ms(broker)
    usage = context.usage
    body_bytes = response.size if response.__class__ is StreamedResponse else sum(map(len, response))  # type: ignore[arg-type]
    size = RESPONSE_LENGTH_BYTES + body_bytes
    fetched_ms = usage.record_fetched(size, now_ms)
    request_ms = usage.record_request(0.0, now_ms)
    delay_ms = max(fetched_ms, request_ms)
    if delay_ms:
        usage.note_delay(now_ms, fetched_ms=fetched_ms, request_ms=request_ms)
        usage.remove_fetched(size, now_ms)
    return delay_ms


def _throttle(delay_ms: int, fetch: FetchContext, context: RequestContext, broker: BrokerPort) -> Throttled:
    """No records now. A new session begins only with a full response."""
    session_id = fetch.session_id if fetch.incremental else INVALID_SESSION_ID
    if not fetch.incremental and fetch.session is not None:
        broker.fetch_sessions.remove(fetch.session)
    return Throttled(write_fetch_response([], context.version, session_id=session_id, throttle_ms=delay_ms), delay_ms)


def _denied(target: FetchTarget) -> FetchedPartition:
    return FetchedPartition(target.key.partition, ErrorCode.topic_authorization_failed, aborted=())


def _count(
    target: FetchTarget, fetched: FetchedPartition, follows: bool, context: RequestContext, broker: BrokerPort
) -> None:
    if fetched.error is not ErrorCode.none:
        context.meter.count_errors((fetched.error,))
        if fetched.error is ErrorCode.topic_authorization_failed:
            return
    partition = target.caught_up or broker.partition(target.topic, target.key.partition)
    if partition is None:
        return
    traffic = partition.traffic
    traffic.fetches += 1
    if follows:
        traffic.replication_bytes_out += len(fetched.records)
    else:
        traffic.bytes_out += len(fetched.records)
    if fetched.error is not ErrorCode.none and fetched.error not in EXPECTED_REFUSALS:
        traffic.failed_fetches += 1


def _leader_endpoints(topics: list[FetchedTopic], context: RequestContext, broker: BrokerPort) -> list[LeaderEndpoint]:
    """The endpoints of the leaders that the response names."""
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
