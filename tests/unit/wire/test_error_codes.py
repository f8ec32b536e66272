"""Errors are found wherever a response carries them."""

from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.wire.error_codes import error_codes
from odradek.wire.schemas import schema


def test_error_code_of_the_response_is_found() -> None:
    messages = schema(12, 4)
    for code, expected in ((ErrorCode.none, []), (ErrorCode.illegal_generation, [ErrorCode.illegal_generation])):
        response = messages.new("HeartbeatResponse", throttle_time=timedelta(0), error_code=code)
        assert error_codes(response) == expected


def test_nested_error_codes_are_found_at_any_depth() -> None:
    messages = schema(8, 8)
    codes = (ErrorCode.none, ErrorCode.unknown_member_id, ErrorCode.unknown_member_id)
    partitions = tuple(
        messages.new("OffsetCommitResponsePartition", partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    )
    topic = messages.new("OffsetCommitResponseTopic", name="t", partitions=partitions)
    response = messages.new("OffsetCommitResponse", throttle_time=timedelta(0), topics=(topic, topic))
    assert error_codes(response) == [ErrorCode.unknown_member_id] * 4


def test_error_code_fields_are_found_under_any_name() -> None:
    messages = schema(24, 3)
    codes = (ErrorCode.none, ErrorCode.invalid_txn_state)
    partitions = tuple(
        messages.new("AddPartitionsToTxnPartitionResult", partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    )
    topic = messages.new("AddPartitionsToTxnTopicResult", name="t", results_by_partition=partitions)
    response = messages.new(
        "AddPartitionsToTxnResponse", throttle_time=timedelta(0), results_by_topic_v3_and_below=(topic,)
    )
    assert error_codes(response) == [ErrorCode.invalid_txn_state]


def test_response_without_error_codes_has_none() -> None:
    assert error_codes(b"encoded") == []
    assert error_codes(None) == []


def test_nullable_parts_may_be_absent() -> None:
    messages = schema(3, 12)
    response = messages.new(
        "MetadataResponse", throttle_time=timedelta(0), brokers=(), cluster_id=None, controller_id=1, topics=()
    )
    assert error_codes(response) == []
