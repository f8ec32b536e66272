"""The offset map: both implementations against a dictionary, and the hash against published values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records.batch import parse_header
from odradek.records.builder import build_batch
from odradek.records.decode import records_payload
from odradek.records.record import Record
from odradek.records.walk import INTERPRETED_WALK, Walk, compiled_walk
from odradek.storage.log.compaction_map import CompiledOffsetMap, OffsetMap, PlainOffsetMap, new_offset_map

HASH_KEY = bytes(range(16))


@pytest.fixture(scope="module")
def compiled() -> Walk:
    walk = compiled_walk()
    assert walk is not None
    return walk


def put(offset_map: OffsetMap, walk: Walk, records: list[Record], base_offset: int, from_offset: int = 0) -> bool:
    data = build_batch(records, base_offset=base_offset)
    header = parse_header(data)
    payload = records_payload(data, header)
    return all(offset_map.put(payload, run, base_offset, from_offset) for run in walk.columns(payload, header))


def retained(
    offset_map: OffsetMap, walk: Walk, records: list[Record], base_offset: int, keep_tombstones: bool
) -> list[bool]:
    data = build_batch(records, base_offset=base_offset)
    header = parse_header(data)
    payload = records_payload(data, header)
    flags: list[bool] = []
    for run in walk.columns(payload, header):
        offset_map.flag_retained(payload, run, base_offset, keep_tombstones)
        flags += [bool(run.flags[row]) for row in range(run.count)]
    return flags


KEYS = st.none() | st.binary(max_size=2) | st.binary(min_size=7, max_size=40)
RECORDS = st.lists(st.builds(Record, KEYS, st.none() | st.just(b"v"), st.just(0)), min_size=1, max_size=40)


@pytest.mark.needs("numba")
@given(RECORDS, RECORDS, st.integers(0, 45), st.booleans())
@settings(deadline=None, max_examples=200)
def test_both_offset_maps_behave_like_a_dictionary(
    compiled: Walk, dirty: list[Record], clean: list[Record], from_offset: int, keep_tombstones: bool
) -> None:
    latest = {record.key: 100 + i for i, record in enumerate(dirty) if 100 + i >= 100 + from_offset - 5}
    for walk in (INTERPRETED_WALK, compiled):
        offset_map = new_offset_map(walk, memory_bytes=1 << 16, load_factor=0.9, offset_span=40, hash_key=HASH_KEY)
        assert put(offset_map, walk, dirty, 100, 100 + from_offset - 5)
        assert offset_map.entries == len(latest.keys() - {None})
        offset_map.latest_offset = 139
        for records, base_offset in ((dirty, 100), (clean, 0)):
            expected = [
                record.key is not None
                and base_offset + i >= latest.get(record.key, -1)
                and (record.value is not None or keep_tombstones)
                for i, record in enumerate(records)
            ]
            assert retained(offset_map, walk, records, base_offset, keep_tombstones) == expected
        assert retained(offset_map, walk, clean, 140, False) == [True] * len(clean)


@pytest.mark.parametrize("kind", ["plain", pytest.param("compiled", marks=pytest.mark.needs("numba"))])
def test_full_map_reports_its_latest_offset(kind: str, request: pytest.FixtureRequest) -> None:
    walk = INTERPRETED_WALK if kind == "plain" else request.getfixturevalue("compiled")
    offset_map = PlainOffsetMap(9, HASH_KEY) if kind == "plain" else CompiledOffsetMap(walk, 10, 9, HASH_KEY)
    records = [Record(b"%d" % (i % 30), b"") for i in range(40)]
    assert put(offset_map, walk, records[:9], 0)
    assert not put(offset_map, walk, records[9:], 9)
    assert (offset_map.entries, offset_map.latest_offset, offset_map.utilization) == (9, 8, 1.0)
    assert retained(offset_map, walk, records, 0, True) == [True] * 40


@pytest.mark.needs("numba")
def test_map_memory_is_bounded(compiled: Walk) -> None:
    small = new_offset_map(compiled, memory_bytes=1 << 30, load_factor=0.9, offset_span=10, hash_key=HASH_KEY)
    assert isinstance(small, CompiledOffsetMap) and len(small._offsets) == 1024
    large = new_offset_map(compiled, memory_bytes=24_000, load_factor=0.9, offset_span=10**9, hash_key=HASH_KEY)
    assert isinstance(large, CompiledOffsetMap) and len(large._offsets) == 1000
    assert large._entries_max == 900


@pytest.mark.needs("numba")
def test_key_hash_is_siphash(compiled: Walk) -> None:
    """Values of the reference implementation for the key 00 01 … 0f and the inputs 00 01 … of increasing length."""
    import numpy

    from odradek.storage.log.compaction_kernels import siphash_128

    expected = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
        7: "a1f1ebbed8dbc153c0b84aa61ff08239",
        8: "3b62a9ba6258f5610f83e264f31497b4",
        33: "77c6077146f01c32b6b69d5f4ea9ffcf",
        15: "5493e99933b0a8117e08ec0f97cfc3d9",
    }
    key = numpy.frombuffer(HASH_KEY, "<u8")
    for length, digest in expected.items():
        payload = compiled.as_array(memoryview(b"?" + bytes(range(length))))
        halves = siphash_128(payload, 1, length, key)
        assert b"".join(int(half).to_bytes(8, "little") for half in halves).hex() == digest
