"""Responses of untrusted nodes: a damaged response is decoded or rejected, and has no other effect."""

import contextlib
import random
import struct
import tracemalloc
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.wire.schemas import RESPONSE_ELEMENTS_MAX, SerialError, schema
from tests import raw_wire

NONE = {"error_code": ErrorCode.none}
PARTITION = {**NONE, "partition_index": 0, "partition": 0, "records": b"abc" * 10}
TOPIC = {"topic_name": "__cluster_metadata", "topic": "__cluster_metadata", "partitions": [PARTITION]}
ENDPOINT = {"node_id": 1, "host": "localhost", "port": 9093}
EXAMPLES: dict[tuple[int, int], dict[str, Any]] = {
    (1, 17): {**NONE, "responses": [TOPIC], "node_endpoints": [ENDPOINT]},
    (18, 4): {**NONE, "api_keys": [{"api_key": 1}], "supported_features": [{"name": "kraft.version"}]},
    (19, 7): {"topics": [{**NONE, "name": "a", "configs": [{"name": "b", "value": "c"}]}]},
    (33, 0): {"responses": [{**NONE, "resource_name": "a", "error_message": None}]},
    (52, 2): {**NONE, "topics": [TOPIC], "node_endpoints": [ENDPOINT]},
    (55, 2): {**NONE, "topics": [TOPIC], "nodes": [{"node_id": 1, "listeners": [{"name": "A", "host": "b"}]}]},
    (58, 0): {**NONE, "response_data": b"some bytes"},
    (59, 1): {**NONE, "topics": [{"name": "a", "partitions": [{**NONE, "index": 0, "unaligned_records": b"xyz"}]}]},
    (62, 4): NONE,
    (63, 1): NONE,
}


def written(api_key: int, version: int) -> bytes:
    messages = schema(api_key, version)
    return messages.write(raw_wire.build(messages.response_type, EXAMPLES[api_key, version]))


@pytest.mark.parametrize(("api_key", "version"), EXAMPLES)
def test_valid_responses_are_decoded(api_key: int, version: int) -> None:
    messages = schema(api_key, version)
    data = written(api_key, version)
    assert messages.write(messages.read_foreign_response(data, 0)) == data
    assert messages.write(messages.read_foreign_response(memoryview(data), 0)) == data


@pytest.mark.parametrize(("api_key", "version"), EXAMPLES)
def test_damaged_responses_are_decoded_or_rejected(api_key: int, version: int) -> None:
    chance = random.Random(api_key)
    messages = schema(api_key, version)
    good = written(api_key, version)
    for _ in range(1000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
                case 1:
                    del data[place : place + chance.randrange(8)]
                case 2:
                    data[place:place] = chance.randbytes(chance.randrange(1, 8))
                case 3:
                    data[place : place + 5] = b"\xff\xff\xff\xff\x0f"
            data = data or bytearray(1)
        with contextlib.suppress(SerialError):
            messages.read_foreign_response(bytes(data), 0)
        with contextlib.suppress(SerialError):
            messages.read_response_in_place(memoryview(data).toreadonly(), 0)


@pytest.mark.parametrize(("api_key", "version"), EXAMPLES)
def test_response_may_be_decoded_from_a_view_of_its_frame(api_key: int, version: int) -> None:
    messages = schema(api_key, version)
    data = written(api_key, version)
    view = memoryview(bytearray(b"head" + data)).toreadonly()
    assert messages.read_response_in_place(view, 4) == messages.read_foreign_response(data, 0)


def test_announced_array_length_is_checked() -> None:
    tracemalloc.start()
    with pytest.raises(SerialError):
        schema(33, 0).read_foreign_response(struct.pack(">ii", 0, 2**31 - 1), 0)
    with pytest.raises(SerialError):
        schema(33, 0).read_response_in_place(memoryview(struct.pack(">ii", 0, 2**31 - 1)), 0)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_the_number_of_elements_is_bounded() -> None:
    count = RESPONSE_ELEMENTS_MAX + 1
    # An ApiVersions response of version 0: two numbers and an array of elements of six bytes.
    with pytest.raises(SerialError, match="too many"):
        schema(18, 0).read_foreign_response(struct.pack(">hi", 0, count) + bytes(6 * count), 0)


def test_unknown_error_code_is_rejected() -> None:
    data = bytearray(written(63, 1))
    data[4:6] = struct.pack(">h", 30_000)
    with pytest.raises(SerialError, match="30000"):
        schema(63, 1).read_foreign_response(bytes(data), 0)
