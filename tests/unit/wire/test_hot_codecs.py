"""The codecs written by hand agree with kio on every version they serve."""

import io
import struct
from collections.abc import Generator, Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from odradek.base.errors import ErrorCode
from odradek.base.slices import run_at_once
from odradek.base.varints import read_unsigned_varint, write_unsigned_varint
from odradek.wire import fetch_codec, produce_codec
from odradek.wire.schemas import SerialError, schema
from tests.unit.wire.counted_slices import run_and_count

TOPIC_ID = UUID(int=77)


def _encoded_produce_request(version: int) -> bytes:
    messages = schema(0, version)
    partition = messages.new("PartitionProduceData", index=3, records=b"r" * 200)
    empty = messages.new("PartitionProduceData", index=4, records=None)
    topic = messages.new("TopicProduceData", name="orders", topic_id=TOPIC_ID, partition_data=(partition, empty))
    request = messages.new(
        "ProduceRequest", transactional_id="tx", acks=-1, timeout=timedelta(seconds=3), topic_data=(topic,)
    )
    buffer = io.BytesIO()
    entity_writer(type(request))(buffer, request)
    return buffer.getvalue()


def _read_produce(frame: bytearray, version: int) -> produce_codec.ProduceRequest:
    request = produce_codec.read_produce_request(frame, 0, version)
    assert isinstance(request, produce_codec.ProduceRequest)
    return request


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_request_is_decoded_as_kio_encodes_it(version: int) -> None:
    frame = bytearray(_encoded_produce_request(version))
    request = _read_produce(frame, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("tx", -1, 3000)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == ((None, TOPIC_ID) if version >= 13 else ("orders", None))
    assert [(p.partition, None if p.records is None else bytes(p.records)) for p in topic.partitions] == [
        (3, b"r" * 200),
        (4, None),
    ]


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_every_truncated_produce_request_is_rejected(version: int) -> None:
    whole = _encoded_produce_request(version)
    for size in range(len(whole)):
        with pytest.raises(SerialError):
            _read_produce(bytearray(whole[:size]), version)


def _encoded_request_of(version: int, *partitions: bytes) -> bytearray:
    """Of no transaction and one topic, with these records."""
    messages = schema(0, version)
    requested = [messages.new("PartitionProduceData", index=7, records=records) for records in partitions]
    topic = messages.new("TopicProduceData", name="orders", topic_id=TOPIC_ID, partition_data=tuple(requested))
    request = messages.new(
        "ProduceRequest", transactional_id=None, acks=1, timeout=timedelta(seconds=3), topic_data=(topic,)
    )
    return bytearray(messages.write(request))


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 200, 20_000])
@pytest.mark.parametrize("version", range(3, 14))
def test_produce_request_of_one_partition(version: int, size: int) -> None:
    request = _read_produce(_encoded_request_of(version, b"r" * size), version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, 1, 3000)
    ((name, topic_id, ((partition, records),)),) = request.topics
    assert (name, topic_id) == ((None, TOPIC_ID) if version >= 13 else ("orders", None))
    assert (partition, records) == (7, b"r" * size)


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_request_of_no_partition(version: int) -> None:
    request = _read_produce(_encoded_request_of(version), version)
    assert [topic.partitions for topic in request.topics] == [[]]


@pytest.mark.parametrize("version", [9, 12])
def test_damaged_produce_request_is_decoded_as_by_kio(version: int) -> None:
    """What the quick way does not take, the long one decides."""
    whole = _encoded_request_of(version, b"r" * 20)
    for position in range(len(whole)):
        for value in (0, 1, 2, 3, 0x7F, 0x80, 0xFF):
            damaged = whole.copy()
            damaged[position] = value
            try:
                quick: object = _read_produce(damaged, version)
            except SerialError:
                quick = SerialError
            try:
                long: object = run_at_once(produce_codec._read_flexible(damaged, 0, by_id=False))
            except (SerialError, IndexError, ValueError, struct.error):
                long = SerialError
            assert quick == long
    for size in range(len(whole)):
        with pytest.raises(SerialError):
            _read_produce(whole[:size], version)


@pytest.mark.parametrize(("topics", "partitions"), [(30_000, 0), (30_000, 1), (1, 30_000)])
@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_request_of_many_elements_is_decoded_in_slices(version: int, topics: int, partitions: int) -> None:
    messages = schema(0, version)
    data = tuple(messages.new("PartitionProduceData", index=index, records=None) for index in range(partitions))
    topic = messages.new("TopicProduceData", name="orders", topic_id=TOPIC_ID, partition_data=data)
    request = messages.new(
        "ProduceRequest", transactional_id=None, acks=-1, timeout=timedelta(0), topic_data=(topic,) * topics
    )
    slices = produce_codec.read_produce_request(bytearray(messages.write(request)), 0, version)
    assert isinstance(slices, Generator)
    decoded, count = run_and_count(slices)
    assert [[one.partition for one in topic.partitions] for topic in decoded.topics] == [
        list(range(partitions))
    ] * topics
    assert count >= topics * max(1, partitions) // produce_codec.SLICE_PARTITIONS - 1


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_request_of_more_elements_than_its_bytes_can_hold_is_rejected(version: int) -> None:
    messages = schema(0, version)
    request = messages.new("ProduceRequest", transactional_id=None, acks=-1, timeout=timedelta(0), topic_data=())
    encoded = messages.write(request)
    announced, topics = (encoded[:-2] + b"\x65", 99) if version >= 9 else (encoded[:-4] + struct.pack(">i", 100), 99)
    with pytest.raises(SerialError, match="longer"):
        produce_codec.read_produce_request(bytearray(announced + bytes(topics * 3)), 0, version)


