"""A message that is decoded in slices equals the same message decoded at once, and no slice is long."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.message_walk import NUMBERS_PER_ELEMENT
from odradek.base.slices import run_at_once
from odradek.wire.schemas import SerialError, schema
from odradek.wire.sliced_reading import SLICE_ELEMENTS, message_slices
from tests.apis import Api
from tests.raw_wire import encode_request
from tests.unit.wire.counted_slices import run_and_count
from tests.unit.wire.requests import body_of, unframed
from tests.wire.fuzzing import Mutator, corpus


def read_in_slices(request: bytes, slice_elements: int = 1) -> Any:
    api, version, position = body_of(request)
    return run_at_once(message_slices(schema(api, version).request_type, slice_elements)(request, position))


def read_at_once(request: bytes) -> Any:
    api, version, position = body_of(request)
    return schema(api, version).read_request(request, position)[0]


def result_of(read: Callable[[bytes], Any], request: bytes) -> Any:
    try:
        return read(request)
    except SerialError:
        return SerialError


@pytest.mark.parametrize("request_bytes", corpus(), ids=lambda data: "{}-v{}".format(*struct.unpack_from(">hh", data)))
@pytest.mark.parametrize("slice_elements", [1, SLICE_ELEMENTS])
def test_slices_decode_what_one_call_decodes(request_bytes: bytes, slice_elements: int) -> None:
    assert read_in_slices(request_bytes, slice_elements) == read_at_once(request_bytes)


@pytest.mark.parametrize("slice_elements", [1, 3])
def test_damaged_requests_are_decoded_or_rejected_as_in_one_call(slice_elements: int) -> None:
    mutator = Mutator(12)
    for _ in range(10_000):
        damaged = mutator.next_frame()[4:]
        try:
            api, version, position = body_of(damaged)
            schema(api, version)
        except (struct.error, KeyError, ModuleNotFoundError):
            continue
        if 0 < position <= len(damaged):
            sliced = result_of(lambda data: read_in_slices(data, slice_elements), damaged)
            assert sliced == result_of(read_at_once, damaged), damaged.hex()


MANY = 20_000
LARGE = {
    "topics of a Fetch": (
        MANY,
        Api.FETCH,
        17,
        {"topics": [{"partitions": [{"partition": 7, "fetch_offset": index}]} for index in range(MANY)]},
    ),
    "partitions of a Fetch": (
        MANY,
        Api.FETCH,
        17,
        {"topics": [{"partitions": [{"partition": index} for index in range(MANY)]}, {"partitions": []}]},
    ),
    "partition numbers": (
        MANY // NUMBERS_PER_ELEMENT,
        Api.DESCRIBE_LOG_DIRS,
        4,
        {"topics": [{"topic": "many", "partitions": list(range(MANY))}, {"topic": "none", "partitions": []}]},
    ),
    "names": (MANY, Api.DELETE_TOPICS, 5, {"topic_names": [f"topic-{index}" for index in range(MANY)], "timeout": 1}),
    "strings of one structure": (
        MANY,
        Api.DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_name": "r", "configuration_keys": [f"key-{index}" for index in range(MANY)]}]},
    ),
}


@pytest.mark.parametrize(("elements", "api", "version", "fields"), LARGE.values(), ids=LARGE)
def test_elements_are_spread_over_many_slices(elements: int, api: Api, version: int, fields: dict[str, Any]) -> None:
    """Also if they are all in one element of another array."""
    request = encode_request(api, version, 1, fields)[4:]
    _, _, position = body_of(request)
    decoded, slices = run_and_count(message_slices(schema(api, version).request_type)(request, position))
    assert decoded == read_at_once(request)
    assert slices >= elements // SLICE_ELEMENTS


def test_repairs_of_one_element_leave_the_others_unchanged() -> None:
    plain = unframed(Api.METADATA, 1, {"topics": [{"name": "first"}, {"name": "xx"}, {"name": "last"}]})
    damaged = plain.replace(b"xx", b"\xff\xfe")
    names = [topic.name for topic in read_in_slices(damaged).topics]
    assert names == ["first", "\ufffd\ufffd", "last"]


@pytest.mark.parametrize("count", [3, 1000, 2**31 - 1])
def test_array_longer_than_the_request_is_rejected_before_its_first_element(count: int) -> None:
    """Two topics of two bytes would fit."""
    head = unframed(Api.METADATA, 1, {"topics": []})[:-4]
    request = head + struct.pack(">i", count) + bytes(4)
    _, _, position = body_of(request)
    slices = message_slices(schema(Api.METADATA, 1).request_type, 1)(request, position)
    with pytest.raises(SerialError, match="longer"):
        next(slices)
