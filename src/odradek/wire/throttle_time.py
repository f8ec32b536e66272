"""Writes `throttle_time_ms` into a response: into the message, or into its encoded form."""

import struct
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from functools import cache
from typing import Final

from odradek.wire.apis import ApiKey
from odradek.wire.produce_codec import FIRST_FLEXIBLE
from odradek.wire.schemas import Message, Schema
from odradek.wire.streamed_response import Part

_I32: Final = struct.Struct(">i")
_FIELD: Final = "throttle_time"
# After it, in a flexible Produce response, the tagged fields follow: usually none.
_NO_TAGS: Final = b"\0"


def throttle_ms_of(response: Message) -> int:
    """What another node has written into it; 0 if there is no such field."""
    throttle_time = getattr(response, _FIELD, None)
    return 0 if not throttle_time else round(throttle_time / timedelta(milliseconds=1))


def set_throttle_ms(response: Message, throttle_ms: int) -> Message:
    """Old versions do not have the field."""
    if not hasattr(response, _FIELD):
        return response
    return replace(response, **{_FIELD: timedelta(milliseconds=throttle_ms)})


def patch_throttle_ms(parts: Sequence[Part], messages: Schema, throttle_ms: int) -> list[Part]:
    """For an encoded response, without its header. In all APIs but Produce and ApiVersions the field is the first."""
    head, *rest = parts
    if messages.api_key == ApiKey.PRODUCE:
        return [_patch_produced(b"".join(part for part in parts if isinstance(part, bytes)), messages, throttle_ms)]
    if _is_first(messages) and isinstance(head, bytes):
        return [_I32.pack(throttle_ms) + head[_I32.size :], *rest]
    return list(parts)


def _patch_produced(data: bytes, messages: Schema, throttle_ms: int) -> bytes:
    packed = _I32.pack(throttle_ms)
    if messages.version < FIRST_FLEXIBLE:
        return data[: -_I32.size] + packed
    if data.endswith(_I32.pack(0) + _NO_TAGS):
        return data[: -_I32.size - 1] + packed + _NO_TAGS
    # With the endpoints of new leaders, whose length varies.
    response, _ = messages.read_response(data, 0)
    return messages.write(set_throttle_ms(response, throttle_ms))


@cache
def _is_first(messages: Schema) -> bool:
    return fields(messages.response_type)[0].name == _FIELD
