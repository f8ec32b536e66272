"""A gap that a passing refusal made is told by that refusal; every other gap is told as what it is."""

from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.partition.refused_in_passing import PRODUCERS_MAX, REMEMBERED_MS_MAX, RefusedInPassing
from odradek.records.batch import NO_SEQUENCE, BatchHeader, parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from tests.unit.partition.test_partition import Fixture

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
    """Sequences 0 and 1 are in the log."""
    fixture = Fixture(tmp_path)
    for sequence in (0, 1):
        append(fixture, sequence)
    return fixture


def append(fixture: Fixture, sequence: int) -> None:
    data, batches = batch(sequence)
    fixture.partition.append(memoryview(data), batches, 0)


def test_the_next_ones_hear_why_the_first_is_missing(fixture: Fixture) -> None:
    partition = fixture.partition
    assert partition.refuse(header(2), NOT_LEADER) is NOT_LEADER
    for sequence in (3, 4):
        with pytest.raises(KafkaError) as refusal:
            append(fixture, sequence)
        assert refusal.value.code is GAP
        assert partition.refuse(header(sequence), GAP) is NOT_LEADER


def test_once_it_is_in_the_log_a_gap_is_a_gap(fixture: Fixture) -> None:
    partition = fixture.partition
    partition.refuse(header(2), ErrorCode.not_enough_replicas)
    append(fixture, 2)
    assert partition.refuse(header(4), GAP) is GAP


def test_a_gap_that_nothing_was_refused_in_is_a_gap(fixture: Fixture) -> None:
    partition = fixture.partition
    assert partition.refuse(header(5), GAP) is GAP
    partition.refuse(header(5), NOT_LEADER)
    assert partition.refuse(header(4), GAP) is GAP
    assert partition.refuse(header(7, epoch=1), GAP) is GAP
    assert partition.refuse(header(7, producer=8), GAP) is GAP
    assert partition.refuse(header(7), GAP) is NOT_LEADER


def test_other_refusals_are_told_as_they_are(fixture: Fixture) -> None:
    partition = fixture.partition
    partition.refuse(header(2), ErrorCode.invalid_record)
    assert partition.refuse(header(3), GAP) is GAP
    assert partition.refuse(header(3), ErrorCode.invalid_producer_epoch) is ErrorCode.invalid_producer_epoch


def test_a_refusal_is_forgotten(fixture: Fixture) -> None:
    known = fixture.partition.log.producers.producers[PRODUCER]
    refused = RefusedInPassing()
    refused.note(header(2), NOT_LEADER, now_ms=0)
    assert refused.reason_for_gap(header(3), known, REMEMBERED_MS_MAX) is NOT_LEADER
    assert refused.reason_for_gap(header(3), known, REMEMBERED_MS_MAX + 1) is None
    for producer in range(100, 100 + PRODUCERS_MAX):
        refused.note(header(2, producer=producer), NOT_LEADER, now_ms=0)
    assert refused.reason_for_gap(header(3), known, 0) is None


def test_producers_without_sequences_are_not_remembered(fixture: Fixture) -> None:
    known = fixture.partition.log.producers.producers[PRODUCER]
    refused = RefusedInPassing()
    refused.note(header(NO_SEQUENCE), NOT_LEADER, now_ms=0)
    assert refused.reason_for_gap(header(3), known, 0) is None
