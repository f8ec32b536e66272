"""`keys_and_values` returns and rejects the same as the general decoder."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.records.batch import BatchHeader, parse_header
from odradek.records.builder import build_batch
from odradek.records.decode import decode_records, keys_and_values, records_payload
from odradek.records.record import InvalidRecords, Record

BYTES = st.none() | st.binary(max_size=10) | st.binary(min_size=55, max_size=200)
RECORDS = st.builds(
    Record,
    BYTES,
    BYTES,
    st.integers(0, 3) | st.integers(0, 2**40),
    st.just(()) | st.tuples(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))),
)


def both(payload: memoryview, header: BatchHeader) -> tuple[object, object]:
    def outcome(read: object) -> object:
        try:
            return read()  # type: ignore[operator]
        except InvalidRecords:
            return "refused"

    return (
        outcome(lambda: keys_and_values(payload, header)),
        outcome(lambda: [(one.offset, one.key, one.value) for one in decode_records(payload, header)]),
    )


@given(st.lists(RECORDS, min_size=1, max_size=80))
def test_keys_and_values_of_built_batches(records: list[Record]) -> None:
    data = build_batch(records, base_offset=1000)
    header = parse_header(data)
    alone, whole = both(records_payload(data, header), header)
    assert alone == whole == [(1000 + place, one.key, one.value) for place, one in enumerate(records)]


@given(st.lists(RECORDS, min_size=1, max_size=5), st.data())
def test_corrupt_records_are_rejected(records: list[Record], chance: st.DataObject) -> None:
    data = build_batch(records)
    header = parse_header(data)
    payload = bytearray(records_payload(data, header))
    for _ in range(chance.draw(st.integers(1, 3))):
        payload[chance.draw(st.integers(0, len(payload) - 1))] = chance.draw(st.integers(0, 255))
    cut = chance.draw(st.integers(0, len(payload)))
    alone, whole = both(memoryview(payload)[:cut], header)
    assert alone == whole


@given(st.binary(max_size=40))
def test_random_bytes_match_the_general_decoder(payload: bytes) -> None:
    header = parse_header(build_batch([Record(b"k", b"v", 0)]))
    alone, whole = both(memoryview(payload), header)
    assert alone == whole
