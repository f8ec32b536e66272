"""Produce, advertised from version 0 like Kafka, served in versions 3 to 13: appends records to partitions.

Batches stay in the request's buffer: headers are checked, offsets are patched in place, and the bytes are written from
there. `docs/differences.md` lists the checks of single records that Kafka makes and Odradek does only with
record.validation=full.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.base.ports import Pool
from odradek.base.slices import run_at_once
from odradek.broker.apis.hosted_partition import why_missing
from odradek.broker.apis.produce_authorization import WritePermissions, find_transactional_batch, why_denied
from odradek.broker.apis.produce_responses import (
    ALL_ACKS,
    NO_ACKS,
    CommitWait,
    Outcome,
    TopicOutcomes,
    Unacknowledged,
    conclude,
    finish_in_slices,
    respond,
    result_of,
    wait_for_ack,
)
from odradek.broker.apis.produce_results import (
    FIRST_THAT_ADDS,
    UnreadableBatch,
    appended_result,
    rejected_batch,
    rejected_result,
    unverified_batch,
)
from odradek.broker.apis.transaction_verification import TransactionVerifier
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import INTERNAL_TOPICS
from odradek.records.batch import (
    ATTRIBUTE_COMPRESSION_MASK,
    ATTRIBUTE_TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    parse_batches,
)
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, DecompressionTooLarge
from odradek.records.validate import Validated, must_walk, validate
from odradek.records.walk import thread_walk
from odradek.server.context import RequestContext
from odradek.storage.log.verification import Verification
from odradek.storage.partition.partition import Partition
from odradek.wire.produce_codec import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    TopicRecords,
    TopicResult,
    read_produce_request,
    write_produce_response,
)

SUCCESS: Final = ErrorCode.none
VALID_ACKS: Final = frozenset((-1, 0, 1))
FIRST_WITH_ZSTD: Final = 7
FIRST_WITH_ABORTABLE: Final = 11
ZSTD: Final = 4
# Kafka allows its admin tools, identified by this client ID, to produce to internal topics.
ADMIN_CLIENT_ID: Final = "__admin_client"
# The value of record.validation with which every record is read.
FULL: Final = "full"
# Larger batches are validated in a thread, because walking their records would block the event loop.
WALK_ON_LOOP_BYTES_MAX: Final = 16_384
# The decompressed size that concurrent validations may use.
OPENED_BYTES_MAX: Final = 4 << 20
LARGE_BATCHES_LANE: Final = "large batches"
# Partitions of one request that are appended before other connections are served.
IN_ONE_GO_MAX: Final = 250

read_request = read_produce_request


def handle(request: ProduceRequest, context: RequestContext, broker: BrokerPort) -> Any:
    topics = request.topics
    verifier = None if request.transactional_id is None else _new_verifier(request.transactional_id, context, broker)
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return _handle_one(topics[0], request, context, broker, verifier)
    is_large = sum(len(topic.partitions) for topic in topics) > IN_ONE_GO_MAX
    permissions: WritePermissions | None = None
    if context.access.is_restricted:
        if is_large:
            return _handle_many_restricted(request, context, broker, verifier)
        has_batch = run_at_once(find_transactional_batch(request))
        permissions = WritePermissions(context.access, request, has_transactional_batch=has_batch)
    if is_large:
        return _handle_in_slices(request, context, broker, verifier, permissions)
    return conclude(
        [
            (
                topic.name,
                topic.topic_id,
                _produce_topic(topic, topic.partitions, request, context, broker, verifier, permissions),
            )
            for topic in request.topics
        ],
        request,
        context,
    )


def _new_verifier(transactional_id: str, context: RequestContext, broker: BrokerPort) -> TransactionVerifier:
    return TransactionVerifier(
        broker,
        transactional_id,
        adds=context.version >= FIRST_THAT_ADDS,
        knows_abortable=context.version >= FIRST_WITH_ABORTABLE,
    )


def _handle_one(
    topic: TopicRecords,
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
    verifier: TransactionVerifier | None,
) -> Any:
    """A request with one partition, the most frequent kind under load."""
    ((index, records),) = topic.partitions
    topic_id = topic.topic_id
    name = topic.name or "" if topic_id is None else _name_of(topic_id, broker)
    access = context.access
    denied = why_denied(access, request, name, records) if access.is_restricted else None
    outcome: Outcome
    if denied is not None:
        outcome = PartitionResult(index, denied)
    elif name is None:
        assert topic_id is not None
        outcome = _reject_unknown_partition(topic_id, index, records, ErrorCode.unknown_topic_id, context, broker)
    else:
        outcome = _produce(name, topic_id, index, records, request, context, broker, verifier)
    if isinstance(outcome, PartitionResult):
        topics = [TopicResult(topic.name, topic_id, [outcome])]
        if outcome.error is SUCCESS and request.acks != NO_ACKS:
            return write_produce_response(topics, context.version)
        return respond(topics, request.acks, context)
    return conclude([(topic.name, topic_id, [outcome])], request, context)


def _name_of(topic_id: UUID, broker: BrokerPort) -> str | None:
    known = broker.image.topics_by_id.get(topic_id)
    return None if known is None else known.name


async def _handle_many_restricted(
    request: ProduceRequest, context: RequestContext, broker: BrokerPort, verifier: TransactionVerifier | None
) -> Any:
    has_batch = await broker.slice_turns.run(find_transactional_batch(request))
    permissions = WritePermissions(context.access, request, has_transactional_batch=has_batch)
    return await _handle_in_slices(request, context, broker, verifier, permissions)


async def _handle_in_slices(
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
    verifier: TransactionVerifier | None,
    permissions: WritePermissions | None,
) -> Any:
    """Thousands of partitions: serves other connections in between."""
    outcomes: list[TopicOutcomes] = []
    committed = CommitWait(outcomes, request)
    since_turn = 0
    for topic in request.topics:
        row: list[Outcome] = []
        for start in range(0, len(topic.partitions), IN_ONE_GO_MAX):
            part = topic.partitions[start : start + IN_ONE_GO_MAX]
            row += _produce_topic(topic, part, request, context, broker, verifier, permissions)
            committed.add(row, start)
            since_turn += len(part)
            if since_turn >= IN_ONE_GO_MAX:
                since_turn = 0
                await asyncio.sleep(0)
        outcomes.append((topic.name, topic.topic_id, row))
    return await finish_in_slices(outcomes, committed, request, context, broker)


def _produce_topic(
    topic: TopicRecords,
    partitions: Sequence[PartitionRecords],
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
    verifier: TransactionVerifier | None,
    permissions: WritePermissions | None,
) -> list[Outcome]:
    if permissions is not None and permissions.is_transaction_denied:
        return _reject_all(partitions, ErrorCode.transactional_id_authorization_failed)
    name = topic.name
    if topic.topic_id is not None:
        name = _name_of(topic.topic_id, broker)
        if name is None:
            code = ErrorCode.unknown_topic_id
            return [
                _reject_unknown_partition(topic.topic_id, index, records, code, context, broker)
                for index, records in partitions
            ]
    if permissions is not None:
        denied = permissions.why_denied(name or "")
        if denied is not None:
            return _reject_all(partitions, denied)
    return [
        _produce(name or "", topic.topic_id, index, records, request, context, broker, verifier)
        for index, records in partitions
    ]


def _reject_all(partitions: Sequence[PartitionRecords], code: ErrorCode) -> list[Outcome]:
    return [PartitionResult(index, code) for index, _ in partitions]


def _produce(
    topic: str,
    topic_id: UUID | None,
    index: int,
    records: memoryview | None,
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
    verifier: TransactionVerifier | None,
) -> Outcome:
    try:
        partition = _find(topic, topic_id, index, broker)
    except KafkaError as error:
        return _reject_unknown_partition(topic_id or topic, index, records, error.code, context, broker)
    try:
        data, batches = _single_batch(records, context.version)
    except KafkaError as error:
        return rejected_result(topic, index, error, broker)
    try:
        if request.acks not in VALID_ACKS:
            raise KafkaError(ErrorCode.invalid_required_acks)
        if topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {topic}")
        partition.check_leader()
        replication = partition.leader_state
        if replication is not None and request.acks == ALL_ACKS and replication.under_min_isr:
            raise KafkaError(ErrorCode.not_enough_replicas)
        batch = batches[0]
        if batch.attributes & ATTRIBUTE_TRANSACTIONAL:
            if verifier is None:
                raise KafkaError(ErrorCode.transactional_id_authorization_failed)
            if batch.producer_id >= 0:
                try:
                    verification = verifier.begin(
                        partition, batch.producer_id, batch.producer_epoch, batch.base_sequence
                    )
                except KafkaError as error:
                    return unverified_batch(partition, batch, error.code, context.version)
                if verification is not None:
                    is_only_one = len(request.topics) == 1 and len(request.topics[0].partitions) == 1
                    code = verifier.error_now(partition.name) if is_only_one else None
                    if code is None:
                        return _append_when_verified(
                            partition, data, batches, verification, verifier, request, context, broker
                        )
                    if code is not ErrorCode.none:
                        return unverified_batch(partition, batch, code, context.version)
                    return _write(partition, data, batches, request, broker, verification)
        return _write(partition, data, batches, request, broker)
    except (KafkaError, OSError) as error:
        return rejected_batch(partition, batches[0], error, broker)


def _write(
    partition: Partition,
    data: memoryview,
    batches: list[BatchHeader],
    request: ProduceRequest,
    broker: BrokerPort,
    verification: Verification | None = None,
) -> Outcome:
    """`verification` is for the first batch of a transaction. Raises KafkaError and OSError."""
    config = partition.log.config
    is_full = broker.config.record_validation == FULL
    now_ms = broker.clock.wall_ms()
    partition.check_gap(batches[0], now_ms)
    # A small compressed batch may contain any amount of records.
    large = len(data) > WALK_ON_LOOP_BYTES_MAX or batches[0].attributes & ATTRIBUTE_COMPRESSION_MASK
    if large and must_walk(batches[0], config, now_ms, is_full=is_full):
        return _append_after_walk(partition, data, batches, request, broker, verification, is_full=is_full)
    walk = broker.record_walks.on_loop(batches[0].record_count) if is_full or config.compact else None
    valid = validate(data, batches, config, now_ms=now_ms, partition=partition.name, walk=walk, is_full=is_full)
    if not partition.can_append_now(valid.data, valid.batches, now_ms):
        return _append_exclusively(partition, valid, request, broker, verification)
    # Read before the append: it wakes readers, and if a read then finds a disk failure, the leader state is gone.
    leader_epoch, is_replicated = partition.leader_epoch, partition.leader_state is not None
    appended = partition.append(valid.data, valid.batches, now_ms, verification=verification, has_room=True)
    needs_sync = partition.needs_sync()
    if needs_sync or (is_replicated and request.acks == ALL_ACKS):
        written = Unacknowledged(partition, leader_epoch, appended, valid.batches[0])
        return wait_for_ack(written, request, broker) if needs_sync else written
    return appended_result(partition, appended, valid.batches[0])


async def _append_when_verified(
    partition: Partition,
    data: memoryview,
    batches: list[BatchHeader],
    verification: Verification,
    verifier: TransactionVerifier,
    request: ProduceRequest,
    context: RequestContext,
    broker: BrokerPort,
) -> PartitionResult:
    """Appends the first batch of a transaction in this partition once its coordinator has confirmed it."""
    code = await verifier.error_of(partition.name)
    if code is not ErrorCode.none:
        return unverified_batch(partition, batches[0], code, context.version)
    try:
        partition.check_leader()
        outcome = _write(partition, data, batches, request, broker, verification)
    except (KafkaError, OSError) as error:
        return rejected_batch(partition, batches[0], error, broker)
    return outcome if isinstance(outcome, PartitionResult) else await result_of(outcome, request)


def _find(topic: str, topic_id: UUID | None, index: int, broker: BrokerPort) -> Partition:
    partition = broker.partition(topic, index)
    if partition is None:
        raise KafkaError(why_missing(topic, index, broker))
    if topic_id is not None and partition.topic_id != topic_id and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.unknown_topic_id)
    return partition


def _reject_unknown_partition(
    topic: UUID | str,
    index: int,
    records: memoryview | None,
    code: ErrorCode,
    context: RequestContext,
    broker: BrokerPort,
) -> PartitionResult:
    """Remembers the batch: batches that depend on it are rejected too, even if the partition exists by then."""
    with suppress(KafkaError):
        _, batches = _single_batch(records, context.version)
        broker.rejected_before_creation.note(topic, index, batches[0], code, broker.clock.wall_ms())
    return PartitionResult(index, code)


def _single_batch(records: memoryview | None, version: int) -> tuple[memoryview, list[BatchHeader]]:
    """Since version 3 a producer sends exactly one batch of magic 2 per partition."""
    try:
        # Bytes after the last whole batch are ignored, like in Kafka.
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
    verification: Verification | None,
    *,
    is_full: bool,
) -> PartitionResult:
    config = partition.log.config
    now_ms = broker.clock.wall_ms()

    def walk(opened_bytes_max: int) -> Validated:
        try:
            return validate(
                data,
                batches,
                config,
                now_ms=now_ms,
                partition=partition.name,
                walk=thread_walk(batches[0].record_count),
                opened_bytes_max=opened_bytes_max,
                is_full=is_full,
            )
        except KafkaError as error:
            # Its traceback would keep the decompressed records, while the thread already opens the next batch.
            error.__context__ = None
            raise error.with_traceback(None) from None

    try:
        try:
            valid = await broker.executor.run(lambda: walk(OPENED_BYTES_MAX), pool=Pool.VALIDATION)
        except DecompressionTooLarge:
            # One at a time, so that clients can make the broker use the memory of one batch at most.
            valid = await broker.executor.run(lambda: walk(MAX_DECOMPRESSED_BYTES), lane=LARGE_BATCHES_LANE)
        partition.check_leader()
    except (KafkaError, OSError) as error:
        return rejected_batch(partition, batches[0], error, broker)
    return await _append_exclusively(partition, valid, request, broker, verification)


async def _append_exclusively(
    partition: Partition,
    valid: Validated,
    request: ProduceRequest,
    broker: BrokerPort,
    verification: Verification | None,
) -> PartitionResult:
    leader_epoch = partition.leader_epoch
    try:
        # The leader epoch may have ended while the append was queued.
        partition.check_leader()
        now_ms = broker.clock.wall_ms()
        if partition.can_append_now(valid.data, valid.batches, now_ms):
            appended = partition.append(valid.data, valid.batches, now_ms, verification=verification, has_room=True)
        else:
            appended = await partition.append_exclusively(valid.data, valid.batches, verification=verification)
    except (KafkaError, OSError) as error:
        return rejected_batch(partition, valid.batches[0], error, broker)
    written = Unacknowledged(partition, leader_epoch, appended, valid.batches[0])
    return await wait_for_ack(written, request, broker)
