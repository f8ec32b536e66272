"""Compiled loops of the offset map: SipHash-2-4 of keys to 128 bits, and a table with linear probing.

It imports numba: import it only if numba is loaded already.
"""

from typing import Any

import numba
import numpy

_compiled = numba.njit(cache=True, nogil=True)
_inlined = numba.njit(cache=True, nogil=True, inline="always")

_U = numpy.uint64
_INIT_0, _INIT_1 = _U(0x736F6D6570736575), _U(0x646F72616E646F6D)
_INIT_2, _INIT_3 = _U(0x6C7967656E657261), _U(0x7465646279746573)
_WIDE, _SECOND_HALF = _U(0xEE), _U(0xDD)
_13, _16, _17, _21, _32, _64 = _U(13), _U(16), _U(17), _U(21), _U(32), _U(64)
_8, _56 = _U(8), _U(56)


@_inlined
def _rotate(value: Any, bits: Any) -> Any:
    return (value << bits) | (value >> (_64 - bits))


@_inlined
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v1 = _rotate(v1, _13) ^ v0
    v0 = _rotate(v0, _32)
    v2 += v3
    v3 = _rotate(v3, _16) ^ v2
    v0 += v3
    v3 = _rotate(v3, _21) ^ v0
    v2 += v1
    v1 = _rotate(v1, _17) ^ v2
    v2 = _rotate(v2, _32)
    return v0, v1, v2, v3


@_compiled
def siphash_128(payload: Any, start: int, length: int, key: Any) -> Any:
    """Two halves of 64 bits: the little-endian words of the 16-byte digest."""
    v0, v1 = key[0] ^ _INIT_0, key[1] ^ _INIT_1 ^ _WIDE
    v2, v3 = key[0] ^ _INIT_2, key[1] ^ _INIT_3
    whole_end = start + length - length % 8
    position = start
    while position < whole_end:
        word = _U(0)
        for byte in range(8):
            word |= _U(payload[position + byte]) << (_8 * _U(byte))
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        position += 8
    word = _U(length & 0xFF) << _56
    for byte in range(start + length - position):
        word |= _U(payload[position + byte]) << (_8 * _U(byte))
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= _WIDE
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _SECOND_HALF
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@_compiled
def _find_slot(high: Any, low: Any, offsets: Any, first: Any, second: Any) -> Any:
    """The slot of a key, or the empty slot where it belongs. There always is one: the table never becomes full."""
    slots = len(offsets)
    slot: Any = numpy.int64(first % _U(slots))
    while offsets[slot] != 0 and not (high[slot] == first and low[slot] == second):
        slot += 1
        if slot == slots:
            slot = 0
    return slot


@_compiled
def put_keys(
    high: Any,
    low: Any,
    offsets: Any,
    key: Any,
    payload: Any,
    count: int,
    offset_deltas: Any,
    key_starts: Any,
    key_lengths: Any,
    base_offset: int,
    from_offset: int,
    entries: int,
    entries_max: int,
    latest_offset: int,
) -> Any:
    for row in range(count):
        offset = base_offset + offset_deltas[row]
        if key_lengths[row] < 0 or offset < from_offset:
            continue
        if entries >= entries_max:
            return entries, latest_offset, False
        first, second = siphash_128(payload, key_starts[row], key_lengths[row], key)
        slot = _find_slot(high, low, offsets, first, second)
        if offsets[slot] == 0:
            high[slot] = first
            low[slot] = second
            entries += 1
        offsets[slot] = offset + 1
        latest_offset = offset
    return entries, latest_offset, True


@_compiled
def flag_retained(
    high: Any,
    low: Any,
    offsets: Any,
    key: Any,
    payload: Any,
    count: int,
    offset_deltas: Any,
    key_starts: Any,
    key_lengths: Any,
    base_offset: int,
    value_lengths: Any,
    latest_offset: int,
    keep_tombstones: bool,
    flags: Any,
) -> None:
    for row in range(count):
        offset = base_offset + offset_deltas[row]
        if offset > latest_offset:
            flags[row] = 1
        elif key_lengths[row] < 0 or (value_lengths[row] < 0 and not keep_tombstones):
            flags[row] = 0
        else:
            first, second = siphash_128(payload, key_starts[row], key_lengths[row], key)
            slot = _find_slot(high, low, offsets, first, second)
            flags[row] = 1 if offset >= offsets[slot] - 1 else 0
