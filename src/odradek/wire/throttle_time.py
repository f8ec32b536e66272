"""Writes `throttle_time_ms` into a response: into the message, or into its encoded form."""

import struct
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from functools import cache
from typing import Final

from odradek.wire import produce_codec
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from odradek.wire.streamed_response import Part

_I32: Final = struct.Struct(">i")
_FIELD: Final = "throttle_time"
_ERROR_CODE_BYTES: Final = 2


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
    """For an encoded response, without its header. ApiVersions must not be encoded yet."""
    if messages.api_key == ApiKey.PRODUCE:
        *others, tail = parts
        assert isinstance(tail, bytes)
        return [*others, produce_codec.patch_throttle_ms(tail, messages.version, throttle_ms)]
    head, *rest = parts
    offset = throttle_offset(messages)
    if offset is None or not isinstance(head, bytes):
        return list(parts)
    return [head[:offset] + _I32.pack(throttle_ms) + head[offset + _I32.size :], *rest]


@cache
def throttle_offset(messages: Schema) -> int | None:
    """Where the field is in every encoded response. None: it has none, or a part of variable length precedes it."""
    offset = 0
    for one in fields(messages.response_type):
        if one.name == _FIELD:
            return offset
        if one.metadata.get("kafka_type") != "error_code":
            return None
        offset += _ERROR_CODE_BYTES
    return None