def test_produce_response_of_many_partitions_is_encoded_in_slices() -> None:
    results = [produce_codec.PartitionResult(index, ErrorCode.none, index) for index in range(20_000)]
    topics = [produce_codec.TopicResult("orders", None, results), produce_codec.TopicResult("none", None, [])]
    chunks, count = run_and_count(produce_codec.produce_response_slices(topics, 9))
    assert count >= 20_000 // produce_codec.SLICE_PARTITIONS
    read, _ = schema(0, 9).read_response(b"".join(chunks), 0)
    assert [one.base_offset for one in read.responses[0].partition_responses] == list(range(20_000))
    assert [topic.name for topic in read.responses] == ["orders", "none"]


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_response_is_decoded_by_kio(version: int) -> None:
    results = [
        produce_codec.PartitionResult(0, ErrorCode.none, 17, -1, 5),
        produce_codec.PartitionResult(
            1,
            ErrorCode.invalid_record,
            message="no",
            record_errors=[produce_codec.RecordError(2, "null key"), produce_codec.RecordError(3, None)],
        ),
    ]
    by_id = version >= 13
    topic = produce_codec.TopicResult(None if by_id else "orders", TOPIC_ID if by_id else None, results)
    encoded = produce_codec.write_produce_response([topic], version, throttle_ms=9)
    response, size = schema(0, version).read_response(encoded, 0)
    assert size == len(encoded)
    assert response.throttle_time == timedelta(milliseconds=9)
    first, second = response.responses[0].partition_responses
    assert (first.index, first.error_code, first.base_offset) == (0, ErrorCode.none, 17)
    assert (second.index, second.error_code) == (1, ErrorCode.invalid_record)
    if version >= 8:
        assert [(e.batch_index, e.batch_index_error_message) for e in second.record_errors] == [
            (2, "null key"),
            (3, None),
        ]
        assert second.error_message == "no"


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_response_is_decoded_by_kio(version: int) -> None:
    partitions = [
        fetch_codec.FetchedPartition(0, ErrorCode.none, 10, 9, 1, records=b"batch" * 40),
        fetch_codec.FetchedPartition(1, ErrorCode.offset_out_of_range),
        fetch_codec.FetchedPartition(2, ErrorCode.none, 3, 2, 0, [fetch_codec.AbortedTransaction(7, 1)], 4, b"x"),
    ]
    topic = fetch_codec.FetchedTopic("orders", TOPIC_ID, partitions)
    encoded = b"".join(fetch_codec.write_fetch_response([topic], version, session_id=5, throttle_ms=2))
    response, size = schema(1, version).read_response(encoded, 0)
    assert size == len(encoded)
    if version >= 7:
        assert response.session_id == 5
    first, second, third = response.responses[0].partitions
    assert (first.high_watermark, first.last_stable_offset, first.records) == (10, 9, b"batch" * 40)
    assert first.aborted_transactions is None
    assert (second.error_code, second.records) == (ErrorCode.offset_out_of_range, b"")
    assert [(a.producer_id, a.first_offset) for a in third.aborted_transactions] == [(7, 1)]
    assert third.records == b"x"
    if version >= 11:
        assert third.preferred_read_replica == 4


@pytest.mark.parametrize("records", [b"", b"batch" * 40])
@pytest.mark.parametrize("aborted", [None, (), [fetch_codec.AbortedTransaction(7, 1)]])
@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_response_of_one_partition(
    version: int, aborted: Sequence[fetch_codec.AbortedTransaction] | None, records: bytes
) -> None:
    partition = fetch_codec.FetchedPartition(3, ErrorCode.none, 10, 9, 1, aborted, records=records)
    topic = fetch_codec.FetchedTopic("orders", TOPIC_ID, [partition])
    encoded = b"".join(fetch_codec.write_fetch_response([topic], version, session_id=5))
    response, size = schema(1, version).read_response(encoded, 0)
    assert size == len(encoded)
    assert getattr(response, "session_id", 5) == 5
    (topic,) = response.responses
    assert topic.topic_id == TOPIC_ID if version >= 13 else topic.topic == "orders"
    (only,) = topic.partitions
    assert (only.partition_index, only.error_code, only.records) == (3, ErrorCode.none, records)
    assert (only.high_watermark, only.last_stable_offset, getattr(only, "log_start_offset", 1)) == (10, 9, 1)
    assert getattr(only, "preferred_read_replica", -1) == -1
    returned = only.aborted_transactions
    assert (returned is None) == (aborted is None)
    assert [(one.producer_id, one.first_offset) for one in returned or ()] == [tuple(one) for one in aborted or ()]


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = bytearray(write_unsigned_varint(value))
    assert read_unsigned_varint(encoded, 0) == (value, len(encoded))
