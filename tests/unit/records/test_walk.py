"""The interpreted and the compiled walk give the same result as the decoder."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records.batch import BatchHeader, parse_header
from odradek.records.builder import build_batch
from odradek.records.compression import Compression
from odradek.records.decode import decode_records, records_payload
from odradek.records.kernels import INT64_MAX, INT64_MIN, read_varint, read_varlong
from odradek.records.record import InvalidRecords, Record
from odradek.records.varint import varint_size, write_varint
from odradek.records.walk import INTERPRETED_WALK, RecordsSummary, Retention, Walk, compiled_walk, thread_walk


def header_for(payload: bytes, count: int, base_timestamp: int = 0) -> BatchHeader:
    return BatchHeader(0, 0, 49 + len(payload), -1, 2, 0, 0, count - 1, base_timestamp, 0, -1, -1, -1, count)


@pytest.fixture(scope="module")
def compiled() -> Walk:
    walk = compiled_walk()
    assert walk is not None and walk.is_compiled
    return walk


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.needs("numba"))])
def walk(request: pytest.FixtureRequest) -> Walk:
    return INTERPRETED_WALK if request.param == "interpreted" else request.getfixturevalue("compiled")


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except InvalidRecords as refusal:
        return str(refusal)


def rows(walk: Walk, payload: bytes, header: BatchHeader) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for columns in walk.columns(payload, header):
        for i in range(columns.count):
            found.append(
                (
                    int(columns.ends[i]),
                    int(columns.timestamp_deltas[i]),
                    int(columns.offset_deltas[i]),
                    int(columns.key_starts[i]),
                    int(columns.key_lengths[i]),
                    int(columns.value_lengths[i]),
                )
            )
    return found


RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=200),
        st.integers(-1, 2**62),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)
EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3)
TIMES = st.sampled_from([INT64_MIN, -5, -1, 0, 1000, 2**61, INT64_MAX])


@pytest.mark.needs("numba")
@given(RECORDS, EDITS, st.integers(-1, 1), TIMES, TIMES, TIMES, st.booleans())
@settings(deadline=None, max_examples=400)
def test_compiled_and_interpreted_walk_agree(
    compiled: Walk,
    records: list[Record],
    edits: list[tuple[int, int]],
    extra: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    keys_required: bool,
) -> None:
    data = build_batch(records)
    payload = bytearray(records_payload(data, parse_header(data)))
    for position, byte in edits:
        payload[position % len(payload)] = byte
    header = header_for(payload, len(records) + extra, base_timestamp)
    bounds = {"earliest": earliest, "latest": latest, "keys_required": keys_required}
    expected = outcome(lambda: INTERPRETED_WALK.check(payload, header, **bounds))  # type: ignore[arg-type]
    assert outcome(lambda: compiled.check(payload, header, **bounds)) == expected  # type: ignore[arg-type]
    expected = outcome(lambda: rows(INTERPRETED_WALK, payload, header))
    assert outcome(lambda: rows(compiled, payload, header)) == expected
    # The decoder reads records with the same kernel but counts them itself.
    assert isinstance(outcome(lambda: decode_records(memoryview(payload), header)), str) == isinstance(expected, str)


@pytest.mark.needs("numba")
@given(st.binary(max_size=80), st.integers(1, 4))
@settings(deadline=None, max_examples=300)
def test_compiled_and_interpreted_walk_agree_on_random_bytes(compiled: Walk, noise: bytes, count: int) -> None:
    header = header_for(noise, count)
    assert outcome(lambda: compiled.check(noise, header)) == outcome(lambda: INTERPRETED_WALK.check(noise, header))
    assert outcome(lambda: rows(compiled, noise, header)) == outcome(lambda: rows(INTERPRETED_WALK, noise, header))


def test_summary(walk: Walk) -> None:
    records = [Record(b"k", b"v", 10), Record(None, b"v", 30), Record(b"k", None, -1), Record(None, None, 20)]
    data = build_batch(records, compression=Compression.LZ4)
    header = parse_header(data)
    payload = records_payload(data, header)
    assert walk.check(payload, header) == RecordsSummary(30, True, 0)
    assert walk.check(payload, header, keys_required=True).rejected_records == 2
    # A record without a timestamp is never out of bounds; one that lacks a key and is late counts once.
    assert walk.check(payload, header, earliest=15, latest=25).rejected_records == 2
    assert walk.check(payload, header, earliest=15, latest=25, keys_required=True).rejected_records == 3


def test_non_consecutive_offsets_are_reported(walk: Walk) -> None:
    payload = bytearray(records_payload(data := build_batch([Record(b"k", b"v")] * 2), parse_header(data)))
    payload[len(payload) // 2 + 3] = 4  # the second record's offset delta: 2 instead of 1
    assert walk.check(payload, header_for(payload, 2)).offsets_consecutive is False


def test_batches_longer_than_the_columns(walk: Walk) -> None:
    count = 40_000
    data = build_batch([Record(b"%d" % i, b"", i) for i in range(count)])
    header = parse_header(data)
    payload = records_payload(data, header)
    seen = 0
    for columns in walk.columns(payload, header):
        assert int(columns.offset_deltas[0]) == seen
        start, length = int(columns.key_starts[0]), int(columns.key_lengths[0])
        assert bytes(payload[start : start + length]) == b"%d" % seen
        seen += columns.count
    assert seen == count


def test_empty_batch_has_no_records(walk: Walk) -> None:
    header = header_for(b"", 0)
    assert walk.check(b"", header) == RecordsSummary(-1, True, 0)
    assert rows(walk, b"", header) == []
    with pytest.raises(InvalidRecords):
        walk.check(b"", header_for(b"", 1))
    with pytest.raises(InvalidRecords):
        rows(walk, b"", header_for(b"", 1))


def test_small_batches_do_not_load_the_compiler() -> None:
    compiled_walk.cache_clear()
    assert thread_walk(10) is INTERPRETED_WALK
    compiled_walk()
    assert thread_walk(10).is_compiled == (compiled_walk() is not None)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(value: int) -> None:
    output = bytearray()
    write_varint(output, value)
    assert len(output) == varint_size(value)
    assert read_varlong(output, 0, len(output)) == (value, len(output))
    if -(2**31) <= value < 2**31:
        assert read_varint(output, 0, len(output)) == (value, len(output))
    for end in range(len(output)):
        assert read_varlong(output, 0, end)[1] == -1


def test_unterminated_varints_are_rejected() -> None:
    assert read_varint(b"\xff" * 20, 0, 20)[1] == -1
    assert read_varlong(b"\xff" * 20, 0, 20)[1] == -1
    assert read_varint(b"\xff\xff\xff\xff\x7f", 0, 5) == (-(2**31), 5)


@pytest.mark.needs("numba")
@given(RECORDS, st.data())
@settings(deadline=None, max_examples=200)
def test_retained_records_are_unchanged(compiled: Walk, records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records, base_offset=100)
    header = parse_header(batch)
    payload = records_payload(batch, header)
    keep = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    shift = data.draw(st.sampled_from([0, 1, -1, 10_000_000, -(2**40)]))
    expected = [record._replace(offset=100 + i) for i, record in enumerate(records) if keep[i]]
    outputs = []
    for walk in (INTERPRETED_WALK, compiled):
        retention = Retention(walk, payload)
        for columns in walk.columns(payload, header):
            for row in range(columns.count):
                columns.flags[row] = keep[int(columns.offset_deltas[row])]
            retention.add(columns)
        assert retention.kept_records == len(expected)
        assert retention.kept_tombstones == sum(record.value is None for record in expected)
        if expected:
            latest = max(record.timestamp for record in expected)
            assert header.base_timestamp + retention.max_timestamp_delta == latest
        header.record_count = len(expected)
        assert decode_records(retention.payload(), header) == expected
        header.base_timestamp += shift
        assert decode_records(retention.rebased_payload(shift), header) == expected
        header.base_timestamp -= shift
        header.record_count = len(records)
        outputs.append((bytes(retention.payload()), bytes(retention.rebased_payload(shift))))
    assert outputs[0] == outputs[1]
