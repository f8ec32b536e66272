"""A response that is encoded in slices equals the same response encoded at once, and no slice is long."""

from collections import Counter
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.slices import run_at_once
from odradek.wire.error_codes import error_codes
from odradek.wire.schemas import schema
from odradek.wire.sliced_writing import CHUNK_BYTES, SLICE_PARTS, response_slices
from tests import raw_wire
from tests.unit.base.test_message_writer import Maker, messages
from tests.unit.wire.counted_slices import run_and_count


@pytest.mark.parametrize("slice_parts", [1, 3, SLICE_PARTS])
def test_slices_encode_what_one_call_encodes(slice_parts: int) -> None:
    maker = Maker(5)
    for message_type in messages():
        message = maker.entity(message_type)
        errors: list[ErrorCode] = []
        chunks = run_at_once(response_slices(message, errors.extend, slice_parts))
        assert b"".join(chunks) == schema_free_bytes(message)
        assert Counter(errors) == Counter(error_codes(message))


def schema_free_bytes(message: Any) -> bytes:
    from odradek.base.message_writer import message_writer

    out = bytearray()
    message_writer(type(message))(out, message)
    return bytes(out)


MANY = 20_000
ERROR = {"error_code": ErrorCode.not_leader_or_follower}
LARGE = {
    "topics": [{"name": f"topic-{index}", "partitions": [{"partition_index": 0, **ERROR}]} for index in range(MANY)],
    "partitions of one topic": [
        {"name": "large", "partitions": [{"partition_index": index, **ERROR} for index in range(MANY)]}
    ],
}


@pytest.mark.parametrize("topics", LARGE.values(), ids=LARGE)
def test_large_response_is_encoded_in_many_slices_and_chunks(topics: list[dict[str, Any]]) -> None:
    messages = schema(2, 7)
    response = raw_wire.build(messages.response_type, {"topics": topics})
    errors: Counter[ErrorCode] = Counter()
    chunks, slices = run_and_count(response_slices(response, errors.update))
    assert b"".join(chunks) == messages.write(response)
    assert errors == {ErrorCode.not_leader_or_follower: MANY}
    assert slices >= MANY // SLICE_PARTS
    assert max(map(len, chunks)) < 2 * CHUNK_BYTES
