import struct
from typing import Any

import pytest

from odradek.base.message_walk import UnreadableMessage
from odradek.wire.schemas import SerialError, schema
from tests.apis import Api
from tests.unit.wire.requests import body_of, unframed
from tests.wire.fuzzing import Mutator, corpus


def read(request: bytes) -> Any:
    api, version, position = body_of(request)
    return schema(api, version).read_request(request, position)[0]


@pytest.mark.parametrize("request_bytes", corpus(), ids=lambda data: "{}-v{}".format(*struct.unpack_from(">hh", data)))
def test_valid_requests_pass_unchanged(request_bytes: bytes) -> None:
    api, version, position = body_of(request_bytes)
    assert schema(api, version)._walk_request(request_bytes, position) is request_bytes


def test_damaged_requests_are_decoded_or_rejected() -> None:
    mutator = Mutator(11)
    for _ in range(20_000):
        damaged = mutator.next_frame()[4:]
        try:
            api, version, position = body_of(damaged)
            if not 0 < position <= len(damaged):
                continue
        except (struct.error, KeyError, ModuleNotFoundError):
            continue
        try:
            schema(api, version).read_request(damaged, position)
        except SerialError:
            continue


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_array_longer_than_the_request_is_rejected(count: int) -> None:
    head = unframed(Api.METADATA, 1, {"topics": []})[:-4]
    with pytest.raises(UnreadableMessage):
        read(head + struct.pack(">i", count))


def test_array_of_more_elements_than_the_rest_of_the_request_can_hold_is_rejected() -> None:
    """A topic of a Fetch takes at least 18 bytes: an ID, an array and its tagged fields."""
    empty = unframed(Api.FETCH, 13, {"topics": [], "forgotten_topics_data": []})
    at = empty.index(b"\1\1\1\0")

    def announce(topics: int, extra: int) -> bytes:
        return empty[:at] + bytes((topics + 1,)) + bytes(extra)

    with pytest.raises(UnreadableMessage, match="longer than the message"):
        read(announce(100, 99 * 18))
    request = empty[:at] + b"\x65" + 100 * (bytes(16) + b"\1\0") + empty[at + 1 :]
    assert len(read(request).topics) == 100


@pytest.mark.parametrize("topics", [20_001, 50_000])
def test_number_of_elements_is_bounded_only_by_the_frame(topics: int) -> None:
    names = [{"name": f"topic-{number}"} for number in range(topics)]
    assert len(read(unframed(Api.METADATA, 9, {"topics": names})).topics) == topics


def test_tagged_fields_of_one_structure_are_bounded() -> None:
    plain = unframed(Api.METADATA, 9, {"topics": []})
    assert plain.endswith(b"\0")
    with pytest.raises(UnreadableMessage, match="tagged"):
        read(plain[:-1] + b"\xe9\x07" + 1001 * b"\x7f\0")


def test_null_in_a_field_that_is_not_nullable_is_rejected() -> None:
    head = unframed(Api.METADATA, 0, {"topics": []})[:-4]
    with pytest.raises(UnreadableMessage, match="null"):
        read(head + struct.pack(">i", -1))


def test_any_negative_length_is_null() -> None:
    head = unframed(Api.METADATA, 1, {"topics": []})[:-4]
    assert read(head + struct.pack(">i", -2)).topics is None


def test_string_that_is_not_utf_8_is_rejected() -> None:
    head = unframed(Api.METADATA, 1, {"topics": []})[:-4]
    request = read(head + struct.pack(">ih", 1, 2) + b"\xff\xfe")
    assert request.topics[0].name == "\ufffd\ufffd"


@pytest.mark.parametrize("byte", [b"g", b"\xff"])
def test_string_length_limit_is_that_of_kafka(byte: bytes) -> None:
    """The longest, and one more; of bytes that are no text each becomes three."""
    longest = 32_767 // len(byte.decode(errors="replace").encode())
    empty = unframed(Api.DELETE_GROUPS, 2, {"groups_names": [""]})
    assert empty.endswith(b"\x02\x01\x00")

    def named(length: int) -> bytes:
        size = bytes((length + 1 & 0x7F | 0x80, length + 1 >> 7 & 0x7F | 0x80, length + 1 >> 14))
        return empty[:-2] + size + length * byte + b"\x00"

    assert len(read(named(longest)).groups_names[0]) == longest
    with pytest.raises(UnreadableMessage, match="longer than"):
        read(named(longest + 1))


def test_every_boolean_byte_but_zero_is_true() -> None:
    plain = unframed(Api.METADATA, 4, {"topics": [], "allow_auto_topic_creation": True})
    assert read(plain[:-1] + b"\x07").allow_auto_topic_creation is True
    assert read(plain[:-1] + b"\x00").allow_auto_topic_creation is False


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = unframed(
        Api.FETCH, 12, {"cluster_id": "mine", "topics": [{"topic": "t", "partitions": [{"partition": 3}]}]}
    )
    # The request's own tagged fields come last: one, the cluster id.
    known = b"\x01\x00\x05\x05mine"
    assert plain.endswith(known)
    request = read(plain[: -len(known)] + b"\x03" + known[1:] + b"\x7f\x02hi" + b"\xff\x01\x00")
    assert request.cluster_id == "mine"
    assert request.topics[0].partitions[0].partition == 3


def test_known_tagged_field_of_the_wrong_size_is_rejected() -> None:
    plain = unframed(Api.FETCH, 12, {"cluster_id": "mine", "topics": []})
    with pytest.raises(UnreadableMessage, match="tagged"):
        read(plain[:-6] + b"\x06\x05mine\0")


def test_nullable_struct_may_be_null_or_present() -> None:
    absent = unframed(Api.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "t"}]})
    assert read(absent).cursor is None
    present = {"topics": [{"name": "t"}], "cursor": {"topic_name": "t", "partition_index": 5}}
    assert read(unframed(Api.DESCRIBE_TOPIC_PARTITIONS, 0, present)).cursor.partition_index == 5
