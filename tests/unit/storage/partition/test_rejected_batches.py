"""A gap caused by a retriable rejection gets the error of that rejection; other gaps are out of order."""

from pathlib import Path
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import NO_SEQUENCE, BatchHeader, parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.storage.partition.rejected_batches import (
    PARTITIONS_MAX,
    PRODUCERS_MAX,
    RETENTION_MS,
    RejectedBatches,
    RejectedBeforeCreation,
)
from tests.unit.storage.partition.test_partition import Fixture

PRODUCER = 7
NOT_LEADER = ErrorCode.not_leader_or_follower
GAP = ErrorCode.out_of_order_sequence_number


def batch(sequence: int, *, epoch: int = 0, producer: int = PRODUCER) -> tuple[bytearray, list[BatchHeader]]:
    record = Record(offset=0, timestamp=0, key=None, value=b"v", headers=())
    data = bytearray(build_batch([record], producer_id=producer, producer_epoch=epoch, base_sequence=sequence))
    return data, parse_batches(data)


def header(sequence: int, *, epoch: int = 0, producer: int = PRODUCER) -> BatchHeader:
    return batch(sequence, epoch=epoch, producer=producer)[1][0]


@pytest.fixture
def fixture(tmp_path: Path) -> Fixture:
    """The log contains the sequences 0 and 1."""
    fixture = Fixture(tmp_path)
    for sequence in (0, 1):
        append(fixture, sequence)
    return fixture


def append(fixture: Fixture, sequence: int) -> None:
    data, batches = batch(sequence)
    fixture.partition.append(memoryview(data), batches, 0)


def test_later_batches_get_the_error_of_the_rejected_batch(fixture: Fixture) -> None:
    partition = fixture.partition
    assert partition.on_rejected_batch(header(2), NOT_LEADER) is NOT_LEADER
    for sequence in (3, 4):
        with pytest.raises(KafkaError) as raised:
            append(fixture, sequence)
        assert raised.value.code is GAP
        assert partition.on_rejected_batch(header(sequence), GAP) is NOT_LEADER


def test_gap_after_the_rejected_batch_was_appended_is_out_of_order(fixture: Fixture) -> None:
    partition = fixture.partition
    partition.on_rejected_batch(header(2), ErrorCode.not_enough_replicas)
    append(fixture, 2)
    assert partition.on_rejected_batch(header(4), GAP) is GAP


def test_gap_without_rejected_batch_is_out_of_order(fixture: Fixture) -> None:
    partition = fixture.partition
    assert partition.on_rejected_batch(header(5), GAP) is GAP
    partition.on_rejected_batch(header(5), NOT_LEADER)
    assert partition.on_rejected_batch(header(4), GAP) is GAP
    assert partition.on_rejected_batch(header(7, epoch=1), GAP) is GAP
    assert partition.on_rejected_batch(header(7, producer=8), GAP) is GAP
    assert partition.on_rejected_batch(header(7), GAP) is NOT_LEADER


def test_other_errors_are_returned_unchanged(fixture: Fixture) -> None:
    partition = fixture.partition
    partition.on_rejected_batch(header(2), ErrorCode.invalid_record)
    assert partition.on_rejected_batch(header(3), GAP) is GAP
    assert partition.on_rejected_batch(header(3), ErrorCode.invalid_producer_epoch) is ErrorCode.invalid_producer_epoch


def test_rejected_batch_expires(fixture: Fixture) -> None:
    known = fixture.partition.log.producers.producers[PRODUCER]
    rejected = RejectedBatches()
    rejected.note(header(2), NOT_LEADER, now_ms=0)
    assert rejected.reason_for_gap(header(3), known, RETENTION_MS) is NOT_LEADER
    assert rejected.reason_for_gap(header(3), known, RETENTION_MS + 1) is None
    for producer in range(100, 100 + PRODUCERS_MAX):
        rejected.note(header(2, producer=producer), NOT_LEADER, now_ms=0)
    assert rejected.reason_for_gap(header(3), known, 0) is None


def test_batches_without_sequence_are_not_recorded(fixture: Fixture) -> None:
    known = fixture.partition.log.producers.producers[PRODUCER]
    rejected = RejectedBatches()
    rejected.note(header(NO_SEQUENCE), NOT_LEADER, now_ms=0)
    assert rejected.reason_for_gap(header(3), known, 0) is None


# ---- before the log has a batch of the producer, or before the partition exists


def test_second_batch_of_a_new_producer_gets_the_error_of_the_first(tmp_path: Path) -> None:
    partition = Fixture(tmp_path).partition
    partition.on_rejected_batch(header(0), NOT_LEADER)
    with pytest.raises(KafkaError) as raised:
        partition.check_gap(header(3), 0)
    assert raised.value.code is NOT_LEADER
    for fine in (header(0), header(3, epoch=1), header(3, producer=8), header(NO_SEQUENCE)):
        partition.check_gap(fine, 0)


def test_new_partition_knows_batches_rejected_before_its_creation() -> None:
    before_creation = RejectedBeforeCreation()
    topic_id = UUID(int=5)
    before_creation.note(topic_id, 1, header(0), ErrorCode.unknown_topic_id, 0)
    before_creation.note("t", 1, header(0), ErrorCode.message_too_large, 0)
    assert before_creation.take(topic_id, 0) is None and before_creation.take("t", 1) is None
    rejected = before_creation.take(topic_id, 1)
    assert rejected is not None and before_creation.take(topic_id, 1) is None
    assert rejected.reason_for_gap(header(1), None, 0) is ErrorCode.unknown_topic_id
    assert rejected.reason_for_gap(header(0), None, 0) is None


def test_rejections_for_unknown_partitions_are_bounded() -> None:
    before_creation = RejectedBeforeCreation()
    for index in range(PARTITIONS_MAX + 1):
        before_creation.note("t", index, header(0), ErrorCode.unknown_topic_or_partition, 0)
    assert before_creation.take("t", 0) is None
    assert before_creation.take("t", 1) is not None
