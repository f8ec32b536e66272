"""Produce, advertised from version 0 as Kafka does, served in 3 to 13: records into partitions.

Batches stay where the frame put them: headers are checked, offsets patched in place, the bytes written from there.
What Kafka checks in every single record and this does not is listed in `docs/differences.md`.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.handlers.broker.hosted_partition import why_missing
from odradek.handlers.broker.transaction_parts import Joiner
from odradek.handlers.context import CLOSE_CONNECTION, BrokerPort, RequestContext
from odradek.handlers.late_answer import LateAnswer
from odradek.instruments.traffic import Traffic
from odradek.log.partition_log import Appended
from odradek.log.verification import Verification
from odradek.partition.partition import Partition
from odradek.protocol.produce_codec import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    RecordError,
    TopicRecords,
    TopicResult,
    read_produce_request,
    write_produce_response,
)
from odradek.records.batch import (
    ATTRIBUTE_COMPRESSION_MASK,
    ATTRIBUTE_TRANSACTIONAL,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    parse_batches,
)
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, DecompressionTooLarge
from odradek.records.validate import InvalidRecords, Validated, must_walk, validate
from odradek.records.walk import thread_walk

NO_ACKS: Final = 0
SUCCESS: Final = ErrorCode.none
ALL_ACKS: Final = -1
VALID_ACKS: Final = frozenset((-1, 0, 1))
FIRST_WITH_ZSTD: Final = 7
FIRST_WITH_ABORTABLE: Final = 11
# From here on a partition becomes a part of the transaction by what is written to it.
FIRST_THAT_ADDS: Final = 12
COORDINATOR_AWAY: Final = frozenset(
    (
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )
)
ZSTD: Final = 4
INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
# Kafka lets its own admin tools write internal topics, recognised by this client id.
ADMIN_CLIENT_ID: Final = "__admin_client"
# Walking the records of a batch larger than this would hold up the loop: a thread does it.
WALK_ON_LOOP_BYTES_MAX: Final = 16_384
# What a batch may decompress to while others are being looked at.
OPENED_BYTES_MAX: Final = 4 << 20
LARGE_BATCHES_LANE: Final = "large batches"
# Partitions of one request that are written before others have their turn.
IN_ONE_GO_MAX: Final = 250

# Refusals after the log had a look at the batch: the response then says where the log starts.
REFUSED_BY_THE_LOG: Final = frozenset(
    (
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_timestamp,
        ErrorCode.unknown_server_error,
    )
)

TOO_LARGE: Final = frozenset((ErrorCode.message_too_large, ErrorCode.record_list_too_large))
# Kafka's count of failed produce requests is of those for which it blames itself; these it does not.
EXPECTED_REFUSALS: Final = frozenset(
    (
        *TOO_LARGE,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
    )
)

read_request = read_produce_request


class UnreadableBatch(CorruptBatch):
    """Not even a header: found before any partition was asked."""


class _Unacknowledged(NamedTuple):
    """Appended. What acknowledges it may have to wait for the disk, and for the replicas in sync."""

    partition: Partition
    leader_epoch: int
    appended: Appended
    batch: BatchHeader

    @property
    def end_offset(self) -> int:
        return self.appended.last_offset + 1

    def result(self, code: ErrorCode) -> PartitionResult:
        if code is not ErrorCode.none:
            return PartitionResult(self.partition.name.partition, code)
        return _appended(self.partition, self.appended, self.batch)


# A partition's outcome, or what it waits for, or the work that leads to it.
_Outcome = PartitionResult | _Unacknowledged | Awaitable[PartitionResult]
_TopicOutcomes = tuple[str | None, UUID | None, list[_Outcome]]


def handle(request: ProduceRequest, context: RequestContext, broker: BrokerPort) -> Any:
    topics = request.topics
    joiner = None if request.transactional_id is None else _joiner(request.transactional_id, context, broker)
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return _handle_one(topics[0], request, context, broker, joiner)
    if sum(len(topic.partitions) for topic in request.topics) > IN_ONE_GO_MAX:
        return _handle_in_slices(request, context, broker, joiner)
    return _conclude(
        [
            (topic.name, topic.topic_id, _produce_topic(topic, topic.partitions, request, context, broker, joiner))
            for topic in request.topics
        ],
        request,
        context,
    )


def _joiner(transactional_id: str, context: RequestContext, broker: BrokerPort) -> Joiner:
    return Joiner(
        broker,
        transactional_id,
        adds=context.version >= FIRST_THAT_ADDS,
        knows_abortable=context.version >= FIRST_WITH_ABORTABLE,
    )


def _handle_one(
    topic: TopicRecords, request: ProduceRequest, context: RequestContext, broker: BrokerPort, joiner: Joiner | None
) -> Any:
    """One partition, which is what a busy producer sends most."""
    if topic.topic_id is None:
        ((index, records),) = topic.partitions
        outcome = _produce(topic.name or "", None, index, records, request, context, broker, joiner)
    else:
        (outcome,) = _produce_topic(topic, topic.partitions, request, context, broker, joiner)
    if isinstance(outcome, PartitionResult):
        topics = [TopicResult(topic.name, topic.topic_id, [outcome])]
        if outcome.error is SUCCESS and request.acks != NO_ACKS:
            return write_produce_response(topics, context.version)
        return _respond(topics, request.acks, context)
    return _conclude([(topic.name, topic.topic_id, [outcome])], request, context)


async def _handle_in_slices(
    request: ProduceRequest, context: RequestContext, broker: BrokerPort, joiner: Joiner | None
) -> Any:
    """Thousands of partitions: other connections have their turn between them."""
    outcomes: list[_TopicOutcomes] = []
    since_turn = 0
    for topic in request.topics:
        row: list[_Outcome] = []
        for start in range(0, len(topic.partitions), IN_ONE_GO_MAX):
            part = topic.partitions[start : start + IN_ONE_GO_MAX]
            row += _produce_topic(topic, part, request, context, broker, joiner)
            since_turn += len(part)
            if since_turn >= IN_ONE_GO_MAX:
                since_turn = 0
                await asyncio.sleep(0)
        outcomes.append((topic.name, topic.topic_id, row))
    return await _finish(outcomes, request, context)


def _produce_topic(
    topic: TopicRecords,
    partitions: Sequence[PartitionRecords],
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
    joiner: Joiner | None,
) -> list[_Outcome]:
    name = topic.name
    if topic.topic_id is not None:
        known = broker.image.topics_by_id.get(topic.topic_id)
        if known is None:
            code = ErrorCode.unknown_topic_id
            return [_not_here(topic.topic_id, index, records, code, context, broker) for index, records in partitions]
        name = known.name
    return [
        _produce(name or "", topic.topic_id, index, records, request, context, broker, joiner)
        for index, records in partitions
    ]


def _conclude(outcomes: list[_TopicOutcomes], request: ProduceRequest, context: RequestContext) -> Any:
    kinds = {one.__class__ for _, _, row in outcomes for one in row}
    if kinds <= {PartitionResult}:
        return _respond([TopicResult(*outcome) for outcome in outcomes], request.acks, context)  # type: ignore[arg-type]
    if kinds <= {PartitionResult, _Unacknowledged}:
        return _WhenCommitted(outcomes, request, context)
    return _finish(outcomes, request, context)


class _WhenCommitted(LateAnswer):
    """Everything is appended. The producer hears of it from within the fetch by which the last follower takes it."""

    lets_next_pass = True

    def __init__(self, outcomes: list[_TopicOutcomes], request: ProduceRequest, context: RequestContext) -> None:
        """The request is not kept: its records would be, too."""
        super().__init__()
        self._outcomes: Final = outcomes
        self._acks: Final = request.acks
        self._timeout_seconds: Final = _timeout_seconds(request)
        self._context: Final = context
        self._missing = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        # One more than there are, so that nobody who is told at once ends it before the last is asked.
        self._missing = 1
        for _, _, row in self._outcomes:
            for place, outcome in enumerate(row):
                if isinstance(outcome, _Unacknowledged):
                    self._missing += 1
                    told = partial(self._replicated, row, place, outcome)
                    outcome.partition.when_committed(outcome.end_offset, outcome.leader_epoch, told)
        self._missing -= 1
        if self._missing:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_seconds, self._time_out)
        else:
            self._give_all()

    def abandon(self) -> None:
        super().abandon()
        self._stop_timer()

    def _replicated(self, row: list[_Outcome], place: int, outcome: _Unacknowledged, code: ErrorCode) -> None:
        if self.is_over:
            return
        row[place] = outcome.result(code)
        self._missing -= 1
        if not self._missing:
            self._give_all()

    def _time_out(self) -> None:
        for _, _, row in self._outcomes:
            for place, outcome in enumerate(row):
                if isinstance(outcome, _Unacknowledged):
                    row[place] = outcome.result(ErrorCode.request_timed_out)
        self._give_all()

    def _give_all(self) -> None:
        self._stop_timer()
        topics = [TopicResult(*outcome) for outcome in self._outcomes]  # type: ignore[arg-type]
        self.give(_respond(topics, self._acks, self._context))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _finish(outcomes: list[_TopicOutcomes], request: ProduceRequest, context: RequestContext) -> Any:
    """Waits for all at once: what one partition waits for, another may get meanwhile."""
    waiting = [_result(one, request) for _, _, row in outcomes for one in row if not isinstance(one, PartitionResult)]
    results = iter(await asyncio.gather(*waiting))
    topics = [
        TopicResult(name, topic_id, [one if isinstance(one, PartitionResult) else next(results) for one in row])
        for name, topic_id, row in outcomes
    ]
    return _respond(topics, request.acks, context)


async def _result(outcome: _Unacknowledged | Awaitable[PartitionResult], request: ProduceRequest) -> PartitionResult:
    if not isinstance(outcome, _Unacknowledged):
        return await outcome
    try:
        async with asyncio.timeout(_timeout_seconds(request)):
            code = await outcome.partition.committed(outcome.end_offset, outcome.leader_epoch)
    except TimeoutError:
        code = ErrorCode.request_timed_out
    return outcome.result(code)


def _respond(topics: list[TopicResult], acks: int, context: RequestContext) -> Any:
    errors: list[ErrorCode] | None = None
    for topic in topics:
        for result in topic.partitions:
            if result.error is not ErrorCode.none:
                errors = errors or []
                errors.append(result.error)
    if errors is not None:
        context.meter.failed(errors)
    if acks != NO_ACKS:
        return write_produce_response(topics, context.version)
    if errors is not None:
        # Nobody reads a response: closing the connection is how the producer learns that it must look again.
        return CLOSE_CONNECTION
    return None


def _timeout_seconds(request: ProduceRequest) -> float:
    return max(0, request.timeout_ms) / 1000


def _produce(
    topic: str,
    topic_id: UUID | None,
    index: int,
    records: memoryview | None,
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
    joiner: Joiner | None,
) -> _Outcome:
    try:
        partition = _find(topic, topic_id, index, broker)
    except KafkaError as error:
        return _not_here(topic_id or topic, index, records, error.code, context, broker)
    try:
        data, batches = _single_batch(records, context.version)
    except KafkaError as error:
        return _refused(topic, index, error, broker)
    try:
        if request.acks not in VALID_ACKS:
            raise KafkaError(ErrorCode.invalid_required_acks)
        if topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {topic}")
        partition.check_leader()
        replication = partition.replication
        if replication is not None and request.acks == ALL_ACKS and replication.under_min_isr:
            raise KafkaError(ErrorCode.not_enough_replicas)
        batch = batches[0]
        if batch.attributes & ATTRIBUTE_TRANSACTIONAL:
            if joiner is None:
                raise KafkaError(ErrorCode.transactional_id_authorization_failed)
            if batch.producer_id >= 0:
                try:
                    asked = joiner.begin(partition, batch.producer_id, batch.producer_epoch, batch.base_sequence)
                except KafkaError as error:
                    return _not_joined(partition, batch, error.code, context.version)
                if asked is not None:
                    return _append_when_joined(partition, data, batches, asked, joiner, request, context, broker)
        return _write(partition, data, batches, request, broker)
    except (KafkaError, OSError) as error:
        return _refused_batch(partition, batches[0], error, broker)


def _write(
    partition: Partition,
    data: memoryview,
    batches: list[BatchHeader],
    request: ProduceRequest,
    broker: BrokerPort,
    asked: Verification | None = None,
) -> _Outcome:
    """`asked` is for the first batch of a transaction. Raises KafkaError and OSError."""
    config = partition.log.config
    now_ms = broker.clock.wall_ms()
    partition.check_gap(batches[0], now_ms)
    # A compressed batch may hold any amount, however small it looks.
    large = len(data) > WALK_ON_LOOP_BYTES_MAX or batches[0].attributes & ATTRIBUTE_COMPRESSION_MASK
    if large and must_walk(batches[0], config, now_ms):
        return _append_after_walk(partition, data, batches, request, broker, asked)
    valid = validate(data, batches, config, now_ms=now_ms, partition=partition.name)
    if not partition.may_append_now:
        return _append_in_turn(partition, valid, request, broker, asked)
    appended = partition.append(valid.data, valid.batches, now_ms, verification=asked)
    needs_sync = partition.needs_sync()
    if needs_sync or (partition.replication is not None and request.acks == ALL_ACKS):
        written = _Unacknowledged(partition, partition.leader_epoch, appended, valid.batches[0])
        return _when_safe(written, request, broker) if needs_sync else written
    return _appended(partition, appended, valid.batches[0])


async def _append_when_joined(
    partition: Partition,
    data: memoryview,
    batches: list[BatchHeader],
    asked: Verification,
    joiner: Joiner,
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
) -> PartitionResult:
    """The first batch of a transaction in this partition: its coordinator has to know of it."""
    error = await joiner.error_of(partition.name)
    if error is not ErrorCode.none:
        return _not_joined(partition, batches[0], error, context.version)
    try:
        partition.check_leader()
        outcome = _write(partition, data, batches, request, broker, asked)
    except (KafkaError, OSError) as refusal:
        return _refused_batch(partition, batches[0], refusal, broker)
    return outcome if isinstance(outcome, PartitionResult) else await _result(outcome, request)


def _not_joined(partition: Partition, batch: BatchHeader, error: ErrorCode, version: int) -> PartitionResult:
    """In words that producers of the version know."""
    message = None
    if error in COORDINATOR_AWAY or (error is ErrorCode.concurrent_transactions and version < FIRST_THAT_ADDS):
        message = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name.upper()}"
        )
        error = ErrorCode.not_enough_replicas
    elif error is ErrorCode.invalid_txn_state:
        message = "Partition was not added to the transaction"
    return PartitionResult(partition.name.partition, partition.refuse(batch, error), message=message)


def _find(topic: str, topic_id: UUID | None, index: int, broker: BrokerPort) -> Partition:
    partition = broker.partition(topic, index)
    if partition is None:
        raise KafkaError(why_missing(topic, index, broker))
    if topic_id is not None and partition.topic_id != topic_id and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.unknown_topic_id)
    return partition


def _not_here(
    topic: UUID | str,
    index: int,
    records: memoryview | None,
    code: ErrorCode,
    context: RequestContext,
    broker: BrokerPort,
) -> PartitionResult:
    """What builds on it is to be refused too, even if the partition is here by then."""
    with suppress(KafkaError):
        _, batches = _single_batch(records, context.version)
        broker.refused_beforehand.note(topic, index, batches[0], code, broker.clock.wall_ms())
    return PartitionResult(index, code)


def _single_batch(records: memoryview | None, version: int) -> tuple[memoryview, list[BatchHeader]]:
    """Since version 3 a producer sends exactly one batch of magic 2 per partition."""
    try:
        # Whatever follows the last whole batch is cut off, as Kafka does.
        batches = parse_batches(records, allow_partial_tail=True) if records else []
    except UnsupportedMagic as error:
        raise KafkaError(ErrorCode.invalid_record) from error
    except CorruptBatch as error:
        raise UnreadableBatch(error.message or "") from error
    if records is None or len(batches) != 1:
        raise KafkaError(ErrorCode.invalid_record)
    if version < FIRST_WITH_ZSTD and batches[0].compression == ZSTD:
        raise KafkaError(ErrorCode.unsupported_compression_type)
    size = batches[0].size
    return records if size == len(records) else records[:size], batches


async def _append_after_walk(
    partition: Partition,
    data: memoryview,
    batches: list[BatchHeader],
    request: ProduceRequest,
    broker: BrokerPort,
    asked: Verification | None,
) -> PartitionResult:
    config = partition.log.config
    now_ms = broker.clock.wall_ms()

    def walk(opened_bytes_max: int) -> Validated:
        return validate(
            data,
            batches,
            config,
            now_ms=now_ms,
            partition=partition.name,
            walk=thread_walk(batches[0].record_count),
            opened_bytes_max=opened_bytes_max,
        )

    try:
        try:
            valid = await broker.executor.run(lambda: walk(OPENED_BYTES_MAX))
        except DecompressionTooLarge:
            # One at a time, so that the memory of one is all that clients can make the broker take.
            valid = await broker.executor.run(lambda: walk(MAX_DECOMPRESSED_BYTES), lane=LARGE_BATCHES_LANE)
        partition.check_leader()
    except (KafkaError, OSError) as error:
        return _refused_batch(partition, batches[0], error, broker)
    return await _append_in_turn(partition, valid, request, broker, asked)


async def _append_in_turn(
    partition: Partition,
    valid: Validated,
    request: ProduceRequest,
    broker: BrokerPort,
    asked: Verification | None,
) -> PartitionResult:
    leader_epoch = partition.leader_epoch
    try:
        if partition.may_append_now:
            appended = partition.append(valid.data, valid.batches, broker.clock.wall_ms(), verification=asked)
        else:
            appended = await partition.append_in_turn(valid.data, valid.batches, verification=asked)
    except (KafkaError, OSError) as error:
        return _refused_batch(partition, valid.batches[0], error, broker)
    written = _Unacknowledged(partition, leader_epoch, appended, valid.batches[0])
    return await _when_safe(written, request, broker)


async def _when_safe(written: _Unacknowledged, request: ProduceRequest, broker: BrokerPort) -> PartitionResult:
    """Once it is on the disk, where the topic asks for that, and on all replicas in sync, where the producer does."""
    partition = written.partition
    try:
        if partition.needs_sync():
            await partition.durable(written.end_offset)
    except (KafkaError, OSError) as error:
        return _refused(partition.name.topic, partition.name.partition, error, broker)
    return written.result(ErrorCode.none) if request.acks != ALL_ACKS else await _result(written, request)


def _appended(partition: Partition, appended: Appended, batch: BatchHeader) -> PartitionResult:
    append_time_ms = NO_TIMESTAMP
    if appended.duplicate:
        append_time_ms = appended.timestamp
    elif partition.log.config.log_append_time:
        append_time_ms = batch.max_timestamp
    return PartitionResult(
        partition.name.partition,
        ErrorCode.none,
        appended.first_offset,
        append_time_ms,
        partition.log.log_start_offset,
    )


def _refused_batch(
    partition: Partition, batch: BatchHeader, error: KafkaError | OSError, broker: BrokerPort
) -> PartitionResult:
    topic, index = partition.name
    _count_refusal(partition.traffic, batch, error)
    if isinstance(error, KafkaError):
        code = partition.refuse(batch, error.code)
        if code is not error.code:
            return PartitionResult(index, code)
    return _refused(topic, index, error, broker)


def _count_refusal(traffic: Traffic, batch: BatchHeader, error: KafkaError | OSError) -> None:
    traffic.refused_appends += 1
    if isinstance(error, KafkaError):
        if error.code in TOO_LARGE:
            traffic.bytes_rejected += batch.size
        elif error.code not in EXPECTED_REFUSALS:
            traffic.failed_appends += 1


def _refused(topic: str, index: int, error: KafkaError | OSError, broker: BrokerPort) -> PartitionResult:
    partition = broker.partition(topic, index)
    if isinstance(error, OSError):
        if partition is not None:
            broker.fail_log_dir(partition.log_dir, error)
        return PartitionResult(index, ErrorCode.kafka_storage_error)
    details = [RecordError(*one) for one in error.records] if isinstance(error, InvalidRecords) else []
    # As Kafka: words only about single records, or a batch that is none; the log's start where the log refused.
    told = bool(details) or isinstance(error, UnreadableBatch)
    by_the_log = isinstance(error, InvalidRecords) or error.code in REFUSED_BY_THE_LOG
    return PartitionResult(
        index,
        error.code,
        log_start_offset=partition.log.log_start_offset if by_the_log and partition is not None else -1,
        record_errors=details,
        message=error.message if told else None,
    )
