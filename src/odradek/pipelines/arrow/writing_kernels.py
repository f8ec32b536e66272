"""Compiled loops that encode Arrow columns as records. They use flat arrays only. Imports numba."""

from typing import Any

import numba

from odradek.pipelines.arrow.copying import copy_bytes

_compiled = numba.njit(cache=True, nogil=True)

# The maximum size of lengths, deltas, attributes and header count of one record.
RECORD_OVERHEAD_BYTES_MAX = 32

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


@_compiled
def partitions_of_keys(data: Any, starts: Any, lengths: Any, count: int, partitions: Any) -> None:
    """Set the partition of rows that have a key but no partition, as Kafka's Java client does."""
    for row in range(len(partitions)):
        length = lengths[row]
        if partitions[row] >= 0 or length < 0:
            continue
        at = starts[row]
        digest = (_SEED ^ length) & _MASK
        left = length
        while left >= 4:
            word = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
            word = word * _MULTIPLIER & _MASK
            word = (word ^ (word >> 24)) * _MULTIPLIER & _MASK
            digest = digest * _MULTIPLIER & _MASK ^ word
            at += 4
            left -= 4
        if left:
            tail = 0
            for index in range(left):
                tail |= data[at + index] << (8 * index)
            digest = (digest ^ tail) * _MULTIPLIER & _MASK
        digest = (digest ^ (digest >> 13)) * _MULTIPLIER & _MASK
        partitions[row] = ((digest ^ (digest >> 15)) & 0x7FFFFFFF) % count


@_compiled
def _write_varint(output: Any, at: int, value: int) -> int:
    pending = value << 1 if value >= 0 else ((-value) << 1) - 1
    while pending > 0x7F:
        output[at] = 0x80 | pending & 0x7F
        at += 1
        pending >>= 7
    output[at] = pending
    return at + 1


@_compiled
def _varint_size(value: int) -> int:
    pending = value << 1 if value >= 0 else ((-value) << 1) - 1
    size = 1
    while pending > 0x7F:
        size += 1
        pending >>= 7
    return size


@_compiled
def _write_part(output: Any, at: int, data: Any, start: int, length: int) -> int:
    at = _write_varint(output, at, length)
    if length > 0:
        copy_bytes(output, at, data, start, length)
        at += length
    return at


@_compiled
def write_records(
    rows: Any,
    first: int,
    end: int,
    bytes_max: int,
    key_data: Any,
    key_starts: Any,
    key_lengths: Any,
    value_data: Any,
    value_starts: Any,
    value_lengths: Any,
    times: Any,
    output: Any,
) -> tuple[int, int]:
    """Encode rows from `first` until `bytes_max` is reached. Returns the number of bytes and the next row.

    Timestamps are deltas to the first one, and there are no headers. `output` must hold one record more than
    `bytes_max`.
    """
    at = 0
    place = first
    base_time = times[rows[first]]
    while place < end and (at < bytes_max or place == first):
        row = rows[place]
        key, value, delta, later = key_lengths[row], value_lengths[row], place - first, times[row] - base_time
        length = 2 + _varint_size(later) + _varint_size(delta)
        length += _varint_size(key) + max(key, 0) + _varint_size(value) + max(value, 0)
        at = _write_varint(output, at, length)
        output[at] = 0
        at = _write_varint(output, at + 1, later)
        at = _write_varint(output, at, delta)
        at = _write_part(output, at, key_data, key_starts[row], key)
        at = _write_part(output, at, value_data, value_starts[row], value)
        output[at] = 0
        at += 1
        place += 1
    return at, place
