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
_NO_TAGS_BYTES: Final = 1
"""The empty section of tagged fields, at the end of a response of a flexible version."""


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
    patched = list(parts)
    offset = throttle_offset(messages)
    index = 0 if offset is None or offset >= 0 else -1
    part = patched[index]
    if offset is None or not isinstance(part, bytes):
        return patched
    data = bytearray(part)
    _I32.pack_into(data, offset if offset >= 0 else len(data) + offset, throttle_ms)
    patched[index] = bytes(data)
    return patched


@cache
def throttle_offset(messages: Schema) -> int | None:
    """Where the field is in an encoded response; negative: from its end. None: there is none, or its place varies."""
    all_fields = fields(messages.response_type)
    offset = 0
    for one in all_fields:
        if one.name == _FIELD:
            return offset
        if one.metadata.get("kafka_type") != "error_code":
            break
        offset += _ERROR_CODE_BYTES
    if all_fields and all_fields[-1].name == _FIELD:
        return -_I32.size - (_NO_TAGS_BYTES if messages.response_header_flexible else 0)
    return None
